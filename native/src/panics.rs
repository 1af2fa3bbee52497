//! A panic in the way of one record, or of one text, stays with it.
//!
//! A panic is a defect. It is caught, the record is rejected, and scratch memory that was in use is thrown away: what
//! the panic left in it would change what is read after it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::decode::{Format, Reason, Record};
use crate::reader::{Fields, Reader, Reading, Scheme};

/// What a panic said.
#[derive(Debug)]
pub struct Panic(pub String);

/// Runs, and catches a panic.
///
/// # Errors
/// There was one.
pub fn caught<T>(call: impl FnOnce() -> T) -> Result<T, Panic> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        Panic(said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned())
    })
}

/// Reads a record; it is rejected if that panics.
#[must_use]
pub fn decode<'a>(format: &Format, key: Option<&'a [u8]>, value: Option<&'a [u8]>) -> Record<'a> {
    caught(|| format.decode(key, value)).unwrap_or_else(|Panic(_)| Record {
        id: caught(|| format.key_id(key)).unwrap_or(None),
        article: Err(Reason::Defect),
    })
}

thread_local! {
    /// The reader of this thread; none after a panic, and while it reads.
    static READER: Cell<Option<Reader>> = const { Cell::new(None) };
}

/// Calls with the reader of this thread, which is thrown away after a panic.
///
/// # Errors
/// There was a panic.
pub fn with_reader<T>(call: impl FnOnce(&mut Reader) -> T) -> Result<T, Panic> {
    let mut reader = READER.take().unwrap_or_default();
    let made = caught(|| call(&mut reader))?;
    READER.set(Some(reader));
    Ok(made)
}

/// Reads one text; it is rejected if that panics.
#[must_use]
pub fn read(scheme: &Scheme, fields: Fields) -> Reading {
    with_reader(|reader| reader.read(scheme, fields)).unwrap_or_else(|Panic(_)| scheme.rejected())
}

/// Panics that tests plant: a text asks for one by what it says. No other build has them.
#[cfg(test)]
pub mod planted {
    /// What a text says that makes a stage panic.
    #[must_use]
    pub fn plant(stage: &str) -> String {
        format!("planted in {stage} of the core")
    }

    /// Panics if the text asks this stage for it.
    ///
    /// # Panics
    /// As asked.
    pub fn reached(stage: &str, text: &[u8]) {
        let asked = plant(stage);
        assert!(!text.windows(asked.len()).any(|part| part == asked.as_bytes()), "{asked}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::paths::{Path, Step};
    use crate::entries::{Maker, Raw};
    use crate::reader::{OwnWords, Status};
    use crate::settings::{
        Compared, FeatureKind, Features, IdfSource, Normalisation, Settings, Treatment, Weights, WordSplit,
    };

    const STAGES: [&str; 3] = ["decoding", "html", "weighing"];
    const TEXTS: [&str; 4] = [
        "The ferry to the island left the harbour at dawn, with nine passengers and the mail of two days on board.",
        "渡口的船今天早上开了,船上有九位旅客和两天的邮件,岛上的人都在码头等着他们回来。",
        "The keeper of the lighthouse counted nine ships that evening, and wrote their names into the old green book.",
        "船上有九位旅客 nine passengers",
    ];

    fn scheme() -> Scheme {
        let treatment = |kind| Treatment {
            normalisation: Normalisation { entities: true, tags: true, simplify: true, ..Normalisation::default() },
            features: Features {
                kind,
                words: WordSplit::Marked,
                weights: Weights::CountIdf,
                top_k: None,
                damped: false,
                damping: 1,
                idf: IdfSource::Languages,
                root: false,
                gram_weights: [100; 5],
            },
        };
        let settings = Settings {
            long: treatment(FeatureKind::Words),
            short: treatment(FeatureKind::Chars),
            article_size: Some(20),
            exact_size: 4,
            exact: Compared::Letters,
            field_weights: vec![1],
            key_sentences: 0,
            sketch: vec![(2, 16)],
            sketch_text: Compared::Letters,
            form: true,
            seed: 7,
            tables: 4,
        };
        Scheme::new(settings, &OwnWords::default())
    }

    fn format() -> Format {
        let path = |name: &[u8]| Path {
            name: name.to_vec(),
            steps: vec![Step::Key(name.to_vec())],
            takes_lists: name == b"text",
        };
        Format {
            is_json: true,
            most_bytes: 1_000_000,
            id: path(b"id"),
            scope: None,
            texts: vec![path(b"text")],
            may_lack_texts: false,
            key: None,
            takes_deletes: false,
            operation: None,
        }
    }

    /// What records become, one after the other: id, why there is no article, scope hash, and what is read of it.
    fn entries(scheme: &Scheme, values: &[String]) -> Vec<(Vec<u8>, Option<Reason>, u64, Reading)> {
        let format = format();
        let maker = Maker { format: &format, scheme, html: &[true] };
        let made = |value: &String| {
            let made = maker.entry(Raw { key: Some(b"key"), value: Some(value.as_bytes()), fallback: b"none" });
            (made.id.into_owned(), made.reason, made.scope_hash, made.reading)
        };
        values.iter().map(made).collect()
    }

    fn value(id: usize, text: &str) -> String {
        format!(r#"{{"id": "a{id}", "text": "{text}"}}"#)
    }

    /// Beside it in a batch nothing is another, however often the reader of the thread panicked before.
    #[test]
    fn a_panic_rejects_its_record_alone() {
        let sound: Vec<_> = TEXTS.iter().enumerate().map(|(id, text)| value(id, text)).collect();
        let (expected, used) = (entries(&scheme(), &sound), scheme());
        for stage in STAGES {
            for at in 0..=sound.len() {
                let mut batch = sound.clone();
                batch.insert(at, value(9, &format!("{} {}", TEXTS[at % TEXTS.len()], planted::plant(stage))));
                let mut made = entries(&used, &batch);
                let (id, reason, scope_hash, reading) = made.remove(at);
                let read = stage != "decoding";
                assert_eq!(id, if read { b"a9".as_slice() } else { b"key" }, "{stage}");
                assert_eq!((reason, scope_hash), (Some(Reason::Defect), 0), "{stage}");
                assert_eq!(reading, used.rejected(), "{stage}");
                assert_eq!(reading.status, Status::Rejected);
                assert!(made == expected, "{stage}, before {at}");
            }
        }
    }

    /// What a panic left in it would be read with the next text.
    #[test]
    fn a_reader_that_panicked_is_thrown_away() {
        let scheme = scheme();
        let is_kept = || {
            let reader = READER.take();
            let is_kept = reader.is_some();
            READER.set(reader);
            is_kept
        };
        _ = read(&scheme, &[TEXTS[0].as_bytes()]);
        assert!(is_kept());
        let text = format!("{} {}", TEXTS[0], planted::plant("weighing"));
        assert_eq!(read(&scheme, &[text.as_bytes()]).status, Status::Rejected);
        assert!(!is_kept());
        assert_eq!(with_reader(|_| ()).map_err(|Panic(said)| said), Ok(()));
        assert!(is_kept());
    }

    #[test]
    fn a_panic_says_what_it_said() {
        let said = |call: fn()| caught(call).map_err(|Panic(said)| said);
        assert_eq!(said(|| ()), Ok(()));
        assert_eq!(said(|| panic!("a fixed text")), Err(String::from("a fixed text")));
        assert_eq!(said(|| panic!("number {}", 7 + TEXTS.len())), Err(String::from("number 11")));
        assert_eq!(said(|| std::panic::panic_any(7)), Err(String::from("no message")));
    }
}
