//! Merging two neighbouring runs of a table, in steps.
//!
//! Entries of the newer run have greater document numbers, so of one block those of the older one come first. Blocks
//! below the **frontier** are merged whole: they are looked up in the new run, and the others in the two old ones. So a
//! look-up never waits for a merge, and entries are in memory twice near the frontier alone.

use super::cache::Cache;
use super::chunk::{Entry, Key, Shape};
use super::run::Run;

/// Chunks of each run that are asked for at once where they are not in memory.
const READ_AHEAD: usize = 8;
/// Greater than every block.
const NO_BLOCK: u32 = u32::MAX;

/// Two runs that become one.
pub struct Merge {
    /// Number of the older run.
    pub older: u32,
    /// Number of the newer run.
    pub newer: u32,
    /// The new run, as far as it is made.
    pub made: Run,
    /// Document number before which entries are dropped.
    first: u64,
    cursors: [Cursor; 2],
    /// Chunks of each run, from the first on, that nothing needs any more.
    released: [usize; 2],
    pending: Vec<Entry>,
}

#[derive(Clone, Copy, Default)]
struct Cursor {
    chunk: usize,
    entry: usize,
}

/// How far a step came.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// It took as many entries as it was to take.
    Paused,
    /// Chunks that it needs are not in memory.
    Missing,
    /// Every entry was taken.
    Done,
}

impl Merge {
    /// Begin a run of this number; entries before a document number are dropped.
    #[must_use]
    pub fn new([older, newer]: [&Run; 2], id: u32, first: u64, shape: Shape) -> Self {
        let most = older.entries + newer.entries;
        Self {
            older: older.id,
            newer: newer.id,
            made: Run::new(older.blocks, (id, newer.before), most, shape),
            first,
            cursors: [Cursor::default(); 2],
            released: [0; 2],
            pending: Vec::with_capacity(shape.entries),
        }
    }

    /// The first block that may have entries which are not in the new run yet.
    #[must_use]
    pub fn frontier(&self) -> u32 {
        self.made.ends.last().map_or(0, |&(_, last)| last)
    }

    /// Whether a run is one of the two.
    #[must_use]
    pub fn is_of(&self, run: &Run) -> bool {
        run.id == self.older || run.id == self.newer
    }

    /// Take so many entries, `owed`, which becomes what is left of it; add the chunks that are to be stored.
    pub fn step(
        &mut self,
        runs: [&Run; 2],
        owed: &mut usize,
        cache: &mut Cache,
        chunks: &mut Vec<(Key, Vec<u8>)>,
    ) -> Step {
        let step = loop {
            if *owed == 0 {
                break Step::Paused;
            }
            if !self.missing(runs, cache).is_empty() {
                break Step::Missing;
            }
            let taken = self.take_some(runs, *owed, cache);
            let is_full = self.pending.len() == self.made.shape.entries;
            if is_full || taken.is_none() && !self.pending.is_empty() {
                chunks.push(self.made.add(&self.pending, cache));
                self.pending.clear();
            }
            let Some(taken) = taken else { break Step::Done };
            *owed -= taken;
        };
        self.release(runs, cache);
        step
    }

    /// The chunks to supply before the next step.
    #[must_use]
    pub fn missing(&self, runs: [&Run; 2], cache: &Cache) -> Vec<Key> {
        let of_run = |(run, cursor): (&Run, Cursor)| {
            let end = (cursor.chunk + READ_AHEAD).min(run.places.len());
            let is_here = run.places.get(cursor.chunk).is_none_or(|place| cache.has(*place));
            run.cold(cursor.chunk..if is_here { cursor.chunk } else { end }, cache).collect::<Vec<_>>()
        };
        runs.into_iter().zip(self.cursors).flat_map(of_run).collect()
    }

    /// Take entries until one of the two chunks ends, the new one is full, or so many were taken; none at the end.
    fn take_some(&mut self, runs: [&Run; 2], most: usize, cache: &Cache) -> Option<usize> {
        let chunks = [0, 1].map(|which| runs[which].chunk(self.cursors[which].chunk, cache));
        if chunks.iter().all(Option::is_none) {
            return None;
        }
        let blocks = self.made.blocks;
        let next = |which: usize, cursor: Cursor| match chunks[which] {
            Some(chunk) => blocks.of(chunk.keys()[cursor.entry]),
            None => NO_BLOCK,
        };
        let mut heads = [0, 1].map(|which| next(which, self.cursors[which]));
        let mut taken = 0;
        while taken < most && self.pending.len() < self.made.shape.entries {
            let which = usize::from(heads[0] > heads[1]);
            let (chunk, cursor) = (chunks[which].expect("the head of a chunk"), &mut self.cursors[which]);
            let entry = chunk.entry(cursor.entry);
            if u64::from(entry.number) >= self.first {
                self.pending.push(entry);
            }
            taken += 1;
            cursor.entry += 1;
            if cursor.entry == runs[which].count(cursor.chunk) {
                *cursor = Cursor { chunk: cursor.chunk + 1, entry: 0 };
                break;
            }
            heads[which] = next(which, *cursor);
        }
        Some(taken)
    }

    /// Remove the chunks that no look-up and no step needs any more.
    fn release(&mut self, runs: [&Run; 2], cache: &mut Cache) {
        let frontier = self.frontier();
        for ((run, cursor), released) in runs.into_iter().zip(self.cursors).zip(&mut self.released) {
            while *released < cursor.chunk && run.ends[*released].1 < frontier {
                cache.remove(run.places[*released]);
                *released += 1;
            }
        }
    }
}
