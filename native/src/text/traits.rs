//! What a text may have: the cheap test before each step, one look-up of each character by its first unit of UTF-16.
//!
//! A trait that is not set is certainly missing. A trait that is set may be a false alarm: a character of two units has
//! the traits of all characters that begin with the same unit. This is part of the definition: a text is simplified if
//! it may have what has a simplified form.

use super::points;
use super::ranges::{INVISIBLE, PICTURE, Ranges};
use std::ops::RangeInclusive;

/// Of each unit, as bits: the build makes it.
static OF_UNITS: &[u8; 1 << 16] = include_bytes!(concat!(env!("OUT_DIR"), "/traits.bin"));

const INVISIBLES: u8 = 1;
const PICTURES: u8 = 1 << 1;
const IDEOGRAPHS: u8 = 1 << 2;
const WIDES: u8 = 1 << 3;
const TRADITIONAL: u8 = 1 << 4;
/// The character begins a phrase of `OpenCC`.
const FIRST: u8 = 1 << 5;
const FOLDED: u8 = 1 << 6;
const COMBINING: u8 = 1 << 7;
/// Skin tones of pictures, which are pictures too.
const SKIN: RangeInclusive<u32> = 0x1_f3fb..=0x1_f3ff;

/// What a text may have.
#[derive(Clone, Copy)]
pub struct Traits(u8);

impl Traits {
    /// Those of a text.
    #[must_use]
    pub fn of(text: &[u8]) -> Self {
        let mut seen = 0;
        let mut index = 0;
        while let Some((point, bytes)) = points::at(text, index) {
            seen |= Self::of_point(point).0;
            index += bytes;
        }
        Self(seen)
    }

    fn of_point(point: u32) -> Self {
        let unit = if point < 0x1_0000 { point } else { 0xd800 + (((point - 0x1_0000) >> 10) & 0x3ff) };
        Self(OF_UNITS[unit as usize])
    }

    /// Whether it may have characters that nobody sees.
    #[must_use]
    pub fn has_invisible(self) -> bool {
        self.0 & INVISIBLES != 0
    }

    /// Whether it may have pictures.
    #[must_use]
    pub fn has_pictures(self) -> bool {
        self.0 & PICTURES != 0
    }

    /// Whether it has ideographs or kana of the first plane.
    #[must_use]
    pub fn has_ideographs(self) -> bool {
        self.0 & IDEOGRAPHS != 0
    }

    /// Whether it has full-width letters, digits or signs that addresses have.
    #[must_use]
    pub fn has_wide(self) -> bool {
        self.0 & WIDES != 0
    }

    /// Whether it may have characters that are folded.
    #[must_use]
    pub fn has_folded(self) -> bool {
        self.0 & FOLDED != 0
    }

    /// Whether it may have marks that combine with letters of any script.
    #[must_use]
    pub fn has_combining(self) -> bool {
        self.0 & COMBINING != 0
    }

    /// Those of either of two texts.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it may have characters with a simplified form.
    #[must_use]
    pub fn has_traditional(self) -> bool {
        self.0 & TRADITIONAL != 0
    }
}

/// Whether a character is a zero-width character or a control character other than white space.
#[must_use]
pub fn is_invisible(point: u32) -> bool {
    Traits::of_point(point).has_invisible() && any_has(INVISIBLE, point)
}

/// Whether a character is an emoji or a dingbat.
#[must_use]
pub fn is_picture(point: u32) -> bool {
    Traits::of_point(point).has_pictures() && any_has(PICTURE, point)
}

/// Whether a character is the skin tone of a picture.
#[must_use]
pub fn is_skin_tone(point: u32) -> bool {
    SKIN.contains(&point)
}

/// Whether a character is Han or kana of the first plane.
#[must_use]
pub fn is_ideograph(point: u32) -> bool {
    Traits::of_point(point).has_ideographs()
}

/// Whether a character is a full-width letter, digit or sign that addresses have.
#[must_use]
pub fn is_wide(point: u32) -> bool {
    Traits::of_point(point).has_wide()
}

/// Whether a character may be folded.
#[must_use]
pub fn may_be_folded(point: u32) -> bool {
    Traits::of_point(point).has_folded()
}

/// Whether a character may be a mark that combines with letters of any script.
#[must_use]
pub fn may_combine(point: u32) -> bool {
    Traits::of_point(point).has_combining()
}

/// Whether a character may have a simplified form by itself.
#[must_use]
pub fn may_be_simplified(point: u32) -> bool {
    Traits::of_point(point).has_traditional()
}

/// Whether a phrase may begin with a character.
#[must_use]
pub fn begins_phrase(point: u32) -> bool {
    Traits::of_point(point).0 & FIRST != 0
}

fn any_has(ranges: &Ranges, point: u32) -> bool {
    ranges.iter().any(|range| range.contains(&point))
}
