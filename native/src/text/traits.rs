//! What a text may have: the cheap test before each step, one look-up of each character by its first unit of UTF-16.
//!
//! A trait that is not set is certainly missing. A trait that is set may be a false alarm: a character of two units has
//! the traits of all characters that begin with the same unit. This is part of the definition: a text is simplified if
//! it may have what has a simplified form.

use super::halves::Text;
use super::points;
use super::ranges::{INVISIBLE, PICTURE, Ranges};
use std::ops::RangeInclusive;

/// Of each unit, as bits: the build makes it.
static OF_UNITS: &[u8; 1 << 16] = include_bytes!(concat!(env!("OUT_DIR"), "/traits.bin"));

/// Characters that nobody sees.
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
/// Skin tones of pictures, which are pictures too.
const SKIN: RangeInclusive<u32> = 0x1_f3fb..=0x1_f3ff;

/// What a text may have.
#[derive(Clone, Copy)]
pub struct Traits(u8);

impl Traits {
    /// Those of a text.
    #[must_use]
    pub fn of(text: Text) -> Self {
        let add = |seen: Self, point: u32| seen.or(Self::of_point(point));
        match text {
            Text::Whole(text) => text.chars().map(u32::from).fold(Self(0), add),
            Text::Halves(text) => points::each(text).map(|(_, point)| point).fold(Self(0), add),
        }
    }

    /// Those of a character.
    #[must_use]
    pub fn of_point(point: u32) -> Self {
        let unit = if point < 0x1_0000 { point } else { 0xd800 + (((point - 0x1_0000) >> 10) & 0x3ff) };
        Self(OF_UNITS[unit as usize])
    }

    /// Whether it may have one of these.
    #[must_use]
    pub fn has(self, any: u8) -> bool {
        self.0 & any != 0
    }

    /// Those of either of two texts.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Whether a character is a zero-width character or a control character other than white space.
#[must_use]
pub fn is_invisible(point: u32) -> bool {
    Traits::of_point(point).has(INVISIBLES) && any_has(INVISIBLE, point)
}

/// Whether a character is an emoji or a dingbat.
#[must_use]
pub fn is_picture(point: u32) -> bool {
    Traits::of_point(point).has(PICTURES) && any_has(PICTURE, point)
}

/// Whether a character is the skin tone of a picture.
#[must_use]
pub fn is_skin_tone(point: u32) -> bool {
    SKIN.contains(&point)
}

/// Whether a character is Han or kana of the first plane.
#[must_use]
pub fn is_ideograph(point: u32) -> bool {
    Traits::of_point(point).has(IDEOGRAPHS)
}

fn any_has(ranges: &Ranges, point: u32) -> bool {
    ranges.iter().any(|range| range.contains(&point))
}
