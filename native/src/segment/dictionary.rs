//! jieba's dictionary and hidden Markov model, and the IDF of words, as a double array of all words.
//!
//! A node is a beginning of words. Its child is at its base plus the code of the next character, if the node there has that
//! code: no two nodes have the same base. The node of a single ideograph has the number of its code.
//!
//! A user's words are added to a copy, one after the other as rjieba adds them: the more often a word is said to occur,
//! the more probable it is. A word without a frequency gets the least by which it is not cut. Nodes that these need lie
//! behind the others, and how they are reached in a table of their own.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use bytemuck::{Pod, Zeroable};

use self::jieba::{BASE_BITS, CODE_BITS};
use super::Segmenter;
use crate::tables::table;
use crate::text::characters::han_number;
use crate::text::ranges::HAN;

/// What is read of jieba's package when the crate is built.
pub mod jieba {
    #![allow(missing_docs, clippy::unreadable_literal, reason = "generated")]
    include!(concat!(env!("OUT_DIR"), "/jieba.rs"));
}

/// The number of no node.
pub const NONE: u32 = u32::MAX;

/// From the low bit on: the base; the code of the last character, 0 where no base leads to the node; the number of the
/// word's logarithm. Eight bytes, because texts read all over the table, and each read waits for memory.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
struct Node(u64);

impl Node {
    /// One that no base leads to, and that leads nowhere.
    const APART: Self = Self((1 << BASE_BITS) - 1);

    fn leads_to(self, code: u16) -> usize {
        (self.0 as usize + usize::from(code)) % (1 << BASE_BITS)
    }

    fn has_code(self, code: u16) -> bool {
        self.0 >> BASE_BITS & ((1 << CODE_BITS) - 1) == u64::from(code)
    }

    fn log(self) -> usize {
        (self.0 >> (BASE_BITS + CODE_BITS)) as usize
    }

    fn with_log(self, number: usize) -> Self {
        Self(self.0 & ((1 << (BASE_BITS + CODE_BITS)) - 1) | (number as u64) << (BASE_BITS + CODE_BITS))
    }
}

/// Logarithms by state: begin, end, middle of a word, and a word of one character.
pub(super) type ByState = [f64; 4];

/// The words with their frequencies, and the model.
#[derive(Clone)]
pub struct Dictionary {
    nodes: Cow<'static, [Node]>,
    /// Of frequencies; the first is minus infinity, of what is no word.
    logs: Cow<'static, [f64]>,
    idf: &'static [u16],
    codes: &'static [u16],
    emissions: &'static [ByState],
    total: u64,
    log_total: f64,
    /// How nodes behind the others are reached: from a node, by a code.
    more: HashMap<(u32, u16), u32>,
    /// Frequencies of a user's words.
    frequencies: HashMap<u32, u64>,
    /// Of the first character.
    pub(super) begins: ByState,
    /// Of a state behind each.
    pub(super) steps: [ByState; 4],
}

/// The package's own.
pub static DICTIONARY: LazyLock<Dictionary> = LazyLock::new(|| Dictionary {
    nodes: Cow::Borrowed(table!("nodes.bin")),
    logs: Cow::Borrowed(table!("logs.bin")),
    idf: table!("idf.bin"),
    codes: table!("codes.bin"),
    emissions: table!("emissions.bin"),
    total: jieba::TOTAL,
    log_total: (jieba::TOTAL as f64).ln(),
    more: HashMap::new(),
    frequencies: HashMap::new(),
    begins: jieba::BEGINS,
    steps: jieba::STEPS,
});

impl Dictionary {
    /// Logarithm of the sum of all frequencies.
    #[must_use]
    pub fn log_total(&self) -> f64 {
        self.log_total
    }

    /// The code of an ideograph, by its code point.
    #[must_use]
    #[inline]
    pub fn code(&self, point: u32) -> u16 {
        self.codes[(point - HAN.start()) as usize]
    }

    /// Logarithm of the probability of a word; minus infinity of what is no word.
    #[must_use]
    #[inline]
    pub fn log(&self, node: u32) -> f64 {
        self.raw_log(node) - self.log_total
    }

    /// Logarithm of the frequency of a word.
    #[inline]
    fn raw_log(&self, node: u32) -> f64 {
        self.logs[self.nodes[node as usize].log()]
    }

    /// The node with one character more, or [`NONE`].
    #[must_use]
    #[inline]
    pub fn child(&self, node: u32, code: u16) -> u32 {
        // No branch: which characters make words is no pattern that a processor could learn.
        let child = self.nodes[node as usize].leads_to(code).min(self.nodes.len() - 1);
        let child = if self.nodes[child].has_code(code) { child as u32 } else { NONE };
        if child == NONE && !self.more.is_empty() {
            return self.more.get(&(node, code)).copied().unwrap_or(NONE);
        }
        child
    }

    /// The node of a run of ideographs, if words begin so.
    #[must_use]
    pub fn find(&self, codes: &[u16]) -> Option<u32> {
        codes[1..].iter().try_fold(u32::from(codes[0]), |at, &code| Some(self.child(at, code)).filter(|at| *at != NONE))
    }

    /// The codes of a text of nothing but ideographs.
    #[must_use]
    pub fn codes_of(&self, word: &str) -> Option<Vec<u16>> {
        word.chars().map(|one| han_number(one).map(|number| self.codes[number])).collect()
    }

    /// Whether a run of ideographs is a word.
    #[must_use]
    pub fn is_word(&self, codes: &[u16]) -> bool {
        self.find(codes).is_some_and(|node| self.raw_log(node) > f64::NEG_INFINITY)
    }

    /// The IDF of what a node stands for, in units of 1/1024; none where jieba's table does not have it.
    #[must_use]
    pub fn idf(&self, node: u32) -> Option<u32> {
        self.idf.get(node as usize).filter(|idf| **idf > 0).map(|idf| u32::from(*idf))
    }

    /// Logarithms of the probabilities of an ideograph, by its code, in each state.
    #[must_use]
    pub fn emissions(&self, code: u16) -> &ByState {
        &self.emissions[usize::from(code)]
    }

    /// The same with more words, each with its frequency, or none for the suggested one.
    ///
    /// What has other characters than ideographs is left out: it would never be cut.
    #[must_use]
    pub fn with_words<'w>(&self, words: impl IntoIterator<Item = (&'w str, Option<u64>)>) -> Self {
        let mut made = self.clone();
        for (word, frequency) in words {
            if let Some(codes) = made.codes_of(word).filter(|codes| !codes.is_empty()) {
                let frequency = frequency.unwrap_or_else(|| made.suggested_frequency(&codes));
                made.add(&codes, frequency);
            }
        }
        made
    }

    /// The least frequency by which a word is not cut, or its own if that is higher.
    fn suggested_frequency(&self, word: &[u16]) -> u64 {
        let mut log = 0.0;
        Segmenter::default().cut_by_dictionary(self, word, |part| {
            log = log + (self.frequency(&word[part]) as f64).ln() - self.log_total;
        });
        let least = (log + self.log_total).exp() as u64 + 1;
        least.max(self.frequency(word))
    }

    /// The frequency of a word; 1 if it is none.
    fn frequency(&self, word: &[u16]) -> u64 {
        let frequency_of = |node: u32| match self.frequencies.get(&node) {
            Some(frequency) => *frequency,
            // A whole number far below 2^50, which the logarithm gives back.
            None => self.raw_log(node).exp().round() as u64,
        };
        self.find(word).map_or(0, frequency_of).max(1)
    }

    fn add(&mut self, word: &[u16], frequency: u64) {
        let known = if self.is_word(word) { self.frequency(word) } else { 0 };
        let mut node = u32::from(word[0]);
        for &code in &word[1..] {
            let child = self.child(node, code);
            node = if child == NONE { self.add_node(node, code) } else { child };
        }
        let log = self.logs.len();
        self.logs.to_mut().push((frequency as f64).ln());
        let place = &mut self.nodes.to_mut()[node as usize];
        *place = place.with_log(log);
        self.frequencies.insert(node, frequency);
        self.total = self.total + frequency - known;
        self.log_total = (self.total as f64).ln();
    }

    fn add_node(&mut self, parent: u32, code: u16) -> u32 {
        let made = u32::try_from(self.nodes.len()).expect("fewer than 4 billion beginnings of words");
        self.nodes.to_mut().push(Node::APART);
        self.more.insert((parent, code), made);
        made
    }
}
