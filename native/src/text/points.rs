//! Code points of a text in generalized UTF-8, half surrogates among them, one at a time.
//!
//! What is no generalized UTF-8 is read byte by byte, so that no step fails.

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
    let start = text[..index].iter().rposition(|byte| !is_inside(*byte)).or_else(|| index.checked_sub(1))?;
    at(&text[..index], start)
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
/// İ, ı, ſ and K are letters then: they are the i, s and k of other languages.
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
