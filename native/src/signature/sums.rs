//! Sums of weights over the bits of hashes, and the signature and the margins that they make (`SimHash`, Charikar 2002).
//!
//! Sum i adds the weight of each feature whose hash has a 1 in bit i, and subtracts the weight of each other feature. Bit i
//! of the signature is 1 if sum i is greater than 0. The margin of a bit tells how sure it is: the sum over the Euclidean
//! length of the weight vector, in eighths, at most 15. A sum divided by that length has about a standard normal
//! distribution, so 4 bits reach to 15 / 8 standard deviations; a bit beyond that almost never flips.
//!
//! The numbers are the same on every machine: weights are whole numbers, and a margin is a square root, a multiplication
//! and a division, each correctly rounded.

use multiversion::multiversion;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Bytes of a signature.
pub const BYTES: usize = 32;
/// Bits of a signature.
pub const BITS: usize = 8 * BYTES;
const MARGIN_SCALE: f64 = 8.0;
/// Largest margin.
pub const MAX_MARGIN: u8 = 15;

/// 256 bits, bit 0 the high bit of byte 0.
pub type Hash = [u8; BYTES];

/// The hash of a feature: XXH3-128 of its UTF-8 bytes with seed 2n, then with seed 2n + 1, where n is the scheme's, each
/// in canonical (big-endian) order.
#[must_use]
pub fn feature_hash(name: &[u8], seed: u64) -> Hash {
    let mut hash = [0; BYTES];
    let (first, second) = hash.split_at_mut(BYTES / 2);
    first.copy_from_slice(&xxh3_128_with_seed(name, seed.wrapping_mul(2)).to_be_bytes());
    second.copy_from_slice(&xxh3_128_with_seed(name, seed.wrapping_mul(2).wrapping_add(1)).to_be_bytes());
    hash
}

/// What the features of one text add up to.
#[derive(Clone)]
pub struct Sums {
    /// One for each bit.
    pub sums: [i64; BITS],
    /// Sum of the squares of the weights.
    pub squares: u64,
}

impl Sums {
    /// Adds up features: those with weights of their own, and groups of one weight each.
    #[must_use]
    pub fn of<'h>(weights: &[u32], hashes: &[Hash], groups: impl IntoIterator<Item = (u32, &'h [Hash])>) -> Self {
        let mut total: u64 = weights.iter().copied().map(u64::from).sum();
        let mut squares = weights.iter().map(|&weight| u64::from(weight).pow(2)).sum();
        let ones = ones_of(weights, hashes);
        let mut grouped = [[0; BYTES]; 8];
        for (weight, hashes) in groups {
            let (weight_of_one, count) = (u64::from(weight), hashes.len() as u64);
            total += weight_of_one * count;
            squares += weight_of_one.pow(2) * count;
            for some in hashes.chunks(MOST_TALLIED) {
                let planes = (usize::BITS - some.len().leading_zeros()) as usize;
                add_tally(&tally(some)[..planes], weight, &mut grouped);
            }
        }
        let mut sums = [0; BITS];
        for (at, (sum, one)) in sums.iter_mut().zip(ones).enumerate() {
            // What adds for a 1 and subtracts for a 0 is twice the weight of the ones, less the total.
            *sum = 2 * (one + grouped[at % 8][at / 8]) as i64 - total as i64;
        }
        Self { sums, squares }
    }

    /// The sums of a text that has features of two kinds, each multiplied.
    #[must_use]
    pub fn mixed(&self, factor: u64, other: &Self, other_factor: u64) -> Self {
        let sum = |at: usize| self.sums[at] * factor as i64 + other.sums[at] * other_factor as i64;
        let squares = self.squares.wrapping_mul(factor).wrapping_mul(factor);
        let others = other.squares.wrapping_mul(other_factor).wrapping_mul(other_factor);
        Self { sums: std::array::from_fn(sum), squares: squares.wrapping_add(others) }
    }

    /// Bit i is 1 where the sum is greater than 0.
    #[must_use]
    pub fn signature(&self) -> Hash {
        std::array::from_fn(|byte| (0..8).fold(0, |bits, at| bits << 1 | u8::from(self.sums[8 * byte + at] > 0)))
    }

    /// How sure each of the first bits is.
    pub fn margins(&self, bits: usize) -> impl Iterator<Item = u8> {
        let norm = (self.squares.max(1) as f64).sqrt();
        let margin = move |sum: &i64| MARGIN_SCALE * sum.unsigned_abs() as f64 / norm;
        // Rounded down.
        self.sums[..bits].iter().map(margin).map(|margin| margin.min(f64::from(MAX_MARGIN)) as u8)
    }

    /// Appends the margins of the first bits, two in a byte, the first in the high half.
    pub fn pack_margins(&self, bits: usize, packed: &mut Vec<u8>) {
        let mut margins = self.margins(bits);
        while let (Some(first), Some(second)) = (margins.next(), margins.next()) {
            packed.push(first << 4 | second);
        }
    }
}

/// Of each bit the weights of the features that have it.
fn ones_of(weights: &[u32], hashes: &[Hash]) -> [u64; BITS] {
    let mut ones = [0_u64; BITS];
    let mut narrow = Vec::new();
    let mut begin = 0;
    while begin < weights.len() {
        narrow_weights(&weights[begin..], &mut narrow);
        let mut few = [[0; 16]; BITS / 16];
        add(&narrow, &hashes[begin..], &mut few);
        for (sum, &more) in ones.iter_mut().zip(few.as_flattened()) {
            *sum += u64::from(more);
        }
        begin += narrow.len();
        if narrow.is_empty() {
            add_one(weights[begin], &hashes[begin], &mut ones);
            begin += 1;
        }
    }
    ones
}

/// Takes as many weights as add up to a number of 16 bits.
fn narrow_weights(weights: &[u32], narrow: &mut Vec<u16>) {
    narrow.clear();
    narrow.extend(weights.iter().scan(0_u16, |total, &weight| {
        let weight = u16::try_from(weight).ok()?;
        *total = total.checked_add(weight)?;
        Some(weight)
    }));
}

/// Adds the weights to the sums of the bits that their hashes have.
#[multiversion(targets("x86_64+avx2+bmi1+bmi2", "aarch64+neon"))]
fn add(weights: &[u16], hashes: &[Hash], sums: &mut [[u16; 16]; BITS / 16]) {
    const MASKS: [u16; 16] = {
        let mut masks = [0x8000; 16];
        let mut at = 0;
        while at < 16 {
            masks[at] >>= at;
            at += 1;
        }
        masks
    };
    for (chunk, sums) in sums.iter_mut().enumerate() {
        let mut own = [0_u16; 16];
        for (&weight, hash) in weights.iter().zip(hashes) {
            let bits = u16::from_be_bytes([hash[2 * chunk], hash[2 * chunk + 1]]);
            for (sum, mask) in own.iter_mut().zip(MASKS) {
                *sum += if bits & mask == 0 { 0 } else { weight };
            }
        }
        *sums = own;
    }
}

/// How many of some hashes have each bit: bit n of each count is in plane n. At most [`MOST_TALLIED`].
type Tally = [[u64; WORDS]; PLANES];
const WORDS: usize = BYTES / 8;
const PLANES: usize = 8;
const MOST_TALLIED: usize = (1 << PLANES) - 1;

/// Counts all bits at once, as a row of adders for each does (Harley and Seal).
#[multiversion(targets("x86_64+avx2+bmi1+bmi2", "aarch64+neon"))]
fn tally(hashes: &[Hash]) -> Tally {
    type Words = [u64; WORDS];
    const ZERO: Words = [0; WORDS];
    #[inline]
    fn words(hash: &Hash) -> Words {
        std::array::from_fn(|at| u64::from_ne_bytes(hash[8 * at..8 * at + 8].try_into().expect("eight bytes")))
    }
    /// The sum of three bits, and what is carried.
    #[inline]
    fn add(one: Words, other: Words, third: Words) -> (Words, Words) {
        let sum: Words = std::array::from_fn(|at| one[at] ^ other[at]);
        let carried = std::array::from_fn(|at| one[at] & other[at] | sum[at] & third[at]);
        (std::array::from_fn(|at| sum[at] ^ third[at]), carried)
    }
    let mut planes = [ZERO; PLANES];
    let fours = hashes.chunks_exact(4);
    for rest in fours.remainder() {
        let mut carried = words(rest);
        for plane in &mut planes {
            (*plane, carried) = add(*plane, carried, ZERO);
        }
    }
    for four in fours {
        let (ones, first) = add(planes[0], words(&four[0]), words(&four[1]));
        let (ones, second) = add(ones, words(&four[2]), words(&four[3]));
        let (twos, mut carried) = add(planes[1], first, second);
        (planes[0], planes[1]) = (ones, twos);
        for plane in &mut planes[2..] {
            (*plane, carried) = add(*plane, carried, ZERO);
        }
    }
    planes
}

/// Adds what the ones of each bit weigh, where all weigh the same: of bit i of byte n, in row i, at n. The planes are those
/// of a tally that are not all 0.
#[multiversion(targets("x86_64+avx2+bmi1+bmi2", "aarch64+neon"))]
fn add_tally(planes: &[[u64; WORDS]], weight: u32, sums: &mut [[u64; BYTES]; 8]) {
    const LOW_BITS: u64 = 0x0101_0101_0101_0101;
    for (bit, sums) in sums.iter_mut().enumerate() {
        let mut counts = [0; WORDS];
        for (place, plane) in planes.iter().enumerate() {
            for (count, word) in counts.iter_mut().zip(plane) {
                *count |= (word >> (7 - bit) & LOW_BITS) << place;
            }
        }
        for (sum, count) in sums.iter_mut().zip(counts.map(u64::to_ne_bytes).as_flattened()) {
            *sum += u64::from(*count) * u64::from(weight);
        }
    }
}

fn add_one(weight: u32, hash: &Hash, ones: &mut [u64; BITS]) {
    for (at, sum) in ones.iter_mut().enumerate() {
        if hash[at / 8] >> (7 - at % 8) & 1 == 1 {
            *sum += u64::from(weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_where_a_bit_is_1_and_subtracts_where_it_is_0() {
        let hash = |first| {
            let mut hash = [0; BYTES];
            hash[0] = first;
            hash
        };
        let sums = Sums::of(&[4, 5], &[hash(0b1001_0100), hash(0b1010_1100)], []);
        assert_eq!(sums.sums[..6], [9, -9, 1, -1, 1, 9]);
        assert_eq!(sums.signature()[0], 0b1010_1100);
        // Over the length of (4, 5).
        assert_eq!(sums.margins(6).collect::<Vec<u8>>(), [11, 11, 1, 1, 1, 11]);
    }

    #[test]
    fn holds_weights_and_sums_beyond_16_bits() {
        let weights: Vec<u32> = (0..300).map(|at| if at % 3 == 0 { 1 << 20 } else { 65_535 }).collect();
        let sums = Sums::of(&weights, &[[0xFF; BYTES]; 300], []);
        let total = i64::from(weights.iter().sum::<u32>());
        assert_eq!(sums.sums, [total; BITS]);
    }

    #[test]
    fn a_group_adds_up_as_its_features_do_one_by_one() {
        for size in [1, 3, 4, 5, 254, 255, 256, 700] {
            for weight in [1, 64, 65_536, 1 << 24] {
                let hashes: Vec<_> = (0..size).map(|at: u32| feature_hash(&at.to_le_bytes(), 0)).collect();
                let alone = Sums::of(&vec![weight; hashes.len()], &hashes, []);
                let (first, second) = hashes[1..].split_at((hashes.len() - 1) / 3);
                let grouped = Sums::of(&[weight], &hashes[..1], [(weight, first), (weight, second)]);
                assert_eq!((grouped.sums, grouped.squares), (alone.sums, alone.squares), "{size} of {weight}");
            }
        }
        let all = Sums::of(&[], &[], [(3, vec![[0xFF; BYTES]; 600].as_slice())]);
        assert_eq!((all.sums, all.squares), ([1800; BITS], 5400));
    }
}
