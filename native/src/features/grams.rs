//! Grams, the features of short text: of words the trigrams of letters, of all other units these and their pairs.
//!
//! The name of a pair has a space between its units; the units before and after a word are no pair. The trigrams of a
//! word are every run of three characters of it between two `_`. A number is taken whole: a letter that is wrong leaves
//! most of a word as it was, but another digit makes another number.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use super::units::Units;
use super::weights::{FEW, TRIGRAM_CLASS, Weigher, class_of_units};
use super::{Feature, Weighed};
use crate::signature::sums::feature_hash;
use crate::text::numbers::is_number;

/// A gram but a number: up to three characters of 21 bits, and which kind it is.
type Key = u64;
const POINT_BITS: u32 = 21;
const POINT: u64 = (1 << POINT_BITS) - 1;
const PAIR: Key = 1 << (2 * POINT_BITS);
const TRIGRAM: Key = 1 << (3 * POINT_BITS);
const BOUND: u64 = '_' as u64;

/// Most bytes of the name of a gram but a number.
const NAME_BYTES: usize = 12;

/// The grams of one text; cleared and filled for each.
pub struct Grams {
    keys: Vec<Key>,
    /// Keys and how often they occur, from 1; the first one is no gram.
    counted: Vec<(Key, u64)>,
    /// The places of the keys in what is counted, by open addressing; 0 where there is none.
    slots: Vec<u32>,
    /// What keys are multiplied by to choose a slot: odd, and random, so that no text is made for which the table is
    /// slow.
    spread: u64,
    numbers: HashMap<String, u64>,
}

impl Default for Grams {
    fn default() -> Self {
        let spread = RandomState::new().hash_one(0) | 1;
        Self { keys: Vec::new(), counted: Vec::new(), slots: Vec::new(), spread, numbers: HashMap::new() }
    }
}

impl Grams {
    /// Counts the grams of a part of a text, each so many times.
    pub fn add(&mut self, units: &Units, times: u64) {
        self.keys.clear();
        let mut before = None;
        for (unit, is_word) in units.iter() {
            if is_word {
                self.add_word(unit, times);
                before = None;
            } else {
                let one = unit.chars().next().map_or(0, u64::from);
                self.keys.push(one);
                if let Some(before) = before {
                    self.keys.push(PAIR | before << POINT_BITS | one);
                }
                before = Some(one);
            }
        }
        self.count(times);
    }

    fn count(&mut self, times: u64) {
        let Self { keys, counted, slots, spread, .. } = self;
        // At least half of the slots stay free.
        let size = (2 * (counted.len() + keys.len())).next_power_of_two().max(2);
        if slots.len() < size || counted.is_empty() {
            if counted.is_empty() {
                counted.push((0, 0));
            }
            slots.clear();
            slots.resize(size, 0);
            for at in 1..counted.len() {
                let slot = slot_of(counted[at].0, *spread, slots, counted);
                slots[slot] = at as u32;
            }
        }
        // Whether a gram is new cannot be foreseen: there is no branch for it.
        let mut last = counted.len() - 1;
        counted.resize(counted.len() + keys.len(), (0, 0));
        for &key in &*keys {
            let slot = slot_of(key, *spread, slots, counted);
            let known = slots[slot] as usize;
            last += usize::from(known == 0);
            let at = if known == 0 { last } else { known };
            slots[slot] = at as u32;
            counted[at] = (key, counted[at].1.saturating_add(times));
        }
        counted.truncate(last + 1);
    }

    fn add_word(&mut self, word: &str, times: u64) {
        if is_number(word) {
            let count = self.numbers.entry(format!("_{word}_")).or_default();
            *count = count.saturating_add(times);
            return;
        }
        let mut last = (BOUND, None);
        for one in word.chars().map(u64::from).chain([BOUND]) {
            if let (first, Some(second)) = last {
                self.keys.push(TRIGRAM | first << (2 * POINT_BITS) | second << POINT_BITS | one);
                last = (second, Some(one));
            } else {
                last.1 = Some(one);
            }
        }
    }

    /// Weighs the grams, and forgets them. `features` gets them by name, where they are asked for.
    pub fn weigh(&mut self, weigher: &Weigher, seed: u64, into: &mut Weighed, mut features: Option<&mut Vec<Feature>>) {
        into.clear();
        let mut add = |name: &[u8], class: usize, count: u64| {
            let (weight, hash) = (weigher.weight_of_gram(class, count), feature_hash(name, seed));
            match usize::try_from(count) {
                Ok(few) if few < FEW => into.add_to_group(class * FEW + few, weight, hash),
                _ => into.add(weight, hash),
            }
            if let Some(features) = &mut features {
                let name = String::from_utf8(name.to_vec()).expect("whole characters");
                features.push(Feature { name, count, weight: u64::from(weight), hash });
            }
        };
        for (key, count) in self.counted.drain(..).skip(1) {
            let (mut name, class) = ([0; NAME_BYTES], class_of(key));
            let size = name_of(key, &mut name);
            add(&name[..size], class, count);
        }
        for (name, count) in self.numbers.drain() {
            add(name.as_bytes(), TRIGRAM_CLASS, count);
        }
    }
}

/// The slot of a key: the one that has it, or the free one where it belongs.
#[inline]
fn slot_of(key: Key, spread: u64, slots: &[u32], counted: &mut [(Key, u64)]) -> usize {
    // A free slot ends the search as the key does.
    counted[0].0 = key;
    let mask = slots.len() - 1;
    let mut slot = (key.wrapping_mul(spread) >> 32) as usize & mask;
    while counted[slots[slot] as usize].0 != key {
        slot = (slot + 1) & mask;
    }
    slot
}

/// The class of a gram but a number.
fn class_of(key: Key) -> usize {
    let last = (key & POINT) as u32;
    if key & TRIGRAM != 0 {
        TRIGRAM_CLASS
    } else if key & PAIR != 0 {
        class_of_units((key >> POINT_BITS & POINT) as u32, Some(last))
    } else {
        class_of_units(last, None)
    }
}

/// Writes the name of a gram; returns its size.
fn name_of(key: Key, name: &mut [u8; NAME_BYTES]) -> usize {
    let points = if key & TRIGRAM != 0 {
        [Some(key >> (2 * POINT_BITS) & POINT), Some(key >> POINT_BITS & POINT), Some(key & POINT)]
    } else if key & PAIR != 0 {
        [Some(key >> POINT_BITS & POINT), Some(u64::from(b' ')), Some(key & POINT)]
    } else {
        [Some(key), None, None]
    };
    points.into_iter().flatten().fold(0, |size, point| {
        let one = char::from_u32(point as u32).expect("the point of a character");
        size + one.encode_utf8(&mut name[size..]).len()
    })
}
