//! The text of a field as a person reads it: its words are those that the fingerprint is made of.
//!
//! The steps are those of the scheme that drop markup, and no others: case, addresses, pictures and invisible characters
//! stay. Tags of blocks leave line breaks, where the fingerprint needs a space.

use std::borrow::Cow;

use super::html;
use crate::text::characters::Class;
use crate::text::clean;
use crate::text::edit::Room;
use crate::text::points;

/// Most line feeds that stand together: one empty line.
const LINE_FEEDS: usize = 2;

/// A text without the markup that the steps of the scheme drop (that of HTML, entities, tags), its paragraphs on lines;
/// without markup as it is.
#[must_use]
pub fn readable(text: &[u8], is_html: bool, entities: bool, tags: bool) -> Cow<'_, [u8]> {
    let parsed = if is_html { html::text_of(text, false) } else { Cow::Borrowed(text) };
    let mut room = Room::default();
    let bare = clean::without_markup(&parsed, entities, tags, true, &mut room);
    if bare == text { Cow::Borrowed(text) } else { Cow::Owned(tidied(bare)) }
}

/// A text without the white space that markup leaves: one space between words, one empty line at most.
fn tidied(text: &[u8]) -> Vec<u8> {
    let mut tidied = Vec::with_capacity(text.len());
    let (mut white, mut line_feeds) = (0, 0);
    for (at, point) in points::each(text) {
        if Class::of_point(point).is_white() {
            line_feeds += usize::from(point == u32::from(b'\n'));
            white += 1;
            continue;
        }
        if white > 0 && !tidied.is_empty() {
            let feeds = &b"\n\n"[..line_feeds.min(LINE_FEEDS)];
            tidied.extend_from_slice(if feeds.is_empty() { b" " } else { feeds });
        }
        (white, line_feeds) = (0, 0);
        let size = points::at(text, at).map_or(1, |(_, size)| size);
        tidied.extend_from_slice(&text[at..at + size]);
    }
    tidied
}

#[cfg(test)]
mod tests {
    use super::tidied;

    #[test]
    fn white_space_is_a_space_or_line_feeds() {
        for (given, expected) in [
            (" \n a \t\u{3000} b\r\nc \n d\r\n\x0c\n \n\ne\u{a0}\n", "a b\nc\nd\n\ne"),
            ("a\rb\u{85}c\u{2028}d\x1ce", "a b c d e"),
            ("", ""),
            (" \n", ""),
        ] {
            assert_eq!(tidied(given.as_bytes()), expected.as_bytes(), "{given:?}");
        }
        assert_eq!(tidied(b"a\xed\xa0\xbd  b"), b"a\xed\xa0\xbd b");
    }
}
