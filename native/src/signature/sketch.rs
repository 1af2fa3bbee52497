//! Sketches: a second summary of a text in a few bytes, made of other features than the signature.
//!
//! A sketch is a row of values of 4 bits, two in a byte, the first in the high half. Values at one position of two sketches
//! are equal about as often as the share of their shingles that the texts have in common. It is one-permutation `MinHash`
//! (Li, Owen and Zhang 2012) with b = 4 bits of each value (Li and König 2010) and optimal densification (Shrivastava
//! 2017):
//!
//! 1. A shingle is a run of k letters. A text of fewer letters than the longest shingle is filled up with zeros.
//! 2. Each shingle has one hash of 32 bits: a polynomial of its code points, mixed.
//! 3. The range of hashes is divided into as many bins as there are values. The smallest hash in a bin is its minimum.
//! 4. A bin without a shingle takes the minimum of another bin: the first of an order of all bins of its own that has one.
//! 5. The value is the top 4 bits of the minimum mixed with the number of the bin.

use multiversion::multiversion;

/// Factor of the polynomial, and of the numbers of bins before they are mixed.
const FACTOR: u32 = 0x9E37_79B1;
/// Minimum of a bin without shingles.
const EMPTY: u32 = u32::MAX;
/// Shingles that are hashed together.
const BLOCK: usize = 256;

/// Makes the sketches of texts under one scheme.
pub struct Sketcher {
    start: u32,
    kinds: Vec<Kind>,
    /// Letters of the longest shingle.
    longest: usize,
}

/// The values that are made of shingles of one length.
struct Kind {
    shingle: usize,
    bins: usize,
    /// For each bin, the order in which it looks for a minimum.
    orders: Vec<u16>,
}

impl Sketcher {
    /// `values`: lengths of shingles, and values of each; `seed`: of the scheme.
    #[must_use]
    pub fn new(values: &[(usize, usize)], seed: u64) -> Self {
        let kinds = values.iter().map(|&(shingle, bins)| Kind { shingle, bins, orders: orders(bins) }).collect();
        let longest = values.iter().map(|(shingle, _)| *shingle).max().unwrap_or(0);
        Self { start: mixed(seed as u32), kinds, longest }
    }

    /// Whether the scheme has none.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Appends the sketch of a text, from its letters.
    pub fn sketch(&self, letters: &[u32], sketch: &mut Vec<u8>) {
        let mut values = Vec::with_capacity(self.kinds.iter().map(|kind| kind.bins).sum());
        let mut padded = Vec::new();
        let letters = if letters.len() < self.longest {
            padded.extend_from_slice(letters);
            padded.resize(self.longest, 0);
            &padded
        } else {
            letters
        };
        for kind in &self.kinds {
            kind.add_values(&minima(letters, kind, self.start), &mut values);
        }
        sketch.extend(values.chunks_exact(2).map(|two| two[0] << 4 | two[1]));
    }
}

impl Kind {
    fn add_values(&self, minima: &[u32], values: &mut Vec<u8>) {
        for (bin, order) in self.orders.chunks_exact(self.bins).enumerate() {
            let full = std::iter::once(minima[bin]).chain(order.iter().map(|&other| minima[usize::from(other)]));
            let minimum = full.into_iter().find(|minimum| *minimum != EMPTY).unwrap_or(EMPTY);
            values.push((mixed(minimum.wrapping_add((bin as u32).wrapping_mul(FACTOR))) >> 28) as u8);
        }
    }
}

/// For each bin all bins, in an order of its own.
fn orders(bins: usize) -> Vec<u16> {
    let count = bins as u32;
    let order_of = |bin: u32| {
        let drawn = |other: u16| mixed((bin * count + u32::from(other)).wrapping_mul(FACTOR).wrapping_add(count));
        let mut order: Vec<u16> = (0..bins as u16).collect();
        order.sort_by_key(|&other| drawn(other));
        order
    };
    (0..count).flat_map(order_of).collect()
}

/// The smallest hash of each bin.
fn minima(letters: &[u32], kind: &Kind, start: u32) -> Vec<u32> {
    let mut minima = vec![EMPTY; kind.bins];
    let mut hashes = [0; BLOCK];
    let shingles = letters.len() + 1 - kind.shingle;
    for begin in (0..shingles).step_by(BLOCK) {
        let end = shingles.min(begin + BLOCK);
        let hashes = &mut hashes[..end - begin];
        hash_shingles(&letters[begin..end + kind.shingle - 1], kind.shingle, start, hashes);
        for &mut hash in hashes {
            let bin = ((hash >> 16) as usize * kind.bins) >> 16;
            minima[bin] = minima[bin].min(hash);
        }
    }
    minima
}

#[multiversion(targets("x86_64+avx2", "aarch64+neon"))]
fn hash_shingles(letters: &[u32], shingle: usize, start: u32, hashes: &mut [u32]) {
    for (hash, letter) in hashes.iter_mut().zip(letters) {
        *hash = start.wrapping_add(*letter);
    }
    for behind in 1..shingle {
        for (hash, letter) in hashes.iter_mut().zip(&letters[behind..]) {
            *hash = hash.wrapping_mul(FACTOR).wrapping_add(*letter);
        }
    }
    for hash in hashes {
        *hash = mixed(*hash);
    }
}

/// Mixes the bits of a number: the mixing function of `MurmurHash3`.
#[inline]
fn mixed(mut number: u32) -> u32 {
    number ^= number >> 16;
    number = number.wrapping_mul(0x85EB_CA6B);
    number ^= number >> 13;
    number = number.wrapping_mul(0xC2B2_AE35);
    number ^ number >> 16
}
