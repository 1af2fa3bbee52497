//! The text of a page without its tags, comments, scripts and styles, whose structure is not parsed.

use memchr::{memchr, memchr_iter, memmem};

use crate::text::characters::Class;
use crate::text::{entities, points};

/// What is cut with its content, by its name; a comment has none.
const RAW: [&[u8]; 2] = [b"script", b"style"];
const COMMENT: &[u8] = b"";

/// The text of a page.
pub fn text_of(html: &str) -> String {
    without_references(&without_tags(&without_raw(html)))
}

/// Cut comments, scripts and styles that have an end.
fn without_raw(html: &str) -> String {
    let bytes = html.as_bytes();
    let mut rest = String::with_capacity(html.len());
    let mut done = 0;
    let mut endless = Vec::new();
    for start in memchr_iter(b'<', bytes) {
        let Some((raw, begin)) = raw_begin(bytes, start) else { continue };
        if start < done || endless.contains(&raw) {
            continue;
        }
        match raw_end(bytes, begin, raw) {
            Some(end) => {
                rest.push_str(&html[done..start]);
                rest.push('\n');
                done = end;
            }
            // No later one has an end either.
            None => endless.push(raw),
        }
    }
    rest + &html[done..]
}

/// What is cut that begins here, and where its content begins.
fn raw_begin(bytes: &[u8], start: usize) -> Option<(&'static [u8], usize)> {
    if bytes[start..].starts_with(b"<!--") {
        return Some((COMMENT, start + 4));
    }
    RAW.into_iter().find_map(|name| {
        let end = name_end(bytes, start + 1, name)?;
        // As the name of another element.
        let goes_on = points::at(bytes, end).is_some_and(|(point, _)| is_word(point));
        (!goes_on).then_some((name, end))
    })
}

/// Where what is cut ends whose content begins here.
fn raw_end(bytes: &[u8], start: usize, name: &[u8]) -> Option<usize> {
    if name == COMMENT {
        return memmem::find(&bytes[start..], b"-->").map(|at| start + at + 3);
    }
    memmem::find_iter(&bytes[start..], b"</").find_map(|at| {
        let mut end = name_end(bytes, start + at + 2, name)?;
        while let Some((_, size)) = points::at(bytes, end).filter(|&(point, _)| Class::of_point(point).is_white()) {
            end += size;
        }
        (bytes.get(end) == Some(&b'>')).then_some(end + 1)
    })
}

/// Where a name ends that begins here, whatever the case of its letters.
fn name_end(bytes: &[u8], start: usize, name: &[u8]) -> Option<usize> {
    name.iter().try_fold(start, |at, &letter| {
        let (found, size) = points::letter(bytes, at)?;
        (found == letter).then_some(at + size)
    })
}

fn is_word(point: u32) -> bool {
    point == u32::from(b'_') || Class::of_point(point).is_alphanumeric()
}

/// Put a line feed in the place of each tag.
fn without_tags(html: &str) -> String {
    let bytes = html.as_bytes();
    let mut rest = String::with_capacity(html.len());
    let mut done = 0;
    for start in memchr_iter(b'<', bytes) {
        let begins =
            matches!(bytes.get(start + 1), Some(b'/' | b'!' | b'?')) || points::letter(bytes, start + 1).is_some();
        if start >= done && begins {
            rest.push_str(&html[done..start]);
            rest.push('\n');
            done = memchr(b'>', &bytes[start..]).map_or(bytes.len(), |size| start + size + 1);
        }
    }
    rest + &html[done..]
}

/// Put characters in the place of their names and numbers, as Python's `html.unescape` does.
fn without_references(html: &str) -> String {
    let bytes = html.as_bytes();
    let mut text = String::with_capacity(html.len());
    let mut done = 0;
    for start in memchr_iter(b'&', bytes) {
        if bytes.get(start + 1) == Some(&b'#') {
            if let Some((character, end)) = entities::numbered(bytes, start + 2) {
                text.push_str(&html[done..start]);
                text.extend(character);
                done = end;
            }
        } else if let Some((size, named)) = entities::named(&bytes[start + 1..]) {
            text.push_str(&html[done..start]);
            text.push_str(&named);
            done = start + 1 + size;
        }
    }
    text + &html[done..]
}
