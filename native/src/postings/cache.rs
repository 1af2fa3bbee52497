//! The cache: the chunks of lists and of rows that are in memory, within one budget.
//!
//! A chunk lies in a **frame**. Whoever adds a chunk gets its [`Place`], and asks by it; when the chunk has left the
//! frame, the place leads nowhere, and nobody is told. So who holds places never counts bytes, and cannot leave a chunk
//! behind: one that nobody asks for goes in its turn. Only a **pinned** chunk stays until it is removed: it is stored
//! nowhere yet, and its bytes are not of the budget.
//!
//! Which chunk goes is decided by second chance: a hand goes round the frames, and a chunk that was used since the hand
//! came by last stays for another round. None goes but in [`Cache::evict`].

use std::cell::Cell;

use super::chunk::Chunk;
use super::stock::Stock;

/// The pieces of each size in the stock may take the budget divided by this.
const STOCK_SHARE: usize = 32;
/// Bytes that a chunk takes beside its words: its frame, and its place.
const CHUNK_OVERHEAD: usize = 64;

/// What a frame holds.
pub enum Content {
    /// A chunk of a run.
    List(Chunk),
    /// The words of a chunk of rows.
    Rows(Box<[u64]>),
}

impl Content {
    fn memory(&self) -> usize {
        memory_of(match self {
            Self::List(chunk) => chunk.size(),
            Self::Rows(words) => words.len(),
        })
    }
}

/// Where a chunk was put. The default leads nowhere.
#[derive(Clone, Copy, Default)]
pub struct Place {
    frame: u32,
    tenant: u32,
}

#[derive(Default)]
struct Frame {
    content: Option<Content>,
    /// Whether it was used since the hand came by.
    is_used: Cell<bool>,
    /// Unlike that of every chunk that was here before, and not 0.
    tenant: u32,
    is_pinned: bool,
}

/// Chunks in memory.
pub struct Cache {
    /// Memory that chunks have left; its bytes are of the budget.
    pub stock: Stock,
    frames: Vec<Frame>,
    vacant: Vec<u32>,
    hand: usize,
    /// Most bytes of the chunks that are not pinned, and of the stock.
    budget: usize,
    /// Bytes of the chunks that are not pinned, and of those that are.
    bytes: [usize; 2],
}

impl Cache {
    /// Hold chunks up to so many bytes, most of which have one of two sizes in words.
    #[must_use]
    pub fn new(budget: usize, sizes: [usize; 2]) -> Self {
        Self {
            stock: Stock::new(sizes, budget / STOCK_SHARE),
            frames: Vec::new(),
            vacant: Vec::new(),
            hand: 0,
            budget,
            bytes: [0; 2],
        }
    }

    /// Bytes in memory, pinned ones included.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.bytes.iter().sum::<usize>() + self.stock.memory()
    }

    /// Bytes of the budget that are left.
    #[must_use]
    pub fn room(&self) -> usize {
        self.budget.saturating_sub(self.bytes[0] + self.stock.memory())
    }

    /// Let chunks go until the rest is within the budget.
    pub fn evict(&mut self) {
        debug_assert_eq!(self.bytes, self.counted(), "bytes of chunks");
        for _ in 0..2 * self.frames.len() {
            if self.bytes[0] + self.stock.memory() <= self.budget {
                return;
            }
            self.hand = (self.hand + 1) % self.frames.len();
            let frame = &self.frames[self.hand];
            if !frame.is_pinned && !frame.is_used.replace(false) {
                self.vacate(self.hand);
            }
        }
    }

    /// Add a chunk, as one that was used.
    pub fn add(&mut self, content: Content) -> Place {
        self.put(content, false)
    }

    /// Add a chunk that stays until it is removed or unpinned.
    pub fn pin(&mut self, content: Content) -> Place {
        self.put(content, true)
    }

    /// Add a chunk if there is room for it.
    pub fn offer(&mut self, content: Content) -> Place {
        if content.memory() <= self.room() {
            return self.add(content);
        }
        self.stock.give(words_of(content));
        Place::default()
    }

    /// Let a chunk go that was pinned, in its turn.
    pub fn unpin(&mut self, place: Place) {
        if self.frame(place).is_some_and(|frame| frame.is_pinned) {
            let frame = &mut self.frames[place.frame as usize];
            let memory = frame.content.as_ref().map_or(0, Content::memory);
            frame.is_pinned = false;
            self.bytes[1] -= memory;
            self.bytes[0] += memory;
        }
    }

    /// Remove a chunk, if it is here.
    pub fn remove(&mut self, place: Place) {
        if self.has(place) {
            self.vacate(place.frame as usize);
        }
    }

    /// Whether a chunk is here. That is no use of it.
    #[must_use]
    pub fn has(&self, place: Place) -> bool {
        self.frame(place).is_some()
    }

    /// Use a chunk of a run, if it is here.
    #[must_use]
    pub fn list(&self, place: Place) -> Option<&Chunk> {
        match self.content(place)? {
            Content::List(chunk) => Some(chunk),
            Content::Rows(_) => None,
        }
    }

    /// Use a chunk of rows, if it is here.
    #[must_use]
    pub fn rows(&self, place: Place) -> Option<&[u64]> {
        match self.content(place)? {
            Content::Rows(words) => Some(words),
            Content::List(_) => None,
        }
    }

    fn content(&self, place: Place) -> Option<&Content> {
        let frame = self.frame(place)?;
        frame.is_used.set(true);
        frame.content.as_ref()
    }

    fn frame(&self, place: Place) -> Option<&Frame> {
        self.frames.get(place.frame as usize).filter(|frame| frame.tenant == place.tenant)
    }

    fn put(&mut self, content: Content, is_pinned: bool) -> Place {
        self.bytes[usize::from(is_pinned)] += content.memory();
        let frame = self.vacant.pop().unwrap_or(self.frames.len() as u32);
        if frame as usize == self.frames.len() {
            self.frames.push(Frame { tenant: 1, ..Frame::default() });
        }
        let tenant = self.frames[frame as usize].tenant;
        self.frames[frame as usize] = Frame { content: Some(content), is_used: Cell::new(true), tenant, is_pinned };
        Place { frame, tenant }
    }

    fn vacate(&mut self, at: usize) {
        let frame = &mut self.frames[at];
        let Some(content) = frame.content.take() else { return };
        frame.tenant = frame.tenant.wrapping_add(1).max(1);
        self.bytes[usize::from(frame.is_pinned)] -= content.memory();
        self.vacant.push(at as u32);
        self.stock.give(words_of(content));
    }

    /// What `bytes` should be.
    fn counted(&self) -> [usize; 2] {
        let mut bytes = [0; 2];
        for frame in &self.frames {
            bytes[usize::from(frame.is_pinned)] += frame.content.as_ref().map_or(0, Content::memory);
        }
        bytes
    }
}

/// Bytes of a chunk of so many words in memory.
#[must_use]
pub fn memory_of(words: usize) -> usize {
    words * size_of::<u64>() + CHUNK_OVERHEAD
}

fn words_of(content: Content) -> Box<[u64]> {
    match content {
        Content::List(chunk) => chunk.into_words(),
        Content::Rows(words) => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 8;
    const MEMORY: usize = SIZE * 8 + CHUNK_OVERHEAD;

    fn rows(word: u64) -> Content {
        Content::Rows(vec![word; SIZE].into_boxed_slice())
    }

    /// A cache without a stock.
    fn cache(chunks: usize) -> Cache {
        Cache { stock: Stock::default(), ..Cache::new(chunks * MEMORY, [0; 2]) }
    }

    #[test]
    fn memory_that_chunks_have_left_is_of_the_budget() {
        let mut cache = Cache::new(64 * MEMORY, [SIZE, 0]);
        let places = [1, 2, 3].map(|word| cache.add(rows(word)));
        cache.remove(places[0]);
        cache.remove(places[1]);
        let left = 2 * SIZE * 8;
        assert_eq!((cache.stock.memory(), cache.memory()), (left, MEMORY + left));
        assert_eq!(cache.room(), 63 * MEMORY - left);
    }

    #[test]
    fn what_was_used_has_a_second_chance() {
        let mut cache = cache(2);
        let [a, b, c] = [1, 2, 3].map(|word| cache.add(rows(word)));
        let here = |cache: &Cache, places: [Place; 3]| places.map(|place| cache.has(place));
        cache.evict();
        assert_eq!(here(&cache, [a, b, c]), [true, false, true], "the hand begins behind the first, and all were used");
        assert!(cache.rows(c).is_some());
        let d = cache.add(rows(4));
        cache.evict();
        assert_eq!(here(&cache, [a, c, d]), [false, true, true], "the hand came by c, which was used, and then by a");
        cache.evict();
        assert_eq!((cache.bytes, cache.room()), ([2 * MEMORY, 0], 0), "none goes while the rest is within the budget");
        cache.budget = 0;
        cache.evict();
        assert_eq!((cache.memory(), cache.counted()), (0, [0; 2]));
    }

    #[test]
    fn a_place_whose_chunk_has_gone_leads_nowhere() {
        let mut cache = cache(1);
        assert!(!cache.has(Place::default()));
        let place = cache.add(rows(1));
        cache.remove(place);
        let next = cache.add(rows(2));
        assert_eq!((place.frame, cache.rows(place)), (next.frame, None));
        cache.remove(place);
        cache.remove(Place::default());
        assert_eq!(cache.rows(next), Some(&[2; SIZE][..]));
        assert!(!cache.has(Place::default()));
    }

    #[test]
    fn a_pinned_chunk_stays_beyond_the_budget_until_it_is_unpinned() {
        let mut cache = cache(0);
        let place = cache.pin(rows(1));
        cache.evict();
        assert_eq!((cache.memory(), cache.rows(place)), (MEMORY, Some(&[1; SIZE][..])));
        let offered = cache.offer(rows(2));
        assert!(!cache.has(offered), "no room");
        cache.unpin(place);
        cache.unpin(place);
        assert_eq!(cache.counted(), cache.bytes);
        cache.evict();
        assert_eq!((cache.has(place), cache.memory()), (false, 0));
    }
}
