//! Folds what readers take for the same: optional marks, stretched words, radicals, letters that are written in two ways.
//!
//! Two steps, both before NFKC, because white space between ideographs and traditional characters are looked for behind them:
//!
//! 1. Marks that combine with letters of any script go from Latin, Greek and Cyrillic letters, digits, ideographs and
//!    signs, unless they compose with these, as NFKC has them: é, ế, й stay. In a word with [`MOST_LEFT`] marks that do
//!    not compose no mark means anything, and all go. Marks on letters of other scripts may say something, and stay; a
//!    solidus through them does not.
//! 2. Characters become what the table says: nothing, or other characters. `build/folding.rs` makes the table, and
//!    names its sources.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::decompose_compatible;

use super::characters::Class;
use super::edit::{Draft, Edit};
use super::normalise::MAX_MARKS;
use super::points;
use super::ranges;
use super::traits::Traits;

include!(concat!(env!("OUT_DIR"), "/folding.rs"));

/// Different marks of a word that do not compose: no language needs as many.
const MOST_LEFT: usize = 3;
/// The one stroke that composes, with mathematical signs.
const SOLIDUS: u32 = 0x338;

/// Takes both steps; returns whether they changed anything. `has`: what the text may have.
pub fn fold(draft: &mut Draft, has: Traits) -> bool {
    let is_bare = has.has(ranges::COMBINING) && draft.take(drop_marks);
    // Marks that compose may make what is folded.
    let is_replaced = (has.has(ranges::FOLDED) || is_bare) && draft.take(replace);
    is_bare || is_replaced
}

/// What a character is to the marks behind it.
#[derive(PartialEq)]
enum Kind {
    Base,
    Mark,
    /// Marks on it stay.
    Apart,
    White,
}

impl Kind {
    fn of(point: u32) -> Self {
        if is_combining(point) {
            Self::Mark
        } else if Class::of_point(point).is_white() {
            Self::White
        } else if point > 0x7f && has(&APART, point) {
            Self::Apart
        } else {
            Self::Base
        }
    }
}

fn drop_marks(edit: &mut Edit) {
    let text = edit.text;
    // Where the word begins, and whether it has marks; whether marks where no word has begun stay.
    let (mut begin, mut has_marks, mut is_apart) = (0, false, false);
    for (at, point) in points::each(text).chain([(text.len(), u32::from(b' '))]) {
        let end = points::at(text, at).map_or(at, |(_, bytes)| at + bytes);
        match Kind::of(point) {
            Kind::Base => {}
            Kind::Mark if begin == at => {
                if !is_apart || point == SOLIDUS {
                    edit.replace(at..end, "");
                }
                begin = end;
            }
            Kind::Mark => has_marks = true,
            kind => {
                if has_marks {
                    drop_marks_of(edit, begin..at);
                }
                (begin, has_marks, is_apart) = (end, false, kind == Kind::Apart);
            }
        }
    }
}

fn drop_marks_of(edit: &mut Edit, word: Range<usize>) {
    let Ok(given) = std::str::from_utf8(&edit.text[word.clone()]) else { return };
    let made = without_marks(given);
    if made != given {
        edit.replace(word, &made);
    }
}

/// Returns a word without its marks that do not compose, or without any.
fn without_marks(word: &str) -> String {
    let is_mark = |one: &char| is_combining((*one).into());
    let mut marks = 0;
    let capped = word.chars().filter(|one| {
        marks = if is_mark(one) { marks + 1 } else { 0 };
        marks <= MAX_MARKS
    });
    // Signs wait for NFKC: a comma between digits must stay the full-width one until numbers are joined.
    let mut parts = String::new();
    for one in capped {
        if Class::of(one).is_alphanumeric() {
            decompose_compatible(one, |part| parts.push(part));
        } else {
            parts.push(one);
        }
    }
    let mut composed: String = parts.nfc().collect();
    let mut left = Vec::new();
    for mark in composed.chars().filter(is_mark) {
        // Strokes say nothing of other marks.
        if left.len() < MOST_LEFT && !left.contains(&mark) && folded(mark.into()).is_none() {
            left.push(mark);
        }
    }
    if left.len() < MOST_LEFT {
        composed.retain(|one| !is_mark(&one));
        return composed;
    }
    composed.nfd().filter(|one| !is_mark(one)).collect()
}

fn replace(edit: &mut Edit) {
    for (at, point) in points::each(edit.text) {
        if let Some((one, by)) = folded(point) {
            edit.replace(at..at + one.len_utf8(), by);
        }
    }
}

/// Returns what a character becomes, if it is folded.
fn folded(point: u32) -> Option<&'static (char, &'static str)> {
    if !Traits::of_point(point).has(ranges::FOLDED) {
        return None;
    }
    FOLDED.binary_search_by_key(&point, |&(one, _)| one.into()).ok().map(|found| &FOLDED[found])
}

fn is_combining(point: u32) -> bool {
    Traits::of_point(point).has(ranges::COMBINING) && has(&COMBINING, point)
}

fn has(ranges: &[(u32, u32)], point: u32) -> bool {
    let behind = ranges.partition_point(|&(first, _)| first <= point);
    behind > 0 && point <= ranges[behind - 1].1
}

#[cfg(test)]
mod tests {
    use super::{fold, without_marks};
    use crate::text::edit::{Draft, Room};
    use crate::text::halves::join;
    use crate::text::traits::Traits;

    fn folded(text: &str) -> String {
        let mut room = Room::default();
        let mut draft = Draft::of(text.as_bytes(), &mut room);
        fold(&mut draft, Traits::of(text.chars().map(u32::from)));
        join(draft.done()).into_owned()
    }

    #[test]
    fn marks_that_compose_stay_and_others_go() {
        assert_eq!(without_marks("e\u{301}e\u{302}\u{301}"), "\u{e9}\u{1ebf}");
        assert_eq!(without_marks("q\u{301}o\u{323}\u{301}"), "q\u{1ecd}");
        assert_eq!(without_marks("\u{1d5f2}\u{323}\u{302}"), "\u{1ec7}");
        assert_eq!(without_marks("c\u{336}a\u{336}f\u{336}\u{e9}\u{336}"), "caf\u{e9}");
        assert_eq!(without_marks("\u{e9}q\u{301}\u{30d}\u{31a}"), "eq");
        assert_eq!(without_marks(&format!("a{}\u{323}", "\u{30d}".repeat(30))), "a");
    }

    #[test]
    fn marks_stay_on_letters_of_other_scripts() {
        for text in ["\u{304b}\u{3099}", "\u{915}\u{301}", "\u{e01}\u{e49}", "\u{c548}\u{302e}"] {
            assert_eq!(folded(text), text);
        }
        assert_eq!(folded("\u{915}\u{301}a\u{30d} \u{30d}1\u{30d}\u{4e2d}\u{30d}"), "\u{915}\u{301}a 1\u{4e2d}");
    }

    #[test]
    fn characters_become_what_the_table_says() {
        assert_eq!(folded("\u{2ed3}\u{2f00}\u{31d0}"), "\u{957f}\u{4e00}\u{4e00}");
        assert_eq!(
            folded("\u{645}\u{640}\u{64f}\u{62d}\u{623}\u{fef5}\u{fb2a}"),
            "\u{645}\u{62d}\u{627}\u{644}\u{627}\u{5e9}"
        );
        assert_eq!(folded("\u{30b}1\u{20e3}\u{304b}\u{336}\u{332}\u{338}"), "1\u{304b}");
    }
}
