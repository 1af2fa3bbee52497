//! Makes the table of what each code point is, and what it becomes when a text is normalised.
//!
//! Which traits a code point has is in `unicode14.txt`. Normalising an assigned code point is the same in every version of
//! Unicode from the one that assigned it on, so any version's tables do.

use std::collections::HashMap;

use caseless::Caseless;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{canonical_combining_class, decompose_canonical, decompose_compatible};

use crate::ranges::HAN;

const POINTS: usize = 0x11_0000;
const BLOCK: usize = 128;

/// Kana, bopomofo, Thai, Lao, Burmese, Khmer, and the ideographs beyond jieba's.
const UNSPACED: [(u32, u32); 13] = [
    (0x3005, 0x3007),
    (0x3040, 0x30ff),
    (0x3100, 0x312f),
    (0x31a0, 0x31ff),
    (0x3400, 0x4dbf),
    (0x9fd6, 0x9fff),
    (0x0e00, 0x0eff),
    (0x1000, 0x109f),
    (0xa9e0, 0xa9ff),
    (0xaa60, 0xaa7f),
    (0x1780, 0x17ff),
    (0x19e0, 0x19ff),
    (0x2_0000, 0x3_ffff),
];
/// Vowels and final consonants of Hangul compose with the syllable before them.
const JAMO: [(u32, u32); 2] = [(0x1161, 0x1175), (0x11a8, 0x11c2)];

/// Bits above the ASCII character that a code point becomes; `text/characters.rs` says what they mean.
const HAN_BIT: u16 = 1 << 7;
const LETTER: u16 = 1 << 8;
const MARK: u16 = 1 << 9;
const DECIMAL: u16 = 1 << 10;
const WHITE: u16 = 1 << 11;
const ANEW: u16 = 1 << 12;
const SAME: u16 = 1 << 13;
const SEPARATES: u16 = 1 << 14;
const NO_SPACES: u16 = 1 << 15;

/// The source of the table: the number of the block of each 128 code points, and the blocks.
pub fn source() -> String {
    let traits = Traits::read();
    let composing = composing();
    let classes: Vec<u16> = (0..POINTS as u32)
        .map(|point| char::from_u32(point).map_or(UNASSIGNED, |one| traits.class(one, &composing)))
        .collect();
    let (mut numbers, mut index, mut blocks) = (HashMap::new(), Vec::new(), Vec::new());
    for block in classes.chunks_exact(BLOCK) {
        let number = *numbers.entry(block).or_insert_with(|| {
            blocks.push(block);
            blocks.len() - 1
        });
        index.push(number);
    }
    let bits = [
        ("HAN_BIT", HAN_BIT),
        ("LETTER", LETTER),
        ("MARK", MARK),
        ("DECIMAL", DECIMAL),
        ("WHITE", WHITE),
        ("ANEW", ANEW),
        ("SAME", SAME),
        ("SEPARATES", SEPARATES),
        ("NO_SPACES", NO_SPACES),
        ("UNASSIGNED", UNASSIGNED),
    ];
    let lines = bits.iter().map(|(name, bit)| format!("const {name}: u16 = {bit};"));
    let bits = lines.collect::<Vec<_>>().join("\n");
    format!(
        "{bits}\nconst BLOCK: usize = {BLOCK};\nstatic INDEX: [u16; {}] = {index:?};\nstatic BLOCKS: [[u16; BLOCK]; {}] = {blocks:?};\n",
        index.len(),
        blocks.len(),
    )
}

/// What Unicode 14 does not know becomes a space, and is no white space: no other character is so.
const UNASSIGNED: u16 = b' ' as u16 | ANEW | SEPARATES;

struct Traits {
    assigned: Vec<bool>,
    alphanumeric: Vec<bool>,
    decimal: Vec<bool>,
    mark: Vec<bool>,
    white: Vec<bool>,
}

impl Traits {
    fn read() -> Self {
        Self {
            assigned: flags("assigned"),
            alphanumeric: flags("alphanumeric"),
            decimal: flags("decimal"),
            mark: flags("mark"),
            white: flags("white"),
        }
    }

    fn class(&self, one: char, composing: &[bool]) -> u16 {
        let point = one as usize;
        if !self.assigned[point] {
            return UNASSIGNED;
        }
        let becomes: String = std::iter::once(one).nfkc().default_case_fold().nfkc().collect();
        let mut class = 0;
        if HAN.contains(&(one as u32)) {
            class |= HAN_BIT;
        } else if self.alphanumeric[point] {
            class |= LETTER;
        }
        let has = |bit, flag| if flag { bit } else { 0 };
        class |= has(MARK, self.mark[point]) | has(DECIMAL, self.decimal[point]) | has(WHITE, self.white[point]);
        class |= has(NO_SPACES, UNSPACED.iter().any(|(first, last)| (*first..=*last).contains(&(one as u32))));
        let begins_anew = |text: &str| {
            let mut first = None;
            text.chars().take(1).for_each(|one| decompose_compatible(one, |part| first = first.or(Some(part))));
            first.is_some_and(|first| canonical_combining_class(first) == 0 && !composing[first as usize])
        };
        let is_anew = begins_anew(&one.to_string()) && begins_anew(&becomes);
        let separates = |one: char| !(self.alphanumeric[one as usize] || self.mark[one as usize]);
        class |= has(ANEW, is_anew);
        class |= has(SAME, becomes.chars().eq([one]));
        class |= has(SEPARATES, is_anew && becomes.chars().all(separates));
        if let (true, &[ascii @ 1..=0x7f]) = (is_anew, becomes.as_bytes()) {
            class |= u16::from(ascii);
        }
        assert_ne!(class, UNASSIGNED, "{one:?} is assigned");
        class
    }
}

/// The words of a line of the table of properties.
pub fn unicode14(name: &str) -> impl Iterator<Item = &'static str> {
    let mut lines = include_str!("unicode14.txt").lines().filter_map(|line| line.split_once(' '));
    lines.find(|(property, _)| *property == name).expect("a property").1.split(' ')
}

/// Which code points have a property.
pub fn flags(name: &str) -> Vec<bool> {
    let runs = unicode14(name).map(|digits| usize::from_str_radix(digits, 36).expect("a length"));
    let mut flags = Vec::with_capacity(POINTS);
    for (run, length) in runs.enumerate() {
        flags.resize(flags.len() + length, run % 2 == 1);
    }
    assert_eq!(flags.len(), POINTS, "the runs of {name} are those of all code points");
    flags
}

/// Which code points may compose with the one before them.
pub fn composing() -> Vec<bool> {
    let mut flags = vec![false; POINTS];
    for one in (0..POINTS as u32).filter_map(char::from_u32) {
        let (mut parts, mut last) = (0, None);
        decompose_canonical(one, |part| {
            parts += 1;
            last = Some(part);
        });
        if let Some(last) = last.filter(|_| parts > 1) {
            flags[last as usize] = true;
        }
    }
    for point in JAMO.iter().flat_map(|(first, last)| *first..=*last) {
        flags[point as usize] = true;
    }
    flags
}
