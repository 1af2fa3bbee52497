//! The entries of a table that are in no run yet, in the order of a run: by block, then document number.
//!
//! They lie in **buckets** by the highest bits of their blocks. A bucket has few entries, unless many articles are alike,
//! so an entry is added by moving a few others, and a block's entries are found without a search. Where a bucket has as
//! many as a chunk of a run, the table is **crowded**, and is folded: a flood of one text costs no more than others.

use super::chunk::{Blocks, Chunk, Entry, LANES};
use super::run::Filter;

/// Entries of a bucket, about, where there are as many as become a run.
const BUCKET_ENTRIES: u64 = 8;
/// Most buckets are two to the power of this: not a megabyte of a table.
const MOST_BUCKET_BITS: u32 = 14;

/// Entries of a bucket from which on the table is crowded.
const CROWD: usize = 1024;

/// Entries in no run. Their document numbers rise as they are added.
pub struct Unfolded {
    blocks: Blocks,
    /// Bits of a block below those that number its bucket.
    shift: u32,
    /// None before the first entry.
    buckets: Vec<Bucket>,
    filter: Filter,
    entries: usize,
    is_crowded: bool,
}

/// Keys, then [`LANES`] words that mean nothing, so that the last keys are compared as the others are; and the document
/// numbers of the entries.
#[derive(Clone, Default)]
struct Bucket {
    keys: Vec<u64>,
    numbers: Vec<u32>,
}

impl Bucket {
    fn memory(&self) -> usize {
        size_of::<Self>() + self.keys.capacity() * size_of::<u64>() + self.numbers.capacity() * size_of::<u32>()
    }
}

impl Unfolded {
    /// No entries; so many become a run.
    #[must_use]
    pub fn new(blocks: Blocks, fold: u64) -> Self {
        let bits = (fold / BUCKET_ENTRIES).max(1).ilog2().min(MOST_BUCKET_BITS);
        let shift = u32::from(blocks.bits) - bits;
        let filter = Filter::new(fold, blocks);
        Self { blocks, shift, buckets: Vec::new(), filter, entries: 0, is_crowded: false }
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Whether a bucket has as many entries as a chunk, or more.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// Bytes of the entries and their buckets.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.buckets.iter().map(Bucket::memory).sum()
    }

    /// Add an entry.
    pub fn add(&mut self, entry: Entry) {
        if self.buckets.is_empty() {
            self.buckets.resize(1 << (u32::from(self.blocks.bits) - self.shift), Bucket::default());
        }
        let block = self.blocks.of(entry.key);
        let bucket = &mut self.buckets[(block >> self.shift) as usize];
        let keys = &bucket.keys[..bucket.numbers.len()];
        let at = keys.partition_point(|&key| self.blocks.of(key) <= block);
        if bucket.keys.is_empty() {
            bucket.keys.resize(LANES, 0);
        }
        bucket.keys.insert(at, entry.key);
        bucket.numbers.insert(at, entry.number);
        self.is_crowded |= bucket.numbers.len() >= CROWD;
        self.filter.add(block);
        self.entries += 1;
    }

    /// What says which blocks may have entries.
    #[must_use]
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// What may have the entries of a block, of a table that has entries.
    #[must_use]
    pub fn chunk(&self, block: u32) -> Chunk<'_> {
        let Bucket { keys, numbers } = &self.buckets[(block >> self.shift) as usize];
        Chunk::whole(keys, numbers)
    }

    /// All entries, in order.
    pub fn all(&self) -> impl Iterator<Item = Entry> {
        let entries = |bucket: &Bucket| bucket.keys.iter().copied().zip(bucket.numbers.clone()).collect::<Vec<_>>();
        self.buckets.iter().flat_map(entries).map(|(key, number)| Entry { key, number })
    }

    /// Remove all entries.
    pub fn clear(&mut self) {
        self.buckets.clear();
        self.filter.clear();
        (self.entries, self.is_crowded) = (0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_in_order_and_those_of_a_block_in_its_chunk() {
        for (bits, fold) in [(16, 1), (16, 1 << 20), (24, 4000), (20, 100)] {
            let blocks = Blocks { table: 1, bits };
            let mut unfolded = Unfolded::new(blocks, fold);
            let keys = (0..3000_u64).map(|number| (number * number % 97).wrapping_mul(0x9E37_79B1_85EB_CA87));
            let mut expected: Vec<_> = keys.zip(0..).map(|(key, number)| Entry { key, number }).collect();
            for entry in &expected {
                unfolded.add(*entry);
            }
            expected.sort_by_key(|entry| (blocks.of(entry.key), entry.number));
            assert_eq!((unfolded.len(), unfolded.all().collect::<Vec<_>>()), (3000, expected.clone()));
            for block in [blocks.of(expected[0].key), blocks.of(expected[1500].key), 7] {
                let chunk = unfolded.chunk(block);
                let (begin, end) = chunk.list(block, chunk.bucket(block), blocks);
                let found: Vec<_> = (begin..end).map(|at| chunk.entry(at)).collect();
                let of_block: Vec<_> = expected.iter().filter(|entry| blocks.of(entry.key) == block).copied().collect();
                assert_eq!(found, of_block, "{block}");
                assert!(unfolded.filter().has(block) || found.is_empty(), "{block}");
            }
            unfolded.clear();
            assert!(unfolded.is_empty() && unfolded.all().next().is_none());
        }
    }
}
