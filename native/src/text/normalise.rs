//! Which differences between two texts never count.
//!
//! 1. Characters that Unicode 14 does not know become spaces.
//! 2. Of a run of combining marks the first [`MAX_MARKS`] stay. No language has more, and sorting a long run takes time
//!    with the square of its length.
//! 3. NFKC, case folding, and NFKC again, because folding may leave marks uncomposed.
//! 4. White space becomes single spaces, none at the ends.
//!
//! Most characters depend on no other: they are looked up in a table, and only what is between two of them is normalised.

use caseless::Caseless;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{canonical_combining_class, decompose_compatible};

use super::characters::Class;

/// Most combining marks in a row that are kept: the limit of Unicode's Stream-Safe Text Format.
pub(super) const MAX_MARKS: usize = 30;

/// Takes all four steps.
#[must_use]
pub fn normalise(text: &str) -> String {
    let mut made = Joined { text: String::with_capacity(text.len()), is_apart: false };
    // The part that is not made yet, where its last character begins, and what that is if no other one changes it.
    let (mut begin, mut last, mut pending) = (0, 0, Pending::Part);
    for (at, one) in text.char_indices() {
        let class = Class::of(one);
        if class.begins_anew() {
            let is_settled = class.stays() && class.is_alphanumeric();
            if !(is_settled && pending == Pending::Settled) {
                made.add(&text[begin..at], pending);
                begin = at;
            }
            pending = if is_settled { Pending::Settled } else { Pending::Alone(one) };
        } else {
            if pending == Pending::Settled {
                made.add(&text[begin..last], pending);
                begin = last;
            }
            pending = Pending::Part;
        }
        last = at;
    }
    made.add(&text[begin..], pending);
    made.text
}

/// What of a text is not made yet.
#[derive(Clone, Copy, PartialEq)]
enum Pending {
    /// Letters that stay as they are, if what comes next does not depend on the last one.
    Settled,
    /// A character, in the same case.
    Alone(char),
    /// Characters that depend on each other, or nothing.
    Part,
}

/// A text that gets single spaces for white space.
struct Joined {
    text: String,
    is_apart: bool,
}

impl Joined {
    /// Adds a part that no other changes.
    fn add(&mut self, part: &str, what: Pending) {
        match what {
            Pending::Settled => self.put(part),
            Pending::Alone(one) => {
                let class = Class::of(one);
                match class.ascii() {
                    Some(ascii) => self.push(char::from(ascii)),
                    None if class.stays() => self.push(one),
                    None => nfkc_casefold(part).for_each(|one| self.push(one)),
                }
            }
            Pending::Part => nfkc_casefold(part).for_each(|one| self.push(one)),
        }
    }

    fn push(&mut self, one: char) {
        if Class::of(one).is_white() {
            self.is_apart = !self.text.is_empty();
            return;
        }
        self.put(one.encode_utf8(&mut [0; 4]));
    }

    /// Adds what has no white space.
    fn put(&mut self, some: &str) {
        if std::mem::take(&mut self.is_apart) {
            self.text.push(' ');
        }
        self.text.push_str(some);
    }
}

/// Takes steps 1 to 3.
fn nfkc_casefold(text: &str) -> impl Iterator<Item = char> {
    let mut marks = 0;
    let assigned = text.chars().map(|one| if Class::of(one).is_assigned() { one } else { ' ' });
    let capped = assigned.filter(move |&one| {
        marks = if begins_with_mark(one) { marks + 1 } else { 0 };
        marks <= MAX_MARKS
    });
    capped.nfkc().default_case_fold().nfkc()
}

fn begins_with_mark(character: char) -> bool {
    let mut first = None;
    if !character.is_ascii() {
        decompose_compatible(character, |one| first = first.or(Some(one)));
    }
    first.is_some_and(|one| canonical_combining_class(one) != 0)
}
