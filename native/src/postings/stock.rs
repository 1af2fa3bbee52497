//! Memory that chunks have left, for the next ones.
//!
//! Chunks come and go for as long as an index is larger than its budget. An allocator keeps what is freed for the thread
//! that asked for it, so a cache that one thread filled, and another one has turned over, would take its memory twice.

/// Pieces of memory, of one size. The default keeps none.
#[derive(Default)]
pub struct Stock {
    pieces: Vec<Box<[u64]>>,
    /// Bytes of them at most.
    most: usize,
}

impl Stock {
    /// Keep pieces up to so many bytes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { pieces: Vec::new(), most }
    }

    /// Take so many words, all 0.
    pub fn take(&mut self, words: usize) -> Box<[u64]> {
        if self.pieces.last().is_none_or(|last| last.len() != words) {
            return vec![0; words].into_boxed_slice();
        }
        let mut piece = self.pieces.pop().expect("the last one");
        piece.fill(0);
        piece
    }

    /// Give back a piece. It is kept if the bytes allow it, and none that is kept is larger; smaller ones are kept no
    /// longer.
    pub fn give(&mut self, piece: Box<[u64]>) {
        let size = self.pieces.last().map_or(0, |last| last.len());
        if piece.len() > size {
            self.pieces.clear();
        }
        if piece.len() >= size && self.memory() + size_of_val(&*piece) <= self.most {
            self.pieces.push(piece);
        }
    }

    /// Bytes that are kept.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.pieces.len() * self.pieces.first().map_or(0, |piece| size_of_val(&**piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_taken_again_and_is_0() {
        let mut stock = Stock::new(64);
        let mut piece = stock.take(8);
        piece.fill(7);
        let place = piece.as_ptr();
        stock.give(piece);
        assert_eq!(stock.memory(), 64);
        assert_eq!(*stock.take(4), [0; 4], "another size");
        let again = stock.take(8);
        assert_eq!((again.as_ptr(), &*again, stock.memory()), (place, &[0; 8][..], 0));
    }

    #[test]
    fn it_keeps_the_largest_size_up_to_its_bytes() {
        let mut stock = Stock::new(160);
        for (words, kept) in [(4, 32), (8, 64), (4, 64), (8, 128), (8, 128), (32, 0)] {
            stock.give(vec![1; words].into_boxed_slice());
            assert_eq!(stock.memory(), kept, "after {words} words");
        }
    }
}
