//! Makes a double array of all words: a child is at the base of its parent plus the code of its character.
//!
//! Nodes of frequent words are placed first, so what most texts need is close together.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::jieba::Dictionary;
use crate::ranges::HAN_COUNT;

const FREE: u32 = u32::MAX;
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
    /// Logarithm of the frequency of the word; minus infinity of what is no word.
    log: f64,
    base: u32,
    parent: u32,
}

pub struct Trie {
    nodes: Vec<Node>,
    idf: Vec<u16>,
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

    pub fn node_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 * self.nodes.len());
        for node in &self.nodes {
            bytes.extend_from_slice(&node.log.to_le_bytes());
            bytes.extend_from_slice(&node.base.to_le_bytes());
            bytes.extend_from_slice(&node.parent.to_le_bytes());
        }
        bytes
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
    /// Where the search for so many free places begins.
    from: [usize; 33],
}

impl Placer {
    fn new() -> Self {
        Self { nodes: Vec::new(), from: [1; 33] }
    }

    fn place(mut self, branches: &[Branch]) -> Trie {
        let mut places = vec![0; branches.len()];
        let mut order: Vec<usize> = (1..branches.len()).collect();
        order.sort_by_key(|&at| Reverse(branches[at].weight));
        // The root's base is 0.
        self.grow(HAN_COUNT + 1);
        self.nodes[0].parent = 0;
        for &child in &branches[0].children {
            places[child] = usize::from(branches[child].code);
            self.nodes[places[child]].parent = 0;
        }
        for at in order.into_iter().filter(|&at| !branches[at].children.is_empty()) {
            let codes: Vec<usize> =
                branches[at].children.iter().map(|&child| usize::from(branches[child].code)).collect();
            let base = self.base_for(&codes);
            self.nodes[places[at]].base = base;
            for (&child, &code) in branches[at].children.iter().zip(&codes) {
                places[child] = base.wrapping_add(code as u32) as usize;
                self.nodes[places[child]].parent = places[at] as u32;
            }
        }
        let mut idf = vec![0; self.nodes.len()];
        for (branch, &place) in branches.iter().zip(&places).skip(1) {
            if branch.frequency > 0 {
                self.nodes[place].log = (branch.frequency as f64).ln();
            }
            idf[place] = branch.idf;
        }
        Trie { nodes: self.nodes, idf }
    }

    /// The first base by which all places of these codes, in order, are free.
    fn base_for(&mut self, codes: &[usize]) -> u32 {
        let class = codes.len().min(self.from.len() - 1);
        let span = codes[codes.len() - 1] - codes[0];
        let begin = self.from[class];
        let mut first = begin;
        loop {
            self.grow(first + span + 1);
            if codes.iter().all(|code| self.nodes[first + code - codes[0]].parent == FREE) {
                self.from[class] = begin + (first - begin) / PATIENCE;
                return (first as u32).wrapping_sub(codes[0] as u32);
            }
            first += 1;
        }
    }

    fn grow(&mut self, size: usize) {
        if self.nodes.len() < size {
            self.nodes.resize(size, Node { log: f64::NEG_INFINITY, base: 0, parent: FREE });
        }
    }
}
