//! Drops from plain text what subtitles have beside it: the times of cues, their numbers and names, and the heading of
//! `WebVTT`.
//!
//! A cue of `SubRip` or `WebVTT` begins with `00:00:04,148 --> 00:00:08,296`, perhaps in brackets, and settings behind it.
//! On the line before stands its number or, in `WebVTT`, behind an empty line, its name. Within a cue stand times in
//! brackets (`<00:00:05.000>`), as they do in lyrics (`[00:05.00]`). A text whose lines were joined has the same parts.

use std::ops::Range;

use memchr::{memchr2_iter, memmem};

use super::edit::Edit;

const ARROW: &[u8] = b"-->";
const HEADING: &[u8] = b"WEBVTT";
/// Most characters of a number or a name of a cue.
const NUMBER: usize = 6;
const NAME: usize = 100;
/// What settings of a cue begin with.
const SETTINGS: [&[u8]; 10] =
    [b"align:", b"line:", b"position:", b"region:", b"size:", b"vertical:", b"X1:", b"X2:", b"Y1:", b"Y2:"];

/// Drops the times of cues, with what belongs to them.
pub fn drop_cues(edit: &mut Edit) {
    let text = edit.text;
    for at in memmem::find_iter(text, ARROW) {
        let Some(cue) = cue_at(text, at).filter(|_| at >= edit.end()) else { continue };
        if edit.end() == 0 {
            if let Some(heading) = heading_of(&text[..cue.start]) {
                edit.replace(heading, "");
            }
        }
        edit.replace(cue, " ");
    }
}

/// Drops times in brackets.
pub fn drop_stamps(edit: &mut Edit) {
    let text = edit.text;
    for at in memchr2_iter(b'<', b'[', text) {
        let time = time_at(text, at + 1);
        let close = if text[at] == b'<' { b'>' } else { b']' };
        if let Some(end) = time.filter(|&end| text.get(end) == Some(&close)) {
            edit.replace(at..end + 1, "");
        }
    }
}

/// Returns what the cue of an arrow has beside its text.
fn cue_at(text: &[u8], arrow: usize) -> Option<Range<usize>> {
    let mut begin = time_before(text, back_over_spaces(text, arrow))?;
    let mut end = time_at(text, over_spaces(text, arrow + ARROW.len()))?;
    if begin > 0 && text[begin - 1] == b'[' && text.get(end) == Some(&b']') {
        (begin, end) = (begin - 1, end + 1);
    }
    loop {
        let start = over_spaces(text, end);
        if start == end || !SETTINGS.iter().any(|name| text[start..].starts_with(name)) {
            break;
        }
        end = start + text[start..].iter().take_while(|byte| !is_white(**byte)).count();
    }
    Some(title_before(text, begin).unwrap_or(begin)..end)
}

/// Returns where the number or the name of a cue begins whose time begins here.
fn title_before(text: &[u8], time: usize) -> Option<usize> {
    let line = back_over_spaces(text, time);
    let before = line_before(&text[..line]);
    let end = back_over_spaces(text, before.unwrap_or(line));
    let size = text[..end].iter().rev().take(NAME + 1).take_while(|byte| byte.is_ascii_graphic()).count();
    let begin = end - size;
    let is_number = size <= NUMBER && text[begin..end].iter().all(u8::is_ascii_digit);
    let is_alone = match text[..begin].last() {
        None => true,
        Some(b'\n') => is_number || line_before(&text[..begin]).is_some_and(|end| text[..end].last() == Some(&b'\n')),
        Some(&byte) => is_number && is_white(byte),
    };
    let is_title = is_number || (before.is_some() && size <= NAME);
    (size > 0 && end < time && is_alone && is_title).then_some(begin)
}

/// Returns the end of the line before one that begins at the end of a text.
fn line_before(text: &[u8]) -> Option<usize> {
    let line = text.strip_suffix(b"\n")?;
    Some(line.strip_suffix(b"\r").unwrap_or(line).len())
}

/// Returns the heading of `WebVTT` that a text before the first cue begins with: up to an empty line, or a word.
fn heading_of(text: &[u8]) -> Option<Range<usize>> {
    let mark = "\u{feff}".as_bytes();
    let begin = if text.starts_with(mark) { mark.len() } else { 0 };
    let begin = begin + text[begin..].iter().take_while(|byte| is_white(**byte)).count();
    let behind = text[begin..].strip_prefix(HEADING)?;
    if behind.first().is_some_and(|byte| !is_white(*byte)) {
        return None;
    }
    let empty = [&b"\n\n"[..], b"\n\r\n"].iter().filter_map(|line| memmem::find(behind, line)).min();
    Some(begin..begin + HEADING.len() + empty.unwrap_or(0))
}

/// Returns the end of the time that begins here.
fn time_at(text: &[u8], begin: usize) -> Option<usize> {
    let size = text.get(begin..)?.iter().take(TIME + 1).take_while(|byte| is_of_time(**byte)).count();
    is_time(&text[begin..begin + size]).then_some(begin + size)
}

/// Returns the beginning of the time that ends here.
fn time_before(text: &[u8], end: usize) -> Option<usize> {
    let size = text[..end].iter().rev().take(TIME + 1).take_while(|byte| is_of_time(**byte)).count();
    is_time(&text[end - size..end]).then_some(end - size)
}

/// Most characters of a time.
const TIME: usize = 13;

fn is_of_time(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b',')
}

/// Whether it is hours, which may be missing, minutes, seconds, and a fraction of these.
fn is_time(text: &[u8]) -> bool {
    let Some(point) = text.iter().position(|byte| matches!(byte, b'.' | b',')) else { return false };
    let is_number =
        |digits: &[u8], least, most| (least..=most).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let parts: Vec<&[u8]> = text[..point].split(|byte| *byte == b':').collect();
    let is_clock = match parts[..] {
        [minutes, seconds] => is_number(minutes, 1, 2) && is_number(seconds, 2, 2),
        [hours, minutes, seconds] => is_number(hours, 1, 3) && is_number(minutes, 1, 2) && is_number(seconds, 2, 2),
        _ => false,
    };
    is_clock && is_number(&text[point + 1..], 1, 3)
}

fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn over_spaces(text: &[u8], at: usize) -> usize {
    at + text[at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

fn back_over_spaces(text: &[u8], at: usize) -> usize {
    at - text[..at].iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

#[cfg(test)]
mod tests {
    use super::{drop_cues, drop_stamps, is_time};
    use crate::text::edit::{Draft, Room};
    use crate::text::halves::Text;

    fn dropped(text: &str) -> String {
        let mut room = Room::default();
        let mut draft = Draft::of(Text::Whole(text), &mut room);
        draft.take(drop_cues);
        draft.take(drop_stamps);
        draft.done().joined().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn cues_lose_times_numbers_and_names() {
        let time = "00:00:04,148 --> 00:00:08,296";
        for (text, expected) in [
            (format!("1\n{time}\na\n\n2\r\n{time}\r\nb 3 {time} c"), "a b c"),
            (format!("WEBVTT\nKind: x\n\nin-tro\n{time} align:start line:0%\na\n\nb c\n{time} d"), "a b c d"),
            (format!("\u{feff}WEBVTT {time}\na\nb\n{time} c"), "\u{feff} a b c"),
            (format!("[{time}] a 1999\n\n{time} b WEBVTT"), "a 1999 b WEBVTT"),
            (format!("1234567 {time} a5[{time}] X1:1 b"), "1234567 a5 b"),
            ("[00:12.34]a<00:00:01.000>b [12:34] <3:45> 3:45.2".to_owned(), "ab [12:34] <3:45> 3:45.2"),
            ("a --> b 00:00:04 --> 00:00:05 WEBVTT".to_owned(), "a --> b 00:00:04 --> 00:00:05 WEBVTT"),
        ] {
            assert_eq!(dropped(&text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_time_has_minutes_seconds_and_a_fraction() {
        for time in ["00:00:04,148", "0:04.1", "100:00:00.000", "59:59.99"] {
            assert!(is_time(time.as_bytes()), "{time}");
        }
        for other in ["", "4", "00:04", "0:4.1", "00:00:00:04.1", "00:04.", "00:04.1234", ",", "1000:00:00.0", "a:04.1"]
        {
            assert!(!is_time(other.as_bytes()), "{other}");
        }
    }
}
