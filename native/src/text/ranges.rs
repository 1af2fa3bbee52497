//! Ranges of characters: the ideographs that jieba knows, and what the steps before NFKC look for; and the bits of the
//! tables that the build makes of them and of Unicode 14.

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

/// Code points of a block of the table of classes.
pub const BLOCK: usize = 128;
/// The bits of a class, above the ASCII character that a character becomes; [`super::characters`] says what they mean.
pub const HAN_BIT: u16 = 1 << 7;
pub const LETTER: u16 = 1 << 8;
pub const MARK: u16 = 1 << 9;
pub const DECIMAL: u16 = 1 << 10;
pub const WHITE: u16 = 1 << 11;
pub const ANEW: u16 = 1 << 12;
pub const SAME: u16 = 1 << 13;
pub const SEPARATES: u16 = 1 << 14;
pub const NO_SPACES: u16 = 1 << 15;
/// What Unicode 14 does not know becomes a space, and is no white space: no other character is so.
pub const UNASSIGNED: u16 = b' ' as u16 | ANEW | SEPARATES;

/// The bits of the traits of a unit of UTF-16: characters that nobody sees.
pub const INVISIBLES: u8 = 1;
/// Pictures.
pub const PICTURES: u8 = 1 << 1;
/// Ideographs or kana of the first plane; never a false alarm.
pub const IDEOGRAPHS: u8 = 1 << 2;
/// Full-width letters, digits or signs that addresses have.
pub const WIDES: u8 = 1 << 3;
/// Characters that have a simplified form by themselves.
pub const TRADITIONAL: u8 = 1 << 4;
/// Characters that begin a phrase of `OpenCC`.
pub const FIRST: u8 = 1 << 5;
/// Characters that are folded.
pub const FOLDED: u8 = 1 << 6;
/// Marks that combine with letters of any script.
pub const COMBINING: u8 = 1 << 7;
