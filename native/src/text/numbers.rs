//! Words of digits, and symbols, in normalised text.

use super::clean::{NUMBER_APART, stand_in};
use super::edit::Edit;
use super::points;
use super::spam::is_letter;
use super::unicode14::Properties;
use crate::settings::Treat;

/// Drops words of digits, or replaces each by a token.
pub fn replace(edit: &mut Edit, treat: Treat) {
    let (text, by) = (edit.text, stand_in(treat, NUMBER_APART));
    let (mut start, mut is_number) = (None, false);
    for (at, point) in points::each(text).map(|(at, point)| (at, Some(point))).chain([(text.len(), None)]) {
        if let Some(point) = point.filter(|&point| is_letter(point)) {
            is_number = (start.is_none() || is_number) && Properties::of(point).is_decimal();
            start = start.or(Some(at));
        } else if let Some(start) = start.take().filter(|_| is_number) {
            edit.replace(start..at, by);
        }
    }
}

/// Whether a word is of digits.
#[must_use]
pub fn is_number(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|character| Properties::of(u32::from(character)).is_decimal())
}

/// Whether a text has an arrow, a mathematical symbol, a drawing or an emoji.
#[must_use]
pub fn has_symbol(text: &str) -> bool {
    text.chars().any(|character| matches!(u32::from(character), 0x2190..=0x2bff | 0x1_f000..=0x1_faff))
}
