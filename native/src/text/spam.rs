//! Undoes tricks that change a text for programs and keep it readable for people.
//!
//! Three steps, each a function of normalised text (NFKC, lower case):
//!
//! * [`unspace`] joins single characters that are kept apart (w.e.i.x.i.n, 微 信 号).
//! * [`undo_lookalikes`] replaces letters and digits by those that they look like.
//! * [`shorten_repeats`] keeps two of a repeated letter or sign.
//!
//! The steps are made for comments. Each changes some honest text too: "x + y = z" is joined, "mp3player" becomes
//! "mpeplayer". The change is the same in every text, so an error costs little; a few rules are enough, without lists of
//! words.

use std::ops::Range;

use multiversion::multiversion;

use super::characters::Class;
use super::edit::{Draft, Edit};
use super::points;
use super::ranges::HAN;

/// Least single characters in a row that are joined: honest text has two (5 元 起).
const MIN_APART: usize = 3;
/// Most characters between two of them: with more, people do not read one word.
const MAX_SEPARATOR: usize = 3;
/// How many of a repeated character stay: many Chinese and English words have two (看看, book).
const KEPT_REPEATS: usize = 2;
/// Least letters before a 1 at the end of a word that make it an l (channe1); v1 and q1 stay.
const MIN_BEFORE_1: usize = 3;
/// Least digits and least characters of a number in which o and l become 0 and 1: those of a short phone number.
const MIN_DIGITS: usize = 3;
const MIN_NUMBER: usize = 6;

/// Digits and signs, and the letters that they look like.
const LEET: [(u8, char); 9] = [
    (b'0', 'o'),
    (b'1', 'l'),
    (b'3', 'e'),
    (b'4', 'a'),
    (b'5', 's'),
    (b'7', 't'),
    (b'8', 'b'),
    (b'@', 'a'),
    (b'$', 's'),
];
/// Cyrillic and Greek letters, and the Latin ones that they look like.
const FOREIGN: [(&str, &str); 2] =
    [("абвгеёкмнорстухѕіјһӏԁԛԝѵ", "abbreekmhopctyxsijhldqwv"), ("αβγεηικμνορτυχω", "abyenikuvoptuxw")];
/// The first bytes of letters and numbers in circles and squares: of U+2000 to U+2FFF, and of U+10000 to U+3FFFF.
const ENCLOSED_BYTE: u8 = 0xe2;
const PLANE_1_BYTE: u8 = 0xf0;

/// Bytes that are tested at once.
const PART: usize = 64;

/// Joins three or more single characters with at most three signs or spaces between them.
pub fn unspace(edit: &mut Edit) {
    let (text, mut joined) = (edit.text, 0);
    // The second one of three is between separators: few are, and only there is anything to join.
    for second in between_separators(text) {
        let first = apart_before(text, second).filter(|first| first.start >= joined);
        let Some((begin, end)) = first.and_then(|first| Some((first.end, apart_end(text, first.end)?))) else {
            continue;
        };
        for (at, point) in points::each(&text[begin..end]) {
            if is_separator(point) {
                edit.replace(begin + at..begin + at + char_size(point), "");
            }
        }
        joined = end;
    }
}

/// Returns where the single characters between two separators begin.
fn between_separators(text: &[u8]) -> impl Iterator<Item = usize> {
    let may_separate = |at: &usize| MAY_SEPARATE[usize::from(text[*at])];
    let mut behind = None;
    (0..text.len()).filter(may_separate).filter_map(move |at| {
        let (_, bytes) = points::at(text, at).filter(|&(point, _)| is_separator(point))?;
        let begin = behind.replace(at + bytes)?;
        let (point, bytes) = points::at(&text[..at], begin)?;
        (is_unit(point) && begin + bytes == at).then_some(begin)
    })
}

/// Returns the single character before separators that end here.
fn apart_before(text: &[u8], end: usize) -> Option<Range<usize>> {
    let mut at = end;
    for _ in 0..=MAX_SEPARATOR {
        let (point, bytes) = points::before(text, at)?;
        if !is_separator(point) {
            let begin = at - bytes;
            let is_alone = !points::before(text, begin).is_some_and(|(point, _)| is_alphanumeric(point));
            return (is_unit(point) && is_alone).then_some(begin..at);
        }
        at -= bytes;
    }
    None
}

/// Returns the end of a run of single characters whose first one ends here; `None` if it is too short.
fn apart_end(text: &[u8], mut end: usize) -> Option<usize> {
    let mut units = 1;
    while let Some(behind) = next_apart(text, end) {
        units += 1;
        end = behind;
    }
    (units >= MIN_APART).then_some(end)
}

/// Returns the end of the single character behind separators.
fn next_apart(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    for number in 0..=MAX_SEPARATOR {
        let (point, bytes) = points::at(text, at)?;
        at += bytes;
        if !is_separator(point) {
            let is_alone = !points::at(text, at).is_some_and(|(point, _)| is_alphanumeric(point));
            return (number > 0 && is_unit(point) && is_alone).then_some(at);
        }
    }
    None
}

/// Keeps letters and signs at most twice in a row; digits and white space are not shortened.
pub fn shorten_repeats(edit: &mut Edit) {
    if !has_repeats(edit.text) {
        return;
    }
    let (mut last, mut times) = (None, 0);
    for (at, point) in points::each(edit.text) {
        times = if last == Some(point) { times + 1 } else { 1 };
        last = Some(point);
        if times > KEPT_REPEATS && !is_fixed(point) {
            edit.replace(at..at + char_size(point), "");
        }
    }
}

/// Whether there may be a character three times in a row.
#[multiversion(targets("x86_64+avx2", "aarch64+neon"))]
fn has_repeats(text: &[u8]) -> bool {
    has_thrice::<1>(text) || has_thrice::<2>(text) || has_thrice::<3>(text) || has_thrice::<4>(text)
}

/// Whether so many bytes come three times in a row. Not `any`: a processor tests many places at once where it need not
/// stop at the first.
#[inline]
fn has_thrice<const BYTES: usize>(text: &[u8]) -> bool {
    let Some(last) = text.len().checked_sub(3 * BYTES) else { return false };
    let places = last + 1;
    let behind: [[&[u8]; 3]; BYTES] =
        std::array::from_fn(|byte| std::array::from_fn(|time| &text[byte + time * BYTES..][..places]));
    let found = (0..places).map(|at| {
        let other = |times: &[&[u8]; 3]| (times[0][at] ^ times[1][at]) | (times[0][at] ^ times[2][at]);
        u8::from(behind.iter().fold(0, |others, times| others | other(times)) == 0)
    });
    found.fold(0, |any, one| any | one) != 0
}

/// Replaces letters and digits by those that they look like.
///
/// 1. Letters and digits in circles and squares become plain letters and digits.
/// 2. Cyrillic and Greek letters in a word with Latin letters become the Latin letters that they look like.
/// 3. o and l in a number become 0 and 1.
/// 4. One or two digits or signs between two Latin letters become the letters that they look like (fr3e, c@sh, l00k), and
///    so do 0 (t0) and 1 (channe1) at the end of a word. 1 becomes i between two consonants, l elsewhere.
pub fn undo_lookalikes(draft: &mut Draft) {
    draft.take(undo_enclosed);
    if has(draft.now(), may_begin_foreign) {
        draft.take(undo_foreign);
    }
    if has(draft.now(), may_begin_decimal) {
        draft.take(undo_in_numbers);
    }
    if has(draft.now(), is_leet) {
        draft.take(undo_in_words);
        draft.take(undo_at_ends);
    }
}

/// Whether a text has such a byte: the cheap test before a step. Not `any`: a processor tests many bytes at once where it
/// need not stop at the first.
fn has(text: &[u8], is: impl Fn(u8) -> bool) -> bool {
    text.iter().fold(false, |any, byte| any | is(*byte))
}

fn undo_enclosed(edit: &mut Edit) {
    let text = edit.text;
    for at in memchr::memchr2_iter(ENCLOSED_BYTE, PLANE_1_BYTE, text) {
        if let Some((plain, bytes)) =
            points::at(text, at).and_then(|(point, bytes)| Some((without_circle(point)?, bytes)))
        {
            edit.replace(at..at + bytes, &plain);
        }
    }
}

/// Returns the letter or number in a circle or square that NFKC does not change.
fn without_circle(point: u32) -> Option<String> {
    let number = |first: u32, least: u32| Some((point - first + least).to_string());
    let letter = |first: u32| char::from_u32(u32::from(b'a') + point - first).map(String::from);
    match point {
        0x24eb..=0x24f4 => number(0x24eb, 11),
        0x24f5..=0x24fe => number(0x24f5, 1),
        0x24ff => number(0x24ff, 0),
        0x2776..=0x277f => number(0x2776, 1),
        0x2780..=0x2789 => number(0x2780, 1),
        0x278a..=0x2793 => number(0x278a, 1),
        0x1_f150..=0x1_f169 => letter(0x1_f150),
        0x1_f170..=0x1_f189 => letter(0x1_f170),
        0x1_f1e6..=0x1_f1ff => letter(0x1_f1e6),
        _ => None,
    }
}

fn undo_foreign(edit: &mut Edit) {
    let text = edit.text;
    let mut at = 0;
    while at < text.len() {
        let word = at;
        let (mut is_latin, mut is_foreign) = (false, false);
        let mut others = points::each(&text[at..]);
        let end = others.find(|&(_, point)| {
            is_latin |= is_latin_letter(point);
            is_foreign |= is_foreign_letter(point);
            !(is_latin_letter(point) || is_foreign_letter(point) || is_ascii_digit(point))
        });
        at = end.map_or(text.len(), |(size, point)| word + size + char_size(point));
        if is_latin && is_foreign {
            for (index, point) in points::each(&text[word..at]) {
                if let Some(latin) = latin_for(point) {
                    edit.replace_by(word + index..word + index + char_size(point), latin);
                }
            }
        }
    }
}

fn latin_for(point: u32) -> Option<char> {
    let mut pairs = FOREIGN.iter().flat_map(|(foreign, latin)| foreign.chars().zip(latin.chars()));
    pairs.find(|&(foreign, _)| u32::from(foreign) == point).map(|(_, latin)| latin)
}

fn undo_in_numbers(edit: &mut Edit) {
    let (text, mut end) = (edit.text, 0);
    let goes_on = |point| matches!(point, 0x6c | 0x6f) || Class::of_point(point).is_decimal();
    for letter in memchr::memchr2_iter(b'l', b'o', text) {
        if letter < end {
            continue;
        }
        let mut start = letter;
        while let Some((_, bytes)) = points::before(text, start).filter(|&(point, _)| goes_on(point)) {
            start -= bytes;
        }
        let (mut digits, mut size) = (0, 0);
        let next = points::each(&text[start..]).find(|&(_, point)| {
            digits += usize::from(Class::of_point(point).is_decimal());
            size += usize::from(goes_on(point));
            !goes_on(point)
        });
        end = next.map_or(text.len(), |(bytes, _)| start + bytes);
        if size >= MIN_NUMBER
            && digits >= MIN_DIGITS
            && !points::before(text, start).is_some_and(|(point, _)| is_letter(point))
            && !next.is_some_and(|(_, point)| is_letter(point))
        {
            for (index, byte) in text[start..end].iter().enumerate() {
                match byte {
                    b'o' => edit.replace(start + index..start + index + 1, "0"),
                    b'l' => edit.replace(start + index..start + index + 1, "1"),
                    _ => {}
                }
            }
        }
    }
}

/// Whether a Cyrillic or Greek letter may begin with a byte.
fn may_begin_foreign(byte: u8) -> bool {
    (0xcd..=0xd4).contains(&byte)
}

/// Whether a decimal digit of any script may begin with a byte.
fn may_begin_decimal(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | 0xd9..=0xe1 | 0xea..)
}

/// [`may_begin_separator`] of each byte.
const MAY_SEPARATE: [bool; 256] = {
    let mut may_separate = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        may_separate[byte] = may_begin_separator(byte as u8);
        byte += 1;
    }
    may_separate
};

/// Whether a separator may begin with a byte.
const fn may_begin_separator(byte: u8) -> bool {
    match byte {
        0..0x80 => !byte.is_ascii_alphanumeric(),
        _ => matches!(byte, 0xc2 | 0xe1..=0xe3 | 0xf0),
    }
}

fn undo_in_words(edit: &mut Edit) {
    let text = edit.text;
    let leet = |at: usize| text.get(at).and_then(|&byte| letter_for(byte));
    let is_latin = |at: usize| text.get(at).is_some_and(u8::is_ascii_lowercase);
    for at in behind_latin(text) {
        let Some(first) = leet(at).filter(|_| at >= edit.end()) else { continue };
        if let Some(second) = leet(at + 1).filter(|_| is_latin(at + 2)) {
            edit.replace(at..at + 2, &String::from_iter([first, second]));
        } else if is_latin(at + 1) {
            let is_between = text[at] == b'1' && is_consonant(text[at - 1]) && is_consonant(text[at + 1]);
            edit.replace_by(at..at + 1, if is_between { 'i' } else { first });
        }
    }
}

fn undo_at_ends(edit: &mut Edit) {
    let text = edit.text;
    for at in behind_latin(text).filter(|&at| matches!(text[at], b'0' | b'1')) {
        let least = if text[at] == b'0' { 1 } else { MIN_BEFORE_1 };
        let is_word = at >= least && text[at - least..at].iter().all(u8::is_ascii_lowercase);
        let goes_on = points::at(text, at + 1).is_some_and(|(point, _)| is_letter(point));
        if let Some(letter) = letter_for(text[at]).filter(|_| is_word && !goes_on) {
            edit.replace_by(at..at + 1, letter);
        }
    }
}

/// Returns where digits and signs that may stand for letters are behind a letter of a to z.
fn behind_latin(text: &[u8]) -> impl Iterator<Item = usize> {
    // Most parts have none: of these, many bytes are tested at once.
    let parts = text.chunks(PART).enumerate();
    let parts = parts.filter(|(_, part)| has(part, is_leet));
    let places = parts.flat_map(|(part, bytes)| part * PART..part * PART + bytes.len());
    places.filter(|&at| is_leet(text[at]) && at > 0 && text[at - 1].is_ascii_lowercase())
}

fn letter_for(byte: u8) -> Option<char> {
    LEET.iter().find(|(sign, _)| *sign == byte).map(|(_, letter)| *letter)
}

fn is_leet(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'@' | b'$')
}

fn is_consonant(byte: u8) -> bool {
    byte.is_ascii_lowercase() && !b"aeiouy".contains(&byte)
}

fn is_ascii_digit(point: u32) -> bool {
    (0x30..=0x39).contains(&point)
}

fn is_latin_letter(point: u32) -> bool {
    (0x61..=0x7a).contains(&point)
}

fn is_foreign_letter(point: u32) -> bool {
    (0x370..=0x52f).contains(&point)
}

fn is_letter(point: u32) -> bool {
    Class::of_point(point).is_letter()
}

fn is_alphanumeric(point: u32) -> bool {
    Class::of_point(point).is_alphanumeric()
}

/// Whether a character may be repeated more often: digits, white space, _.
fn is_fixed(point: u32) -> bool {
    let class = Class::of_point(point);
    class.is_decimal() || class.is_white() || point == u32::from(b'_')
}

/// Whether a character may be joined with others.
fn is_unit(point: u32) -> bool {
    matches!(point, 0x61..=0x7a | 0x30..=0x39 | 0xdf..=0x24f | 0x370..=0x52f) || HAN.contains(&point)
}

/// Whether a character may stand between those that are joined: white space, ASCII and general punctuation, arrows,
/// symbols, pictures, CJK punctuation. No combining marks: between the letters of Thai or Hindi these are no separators.
fn is_separator(point: u32) -> bool {
    match point {
        0x21..=0x2f
        | 0x3a..=0x40
        | 0x5b..=0x60
        | 0x7b..=0x7e
        | 0xa1..=0xa9
        | 0xab..=0xb1
        | 0xb4..=0xb9
        | 0xbb..=0xbf
        | 0x2010..=0x2027
        | 0x2030..=0x20cf
        | 0x2100..=0x2bff
        | 0x3001..=0x3004
        | 0x3008..=0x3029
        | 0x3030
        | 0x30fb
        | 0x1_f000..=0x1_faff => true,
        _ => Class::of_point(point).is_white(),
    }
}

/// Bytes of a character.
fn char_size(point: u32) -> usize {
    match point {
        0..0x80 => 1,
        0x80..0x800 => 2,
        0x800..0x1_0000 => 3,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_three_times_is_found_wherever_it_is() {
        for before in 0..70 {
            for behind in [0, 1, 70] {
                let text = |times| format!("{}{}{}", "ab".repeat(before), "中".repeat(times), "xy".repeat(behind));
                assert!(
                    has_thrice::<3>(text(3).as_bytes()) && !has_thrice::<3>(text(2).as_bytes()),
                    "{before} {behind}"
                );
            }
        }
        assert!(has_thrice::<1>(b"aaa") && has_thrice::<2>("ééé".as_bytes()) && has_thrice::<4>("😀😀😀".as_bytes()));
        assert!(!has_thrice::<1>(b"aa") && !has_thrice::<4>(b"") && !has_thrice::<2>("éé".as_bytes()));
    }

    #[test]
    fn no_character_that_a_step_is_for_begins_with_a_byte_that_leaves_the_step_out() {
        for character in '\0'..=char::MAX {
            let (point, first) = (u32::from(character), character.encode_utf8(&mut [0; 4]).as_bytes()[0]);
            assert!(!Class::of_point(point).is_decimal() || may_begin_decimal(first), "{character:?}");
            assert!(!is_separator(point) || may_begin_separator(first), "{character:?}");
            assert!(without_circle(point).is_none() || matches!(first, ENCLOSED_BYTE | PLANE_1_BYTE), "{character:?}");
            assert!(!is_foreign_letter(point) || may_begin_foreign(first), "{character:?}");
        }
    }
}
