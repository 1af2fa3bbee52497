//! Lines of files: what of a line is the record, and the record with its verdict.

use std::borrow::Cow;

use memchr::memmem;

use crate::decode::Reason;
use crate::decode::json::{Reader, Token};

/// The name of the member that says the verdict.
const MEMBER: &[u8] = b"dedup";
/// What is in every line that may have the member: its name, or the beginning of a letter that is written by its number.
const SIGNS: [&[u8]; 2] = [b"\"dedup\"", b"\\u00"];

/// A line without the white space and the byte order marks around it.
#[must_use]
pub fn stripped(line: &[u8]) -> &[u8] {
    let mut rest = line;
    while let [b' ' | b'\t' | b'\r' | b'\n', behind @ ..] | [0xef, 0xbb, 0xbf, behind @ ..] = rest {
        rest = behind;
    }
    while let [before @ .., b' ' | b'\t' | b'\r' | b'\n'] | [before @ .., 0xef, 0xbb, 0xbf] = rest {
        rest = before;
    }
    rest
}

/// Whether a line has nothing but ASCII white space.
#[must_use]
pub fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t'..=b'\r'))
}

/// Adds a record, which is a valid JSON object, with a member that says this of its verdict. One that it has is removed.
pub fn add_marked(record: &[u8], said: &[u8], lines: &mut Vec<u8>) {
    let may_have = SIGNS.iter().any(|sign| memmem::find(record, sign).is_some());
    let record = if may_have { without_member(record) } else { Cow::Borrowed(record) };
    let members = record.strip_suffix(b"}").unwrap_or(&record);
    lines.extend_from_slice(members);
    if members != b"{" {
        lines.push(b',');
    }
    lines.extend_from_slice(b"\"dedup\":");
    lines.extend_from_slice(said);
    lines.extend_from_slice(b"}\n");
}

/// What is said of a record that is like no other.
#[must_use]
pub fn unique(fingerprint: u64) -> String {
    format!("{{\"verdict\":\"unique\",\"fingerprint\":\"{fingerprint:016x}\"}}")
}

/// A valid JSON object without the members of this name; the others are as they were.
fn without_member(object: &[u8]) -> Cow<'_, [u8]> {
    let members = std::str::from_utf8(object).map_err(|_| Reason::NotJson).and_then(members).unwrap_or_default();
    if members.iter().all(|(is_it, _)| !is_it) {
        return Cow::Borrowed(object);
    }
    let kept: Vec<_> = members.into_iter().filter_map(|(is_it, written)| (!is_it).then_some(written)).collect();
    Cow::Owned([b"{", &*kept.join(&b','), b"}"].concat())
}

/// Of each member of an object, whether it is the one of the verdict, and how it is written.
fn members(object: &str) -> Result<Vec<(bool, &[u8])>, Reason> {
    let mut reader = Reader::new(object);
    reader.next_token()?;
    let mut members = Vec::new();
    loop {
        let end = reader.position();
        let Some(Token::Name(name)) = reader.next_token()? else { return Ok(members) };
        reader.skip_value()?;
        // Before the name are white space and a comma.
        let member = &object.as_bytes()[end..reader.position()];
        let begin = memchr::memchr(b'"', member).ok_or(Reason::NotJson)?;
        members.push((name.is(MEMBER), &member[begin..]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(record: &[u8]) -> String {
        let mut lines = Vec::new();
        add_marked(record, b"1", &mut lines);
        String::from_utf8(lines).expect("UTF-8")
    }

    #[test]
    fn white_space_and_marks_are_no_part_of_a_record() {
        let mark = "\u{feff}";
        let line = format!(" {mark}\t{mark}{mark} a {mark} b{mark}\r\n{mark}");
        assert_eq!(stripped(line.as_bytes()), format!("a {mark} b").as_bytes());
        assert_eq!(stripped(b"\xbb\xbf a \xef\xbb"), b"\xbb\xbf a \xef\xbb");
        assert_eq!(stripped(format!("{mark} {mark}").as_bytes()), b"");
        assert!(is_blank(b" \x0b\x0c\r\n\t") && is_blank(b"") && !is_blank(b" \x0e") && !is_blank(b"\x08"));
    }

    #[test]
    fn a_record_has_the_member_once() {
        assert_eq!(marked(b"{\"a\": 1 }"), "{\"a\": 1 ,\"dedup\":1}\n");
        assert_eq!(marked(b"{\"dedup\":{\"x\":[1,{}]} , \"a\" : \"dedup\"}"), "{\"a\" : \"dedup\",\"dedup\":1}\n");
        assert_eq!(
            marked(b"{\"a\":{\"dedup\":2}, \"d\\u0065dup\":3,\"dedup\":4}"),
            "{\"a\":{\"dedup\":2},\"dedup\":1}\n"
        );
        assert_eq!(
            marked(b"{\"dedup\\u0020\":\"\\\"dedup\\\"\"}"),
            "{\"dedup\\u0020\":\"\\\"dedup\\\"\",\"dedup\":1}\n"
        );
        assert_eq!(marked(b"{ \"dedup\": null }"), "{\"dedup\":1}\n");
    }

    #[test]
    fn a_unique_record_has_its_fingerprint() {
        assert_eq!(unique(0xab), "{\"verdict\":\"unique\",\"fingerprint\":\"00000000000000ab\"}");
    }
}
