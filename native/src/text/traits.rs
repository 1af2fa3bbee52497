//! What a text may have: the cheap test before each step, one look-up of each character by its first unit of UTF-16.
//!
//! A trait that is not set is certainly missing. A trait that is set may be a false alarm: a character of two units has
//! the traits of all characters that begin with the same unit. This is part of the definition: a text is simplified if
//! it may have what has a simplified form.

use super::ranges::{IDEOGRAPHS, INVISIBLE, INVISIBLES, PICTURE, PICTURES, Ranges};
use std::ops::RangeInclusive;

/// Of each unit, as bits: the build makes it.
static OF_UNITS: &[u8; 1 << 16] = include_bytes!(concat!(env!("OUT_DIR"), "/traits.bin"));

/// Skin tones of pictures, which are pictures too.
const SKIN: RangeInclusive<u32> = 0x1_f3fb..=0x1_f3ff;

/// What a text may have.
#[derive(Clone, Copy)]
pub struct Traits(u8);

impl Traits {
    /// Those of a text, by its code points.
    #[must_use]
    pub fn of(points: impl Iterator<Item = u32>) -> Self {
        points.fold(Self(0), |seen, point| seen.or(Self::of_point(point)))
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
