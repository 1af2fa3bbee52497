//! Entities of HTML in plain text that end in a semicolon, undone as Python's `html.unescape` does.

use memchr::memchr_iter;

use super::edit::Edit;
use super::points;

include!(concat!(env!("OUT_DIR"), "/entities.rs"));

/// Most characters of a name, and digits of a number, that this step undoes: those of the longest name and of the last
/// code point.
const NAME: usize = 31;
const DIGITS: usize = 7;
const HEX_DIGITS: usize = 6;

/// What HTML reads where old pages have numbers of Windows-1252.
const WINDOWS: [u32; 32] = [
    0x20ac, 0x81, 0x201a, 0x192, 0x201e, 0x2026, 0x2020, 0x2021, 0x2c6, 0x2030, 0x160, 0x2039, 0x152, 0x8d, 0x17d,
    0x8f, 0x90, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x2dc, 0x2122, 0x161, 0x203a, 0x153, 0x9d,
    0x17e, 0x178,
];

/// Replaces entities by the characters that they stand for.
pub fn undo(edit: &mut Edit) {
    let text = edit.text;
    for at in memchr_iter(b'&', text) {
        let start = at + 1;
        if text.get(start) == Some(&b'#') {
            undo_number(edit, at);
        } else if points::letter(text, start).is_some() {
            let end = start + points::run(text, start, |byte| byte.is_ascii_digit(), NAME);
            let is_long_enough = points::count(&text[start..end]) > 1;
            if is_long_enough && text.get(end) == Some(&b';') {
                undo_name(edit, at, &text[start..=end]);
            }
        }
    }
}

/// `name`: with its semicolon.
fn undo_name(edit: &mut Edit, at: usize, name: &[u8]) {
    if let Some((length, text)) = named(name) {
        edit.replace(at..at + 1 + length, text);
    }
}

/// Returns the bytes of the longest name that a text begins with, and what it stands for.
///
/// Without the semicolon some names are known too, and what follows such a name stays.
#[must_use]
pub fn named(text: &[u8]) -> Option<(usize, &'static str)> {
    let letters = text.iter().take(NAME).take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let most = letters + usize::from(text.get(letters) == Some(&b';'));
    (2..=most).rev().find_map(|length| {
        let found = ENTITIES.binary_search_by(|(known, _)| known.as_bytes().cmp(&text[..length])).ok()?;
        Some((length, ENTITIES[found].1))
    })
}

fn undo_number(edit: &mut Edit, at: usize) {
    let text = edit.text;
    let (start, radix, most) = match text.get(at + 2) {
        Some(b'x' | b'X') => (at + 3, 16, HEX_DIGITS),
        _ => (at + 2, 10, DIGITS),
    };
    let digits =
        text[start.min(text.len())..].iter().take(most + 1).map_while(|&byte| char::from(byte).to_digit(radix));
    let (count, number) = digits.fold((0, 0_u32), |(count, number), digit| (count + 1, number * radix + digit));
    let end = start + count;
    if !(1..=most).contains(&count) || text.get(end) != Some(&b';') {
        return;
    }
    let mut room = [0; 4];
    let made = numbered(number).map_or("", |character| character.encode_utf8(&mut room));
    edit.replace(at..end + 1, made);
}

/// Returns the character of a number, if HTML has it.
#[must_use]
pub fn numbered(number: u32) -> Option<char> {
    match number {
        0 | 0xd800..=0xdfff | 0x11_0000.. => Some('\u{fffd}'),
        0x80..=0x9f => char::from_u32(WINDOWS[number as usize - 0x80]),
        _ if is_invalid(number) => None,
        _ => char::from_u32(number),
    }
}

/// Whether HTML has no such character: control characters but white space, and those that Unicode never assigns.
fn is_invalid(number: u32) -> bool {
    matches!(number, 0x1..=0x8 | 0xb | 0xe..=0x1f | 0x7f | 0xfdd0..=0xfdef) || number & 0xfffe == 0xfffe
}
