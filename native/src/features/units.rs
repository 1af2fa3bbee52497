//! The units of short text: each character of languages without spaces, and each other word.
//!
//! Letters and digits count. In a text of almost nothing but symbols (drawings, a row of emoji with a word) all visible
//! characters count, each run of one symbol once.

use std::ops::Range;

use crate::text::characters::{Class, han_number, has_symbol};
use crate::text::clean;

/// Symbols count in a text that has more visible characters than this for each letter.
const VISIBLE_PER_LETTER: usize = 4;
/// Letters that stand for addresses and the like.
const TOKENS: std::ops::RangeInclusive<char> = clean::URL..=clean::EMOJI;

/// A unit.
#[derive(Clone, Debug)]
struct Unit {
    bytes: Range<u32>,
    /// A word of a language that is written with spaces, or a number; otherwise it is one character.
    is_word: bool,
}

/// What counts of a short text.
#[derive(Clone, Debug)]
pub struct Units {
    text: String,
    units: Vec<Unit>,
}

impl Units {
    /// The units that count of a text that is normalised as short text.
    #[must_use]
    pub fn of(normalised: &str) -> Self {
        let (units, letters, visible) = units_of(normalised);
        if letters * VISIBLE_PER_LETTER < visible {
            let bare = without_runs(normalised);
            if letters * VISIBLE_PER_LETTER < bare.chars().count() && (letters > 0 || has_symbol(&bare)) {
                return Self::of_all_characters(bare);
            }
        }
        Self { text: normalised.to_owned(), units }
    }

    /// Each character by itself; letters and digits of words count as words of one character.
    fn of_all_characters(text: String) -> Self {
        let unit = |(at, one): (usize, char)| Unit {
            bytes: at as u32..(at + one.len_utf8()) as u32,
            is_word: Class::of(one).begins_unit(),
        };
        let units = text.char_indices().map(unit).collect();
        Self { text, units }
    }

    /// The units with their texts, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, bool)> {
        self.units.iter().map(|unit| (&self.text[range(&unit.bytes)], unit.is_word))
    }

    /// Letters that count: those of tokens do not.
    #[must_use]
    pub fn letters(&self) -> usize {
        let is_token = |unit: &str| {
            let mut characters = unit.chars();
            characters.next().is_some_and(|one| TOKENS.contains(&one)) && characters.next().is_none()
        };
        // A token is read as a word of one letter.
        let letters = |(unit, is_word): (&str, bool)| match is_word {
            true if is_token(unit) => 0,
            true => characters(unit),
            false => 1,
        };
        self.iter().map(letters).sum()
    }

    /// All units, with something between two of them.
    #[must_use]
    pub fn joined(&self, between: &str) -> String {
        self.iter().map(|(unit, _)| unit).collect::<Vec<_>>().join(between)
    }

    /// Appends the letters of the text, its ideographs first.
    pub fn add_letters(&self, letters: &mut Vec<u32>) {
        let mut others = Vec::new();
        for one in self.iter().flat_map(|(unit, _)| unit.chars()) {
            let list = if han_number(one).is_some() { &mut *letters } else { &mut others };
            list.push(u32::from(one));
        }
        letters.append(&mut others);
    }
}

/// The units of a text, how many characters they have, and how many the text has but spaces.
fn units_of(text: &str) -> (Vec<Unit>, usize, usize) {
    let (mut units, mut letters, mut visible) = (Vec::<Unit>::with_capacity(text.len() / 3), 0, 0);
    // The end of the word that may go on.
    let mut open = None;
    for (at, one) in text.char_indices() {
        visible += usize::from(one != ' ');
        let class = Class::of(one);
        let end = (at + one.len_utf8()) as u32;
        let begins = class.begins_unit();
        match (units.last_mut(), open) {
            (Some(word), Some(last)) if last == at as u32 && (begins || class.is_mark()) => {
                word.bytes.end = end;
                open = Some(end);
                letters += 1;
            }
            _ if begins || class.is_single() => {
                units.push(Unit { bytes: at as u32..end, is_word: begins });
                open = begins.then_some(end);
                letters += 1;
            }
            _ => open = None,
        }
    }
    (units, letters, visible)
}

/// The text without spaces, and with each run of one symbol once.
fn without_runs(text: &str) -> String {
    let mut before = None;
    let kept = text.chars().filter(|&one| {
        let class = Class::of(one);
        let is_repeated = before == Some(one) && !(class.is_alphanumeric() || one == '_' || class.is_white());
        before = Some(one);
        !is_repeated && one != ' '
    });
    kept.collect()
}

fn characters(text: &str) -> usize {
    text.chars().count()
}

fn range(bytes: &Range<u32>) -> Range<usize> {
    bytes.start as usize..bytes.end as usize
}
