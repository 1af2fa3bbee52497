//! A panic in the way of one record, or of one text, stays with it.
//!
//! A panic is a defect. It is caught, the record is rejected, and scratch memory that was in use is thrown away: what
//! the panic left in it would change what is read after it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread::yield_now;

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

/// How often the lock of the readers is tried: it is held for the time of a push or a pop.
const TRIES: usize = 100;

/// The readers of one scheme, as many as threads have read at one time.
///
/// Nobody waits for the lock without end: in a process that was forked while a thread of its parent had it, it is never
/// given back. A text is then read by a reader of its own.
pub struct Readers {
    scheme: Scheme,
    /// Those that no thread uses; none of them has seen a panic.
    idle: Mutex<Vec<Reader>>,
}

impl Readers {
    /// Of this scheme.
    #[must_use]
    pub fn new(scheme: Scheme) -> Self {
        Self { scheme, idle: Mutex::new(Vec::new()) }
    }

    /// What they read by.
    #[must_use]
    pub fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// Calls with a reader, which is thrown away after a panic.
    ///
    /// # Errors
    /// There was a panic.
    pub fn with<T>(&self, call: impl FnOnce(&mut Reader, &Scheme) -> T) -> Result<T, Panic> {
        let mut idle = self.idle();
        let waiting = idle.as_mut().and_then(|idle| idle.pop());
        // What was made because the lock was not free is not kept: there would be more readers than threads.
        let is_kept = idle.is_some();
        drop(idle);
        let mut reader = waiting.map_or_else(|| caught(|| Reader::new(&self.scheme)), Ok)?;
        let made = caught(|| call(&mut reader, &self.scheme))?;
        if let Some(mut idle) = self.idle().filter(|_| is_kept) {
            idle.push(reader);
        }
        Ok(made)
    }

    /// The readers that no thread uses; none if the lock does not become free.
    fn idle(&self) -> Option<MutexGuard<'_, Vec<Reader>>> {
        (0..TRIES).find_map(|_| match self.idle.try_lock() {
            Ok(idle) => Some(idle),
            Err(TryLockError::Poisoned(idle)) => Some(idle.into_inner()),
            Err(TryLockError::WouldBlock) => {
                yield_now();
                None
            }
        })
    }

    /// Reads one text; it is rejected if that panics.
    #[must_use]
    pub fn read(&self, fields: Fields) -> Reading {
        let made = self.with(|reader, scheme| reader.read(scheme, fields));
        made.unwrap_or_else(|Panic(_)| self.scheme.rejected())
    }
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
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::decode::html;
    use crate::decode::paths::{Path, Step};
    use crate::entries::{Maker, Raw};
    use crate::reader::{OwnWords, Status};
    use crate::settings::{Compared, Features, Normalisation, Settings, Treatment, Weights};
    use crate::text::halves::Text;

    /// Each with the size of an article under which texts come to it: without one, all of them are short.
    const STAGES: [(&str, Option<usize>); 7] = [
        ("decoding", Some(20)),
        ("html", Some(20)),
        ("cleaning", Some(20)),
        ("counting", Some(20)),
        ("weighing", Some(20)),
        ("signing", Some(20)),
        ("counting characters", None),
    ];
    const TEXTS: [&str; 4] = [
        "The ferry to the island left the harbour at dawn, with nine passengers and the mail of two days on board.",
        "渡口的船今天早上开了,船上有九位旅客和两天的邮件,岛上的人都在码头等着他们回来。",
        "The keeper of the lighthouse counted nine ships that evening, and wrote their names into the old green book.",
        "船上有九位旅客 nine passengers",
    ];

    fn readers(article_size: Option<usize>) -> Readers {
        let treatment = |are_grams| Treatment {
            normalisation: Normalisation { entities: true, tags: true, simplify: true, ..Normalisation::default() },
            features: Features {
                are_grams,
                marked: true,
                weights: Weights::CountIdf(None),
                top_k: None,
                of_languages: true,
                root: false,
                gram_weights: [100; 5],
            },
        };
        let settings = Settings {
            long: treatment(false),
            short: treatment(true),
            article_size,
            exact_size: 4,
            exact: Compared::Letters,
            field_weights: vec![1],
            key_sentences: 0,
            sketch: vec![(2, 16)],
            sketched: Compared::Letters,
            form: true,
            seed: 7,
            margin_bits: 64,
        };
        Readers::new(Scheme::new(settings, &OwnWords::default()))
    }

    #[test]
    fn a_lock_that_nobody_gives_back_holds_up_no_text() {
        let readers = Arc::new(readers(Some(20)));
        let expected = readers.read(&[Text::Whole(TEXTS[0])]);
        let held = readers.idle.lock().expect("no panic");
        let (made, (tell, told)) = (Arc::clone(&readers), mpsc::channel());
        thread::spawn(move || {
            for _ in 0..3 {
                tell.send(made.read(&[Text::Whole(TEXTS[0])])).expect("the test waits");
            }
        });
        for _ in 0..3 {
            assert_eq!(told.recv_timeout(Duration::from_secs(20)).as_ref(), Ok(&expected));
        }
        assert_eq!(held.len(), 1);
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
            deletes: None,
        }
    }

    /// What records become, one after the other: id, why there is no article, scope hash, and what is read of it.
    fn entries(readers: &Readers, values: &[String]) -> Vec<(Vec<u8>, Option<Reason>, u64, Reading)> {
        let format = format();
        let maker = Maker { format: &format, readers, html: &[true] };
        let made = |value: &String| {
            let made = maker.entry(Raw { key: Some(b"key"), value: Some(value.as_bytes()), fallback: b"none" });
            (made.id.into_owned(), made.reason, made.scope_hash, made.reading)
        };
        values.iter().map(made).collect()
    }

    fn value(id: usize, text: &str) -> String {
        format!(r#"{{"id": "a{id}", "text": "{text}"}}"#)
    }

    /// Beside it in a batch nothing is another, however often the same readers panicked before.
    #[test]
    fn a_panic_rejects_its_record_alone() {
        let sound: Vec<_> = TEXTS.iter().enumerate().map(|(id, text)| value(id, text)).collect();
        let sizes = [Some(20), None];
        let expected = sizes.map(|size| entries(&readers(size), &sound));
        let used = sizes.map(readers);
        for (stage, size) in STAGES {
            let kind = usize::from(size.is_none());
            for at in 0..=sound.len() {
                let mut batch = sound.clone();
                batch.insert(at, value(9, &format!("{} {}", TEXTS[at % TEXTS.len()], planted::plant(stage))));
                let mut made = entries(&used[kind], &batch);
                let (id, reason, scope_hash, reading) = made.remove(at);
                let read = stage != "decoding";
                assert_eq!(id, if read { b"a9".as_slice() } else { b"key" }, "{stage}");
                assert_eq!((reason, scope_hash), (Some(Reason::Defect), 0), "{stage}");
                assert_eq!(reading, used[kind].scheme().rejected(), "{stage}");
                assert_eq!(reading.status, Status::Rejected);
                assert!(made == expected[kind], "{stage}, before {at}");
            }
        }
    }

    /// What a panic left in it would be read with the next text.
    #[test]
    fn a_reader_that_panicked_is_thrown_away() {
        let readers = readers(Some(20));
        let idle = || readers.idle.lock().expect("no panic while it is held").len();
        _ = readers.read(&[Text::Whole(TEXTS[0])]);
        assert_eq!(idle(), 1);
        let text = format!("{} {}", TEXTS[0], planted::plant("weighing"));
        assert_eq!(readers.read(&[Text::Whole(&text)]).status, Status::Rejected);
        assert_eq!(idle(), 0);
        assert_eq!(readers.with(|_, _| ()).map_err(|Panic(said)| said), Ok(()));
        assert_eq!(idle(), 1);
    }

    #[test]
    fn a_panic_says_what_it_said() {
        let said = |call: fn()| caught(call).map_err(|Panic(said)| said);
        assert_eq!(said(|| ()), Ok(()));
        assert_eq!(said(|| panic!("a fixed text")), Err(String::from("a fixed text")));
        assert_eq!(said(|| panic!("number {}", 7 + TEXTS.len())), Err(String::from("number 11")));
        assert_eq!(said(|| std::panic::panic_any(7)), Err(String::from("no message")));
        let page = format!("<p>{}</p>", planted::plant("html"));
        assert_eq!(
            caught(|| html::text_of(page.as_bytes(), true)).map_err(|Panic(said)| said),
            Err(planted::plant("html"))
        );
    }
}
