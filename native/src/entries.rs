//! The value of a record to what its log entry has of it.
//!
//! Decoding, the text of HTML, and reading, one record after another. A record depends on itself alone; one at which a
//! step panics is rejected.

use std::borrow::Cow;

use xxhash_rust::xxh3::xxh3_64;

use crate::decode::{Format, Reason, html};
use crate::panics::{self, Panic};
use crate::reader::{Reading, Scheme, Status};
use crate::text::halves;

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
            id: halves::escaped(record.id.unwrap_or(Cow::Borrowed(raw.fallback))),
            reason,
            checksum: raw.value.map_or(0, xxh3_64),
            scope_hash,
            reading,
        }
    }

    fn read(&self, texts: &[Cow<[u8]>]) -> Reading {
        let is_html = |field| self.html.get(field) == Some(&true);
        let made = panics::with_reader(|reader| {
            let without = |(field, text)| {
                if is_html(field) { html::text_of(text, self.scheme.drops_quotes()) } else { Cow::Borrowed(text) }
            };
            let texts: Vec<Cow<[u8]>> = texts.iter().map(|text| &**text).enumerate().map(without).collect();
            reader.read(self.scheme, &texts.iter().map(|text| &**text).collect::<Vec<_>>())
        });
        made.unwrap_or_else(|Panic(_)| self.scheme.rejected())
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

#[cfg(test)]
mod tests {
    use super::*;

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
