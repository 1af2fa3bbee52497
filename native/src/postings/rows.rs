//! The rows of entries, by document number: what the check needs of each.
//!
//! A row is the words of the signature, scope hash, hash of the article id, log position, log time, then the sketch.
//! Rows are stored in chunks of some rows; those in memory are whole chunks, and the unfinished last one.
//!
//! In its frame a chunk has what is before the sketch of all its rows, a line of the processor's cache each, and then the
//! sketches: most entries that are checked are too far away, which the line says. The last rows lie as they are stored.

use super::cache::{Cache, LINE_WORDS, Place};
use super::chunk::{Damage, Key, words_of};
use super::near::WORDS;

const SCOPE_HASH: usize = WORDS;
const ID_HASH: usize = WORDS + 1;
const TIME: usize = WORDS + 3;
/// Words of a row without a sketch.
pub const ROW_WORDS: usize = WORDS + 4;
const _: () = assert!(ROW_WORDS == LINE_WORDS, "one wait for memory tells that an entry is too far away");

/// One row.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    /// The words before the sketch.
    head: &'a [u64; ROW_WORDS],
    sketch: &'a [u64],
}

impl<'a> Row<'a> {
    /// The words of the signature.
    #[must_use]
    pub fn signature(self) -> &'a [u64] {
        &self.head[..WORDS]
    }

    /// Hash of kind of text and scope.
    #[must_use]
    pub fn scope_hash(self) -> u64 {
        self.head[SCOPE_HASH]
    }

    /// Hash of the article id.
    #[must_use]
    pub fn id_hash(self) -> u64 {
        self.head[ID_HASH]
    }

    /// Log time, ms.
    #[must_use]
    pub fn time(self) -> i64 {
        self.head[TIME] as i64
    }

    /// Values of the sketch, then its form.
    #[must_use]
    pub fn sketch(self) -> &'a [u64] {
        self.sketch
    }

    /// Something of the sketch, from each line of the processor's cache that has some of it.
    #[must_use]
    pub fn touched(self) -> u64 {
        self.sketch.first().zip(self.sketch.last()).map_or(0, |(first, last)| first ^ last)
    }

    /// All words.
    pub fn words(self) -> impl Iterator<Item = u64> {
        self.head.iter().chain(self.sketch).copied()
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
                write(self.tail.iter().copied(), (self.of_chunk, self.words), words);
                self.places.push(place);
                self.tail.clear();
            }
        }
    }

    /// Some rows, or the chunks of them that are to be fetched first. This is a use of all of them.
    ///
    /// # Errors
    ///
    /// The keys of these chunks.
    pub fn get<'a>(&'a self, numbers: impl Iterator<Item = u64>, cache: &'a Cache) -> Result<Vec<Row<'a>>, Vec<Key>> {
        let (mut rows, mut missing) = (Vec::with_capacity(numbers.size_hint().0), Vec::new());
        for number in numbers {
            let (chunk, at) = (number / self.of_chunk as u64, (number % self.of_chunk as u64) as usize);
            let place = self.places.get((chunk - self.base) as usize);
            match place.map(|place| cache.get(*place)) {
                None => rows.push(self.row(&self.tail, (at * self.words, at * self.words + ROW_WORDS))),
                Some(Some(words)) => {
                    let sketches = self.of_chunk * ROW_WORDS;
                    rows.push(self.row(words, (at * ROW_WORDS, sketches + at * (self.words - ROW_WORDS))));
                }
                Some(None) => missing.push(Key::Rows(chunk as u32)),
            }
        }
        missing.sort_unstable();
        missing.dedup();
        if missing.is_empty() { Ok(rows) } else { Err(missing) }
    }

    /// The row of which a part begins at each of these words.
    fn row<'a>(&self, words: &'a [u64], (head, sketch): (usize, usize)) -> Row<'a> {
        let head = words[head..].first_chunk().expect("the words of a row");
        Row { head, sketch: &words[sketch..][..self.words - ROW_WORDS] }
    }

    /// Take the stored bytes of a chunk. Those of one that is gone, or here, are passed by.
    ///
    /// # Errors
    ///
    /// [`Damage`] where the bytes are not those of a whole chunk.
    pub fn supply(&mut self, chunk: u32, bytes: &[u8], cache: &mut Cache) -> Result<(), Damage> {
        let (chunk, size, shape) = (u64::from(chunk), self.chunk_words(), (self.of_chunk, self.words));
        let place = chunk.checked_sub(self.base).and_then(|at| self.places.get_mut(at as usize));
        let Some(place) = place.filter(|place| !cache.has(**place)) else { return Ok(()) };
        if bytes.len() != size * size_of::<u64>() {
            let first = chunk * self.of_chunk as u64;
            return Err(Damage(format!("rows {first} and on: {} bytes do not hold them", bytes.len())));
        }
        let words;
        (*place, words) = cache.add();
        write(words_of(bytes), shape, words);
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

/// Write the words of so many rows of so many words, one row after the other, into a frame.
fn write(mut rows: impl Iterator<Item = u64>, (count, row_words): (usize, usize), words: &mut [u64]) {
    let (heads, sketches) = words.split_at_mut(count * ROW_WORDS);
    let sketch_words = row_words - ROW_WORDS;
    for (at, head) in heads.chunks_exact_mut(ROW_WORDS).enumerate() {
        let sketch = &mut sketches[at * sketch_words..][..sketch_words];
        head.iter_mut().chain(sketch).zip(&mut rows).for_each(|(word, row)| *word = row);
    }
}
