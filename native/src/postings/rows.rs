//! The rows of entries, by document number: what the check needs of each.
//!
//! A row is the words of the signature, group, hash of the article id, log position, log time, then the sketch. Rows
//! are stored in chunks of some rows; those in memory are whole chunks, and the unfinished last one.

use std::cell::Cell;

use super::chunk::{Damage, words_of};
use super::near::WORDS;
use super::stock::Stock;

const GROUP: usize = WORDS;
const ID_HASH: usize = WORDS + 1;
const TIME: usize = WORDS + 3;
/// Words of a row without a sketch.
const ROW_WORDS: usize = WORDS + 4;

/// One row.
#[derive(Clone, Copy)]
pub struct Row<'a>(&'a [u64]);

impl<'a> Row<'a> {
    /// The words of the signature.
    #[must_use]
    pub fn signature(self) -> &'a [u64] {
        &self.0[..WORDS]
    }

    /// Hash of kind of text and scope.
    #[must_use]
    pub fn group(self) -> u64 {
        self.0[GROUP]
    }

    /// Hash of the article id.
    #[must_use]
    pub fn id_hash(self) -> u64 {
        self.0[ID_HASH]
    }

    /// Log time, ms.
    #[must_use]
    pub fn time(self) -> i64 {
        self.0[TIME] as i64
    }

    /// Values of the sketch, then its form.
    #[must_use]
    pub fn sketch(self) -> &'a [u64] {
        &self.0[ROW_WORDS..]
    }

    /// Something of the first and the last word, which are in different lines of the processor's cache.
    #[must_use]
    pub fn touched(self) -> u64 {
        self.0[0] ^ self.0[self.0.len() - 1]
    }

    /// All words.
    #[must_use]
    pub fn words(self) -> &'a [u64] {
        self.0
    }
}

#[derive(Default)]
struct Slot {
    rows: Option<Box<[u64]>>,
    used: Cell<u32>,
}

/// The rows of an index: which of them are in memory.
pub struct Rows {
    /// Words of a row.
    words: usize,
    /// Rows of a chunk.
    of_chunk: usize,
    /// Number of the first chunk that has a slot.
    base: u64,
    slots: Vec<Slot>,
    /// Rows of the last chunk, while it has fewer than the others.
    tail: Vec<u64>,
    /// Memory of chunks that were let go. `Tables::new` says how much is kept; until then it is none.
    pub stock: Stock,
}

impl Rows {
    /// Rows that are all stored, but for the last chunk, whose rows are given; from one document number on.
    #[must_use]
    pub fn stored(words: usize, of_chunk: usize, (first, after): (u64, u64), tail: Vec<u64>) -> Self {
        let base = first / of_chunk as u64;
        let whole = (after / of_chunk as u64).saturating_sub(base);
        let slots = (0..whole).map(|_| Slot::default()).collect();
        Self { words, of_chunk, base, slots, tail, stock: Stock::default() }
    }

    /// The document number of the next row.
    #[must_use]
    pub fn after(&self) -> u64 {
        (self.base + self.slots.len() as u64) * self.of_chunk as u64 + (self.tail.len() / self.words) as u64
    }

    /// Bytes of a chunk in memory.
    #[must_use]
    pub fn chunk_memory(&self) -> usize {
        self.of_chunk * self.words * size_of::<u64>()
    }

    /// Append rows; return the numbers of the chunks that they finished, which are in memory now.
    pub fn append(&mut self, rows: &[u64], now: u32) -> Vec<u64> {
        let mut finished = Vec::new();
        for row in rows.chunks_exact(self.words) {
            self.tail.extend_from_slice(row);
            if self.tail.len() == self.of_chunk * self.words {
                finished.push(self.base + self.slots.len() as u64);
                let rows = std::mem::take(&mut self.tail).into_boxed_slice();
                self.slots.push(Slot { rows: Some(rows), used: Cell::new(now) });
            }
        }
        finished
    }

    /// The chunk of a row, if it is to be fetched first. The chunk is marked as used now.
    #[must_use]
    pub fn missing(&self, number: u64, now: u32) -> Option<u64> {
        let chunk = number / self.of_chunk as u64;
        let slot = self.slots.get((chunk - self.base) as usize)?;
        slot.used.set(now);
        slot.rows.is_none().then_some(chunk)
    }

    /// A row; its chunk must be here.
    #[must_use]
    pub fn row(&self, number: u64) -> Row<'_> {
        let (chunk, at) = ((number / self.of_chunk as u64 - self.base) as usize, number as usize % self.of_chunk);
        let rows = match self.slots.get(chunk) {
            Some(slot) => slot.rows.as_deref().expect("a chunk of rows that was fetched"),
            None => &self.tail,
        };
        Row(&rows[at * self.words..(at + 1) * self.words])
    }

    /// Take the stored bytes of a chunk; return whether it was not here.
    ///
    /// # Errors
    ///
    /// [`Damage`] where the bytes are not those of a whole chunk.
    pub fn supply(&mut self, chunk: u64, bytes: &[u8], now: u32) -> Result<bool, Damage> {
        let Some(slot) = chunk.checked_sub(self.base).and_then(|at| self.slots.get_mut(at as usize)) else {
            return Ok(false);
        };
        if slot.rows.is_some() {
            return Ok(false);
        }
        if bytes.len() != self.of_chunk * self.words * size_of::<u64>() {
            let first = chunk * self.of_chunk as u64;
            return Err(Damage(format!("rows {first} and on: {} bytes do not hold them", bytes.len())));
        }
        let mut rows = self.stock.take(self.of_chunk * self.words);
        rows.iter_mut().zip(words_of(bytes)).for_each(|(word, stored)| *word = stored);
        slot.rows = Some(rows);
        slot.used.set(now);
        Ok(true)
    }

    /// When a chunk was used last; none where it is not here.
    #[must_use]
    pub fn used(&self, chunk: u64) -> Option<u32> {
        let slot = self.slots.get(chunk.checked_sub(self.base)? as usize)?;
        slot.rows.as_ref().map(|_| slot.used.get())
    }

    /// Note that a chunk was not used since its last turn.
    pub fn mark_unused(&self, chunk: u64) {
        if let Some(slot) = chunk.checked_sub(self.base).and_then(|at| self.slots.get(at as usize)) {
            slot.used.set(0);
        }
    }

    /// Let a chunk go.
    pub fn evict(&mut self, chunk: u64) {
        let slot = chunk.checked_sub(self.base).and_then(|at| self.slots.get_mut(at as usize));
        if let Some(rows) = slot.and_then(|slot| slot.rows.take()) {
            self.stock.give(rows);
        }
    }

    /// The chunks that are not here, the newest first.
    pub fn cold(&self) -> impl Iterator<Item = u64> {
        let missing = self.slots.iter().enumerate().rev().filter(|(_, slot)| slot.rows.is_none());
        missing.map(|(at, _)| self.base + at as u64)
    }

    /// Forget the chunks whose rows are all before a document number; return how many of them were here.
    pub fn drop_before(&mut self, number: u64) -> usize {
        let gone = (number / self.of_chunk as u64).saturating_sub(self.base).min(self.slots.len() as u64) as usize;
        self.base += gone as u64;
        let mut held = 0;
        for rows in self.slots.drain(..gone).filter_map(|slot| slot.rows) {
            self.stock.give(rows);
            held += 1;
        }
        held
    }
}
