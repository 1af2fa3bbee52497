//! How often each word occurs in a text: in its fields and key sentences, each with a weight.
//!
//! Words that have nodes in the dictionary are counted by node, others by name.

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
use crate::segment::dictionary::Dictionary;
use crate::signature::sums::feature_hash;

/// A word that was counted.
struct Counted {
    /// Where its name is in the names.
    name: Range<u32>,
    count: Count,
}

enum Count {
    /// That of a node.
    OfNode(u32),
    /// So many times.
    Times(u64),
}

/// The counts of one text.
pub struct Counts {
    /// By node; all 0 between two texts.
    of_nodes: Vec<u32>,
    names: String,
    words: Vec<Counted>,
    /// The places of words without nodes.
    known: HashTable<u32>,
    /// Of the hashes of the table, not the seed of the scheme: random, so that no text is made for which the table is
    /// slow.
    seed: u64,
}

impl Counts {
    /// Counts words of dictionaries of so many nodes.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self {
            of_nodes: vec![0; nodes],
            names: String::new(),
            words: Vec::new(),
            known: HashTable::new(),
            seed: RandomState::new().hash_one(0),
        }
    }

    /// Counts the words of a part of a text, each so many times.
    pub fn add(&mut self, words: &Words, times: u64, segmenter: &mut Segmenter, dictionary: &Dictionary) {
        for (run, offset) in words.han_runs() {
            segmenter.cut(dictionary, run, |word, node| {
                let name = &words.source()[bytes_of(offset, &word)];
                match node {
                    Some(node) => self.add_node(node, name, times),
                    None => self.add_name(name, times),
                }
            });
        }
        for word in words.others() {
            self.add_name(word, times);
        }
    }

    fn add_node(&mut self, node: u32, name: &str, times: u64) {
        let count = &mut self.of_nodes[node as usize];
        if *count == 0 {
            let name = keep(&mut self.names, name);
            self.words.push(Counted { name, count: Count::OfNode(node) });
        }
        *count = count.saturating_add(u32::try_from(times).unwrap_or(u32::MAX));
    }

    fn add_name(&mut self, name: &str, times: u64) {
        let Self { names, words, known, seed, .. } = self;
        let hash = |name: &str| xxh3_64_with_seed(name.as_bytes(), *seed);
        let name_of = |at: u32, words: &[Counted], names: &str| hash(name_in(names, &words[at as usize].name));
        let found = known.find(hash(name), |&at| name_in(names, &words[at as usize].name) == name);
        if let Some(&at) = found {
            if let Count::Times(count) = &mut words[at as usize].count {
                *count = count.saturating_add(times);
            }
            return;
        }
        let at = words.len() as u32;
        words.push(Counted { name: keep(names, name), count: Count::Times(times) });
        known.insert_unique(hash(name), at, |&at| name_of(at, words, names));
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
        for Counted { name, count } in self.words.drain(..) {
            let name = name_in(&self.names, &name);
            let (idf, count) = match count {
                Count::OfNode(node) => {
                    let count = std::mem::take(&mut self.of_nodes[node as usize]);
                    (weigher.idf_of_node(dictionary, node, name), u64::from(count))
                }
                Count::Times(count) => (weigher.idf(name), count),
            };
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
