//! Finds addresses of pages, e-mail addresses and user names.
//!
//! Each is known by a landmark: `//`, a dot before a top domain or behind `www`, @. The part before a landmark is bounded,
//! and it is looked at first. The part behind it may reach to the end of the text, with many landmarks in it. It is looked
//! at only if the landmark certainly belongs to an address: then all of these landmarks go with it, and no character is
//! looked at twice.

use memchr::{memchr_iter, memchr3_iter, memmem};

use super::characters::Class;
use super::edit::{Draft, Edit};
use super::halves;
use super::points;
use super::ranges::WIDES;
use super::traits::Traits;

/// What a full-width character is beyond that of ASCII.
const NARROWER: u32 = 0xff01 - '!' as u32;
/// By these a host is known without `www.` before it.
const TOP_DOMAINS: [&[u8]; 4] = [b"com", b"cn", b"net", b"org"];
const WWW: &[u8] = b"www";
const SLASHES: &[u8] = b"//";
/// Most characters of an address before a landmark: the longest local part of an e-mail address.
const LOOK_BACK: usize = 64;
/// Least and most characters of a scheme, and most of a user name.
const LEAST_SCHEME: usize = 2;
const SCHEME: usize = 10;
const USER: usize = 30;

/// Turns full-width letters, digits and signs of addresses into ASCII; full-width punctuation stays.
///
/// Halves of one character that stand side by side are joined.
pub fn narrow(draft: &mut Draft) {
    draft.take(halves::join_pairs);
    draft.take(|edit| {
        for (at, point) in points::each(edit.text) {
            if Traits::of_point(point).has(WIDES) {
                let narrow = char::from_u32(point - NARROWER).expect("a character of ASCII");
                edit.replace_by(at..at + halves::BYTES, narrow);
            }
        }
    });
}

/// Replaces addresses with a scheme.
pub fn replace_schemed(edit: &mut Edit, stand_in: &str) {
    let text = edit.text;
    for at in memmem::find_iter(text, SLASHES) {
        let behind = at + SLASHES.len();
        if at < edit.end() {
            continue;
        }
        let Some(begin) = scheme_begin(text, 0, at) else { continue };
        let body = body(&text[behind..]);
        if body > 0 {
            edit.replace(begin..behind + body, stand_in);
        }
    }
}

/// Replaces addresses that are known by their host. The host of an e-mail address is none.
pub fn replace_hosts(edit: &mut Edit, stand_in: &str) {
    let text = edit.text;
    for at in memchr_iter(b'.', text) {
        if at < edit.end() || !(is_top_domain(text, at + 1) || is_behind_www(text, at)) {
            continue;
        }
        let Some(begin) = host_begin(text, at) else { continue };
        let behind = at + 1;
        let tail = tail(&text[behind..]);
        if tail > 0 {
            edit.replace(begin..behind + tail, stand_in);
        }
    }
}

/// Replaces e-mail addresses.
pub fn replace_emails(edit: &mut Edit, stand_in: &str) {
    let text = edit.text;
    let is_local = |byte: u8| byte.is_ascii_digit() || b"._%+-".contains(&byte);
    for at in memchr_iter(b'@', text) {
        if at < edit.end() {
            continue;
        }
        let begin = points::run_back(text, at, is_local, LOOK_BACK);
        if begin == at {
            continue;
        }
        if let Some(end) = mail_host_end(text, at + 1) {
            edit.replace(begin..end, stand_in);
        }
    }
}

/// Replaces user names: @ and letters, digits, _ and -, not after an ASCII letter or digit.
pub fn replace_users(edit: &mut Edit, stand_in: &str) {
    let text = edit.text;
    for at in memchr_iter(b'@', text) {
        let is_inside = at > 0 && text[at - 1].is_ascii_alphanumeric();
        if at < edit.end() || is_inside {
            continue;
        }
        let is_name = |point| matches!(point, 0x2d | 0x5f) || Class::of_point(point).is_alphanumeric();
        let mut others = points::each(&text[at + 1..]).enumerate();
        let end = others.find(|&(number, (_, point))| number == USER || !is_name(point));
        let size = end.map_or(text.len() - at - 1, |(_, (index, _))| index);
        if size > 0 {
            edit.replace(at..at + 1 + size, stand_in);
        }
    }
}

/// Drops `https://`, `www.` and the like before hosts, in normalised text.
pub fn drop_schemes(edit: &mut Edit) {
    let text = edit.text;
    for at in memchr3_iter(b'/', b'w', b'W', text) {
        if at < edit.end() {
            continue;
        }
        if text[at..].starts_with(SLASHES) {
            let behind = at + SLASHES.len();
            let begin = text[..at].ends_with(b":").then(|| scheme_begin(text, edit.end(), at)).flatten();
            edit.replace(begin.unwrap_or(at)..www_end(text, behind).unwrap_or(behind), "");
        } else if !text[..at].ends_with(b".") && !ends_with_letter_or_digit(&text[..at]) {
            if let Some(end) = www_end(text, at) {
                edit.replace(at..end, "");
            }
        }
    }
}

/// Returns where the scheme before // begins, at this index or behind it.
fn scheme_begin(text: &[u8], least: usize, slashes: usize) -> Option<usize> {
    let before = &text[..slashes];
    let end = before.strip_suffix(b":").or_else(|| before.strip_suffix("：".as_bytes()))?.len();
    let run = points::run_back(text, end, |byte| byte.is_ascii_digit() || b"+-".contains(&byte), SCHEME).max(least);
    let begin = (run..end).find(|&at| points::letter(text, at).is_some())?;
    (points::count(&text[begin..end]) >= LEAST_SCHEME).then_some(begin)
}

/// Whether com, cn, net or org is here, and ends here.
fn is_top_domain(text: &[u8], at: usize) -> bool {
    let known = TOP_DOMAINS.iter().find(|domain| begins_with(&text[at..], domain));
    known.is_some_and(|domain| points::run(text, at + domain.len(), is_label, 1) == 0)
}

/// Whether www is before a dot, and begins there.
fn is_behind_www(text: &[u8], dot: usize) -> bool {
    let begin = dot.checked_sub(WWW.len()).filter(|&begin| begins_with(&text[begin..], WWW));
    begin.is_some_and(|begin| !ends_with_letter_or_digit(&text[..begin]))
}

/// Returns where the part of a host before a dot begins; `None` if there is none, or if it is the host of an e-mail.
fn host_begin(text: &[u8], dot: usize) -> Option<usize> {
    let is_host = |byte: u8| byte.is_ascii_digit() || b".-".contains(&byte);
    let run = points::run_back(text, dot, is_host, LOOK_BACK);
    let begin = (run..dot).find(|&at| !b".-".contains(&text[at]))?;
    (!text[..begin].ends_with(b"@")).then_some(begin)
}

/// Returns the bytes of an address from behind a dot of its host on.
fn tail(text: &[u8]) -> usize {
    let count = |from: usize, is: fn(u8) -> bool| text[from..].iter().take_while(|&&byte| is(byte)).count();
    let mut end = count(0, is_label);
    if end == 0 {
        return 0;
    }
    while text.get(end) == Some(&b'.') && count(end + 1, is_label) > 0 {
        end += 1 + count(end + 1, is_label);
    }
    let is_digit = |byte: u8| byte.is_ascii_digit();
    if text.get(end) == Some(&b':') && count(end + 1, is_digit) > 0 {
        end += 1 + count(end + 1, is_digit);
    }
    if matches!(text.get(end), Some(b'/' | b'?' | b'#')) {
        end += 1 + body(&text[end + 1..]);
    }
    end
}

/// Returns the bytes of what may stand in an address behind its host.
fn body(text: &[u8]) -> usize {
    let is_body =
        |byte: u8| matches!(byte, b'!' | b'#'..=b'\'' | b'*'..=b';' | b'=' | b'?'..=b'Z' | b'_' | b'a'..=b'z' | b'~');
    text.iter().take_while(|&&byte| is_body(byte)).count()
}

/// Returns the end of the host of an e-mail address, which has a dot.
fn mail_host_end(text: &[u8], start: usize) -> Option<usize> {
    let label = |at| points::run(text, at, is_label, usize::MAX);
    let mut end = start + label(start);
    if end == start {
        return None;
    }
    let first = end;
    while text.get(end) == Some(&b'.') && label(end + 1) > 0 {
        end += 1 + label(end + 1);
    }
    (end > first).then_some(end)
}

/// Whether a byte may stand between two dots of a host.
fn is_label(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn begins_with(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|own| own.eq_ignore_ascii_case(word))
}

fn ends_with_letter_or_digit(text: &[u8]) -> bool {
    points::run_back(text, text.len(), |byte| byte.is_ascii_digit(), 1) < text.len()
}

/// Returns the end of `www.` that begins here.
fn www_end(text: &[u8], start: usize) -> Option<usize> {
    let end = start + WWW.len();
    (begins_with(&text[start..], WWW) && text.get(end) == Some(&b'.')).then_some(end + 1)
}
