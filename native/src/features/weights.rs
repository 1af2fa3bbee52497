//! Weights of features, as whole numbers.
//!
//! A word that occurs n times in a text weighs n; or a level of 1 to 5 by its IDF alone; or its IDF times n, or times
//! 1 + d ln n, in units of 1/64.
//!
//! IDF is jieba's table. Where that alone is the source, a word that is not in it has the table's median, as in jieba;
//! stop words and single characters that are not in it have its least. Where other languages have an IDF of their own, it
//! depends on the length of the word: frequent words are short in every language (Zipf's law of abbreviation): 2, and 1
//! more for each character, at most 12; stop words have 0.1, other function words 2; numbers have 32, those of one digit
//! 12, because texts from one template may differ in numbers only; words of ideographs that are not in the table have
//! 5, and single ideographs its least.
//!
//! The weights are the same on every machine: IDF and 1 + ln n are rounded to fixed point once, and the rest is
//! whole-number arithmetic.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::segment::dictionary::{DICTIONARY, Dictionary, jieba};
use crate::settings::{FeatureKind, Features, IdfSource, Weights};
use crate::text::characters::{HAN_BYTES, han_number};
use crate::text::numbers::is_number;
use crate::text::ranges::HAN;

/// IDF of 1.
const UNIT: u32 = 1024;
const HAN_UNKNOWN: u32 = 5 * UNIT;
const DIGIT: u32 = 12 * UNIT;
const NUMBER: u32 = 32 * UNIT;
const NOISE: u32 = UNIT / 10;
const COMMON: u32 = 2 * UNIT;
const LENGTH_FLOOR: u32 = 2;
const LENGTH_CEILING: u32 = 12;
const LEVEL_EDGES: [u32; 4] = [4 * UNIT, 6 * UNIT, 8 * UNIT, 10 * UNIT];
/// Turns units of 1/1024 times 1/1024 into 1/64: sums of 14,000 different words stay below 2^24.
const SHIFT: u32 = 14;
/// Weights of grams of lower counts, which most are, stand in a table.
pub(super) const FEW: usize = 16;
/// Counts above this are taken as this: they are spam of one word, and squares of weights stay within 63 bits.
const MAX_COUNT: u64 = 65_535;

/// jieba's English stop words.
pub const STOP_WORDS: [&str; 31] = [
    "the", "of", "is", "and", "to", "in", "that", "we", "for", "an", "are", "by", "be", "as", "on", "with", "can",
    "if", "from", "which", "you", "it", "this", "then", "at", "have", "all", "not", "one", "has", "or",
];

/// Lines of words, and of comments.
pub const COMMON_WORDS: &str = include_str!("common_words.txt");

/// Function words of languages other than Chinese.
pub fn common_words() -> impl Iterator<Item = &'static str> {
    let lines = COMMON_WORDS.lines().map(str::trim);
    lines.filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace)
}

/// The IDF of function words.
pub(crate) static LISTED: LazyLock<HashMap<&str, u32>> = LazyLock::new(|| {
    let common = common_words().map(|word| (word, COMMON));
    common.chain(STOP_WORDS.map(|word| (word, NOISE))).collect()
});

/// Weighs the features of texts of one kind.
#[derive(Clone, Debug)]
pub struct Weigher {
    features: Features,
    /// What a gram has in place of an IDF, by its class: those of the settings, in their order.
    gram_idf: [u32; 5],
    /// The weight of a gram, by its class and a count below [`FEW`].
    gram_weights: [[u32; FEW]; 5],
}

impl Weigher {
    /// Weighs as these settings say.
    #[must_use]
    pub fn new(features: &Features) -> Self {
        let gram_idf = features.gram_weights.map(|weight| weight as u32 * UNIT / 100);
        let mut made = Self { features: features.clone(), gram_idf, gram_weights: [[0; FEW]; 5] };
        made.gram_weights = gram_idf.map(|idf| std::array::from_fn(|count| made.weight(idf, count as u64)));
        made
    }

    /// What it weighs as.
    #[must_use]
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// The IDF of a feature, or what replaces it.
    #[must_use]
    pub fn idf(&self, name: &str) -> u32 {
        if self.features.kind == FeatureKind::Chars {
            return self.gram_idf[class_of_gram(name)];
        }
        let node =
            DICTIONARY.codes_of(name).filter(|codes| !codes.is_empty()).and_then(|codes| DICTIONARY.find(&codes));
        self.rooted(match node.and_then(|node| DICTIONARY.idf(node)) {
            Some(idf) => idf,
            None if self.features.idf == IdfSource::Languages => idf_of_languages(name),
            None if name.chars().nth(1).is_none() || STOP_WORDS.contains(&name) => jieba::LEAST_IDF,
            None => jieba::MEDIAN_IDF,
        })
    }

    /// The same of a word of ideographs, by its node.
    #[must_use]
    pub fn idf_of_node(&self, dictionary: &Dictionary, node: u32, name: &str) -> u32 {
        if self.features.kind == FeatureKind::Chars {
            return self.idf(name);
        }
        let is_alone = name.len() == HAN_BYTES;
        self.rooted(match dictionary.idf(node) {
            Some(idf) => idf,
            None if is_alone => jieba::LEAST_IDF,
            None if self.features.idf == IdfSource::Languages => HAN_UNKNOWN,
            None => jieba::MEDIAN_IDF,
        })
    }

    /// The weight of a gram that occurs so often: of an ideograph, a pair of ideographs, another character, another pair, a
    /// trigram.
    #[must_use]
    #[inline]
    pub fn weight_of_gram(&self, class: usize, count: u64) -> u32 {
        let known = self.gram_weights[class].get(count as usize);
        known.copied().unwrap_or_else(|| self.weight(self.gram_idf[class], count))
    }

    fn rooted(&self, idf: u32) -> u32 {
        // Exact: the root of a number below 2^50 is rounded to a whole number only where it is one. The root of 1024 times
        // 1024 is 1024: the unit stays.
        if self.features.root { (f64::from(idf) * f64::from(UNIT)).sqrt() as u32 } else { idf }
    }

    /// The weight of a feature that occurs so often in a text; at least 1 but for a count of 0.
    #[must_use]
    pub fn weight(&self, idf: u32, count: u64) -> u32 {
        let count = count.min(MAX_COUNT);
        let times = match self.features.weights {
            Weights::Count => return count as u32,
            Weights::Level => return 1 + LEVEL_EDGES.iter().filter(|edge| **edge <= idf).count() as u32,
            Weights::CountIdf if self.features.damped => {
                u64::from(UNIT) + u64::from(self.features.damping) * u64::from(one_and_log(count as u32) - UNIT)
            }
            Weights::CountIdf => count * u64::from(UNIT),
        };
        ((u64::from(idf) * times) >> SHIFT).max(1) as u32
    }
}

/// [`one_and_log`] of small counts.
pub(crate) static ONE_AND_LOG: LazyLock<[u32; 256]> =
    LazyLock::new(|| std::array::from_fn(|count| rounded_log(count as u32)));

/// 1 + ln `count` in units of 1/1024.
fn one_and_log(count: u32) -> u32 {
    ONE_AND_LOG.get(count as usize).copied().unwrap_or_else(|| rounded_log(count))
}

fn rounded_log(count: u32) -> u32 {
    (f64::from(UNIT) * (1.0 + f64::from(count.max(1)).ln()) + 0.5).floor() as u32
}

fn idf_of_languages(word: &str) -> u32 {
    let size = word.chars().count() as u32;
    if word.starts_with(|first| han_number(first).is_some()) {
        return if size == 1 { jieba::LEAST_IDF } else { HAN_UNKNOWN };
    }
    if is_number(word) {
        return if size == 1 { DIGIT } else { NUMBER };
    }
    LISTED.get(word).copied().unwrap_or((LENGTH_FLOOR + size).min(LENGTH_CEILING) * UNIT)
}

/// The class of a trigram, or of a number; those of the other grams are below it.
pub(super) const TRIGRAM_CLASS: usize = 4;

/// The class of a unit or of a pair: 0 of an ideograph, 1 of a pair of ideographs, 2 of another character, 3 of another pair.
pub(super) fn class_of_units(unit: u32, second: Option<u32>) -> usize {
    let are_han = HAN.contains(&unit) && second.is_none_or(|second| HAN.contains(&second));
    usize::from(second.is_some()) + if are_han { 0 } else { 2 }
}

/// The class of a gram, by its name.
fn class_of_gram(gram: &str) -> usize {
    let mut characters = gram.chars();
    match (characters.next(), characters.next(), characters.next()) {
        (Some(unit), None, _) => class_of_units(unit.into(), None),
        (Some(first), Some(' '), Some(second)) => class_of_units(first.into(), Some(second.into())),
        _ => TRIGRAM_CLASS,
    }
}
