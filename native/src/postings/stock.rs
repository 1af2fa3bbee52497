//! Memory that chunks have left, for the next ones.
//!
//! Chunks come and go for as long as an index is larger than its budget. An allocator keeps what is freed for the thread
//! that asked for it, so a cache that one thread filled, and another one has turned over, would take its memory twice.

/// Pieces of memory of the two sizes that chunks have, full lists and rows. The default keeps none.
#[derive(Default)]
pub struct Stock {
    sizes: [usize; 2],
    pieces: [Vec<Box<[u64]>>; 2],
    /// Bytes of the pieces of each size at most.
    most: usize,
}

impl Stock {
    /// Keep pieces of so many words, of each size up to so many bytes.
    #[must_use]
    pub fn new(sizes: [usize; 2], most: usize) -> Self {
        Self { sizes, most, ..Self::default() }
    }

    /// Take so many words, all 0.
    pub fn take(&mut self, words: usize) -> Box<[u64]> {
        match self.of_size(words).and_then(Vec::pop) {
            Some(mut piece) => {
                piece.fill(0);
                piece
            }
            None => vec![0; words].into_boxed_slice(),
        }
    }

    /// Give back a piece. It is kept if it has one of the sizes, and the bytes allow it.
    pub fn give(&mut self, piece: Box<[u64]>) {
        let most = self.most;
        let kept = self.of_size(piece.len()).filter(|kept| (kept.len() + 1) * size_of_val(&*piece) <= most);
        if let Some(kept) = kept {
            kept.push(piece);
        }
    }

    /// Bytes that are kept.
    #[must_use]
    pub fn memory(&self) -> usize {
        let words = self.sizes.iter().zip(&self.pieces).map(|(size, pieces)| size * pieces.len()).sum::<usize>();
        words * size_of::<u64>()
    }

    fn of_size(&mut self, words: usize) -> Option<&mut Vec<Box<[u64]>>> {
        let at = self.sizes.iter().position(|size| *size == words)?;
        Some(&mut self.pieces[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_taken_again_and_is_0() {
        let mut stock = Stock::new([8, 4], 64);
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
    fn it_keeps_two_sizes_up_to_its_bytes() {
        let mut stock = Stock::new([8, 4], 160);
        for (words, kept) in [(4, 32), (8, 96), (16, 96), (8, 160), (8, 160), (4, 192)] {
            stock.give(vec![1; words].into_boxed_slice());
            assert_eq!(stock.memory(), kept, "after {words} words");
        }
    }
}
