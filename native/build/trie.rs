//! Makes a double array of all words: a child is at the base of its parent plus the code of its character.
//!
//! Nodes of frequent words are placed first, so what most texts need is close together. No two nodes have the same base, so
//! that a node belongs to the one that leads to it by its own character.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};

use crate::jieba::Dictionary;
use crate::ranges::HAN_COUNT;

/// The code of no character: a free place.
const FREE: u16 = 0;
/// Bits of a base, and of a code.
const BASE_BITS: u32 = 20;
const CODE_BITS: u32 = 15;
/// The next search for as many places begins where this one did, plus the way that it took divided by this: the greater
/// it is, the fewer places stay free, and the longer the build takes.
const PATIENCE: usize = 32;

#[derive(Default)]
struct Branch {
    parent: usize,
    code: u16,
    children: Vec<usize>,
    frequency: u64,
    /// Frequency of all words that begin so.
    weight: u64,
    /// 0 where the table does not have the word.
    idf: u16,
}

#[derive(Clone, Copy)]
struct Node {
    frequency: u64,
    base: u32,
    code: u16,
}

pub struct Trie {
    nodes: Vec<Node>,
    idf: Vec<u16>,
    /// All frequencies; the first is 0, that of what is no word.
    frequencies: Vec<u64>,
}

impl Trie {
    pub fn of(dictionary: &Dictionary) -> Self {
        let mut branches = Branches::new();
        for (word, frequency) in &dictionary.words {
            let at = branches.reach(word);
            branches.all[at].frequency = *frequency;
        }
        for (word, idf) in &dictionary.idf {
            let at = branches.reach(word);
            branches.all[at].idf = *idf;
        }
        branches.weigh();
        Placer::new().place(&branches.all)
    }

    /// Of each node from the low bit on: its base, its code, and the number of its frequency.
    pub fn node_bytes(&self) -> Vec<u8> {
        let number = |frequency| self.frequencies.binary_search(&frequency).expect("one of them") as u64;
        let pack = |node: &Node| {
            u64::from(node.base) | u64::from(node.code) << BASE_BITS | number(node.frequency) << (BASE_BITS + CODE_BITS)
        };
        self.nodes.iter().flat_map(|node| pack(node).to_le_bytes()).collect()
    }

    /// The layout of a node, as source.
    pub fn constants() -> String {
        format!("pub const BASE_BITS: u32 = {BASE_BITS};\npub const CODE_BITS: u32 = {CODE_BITS};\n")
    }

    /// The logarithm of each frequency.
    pub fn log_bytes(&self) -> Vec<u8> {
        self.frequencies.iter().flat_map(|frequency| (*frequency as f64).ln().to_le_bytes()).collect()
    }

    pub fn idf_bytes(&self) -> Vec<u8> {
        self.idf.iter().flat_map(|idf| idf.to_le_bytes()).collect()
    }
}

struct Branches {
    all: Vec<Branch>,
    known: HashMap<(usize, u16), usize>,
}

impl Branches {
    /// The root, and a branch for each ideograph: that of a code has its number.
    fn new() -> Self {
        let mut made = Self { all: vec![Branch::default()], known: HashMap::new() };
        for code in 1..=HAN_COUNT as u16 {
            made.reach(&[code]);
        }
        made
    }

    fn reach(&mut self, word: &[u16]) -> usize {
        word.iter().fold(0, |parent, &code| {
            let next = self.all.len();
            let at = *self.known.entry((parent, code)).or_insert(next);
            if at == next {
                self.all.push(Branch { parent, code, ..Branch::default() });
                self.all[parent].children.push(at);
            }
            at
        })
    }

    fn weigh(&mut self) {
        for at in (1..self.all.len()).rev() {
            let (parent, weight) = (self.all[at].parent, self.all[at].weight + self.all[at].frequency);
            self.all[at].weight = weight;
            self.all[parent].weight += weight;
        }
        for at in 0..self.all.len() {
            let mut children = std::mem::take(&mut self.all[at].children);
            children.sort_by_key(|&child| self.all[child].code);
            self.all[at].children = children;
        }
    }
}

struct Placer {
    nodes: Vec<Node>,
    bases: HashSet<u32>,
    /// Where the search for so many free places begins.
    from: [usize; 33],
}

impl Placer {
    fn new() -> Self {
        Self { nodes: Vec::new(), bases: HashSet::from([0]), from: [1; 33] }
    }

    fn place(mut self, branches: &[Branch]) -> Trie {
        let mut places = vec![0; branches.len()];
        let mut order: Vec<usize> = (1..branches.len()).collect();
        order.sort_by_key(|&at| Reverse(branches[at].weight));
        // The root's base is 0.
        self.grow(HAN_COUNT + 1);
        for &child in &branches[0].children {
            places[child] = usize::from(branches[child].code);
            self.nodes[places[child]].code = branches[child].code;
        }
        for at in order.into_iter().filter(|&at| !branches[at].children.is_empty()) {
            let codes: Vec<usize> =
                branches[at].children.iter().map(|&child| usize::from(branches[child].code)).collect();
            let base = self.base_for(&codes);
            self.nodes[places[at]].base = base;
            for (&child, &code) in branches[at].children.iter().zip(&codes) {
                places[child] = (base as usize + code) % (1 << BASE_BITS);
                self.nodes[places[child]].code = code as u16;
            }
        }
        // The last place stays free: it is where all lead that have no children.
        let last = self.nodes.len();
        self.grow(last + 1);
        assert!(last + HAN_COUNT < 1 << BASE_BITS, "{last} nodes");
        let mut idf = vec![0; self.nodes.len()];
        for (branch, &place) in branches.iter().zip(&places).skip(1) {
            self.nodes[place].frequency = branch.frequency;
            idf[place] = branch.idf;
            if branch.children.is_empty() {
                self.nodes[place].base = last as u32;
            }
        }
        let frequencies: BTreeSet<u64> = self.nodes.iter().map(|node| node.frequency).chain([0]).collect();
        Trie { nodes: self.nodes, idf, frequencies: frequencies.into_iter().collect() }
    }

    /// The first base that no other node has, and by which all places of these codes, in order, are free.
    fn base_for(&mut self, codes: &[usize]) -> u32 {
        let class = codes.len().min(self.from.len() - 1);
        let span = codes[codes.len() - 1] - codes[0];
        let begin = self.from[class];
        let mut first = begin;
        loop {
            self.grow(first + span + 1);
            let base = (first as u32).wrapping_sub(codes[0] as u32) % (1 << BASE_BITS);
            let is_free = codes.iter().all(|code| self.nodes[first + code - codes[0]].code == FREE);
            if is_free && self.bases.insert(base) {
                self.from[class] = begin + (first - begin) / PATIENCE;
                return base;
            }
            first += 1;
        }
    }

    fn grow(&mut self, size: usize) {
        if self.nodes.len() < size {
            self.nodes.resize(size, Node { frequency: 0, base: 0, code: FREE });
        }
    }
}
