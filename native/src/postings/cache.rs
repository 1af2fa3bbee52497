//! The cache: the chunks of lists and of rows that are in memory, within one budget.
//!
//! A chunk lies in a **frame**. Whoever adds a chunk gets its [`Place`], and asks by it; when the chunk has left the
//! frame, the place leads nowhere, and nobody is told. So who holds places never counts bytes, and cannot leave a chunk
//! behind: one that nobody asks for goes in its turn. Only a **pinned** chunk stays until it is removed: it is stored
//! nowhere yet, and its bytes are not of the budget.
//!
//! Which chunk goes is decided by second chance: a hand goes round the frames, and a chunk that was used since the hand
//! came by last stays for another round. What was used since the last [`Cache::begin`] never goes.

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
    /// The count of [`Cache::begin`] when it was used last; 0: not since the hand came by.
    used: Cell<u32>,
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
    now: u32,
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
            now: 1,
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

    /// Begin to use other chunks: those that were used until now may go, and chunks go until the rest is within the budget.
    pub fn begin(&mut self) {
        debug_assert_eq!(self.bytes, self.counted(), "bytes of chunks");
        self.now = self.now.checked_add(1).unwrap_or(1);
        for _ in 0..2 * self.frames.len() {
            if self.bytes[0] + self.stock.memory() <= self.budget {
                return;
            }
            self.hand = (self.hand + 1) % self.frames.len();
            let frame = &self.frames[self.hand];
            match frame.used.get() {
                used if frame.is_pinned || used == self.now => {}
                0 => self.vacate(self.hand),
                _ => frame.used.set(0),
            }
        }
    }

    /// Add a chunk, as used now.
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
        let Some(at) = self.find(place).filter(|at| self.frames[*at].is_pinned) else { return };
        let frame = &mut self.frames[at];
        let memory = frame.content.as_ref().map_or(0, Content::memory);
        frame.is_pinned = false;
        frame.used.set(self.now);
        self.bytes[1] -= memory;
        self.bytes[0] += memory;
    }

    /// Remove a chunk, if it is here.
    pub fn remove(&mut self, place: Place) {
        if let Some(at) = self.find(place) {
            self.vacate(at);
        }
    }

    /// Whether a chunk is here. That is no use of it.
    #[must_use]
    pub fn has(&self, place: Place) -> bool {
        self.find(place).is_some()
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
        let frame = &self.frames[self.find(place)?];
        frame.used.set(self.now);
        frame.content.as_ref()
    }

    fn find(&self, place: Place) -> Option<usize> {
        let at = place.frame as usize;
        (self.frames.get(at)?.tenant == place.tenant).then_some(at)
    }

    fn put(&mut self, content: Content, is_pinned: bool) -> Place {
        self.bytes[usize::from(is_pinned)] += content.memory();
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.frames.push(Frame { tenant: 1, ..Frame::default() });
            self.frames.len() as u32 - 1
        });
        let frame = &mut self.frames[at as usize];
        *frame = Frame { content: Some(content), used: Cell::new(self.now), tenant: frame.tenant, is_pinned };
        Place { frame: at, tenant: frame.tenant }
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
