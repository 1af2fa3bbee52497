//! Numbers and ideographs that signs and white space take apart, and pictures and characters that nobody sees.

use memchr::{memchr2_iter, memchr3_iter, memmem};

use super::characters::Class;
use super::edit::{Draft, Edit};
use super::points;
use super::traits::{is_ideograph, is_invisible, is_picture, is_skin_tone};

const NO_BREAK: &[u8] = "\u{a0}".as_bytes();
const WIDE: &[u8] = "\u{3000}".as_bytes();

/// Drops zero-width characters, control characters other than white space, and skin tones of pictures.
pub fn drop_invisible(edit: &mut Edit) {
    for (at, point) in points::each(edit.text) {
        if is_invisible(point) || is_skin_tone(point) {
            let (_, bytes) = points::at(edit.text, at).expect("a character is here");
            edit.replace(at..at + bytes, "");
        }
    }
}

/// Replaces each picture.
pub fn replace_pictures(edit: &mut Edit, stand_in: &str) {
    for (at, point) in points::each(edit.text) {
        if is_picture(point) {
            let (_, bytes) = points::at(edit.text, at).expect("a character is here");
            edit.replace(at..at + bytes, stand_in);
        }
    }
}

/// Drops the signs between two digits.
pub fn join_numbers(draft: &mut Draft) {
    // Two searches, for three bytes at most each. No sign is a digit, so their order does not matter.
    draft.take(|edit| memchr3_iter(b'.', b',', b':', edit.text).for_each(|at| drop_sign(edit, at)));
    draft.take(|edit| memchr2_iter(b'/', b'-', edit.text).for_each(|at| drop_sign(edit, at)));
}

fn drop_sign(edit: &mut Edit, at: usize) {
    let is_digit = |at: usize| edit.text.get(at).is_some_and(u8::is_ascii_digit);
    if at > 0 && is_digit(at - 1) && is_digit(at + 1) {
        edit.replace(at..at + 1, "");
    }
}

/// Drops white space between two ideographs, line breaks too, and one space between two lone letters or digits of
/// ASCII. It is taken in texts with ideographs alone.
pub fn rejoin(draft: &mut Draft) {
    // White space that begins with one of these, or with one of those below; the order of the searches does not matter.
    draft.take(|edit| {
        for at in memchr3_iter(b' ', b'\n', b'\t', edit.text) {
            join_ideographs(edit, at);
            if edit.text[at] == b' ' && at > 0 && is_lone(edit.text, at - 1) && is_lone(edit.text, at + 1) {
                edit.replace(at..at + 1, "");
            }
        }
    });
    draft.take(|edit| {
        for at in memchr2_iter(b'\r', NO_BREAK[0], edit.text) {
            if edit.text[at] == b'\r' || edit.text[at..].starts_with(NO_BREAK) {
                join_ideographs(edit, at);
            }
        }
    });
    draft.take(|edit| memmem::find_iter(edit.text, WIDE).for_each(|at| join_ideographs(edit, at)));
}

/// Drops the white space that begins here if it is between two ideographs.
fn join_ideographs(edit: &mut Edit, start: usize) {
    let text = edit.text;
    // The last byte of an ideograph is no ASCII.
    if text[..start].last().is_none_or(u8::is_ascii) {
        return;
    }
    let behind = points::each(&text[start..]).find(|&(_, point)| !Class::of_point(point).is_white());
    if let Some((size, _)) = behind.filter(|&(_, point)| is_ideograph(point)) {
        if points::before(text, start).is_some_and(|(point, _)| is_ideograph(point)) {
            edit.replace(start..start + size, "");
        }
    }
}

/// Whether a letter or digit of ASCII is here, and none beside it.
fn is_lone(text: &[u8], at: usize) -> bool {
    let has = |at: usize| text.get(at).is_some_and(u8::is_ascii_alphanumeric);
    has(at) && !has(at + 1) && !(at > 0 && has(at - 1))
}
