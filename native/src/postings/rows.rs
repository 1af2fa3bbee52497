//! The rows of entries, by document number: what the check needs of each.
//!
//! A row is the words of the signature, scope hash, hash of the article id, log position, log time, then the sketch.
//! Rows are stored in chunks of some rows; those in memory are whole chunks, and the unfinished last one.

use super::cache::{Cache, Place};
use super::chunk::{Damage, Key, words_of};
use super::near::WORDS;

const SCOPE_HASH: usize = WORDS;
const ID_HASH: usize = WORDS + 1;
const TIME: usize = WORDS + 3;
/// Words of a row without a sketch.
pub const ROW_WORDS: usize = WORDS + 4;

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
    pub fn scope_hash(self) -> u64 {
        self.0[SCOPE_HASH]
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

/// The rows of an index: where they are.
pub struct Rows {
    /// Words of a row.
    words: usize,
    /// Rows of a chunk.
    of_chunk: usize,
    /// Number of the first chunk that has a place.
    base: u64,
    places: Vec<Place>,
    /// Rows of the last chunk, while it has fewer than the others.
    tail: Vec<u64>,
}

impl Rows {
    /// Rows that are all stored, but for the last chunk, whose rows are given; from one document number on.
    #[must_use]
    pub fn stored(words: usize, of_chunk: usize, (first, after): (u64, u64), tail: Vec<u64>) -> Self {
        let base = first / of_chunk as u64;
        let whole = (after / of_chunk as u64).saturating_sub(base);
        Self { words, of_chunk, base, places: vec![Place::default(); whole as usize], tail }
    }

    /// The document number of the next row.
    #[must_use]
    pub fn after(&self) -> u64 {
        (self.base + self.places.len() as u64) * self.of_chunk as u64 + (self.tail.len() / self.words) as u64
    }

    /// Words of a row.
    #[must_use]
    pub fn row_words(&self) -> usize {
        self.words
    }

    /// Words of a whole chunk.
    #[must_use]
    pub fn chunk_words(&self) -> usize {
        self.of_chunk * self.words
    }

    /// Append rows; the chunks that they finish are in memory now.
    pub fn append(&mut self, rows: &[u64], cache: &mut Cache) {
        for row in rows.chunks_exact(self.words) {
            self.tail.extend_from_slice(row);
            if self.tail.len() == self.chunk_words() {
                let (place, words) = cache.add();
                words[..self.tail.len()].copy_from_slice(&self.tail);
                self.places.push(place);
                self.tail.clear();
            }
        }
    }

    /// The chunks of some rows that are to be fetched first. This is a use of them.
    #[must_use]
    pub fn missing(&self, numbers: impl Iterator<Item = u64>, cache: &Cache) -> Vec<Key> {
        let chunks = numbers.map(|number| number / self.of_chunk as u64);
        let is_missing = |chunk: &u64| {
            let place = self.places.get((chunk - self.base) as usize);
            place.is_some_and(|place| cache.get(*place).is_none())
        };
        let mut missing: Vec<_> = chunks.filter(is_missing).map(|chunk| Key::Rows(chunk as u32)).collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// A row; its chunk must be here.
    #[must_use]
    pub fn row<'a>(&'a self, number: u64, cache: &'a Cache) -> Row<'a> {
        let (chunk, at) = ((number / self.of_chunk as u64 - self.base) as usize, number as usize % self.of_chunk);
        let rows = match self.places.get(chunk) {
            Some(place) => cache.get(*place).expect("a chunk of rows that was fetched"),
            None => &self.tail,
        };
        Row(&rows[at * self.words..(at + 1) * self.words])
    }

    /// Take the stored bytes of a chunk. Those of one that is gone, or here, are passed by.
    ///
    /// # Errors
    ///
    /// [`Damage`] where the bytes are not those of a whole chunk.
    pub fn supply(&mut self, chunk: u32, bytes: &[u8], cache: &mut Cache) -> Result<(), Damage> {
        let (chunk, size) = (u64::from(chunk), self.chunk_words());
        let place = chunk.checked_sub(self.base).and_then(|at| self.places.get_mut(at as usize));
        let Some(place) = place.filter(|place| !cache.has(**place)) else { return Ok(()) };
        if bytes.len() != size * size_of::<u64>() {
            let first = chunk * self.of_chunk as u64;
            return Err(Damage(format!("rows {first} and on: {} bytes do not hold them", bytes.len())));
        }
        let words;
        (*place, words) = cache.add();
        words.iter_mut().zip(words_of(bytes)).for_each(|(word, stored)| *word = stored);
        Ok(())
    }

    /// The chunks that are not here, the newest first.
    pub fn cold(&self, cache: &Cache) -> impl Iterator<Item = Key> {
        let missing = self.places.iter().enumerate().rev().filter(|(_, place)| !cache.has(**place));
        missing.map(|(at, _)| Key::Rows((self.base + at as u64) as u32))
    }

    /// Forget the chunks whose rows are all before a document number.
    pub fn drop_before(&mut self, number: u64, cache: &mut Cache) {
        let gone = (number / self.of_chunk as u64).saturating_sub(self.base).min(self.places.len() as u64);
        self.base += gone;
        self.places.drain(..gone as usize).for_each(|place| cache.remove(place));
    }

    /// The number of chunks that are here.
    #[cfg(test)]
    #[must_use]
    pub fn held(&self, cache: &Cache) -> usize {
        self.places.iter().filter(|place| cache.has(**place)).count()
    }
}
