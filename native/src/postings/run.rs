//! A run: the entries of one table that were added in one stretch of document numbers, sorted, cut into chunks.
//!
//! A run has a part of each posting list; the parts of one list in all runs of its table, one after the other, are the
//! list. Its **directory** says where each of its chunks begins and ends, and, where a run is small, which blocks have
//! entries at all. It is stored beside the chunks, so that a run is searched without reading those that say nothing of
//! the block. Its bytes, little-endian:
//!
//! ```text
//! version u8 = 2   table u8   block bits u8   filter bits u8 (0: no filter)
//! entries u64   before u64 (document numbers of the run are lower)   entries of a chunk u32 (but of the last one)
//! first block u32, last block u32 of each chunk   filter: a bit for each value of a block's highest bits
//! ```

use std::ops::Range;

use super::cache::{Cache, Place};
use super::chunk::{Blocks, Chunk, Damage, Entry, Key, MOST_ENTRIES, Shape, ends_of, from_bytes, to_bytes, words_of};

/// Most entries of a run that has a filter, where blocks have enough bits for it to say something.
const FILTERED_ENTRIES: u64 = 1 << 20;
/// Bits of a block that a filter takes beyond those of the number of entries, if a block has so many: one bit of the
/// filter in eight is 1 at most.
const FILTER_BITS: u32 = 3;
/// A filter has one word at least.
const LEAST_FILTER_BITS: u32 = 6;
const VERSION: u8 = 2;
const HEAD_BYTES: usize = 24;

/// The entries of one table that were added in one stretch.
pub struct Run {
    /// Which blocks it is sorted by.
    pub blocks: Blocks,
    /// Its number, unlike that of any other run of the index.
    pub id: u32,
    /// Number of entries.
    pub entries: u64,
    /// Its document numbers are lower.
    pub before: u64,
    /// How its chunks lie in memory.
    pub shape: Shape,
    /// Where its chunks are.
    pub places: Vec<Place>,
    /// First and last block of each chunk.
    pub ends: Vec<(u32, u32)>,
    /// By the highest bits of a block, the first chunk that does not end before it.
    jumps: Vec<u32>,
    jump_shift: u32,
    filter: Option<Filter>,
}

/// Which blocks have entries, by their highest bits: at least those of a word, and then one more for each of the table.
pub struct Filter {
    /// Bits of a block that it does not take.
    shift: u32,
    words: Vec<u64>,
}

impl Filter {
    /// A filter for about so many entries.
    #[must_use]
    pub fn new(entries: u64, blocks: Blocks) -> Self {
        let bits = (entries.max(1).ilog2() + 1 + FILTER_BITS).clamp(LEAST_FILTER_BITS, u32::from(blocks.bits));
        Self { shift: u32::from(blocks.bits) - bits, words: vec![0; 1 << (bits - LEAST_FILTER_BITS)] }
    }

    /// Note that a block has an entry.
    pub fn add(&mut self, block: u32) {
        self.words[(block >> self.shift) as usize / 64] |= 1 << (block >> self.shift & 63);
    }

    /// Whether a block may have entries.
    #[must_use]
    pub fn has(&self, block: u32) -> bool {
        self.word(block) >> (block >> self.shift & 63) & 1 == 1
    }

    /// The word that says it.
    #[must_use]
    pub fn word(&self, block: u32) -> u64 {
        self.words[(block >> self.shift) as usize / 64]
    }

    /// Note that no block has entries.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }
}

impl Run {
    /// Begin a run of at most so many entries, without any yet.
    #[must_use]
    pub fn new(blocks: Blocks, (id, before): (u32, u64), most: u64, shape: Shape) -> Self {
        // Entries that a merge drops may leave it larger than it had to be. One with as many entries as bits says nothing.
        let filter = Filter::new(most, blocks);
        let says_something = most <= FILTERED_ENTRIES && most < 64 * filter.words.len() as u64;
        Self {
            blocks,
            id,
            entries: 0,
            before,
            shape,
            places: Vec::new(),
            ends: Vec::new(),
            jumps: Vec::new(),
            jump_shift: 0,
            filter: says_something.then_some(filter),
        }
    }

    /// Add the next chunk, of sorted entries; return its bytes, to be stored.
    pub fn add(&mut self, entries: &[Entry], cache: &mut Cache) -> (Key, Vec<u8>) {
        if let Some(filter) = &mut self.filter {
            for entry in entries {
                filter.add(self.blocks.of(entry.key));
            }
        }
        let stored = (self.key(self.places.len()), to_bytes(entries));
        self.entries += entries.len() as u64;
        self.ends.push(ends_of(entries, self.blocks));
        let mut place = Place::default();
        if cache.room() > 0 {
            let words;
            (place, words) = cache.add();
            self.shape.write(entries, self.blocks, words);
        }
        self.places.push(place);
        stored
    }

    /// Finish the run: all its chunks were added, at least one. Blocks can be looked up now.
    #[must_use]
    pub fn finish(mut self) -> Self {
        // About as many jumps as chunks.
        let bits = self.ends.len().ilog2().min(u32::from(self.blocks.bits));
        self.jump_shift = u32::from(self.blocks.bits) - bits;
        let jump = |number: u32| self.ends.partition_point(|&(_, last)| last >> self.jump_shift < number) as u32;
        self.jumps = (0..=1 << bits).map(jump).collect();
        self
    }

    /// The number of entries of a chunk.
    #[must_use]
    pub fn count(&self, at: usize) -> usize {
        self.shape.entries.min(self.entries as usize - at * self.shape.entries)
    }

    /// The key of a chunk.
    #[must_use]
    pub fn key(&self, at: usize) -> Key {
        Key::List(self.id, at as u32)
    }

    /// A chunk in its frame.
    #[must_use]
    pub fn chunk_in<'a>(&self, words: &'a [u64], at: usize) -> Chunk<'a> {
        Chunk::new(words, self.shape, self.ends[at])
    }

    /// The entries of a chunk, from its stored bytes.
    ///
    /// # Errors
    ///
    /// [`Damage`] where the bytes are not the chunk that the directory says.
    pub fn read(&self, at: usize, bytes: &[u8]) -> Result<Vec<Entry>, Damage> {
        let entries = from_bytes(bytes, self.blocks)?;
        let (count, ends) = (self.count(at), self.ends[at]);
        if (entries.len(), ends_of(&entries, self.blocks)) != (count, ends) {
            let (id, len, of) = (self.id, entries.len(), ends_of(&entries, self.blocks));
            let message = format!("chunk {at} of run {id} has {len} entries of blocks {of:?}, not {count} of {ends:?}");
            return Err(Damage(message));
        }
        if !entries.iter().all(|entry| self.may_have(self.blocks.of(entry.key))) {
            return Err(Damage(format!("the filter of run {} leaves out blocks of its chunk {at}", self.id)));
        }
        Ok(entries)
    }

    /// Take the stored bytes of a chunk. Those of one that is here are passed by.
    ///
    /// # Errors
    ///
    /// [`Damage`] where the bytes are not the chunk that the directory says.
    pub fn supply(&mut self, at: usize, bytes: &[u8], cache: &mut Cache) -> Result<(), Damage> {
        if self.places.get(at).is_some_and(|place| !cache.has(*place)) {
            let entries = self.read(at, bytes)?;
            let (place, words) = cache.add();
            self.shape.write(&entries, self.blocks, words);
            self.places[at] = place;
        }
        Ok(())
    }

    /// The chunks that are not in memory.
    pub fn cold(&self, cache: &Cache) -> impl Iterator<Item = Key> {
        (0..self.places.len()).filter(|at| !cache.has(self.places[*at])).map(|at| self.key(at))
    }

    /// Whether a block may have entries, by the filter alone.
    #[must_use]
    pub fn may_have(&self, block: u32) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.has(block))
    }

    /// The word of the filter that says whether a block may have entries; 0 without a filter.
    #[must_use]
    pub fn filter_word(&self, block: u32) -> u64 {
        self.filter.as_ref().map_or(0, |filter| filter.word(block))
    }

    /// The chunks that have the entries of a block.
    #[must_use]
    pub fn chunks_of(&self, block: u32) -> Range<usize> {
        let (ends, jump) = (&self.ends, (block >> self.jump_shift) as usize);
        let among = self.jumps[jump] as usize..self.jumps[jump + 1] as usize;
        let first = among.start + ends[among].partition_point(|&(_, last)| last < block);
        let end = ends[first..].iter().position(|&(begin, _)| begin > block).map_or(ends.len(), |count| first + count);
        first..end
    }

    /// Entries of a chunk, if all are of this block; 0 where the directory does not tell.
    #[must_use]
    pub fn full_of(&self, chunk: usize, block: u32) -> usize {
        let is_full = self.ends[chunk] == (block, block) && chunk + 1 < self.ends.len();
        if is_full { self.shape.entries } else { 0 }
    }

    /// The bytes of the directory.
    #[must_use]
    pub fn directory(&self) -> Vec<u8> {
        let filter_bits = self.filter.as_ref().map_or(0, |filter| self.blocks.bits - filter.shift as u8);
        let mut bytes = vec![VERSION, self.blocks.table, self.blocks.bits, filter_bits];
        bytes.extend(self.entries.to_le_bytes());
        bytes.extend(self.before.to_le_bytes());
        bytes.extend((self.shape.entries as u32).to_le_bytes());
        bytes.extend(self.ends.iter().flat_map(|(first, last)| [first.to_le_bytes(), last.to_le_bytes()]).flatten());
        bytes.extend(self.filter.iter().flat_map(|filter| &filter.words).flat_map(|word| word.to_le_bytes()));
        bytes
    }

    /// Read a directory; none of the chunks is in memory.
    ///
    /// # Errors
    ///
    /// [`Damage`] where the bytes are no directory.
    pub fn from_directory(id: u32, bytes: &[u8]) -> Result<Self, Damage> {
        let damage = |what: &str| Damage(format!("the directory of run {id} {what}"));
        let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) else {
            return Err(damage(&format!("has {} bytes", bytes.len())));
        };
        let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        let (blocks, filter_bits) = (Blocks { table: head[1], bits: head[2] }, u32::from(head[3]));
        let (entries, before) = (number(4), number(12));
        let chunk_entries = u32::from_le_bytes(head[20..].try_into().expect("four bytes")) as usize;
        if head[0] != VERSION || blocks.table > 15 || ![16, 20, 24].contains(&blocks.bits) || entries == 0 {
            return Err(damage(&format!("begins with {:?}", &head[..12])));
        }
        if !(1..=MOST_ENTRIES).contains(&chunk_entries) {
            return Err(damage(&format!("has chunks of {chunk_entries} entries")));
        }
        if entries > before || before > 1 << 32 {
            return Err(damage(&format!("says {entries} entries before document number {before}")));
        }
        let filter_words = match filter_bits {
            0 => 0,
            bits if (LEAST_FILTER_BITS..=blocks.bits.into()).contains(&bits) => 1 << (bits - LEAST_FILTER_BITS),
            bits => return Err(damage(&format!("has a filter of {bits} bits"))),
        };
        let chunks = (entries as usize).div_ceil(chunk_entries);
        if rest.len() != (chunks + filter_words) * 8 {
            return Err(damage(&format!("has {} bytes for {entries} entries", bytes.len())));
        }
        let (ends, words) = rest.split_at(chunks * 8);
        let ends: Vec<_> = words_of(ends).map(|both| (both as u32, (both >> 32) as u32)).collect();
        let in_order =
            ends.iter().all(|(first, last)| first <= last) && ends.is_sorted_by(|one, other| one.1 <= other.0);
        if !in_order || ends[chunks - 1].1 >> blocks.bits != 0 {
            return Err(damage("is not in order of blocks"));
        }
        let mut run = Self::new(blocks, (id, before), 0, Shape::of(chunk_entries));
        let shift = u32::from(blocks.bits) - filter_bits;
        run.filter = (filter_bits > 0).then(|| Filter { shift, words: words_of(words).collect() });
        (run.entries, run.ends, run.places) = (entries, ends, vec![Place::default(); chunks]);
        Ok(run.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape::of(4)
    }

    fn made(most: u64, blocks: &[u32]) -> (Run, Cache) {
        let mut cache = Cache::new(usize::MAX, shape().words());
        let mut run = Run::new(Blocks { table: 1, bits: 16 }, (3, 1 << 20), most, shape());
        let entry = |(block, number): (&u32, u32)| Entry { key: u64::from(*block) << 32, number };
        let entries: Vec<_> = blocks.iter().zip(0..).map(entry).collect();
        entries.chunks(4).for_each(|entries| _ = run.add(entries, &mut cache));
        (run, cache)
    }

    #[test]
    fn a_block_is_found_in_a_run_that_is_made_or_opened() {
        let blocks = [1, 1, 2, 5, 9, 9, 9, 9, 9, 9, 700, 40_000, 65_535];
        let (run, _) = made(blocks.len() as u64, &blocks);
        let check = |run: &Run, how: &str| {
            for block in (0..1000).chain(39_990..40_010).chain(65_000..65_536) {
                let chunks = blocks.chunks(4).enumerate().filter(|(_, chunk)| chunk.contains(&block)).map(|(at, _)| at);
                let chunks: Vec<_> = chunks.collect();
                assert!(run.may_have(block) || chunks.is_empty(), "{block} {how}");
                let found: Vec<_> = run.chunks_of(block).collect();
                assert!(chunks.iter().all(|chunk| found.contains(chunk)), "{block} in {chunks:?} {how}: {found:?}");
                assert!(found.iter().all(|at| (run.ends[*at].0..=run.ends[*at].1).contains(&block)), "{block} {how}");
            }
            assert!(
                (0..65_536).filter(|block| run.may_have(*block)).count() < 8192,
                "what the filter lets through {how}"
            );
            assert_eq!([run.full_of(0, 1), run.full_of(1, 9), run.full_of(2, 9)], [0, 4, 0], "{how}");
        };
        let run = run.finish();
        check(&run, "made");
        check(&Run::from_directory(3, &run.directory()).expect("a directory"), "opened");
    }

    #[test]
    fn a_run_of_which_a_merge_dropped_entries_can_be_opened() {
        for most in [13, 1000, 60_000, 70_000, 1 << 21] {
            let directory = made(most, &[7; 13]).0.finish().directory();
            let run = Run::from_directory(3, &directory).expect("a directory");
            assert_eq!((run.entries, run.directory()), (13, directory));
        }
    }

    #[test]
    fn a_chunk_that_the_directory_does_not_say_is_refused() {
        let entry = |block: u32| Entry { key: u64::from(block) << 32, number: block };
        let bytes = |of: &[u32]| {
            let entries: Vec<_> = of.iter().map(|block| entry(*block)).collect();
            to_bytes(&entries)
        };
        let (run, mut cache) = made(6, &[1, 2, 3, 4, 5, 9]);
        let mut run = Run::from_directory(3, &run.finish().directory()).expect("a directory");
        for (at, others) in
            [(0, [&[1, 4][..], &[1, 2, 3, 5], &[5, 9], &[0, 2, 3, 4]]), (1, [&[5], &[5, 7, 9], &[5, 8], &[4, 9]])]
        {
            for other in others {
                assert!(run.supply(at, &bytes(other), &mut cache).is_err(), "{other:?} as chunk {at}");
            }
        }
        assert!(run.places.iter().all(|place| !cache.has(*place)));
        for (at, right) in [(0, &[1, 2, 3, 4][..]), (1, &[5, 9]), (2, &[7])] {
            assert!(run.supply(at, &bytes(right), &mut cache).is_ok(), "{at}");
        }
    }

    #[test]
    fn a_damaged_directory_is_refused() {
        let whole = made(10, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).0.finish().directory();
        for cut in [0, 23, 24, whole.len() - 1] {
            assert!(Run::from_directory(3, &whole[..cut]).is_err(), "{cut} bytes");
        }
        for (at, value) in
            [(0, 1), (1, 16), (2, 17), (3, 0), (3, 5), (3, 17), (4, 0), (4, 255), (14, 0), (20, 0), (24, 9)]
        {
            let mut other = whole.clone();
            other[at] = value;
            assert!(Run::from_directory(3, &other).is_err(), "byte {at} is {value}");
        }
    }
}
