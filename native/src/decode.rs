//! The bytes of a record to an article, or to the reason why it cannot be read.
//!
//! * [`json`]: JSON, token by token.
//! * [`html`]: the text of a field that is HTML. Decoding leaves fields as they are; [`crate::entries`] takes this
//!   step.
//! * [`mod@readable`]: the text of a field as a person reads it; [`crate::entries`] does not use it.
//!
//! This file defines which input is readable. Any bytes have a result, and it depends on the record and the format
//! alone.
//!
//! The id of an article is its id field (text, or a number as written), else the key of the record; an empty id counts
//! as missing. The id of a record that is rejected is that of its id field if that could be read, else its key.
//!
//! The text is one field, or several. Of several, one that is missing or null is empty text; at least one must exist,
//! and not all may be empty. Texts are not changed here, markup included. The scope is text, or a number as written;
//! missing, null and empty mean no scope. Any other scope is a reason to reject the record, because the article would
//! be compared within the wrong scope. Of members of one name the last one counts.
//!
//! A value is tested for its size, its nesting, UTF-8, JSON, an object, its id, its texts, its scope, and text that is
//! not empty, in this order: the first one that it fails is its reason.

pub mod html;
pub mod json;
pub mod readable;

use std::borrow::Cow;
use std::fmt::Write;

use json::{Container, NotJson, Number, Reader, Token, Written};
use simdutf8::compat::from_utf8;

use crate::text::characters::Class;
use crate::text::halves;
use crate::text::points;

/// Longest id in UTF-8: a URL fits, and a log batch of 500 entries stays far below the size limit of a record.
pub const MOST_ID_BYTES: usize = 512;
/// Most levels of objects and arrays: far more than articles have.
pub const MOST_LEVELS: usize = 512;
/// A mark that UTF-8 does not need, and that some programs write all the same.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Bytes of the escape that stands for half of a surrogate pair where the length of an id is limited.
const ESCAPED_HALF: usize = 6;

/// How the values of records are read. Names are in generalized UTF-8.
#[derive(Debug)]
pub struct Format {
    /// Whether a value is a JSON object; else it is the text.
    pub is_json: bool,
    /// Most bytes of a value.
    pub most_bytes: usize,
    /// Name of the field with the id.
    pub id_field: Vec<u8>,
    /// Name of the field with the scope.
    pub scope_field: Option<Vec<u8>>,
    /// Names of the fields that make the text, in order.
    pub text_fields: Vec<Vec<u8>>,
    /// Whether text fields may be missing, as long as one is there.
    pub may_lack_texts: bool,
}

/// What is known of a record after its value was read.
#[derive(Debug, PartialEq)]
pub struct Record<'a> {
    /// The id in generalized UTF-8; none where neither the value nor the key has one.
    pub id: Option<Cow<'a, [u8]>>,
    /// The article, or why there is none.
    pub article: Result<Article<'a>, Reason>,
}

/// A readable record. Texts are in generalized UTF-8.
#[derive(Debug, PartialEq)]
pub struct Article<'a> {
    /// The text of each text field, in order.
    pub texts: Vec<Cow<'a, [u8]>>,
    /// What its matches share with it.
    pub scope: Option<Cow<'a, [u8]>>,
}

/// Why a record is rejected; `core/reasons.py` has the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The record has no value.
    Tombstone,
    /// The value has so many bytes.
    TooLong(usize),
    /// Its brackets are nested deeper than [`MOST_LEVELS`].
    TooDeep,
    /// It is not UTF-8 from this byte on.
    NotUtf8(usize),
    /// It is not JSON.
    NotJson,
    /// It is JSON, and no object.
    NotObject(Kind),
    /// The id has so many bytes.
    LongId(usize),
    /// None of the text fields is there.
    NoText,
    /// The text field of this number is no text.
    NotText(usize, Kind),
    /// The scope is neither text nor a number.
    NotScope(Kind),
    /// There are no characters but white space.
    EmptyText,
    /// Reading it panicked.
    Defect,
}

/// What a JSON value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An object.
    Object,
    /// An array.
    Array,
    /// A string.
    Text,
    /// A number.
    Number,
    /// true or false.
    Boolean,
    /// null.
    Null,
}

impl Kind {
    /// What the value is that begins with a token.
    #[must_use]
    pub fn of(token: Token) -> Self {
        match token {
            Token::Begin(Container::Object) => Self::Object,
            Token::Begin(Container::Array) | Token::End => Self::Array,
            Token::Text(_) | Token::Name(_) => Self::Text,
            Token::Number(_) => Self::Number,
            Token::Boolean(_) => Self::Boolean,
            Token::Null => Self::Null,
        }
    }

    /// As the texts of reasons have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::Array => "an array",
            Self::Text => "text",
            Self::Number => "a number",
            Self::Boolean => "a boolean",
            Self::Null => "null",
        }
    }
}

/// The value of a field.
#[derive(Clone, Copy, Debug)]
enum Field<'a> {
    Text(Written<'a>),
    Number(Number<'a>),
    Other(Kind),
}

/// The fields of a JSON object that make an article, as far as they are there.
#[derive(Debug)]
struct Fields<'a> {
    id: Option<Field<'a>>,
    scope: Option<Field<'a>>,
    texts: Vec<Option<Field<'a>>>,
}

impl Format {
    /// Read a record.
    #[must_use]
    pub fn decode<'a>(&self, key: Option<&'a [u8]>, value: Option<&'a [u8]>) -> Record<'a> {
        let Some(value) = value else { return rejected(key, Reason::Tombstone) };
        #[cfg(test)]
        crate::panics::planted::reached("decoding", value);
        if value.len() > self.most_bytes {
            return rejected(key, Reason::TooLong(value.len()));
        }
        if self.is_json { self.decode_json(key, value) } else { decode_text(key, value) }
    }

    fn decode_json<'a>(&self, key: Option<&'a [u8]>, value: &'a [u8]) -> Record<'a> {
        let fields = match self.fields(value) {
            Ok(fields) => fields,
            Err(reason) => return rejected(key, reason),
        };
        let id = fields.id.and_then(Field::as_name).unwrap_or_default();
        let bytes = escaped_bytes(&id);
        if bytes > MOST_ID_BYTES {
            return rejected(key, Reason::LongId(bytes));
        }
        let id = if id.is_empty() { key_id(key) } else { Some(id) };
        let texts = self.texts(&fields);
        let article = texts.and_then(|texts| Article::new(texts, scope(fields.scope)?));
        Record { id, article }
    }

    fn fields<'a>(&self, value: &'a [u8]) -> Result<Fields<'a>, Reason> {
        let mut fields = Fields { id: None, scope: None, texts: vec![None; self.text_fields.len()] };
        let mut reader = Reader::new(checked(value)?);
        let kind = reader.next_token()?.map(Kind::of);
        while let Some(token) = reader.next_token()? {
            if let (Token::Name(name), 1) = (token, reader.depth()) {
                let value = reader.next_token()?.ok_or(Reason::NotJson)?;
                self.set(&mut fields, name, value);
            }
        }
        match kind {
            Some(Kind::Object) => Ok(fields),
            kind => Err(kind.map_or(Reason::NotJson, Reason::NotObject)),
        }
    }

    fn set<'a>(&self, fields: &mut Fields<'a>, name: Written<'a>, value: Token<'a>) {
        let is_id = name.is(&self.id_field);
        let is_scope = self.scope_field.as_ref().is_some_and(|field| name.is(field));
        let field = match value {
            Token::Text(text) => Field::Text(text),
            // Of an id or a scope, a number that 64 bits do not hold is a text: also where the same field has the text.
            Token::Number(number) if (is_id || is_scope) && number.whole().is_none() => Field::Text(number.as_text()),
            Token::Number(number) => Field::Number(number),
            other => Field::Other(Kind::of(other)),
        };
        if is_id {
            fields.id = Some(field);
        }
        if is_scope {
            fields.scope = Some(field);
        }
        for (text, text_field) in fields.texts.iter_mut().zip(&self.text_fields) {
            if name.is(text_field) {
                *text = Some(field);
            }
        }
    }

    fn texts<'a>(&self, fields: &Fields<'a>) -> Result<Vec<Cow<'a, [u8]>>, Reason> {
        let is_null = |field: Field| matches!(field, Field::Other(Kind::Null));
        let there = |field: &Option<Field<'a>>| field.filter(|&field| !(self.may_lack_texts && is_null(field)));
        if fields.texts.iter().all(|field| there(field).is_none()) {
            return Err(Reason::NoText);
        }
        let text = |(number, field)| match there(field) {
            None => Ok(Cow::default()),
            Some(Field::Text(text)) => Ok(text.text()),
            Some(Field::Number(_)) => Err(Reason::NotText(number, Kind::Number)),
            Some(Field::Other(kind)) => Err(Reason::NotText(number, kind)),
        };
        fields.texts.iter().enumerate().map(text).collect()
    }
}

impl<'a> Article<'a> {
    fn new(texts: Vec<Cow<'a, [u8]>>, scope: Option<Cow<'a, [u8]>>) -> Result<Self, Reason> {
        if texts.iter().all(|text| is_blank(text)) { Err(Reason::EmptyText) } else { Ok(Self { texts, scope }) }
    }
}

impl<'a> Field<'a> {
    /// The text of an id or a scope, which may be a number; none of other values.
    fn as_name(self) -> Option<Cow<'a, [u8]>> {
        match self {
            Self::Text(text) => Some(text.text()),
            Self::Number(number) if number.whole() == Some(0) => Some(Cow::Borrowed(b"0")),
            Self::Number(number) => Some(number.as_text().text()),
            Self::Other(_) => None,
        }
    }
}

impl From<NotJson> for Reason {
    fn from(NotJson: NotJson) -> Self {
        Self::NotJson
    }
}

/// The text of a JSON value that is neither nested too deeply nor broken in its bytes.
///
/// # Errors
/// It is one or the other.
pub fn checked(value: &[u8]) -> Result<&str, Reason> {
    let value = value.strip_prefix(BYTE_ORDER_MARK).unwrap_or(value);
    if is_deeper(value, MOST_LEVELS) { Err(Reason::TooDeep) } else { utf8(value) }
}

/// The id of a record without an id field: its key, with escapes for bytes that are not UTF-8.
///
/// None where there is no key, or it is too long.
#[must_use]
pub fn key_id(key: Option<&[u8]>) -> Option<Cow<'_, [u8]>> {
    let key = key.filter(|key| !key.is_empty() && key.len() <= MOST_ID_BYTES)?;
    if std::str::from_utf8(key).is_ok() {
        return Some(Cow::Borrowed(key));
    }
    let mut id = String::new();
    for chunk in key.utf8_chunks() {
        id.push_str(chunk.valid());
        for byte in chunk.invalid() {
            write!(id, "\\x{byte:02x}").expect("memory");
        }
    }
    (id.len() <= MOST_ID_BYTES).then(|| Cow::Owned(id.into_bytes()))
}

fn decode_text<'a>(key: Option<&'a [u8]>, value: &'a [u8]) -> Record<'a> {
    let text = utf8(value.strip_prefix(BYTE_ORDER_MARK).unwrap_or(value));
    let article = text.and_then(|text| Article::new(vec![Cow::Borrowed(text.as_bytes())], None));
    Record { id: key_id(key), article }
}

fn rejected(key: Option<&[u8]>, reason: Reason) -> Record<'_> {
    Record { id: key_id(key), article: Err(reason) }
}

fn scope(field: Option<Field>) -> Result<Option<Cow<[u8]>>, Reason> {
    match field {
        None | Some(Field::Other(Kind::Null)) => Ok(None),
        Some(Field::Other(kind)) => Err(Reason::NotScope(kind)),
        Some(field) => Ok(field.as_name().filter(|name| !name.is_empty())),
    }
}

fn utf8(value: &[u8]) -> Result<&str, Reason> {
    from_utf8(value).map_err(|error| Reason::NotUtf8(error.valid_up_to()))
}

/// Whether brackets outside of strings are nested deeper than so many levels. A string that is not closed reaches to
/// the end of the value.
fn is_deeper(value: &[u8], levels: usize) -> bool {
    if value.iter().filter(|byte| matches!(byte, b'[' | b'{')).count() <= levels {
        return false;
    }
    let (mut depth, mut deepest) = (0_isize, 0);
    let mut bytes = value.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest > levels as isize
}

fn skip_string<'a>(bytes: &mut impl Iterator<Item = &'a u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => _ = bytes.next(),
            _ => {}
        }
    }
}

/// Bytes of a text whose half surrogates are escaped.
fn escaped_bytes(text: &[u8]) -> usize {
    let halves = (0..text.len()).filter(|&at| halves::half(&text[at..]).is_some()).count();
    text.len() + halves * (ESCAPED_HALF - halves::BYTES)
}

/// Whether there is nothing but white space.
fn is_blank(text: &[u8]) -> bool {
    // Most white space is ASCII, and is skipped faster.
    points::each(text.trim_ascii_start()).all(|(_, point)| Class::of_point(point).is_white())
}
