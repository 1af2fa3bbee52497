//! How often each word occurs in a text: in its fields and key sentences, each with a weight.
//!
//! Words that have nodes in the dictionary are known by these, others by their names.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::weights::Weigher;
use super::words::{Words, bytes_of};
use super::{Feature, Weighed};
use crate::segment::Segmenter;
use crate::segment::dictionary::{Dictionary, NONE};
use crate::signature::sums::feature_hash;

/// A word that was counted.
struct Counted {
    /// Its node; [`NONE`] of a word that has none.
    node: u32,
    /// Where its name is in the names.
    name: Range<u32>,
    count: u64,
}

/// The counts of one text.
pub struct Counts {
    names: String,
    words: Vec<Counted>,
    /// The places of words, by their nodes or else by their names.
    known: HashTable<u32>,
    /// Of the hashes of the table, not the seed of the scheme: random, so that no text is made for which the table is
    /// slow.
    seed: u64,
}

impl Default for Counts {
    fn default() -> Self {
        let seed = RandomState::new().hash_one(0);
        Self { names: String::new(), words: Vec::new(), known: HashTable::new(), seed }
    }
}

impl Counts {
    /// Counts the words of a part of a text, each so many times.
    pub fn add(&mut self, words: &Words, times: u64, segmenter: &mut Segmenter, dictionary: &Dictionary) {
        for (run, offset) in words.han_runs() {
            segmenter.cut(dictionary, run, |word, node| {
                let name = &words.source()[bytes_of(offset, &word)];
                self.add_word(node.unwrap_or(NONE), name, times);
            });
        }
        for word in words.others() {
            self.add_word(NONE, word, times);
        }
    }

    fn add_word(&mut self, node: u32, name: &str, times: u64) {
        let Self { names, words, known, seed } = self;
        let hash = |node: u32, name: &str| match node {
            NONE => xxh3_64_with_seed(name.as_bytes(), *seed),
            node => xxh3_64_with_seed(&node.to_le_bytes(), *seed),
        };
        let is_same = |one: &Counted| one.node == node && (node != NONE || name_in(names, &one.name) == name);
        if let Some(&at) = known.find(hash(node, name), |&at| is_same(&words[at as usize])) {
            let count = &mut words[at as usize].count;
            *count = count.saturating_add(times);
            return;
        }
        let at = words.len() as u32;
        words.push(Counted { node, name: keep(names, name), count: times });
        let hash_at = |at: u32| hash(words[at as usize].node, name_in(names, &words[at as usize].name));
        known.insert_unique(hash_at(at), at, |&at| hash_at(at));
    }

    /// Weighs the words but stop words, and forgets them. `features` gets them by name, where they are asked for.
    pub fn weigh(
        &mut self,
        dictionary: &Dictionary,
        weigher: &Weigher,
        stop_words: &HashSet<String>,
        seed: u64,
        into: &mut Weighed,
        mut features: Option<&mut Vec<Feature>>,
    ) {
        into.clear();
        for Counted { node, name, count } in self.words.drain(..) {
            let name = name_in(&self.names, &name);
            let idf = if node == NONE { weigher.idf(name) } else { weigher.idf_of_node(dictionary, node, name) };
            if !stop_words.is_empty() && stop_words.contains(name) {
                continue;
            }
            let (weight, hash) = (weigher.weight(idf, count), feature_hash(name.as_bytes(), seed));
            into.add(weight, hash);
            if let Some(features) = &mut features {
                features.push(Feature { name: name.to_owned(), count, weight: u64::from(weight), hash });
            }
        }
        self.names.clear();
        self.known.clear();
    }
}

fn keep(names: &mut String, name: &str) -> Range<u32> {
    let begin = names.len() as u32;
    names.push_str(name);
    begin..names.len() as u32
}

fn name_in<'n>(names: &'n str, name: &Range<u32>) -> &'n str {
    &names[name.start as usize..name.end as usize]
}
