//! Half surrogates: halves of a character in UTF-16, which JSON and Python can name one by one.
//!
//! A text before NFKC is generalized UTF-8, as Python's `surrogatepass` writes it: a half is three bytes, as if it were a
//! character. Two halves come to stand side by side when what stood between them is dropped, and then they are one
//! character. So halves stay as they are until the text is normalised, and are joined then.

use std::borrow::Cow;

/// Bytes of a half.
pub const BYTES: usize = 3;
/// The first halves of characters, and the second ones.
const FIRST: std::ops::Range<u32> = 0xd800..0xdc00;
const SECOND: std::ops::Range<u32> = 0xdc00..0xe000;
/// Bits of a character that a half has, and the first character that has halves.
const BITS: u32 = 10;
const BEYOND: u32 = 0x1_0000;

/// Returns the text with halves that form a character joined, and each other half replaced by a space.
///
/// So is each byte that generalized UTF-8 does not have.
#[must_use]
pub fn join(text: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(text) {
        Ok(whole) => Cow::Borrowed(whole),
        Err(_) => Cow::Owned(joined(text)),
    }
}

/// Returns the half that the bytes begin with.
#[must_use]
pub fn half(bytes: &[u8]) -> Option<u32> {
    match bytes {
        // Characters of Hangul begin with this byte too.
        &[0xed, second @ 0xa0..=0xbf, third @ 0x80..=0xbf, ..] => {
            Some(0xd000 | u32::from(second & 0x3f) << 6 | u32::from(third & 0x3f))
        }
        _ => None,
    }
}

fn joined(mut text: &[u8]) -> String {
    let mut whole = String::with_capacity(text.len());
    while let Some(chunk) = text.utf8_chunks().next() {
        whole.push_str(chunk.valid());
        text = &text[chunk.valid().len()..];
        if text.is_empty() {
            break;
        }
        let first = half(text);
        let second = first.and_then(|_| half(&text[BYTES..]));
        let (character, bytes) = match (first, second) {
            (Some(first), Some(second)) if FIRST.contains(&first) && SECOND.contains(&second) => {
                let point = BEYOND + ((first - FIRST.start) << BITS) + (second - SECOND.start);
                (char::from_u32(point).expect("two halves are a character"), 2 * BYTES)
            }
            (Some(_), _) => (' ', BYTES),
            (None, _) => (' ', 1),
        };
        whole.push(character);
        text = &text[bytes..];
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::join;

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
    fn other_bytes_are_spaces() {
        assert_eq!(join(b"a\xff\xed\xa0b\xe4\xb8"), "a   b  ");
    }
}
