//! Words of digits, in normalised text.

use super::characters::Class;
use super::clean::{NUMBER_APART, stand_in};
use super::edit::Edit;
use super::points;
use crate::settings::Treat;

/// Drops words of digits, or replaces each by a token.
pub fn replace(edit: &mut Edit, treat: Treat) {
    let (text, by) = (edit.text, stand_in(treat, NUMBER_APART));
    let (mut start, mut is_number) = (None, false);
    let classes = points::each(text).map(|(at, point)| (at, Some(Class::of_point(point))));
    for (at, class) in classes.chain([(text.len(), None)]) {
        if let Some(class) = class.filter(|class| class.is_letter()) {
            is_number = (start.is_none() || is_number) && class.is_decimal();
            start = start.or(Some(at));
        } else if let Some(start) = start.take().filter(|_| is_number) {
            edit.replace(start..at, by);
        }
    }
}

/// Whether a word is of digits.
#[must_use]
pub fn is_number(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|character| Class::of(character).is_decimal())
}
