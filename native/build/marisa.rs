//! Reads the keys of a marisa trie, version 0.2 and later: the format of `OpenCC`'s dictionaries.
//!
//! A trie is nodes in the order of levels. A node has a byte of its key, or a link to several bytes: a node of a further
//! trie, whose bytes are those up to its root, or a place in the tail. The parts of a file, each a vector (its bytes: u64,
//! the bytes, zeros up to the next multiple of 8) and more:
//!
//!     "We love Marisa." 0
//!     shape, terminals, links: bits     bases: a vector     extras: a flat vector     tail: a vector, bits of ends
//!     the further trie, if there are links and the tail is empty
//!     cache: a vector     nodes of the first level: u32     settings: u32
//!
//! Bits are a vector, their number and that of ones (u32 each), and three vectors that speed up counting. A flat vector
//! is a vector of numbers of so many bits, these bits and their mask (u32 each), and how many numbers there are (u64).
//! Source: `grimoire/trie/louds-trie.cc` of <https://github.com/s-yata/marisa-trie>.

use crate::opencc::number;

const MAGIC: &[u8] = b"We love Marisa.\0";
const ALIGNED: usize = 8;

/// Takes a trie off the bytes; returns its keys in the order of their numbers.
pub fn keys(bytes: &mut &[u8]) -> Vec<Vec<u8>> {
    *bytes = bytes.strip_prefix(MAGIC).expect("a marisa trie");
    let trie = Trie::read(bytes);
    trie.terminals.ones.iter().map(|&node| trie.key(node)).collect()
}

struct Trie {
    /// Of each node: a one for each child, behind these a zero. Before them those of a node above the root.
    shape: Bits,
    terminals: Bits,
    links: Bits,
    bases: Vec<u8>,
    extras: Flat,
    tail: Tail,
    further: Option<Box<Trie>>,
    first_level: usize,
}

impl Trie {
    fn read(bytes: &mut &[u8]) -> Self {
        let (shape, terminals, links) = (Bits::read(bytes), Bits::read(bytes), Bits::read(bytes));
        let (bases, extras, tail) = (vector(bytes), Flat::read(bytes), Tail::read(bytes));
        let further = (!links.ones.is_empty() && tail.bytes.is_empty()).then(|| Box::new(Self::read(bytes)));
        let _cache = vector(bytes);
        let first_level = number(bytes, 4);
        let _settings = number(bytes, 4);
        Self { shape, terminals, links, bases, extras, tail, further, first_level }
    }

    /// The key that ends at a node.
    fn key(&self, mut node: usize) -> Vec<u8> {
        let mut backwards = Vec::new();
        while node > 0 {
            let own = self.bytes_of(node);
            backwards.extend(own.iter().rev());
            node = self.parent(node);
        }
        backwards.reverse();
        backwards
    }

    /// The bytes from a node up to the root: a further trie has what is linked backwards.
    fn upwards(&self, mut node: usize) -> Vec<u8> {
        let mut found = Vec::new();
        while node > 0 {
            found.extend(self.bytes_of(node));
            node = self.parent(node);
        }
        found
    }

    fn bytes_of(&self, node: usize) -> Vec<u8> {
        let base = self.bases[node];
        if !self.links.has(node) {
            return vec![base];
        }
        let link = usize::from(base) | self.extras.get(self.links.ones_before(node)) << 8;
        self.further.as_ref().map_or_else(|| self.tail.get(link), |further| further.upwards(link))
    }

    fn parent(&self, node: usize) -> usize {
        if node <= self.first_level { 0 } else { self.shape.ones[node] - node - 1 }
    }
}

struct Bits {
    /// Where the ones are.
    ones: Vec<usize>,
}

impl Bits {
    fn read(bytes: &mut &[u8]) -> Self {
        let units = vector(bytes);
        let (size, ones) = (number(bytes, 4), number(bytes, 4));
        for _ in 0..3 {
            vector(bytes);
        }
        let made = Self { ones: (0..size).filter(|at| units[at / 8] >> (at % 8) & 1 == 1).collect() };
        assert_eq!(made.ones.len(), ones, "as many ones as a trie says");
        made
    }

    fn has(&self, at: usize) -> bool {
        self.ones.binary_search(&at).is_ok()
    }

    fn ones_before(&self, at: usize) -> usize {
        self.ones.partition_point(|&one| one < at)
    }
}

struct Flat {
    units: Vec<u8>,
    width: usize,
}

impl Flat {
    fn read(bytes: &mut &[u8]) -> Self {
        let units = vector(bytes);
        let (width, _mask, _count) = (number(bytes, 4), number(bytes, 4), number(bytes, 8));
        Self { units, width }
    }

    fn get(&self, index: usize) -> usize {
        let bit = |at: usize| usize::from(self.units[at / 8] >> (at % 8) & 1);
        (0..self.width).map(|place| bit(index * self.width + place) << place).sum()
    }
}

struct Tail {
    bytes: Vec<u8>,
    ends: Bits,
}

impl Tail {
    fn read(bytes: &mut &[u8]) -> Self {
        Self { bytes: vector(bytes), ends: Bits::read(bytes) }
    }

    fn get(&self, start: usize) -> Vec<u8> {
        if self.ends.ones.is_empty() {
            return self.bytes[start..].iter().copied().take_while(|&byte| byte != 0).collect();
        }
        let end = (start..self.bytes.len()).find(|&at| self.ends.has(at)).expect("each tail ends");
        self.bytes[start..=end].to_vec()
    }
}

fn vector(bytes: &mut &[u8]) -> Vec<u8> {
    let size = number(bytes, 8);
    let (own, behind) = bytes.split_at(size);
    *bytes = &behind[size.next_multiple_of(ALIGNED) - size..];
    own.to_vec()
}
