//! Grams, the features of short text: of words the trigrams of letters, of all other units these and their pairs.
//!
//! A space joins a pair; a word stands between the units before and after it. The trigrams of a word are every run of three
//! characters of it between two `_`. A number is taken whole: a letter that is wrong leaves most of a word as it was, but
//! another digit makes another number.

use std::collections::HashMap;

use super::units::Units;
use super::weights::Weigher;
use super::{Feature, Weighed};
use crate::signature::sums::feature_hash;
use crate::text::characters::han_number;
use crate::text::numbers::is_number;

/// A gram but a number: up to three characters of 21 bits, and which kind it is.
type Key = u64;
const POINT_BITS: u32 = 21;
const POINT: u64 = (1 << POINT_BITS) - 1;
const PAIR: Key = 1 << (2 * POINT_BITS);
const TRIGRAM: Key = 1 << (3 * POINT_BITS);
const BOUND: u64 = '_' as u64;

/// Most bytes of the name of a gram but a number.
const NAME_BYTES: usize = 12;

/// The grams of one text; cleared and filled for each.
#[derive(Default)]
pub struct Grams {
    keys: Vec<Key>,
    counted: Vec<(Key, u64)>,
    numbers: HashMap<String, u64>,
}

impl Grams {
    /// Counts the grams of a part of a text, each so many times.
    pub fn add(&mut self, units: &Units, times: u64) {
        self.keys.clear();
        let mut before = None;
        for (unit, is_word) in units.iter() {
            if is_word {
                self.add_word(unit, times);
                before = None;
            } else {
                let one = unit.chars().next().map_or(0, u64::from);
                self.keys.push(one);
                if let Some(before) = before {
                    self.keys.push(PAIR | before << POINT_BITS | one);
                }
                before = Some(one);
            }
        }
        self.keys.sort_unstable();
        let counted = self.keys.chunk_by(|one, other| one == other);
        self.counted.extend(counted.map(|same| (same[0], (same.len() as u64).saturating_mul(times))));
    }

    fn add_word(&mut self, word: &str, times: u64) {
        if is_number(word) {
            let count = self.numbers.entry(format!("_{word}_")).or_default();
            *count = count.saturating_add(times);
            return;
        }
        let mut last = (BOUND, None);
        for one in word.chars().map(u64::from).chain([BOUND]) {
            if let (first, Some(second)) = last {
                self.keys.push(TRIGRAM | first << (2 * POINT_BITS) | second << POINT_BITS | one);
                last = (second, Some(one));
            } else {
                last.1 = Some(one);
            }
        }
    }

    /// Weighs the grams, and forgets them. `features` gets them by name, where they are asked for.
    pub fn weigh(
        &mut self,
        weigher: &Weigher,
        seed: u64,
        weighed: &mut Weighed,
        mut features: Option<&mut Vec<Feature>>,
    ) {
        weighed.clear();
        let mut add = |name: &[u8], class: usize, count: u64| {
            let (weight, hash) = (weigher.weight(weigher.idf_of_gram(class), count), feature_hash(name, seed));
            weighed.add(weight, hash);
            if let Some(features) = &mut features {
                let name = String::from_utf8(name.to_vec()).expect("whole characters");
                features.push(Feature { name, count, weight: u64::from(weight), hash });
            }
        };
        // Of several parts one gram may be there several times.
        self.counted.sort_unstable();
        for same in self.counted.chunk_by(|one, other| one.0 == other.0) {
            let count = same.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
            let (mut name, class) = ([0; NAME_BYTES], class_of(same[0].0));
            let size = name_of(same[0].0, &mut name);
            add(&name[..size], class, count);
        }
        self.counted.clear();
        for (name, count) in self.numbers.drain() {
            add(name.as_bytes(), TRIGRAM_CLASS, count);
        }
    }
}

const TRIGRAM_CLASS: usize = 4;

/// What a gram is, in the order of the settings' weights.
fn class_of(key: Key) -> usize {
    let is_han = |point: u64| char::from_u32(point as u32).and_then(han_number).is_some();
    if key & TRIGRAM != 0 {
        TRIGRAM_CLASS
    } else if key & PAIR != 0 {
        if is_han(key >> POINT_BITS & POINT) && is_han(key & POINT) { 1 } else { 3 }
    } else if is_han(key) {
        0
    } else {
        2
    }
}

/// Writes the name of a gram; returns its size.
fn name_of(key: Key, name: &mut [u8; NAME_BYTES]) -> usize {
    let points = if key & TRIGRAM != 0 {
        [Some(key >> (2 * POINT_BITS) & POINT), Some(key >> POINT_BITS & POINT), Some(key & POINT)]
    } else if key & PAIR != 0 {
        [Some(key >> POINT_BITS & POINT), Some(u64::from(b' ')), Some(key & POINT)]
    } else {
        [Some(key), None, None]
    };
    points.into_iter().flatten().fold(0, |size, point| {
        let one = char::from_u32(point as u32).expect("the point of a character");
        size + one.encode_utf8(&mut name[size..]).len()
    })
}
