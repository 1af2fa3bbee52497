//! The value of a record to what its log entry has of it.
//!
//! Decoding, the text of HTML, and reading, one record after another. A record depends on itself alone; one at which a
//! step panics is rejected.

use std::borrow::Cow;

use xxhash_rust::xxh3::xxh3_64;

use crate::decode::{Format, Reason, html};
use crate::panics::{self, Panic};
use crate::reader::{Reading, Scheme, Status};
use crate::text::halves::{self, Text};

/// A record as it was received.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value; none of a tombstone.
    pub value: Option<&'a [u8]>,
    /// The id of a record that has none, in generalized UTF-8.
    pub fallback: &'a [u8],
}

/// What a log entry has of a record.
#[derive(Debug)]
pub struct Entry<'a> {
    /// UTF-8, in which half surrogates are escaped.
    pub id: Cow<'a, [u8]>,
    /// Why it is rejected.
    pub reason: Option<Reason>,
    /// XXH3 of the value; 0 of a tombstone.
    pub checksum: u64,
    /// Entries with different ones are never near; 0 of long or short text without a scope, and without a signature.
    pub scope_hash: u64,
    /// What it has of the text.
    pub reading: Reading,
}

/// Makes entries of records.
#[derive(Clone, Copy)]
pub struct Maker<'m> {
    /// How values are read.
    pub format: &'m Format,
    /// How texts are.
    pub scheme: &'m Scheme,
    /// Whether each text field is HTML.
    pub html: &'m [bool],
}

impl Maker<'_> {
    /// The entry of one record.
    #[must_use]
    pub fn entry<'a>(&self, raw: Raw<'a>) -> Entry<'a> {
        let record = panics::decode(self.format, raw.key, raw.value);
        let (reading, scope_hash, reason) = match record.article {
            Ok(article) => {
                let reading = self.read(&article.texts);
                let reason = (reading.status == Status::Rejected).then_some(Reason::Defect);
                let scope_hash = scope_hash(reading.status, article.scope.as_deref());
                (reading, scope_hash, reason)
            }
            Err(Reason::Delete) => (self.scheme.blank(Status::Delete), 0, None),
            Err(reason) => (self.scheme.rejected(), 0, Some(reason)),
        };
        Entry {
            id: escaped(record.id.unwrap_or(Cow::Borrowed(raw.fallback))),
            reason,
            checksum: raw.value.map_or(0, xxh3_64),
            scope_hash,
            reading,
        }
    }

    fn read(&self, texts: &[Cow<[u8]>]) -> Reading {
        if !self.html.contains(&true) {
            return panics::read(self.scheme, &texts.iter().map(|text| Text::of(text)).collect::<Vec<_>>());
        }
        let fields = texts.iter().zip(self.html);
        let marks_quotes = self.scheme.drops_quotes();
        let without = fields.map(
            |(text, &is_html)| {
                if is_html { html::text_of(text, marks_quotes) } else { Cow::Borrowed(&**text) }
            },
        );
        match panics::caught(|| without.collect::<Vec<_>>()) {
            Ok(texts) => panics::read(self.scheme, &texts.iter().map(|text| Text::of(text)).collect::<Vec<_>>()),
            Err(Panic(_)) => self.scheme.rejected(),
        }
    }
}

/// The scope hash of a text, as `model.scope_hash_of` defines it: long and short text of one scope have the same,
/// exact text another.
fn scope_hash(status: Status, scope: Option<&[u8]>) -> u64 {
    let kind: &[u8] = match status {
        Status::Long | Status::Short if scope.is_none() => return 0,
        Status::Featureless | Status::Rejected | Status::Delete => return 0,
        Status::Long | Status::Short => b"LONG",
        Status::Exact => b"EXACT",
    };
    xxh3_64(&scope.map_or_else(|| kind.to_vec(), |scope| [kind, b"\0", scope].concat()))
}

/// A text in generalized UTF-8 as one in UTF-8: half surrogates are escaped.
fn escaped(text: Cow<[u8]>) -> Cow<[u8]> {
    if std::str::from_utf8(&text).is_ok() {
        return text;
    }
    let mut made = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if let Some(half) = halves::half(&text[at..]) {
            made.extend_from_slice(format!("\\u{half:04x}").as_bytes());
            at += halves::BYTES;
        } else {
            made.push(text[at]);
            at += 1;
        }
    }
    Cow::Owned(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_escaped_and_nothing_else() {
        let of = |text: &[u8]| String::from_utf8(escaped(Cow::Borrowed(text)).into_owned()).expect("UTF-8");
        assert_eq!(of("a\u{1f600}\u{d7ff}".as_bytes()), "a\u{1f600}\u{d7ff}");
        assert_eq!(of(b"a\xed\xa0\xbdb\xed\xbf\xbf\xed\x9f\xbf"), "a\\ud83db\\udfff\u{d7ff}");
    }

    #[test]
    fn scope_hashes_keep_kinds_and_scopes_apart() {
        let scope = Some(b"site".as_slice());
        assert_eq!(scope_hash(Status::Long, None), 0);
        assert_eq!(scope_hash(Status::Short, None), 0);
        assert_eq!(scope_hash(Status::Featureless, scope), 0);
        assert_eq!(scope_hash(Status::Rejected, scope), 0);
        assert_eq!(scope_hash(Status::Exact, None), xxh3_64(b"EXACT"));
        assert_eq!(scope_hash(Status::Short, scope), xxh3_64(b"LONG\0site"));
        assert_eq!(scope_hash(Status::Long, scope), scope_hash(Status::Short, scope));
        assert_eq!(scope_hash(Status::Exact, scope), xxh3_64(b"EXACT\0site"));
    }
}
