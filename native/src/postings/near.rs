//! Near: whether an entry is near an article. Every comparison of the product ends here.
//!
//! An article's **sieve** takes the key word of an entry, the one that has the block of the look-up, before the rest of
//! the entry is read. The **check** takes its signature and its sketch.

use multiversion::multiversion;

use super::rows::Row;

/// Words of a signature.
pub const WORDS: usize = 4;
/// Most words of a sketch, its form included.
pub const SKETCH_WORDS: usize = 4;
/// Keys that the sieve compares at once.
pub const LANES: usize = 16;
/// The part of a form that is the frame of the text; the rest are its numbers.
pub const FRAME: u64 = 0xFFFF_FFFF;

const VALUES_PER_WORD: u32 = 16;
const LOWEST_BITS: u64 = 0x1111_1111_1111_1111;

/// What an entry must have to be near; the same for all articles of a query but for `reach` and `least_equal`.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Whether the distance is that of the signatures; else it is that of the first word, and nothing else is checked.
    pub directed: bool,
    /// Whether sketches are compared.
    pub compares: bool,
    /// Words of the sketch that have values.
    pub value_words: usize,
    /// Whether the word behind them is a form.
    pub has_form: bool,
    /// Greatest distance at which the values of the sketches are not compared.
    pub certain: i32,
    /// Distance beyond which `far_equal` values must be equal.
    pub far: i32,
    /// Values that must be equal beyond `far`.
    pub far_equal: i32,
    /// Greatest distance of an entry whose form has the same frame and other numbers.
    pub form_limit: i32,
}

/// An article, as it is compared.
#[derive(Clone, Copy, Debug)]
pub struct Article {
    /// Key words, which have the blocks.
    pub keys: [u64; WORDS],
    /// Words of the signature.
    pub words: [u64; WORDS],
    /// Values of the sketch, then its form.
    pub sketch: [u64; SKETCH_WORDS],
    /// Of each key word the bits that the sieve counts, and those that it counts again.
    pub sure: [[u64; 2]; WORDS],
    /// The greatest count that passes the sieve.
    pub sieve: u32,
    /// Greatest distance.
    pub reach: i32,
    /// Values of the sketches that must be equal.
    pub least_equal: i32,
    /// Hash of what an entry must be of: kind of text and scope.
    pub group: u64,
    /// Log time before which entries have expired.
    pub oldest: i64,
    /// The article id that an entry must have, as a hash; none: any.
    pub own_id: Option<u64>,
    /// First document number that does not exist for it.
    pub before: u64,
}

impl Article {
    /// Give the numbers of the keys from `begin` to `end` that pass the sieve of a word, the last one first, and their
    /// distances. What lies behind `end` is read too, where it is there, and left out.
    pub fn sieve(&self, word: usize, keys: &[u64], (begin, end): (usize, usize), mut passes: impl FnMut(usize, u32)) {
        let [once, twice] = self.sure[word];
        let mut last = end;
        while last > begin {
            let first = last.saturating_sub(LANES).max(begin);
            let mut rest = [0; LANES];
            let some = keys[first..].first_chunk().unwrap_or_else(|| {
                rest[..last - first].copy_from_slice(&keys[first..last]);
                &rest
            });
            let mut lanes = passing(some, self.keys[word], once, twice, self.sieve) & ((1 << (last - first)) - 1);
            while lanes != 0 {
                let lane = lanes.ilog2() as usize;
                passes(first + lane, (keys[first + lane] ^ self.keys[word]).count_ones());
                lanes ^= 1 << lane;
            }
            last = first;
        }
    }

    /// The distance of an entry that is near by its row; none if it is not.
    #[must_use]
    pub fn distance(&self, row: Row<'_>, key_distance: u32, limits: &Limits) -> Option<u32> {
        if !limits.directed {
            return Some(key_distance);
        }
        let distance = distance(&self.words, row.signature());
        let is_near = distance as i32 <= self.reach
            && (!limits.compares || self.is_confirmed(limits, distance as i32, row.sketch()));
        is_near.then_some(distance)
    }

    /// Whether the form and the values of a sketch allow an entry at this distance to be near.
    fn is_confirmed(&self, limits: &Limits, distance: i32, sketch: &[u64]) -> bool {
        let words = limits.value_words;
        if limits.has_form && distance > limits.form_limit && have_other_numbers(self.sketch[words], sketch[words]) {
            return false;
        }
        if distance <= limits.certain {
            return true;
        }
        let least = if distance > limits.far { self.least_equal.max(limits.far_equal) } else { self.least_equal };
        equal_values(&self.sketch[..words], &sketch[..words]) as i32 >= least
    }
}

/// The number of bits in which two signatures differ.
#[must_use]
pub fn distance(one: &[u64], other: &[u64]) -> u32 {
    one.iter().zip(other).map(|(one, other)| (one ^ other).count_ones()).sum()
}

/// How many values of 4 bits two sketches share.
#[must_use]
pub fn equal_values(one: &[u64], other: &[u64]) -> u32 {
    let equal = |(one, other): (&u64, &u64)| {
        let apart = one ^ other;
        let apart = apart | apart >> 1;
        VALUES_PER_WORD - ((apart | apart >> 2) & LOWEST_BITS).count_ones()
    };
    one.iter().zip(other).map(equal).sum()
}

/// Whether texts of two forms have one frame, and numbers that differ. A form without a frame is of no text.
#[must_use]
pub fn have_other_numbers(one: u64, other: u64) -> bool {
    let apart = one ^ other;
    one & FRAME != 0 && apart & FRAME == 0 && apart != 0
}

/// Which of some keys pass, the first one in the lowest bit: the bits of `once` and of `twice` that differ are `most`
/// at most.
#[multiversion(targets("x86_64+avx2+popcnt"))]
fn passing(keys: &[u64; LANES], mine: u64, once: u64, twice: u64, most: u32) -> u32 {
    let passes =
        keys.map(|key| u8::from(((key ^ mine) & once).count_ones() + ((key ^ mine) & twice).count_ones() <= most));
    let (low, high) = passes.split_at(LANES / 2);
    bits_of(low) | bits_of(high) << (LANES / 2)
}

/// The bits of eight bytes that are 0 or 1. The factor moves each byte's bit to its place in the highest byte.
fn bits_of(bytes: &[u8]) -> u32 {
    let word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    (word.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}
