//! The bytes of a record to an article, or to the reason why it cannot be read.
//!
//! * [`json`]: JSON, token by token.
//! * [`paths`]: the values at paths of a JSON object.
//! * [`html`]: the text of a field that is HTML. Decoding leaves fields as they are; [`crate::entries`] takes this
//!   step.
//! * [`mod@readable`]: the text of a field as a person reads it; [`crate::entries`] does not use it.
//!
//! This file defines which input is readable. Any bytes have a result, and it depends on the record and the format
//! alone.
//!
//! A field is where its path leads to ([`paths`]). The id of an article is its id field, which is text or a number
//! ([`json::Number::name`]: of a whole number its digits), else the key of the record; an id that is missing, null or
//! empty is none. Text that is a number with a decimal point is this number: serializers and CSV write floats as text.
//! Any other id is a reason to reject the record, because the article would have another name than its own. The id of a
//! record that is rejected is that of its id field if that could be read, else its key.
//!
//! The key of a record is an id as text is, in the quotation marks of JSON or without; or it is a JSON object that has the
//! id at a path, as a value has it; any other key is no id then.
//!
//! Where deletes are taken, two kinds of records have no article and withdraw the one with their id: a record without a
//! value, whose id is its key, and an object whose operation is the configured text (a number and a boolean are
//! compared as they are written), whose id is the id field of deletes, else its key. One without an id is rejected.
//!
//! The text is one field, or several. A field is a string, or a list of strings, whose elements stand on lines of their
//! own; nulls in a list are left out. Of several fields, one that is missing or null is empty text; at least one must
//! exist, and not all may be empty. Texts are not changed here, markup included. The scope is text, or a number, as an id
//! is; missing, null and empty mean no scope. Any other scope is a reason to reject the record, because the article would
//! be compared within the wrong scope. Of members of one name the last one counts.
//!
//! A value is tested for its size, UTF-8, JSON that is not nested too deeply, an object, a delete, its id, its texts, its
//! scope, and text that is not empty, in this order: the first one that it fails is its reason. NaN and Infinity are values that are neither
//! text nor a number.

pub mod html;
pub mod json;
pub mod paths;
pub mod readable;

use std::borrow::Cow;
use std::fmt::Write;

use json::{Container, Reader, Token};
use paths::{Path, Value};
use simdutf8::compat::from_utf8;

use crate::text::characters::Class;
use crate::text::halves;
use crate::text::points;

/// Longest id in UTF-8: a URL fits, and a log batch of 500 entries stays far below the size limit of a record.
pub const MOST_ID_BYTES: usize = 512;
/// Most levels of objects and arrays: far more than articles have.
pub const MOST_LEVELS: usize = 512;
/// Stands between the texts of a list.
const LINE_END: &[u8] = b"\n";
/// A mark that UTF-8 does not need, and that some programs write all the same.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How the values of records are read.
#[derive(Debug)]
pub struct Format {
    /// Whether a value is a JSON object; else it is the text.
    pub is_json: bool,
    /// Most bytes of a value.
    pub most_bytes: usize,
    /// Where the id is.
    pub id: Path,
    /// Where the scope is.
    pub scope: Option<Path>,
    /// Where the texts are, in order.
    pub texts: Vec<Path>,
    /// Whether text fields may be missing, as long as one is there.
    pub may_lack_texts: bool,
    /// Where the id is in a key that is a JSON object; none of a key that is the id.
    pub key: Option<Path>,
    /// Whether a record without a value is a delete.
    pub takes_deletes: bool,
    /// How an object says that it is one.
    pub operation: Option<Operation>,
}

/// The operation of an envelope.
#[derive(Debug)]
pub struct Operation {
    /// Where it is.
    pub at: Path,
    /// What it is of a delete, in generalized UTF-8.
    pub says: Vec<u8>,
    /// Where the id of a delete is.
    pub id: Path,
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

/// Why a record has no article; `core/reasons.py` has the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The record has no value.
    Tombstone,
    /// It is a delete. All others are reasons to reject it.
    Delete,
    /// It is a delete of no article.
    DeleteWithoutId,
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
    /// The id is neither text nor a number.
    NotId(Kind),
    /// The id of a delete is neither text nor a number.
    NotDeleteId(Kind),
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
    /// NaN.
    NotANumber,
    /// Infinity or -Infinity.
    Infinite,
    /// An array of which not all elements are text or null.
    Mixed,
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
            Token::NotANumber => Self::NotANumber,
            Token::Infinite => Self::Infinite,
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
            Self::NotANumber => "NaN",
            Self::Infinite => "Infinity",
            Self::Mixed => "an array with other values than text",
        }
    }
}

impl Format {
    /// Read a record.
    #[must_use]
    pub fn decode<'a>(&self, key: Option<&'a [u8]>, value: Option<&'a [u8]>) -> Record<'a> {
        let Some(value) = value else {
            return if self.takes_deletes { delete(self.key_id(key)) } else { self.rejected(key, Reason::Tombstone) };
        };
        #[cfg(test)]
        crate::panics::planted::reached("decoding", value);
        if value.len() > self.most_bytes {
            return self.rejected(key, Reason::TooLong(value.len()));
        }
        if self.is_json { self.decode_json(key, value) } else { self.decode_text(key, value) }
    }

    fn decode_json<'a>(&self, key: Option<&'a [u8]>, value: &'a [u8]) -> Record<'a> {
        let operation = self.operation.as_ref();
        let of_deletes = operation.into_iter().flat_map(|operation| [&operation.at, &operation.id]);
        let fields = match values(value, self.texts.iter().chain([&self.id]).chain(of_deletes).chain(&self.scope)) {
            Ok(fields) => fields,
            Err(reason) => return self.rejected(key, reason),
        };
        let (texts, mut rest) = fields.split_at(self.texts.len());
        let mut id = &rest[0];
        rest = &rest[1..];
        let mut is_delete = false;
        if let (Some(operation), [said, of_delete, others @ ..]) = (operation, rest) {
            is_delete = said.last().is_some_and(|said| is_written(said, &operation.says));
            id = if is_delete { of_delete } else { id };
            rest = others;
        }
        let id = match name(id) {
            Ok(id) => id,
            Err(kind) if is_delete => return self.rejected(key, Reason::NotDeleteId(kind)),
            Err(kind) => return self.rejected(key, Reason::NotId(kind)),
        };
        let bytes = id.as_deref().map_or(0, escaped_bytes);
        if bytes > MOST_ID_BYTES {
            return self.rejected(key, Reason::LongId(bytes));
        }
        let id = id.or_else(|| self.key_id(key));
        if is_delete {
            return delete(id);
        }
        let scope = rest.first().map_or(Ok(None), |scope| name(scope).map_err(Reason::NotScope));
        let article = self.read_texts(texts).and_then(|texts| Article::new(texts, scope?));
        Record { id, article }
    }

    fn decode_text<'a>(&self, key: Option<&'a [u8]>, value: &'a [u8]) -> Record<'a> {
        let article = utf8(value).and_then(|text| Article::new(vec![Cow::Borrowed(text.as_bytes())], None));
        Record { id: self.key_id(key), article }
    }

    fn rejected<'a>(&self, key: Option<&'a [u8]>, reason: Reason) -> Record<'a> {
        Record { id: self.key_id(key), article: Err(reason) }
    }

    /// The id of a record without an id field: that of its key.
    ///
    /// None where there is no key, or no id in it.
    #[must_use]
    pub fn key_id<'a>(&self, key: Option<&'a [u8]>) -> Option<Cow<'a, [u8]>> {
        let Some(path) = &self.key else { return whole_key(key) };
        let values = values(key?, std::iter::once(path)).ok()?;
        name(&values[0]).ok()?.filter(|id| escaped_bytes(id) <= MOST_ID_BYTES)
    }

    fn read_texts<'a>(&self, fields: &[Vec<Value<'a>>]) -> Result<Vec<Cow<'a, [u8]>>, Reason> {
        let made: Vec<_> = fields.iter().map(|values| self.read_text(values)).collect();
        if made.iter().all(|text| *text == Ok(None)) {
            return Err(Reason::NoText);
        }
        let text = |(number, text): (usize, Result<Option<_>, _>)| match text {
            Ok(text) => Ok(text.unwrap_or_default()),
            Err(kind) => Err(Reason::NotText(number, kind)),
        };
        made.into_iter().enumerate().map(text).collect()
    }

    /// The text at a path, or what is there in its place; nothing where it is missing.
    fn read_text<'a>(&self, values: &[Value<'a>]) -> Result<Option<Cow<'a, [u8]>>, Kind> {
        let (mut texts, mut nulls) = (Vec::new(), 0);
        for value in values {
            match *value {
                Value::Text(text) => texts.push(text.text()),
                Value::List => {}
                Value::Other(Kind::Null) => nulls += 1,
                Value::Number(_) => return Err(Kind::Number),
                Value::Boolean(_) => return Err(Kind::Boolean),
                Value::Other(kind) => return Err(kind),
            }
        }
        match texts.len() {
            0 if values.is_empty() => Ok(None),
            0 if nulls == values.len() => {
                if self.may_lack_texts {
                    Ok(None)
                } else {
                    Err(Kind::Null)
                }
            }
            1 => Ok(texts.pop()),
            _ => Ok(Some(Cow::Owned(texts.join(LINE_END)))),
        }
    }

    /// Whether one of the texts of a value can be read, even if the record cannot.
    #[must_use]
    pub fn has_text(&self, value: &[u8]) -> bool {
        let fields = values(value, self.texts.iter()).unwrap_or_default();
        fields.iter().any(|values| matches!(self.read_text(values), Ok(Some(_))))
    }
}

impl<'a> Article<'a> {
    fn new(texts: Vec<Cow<'a, [u8]>>, scope: Option<Cow<'a, [u8]>>) -> Result<Self, Reason> {
        if texts.iter().all(|text| is_blank(text)) { Err(Reason::EmptyText) } else { Ok(Self { texts, scope }) }
    }
}

/// What each path of an object leads to.
///
/// # Errors
/// The value is not an object that can be read.
pub fn values<'a, 'p>(value: &'a [u8], paths: impl Iterator<Item = &'p Path>) -> Result<Vec<Vec<Value<'a>>>, Reason> {
    let mut reader = Reader::new(utf8(value)?);
    let first = reader.next_token()?.ok_or(Reason::NotJson)?;
    if first != Token::Begin(Container::Object) {
        while reader.next_token()?.is_some() {}
        return Err(Reason::NotObject(Kind::of(first)));
    }
    let values = paths::values(&mut reader, paths)?;
    while reader.next_token()?.is_some() {}
    Ok(values)
}

/// An object whose numbers at these paths are the texts that they are as ids.
///
/// # Errors
/// The value is not an object that can be read.
pub fn quoted_names(value: &[u8], names: &[Path]) -> Result<Vec<u8>, Reason> {
    let found = values(value, names.iter())?.into_iter().flatten();
    let number = |found| if let Value::Number(number) = found { Some(number) } else { None };
    let mut numbers: Vec<_> = found.filter_map(number).map(|number| (number.written().as_ptr(), number)).collect();
    numbers.sort_unstable_by_key(|(place, _)| *place);
    numbers.dedup_by_key(|(place, _)| *place);
    let (mut quoted, mut done) = (Vec::with_capacity(value.len()), 0);
    for (place, number) in numbers {
        let begin = place.addr() - value.as_ptr().addr();
        quoted.extend_from_slice(&value[done..begin]);
        quoted.extend_from_slice(format!("\"{}\"", number.name()).as_bytes());
        done = begin + number.written().len();
    }
    quoted.extend_from_slice(&value[done..]);
    Ok(quoted)
}

/// The id or the scope at a path: text or a number; nothing where it is missing, null or empty.
///
/// # Errors
/// It is something else.
pub fn name<'a>(values: &[Value<'a>]) -> Result<Option<Cow<'a, [u8]>>, Kind> {
    let name = match values.last() {
        None | Some(Value::Other(Kind::Null)) => return Ok(None),
        Some(Value::Text(text)) => name_of_text(text.text()),
        Some(Value::Number(number)) => bytes(number.name()),
        Some(Value::Boolean(_)) => return Err(Kind::Boolean),
        Some(Value::Other(kind)) => return Err(*kind),
        Some(Value::List) => return Err(Kind::Array),
    };
    Ok(Some(name).filter(|name| !name.is_empty()))
}

/// The name that text is: that of a number, where it is one with a decimal point, else the text.
fn name_of_text(text: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    if !text.contains(&b'.') {
        return text;
    }
    match text {
        Cow::Borrowed(text) => number(text).unwrap_or(Cow::Borrowed(text)),
        Cow::Owned(text) => Cow::Owned(number(&text).map_or_else(|| text.clone(), Cow::into_owned)),
    }
}

/// The name of the number that a text is.
fn number(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    match json::scalar(std::str::from_utf8(text).ok()?)? {
        Token::Number(number) => Some(bytes(number.name())),
        _ => None,
    }
}

fn bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

/// Whether a value is this text, or is written as it is.
fn is_written(value: &Value, text: &[u8]) -> bool {
    match value {
        Value::Text(said) => said.is(text),
        Value::Number(said) => said.written().as_bytes() == text,
        Value::Boolean(said) => {
            let written: &[u8] = if *said { b"true" } else { b"false" };
            written == text
        }
        Value::Other(_) | Value::List => false,
    }
}

/// A delete of the article with this id; rejected without one.
fn delete(id: Option<Cow<'_, [u8]>>) -> Record<'_> {
    let reason = if id.is_some() { Reason::Delete } else { Reason::DeleteWithoutId };
    Record { id, article: Err(reason) }
}

/// The text of a value, without a byte order mark before it.
///
/// # Errors
/// It is not UTF-8.
pub fn utf8(value: &[u8]) -> Result<&str, Reason> {
    let value = value.strip_prefix(BYTE_ORDER_MARK).unwrap_or(value);
    from_utf8(value).map_err(|error| Reason::NotUtf8(error.valid_up_to()))
}

/// A key as an id, without the quotation marks of JSON, with escapes for bytes that are not UTF-8; none where there is
/// no key, or it is too long.
fn whole_key(key: Option<&[u8]>) -> Option<Cow<'_, [u8]>> {
    let key = key.filter(|key| !key.is_empty() && key.len() <= MOST_ID_BYTES)?;
    if let Ok(text) = std::str::from_utf8(key) {
        let unquoted = match json::scalar(text) {
            Some(Token::Text(text)) => text.text(),
            _ => Cow::Borrowed(key),
        };
        return Some(name_of_text(unquoted)).filter(|id| !id.is_empty() && escaped_bytes(id) <= MOST_ID_BYTES);
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

/// Bytes of a text whose half surrogates are escaped.
fn escaped_bytes(text: &[u8]) -> usize {
    halves::escaped(Cow::Borrowed(text)).len()
}

/// Whether there is nothing but white space.
fn is_blank(text: &[u8]) -> bool {
    // Most white space is ASCII, and is skipped faster.
    points::each(text.trim_ascii_start()).all(|(_, point)| Class::of_point(point).is_white())
}
