//! Makes the table of what each code point is, and what it becomes when a text is normalised.
//!
//! Which traits a code point has is in `unicode14.txt`. Normalising an assigned code point is the same in every version of
//! Unicode from the one that assigned it on, so any version's tables do.

use std::collections::HashMap;

use caseless::Caseless;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{canonical_combining_class, decompose_canonical, decompose_compatible};

use crate::ranges::{ANEW, BLOCK, DECIMAL, HAN, HAN_BIT, LETTER, MARK, NO_SPACES, SAME, SEPARATES, UNASSIGNED, WHITE};

const POINTS: usize = 0x11_0000;

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

/// The source of the table: the number of the block of each 128 code points, and the blocks.
pub fn source() -> String {
    let [assigned, alphanumeric, decimal, mark, white] =
        ["assigned", "alphanumeric", "decimal", "mark", "white"].map(flags);
    let traits = [&*alphanumeric, &decimal, &mark, &white, &composing()];
    let classes: Vec<u16> = (0..POINTS as u32)
        .map(|point| {
            char::from_u32(point).filter(|_| assigned[point as usize]).map_or(UNASSIGNED, |one| class(one, traits))
        })
        .collect();
    let (mut numbers, mut index, mut blocks) = (HashMap::new(), Vec::new(), Vec::new());
    for block in classes.chunks_exact(BLOCK) {
        let number = *numbers.entry(block).or_insert_with(|| {
            blocks.push(block);
            blocks.len() - 1
        });
        index.push(number);
    }
    format!(
        "static INDEX: [u16; {}] = {index:?};\nstatic BLOCKS: [[u16; BLOCK]; {}] = {blocks:?};\n",
        index.len(),
        blocks.len(),
    )
}

/// The class of an assigned character.
fn class(one: char, [alphanumeric, decimal, mark, white, composing]: [&[bool]; 5]) -> u16 {
    let point = one as usize;
    let becomes: String = std::iter::once(one).nfkc().default_case_fold().nfkc().collect();
    let begins_anew = |text: &str| {
        let mut first = None;
        text.chars().take(1).for_each(|one| decompose_compatible(one, |part| first = first.or(Some(part))));
        first.is_some_and(|first| canonical_combining_class(first) == 0 && !composing[first as usize])
    };
    let is_anew = begins_anew(&one.to_string()) && begins_anew(&becomes);
    let separates = |one: char| !(alphanumeric[one as usize] || mark[one as usize]);
    let is_han = HAN.contains(&(one as u32));
    let traits = [
        (HAN_BIT, is_han),
        (LETTER, !is_han && alphanumeric[point]),
        (MARK, mark[point]),
        (DECIMAL, decimal[point]),
        (WHITE, white[point]),
        (NO_SPACES, UNSPACED.iter().any(|(first, last)| (*first..=*last).contains(&(one as u32)))),
        (ANEW, is_anew),
        (SAME, becomes.chars().eq([one])),
        (SEPARATES, is_anew && becomes.chars().all(separates)),
    ];
    let mut class = traits.into_iter().filter(|(_, has)| *has).fold(0, |class, (bit, _)| class | bit);
    if let (true, &[ascii @ 1..=0x7f]) = (is_anew, becomes.as_bytes()) {
        class |= u16::from(ascii);
    }
    assert_ne!(class, UNASSIGNED, "{one:?} is assigned");
    class
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
