//! Code points of a text in generalized UTF-8, half surrogates among them, one at a time.
//!
//! What is no generalized UTF-8 has code points too, of one byte where a character is cut off, so that no step fails.

/// Most bytes of a character.
pub const MOST_BYTES: usize = 4;

/// Returns the code point that begins at an index, and its bytes; `None` at the end.
#[must_use]
pub fn at(text: &[u8], index: usize) -> Option<(u32, usize)> {
    let [first, behind @ ..] = text.get(index..)? else { return None };
    let tail = |byte: u8| u32::from(byte & 0x3f);
    Some(match (*first, behind) {
        (0xc0..0xe0, &[second, ..]) => (u32::from(first & 0x1f) << 6 | tail(second), 2),
        (0xe0..0xf0, &[second, third, ..]) => (u32::from(first & 0xf) << 12 | tail(second) << 6 | tail(third), 3),
        (0xf0.., &[second, third, fourth, ..]) => {
            (u32::from(first & 7) << 18 | tail(second) << 12 | tail(third) << 6 | tail(fourth), 4)
        }
        _ => (u32::from(*first), 1),
    })
}

/// Returns the code point that ends at an index, and its bytes; `None` at the beginning.
#[must_use]
pub fn before(text: &[u8], index: usize) -> Option<(u32, usize)> {
    let last = index.checked_sub(1)?;
    let begin = (0..MOST_BYTES).find(|&back| back > last || !is_inside(text[last - back])).unwrap_or(0);
    at(&text[..index], last.saturating_sub(begin))
}

/// Returns how many code points there are.
#[must_use]
pub fn count(text: &[u8]) -> usize {
    text.iter().filter(|byte| !is_inside(**byte)).count()
}

/// Whether a byte of UTF-8 is within a character, not its first one.
fn is_inside(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// Returns each code point with its index.
pub fn each(text: &[u8]) -> impl Iterator<Item = (usize, u32)> {
    let mut index = 0;
    std::iter::from_fn(move || {
        let (point, bytes) = at(text, index)?;
        index += bytes;
        Some((index - bytes, point))
    })
}

/// Returns the letter of a to z that Python's `[a-z]` finds without regard to case, and its bytes.
///
/// İ, ı, ſ and the Kelvin sign are letters then: i, i, s and k.
#[must_use]
pub fn letter(text: &[u8], index: usize) -> Option<(u8, usize)> {
    match text.get(index..)? {
        [ascii, ..] if ascii.is_ascii_alphabetic() => Some((ascii.to_ascii_lowercase(), 1)),
        [0xc4, 0xb0 | 0xb1, ..] => Some((b'i', 2)),
        [0xc5, 0xbf, ..] => Some((b's', 2)),
        [0xe2, 0x84, 0xaa, ..] => Some((b'k', 3)),
        _ => None,
    }
}

/// Returns the bytes of the longest run from an index on of such letters and of what `others` has, all ASCII, in at most
/// so many characters.
#[must_use]
pub fn run(text: &[u8], index: usize, others: fn(u8) -> bool, most: usize) -> usize {
    let mut end = index;
    for _ in 0..most {
        match text.get(end) {
            Some(&byte) if others(byte) => end += 1,
            _ => match letter(text, end) {
                Some((_, bytes)) => end += bytes,
                None => break,
            },
        }
    }
    end - index
}

/// Returns where the longest such run begins that ends at an index.
#[must_use]
pub fn run_back(text: &[u8], index: usize, others: fn(u8) -> bool, most: usize) -> usize {
    let mut start = index;
    for _ in 0..most {
        match before(text, start) {
            Some((point, bytes)) if u8::try_from(point).is_ok_and(others) || letter(text, start - bytes).is_some() => {
                start -= bytes;
            }
            _ => break,
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::{at, before, each, letter, run_back};

    #[test]
    fn points_are_read_forwards_and_backwards() {
        let text = "a\u{e9}\u{4e2d}\u{1f600}".as_bytes();
        let expected = [(0, 0x61), (1, 0xe9), (3, 0x4e2d), (6, 0x1_f600)];
        assert_eq!(each(text).collect::<Vec<_>>(), expected);
        let mut end = text.len();
        for &(index, point) in expected.iter().rev() {
            assert_eq!(before(text, end), Some((point, end - index)));
            end = index;
        }
        assert_eq!((before(text, 0), at(text, text.len())), (None, None));
    }

    #[test]
    fn what_is_no_utf8_is_read_byte_by_byte() {
        for broken in [&b"\x80\x80\x80\x80\x80\x80"[..], b"\xe4\xb8", b"\xff", b"a\xf0\x9f\x98"] {
            assert_eq!(each(broken).count(), broken.len());
            assert_eq!(before(broken, broken.len()).map(|(_, bytes)| bytes), Some(1));
        }
    }

    #[test]
    fn letters_of_other_languages_are_letters_of_patterns() {
        let letters = "aZ\u{130}\u{131}\u{17f}\u{212a}".char_indices();
        let text = "aZ\u{130}\u{131}\u{17f}\u{212a}".as_bytes();
        let found: Vec<_> = letters.filter_map(|(index, _)| letter(text, index)).map(|(letter, _)| letter).collect();
        assert_eq!(found, b"aziisk");
        assert_eq!(run_back(text, text.len(), |_| false, usize::MAX), 0);
        assert_eq!(letter("\u{e9}".as_bytes(), 0), None);
    }
}
