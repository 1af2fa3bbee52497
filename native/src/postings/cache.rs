//! The cache: the chunks of lists and of rows that are in memory, within one budget.
//!
//! All memory of the cache is **frames** of one size, each of which holds a chunk of any kind, so what a chunk leaves the
//! next one takes, whatever the two are. Frames are cut from large slabs, which the system may back by large pages: a
//! look-up then waits for memory alone, not for where the memory is.
//!
//! Whoever adds a chunk gets its [`Place`], and asks by it; when the chunk has left the frame, the place leads nowhere,
//! and nobody is told. So who holds places cannot leave a chunk behind: one that nobody asks for goes in its turn.
//!
//! Which chunk goes is decided by second chance: a hand goes round the frames, and a chunk that was used since the hand
//! came by last stays for another round. None goes but in [`Cache::evict`].

use std::cell::Cell;
use std::io;
use std::ops::Range;

use memmap2::MmapMut;

/// Most bytes of a slab with more than one frame. The system gives its memory when it is first written.
const SLAB_BYTES: usize = 32 << 20;
/// Words of a line of the processor's cache: every frame begins where one does.
pub const LINE_WORDS: usize = 8;
/// Bytes that a chunk takes beside its words: what is known of its frame, and its place.
const FRAME_OVERHEAD: usize = 32;

/// Number of no chunk: what a vacant frame has.
const VACANT: u64 = u64::MAX;

/// Where a chunk was put. The default leads nowhere.
#[derive(Clone, Copy, Default)]
pub struct Place {
    frame: u32,
    /// Chunks are numbered from 1 on, in the order in which they were added.
    chunk: u64,
}

struct Frame {
    /// Number of its chunk, or [`VACANT`].
    chunk: u64,
    /// Whether it was used since the hand came by.
    is_used: Cell<bool>,
}

/// Chunks in memory.
pub struct Cache {
    /// Words of a frame: whole lines.
    words: usize,
    slabs: Vec<MmapMut>,
    /// Frames of a slab: a power of two.
    of_slab: usize,
    frames: Vec<Frame>,
    vacant: Vec<u32>,
    hand: usize,
    /// Most chunks.
    most: usize,
    /// Chunks that were added so far.
    added: u64,
}

impl Cache {
    /// Hold chunks of at most so many words, in about so many bytes.
    #[must_use]
    pub fn new(budget: usize, words: usize) -> Self {
        let words = words.next_multiple_of(LINE_WORDS);
        Self {
            words,
            slabs: Vec::new(),
            of_slab: 1 << (SLAB_BYTES / memory_of(words)).max(1).ilog2(),
            frames: Vec::new(),
            vacant: Vec::new(),
            hand: 0,
            most: budget / memory_of(words),
            added: 0,
        }
    }

    /// Whether a chunk of so many words fits into a frame.
    #[must_use]
    pub fn fits(&self, words: usize) -> bool {
        words <= self.words
    }

    /// Bytes of the frames that have a chunk. The others keep their memory: there were never more at once than the budget,
    /// and those that one step of a search or a merge needs.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.held() * memory_of(self.words)
    }

    /// Chunks that there is room for.
    #[must_use]
    pub fn room(&self) -> usize {
        self.most.saturating_sub(self.held())
    }

    /// Let chunks go until the rest is within the budget.
    pub fn evict(&mut self) {
        for _ in 0..2 * self.frames.len() {
            if self.held() <= self.most {
                return;
            }
            self.hand = (self.hand + 1) % self.frames.len();
            let frame = &self.frames[self.hand];
            if frame.chunk != VACANT && !frame.is_used.replace(false) {
                self.vacate(self.hand);
            }
        }
    }

    /// A frame for a chunk, as one that was used; its words are what the chunk before left.
    pub fn add(&mut self) -> (Place, &mut [u64]) {
        let frame = self.vacant.pop().unwrap_or(self.frames.len() as u32);
        let (slab, bytes) = self.frame(frame);
        self.added += 1;
        let taken = Frame { chunk: self.added, is_used: Cell::new(true) };
        match self.frames.get_mut(frame as usize) {
            Some(vacant) => *vacant = taken,
            None => self.frames.push(taken),
        }
        if slab == self.slabs.len() {
            let slab = slab_of(self.of_slab * self.words * size_of::<u64>());
            self.slabs.push(slab.expect("memory of the cache: a smaller index.memory_mib needs less"));
        }
        let place = Place { frame, chunk: self.added };
        (place, bytemuck::cast_slice_mut(&mut self.slabs[slab][bytes]))
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
        self.frames.get(place.frame as usize).is_some_and(|frame| frame.chunk == place.chunk)
    }

    /// Use a chunk, if it is here: the words of its frame.
    #[must_use]
    #[inline]
    pub fn get(&self, place: Place) -> Option<&[u64]> {
        let frame = self.frames.get(place.frame as usize).filter(|frame| frame.chunk == place.chunk)?;
        // What is not written need not be written back by the processor's cache.
        if !frame.is_used.get() {
            frame.is_used.set(true);
        }
        let (slab, bytes) = self.frame(place.frame);
        Some(bytemuck::cast_slice(&self.slabs[slab][bytes]))
    }

    /// The number of chunks.
    #[must_use]
    pub fn held(&self) -> usize {
        self.frames.len() - self.vacant.len()
    }

    /// The most chunks that were ever here at once.
    #[cfg(test)]
    #[must_use]
    pub fn most_held(&self) -> usize {
        self.frames.len()
    }

    fn vacate(&mut self, at: usize) {
        let frame = &mut self.frames[at];
        frame.chunk = VACANT;
        self.vacant.push(at as u32);
    }

    /// The slab of a frame, and its bytes there.
    fn frame(&self, frame: u32) -> (usize, Range<usize>) {
        let (frame, size) = (frame as usize, self.words * size_of::<u64>());
        let at = (frame & (self.of_slab - 1)) * size;
        (frame >> self.of_slab.trailing_zeros(), at..at + size)
    }
}

/// Memory of so many bytes, all 0, of large pages where the system has them.
fn slab_of(bytes: usize) -> io::Result<MmapMut> {
    let slab = MmapMut::map_anon(bytes)?;
    #[cfg(target_os = "linux")]
    if let Err(error) = slab.advise(memmap2::Advice::HugePage) {
        // A kernel that was built without large pages.
        debug_assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
    Ok(slab)
}

/// Bytes of a chunk in a frame of so many words.
#[must_use]
pub fn memory_of(words: usize) -> usize {
    words * size_of::<u64>() + FRAME_OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 8;

    fn cache(chunks: usize) -> Cache {
        Cache::new(chunks * memory_of(SIZE), SIZE)
    }

    fn add(cache: &mut Cache, word: u64) -> Place {
        let (place, words) = cache.add();
        words.fill(word);
        place
    }

    #[test]
    fn what_a_chunk_leaves_the_next_one_takes() {
        let mut cache = cache(64);
        let places = [1, 2, 3].map(|word| add(&mut cache, word));
        cache.remove(places[0]);
        cache.remove(places[1]);
        assert_eq!((cache.memory(), cache.room(), cache.frames.len()), (memory_of(SIZE), 63, 3));
        let (place, words) = cache.add();
        assert_eq!((place.frame, words[0]), (places[1].frame, 2));
        assert_eq!((cache.memory(), cache.room(), cache.frames.len()), (2 * memory_of(SIZE), 62, 3));
    }

    #[test]
    fn chunks_lie_in_as_many_slabs_as_they_need() {
        let mut cache = Cache { of_slab: 2, ..cache(5) };
        let places = [1, 2, 3, 4, 5].map(|word| add(&mut cache, word));
        for (place, word) in places.into_iter().zip(1..) {
            assert_eq!(cache.get(place), Some(&[word; SIZE][..]));
        }
        assert_eq!(cache.slabs.len(), 3);
    }

    #[test]
    fn what_was_used_has_a_second_chance() {
        let mut cache = cache(2);
        let [a, b, c] = [1, 2, 3].map(|word| add(&mut cache, word));
        let here = |cache: &Cache, places: [Place; 3]| places.map(|place| cache.has(place));
        cache.evict();
        assert_eq!(here(&cache, [a, b, c]), [true, false, true], "the hand begins behind the first, and all were used");
        assert!(cache.get(c).is_some());
        let d = add(&mut cache, 4);
        cache.evict();
        assert_eq!(here(&cache, [a, c, d]), [false, true, true], "the hand came by c, which was used, and then by a");
        cache.evict();
        assert_eq!((cache.held(), cache.room()), (2, 0), "none goes while the rest is within the budget");
        cache.most = 0;
        cache.evict();
        assert_eq!((cache.held(), cache.vacant.len()), (0, 3));
    }

    #[test]
    fn a_place_whose_chunk_has_gone_leads_nowhere() {
        let mut cache = cache(1);
        assert!(!cache.has(Place::default()));
        let place = add(&mut cache, 1);
        cache.remove(place);
        assert!(!cache.has(place), "a vacant frame");
        let next = add(&mut cache, 2);
        assert_eq!((place.frame, cache.get(place)), (next.frame, None));
        cache.remove(place);
        cache.remove(Place::default());
        assert_eq!(cache.get(next), Some(&[2; SIZE][..]));
        assert!(!cache.has(Place::default()));
    }
}
