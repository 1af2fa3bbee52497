//! Key sentences: the first and the last sentence of each paragraph (a line), and the longest sentence of a field.
//!
//! They are read in text before any step, which may have half surrogates: generalized UTF-8, a half as three bytes.

use crate::text::characters::Class;
use crate::text::points;

/// What keeps key sentences apart where line breaks are dropped.
const BETWEEN: &[u8] = "。\n".as_bytes();

/// The key sentences of a field as a text; a sentence that is one for two reasons is in it once.
#[must_use]
pub fn key_text(field: &[u8]) -> Vec<u8> {
    let mut ends: Vec<&[u8]> = Vec::new();
    let mut longest = Sentence::default();
    for line in lines(field) {
        let (mut first, mut last) = (None, Sentence::default());
        each_sentence(line, |sentence| {
            first.get_or_insert(sentence.text);
            last = sentence;
            if sentence.characters > longest.characters {
                longest = sentence;
            }
        });
        if let Some(first) = first {
            ends.push(first);
            if last.text != first {
                ends.push(last.text);
            }
        }
    }
    if longest.characters > 0 && !ends.contains(&longest.text) {
        ends.push(longest.text);
    }
    ends.join(BETWEEN)
}

#[derive(Clone, Copy, Default)]
struct Sentence<'t> {
    text: &'t [u8],
    characters: usize,
}

/// Calls `found` with each sentence of a line.
fn each_sentence<'t>(line: &'t [u8], mut found: impl FnMut(Sentence<'t>)) {
    let (mut begin, mut characters) = (0, 0);
    let mut points = points::each(line).peekable();
    while let Some((at, point)) = points.next() {
        // A dot ends a sentence only before white space, not in 3.14 or example.com.
        let ends = match char::from_u32(point) {
            Some('.') => points.peek().is_none_or(|&(_, next)| Class::of_point(next).is_white()),
            Some('。' | '！' | '？' | '!' | '?' | '；' | ';' | '…') => true,
            _ => false,
        };
        if !ends {
            characters += 1;
            continue;
        }
        if characters > 0 {
            found(Sentence { text: &line[begin..at], characters });
        }
        (begin, characters) = (points.peek().map_or(line.len(), |(next, _)| *next), 0);
    }
    if characters > 0 {
        found(Sentence { text: &line[begin..], characters });
    }
}

/// The lines of a text, as Python's `splitlines` has them.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut begin = 0;
    let mut points = points::each(text);
    std::iter::from_fn(move || {
        for (at, point) in points.by_ref() {
            let is_break = matches!(point, 0x0a..=0x0d | 0x1c..=0x1e | 0x85 | 0x2028 | 0x2029);
            if is_break {
                let line = &text[begin..at];
                begin = at + points::at(text, at).map_or(1, |(_, bytes)| bytes);
                return Some(line);
            }
        }
        let line = &text[begin..];
        begin = text.len();
        (!line.is_empty()).then_some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::key_text;

    fn key(field: &str) -> String {
        String::from_utf8(key_text(field.as_bytes())).expect("whole characters")
    }

    #[test]
    fn takes_the_first_and_last_of_each_line_and_the_longest() {
        assert_eq!(key("A. Bcd efg. H.\r\nOne! Two"), "A。\n H。\nOne。\n Two。\n Bcd efg");
        assert_eq!(key("only 3.14 of it"), "only 3.14 of it");
        assert_eq!(key("。\n。"), "");
    }

    #[test]
    fn takes_halves_as_characters() {
        // Two halves are longer than one character.
        let field = [b"\xed\xa0\xbd\xed\xb8\x80".as_slice(), "。a。b".as_bytes()].concat();
        let expected = [b"\xed\xa0\xbd\xed\xb8\x80".as_slice(), "。\nb".as_bytes()].concat();
        assert_eq!(key_text(&field), expected);
    }
}
