//! The features of a text, and their weights.
//!
//! * [`words`]: splits a text into runs of ideographs, which a segmenter cuts further, and other words.
//! * [`units`]: the characters and words that count in short text.
//! * [`grams`]: characters, pairs and trigrams of short text.
//! * [`counts`]: how often each word occurs in the fields of a text.
//! * [`weights`]: whole-number weights.
//! * [`sentences`]: key sentences.

pub mod counts;
pub mod grams;
pub mod sentences;
pub mod units;
pub mod weights;
pub mod words;

use std::cmp::Reverse;

use crate::signature::sums::{Hash, Sums};

/// One feature of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// As text, with letters for tokens.
    pub name: String,
    /// Occurrences in the text, multiplied by the weights of fields and key sentences.
    pub count: u64,
    /// Its share of the sums.
    pub weight: u64,
    /// 256 bits.
    pub hash: Hash,
}

/// Weights and hashes of the features of one text; cleared and filled for each.
#[derive(Default)]
pub struct Weighed {
    /// In the order of the hashes.
    weights: Vec<u32>,
    hashes: Vec<Hash>,
    /// The hashes of features of one weight, by the number of their group.
    groups: Vec<(u32, Vec<Hash>)>,
}

impl Weighed {
    /// Forgets all features.
    pub fn clear(&mut self) {
        self.weights.clear();
        self.hashes.clear();
        self.groups.iter_mut().for_each(|(_, hashes)| hashes.clear());
    }

    /// Adds a feature.
    pub fn add(&mut self, weight: u32, hash: Hash) {
        self.weights.push(weight);
        self.hashes.push(hash);
    }

    /// Adds a feature of a group, whose features all have one weight: that adds them up several times faster.
    pub fn add_to_group(&mut self, group: usize, weight: u32, hash: Hash) {
        if self.groups.len() <= group {
            self.groups.resize_with(group + 1, Default::default);
        }
        let (of_group, hashes) = &mut self.groups[group];
        *of_group = weight;
        hashes.push(hash);
    }

    /// How many features there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.weights.len() + self.groups.iter().map(|(_, hashes)| hashes.len()).sum::<usize>()
    }

    /// Whether there is no feature.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps the heaviest features; of equal weight, those with the smaller hash.
    pub fn keep_heaviest(&mut self, most: Option<usize>) {
        if let Some(most) = most.filter(|most| *most < self.len()) {
            for (weight, hashes) in &mut self.groups {
                self.weights.resize(self.weights.len() + hashes.len(), *weight);
                self.hashes.append(hashes);
            }
            let mut order: Vec<usize> = (0..self.weights.len()).collect();
            order.sort_by_key(|&at| (Reverse(self.weights[at]), first_bytes(&self.hashes[at])));
            order.truncate(most);
            self.weights = order.iter().map(|&at| self.weights[at]).collect();
            self.hashes = order.iter().map(|&at| self.hashes[at]).collect();
        }
    }

    /// What the features add up to.
    #[must_use]
    pub fn sums(&self) -> Sums {
        let groups = self.groups.iter().map(|(weight, hashes)| (*weight, hashes.as_slice()));
        Sums::of(&self.weights, &self.hashes, groups)
    }
}

/// Sorts features, heaviest first; of equal weight, those with the smaller hash first. Keeps so many.
pub fn heaviest_first(features: &mut Vec<Feature>, most: Option<usize>) {
    features.sort_by_key(|one| (Reverse(one.weight), first_bytes(&one.hash)));
    features.truncate(most.unwrap_or(usize::MAX));
}

/// What hashes are compared by.
fn first_bytes(hash: &Hash) -> [u8; 8] {
    *hash.first_chunk().expect("32 bytes")
}
