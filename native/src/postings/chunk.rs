//! A chunk: some entries of one table, sorted by block, then document number.
//!
//! This file owns the bytes of a stored chunk, little-endian:
//!
//! ```text
//! version u8 = 2   zero u8 × 3   entries u32   keys u64 × entries   document numbers u32 × entries
//! ```
//!
//! In memory a chunk lies in a frame of the cache ([`Shape`]): where its buckets begin, four in a word, its keys, and its
//! document numbers, two in a word. The blocks of a chunk are divided into **buckets** by their highest bits, so that a
//! block's entries are found without a search. Its first and last block are in the directory of its run alone.

use super::plan::{BLOCK_STEP, BLOCKS_PER_WORD, WORD_BITS};

/// Most entries of a chunk: their number takes two bytes.
pub const MOST_ENTRIES: usize = u16::MAX as usize;

/// Keys that are compared at once, those of a line of the processor's cache.
pub const LANES: usize = 8;

const VERSION: u8 = 2;
const HEAD_BYTES: usize = 8;
const KEY_BYTES: usize = 8;
const NUMBER_BYTES: usize = 4;
/// Entries in a bucket, about.
const BUCKET_ENTRIES: usize = 4;
/// Beginnings of buckets in a word.
const STARTS_OF_WORD: usize = 4;
/// Document numbers in a word.
const NUMBERS_OF_WORD: usize = 2;

/// What is stored under a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A chunk of a run: the number of the run, then that of the chunk.
    List(u32, u32),
    /// A chunk of rows.
    Rows(u32),
}

/// A value that is no chunk of the table; or what stopped the storage.
#[derive(Debug, PartialEq, Eq)]
pub struct Damage(pub String);

/// Where chunks are stored.
pub trait Storage {
    /// The values of some keys; an empty one where there is none.
    ///
    /// # Errors
    ///
    /// [`Damage`] where they cannot be read.
    fn read(&mut self, keys: &[Key]) -> Result<Vec<Vec<u8>>, Damage>;

    /// Store chunks. If this fails some may be stored.
    ///
    /// # Errors
    ///
    /// [`Damage`] where they cannot be stored.
    fn write(&mut self, chunks: &[(Key, Vec<u8>)]) -> Result<(), Damage>;

    /// Name a run by its directory, once its chunks are all stored, and remove others, in one step; then there are these.
    ///
    /// # Errors
    ///
    /// [`Damage`] where that cannot be stored.
    fn name(&mut self, named: Option<(u32, Vec<u8>)>, removed: &[u32], runs: &[u32]) -> Result<(), Damage>;
}

/// Which blocks a table is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Number of the table.
    pub table: u8,
    /// Bits of a block: 16, 20 or 24.
    pub bits: u8,
}

impl Blocks {
    /// The number of the key word that has the block.
    #[must_use]
    pub fn word(self) -> usize {
        usize::from(self.table) / BLOCKS_PER_WORD
    }

    /// What keys of a block have in common: their bits of this mask.
    #[must_use]
    pub fn in_keys(self, block: u32) -> (u64, u64) {
        let place = |block: u32| (u64::from(block) << self.others()).rotate_right(self.rotation());
        (place((1 << self.bits) - 1), place(block))
    }

    /// The block in a key word.
    #[must_use]
    pub fn of(self, key: u64) -> u32 {
        (key.rotate_left(self.rotation()) >> self.others()) as u32
    }

    /// Bits of a key word before the block.
    fn rotation(self) -> u32 {
        (usize::from(self.table) % BLOCKS_PER_WORD * BLOCK_STEP) as u32
    }

    /// Bits of a key word that are not of the block.
    fn others(self) -> u32 {
        WORD_BITS as u32 - u32::from(self.bits)
    }
}

/// An entry of a table: the key word that has the block, and the document number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The word of the entry's key that has the block of the table.
    pub key: u64,
    /// Document number.
    pub number: u32,
}

/// The little-endian words of some bytes.
pub fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(KEY_BYTES).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
}

/// The bytes of a stored chunk of sorted entries: 1 to [`MOST_ENTRIES`].
#[must_use]
pub fn to_bytes(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + entries.len() * (KEY_BYTES + NUMBER_BYTES));
    bytes.extend([VERSION, 0, 0, 0]);
    bytes.extend((entries.len() as u32).to_le_bytes());
    bytes.extend(entries.iter().flat_map(|entry| entry.key.to_le_bytes()));
    bytes.extend(entries.iter().flat_map(|entry| entry.number.to_le_bytes()));
    bytes
}

/// The entries of a stored chunk.
///
/// # Errors
///
/// [`Damage`] where the bytes are no chunk, or their entries are not in order.
pub fn from_bytes(bytes: &[u8], blocks: Blocks) -> Result<Vec<Entry>, Damage> {
    let damage = |what: &str| Damage(format!("a chunk of table {} {what}", blocks.table));
    let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) else {
        return Err(damage(&format!("has {} bytes", bytes.len())));
    };
    let count = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    if head[..4] != [VERSION, 0, 0, 0] {
        return Err(damage(&format!("has version {}", head[0])));
    }
    if !(1..=MOST_ENTRIES).contains(&count) || rest.len() != count * (KEY_BYTES + NUMBER_BYTES) {
        return Err(damage(&format!("has {} bytes and says {count} entries", bytes.len())));
    }
    let (keys, numbers) = rest.split_at(count * KEY_BYTES);
    let numbers = numbers.chunks_exact(NUMBER_BYTES);
    let numbers = numbers.map(|number| u32::from_le_bytes(number.try_into().expect("four bytes")));
    let entries: Vec<_> = words_of(keys).zip(numbers).map(|(key, number)| Entry { key, number }).collect();
    if !entries.is_sorted_by_key(|entry| (blocks.of(entry.key), entry.number)) {
        return Err(damage("is not in order of block and document number"));
    }
    Ok(entries)
}

/// How chunks lie in their frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Entries of every chunk of a run, but of the last one.
    pub entries: usize,
    /// The number of buckets is 2 to the power of this.
    bucket_bits: u32,
}

impl Shape {
    /// Of chunks of so many entries: 1 to [`MOST_ENTRIES`].
    #[must_use]
    pub fn of(entries: usize) -> Self {
        Self { entries, bucket_bits: (entries / BUCKET_ENTRIES).max(1).ilog2() }
    }

    /// Words of a chunk.
    #[must_use]
    pub fn words(self) -> usize {
        self.starts() + self.entries + self.entries.div_ceil(NUMBERS_OF_WORD)
    }

    /// Write sorted entries, at most those of a chunk.
    pub fn write(self, entries: &[Entry], blocks: Blocks, words: &mut [u64]) {
        let (starts, words) = words.split_at_mut(self.starts());
        let (keys, numbers) = words.split_at_mut(self.entries);
        let starts: &mut [u16] = bytemuck::cast_slice_mut(starts);
        let numbers: &mut [u32] = bytemuck::cast_slice_mut(numbers);
        let (first, shift) = self.division(ends_of(entries, blocks));
        let mut next = 0;
        for (at, entry) in entries.iter().enumerate() {
            let bucket = ((blocks.of(entry.key) - first) >> shift) as usize;
            while next <= bucket {
                starts[next] = at as u16;
                next += 1;
            }
            (keys[at], numbers[at]) = (entry.key, entry.number);
        }
        starts[next..].fill(entries.len() as u16);
    }

    /// The first block, and the bits of a block beyond those of the number of its bucket.
    fn division(self, (first, last): (u32, u32)) -> (u32, u32) {
        (first, (u32::BITS - (last - first).leading_zeros()).saturating_sub(self.bucket_bits))
    }

    fn starts(self) -> usize {
        ((1_usize << self.bucket_bits) + 1).div_ceil(STARTS_OF_WORD)
    }
}

/// First and last block of sorted entries.
#[must_use]
pub fn ends_of(entries: &[Entry], blocks: Blocks) -> (u32, u32) {
    (blocks.of(entries[0].key), blocks.of(entries[entries.len() - 1].key))
}

/// Some entries of one table, sorted.
#[derive(Clone, Copy)]
pub struct Chunk<'a> {
    /// Where buckets begin; none: there is one bucket.
    starts: &'a [u64],
    /// The keys; what is behind the last one means nothing.
    keys: &'a [u64],
    numbers: &'a [u32],
    /// The first and the last block.
    ends: (u32, u32),
    /// Bits of a block, less the first one, below those that number its bucket.
    shift: u32,
}

impl<'a> Chunk<'a> {
    /// What [`Shape::write`] wrote, whose first and last block are these.
    #[must_use]
    pub fn new(words: &'a [u64], shape: Shape, ends: (u32, u32)) -> Self {
        let (starts, keys) = words.split_at(shape.starts());
        let numbers = bytemuck::cast_slice(&keys[shape.entries..]);
        Self { starts, keys, numbers, ends, shift: shape.division(ends).1 }
    }

    /// Entries of any blocks: their keys, perhaps with words behind them that mean nothing, and document numbers.
    #[must_use]
    pub fn whole(keys: &'a [u64], numbers: &'a [u32]) -> Self {
        Self { starts: &[], keys, numbers, ends: (0, u32::MAX), shift: u32::BITS }
    }

    /// The keys, in order; what is behind the last one means nothing.
    #[must_use]
    pub fn keys(self) -> &'a [u64] {
        self.keys
    }

    /// The keys from an entry on; what is behind the last one means nothing.
    #[must_use]
    #[inline]
    pub fn keys_from(self, at: usize) -> [u64; LANES] {
        let words = &self.keys[at..];
        words.first_chunk().copied().unwrap_or_else(|| {
            let mut keys = [0; LANES];
            keys[..words.len()].copy_from_slice(words);
            keys
        })
    }

    /// The document number of an entry.
    #[must_use]
    pub fn number(self, at: usize) -> u32 {
        self.numbers[at]
    }

    /// An entry.
    #[cfg(test)]
    #[must_use]
    pub fn entry(self, at: usize) -> Entry {
        Entry { key: self.keys[at], number: self.number(at) }
    }

    /// The bucket that has the entries of a block, and perhaps others: where it begins and ends.
    #[must_use]
    pub fn bucket(self, block: u32) -> (usize, usize) {
        if self.starts.is_empty() {
            return (0, self.numbers.len());
        }
        if block < self.ends.0 || block > self.ends.1 {
            return (0, 0);
        }
        let bucket = ((block - self.ends.0) >> self.shift) as usize;
        (self.start(bucket), self.start(bucket + 1))
    }

    /// The entries of a block among those of its bucket.
    #[must_use]
    pub fn list(self, block: u32, (begin, end): (usize, usize), blocks: Blocks) -> (usize, usize) {
        // A bucket has one block.
        if self.shift == 0 {
            return (begin, end);
        }
        // Whole buckets are counted: they are short, and where a list ends cannot be foreseen.
        let keys = &self.keys[begin..end];
        let before = keys.iter().filter(|&&key| blocks.of(key) < block).count();
        let after = keys.iter().filter(|&&key| blocks.of(key) > block).count();
        (begin + before, end - after)
    }

    /// How many of the entries from `begin` to `end`, which are of one block, are before a document number.
    #[must_use]
    pub fn before(self, (begin, end): (usize, usize), number: u64) -> usize {
        self.numbers[begin..end].partition_point(|&one| u64::from(one) < number)
    }

    fn start(self, bucket: usize) -> usize {
        let word = self.starts[bucket / STARTS_OF_WORD].to_ne_bytes();
        let at = bucket % STARTS_OF_WORD * 2;
        u16::from_ne_bytes([word[at], word[at + 1]]).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(seed: u64, count: usize, blocks: Blocks, kinds: u64) -> Vec<Entry> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state ^ (state >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        };
        let mut made: Vec<_> = (0..count)
            .map(|number| Entry { key: (next() % kinds).wrapping_mul(next() | 1), number: number as u32 })
            .collect();
        made.sort_by_key(|entry| (blocks.of(entry.key), entry.number));
        made
    }

    #[test]
    fn every_list_is_found_and_bytes_come_back() {
        for (seed, bits, table, kinds) in [(1, 16, 0, u64::MAX), (2, 20, 3, u64::MAX), (3, 24, 5, 3), (4, 16, 15, 1)] {
            for count in [1, 2, 3, 64, 1000, 1024] {
                let blocks = Blocks { table, bits };
                let made = entries(seed, count, blocks, kinds);
                assert_eq!(from_bytes(&to_bytes(&made), blocks).expect("a chunk"), made);
                // As large as its frame, or the last one of its run; over what another one has left.
                let shape = Shape::of([count, 1024][(seed % 2) as usize]);
                let mut words = vec![u64::MAX; shape.words()];
                shape.write(&made, blocks, &mut words);
                let chunk = Chunk::new(&words, shape, ends_of(&made, blocks));
                assert_eq!((0..count).map(|at| chunk.entry(at)).collect::<Vec<_>>(), made);
                for block in made
                    .iter()
                    .map(|entry| blocks.of(entry.key))
                    .flat_map(|one| [one.wrapping_sub(1), one, one.wrapping_add(1)])
                {
                    let (begin, end) = chunk.list(block, chunk.bucket(block), blocks);
                    let expected: Vec<_> = made.iter().filter(|entry| blocks.of(entry.key) == block).collect();
                    let found: Vec<_> = (begin..end).map(|at| chunk.entry(at)).collect();
                    assert_eq!(found.iter().collect::<Vec<_>>(), expected, "block {block} of {count}");
                    for number in [0, 1, count as u64 / 2, u64::MAX] {
                        let before = expected.iter().filter(|entry| u64::from(entry.number) < number).count();
                        assert_eq!(chunk.before((begin, end), number), before);
                    }
                }
            }
        }
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let blocks = Blocks { table: 2, bits: 16 };
        let whole = to_bytes(&entries(7, 50, blocks, u64::MAX));
        for cut in [0, 7, 8, 9, whole.len() - 1] {
            assert!(from_bytes(&whole[..cut], blocks).is_err(), "{cut} bytes");
        }
        for at in [0, 1, 4, 5] {
            let mut other = whole.clone();
            other[at] ^= 1;
            assert!(from_bytes(&other, blocks).is_err(), "byte {at}");
        }
        let mut other = whole.clone();
        other[8..24].rotate_left(8);
        assert!(from_bytes(&other, blocks).is_err(), "other order");
    }
}
