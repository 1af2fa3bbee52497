//! A chunk: some entries of one table, sorted by block, then document number.
//!
//! This file owns the bytes of a stored chunk, little-endian:
//!
//! ```text
//! version u8 = 2   zero u8 × 3   entries u32   keys u64 × entries   document numbers u32 × entries
//! ```
//!
//! In memory a chunk is one array: its keys, its document numbers, two in a word, and where its buckets begin, four in a
//! word. The blocks of a chunk are divided into **buckets** by their highest bits, so that a block's entries are found
//! without a search.

use super::plan::{BLOCK_STEP, BLOCKS_PER_WORD, WORD_BITS};
use super::stock::Stock;

/// Most entries of a chunk: their number takes two bytes.
pub const MOST_ENTRIES: usize = u16::MAX as usize;

const VERSION: u8 = 2;
const HEAD_BYTES: usize = 8;
const KEY_BYTES: usize = 8;
const NUMBER_BYTES: usize = 4;
/// Entries in a bucket, about.
const BUCKET_ENTRIES: usize = 4;
/// Beginnings of buckets in a word.
const STARTS_OF_WORD: usize = 4;

/// What is stored under a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A chunk of a run: the number of the run, then that of the chunk.
    List(u32, u32),
    /// A chunk of rows.
    Rows(u32),
}

/// A value that is no chunk of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Damage(pub String);

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

    /// The block in a key word.
    #[must_use]
    pub fn of(self, key: u64) -> u32 {
        let rotation = usize::from(self.table) % BLOCKS_PER_WORD * BLOCK_STEP;
        (key.rotate_left(rotation as u32) >> (WORD_BITS as u32 - u32::from(self.bits))) as u32
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

/// Some entries of one table.
pub struct Chunk {
    data: Box<[u64]>,
    entries: u16,
    /// Bits of a block beyond those of the number of its bucket.
    shift: u8,
    first: u32,
    last: u32,
}

impl Chunk {
    /// Hold entries that are sorted by block, then document number: 1 to [`MOST_ENTRIES`].
    #[must_use]
    pub fn new(entries: &[Entry], blocks: Blocks, stock: &mut Stock) -> Self {
        let numbered = entries.iter().map(|entry| entry.number);
        Self::divided(entries.iter().map(|entry| entry.key), numbered, entries.len(), blocks, stock)
    }

    /// Read a stored chunk.
    ///
    /// # Errors
    ///
    /// [`Damage`] where the bytes are no chunk, or their entries are not in order.
    pub fn from_bytes(bytes: &[u8], blocks: Blocks, stock: &mut Stock) -> Result<Self, Damage> {
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
        let numbers = || {
            let each = numbers.chunks_exact(NUMBER_BYTES);
            each.map(|number| u32::from_le_bytes(number.try_into().expect("four bytes")))
        };
        let in_order = words_of(keys).map(|key| blocks.of(key)).zip(numbers()).is_sorted_by(|one, other| one < other);
        if !in_order {
            return Err(damage("is not in order of block and document number"));
        }
        Ok(Self::divided(words_of(keys), numbers(), count, blocks, stock))
    }

    /// Hold sorted entries, and divide their blocks into buckets.
    fn divided(
        keys: impl Iterator<Item = u64>,
        numbers: impl Iterator<Item = u32>,
        entries: usize,
        blocks: Blocks,
        stock: &mut Stock,
    ) -> Self {
        let starts = entries + entries.div_ceil(2);
        let most = most_buckets(entries);
        let mut data = stock.take(words_for(entries));
        data.iter_mut().zip(keys).for_each(|(word, key)| *word = key);
        for (at, number) in numbers.enumerate() {
            data[entries + at / 2] |= u64::from(number) << (at % 2 * 32);
        }
        let (first, last) = (blocks.of(data[0]), blocks.of(data[entries - 1]));
        let shift = (0..32).find(|shift| ((last - first) >> shift) < most as u32).unwrap_or(0);
        let mut next = 0;
        for at in 0..=entries {
            let bucket = if at == entries { most } else { ((blocks.of(data[at]) - first) >> shift) as usize };
            while next <= bucket {
                data[starts + next / STARTS_OF_WORD] |= (at as u64) << (next % STARTS_OF_WORD * 16);
                next += 1;
            }
        }
        Self { data, entries: entries as u16, shift, first, last }
    }

    /// The array, whose memory another chunk may take.
    #[must_use]
    pub fn into_words(self) -> Box<[u64]> {
        self.data
    }

    /// The bytes of the stored chunk.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.len() * (KEY_BYTES + NUMBER_BYTES));
        bytes.extend([VERSION, 0, 0, 0]);
        bytes.extend(u32::from(self.entries).to_le_bytes());
        bytes.extend(self.keys().iter().flat_map(|key| key.to_le_bytes()));
        bytes.extend((0..self.len()).flat_map(|at| self.number(at).to_le_bytes()));
        bytes
    }

    /// Number of entries.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no chunk is empty")]
    pub fn len(&self) -> usize {
        usize::from(self.entries)
    }

    /// Words of the array.
    #[must_use]
    pub fn size(&self) -> usize {
        self.data.len()
    }

    /// First and last block.
    #[must_use]
    pub fn ends(&self) -> (u32, u32) {
        (self.first, self.last)
    }

    /// The keys, in order.
    #[must_use]
    pub fn keys(&self) -> &[u64] {
        &self.data[..self.len()]
    }

    /// The document number of an entry.
    #[must_use]
    pub fn number(&self, at: usize) -> u32 {
        (self.data[self.len() + at / 2] >> (at % 2 * 32)) as u32
    }

    /// An entry.
    #[must_use]
    pub fn entry(&self, at: usize) -> Entry {
        Entry { key: self.data[at], number: self.number(at) }
    }

    /// The bucket that has the entries of a block, and perhaps others: where it begins and ends.
    #[must_use]
    pub fn bucket(&self, block: u32) -> (usize, usize) {
        if block < self.first || block > self.last {
            return (0, 0);
        }
        let bucket = ((block - self.first) >> self.shift) as usize;
        (self.start(bucket), self.start(bucket + 1))
    }

    /// The entries of a block among those of its bucket.
    #[must_use]
    pub fn list(&self, block: u32, (begin, end): (usize, usize), blocks: Blocks) -> (usize, usize) {
        // A bucket has one block.
        if self.shift == 0 {
            return (begin, end);
        }
        let keys = &self.keys()[begin..end];
        let below = |block| keys.iter().take_while(|&&key| blocks.of(key) < block).count();
        (begin + below(block), begin + below(block.saturating_add(1)))
    }

    /// How many of the entries from `begin` to `end`, which are of one block, are before a document number.
    #[must_use]
    pub fn before(&self, (begin, end): (usize, usize), number: u64) -> usize {
        let (mut low, mut high) = (begin, end);
        while low < high {
            let middle = usize::midpoint(low, high);
            if u64::from(self.number(middle)) < number {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low - begin
    }

    fn start(&self, bucket: usize) -> usize {
        let starts = self.len() + self.len().div_ceil(2);
        (self.data[starts + bucket / STARTS_OF_WORD] >> (bucket % STARTS_OF_WORD * 16)) as u16 as usize
    }
}

fn most_buckets(entries: usize) -> usize {
    (entries / BUCKET_ENTRIES).max(1)
}

/// Words of the array of a chunk of so many entries.
#[must_use]
pub fn words_for(entries: usize) -> usize {
    entries + entries.div_ceil(2) + (most_buckets(entries) + 1).div_ceil(STARTS_OF_WORD)
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
        let stock = &mut Stock::default();
        for (seed, bits, table, kinds) in [(1, 16, 0, u64::MAX), (2, 20, 3, u64::MAX), (3, 24, 5, 3), (4, 16, 15, 1)] {
            for count in [1, 2, 3, 64, 1000, 1024] {
                let blocks = Blocks { table, bits };
                let made = entries(seed, count, blocks, kinds);
                let chunk = Chunk::new(&made, blocks, stock);
                assert!((0..count).all(|at| chunk.entry(at) == made[at]));
                let again = Chunk::from_bytes(&chunk.to_bytes(), blocks, stock).expect("a chunk");
                assert_eq!(again.data, chunk.data);
                stock.give(again.into_words());
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
        let stock = &mut Stock::default();
        let blocks = Blocks { table: 2, bits: 16 };
        let whole = Chunk::new(&entries(7, 50, blocks, u64::MAX), blocks, stock).to_bytes();
        for cut in [0, 7, 8, 9, whole.len() - 1] {
            assert!(Chunk::from_bytes(&whole[..cut], blocks, stock).is_err(), "{cut} bytes");
        }
        for at in [0, 1, 4, 5] {
            let mut other = whole.clone();
            other[at] ^= 1;
            assert!(Chunk::from_bytes(&other, blocks, stock).is_err(), "byte {at}");
        }
        let mut other = whole.clone();
        other[8..24].rotate_left(8);
        assert!(Chunk::from_bytes(&other, blocks, stock).is_err(), "other order");
    }
}
