//! Half surrogates: halves of a character in UTF-16, which JSON and Python can name one by one.
//!
//! A text before NFKC is generalized UTF-8, as Python's `surrogatepass` writes it: a half is three bytes, as if it were a
//! character. Two halves come to stand side by side when what stood between them is dropped, and then they are one
//! character. So halves stay as they are until the text is normalised, and are joined then; the steps that look up
//! whole characters, narrowing and simplifying, join them first.

use std::borrow::Cow;

use memchr::memchr_iter;
use simdutf8::basic::from_utf8;

use super::edit::Edit;

/// The byte that a half begins with. Characters of Hangul begin with it too.
const LEAD: u8 = 0xed;
/// Bytes of a half.
pub const BYTES: usize = 3;
/// The first halves of characters, and the second ones.
const FIRST: std::ops::Range<u32> = 0xd800..0xdc00;
const SECOND: std::ops::Range<u32> = 0xdc00..0xe000;
/// Bits of a character that a half has, and the first character that has halves.
const BITS: u32 = 10;
const BEYOND: u32 = 0x1_0000;

/// Returns a text as UTF-8; nothing of one that has halves, or bytes that generalized UTF-8 does not have.
#[must_use]
pub fn whole(text: &[u8]) -> Option<&str> {
    from_utf8(text).ok()
}

/// Returns the text with halves that form a character joined, and each other half replaced by a space.
///
/// So is each byte that generalized UTF-8 does not have.
#[must_use]
pub fn join(text: &[u8]) -> Cow<'_, str> {
    whole(text).map_or_else(|| Cow::Owned(joined(text)), Cow::Borrowed)
}

/// Returns the half that the bytes begin with.
#[must_use]
pub fn half(bytes: &[u8]) -> Option<u32> {
    match bytes {
        &[LEAD, second @ 0xa0..=0xbf, third @ 0x80..=0xbf, ..] => {
            Some(0xd000 | u32::from(second & 0x3f) << 6 | u32::from(third & 0x3f))
        }
        _ => None,
    }
}

/// The bytes of a half.
#[must_use]
pub fn bytes_of(half: u16) -> [u8; BYTES] {
    [LEAD, 0x80 | (half >> 6 & 0x3f) as u8, 0x80 | (half & 0x3f) as u8]
}

/// Does what `join` does, as a step.
pub fn replace(edit: &mut Edit) {
    if let Cow::Owned(whole) = join(edit.text) {
        edit.replace(0..edit.text.len(), &whole);
    }
}

/// Joins halves of one character that stand side by side, as a step; others stay.
pub fn join_pairs(edit: &mut Edit) {
    let text = edit.text;
    for at in memchr_iter(LEAD, text) {
        if let Some(character) = pair(&text[at..]).filter(|_| at >= edit.end()) {
            edit.replace_by(at..at + 2 * BYTES, character);
        }
    }
}

/// Returns the text in UTF-8: halves are escaped.
#[must_use]
pub fn escaped(text: Cow<[u8]>) -> Cow<[u8]> {
    if whole(&text).is_some() {
        return text;
    }
    let mut made = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if let Some(half) = half(&text[at..]) {
            made.extend_from_slice(format!("\\u{half:04x}").as_bytes());
            at += BYTES;
        } else {
            made.push(text[at]);
            at += 1;
        }
    }
    Cow::Owned(made)
}

/// Returns the character whose halves the bytes begin with.
fn pair(bytes: &[u8]) -> Option<char> {
    let first = half(bytes).filter(|half| FIRST.contains(half))?;
    let second = half(&bytes[BYTES..]).filter(|half| SECOND.contains(half))?;
    char::from_u32(BEYOND + ((first - FIRST.start) << BITS) + (second - SECOND.start))
}

fn joined(mut text: &[u8]) -> String {
    let mut whole = String::with_capacity(text.len());
    while let Some(chunk) = text.utf8_chunks().next() {
        whole.push_str(chunk.valid());
        text = &text[chunk.valid().len()..];
        if text.is_empty() {
            break;
        }
        let joined = pair(text);
        whole.push(joined.unwrap_or(' '));
        let bytes = if joined.is_some() {
            2 * BYTES
        } else if half(text).is_some() {
            BYTES
        } else {
            1
        };
        text = &text[bytes..];
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_halves_is_not_copied() {
        assert!(matches!(join("渡口 \u{d7ff}\u{e000}".as_bytes()), std::borrow::Cow::Borrowed(_)));
    }

    #[test]
    fn halves_side_by_side_are_a_character_and_others_are_spaces() {
        let (first, second) = (&b"\xed\xa1\x80"[..], &b"\xed\xb0\x8b"[..]);
        let texts = [
            (vec![first, second], "\u{2000b}"),
            (vec![second, first], "  "),
            (vec![first], " "),
            (vec![b"a", first, first, second, second, b"b"], "a \u{2000b} b"),
            (vec![first, b"-", second], " - "),
            (vec![b"\xed\xaf\xbf", b"\xed\xbf\xbf"], "\u{10ffff}"),
            (vec![b"\xed\xa0\x80", b"\xed\xb0\x80"], "\u{10000}"),
            (vec!["한".as_bytes(), first, "글".as_bytes()], "한 글"),
        ];
        for (parts, expected) in texts {
            assert_eq!(join(&parts.concat()), expected);
        }
    }

    #[test]
    fn halves_are_escaped_and_nothing_else() {
        let of = |text: &[u8]| String::from_utf8(escaped(Cow::Borrowed(text)).into_owned()).expect("UTF-8");
        assert_eq!(of("a\u{1f600}\u{d7ff}".as_bytes()), "a\u{1f600}\u{d7ff}");
        assert_eq!(of(b"a\xed\xa0\xbdb\xed\xbf\xbf\xed\x9f\xbf"), "a\\ud83db\\udfff\u{d7ff}");
    }

    #[test]
    fn other_bytes_are_spaces() {
        assert_eq!(join(b"a\xff\xed\xa0b\xe4\xb8"), "a   b  ");
    }
}
