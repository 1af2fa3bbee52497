//! Entities of HTML in plain text that end in a semicolon, undone as Python's `html.unescape` does.

use html5ever::data::{C1_REPLACEMENTS, NAMED_ENTITIES};
use memchr::memchr_iter;

use super::edit::Edit;
use super::points;

/// Most characters of a name: those of the longest one.
const NAME: usize = 31;
/// Most bytes of the number of a character, with its signs, that this step undoes: `&#1114111;`, `&#x10ffff;`.
const NUMBER: usize = 10;
/// Digits of a decimal number, leading zeros among them, from which on it is no character.
const LONG_NUMBER: usize = 1_000;

/// Replaces entities by the characters that they stand for.
pub fn undo(edit: &mut Edit) {
    let text = edit.text;
    for at in memchr_iter(b'&', text) {
        let start = at + 1;
        if text.get(start) == Some(&b'#') {
            let number = numbered(text, at + 2).filter(|&(_, end)| end - at <= NUMBER && text[end - 1] == b';');
            if let Some((character, end)) = number {
                edit.replace(at..end, &character.map_or_else(String::new, String::from));
            }
        } else if points::letter(text, start).is_some() {
            let end = start + points::run(text, start, |byte| byte.is_ascii_digit(), NAME);
            let is_entity = points::count(&text[start..end]) > 1 && text.get(end) == Some(&b';');
            if let Some((length, by)) = is_entity.then(|| named(&text[start..])).flatten() {
                edit.replace(at..start + length, &by);
            }
        }
    }
}

/// Returns the bytes of the longest name that a text begins with, and what it stands for.
///
/// Without the semicolon some names are known too, and what follows such a name stays.
#[must_use]
pub fn named(text: &[u8]) -> Option<(usize, String)> {
    let letters = text.iter().take(NAME).take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let most = letters + usize::from(text.get(letters) == Some(&b';'));
    (2..=most).rev().find_map(|length| {
        let &(first, second) = NAMED_ENTITIES.get(std::str::from_utf8(&text[..length]).ok()?)?;
        // What is only the beginning of a name stands for 0.
        let points = [first, second].into_iter().filter(|&point| point > 0);
        (first > 0).then(|| (length, points.filter_map(char::from_u32).collect()))
    })
}

/// Returns the character whose number begins behind `&#`, if HTML has it, and where it ends, with its semicolon if it has
/// one.
#[must_use]
pub fn numbered(text: &[u8], start: usize) -> Option<(Option<char>, usize)> {
    let (begin, radix) = if matches!(text.get(start), Some(b'x' | b'X')) { (start + 1, 16) } else { (start, 10) };
    let digits = text.get(begin..)?.iter().map_while(|&byte| char::from(byte).to_digit(radix));
    let (count, number) = digits
        .fold((0, 0_u32), |(count, number), digit| (count + 1, number.saturating_mul(radix).saturating_add(digit)));
    if count == 0 {
        return None;
    }
    let end = begin + count;
    let end = end + usize::from(text.get(end) == Some(&b';'));
    Some(match number {
        _ if radix == 10 && count >= LONG_NUMBER => (Some(char::REPLACEMENT_CHARACTER), end),
        0 | 0xd800..=0xdfff | 0x11_0000.. => (Some(char::REPLACEMENT_CHARACTER), end),
        0x80..=0x9f => (C1_REPLACEMENTS[number as usize - 0x80].or(char::from_u32(number)), end),
        _ if is_invalid(number) => (None, end),
        _ => (char::from_u32(number), end),
    })
}

/// Whether HTML has no such character: control characters but white space, and those that Unicode never assigns.
fn is_invalid(number: u32) -> bool {
    matches!(number, 0x1..=0x8 | 0xb | 0xe..=0x1f | 0x7f | 0xfdd0..=0xfdef) || number & 0xfffe == 0xfffe
}
