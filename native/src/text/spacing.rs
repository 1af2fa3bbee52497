//! Numbers and ideographs that signs and white space take apart, and pictures and characters that nobody sees.

use super::edit::Edit;
use super::points;
use super::traits::{is_ideograph, is_invisible, is_picture, is_skin_tone};
use super::unicode14::Properties;

/// Drops zero-width characters, control characters other than white space, and skin tones of pictures.
pub fn drop_invisible(edit: &mut Edit) {
    for (at, point) in points::each(edit.text) {
        if is_invisible(point) || is_skin_tone(point) {
            let (_, bytes) = points::at(edit.text, at).expect("a character is here");
            edit.replace(at..at + bytes, b"");
        }
    }
}

/// Replaces each picture.
pub fn replace_pictures(edit: &mut Edit, stand_in: &[u8]) {
    for (at, point) in points::each(edit.text) {
        if is_picture(point) {
            let (_, bytes) = points::at(edit.text, at).expect("a character is here");
            edit.replace(at..at + bytes, stand_in);
        }
    }
}

/// Drops the signs between two digits.
pub fn join_numbers(edit: &mut Edit) {
    let text = edit.text;
    let is_sign = |byte: u8| matches!(byte, b'.' | b',' | b':' | b'/' | b'-');
    points::each_pair(
        text,
        |before, byte| before.is_ascii_digit() & is_sign(byte),
        |at| {
            if text.get(at + 1).is_some_and(u8::is_ascii_digit) {
                edit.replace(at..at + 1, b"");
            }
        },
    );
}

/// Drops white space between two ideographs, line breaks too, and one space between two lone letters or digits.
pub fn rejoin(edit: &mut Edit) {
    let text = edit.text;
    // The last bytes of an ideograph, of U+3000 and of U+A0 have the high bit.
    let may_be = |before: u8, byte: u8| {
        let is_white = matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        let is_wide = matches!((before, byte), (0x80, 0x80) | (0xc2, 0xa0));
        is_white & !before.is_ascii() | is_wide | (byte == b' ') & before.is_ascii_alphanumeric()
    };
    points::each_pair(text, may_be, |at| {
        if text[at] == b' ' && text[at - 1].is_ascii() {
            if is_lone(text, at - 1) && is_lone(text, at + 1) {
                edit.replace(at..at + 1, b"");
            }
            return;
        }
        let start = match text[..=at] {
            [.., 0xe3, 0x80, 0x80] => at - 2,
            [.., 0xc2, 0xa0] => at - 1,
            _ => at,
        };
        if let Some(end) = ideographs_end(text, start) {
            edit.replace(start..end, b"");
        }
    });
}

/// Whether a letter or digit of ASCII is here, and none beside it.
fn is_lone(text: &[u8], at: usize) -> bool {
    let has = |at: usize| text.get(at).is_some_and(u8::is_ascii_alphanumeric);
    has(at) && !has(at + 1) && !(at > 0 && has(at - 1))
}

/// Returns the end of white space between two ideographs, which begins here.
fn ideographs_end(text: &[u8], start: usize) -> Option<usize> {
    points::before(text, start).filter(|&(point, _)| is_ideograph(point))?;
    let mut others = points::each(&text[start..]);
    let (size, _) =
        others.find(|&(_, point)| !Properties::of(point).is_white()).filter(|&(_, point)| is_ideograph(point))?;
    (size > 0).then_some(start + size)
}
