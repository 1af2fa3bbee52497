//! Merging two neighbouring runs of a table, in steps: a large merge takes longer than an article may wait.
//!
//! Entries of the newer run have greater document numbers, so of one block those of the older one come first. Look-ups
//! go to the two old runs until the merge is done. What is merged is read from the storage: it needs no place in the
//! cache.

use super::cache::Cache;
use super::chunk::{Damage, Entry, Shape, Storage};
use super::run::Run;

/// Chunks that are stored at once: 3 MiB, 4 ms in which no other thread of Python runs.
pub const WRITE_CHUNKS: usize = 256;
/// Greater than every block.
const NO_BLOCK: u32 = u32::MAX;

/// Two runs that become one.
pub struct Merge {
    /// Number of the older run.
    pub older: u32,
    /// The new run, as far as it is made.
    pub made: Run,
    /// Document number before which entries are dropped.
    first: u64,
    sides: [Side; 2],
    pending: Vec<Entry>,
}

/// How far a run was read.
#[derive(Default)]
struct Side {
    /// The chunk to read next.
    chunk: usize,
    /// What is left of the one before it.
    entries: std::vec::IntoIter<Entry>,
}

impl Merge {
    /// Begin a run of this number; entries before a document number are dropped.
    #[must_use]
    pub fn new([older, newer]: [&Run; 2], id: u32, first: u64, shape: Shape) -> Self {
        let made = Run::new(older.blocks, (id, newer.before), older.entries + newer.entries, shape);
        let pending = Vec::with_capacity(shape.entries);
        Self { older: older.id, made, first, sides: <[Side; 2]>::default(), pending }
    }

    /// Take so many entries, `owed`, which becomes what is left of it; whether every entry was taken.
    ///
    /// # Errors
    ///
    /// [`Damage`] where the storage fails.
    pub fn step(
        &mut self,
        runs: [&Run; 2],
        owed: &mut usize,
        cache: &mut Cache,
        storage: &mut impl Storage,
    ) -> Result<bool, Damage> {
        let (mut chunks, mut is_done) = (Vec::new(), false);
        let mut heads = [self.sides[0].head(runs[0], storage)?, self.sides[1].head(runs[1], storage)?];
        while *owed > 0 && !is_done {
            is_done = heads == [NO_BLOCK; 2];
            let which = usize::from(heads[0] > heads[1]);
            if let Some(entry) = self.sides[which].entries.next() {
                *owed -= 1;
                self.pending.extend((u64::from(entry.number) >= self.first).then_some(entry));
                heads[which] = self.sides[which].head(runs[which], storage)?;
            }
            if self.pending.len() == self.made.shape.entries || is_done && !self.pending.is_empty() {
                chunks.push(self.made.add(&self.pending, cache));
                self.pending.clear();
            }
            if chunks.len() == WRITE_CHUNKS {
                storage.write(&std::mem::take(&mut chunks))?;
            }
        }
        if chunks.is_empty() { Ok(is_done) } else { storage.write(&chunks).map(|()| is_done) }
    }
}

impl Side {
    /// The block of the next entry, [`NO_BLOCK`] at the end.
    fn head(&mut self, run: &Run, storage: &mut impl Storage) -> Result<u32, Damage> {
        if self.entries.as_slice().is_empty() && self.chunk < run.places.len() {
            let bytes = storage.read(&[run.key(self.chunk)])?.concat();
            self.entries = run.read(self.chunk, &bytes)?.into_iter();
            self.chunk += 1;
        }
        Ok(self.entries.as_slice().first().map_or(NO_BLOCK, |entry| run.blocks.of(entry.key)))
    }
}
