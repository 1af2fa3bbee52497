//! What a text may have if it has a unit of UTF-16: the cheap test before each step (`src/text/traits.rs`).

use crate::folding::Folding;
use crate::opencc::Conversion;
use crate::ranges::{
    COMBINING, FIRST, FOLDED, FULL_WIDTH, IDEOGRAPH, IDEOGRAPHS, INVISIBLE, INVISIBLES, PICTURE, PICTURES, Ranges,
    TRADITIONAL, WIDES, is_wide,
};

const UNITS: usize = 1 << 16;
const RANGES: [(u8, &Ranges); 3] = [(INVISIBLES, INVISIBLE), (PICTURES, PICTURE), (IDEOGRAPHS, IDEOGRAPH)];

/// Returns the traits of each unit, as bits; the first unit of a pair has those of the characters that begin with it.
pub fn of_units(conversion: &Conversion, folding: &Folding) -> Vec<u8> {
    let mut traits = vec![0; UNITS];
    for (bit, ranges) in RANGES {
        for range in ranges {
            traits[unit(*range.start())..=unit(*range.end())].iter_mut().for_each(|one| *one |= bit);
        }
    }
    for point in FULL_WIDTH.filter(|&point| is_wide(point)) {
        traits[unit(point)] |= WIDES;
    }
    for point in conversion.simplifiable() {
        traits[unit(point)] |= TRADITIONAL;
    }
    for point in conversion.firsts() {
        traits[unit(point)] |= FIRST;
    }
    let (folded, combining) = folding.points();
    folded.for_each(|point| traits[unit(point)] |= FOLDED);
    combining.for_each(|point| traits[unit(point)] |= COMBINING);
    traits
}

/// The first unit of a character.
fn unit(point: u32) -> usize {
    let unit = if point < 0x1_0000 { point } else { 0xd800 + ((point - 0x1_0000) >> 10) };
    unit as usize
}
