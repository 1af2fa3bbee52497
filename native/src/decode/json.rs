//! JSON (RFC 8259), token by token.
//!
//! The reader goes from token to token and never calls itself. Nothing is made of what nobody asks for: a string stays as
//! it is written until [`Written::text`] is called.
//!
//! Where parsers differ, this one reads as follows. A value is UTF-8. An escape may name half of a surrogate pair alone,
//! which the grammar allows; such a text is generalized UTF-8 (see [`crate::text::halves`]). NaN, Infinity and -Infinity,
//! which are no JSON and which Python and its like write all the same, are tokens of their own. Numbers have no limit.

use std::borrow::Cow;

use memchr::memchr2;

use super::{MOST_LEVELS, Reason};
use crate::text::halves;

/// Digits of a whole number up to which it is the same name in whatever way it is written.
pub const MOST_NAME_DIGITS: usize = 40;

/// The value of each hexadecimal digit; 16 of what is none.
const DIGITS: [u8; 256] = digits();

/// A part of JSON.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token<'a> {
    /// The name of a member, whose value follows.
    Name(Written<'a>),
    /// A string.
    Text(Written<'a>),
    /// A number.
    Number(Number<'a>),
    /// true or false.
    Boolean(bool),
    /// null.
    Null,
    /// NaN.
    NotANumber,
    /// Infinity or -Infinity.
    Infinite,
    /// The beginning of an object or an array.
    Begin(Container),
    /// The end of the innermost one.
    End,
}

/// What holds other values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// Members with names.
    Object,
    /// Elements.
    Array,
}

/// A valid string as it is written, without its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written<'a> {
    bytes: &'a [u8],
    has_escapes: bool,
}

/// A valid number as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number<'a> {
    written: &'a str,
    /// Whether it has neither fraction nor exponent.
    is_whole: bool,
}

/// Reads the tokens of one value.
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    open: Vec<Container>,
    expected: Expected,
}

#[derive(Clone, Copy)]
enum Expected {
    Value,
    /// The first element of an array, or its end.
    Element,
    /// The first member of an object, or its end.
    Member,
    /// A comma, or the end of what is open.
    Comma,
}

/// The text or the number that is all of a JSON text, without white space around it.
#[must_use]
pub fn scalar(text: &str) -> Option<Token<'_>> {
    if !matches!(text.as_bytes(), [b'"', .., b'"'] | [b'-' | b'0'..=b'9', .., b'0'..=b'9']) {
        return None;
    }
    let mut reader = Reader::new(text);
    let token = reader.next_token().ok()??;
    reader.next_token().ok()?.is_none().then_some(token)
}

impl<'a> Reader<'a> {
    /// Begin at the first character of a value.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self { bytes: text.as_bytes(), at: 0, open: Vec::new(), expected: Expected::Value }
    }

    /// The number of bytes that are read.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Read the next token; none at the end of the text.
    ///
    /// # Errors
    /// What follows is not JSON, there is more than one value, or it is nested too deeply.
    pub fn next_token(&mut self) -> Result<Option<Token<'a>>, Reason> {
        self.skip_white();
        match (self.expected, self.open.last().copied()) {
            (Expected::Value, _) => self.value().map(Some),
            (Expected::Element, _) if self.peek() != Some(b']') => self.value().map(Some),
            (Expected::Member, _) if self.peek() != Some(b'}') => self.name().map(Some),
            (Expected::Comma, None) => self.at_end().map(|()| None),
            (Expected::Comma, Some(container)) if self.peek() == Some(b',') => {
                self.at += 1;
                self.skip_white();
                match container {
                    Container::Object => self.name().map(Some),
                    Container::Array => self.value().map(Some),
                }
            }
            (_, open) => {
                let end = if open == Some(Container::Object) { b'}' } else { b']' };
                self.take(end)?;
                self.open.pop();
                self.expected = Expected::Comma;
                Ok(Some(Token::End))
            }
        }
    }

    /// Go past the next value, whatever it holds.
    ///
    /// # Errors
    /// As of [`Self::next_token`].
    pub fn skip_value(&mut self) -> Result<(), Reason> {
        match self.next_token()? {
            Some(Token::Begin(_)) => self.leave(),
            _ => Ok(()),
        }
    }

    /// Go past the end of the innermost object or array.
    ///
    /// # Errors
    /// As of [`Self::next_token`].
    pub fn leave(&mut self) -> Result<(), Reason> {
        let depth = self.open.len();
        while self.open.len() >= depth {
            self.next_token()?;
        }
        Ok(())
    }

    fn value(&mut self) -> Result<Token<'a>, Reason> {
        let first = self.peek().ok_or(Reason::NotJson)?;
        self.expected = Expected::Comma;
        match first {
            b'{' => self.begin(Container::Object, Expected::Member),
            b'[' => self.begin(Container::Array, Expected::Element),
            b'"' => self.string().map(Token::Text),
            b't' => self.literal("true", Token::Boolean(true)),
            b'f' => self.literal("false", Token::Boolean(false)),
            b'n' => self.literal("null", Token::Null),
            b'N' => self.literal("NaN", Token::NotANumber),
            b'I' => self.literal("Infinity", Token::Infinite),
            b'-' if self.bytes.get(self.at + 1) == Some(&b'I') => self.literal("-Infinity", Token::Infinite),
            _ => self.number().map(Token::Number),
        }
    }

    fn begin(&mut self, container: Container, expected: Expected) -> Result<Token<'a>, Reason> {
        if self.open.len() == MOST_LEVELS {
            return Err(Reason::TooDeep);
        }
        self.at += 1;
        self.open.push(container);
        self.expected = expected;
        Ok(Token::Begin(container))
    }

    fn name(&mut self) -> Result<Token<'a>, Reason> {
        let name = self.string()?;
        self.skip_white();
        self.take(b':')?;
        self.expected = Expected::Value;
        Ok(Token::Name(name))
    }

    fn literal(&mut self, written: &str, token: Token<'a>) -> Result<Token<'a>, Reason> {
        if !self.bytes[self.at..].starts_with(written.as_bytes()) {
            return Err(Reason::NotJson);
        }
        self.at += written.len();
        Ok(token)
    }

    fn string(&mut self) -> Result<Written<'a>, Reason> {
        self.take(b'"')?;
        let (begin, mut has_escapes) = (self.at, false);
        loop {
            self.at += plain_bytes(&self.bytes[self.at..]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Written { bytes: &self.bytes[begin..self.at - 1], has_escapes });
                }
                Some(b'\\') => {
                    has_escapes = true;
                    self.at += escape_bytes(&self.bytes[self.at..]).ok_or(Reason::NotJson)?;
                }
                _ => return Err(Reason::NotJson),
            }
        }
    }

    fn number(&mut self) -> Result<Number<'a>, Reason> {
        let begin = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        let mut is_whole = true;
        if self.peek() == Some(b'.') {
            is_whole = false;
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            is_whole = false;
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        let written = std::str::from_utf8(&self.bytes[begin..self.at]).expect("ASCII");
        Ok(Number { written, is_whole })
    }

    fn digits(&mut self) -> Result<(), Reason> {
        let digits = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += digits;
        if digits == 0 { Err(Reason::NotJson) } else { Ok(()) }
    }

    fn skip_white(&mut self) {
        let white = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += self.bytes[self.at..].iter().take_while(white).count();
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Result<(), Reason> {
        if self.peek() != Some(byte) {
            return Err(Reason::NotJson);
        }
        self.at += 1;
        Ok(())
    }

    fn at_end(&self) -> Result<(), Reason> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(Reason::NotJson) }
    }
}

impl<'a> Written<'a> {
    /// The text, in generalized UTF-8.
    #[must_use]
    pub fn text(self) -> Cow<'a, [u8]> {
        if self.has_escapes { Cow::Owned(without_escapes(self.bytes)) } else { Cow::Borrowed(self.bytes) }
    }

    /// Whether the text is this one.
    #[must_use]
    pub fn is(self, text: &[u8]) -> bool {
        if self.has_escapes { *self.text() == *text } else { self.bytes == text }
    }
}

impl<'a> Number<'a> {
    /// The number as it is written.
    #[must_use]
    pub fn written(self) -> &'a str {
        self.written
    }

    /// The number as the name of something: a whole number of at most [`MOST_NAME_DIGITS`] digits is these digits, in
    /// whatever way it is written (4711.0, 4.711e3); any other one is as it is written.
    #[must_use]
    pub fn name(self) -> Cow<'a, str> {
        if self.is_whole && self.written != "-0" {
            return Cow::Borrowed(self.written);
        }
        whole_digits(self.written).map_or(Cow::Borrowed(self.written), Cow::Owned)
    }
}

/// The digits of a whole number, with its sign; none of another number, or of more than [`MOST_NAME_DIGITS`] digits.
fn whole_digits(written: &str) -> Option<String> {
    let (sign, rest) = written.strip_prefix('-').map_or(("", written), |rest| ("-", rest));
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let significant = digits.trim_end_matches('0');
    let leading = significant.len() - significant.trim_start_matches('0').len();
    if significant.is_empty() {
        return Some(String::from("0"));
    }
    // The first digit that is not zero stands so many digits before the point.
    let exponent = exponent.parse::<i64>().ok()?;
    let size = usize::try_from((whole.len() as i64).checked_sub(leading as i64)?.checked_add(exponent)?).ok()?;
    let significant = &significant[leading..];
    (significant.len() <= size && size <= MOST_NAME_DIGITS).then(|| format!("{sign}{significant:0<size$}"))
}

const fn digits() -> [u8; 256] {
    let mut digits = [16; 256];
    let mut value = 0;
    while value < 16 {
        let digit = b"0123456789abcdef"[value];
        digits[digit as usize] = value as u8;
        digits[digit.to_ascii_uppercase() as usize] = value as u8;
        value += 1;
    }
    digits
}

/// The number of bytes before the first one that ends a run of plain ones in a string: a quote, a backslash or a control
/// character.
fn plain_bytes(bytes: &[u8]) -> usize {
    // Where escapes follow each other.
    if bytes.first() == Some(&b'\\') {
        return 0;
    }
    let rest = &bytes[..memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len())];
    // Not `any`: a processor tests many bytes at once where it need not stop at the first.
    let has_control = rest.iter().fold(0, |any, byte| any | u8::from(*byte < b' ')) > 0;
    let control = if has_control { rest.iter().position(|byte| *byte < b' ') } else { None };
    control.unwrap_or(rest.len())
}

/// The number of bytes of the escape that these begin with; none if it is not valid.
fn escape_bytes(bytes: &[u8]) -> Option<usize> {
    match *bytes {
        [_, b'u', first, second, third, fourth, ..] => code_unit([first, second, third, fourth]).map(|_| 6),
        [_, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => Some(2),
        _ => None,
    }
}

/// The text of a valid string.
fn without_escapes(written: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(written.len());
    let mut rest = written;
    loop {
        let plain = plain_bytes(rest);
        text.extend_from_slice(&rest[..plain]);
        rest = &rest[plain..];
        let Some(escape) = rest.get(1) else { return text };
        let escaped = match escape {
            b'u' => {
                rest = add_escaped(rest, &mut text);
                continue;
            }
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            &sign => sign,
        };
        text.push(escaped);
        rest = &rest[2..];
    }
}

/// Add what an escape with digits stands for, or two that are the halves of a character; return what is behind. Half of a
/// surrogate pair that stands alone has three bytes, as if it were a character.
fn add_escaped<'a>(escape: &'a [u8], text: &mut Vec<u8>) -> &'a [u8] {
    let (first, mut behind) = unit_of(escape).expect("an escape of a valid string");
    let mut one = char::from_u32(first);
    if let (None, Some((second, rest))) = (one, unit_of(behind)) {
        if let Some(Ok(pair)) = char::decode_utf16([first as u16, second as u16]).next() {
            (one, behind) = (Some(pair), rest);
        }
    }
    let Some(one) = one else {
        text.extend_from_slice(&halves::bytes_of(first as u16));
        return behind;
    };
    // As many bytes for each: a processor copies them in one step.
    let begin = text.len();
    text.extend_from_slice(&[0; 4]);
    let size = one.encode_utf8(&mut text[begin..]).len();
    text.truncate(begin + size);
    behind
}

/// The code unit of an escape with digits, and what follows; none of anything else.
fn unit_of(escape: &[u8]) -> Option<(u32, &[u8])> {
    match escape {
        &[b'\\', b'u', first, second, third, fourth, ref rest @ ..] => {
            Some((code_unit([first, second, third, fourth])?, rest))
        }
        _ => None,
    }
}

/// The number of four hexadecimal digits; none where one is not.
fn code_unit(digits: [u8; 4]) -> Option<u32> {
    let [first, second, third, fourth] = digits.map(|digit| u32::from(DIGITS[usize::from(digit)]));
    (first | second | third | fourth < 16).then_some(first << 12 | second << 8 | third << 4 | fourth)
}

#[cfg(test)]
mod tests {
    use super::{Reader, Reason, Token};

    /// The tokens of a text, and whether it is JSON to its end.
    fn tokens(text: &str) -> (Vec<Token<'_>>, Result<(), Reason>) {
        let (mut reader, mut tokens) = (Reader::new(text), Vec::new());
        loop {
            match reader.next_token() {
                Ok(Some(token)) => tokens.push(token),
                Ok(None) => return (tokens, Ok(())),
                Err(error) => return (tokens, Err(error)),
            }
        }
    }

    fn text_of(written: &str) -> Vec<u8> {
        match tokens(written).0[..] {
            [Token::Text(text)] => text.text().into_owned(),
            ref other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_no_json_ends_in_an_error_again_and_again() {
        let texts = [
            "",
            " ",
            "[",
            "[1",
            "[1,",
            "[1,]",
            "[,]",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,",
            "{\"a\":1,}",
            "{1:2}",
        ];
        let more = [
            "]",
            "1 2",
            "\"",
            "\"\\",
            "\"\\u00",
            "\"\\u12g4\"",
            "\"\n\"",
            "01",
            "-",
            "1.",
            "1e",
            "nul",
            "[1}",
            "{]",
            "tru",
        ];
        for text in texts.into_iter().chain(more) {
            let mut reader = Reader::new(text);
            while let Ok(token) = reader.next_token() {
                assert_ne!(token, None, "{text}");
            }
            for _ in 0..3 {
                _ = reader.next_token();
            }
        }
    }

    #[test]
    fn a_string_is_plain_to_its_first_escape() {
        // The end is looked for in steps of many bytes.
        for size in 0..100 {
            let plain = "中a".repeat(size);
            assert_eq!(text_of(&format!("\"{plain}\"")), plain.as_bytes());
            assert_eq!(text_of(&format!("\"{plain}\\n{plain}\"")), format!("{plain}\n{plain}").as_bytes());
            assert!(tokens(&format!("\"{plain}\u{1f}\"")).1.is_err());
        }
    }

    #[test]
    fn a_whole_number_is_one_name_however_it_is_written() {
        let name = |written: &str| match tokens(written).0[..] {
            [Token::Number(number)] => number.name().into_owned(),
            ref other => panic!("{other:?}"),
        };
        let forty = "1234567890".repeat(4);
        for written in ["4711", "4711.0", "4711.000", "4.711e3", "4711e0", "471100e-2", "0.4711E+4", "47.11e02"] {
            assert_eq!(name(written), "4711", "{written}");
            assert_eq!(name(&format!("-{written}")), "-4711", "{written}");
        }
        for written in ["0", "-0", "0.0", "-0.00", "0e9", "-0E-9", "0e99999999999999999999"] {
            assert_eq!(name(written), "0", "{written}");
        }
        let (first, rest) = forty.split_at(1);
        for written in [forty.clone(), format!("{forty}.0"), format!("{first}.{rest}e39"), format!("{forty}0e-1")] {
            assert_eq!(name(&written), forty, "{written}");
        }
        assert_eq!(name("1e39"), format!("1{}", "0".repeat(39)));
        let more = format!("{forty}1.0");
        for written in ["1e40", "1.50", "47.11", "1e-1", "10.5e-1", "1e99999999999999999999", "5e-324", &more] {
            assert_eq!(name(written), written);
        }
    }

    #[test]
    fn a_value_that_is_skipped_is_read_to_its_end() {
        let mut reader = Reader::new("{\"a\": [{\"b\": []}, 2], \"c\": 3}");
        let mut names = Vec::new();
        while let Ok(Some(token)) = reader.next_token() {
            if let Token::Name(name) = token {
                names.push(name.text().into_owned());
                reader.skip_value().expect("JSON");
            }
        }
        assert_eq!(names, [b"a", b"c"]);
    }
}
