//! Drops tags, comments and entities of HTML from plain text, the targets of links in Markdown, and what subtitles have
//! beside their text.

use memchr::{memchr, memchr_iter, memchr2, memmem};

use super::characters::Class;
use super::edit::{Draft, Edit};
use super::points::{self, MOST_BYTES};
use super::subtitles;

/// Most characters of what a tag has behind its first letter, and of a comment: a lone < does not reach through the text.
const ATTRIBUTES: usize = 500;
const COMMENT: usize = 2000;
/// Most characters of how a word is read, which stands beside it (`<ruby>`).
const READING: usize = 100;
/// Most characters of the target of a link, and of the title in it.
const TARGET: usize = 2000;
const TITLE: usize = 300;
/// Most characters of the name, decimal digits and hexadecimal digits of an entity that is dropped.
const NAME: usize = 8;
const DIGITS: usize = 6;
const HEX_DIGITS: usize = 5;

const COMMENT_BEGIN: &[u8] = b"<!--";
const COMMENT_END: &[u8] = b"-->";
const TARGET_BEGIN: &[u8] = b"](";

/// Tags of blocks: what stands in two of them are two lines.
pub const BLOCKS: &str = "address article aside blockquote br caption center dd details dialog dir div dl dt fieldset \
    figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr legend li main menu nav ol optgroup \
    option p pre section summary table tbody td tfoot th thead tr ul";

/// Tags of readings and of what they belong to. They divide no word.
const RUBY: [&str; 2] = ["ruby", "rb"];
/// Those whose text goes with them.
const READINGS: [&str; 3] = ["rt", "rp", "rtc"];

/// Takes all steps. `keeps_lines`: the tag of a block leaves a line feed, not a space.
pub fn drop_all(draft: &mut Draft, keeps_lines: bool) {
    subtitles::drop_all(draft);
    draft.take(drop_targets);
    draft.take(|edit| drop_tags(edit, keeps_lines));
    draft.take(drop_entities);
}

fn drop_targets(edit: &mut Edit) {
    let text = edit.text;
    for at in memmem::find_iter(text, TARGET_BEGIN) {
        // What begins within a title goes with it.
        if at < edit.end() {
            continue;
        }
        if let Some(end) = target_end(text, at + TARGET_BEGIN.len()) {
            edit.replace(at..end, "] ");
        }
    }
}

/// Returns the end of the target that begins here, behind its bracket.
fn target_end(text: &[u8], start: usize) -> Option<usize> {
    let is_target = |point| !matches!(point, 0x28 | 0x29) && !Class::of_point(point).is_white();
    let mut end = start + span(&text[start..], TARGET, is_target);
    let title = end + span(&text[end..], usize::MAX, |point| Class::of_point(point).is_white());
    if title > end && text.get(title) == Some(&b'"') {
        let inside = title + 1;
        end = inside + span(&text[inside..], TITLE, |point| point != u32::from(b'"'));
        if text.get(end) != Some(&b'"') {
            return None;
        }
        end += 1;
    }
    (text.get(end) == Some(&b')')).then_some(end + 1)
}

/// Returns the bytes of the longest run of such characters that the text begins with, of at most so many.
fn span(text: &[u8], most: usize, is: impl Fn(u32) -> bool) -> usize {
    let mut others = points::each(text).enumerate();
    others.find(|&(number, (_, point))| number == most || !is(point)).map_or(text.len(), |(_, (index, _))| index)
}

fn drop_tags(edit: &mut Edit, keeps_lines: bool) {
    let (text, mut done, mut close) = (edit.text, 0, Some(0));
    for at in memchr_iter(b'<', text) {
        if at < done {
            continue;
        }
        let found = if let Some(end) = tag_end(text, at) {
            done = end;
            Some(end)
        } else if text[at..].starts_with(COMMENT_BEGIN) {
            done = at + COMMENT_BEGIN.len();
            comment_end(text, done, &mut close)
        } else {
            None
        };
        if let Some(mut end) = found.filter(|_| at >= edit.end()) {
            let name = &*name_of(&text[at..end]);
            if READINGS.contains(&name) && text[at + 1] != b'/' {
                end = reading_end(text, end);
            }
            let left = match name {
                _ if READINGS.contains(&name) || RUBY.contains(&name) => "",
                _ if keeps_lines && BLOCKS.split(' ').any(|block| block == name) => "\n",
                _ => " ",
            };
            edit.replace(at..end, left);
        }
    }
}

/// Returns the end of a tag that begins here.
pub(super) fn tag_end(text: &[u8], start: usize) -> Option<usize> {
    let name = start + if text.get(start + 1) == Some(&b'/') { 2 } else { 1 };
    let (_, letter) = points::letter(text, name)?;
    let behind = &text[name + letter..];
    let size = memchr2(b'<', b'>', &behind[..behind.len().min(ATTRIBUTES * MOST_BYTES + 1)])?;
    (behind[size] == b'>' && points::count(&behind[..size]) <= ATTRIBUTES).then_some(name + letter + size + 1)
}

/// Returns the end of a comment whose beginning ends here.
///
/// `close`: where the end of a comment is that was found last; `None`: there is none any more.
fn comment_end(text: &[u8], start: usize, close: &mut Option<usize>) -> Option<usize> {
    if close.is_some_and(|close| close < start) {
        *close = memmem::find(&text[start..], COMMENT_END).map(|size| start + size);
    }
    let end = (*close)?;
    let is_near = end - start <= COMMENT * MOST_BYTES && points::count(&text[start..end]) <= COMMENT;
    is_near.then_some(end + COMMENT_END.len())
}

/// Returns where the reading ends whose tag ends here: at the next tag, or at once.
fn reading_end(text: &[u8], start: usize) -> usize {
    let behind = &text[start..text.len().min(start + READING * MOST_BYTES + 1)];
    let size = memchr(b'<', behind).filter(|&size| points::count(&behind[..size]) <= READING);
    start + size.unwrap_or(0)
}

/// Returns the name of a tag in lower case; nothing of a comment.
pub(super) fn name_of(tag: &[u8]) -> String {
    let mut at = if tag.get(1) == Some(&b'/') { 2 } else { 1 };
    let mut name = String::new();
    while let Some((point, bytes)) = points::at(tag, at) {
        match points::letter(tag, at) {
            Some((letter, _)) => name.push(char::from(letter)),
            None if point == u32::from(b'_') || Class::of_point(point).is_alphanumeric() => {
                name.push(char::from_u32(point).unwrap_or(' '));
            }
            None => break,
        }
        at += bytes;
    }
    name
}

fn drop_entities(edit: &mut Edit) {
    for at in memchr_iter(b'&', edit.text) {
        if let Some(end) = entity_end(edit.text, at + 1) {
            edit.replace(at..end, " ");
        }
    }
}

/// Returns the end of an entity from behind its & on.
fn entity_end(text: &[u8], start: usize) -> Option<usize> {
    let digits = |start: usize, most, is: fn(&u8) -> bool| {
        let size = text.get(start..)?.iter().take(most + 1).take_while(|byte| is(byte)).count();
        (1..=most).contains(&size).then_some(start + size)
    };
    let end = match text.get(start..)? {
        [b'#', b'x' | b'X', ..] => digits(start + 2, HEX_DIGITS, u8::is_ascii_hexdigit),
        [b'#', ..] => digits(start + 1, DIGITS, u8::is_ascii_digit),
        _ => {
            let end = start + points::run(text, start, |_| false, NAME);
            (points::count(&text[start..end]) > 1).then_some(end)
        }
    }?;
    (text.get(end) == Some(&b';')).then_some(end + 1)
}
