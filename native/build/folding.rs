//! Makes the tables of the step that folds what readers take for the same (`src/text/folding.rs`).
//!
//! Sources:
//!
//! * Unicode 14, as `unicode14.txt` has it: which marks are optional, which combine with letters of any script, which
//!   characters belong to a script of their own, and of the radicals the property `Equivalent_Unified_Ideograph`.
//! * Lucene's `ArabicNormalizer`, `PersianNormalizer`, `RomanianNormalizer` and `UkrainianMorfologikAnalyzer`: letters that
//!   a language writes in two ways. Of these yeh barree stays, which tells one from many in Urdu, and ґ.
//! * The Unicode Standard: ligatures of Yiddish (9.1), consonants without vowels of Bengali (12.2) and Malayalam (12.9)
//!   that were written with a joiner before they became characters, and what stretches words (9.2, 13.5, 19.4).

use std::collections::BTreeMap;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::canonical_combining_class;

use crate::characters::{composing, flags, unicode14};

const LETTERS: [(char, &str); 36] = [
    // What stretches a word: tatweel, lajanyalan and nirugu.
    ('\u{640}', ""),
    ('\u{7fa}', ""),
    ('\u{180a}', ""),
    // Arabic: alef wasla, teh marbuta, alef maksura. Letters with hamza or madda decompose, and lose these marks.
    ('\u{671}', "\u{627}"),
    ('\u{629}', "\u{647}"),
    ('\u{649}', "\u{64a}"),
    // Persian and Urdu: yeh, keheh, heh goal, teh marbuta goal, and the heh that ۀ decomposes into.
    ('\u{6cc}', "\u{64a}"),
    ('\u{6a9}', "\u{643}"),
    ('\u{6c1}', "\u{647}"),
    ('\u{6c3}', "\u{647}"),
    ('\u{6d5}', "\u{647}"),
    // Yiddish: double vav, vav yod, double yod.
    ('\u{5f0}', "\u{5d5}\u{5d5}"),
    ('\u{5f1}', "\u{5d5}\u{5d9}"),
    ('\u{5f2}', "\u{5d9}\u{5d9}"),
    // Romanian: a cedilla for the comma.
    ('\u{15e}', "\u{218}"),
    ('\u{15f}', "\u{219}"),
    ('\u{162}', "\u{21a}"),
    ('\u{163}', "\u{21b}"),
    // Turkish: the case of İ folds to an i with a mark.
    ('\u{130}', "i"),
    // Apostrophes that are letters: of Hawaiian and Ukrainian, of Cyrillic, Arabic and Hebrew in Latin letters, saltillo.
    ('\u{2b9}', "'"),
    ('\u{2bb}', "'"),
    ('\u{2bc}', "'"),
    ('\u{2be}', "'"),
    ('\u{2bf}', "'"),
    ('\u{a78b}', "'"),
    ('\u{a78c}', "'"),
    // Voiced sound marks beside their kana: the half-width ones, which NFKC composes with it.
    ('\u{309b}', "\u{ff9e}"),
    ('\u{309c}', "\u{ff9f}"),
    // Forking, which decomposes into a sign and a stroke that do not compose.
    ('\u{2adc}', "\u{2add}"),
    // Bengali and Malayalam.
    ('\u{9ce}', "\u{9a4}\u{9cd}"),
    ('\u{d7a}', "\u{d23}\u{d4d}"),
    ('\u{d7b}', "\u{d28}\u{d4d}"),
    ('\u{d7c}', "\u{d30}\u{d4d}"),
    ('\u{d7d}', "\u{d32}\u{d4d}"),
    ('\u{d7e}', "\u{d33}\u{d4d}"),
    ('\u{d7f}', "\u{d15}\u{d4d}"),
];

/// Lines over and under letters.
const LINES: [char; 4] = ['\u{305}', '\u{332}', '\u{333}', '\u{33f}'];

pub struct Folding {
    letters: BTreeMap<char, String>,
    combining: Vec<bool>,
    /// What ends a run of characters on which marks say nothing: other scripts, and what Unicode 14 does not know.
    apart: Vec<bool>,
}

impl Folding {
    pub fn read() -> Self {
        let [assigned, mark, optional, combining, mut apart] =
            ["assigned", "mark", "optional", "combining", "apart"].map(flags);
        apart.iter_mut().zip(&assigned).for_each(|(apart, assigned)| *apart |= !assigned);
        let composing = composing();
        let every = || ('\0'..=char::MAX).filter(|&one| assigned[one as usize]);
        // Strokes through letters, lines over and under them, rings and squares around them.
        let is_drawn = |one: char| {
            let is_stroke = canonical_combining_class(one) == 1 && !composing[one as usize];
            combining[one as usize] && (is_stroke || LINES.contains(&one) || !mark[one as usize])
        };
        let mut letters: BTreeMap<char, String> = LETTERS.map(|(one, by)| (one, by.to_owned())).into();
        letters.extend(every().filter(|&one| optional[one as usize] || is_drawn(one)).map(|one| (one, String::new())));
        letters.extend(unified());
        // And what is made of these: presentation forms, letters with hamza.
        let made = every().filter(|one| !letters.contains_key(one)).filter_map(|one| {
            let parts = || std::iter::once(one).nfkd();
            let by: String = parts().map(|part| letters.get(&part).cloned().unwrap_or(part.into())).collect();
            (!parts().eq(by.chars())).then_some((one, by))
        });
        let made: Vec<_> = made.collect();
        letters.extend(made);
        assert!(letters.values().all(|by| !by.chars().any(|one| letters.contains_key(&one))), "folding twice is idle");
        Self { letters, combining, apart }
    }

    /// The characters that are folded, and those that combine with any letter.
    pub fn points(&self) -> (impl Iterator<Item = u32>, impl Iterator<Item = u32>) {
        (
            self.letters.keys().map(|&one| one.into()),
            ranges(&self.combining).into_iter().flat_map(|(first, last)| first..=last),
        )
    }

    /// The source of a table of what characters become, in order, and of two tables of ranges.
    pub fn source(&self) -> String {
        let letters =
            self.letters.iter().map(|(one, by)| format!("('{}', \"{}\")", one.escape_unicode(), by.escape_unicode()));
        let ranges = |flags| -> Vec<String> {
            ranges(flags).into_iter().map(|(first, last)| format!("({}, {})", hex(first), hex(last))).collect()
        };
        table("FOLDED", "(char, &str)", &letters.collect::<Vec<_>>())
            + &table("COMBINING", "(u32, u32)", &ranges(&self.combining))
            + &table("APART", "(u32, u32)", &ranges(&self.apart))
    }
}

fn table(name: &str, kind: &str, entries: &[String]) -> String {
    format!("static {name}: [{kind}; {}] = [{}];\n", entries.len(), entries.join(", "))
}

/// A number as clippy reads it.
fn hex(point: u32) -> String {
    if point < 0x1_0000 { format!("{point:#x}") } else { format!("0x{:x}_{:04x}", point >> 16, point & 0xffff) }
}

/// Radicals and strokes, each with the ideograph that it stands for.
fn unified() -> Vec<(char, String)> {
    let points = unicode14("unified").map(|digits| u32::from_str_radix(digits, 16).ok().and_then(char::from_u32));
    let characters: Vec<char> = points.map(|one| one.expect("a character")).collect();
    characters.chunks_exact(2).map(|pair| (pair[0], pair[1].into())).collect()
}

/// The first and the last one of each run of code points.
fn ranges(flags: &[bool]) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for point in (0..flags.len() as u32).filter(|&point| flags[point as usize]) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == point => *last = point,
            _ => ranges.push((point, point)),
        }
    }
    ranges
}
