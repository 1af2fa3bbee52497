//! Turns traditional Chinese into simplified: `OpenCC`'s conversion `t2s` of characters and phrases, and one more rule.
//!
//! `OpenCC` knows phrases: 乾 stays in 乾坤 and becomes 干 in 乾燥. It also unifies compatibility ideographs. The tables are
//! those of the package that the crate was built with.

use std::ops::RangeInclusive;

use memchr::memmem;

use super::edit::{Draft, Edit};
use super::points;
use super::ranges::{FIRST, TRADITIONAL};
use super::traits::Traits;

include!(concat!(env!("OUT_DIR"), "/opencc.rs"));

/// What Taiwan writes for the particle 着. In the commonest words with 著 itself it stays. `OpenCC`'s conversion for
/// Taiwan (tw2s) does this too, but it turns 么 of simplified text into 幺.
const PARTICLE: &str = "著";
const SIMPLE_PARTICLE: &str = "着";
const BEFORE: &str = "名专原编合论显卓昭土巨译遗拙撰";
const BEHIND: &str = "名作者称述录书";

/// Operators that say how the parts of an ideograph stand, the most of these in one another, and the most characters of a
/// description.
const OPERATORS: RangeInclusive<u32> = 0x2ff0..=0x2fff;
const DEPTH: usize = 16;
const DESCRIPTION: usize = 64;

/// Simplifies a text without half surrogates.
pub fn simplify(draft: &mut Draft) {
    draft.take(unify);
    draft.take(convert);
    draft.take(replace_particles);
}

/// Replaces compatibility ideographs by what they are.
fn unify(edit: &mut Edit) {
    let mut described = 0;
    for (at, point) in points::each(edit.text) {
        described = described.max(description_end(edit.text, at, point));
        if at >= described && Traits::of_point(point).has(TRADITIONAL) {
            replace_character(edit, at, point, &UNIFIED);
        }
    }
}

/// Replaces the longest phrase at each place, or else the character.
fn convert(edit: &mut Edit) {
    let mut described = 0;
    for (at, point) in points::each(edit.text) {
        if at < edit.end().max(described) {
            continue;
        }
        described = description_end(edit.text, at, point);
        let phrase = Traits::of_point(point).has(FIRST).then(|| phrase_at(&edit.text[at..])).flatten();
        if let Some((phrase, simple)) = phrase {
            edit.replace(at..at + phrase.len(), simple);
        } else if Traits::of_point(point).has(TRADITIONAL) {
            replace_character(edit, at, point, &CHARACTERS);
        }
    }
}

/// Returns the end of the description of an ideograph that begins here (⿰氵每: two parts side by side), which `OpenCC`
/// leaves as it is; 0 if there is none.
fn description_end(text: &[u8], at: usize, point: u32) -> usize {
    if !OPERATORS.contains(&point) {
        return 0;
    }
    // How many parts each of the operators that are not complete yet still needs.
    let (mut needed, mut end) = (Vec::new(), at);
    for _ in 0..DESCRIPTION {
        let Some((point, bytes)) = points::at(text, end) else { return 0 };
        end += bytes;
        match point {
            0x2ff2 | 0x2ff3 => needed.push(3),
            0x2ffe | 0x2fff => needed.push(1),
            0x2ff0..=0x2ffd => needed.push(2),
            _ => {
                while let Some(last) = needed.last_mut() {
                    *last -= 1;
                    if *last > 0 {
                        break;
                    }
                    needed.pop();
                }
            }
        }
        if needed.is_empty() {
            return end;
        }
        if needed.len() >= DEPTH {
            return 0;
        }
    }
    0
}

fn replace_particles(edit: &mut Edit) {
    let text = edit.text;
    let is_one_of = |characters: &str, character: Option<(u32, usize)>| {
        character.is_some_and(|(point, _)| characters.chars().any(|one| u32::from(one) == point))
    };
    for at in memmem::find_iter(text, PARTICLE) {
        let end = at + PARTICLE.len();
        if !is_one_of(BEFORE, points::before(text, at)) && !is_one_of(BEHIND, points::at(text, end)) {
            edit.replace(at..end, SIMPLE_PARTICLE);
        }
    }
}

fn replace_character(edit: &mut Edit, at: usize, point: u32, table: &[(char, char)]) {
    if let Ok(found) = table.binary_search_by_key(&point, |&(character, _)| u32::from(character)) {
        let (character, simple) = table[found];
        edit.replace_by(at..at + character.len_utf8(), simple);
    }
}

/// Returns the longest phrase that the text begins with, and its simplified form.
fn phrase_at(text: &[u8]) -> Option<&'static (&'static str, &'static str)> {
    let (_, first) = points::at(text, 0)?;
    let first = &text[..first];
    let from = PHRASES.partition_point(|(phrase, _)| phrase.as_bytes() < first);
    let own = PHRASES[from..].iter().take_while(|(phrase, _)| phrase.as_bytes().starts_with(first));
    own.filter(|(phrase, _)| text.starts_with(phrase.as_bytes())).max_by_key(|(phrase, _)| phrase.len())
}
