//! Ranges of characters: the ideographs that jieba knows, and what the steps before NFKC look for.
//!
//! The build makes tables of them, too.

use std::ops::RangeInclusive;

/// Characters that are no more than one of these ranges.
pub type Ranges = [RangeInclusive<u32>];

/// The ideographs that jieba knows.
pub const HAN: RangeInclusive<u32> = 0x4e00..=0x9fd5;
/// How many they are.
pub const HAN_COUNT: usize = (*HAN.end() - *HAN.start() + 1) as usize;
/// Unicode's default ignorable characters, and control characters that are no white space.
pub const INVISIBLE: &Ranges = &[
    0x0000..=0x0008,
    0x000e..=0x001b,
    0x007f..=0x0084,
    0x0086..=0x009f,
    0x00ad..=0x00ad,
    0x034f..=0x034f,
    0x061c..=0x061c,
    0x115f..=0x1160,
    0x17b4..=0x17b5,
    0x180b..=0x180f,
    0x200b..=0x200f,
    0x202a..=0x202e,
    0x2060..=0x206f,
    0x3164..=0x3164,
    0xfe00..=0xfe0f,
    0xfeff..=0xfeff,
    0xffa0..=0xffa0,
    0xfff0..=0xfff8,
    0xe_0000..=0xe_0fff,
];
/// Emoji and dingbats.
pub const PICTURE: &Ranges = &[
    0x2600..=0x2775,
    0x2794..=0x27bf,
    0x2b1b..=0x2b1c,
    0x2b50..=0x2b50,
    0x2b55..=0x2b55,
    0x1_f000..=0x1_f0ff,
    0x1_f1e6..=0x1_f1ff,
    0x1_f201..=0x1_faff,
];
/// Han and kana: scripts that are written without spaces, and have no spaces between sentences either (Thai has).
pub const IDEOGRAPH: &Ranges = &[0x3005..=0x3007, 0x3041..=0x3096, 0x30a1..=0x30fa, 0x30fc..=0x30fe, 0x3400..=0x9fff];
/// Full-width forms of ASCII's characters.
pub const FULL_WIDTH: RangeInclusive<u32> = 0xff01..=0xff5e;
/// Full-width punctuation, which stays as it is.
const WIDE_SIGNS: &str = "！，：；？（）［］｛｝＂＇～";

/// Whether a character is a full-width letter, digit or sign that addresses have.
#[must_use]
pub fn is_wide(point: u32) -> bool {
    FULL_WIDTH.contains(&point) && !WIDE_SIGNS.chars().any(|sign| sign as u32 == point)
}
