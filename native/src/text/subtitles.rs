//! Drops from plain text what subtitles have beside it: the times of cues, their numbers and names, and the heading of
//! `WebVTT`.
//!
//! A cue of `SubRip` or `WebVTT` begins with `00:00:04,148 --> 00:00:08,296`, perhaps in brackets, and settings behind it.
//! On the line before stands its number or, in `WebVTT`, behind an empty line, its name. Within a cue stand times in
//! brackets (`<00:00:05.000>`), as they do in lyrics (`[00:05.00]`). A text whose lines were joined has the same parts.
//! On a line of their own, the times of a cue may have no fractions, or a comma between them (`YouTube`'s SBV).
//!
//! A cue of `SubStation Alpha` is a line of nine fields and the text, which has breaks and styles of its own:
//! `Dialogue: 0,0:00:04.14,0:00:08.29,Default,,0,0,0,,{\i1}a{\i0}\Nb`. Before the first one stand its other sections.

use std::ops::Range;

use memchr::{memchr2_iter, memchr3, memmem};

use super::edit::{Draft, Edit};

const ARROW: &[u8] = b"-->";
const HEADING: &[u8] = b"WEBVTT";
/// Most characters of a number or a name of a cue.
const NUMBER: usize = 6;
const NAME: usize = 100;
/// What settings of a cue begin with.
const SETTINGS: [&[u8]; 10] =
    [b"align:", b"line:", b"position:", b"region:", b"size:", b"vertical:", b"X1:", b"X2:", b"Y1:", b"Y2:"];

const SCRIPT: &[u8] = b"[Script Info]";
const DIALOGUE: &[u8] = b"Dialogue:";
/// Fields of a dialogue before its text: the layer, two times, and others; most bytes of each of the first three.
const FIELDS: usize = 9;
const FIELD: usize = 32;

/// Takes all steps.
pub fn drop_all(draft: &mut Draft) {
    if draft.take(drop_fields) {
        draft.take(drop_styles);
    }
    draft.take(drop_cues);
    draft.take(drop_stamps);
}

/// Drops the fields of dialogues, and what stands before the first one of a script.
fn drop_fields(edit: &mut Edit) {
    let text = edit.text;
    for at in memmem::find_iter(text, DIALOGUE) {
        let Some(end) = fields_end(text, at + DIALOGUE.len()).filter(|_| at >= edit.end()) else { continue };
        let is_first = edit.end() == 0 && text[after_mark(text)..].starts_with(SCRIPT);
        edit.replace(if is_first { 0 } else { at }..end, " ");
    }
}

/// Returns the end of the fields that begin here.
fn fields_end(text: &[u8], start: usize) -> Option<usize> {
    let mut end = start;
    for number in 0..FIELDS {
        let most = if number < 3 { FIELD } else { text.len() };
        let comma = end + text[end..].iter().take(most).position(|byte| *byte == b',')?;
        let field = &text[over_spaces(text, end)..comma];
        let is_field = match number {
            0 => field.iter().all(u8::is_ascii_graphic),
            1 | 2 => is_exact(field),
            _ => !field.contains(&b'\n'),
        };
        if !is_field {
            return None;
        }
        end = comma + 1;
    }
    Some(end)
}

/// Drops styles in braces, and puts spaces in the place of breaks.
fn drop_styles(edit: &mut Edit) {
    let text = edit.text;
    for at in memchr2_iter(b'{', b'\\', text).filter(|&at| at + 1 < text.len()) {
        if at < edit.end() {
            continue;
        }
        if text[at] == b'\\' && matches!(text[at + 1], b'N' | b'n' | b'h') {
            edit.replace(at..at + 2, " ");
        } else if text[at] == b'{' && text[at + 1] == b'\\' {
            let end = memchr3(b'{', b'}', b'\n', &text[at + 1..]).map(|size| at + 1 + size);
            if let Some(end) = end.filter(|&end| text[end] == b'}') {
                edit.replace(at..end + 1, "");
            }
        }
    }
}

/// Drops the times of cues, with what belongs to them.
fn drop_cues(edit: &mut Edit) {
    let text = edit.text;
    for at in memchr2_iter(b'>', b',', text) {
        let between = if text[at] == b',' { at..at + 1 } else { (at + 1).saturating_sub(ARROW.len())..at + 1 };
        if between.start < edit.end() || !matches!(&text[between.clone()], ARROW | b",") {
            continue;
        }
        let Some(cue) = cue_at(text, between) else { continue };
        if edit.end() == 0 {
            if let Some(heading) = heading_of(&text[..cue.start]) {
                edit.replace(heading, "");
            }
        }
        edit.replace(cue, " ");
    }
}

/// Drops times in brackets.
fn drop_stamps(edit: &mut Edit) {
    let text = edit.text;
    for at in memchr2_iter(b'<', b'[', text) {
        let close = if text[at] == b'<' { b'>' } else { b']' };
        match time_at(text, at + 1) {
            Some((end, true)) if text.get(end) == Some(&close) => edit.replace(at..end + 1, ""),
            _ => {}
        }
    }
}

/// Returns what a cue has beside its text that has an arrow or a comma between its times.
fn cue_at(text: &[u8], between: Range<usize>) -> Option<Range<usize>> {
    let (mut begin, is_begin_exact) = time_before(text, back_over_spaces(text, between.start))?;
    let (mut end, is_end_exact) = time_at(text, over_spaces(text, between.end))?;
    let is_bracketed = begin > 0 && text[begin - 1] == b'[' && text.get(end) == Some(&b']');
    if is_bracketed {
        (begin, end) = (begin - 1, end + 1);
    }
    let is_exact = is_begin_exact && is_end_exact;
    let has_comma = text[between.start] == b',';
    // Elsewhere these are times of the day, and numbers.
    let must_be_alone = has_comma || !(is_exact || is_bracketed);
    if (has_comma && !is_exact) || (must_be_alone && !has_line(text, begin, end)) {
        return None;
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

/// Whether a line has nothing but this, and spaces.
fn has_line(text: &[u8], begin: usize, end: usize) -> bool {
    let is_break = |byte: Option<&u8>| byte.is_none_or(|byte| matches!(byte, b'\r' | b'\n'));
    is_break(text[..back_over_spaces(text, begin)].last()) && is_break(text.get(over_spaces(text, end)))
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

/// Returns the end of the line before one that begins at the end of a text. Programs that write `\r\n` for each line feed
/// write `\r\r\n` for `\r\n`.
fn line_before(text: &[u8]) -> Option<usize> {
    let line = text.strip_suffix(b"\n")?;
    Some(line.len() - line.iter().rev().take_while(|byte| **byte == b'\r').count())
}

/// Returns the heading of `WebVTT` that a text before the first cue begins with: up to an empty line, or a word.
fn heading_of(text: &[u8]) -> Option<Range<usize>> {
    let begin = after_mark(text);
    let behind = text[begin..].strip_prefix(HEADING)?;
    if behind.first().is_some_and(|byte| !is_white(*byte)) {
        return None;
    }
    let empty = [&b"\n\n"[..], b"\n\r\n"].iter().filter_map(|line| memmem::find(behind, line)).min();
    Some(begin..begin + HEADING.len() + empty.unwrap_or(0))
}

/// Returns where a text begins behind a mark of the order of its bytes, and white space.
fn after_mark(text: &[u8]) -> usize {
    let mark = "\u{feff}".as_bytes();
    let begin = if text.starts_with(mark) { mark.len() } else { 0 };
    begin + text[begin..].iter().take_while(|byte| is_white(**byte)).count()
}

/// Returns the end of the time that begins here, and whether it has a fraction.
fn time_at(text: &[u8], begin: usize) -> Option<(usize, bool)> {
    let size = text.get(begin..)?.iter().take(TIME + 1).take_while(|byte| is_of_time(**byte)).count();
    precision(&text[begin..begin + size]).map(|is_exact| (begin + size, is_exact))
}

/// Returns the beginning of the time that ends here, and whether it has a fraction.
fn time_before(text: &[u8], end: usize) -> Option<(usize, bool)> {
    let size = text[..end].iter().rev().take(TIME + 1).take_while(|byte| is_of_time(**byte)).count();
    precision(&text[end - size..end]).map(|is_exact| (end - size, is_exact))
}

/// Most characters of a time.
const TIME: usize = 13;

fn is_of_time(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b',')
}

/// Returns whether a time has a fraction of seconds; nothing of what is no time. Only with one hours may be missing.
fn precision(text: &[u8]) -> Option<bool> {
    let point = text.iter().position(|byte| matches!(byte, b'.' | b','));
    let is_number =
        |digits: &[u8], least, most| (least..=most).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let parts: Vec<&[u8]> = text[..point.unwrap_or(text.len())].split(|byte| *byte == b':').collect();
    let is_clock = match parts[..] {
        [minutes, seconds] => point.is_some() && is_number(minutes, 1, 2) && is_number(seconds, 2, 2),
        [hours, minutes, seconds] => is_number(hours, 1, 3) && is_number(minutes, 1, 2) && is_number(seconds, 2, 2),
        _ => false,
    };
    let is_time = is_clock && point.is_none_or(|point| is_number(&text[point + 1..], 1, 3));
    is_time.then_some(point.is_some())
}

fn is_exact(text: &[u8]) -> bool {
    precision(text) == Some(true)
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
    use super::{drop_all, precision};
    use crate::text::edit::{Draft, Room};

    fn dropped(text: &str) -> String {
        let mut room = Room::default();
        let mut draft = Draft::of(text.as_bytes(), &mut room);
        drop_all(&mut draft);
        String::from_utf8_lossy(draft.done()).split_whitespace().collect::<Vec<_>>().join(" ")
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
            (
                "1\n00:00:04 --> 00:00:05\na\r\r\n0:00:04.1,0:00:05.2\r\r\nb 10:30:00 --> 11:00:00".to_owned(),
                "a b 10:30:00 --> 11:00:00",
            ),
            ("[Script Info]\nx\nDialogue: 0,0:00:01.10,0:00:02.20,D,,0,0,0,,{\\i1}a{\\i0}\\Nb".to_owned(), "a b"),
            ("a --> b 00:00:04 --> 00:00:05 WEBVTT".to_owned(), "a --> b 00:00:04 --> 00:00:05 WEBVTT"),
        ] {
            assert_eq!(dropped(&text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_time_has_minutes_and_seconds_and_hours_or_a_fraction() {
        for time in ["00:00:04,148", "0:04.1", "100:00:00.000", "59:59.99"] {
            assert_eq!(precision(time.as_bytes()), Some(true), "{time}");
        }
        assert_eq!(precision(b"0:00:04"), Some(false));
        for other in ["", "4", "00:04", "0:4.1", "00:00:00:04.1", "00:04.", "00:04.1234", ",", "1000:00:00.0", "a:04.1"]
        {
            assert_eq!(precision(other.as_bytes()), None, "{other}");
        }
    }
}
