//! Merging two neighbouring runs of a table, in steps.
//!
//! Entries of the newer run have greater document numbers, so of one block those of the older one come first. Blocks
//! below the **frontier** are merged whole: they are looked up in the new run, and the others in the two old ones. So a
//! look-up never waits for a merge, and entries are in memory twice near the frontier alone.

use std::ops::Range;

use super::chunk::{Blocks, Chunk, Entry};
use super::run::{Building, Run};

/// Chunks of each run that are asked for at once where they are not in memory.
const READ_AHEAD: usize = 8;

/// Two runs that become one.
pub struct Merge {
    /// Their table.
    pub table: usize,
    /// Number of the older run.
    pub older: u64,
    /// Number of the newer run.
    pub newer: u64,
    /// Number of the new run.
    pub id: u64,
    /// The new run, as far as it is made.
    pub building: Building,
    low_watermark: u64,
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
    /// Chunks are not in memory: of the older run, and of the newer one.
    Missing([Vec<usize>; 2]),
    /// Every entry was taken.
    Done,
}

impl Merge {
    /// Begin; entries with lower document numbers than the low watermark are dropped.
    #[must_use]
    pub fn new(older: &Run, newer: &Run, id: u64, low_watermark: u64, chunk_entries: usize) -> Self {
        Self {
            table: older.blocks.table.into(),
            older: older.id,
            newer: newer.id,
            id,
            building: Building::new(older.blocks, older.entries + newer.entries, chunk_entries),
            low_watermark,
            cursors: [Cursor::default(); 2],
            released: [0; 2],
            pending: Vec::with_capacity(chunk_entries),
        }
    }

    /// The first block that may have entries which are not in the new run yet.
    #[must_use]
    pub fn frontier(&self) -> u32 {
        self.building.last_block().unwrap_or(0)
    }

    /// Take so many entries, `owed`, which becomes what is left of it; `made` gets the entries of every chunk that is full.
    pub fn step(&mut self, runs: [&Run; 2], owed: &mut usize, mut made: impl FnMut(&mut Building, &[Entry])) -> Step {
        let blocks = runs[0].blocks;
        while *owed > 0 {
            let missing = self.missing(runs);
            if missing.iter().any(|chunks| !chunks.is_empty()) {
                return Step::Missing(missing);
            }
            let Some(took) = self.take_some(runs, blocks, *owed) else {
                if !self.pending.is_empty() {
                    made(&mut self.building, &self.pending);
                    self.pending.clear();
                }
                return Step::Done;
            };
            *owed = owed.saturating_sub(took);
            if self.pending.len() == self.building.chunk_entries() {
                made(&mut self.building, &self.pending);
                self.pending.clear();
            }
        }
        Step::Paused
    }

    /// Whether a run is one of the two.
    #[must_use]
    pub fn is_of(&self, run: &Run) -> bool {
        run.id == self.older || run.id == self.newer
    }

    /// The chunks of each run that no look-up and no step needs any more, since the last call.
    pub fn done_with(&mut self, runs: [&Run; 2]) -> [Range<usize>; 2] {
        let frontier = self.frontier();
        std::array::from_fn(|which| {
            let begin = self.released[which];
            let over = |chunk: &usize| runs[which].ends()[*chunk].1 < frontier;
            self.released[which] = begin + (begin..self.cursors[which].chunk).take_while(over).count();
            begin..self.released[which]
        })
    }

    fn missing(&self, runs: [&Run; 2]) -> [Vec<usize>; 2] {
        std::array::from_fn(|which| {
            let (run, at) = (runs[which], self.cursors[which].chunk);
            if run.slots.get(at).is_none_or(|slot| slot.chunk.is_some()) {
                return Vec::new();
            }
            let ahead = at..(at + READ_AHEAD).min(run.slots.len());
            ahead.filter(|&chunk| run.slots[chunk].chunk.is_none()).collect()
        })
    }

    /// Take entries until one of the two chunks ends, the new one is full, or so many were taken; none at the end.
    fn take_some(&mut self, runs: [&Run; 2], blocks: Blocks, most: usize) -> Option<usize> {
        let mut taken = 0;
        let chunk = |which: usize| runs[which].slots.get(self.cursors[which].chunk)?.chunk.as_ref();
        let [older, newer] = [chunk(0), chunk(1)];
        if older.is_none() && newer.is_none() {
            return None;
        }
        let left = |chunk: Option<&Chunk>, cursor: Cursor| chunk.is_some_and(|chunk| cursor.entry < chunk.len());
        let cursors = &mut self.cursors;
        while taken < most && self.pending.len() < self.building.chunk_entries() {
            let which = match (older, newer) {
                (Some(one), Some(other)) => {
                    if !left(older, cursors[0]) || !left(newer, cursors[1]) {
                        break;
                    }
                    let next = |chunk: &Chunk, cursor: Cursor| blocks.of(chunk.keys()[cursor.entry]);
                    usize::from(next(one, cursors[0]) > next(other, cursors[1]))
                }
                (Some(_), None) => 0,
                (None, _) => 1,
            };
            let Some(chunk) = [older, newer][which].filter(|chunk| cursors[which].entry < chunk.len()) else { break };
            let entry = chunk.entry(cursors[which].entry);
            cursors[which].entry += 1;
            taken += 1;
            if u64::from(entry.number) >= self.low_watermark {
                self.pending.push(entry);
            }
        }
        for (chunk, cursor) in [older, newer].into_iter().zip(cursors) {
            if chunk.is_some_and(|chunk| cursor.entry == chunk.len()) {
                *cursor = Cursor { chunk: cursor.chunk + 1, entry: 0 };
            }
        }
        Some(taken)
    }
}
