//! The block tables of an index, and searches in them: what they hold passes as the bytes that are stored.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::pairs::PyLimits;
use super::values::{Array, bytes_of, whole};
use super::{broken, caught, work};
use crate::postings::chunk::{Blocks, Entry, Key, MOST_ENTRIES, Shape, from_bytes, words_of};
use crate::postings::near::{Article, Limits, WORDS};
use crate::postings::rows::{ROW_WORDS, Rows};
use crate::postings::run::Run;
use crate::postings::search::{Search, Terms};
use crate::postings::tables::{MOST_TABLES, Tables};
use crate::postings::unfolded::Unfolded;

/// Keys and document numbers of entries.
type Entries = (Vec<u8>, Vec<u8>);

#[pyfunction]
pub fn decode_chunk(value: &[u8], table: u8, block_bits: u8) -> PyResult<Entries> {
    entries_of(&caught(|| from_bytes(value, Blocks { table, bits: block_bits }))??)
}

/// Table, number, entries, and document number before which they are.
type RunFacts = (usize, Option<u32>, u64, u64);

#[pyclass(frozen, module = "_native")]
pub struct BlockTables {
    tables: Mutex<Tables>,
    row_words: usize,
}

#[pyclass(frozen, get_all, module = "_native")]
pub struct Work {
    missing: Vec<Vec<u8>>,
    chunks: Vec<(Vec<u8>, Py<PyBytes>)>,
    named: Vec<(u32, Vec<u8>)>,
    removed: Vec<u32>,
}

#[pymethods]
impl BlockTables {
    #[new]
    #[pyo3(signature = (*, tables, block_bits, row_words, chunk_rows, first, after, tail, memory_bytes, fold_entries,
        chunk_entries, next_run, run_families))]
    #[expect(clippy::too_many_arguments, reason = "by name")]
    fn new(
        tables: u8,
        block_bits: u8,
        row_words: usize,
        chunk_rows: usize,
        first: u64,
        after: u64,
        tail: &[u8],
        memory_bytes: usize,
        fold_entries: u64,
        chunk_entries: usize,
        next_run: u32,
        run_families: u32,
    ) -> PyResult<Self> {
        if !(1..=MOST_TABLES).contains(&tables.into()) || ![16, 20, 24].contains(&block_bits) || row_words < ROW_WORDS {
            let message = format!("{tables} tables of blocks of {block_bits} bits, rows of {row_words} words");
            return Err(PyValueError::new_err(message));
        }
        let tail = whole(words_of(tail).collect(), row_words, "rows")?;
        if chunk_rows == 0 || !(1..=MOST_ENTRIES).contains(&chunk_entries) {
            let message = format!("chunks of {chunk_rows} rows and {chunk_entries} entries");
            return Err(PyValueError::new_err(message));
        }
        if tail.len() / row_words != after as usize % chunk_rows || first > after {
            let rows = tail.len() / row_words;
            return Err(PyValueError::new_err(format!("{rows} rows of the last chunk of {first} to {after}")));
        }
        let blocks = (0..tables).map(|table| Blocks { table, bits: block_bits }).collect();
        let rows = Rows::stored(row_words, chunk_rows, (first, after), tail);
        let numbers = (next_run, run_families);
        let mut tables = Tables::new(blocks, rows, memory_bytes, fold_entries, Shape::of(chunk_entries), numbers);
        tables.drop_before(first);
        Ok(Self { tables: Mutex::new(tables), row_words })
    }

    fn open_run(&self, py: Python<'_>, run: u32, directory: &[u8]) -> PyResult<()> {
        Ok(self.locked(py, |tables| tables.open_run(run, directory))??)
    }

    fn end(&self, py: Python<'_>) -> PyResult<u64> {
        self.locked(py, |tables| (0..tables.runs.len()).map(|table| tables.end_of(table)).min().unwrap_or(0))
    }

    fn append_missing(&self, py: Python<'_>, first: u64, rows: &[u8]) -> PyResult<()> {
        let rows = whole(words_of(rows).collect(), self.row_words, "rows")?;
        self.locked(py, |tables| tables.append_missing(first, &rows, self.row_words))
    }

    fn append(&self, py: Python<'_>, rows: &[u8]) -> PyResult<()> {
        let rows = whole(words_of(rows).collect(), self.row_words, "rows")?;
        self.locked(py, |tables| tables.append(&rows, self.row_words))
    }

    fn go_on(&self, py: Python<'_>, entries: usize) -> PyResult<()> {
        self.locked(py, |tables| tables.go_on(entries))
    }

    fn take_work(&self, py: Python<'_>) -> PyResult<Work> {
        let work = self.locked(py, Tables::take_work)?;
        let stored = |(key, value): (Key, Vec<u8>)| (key_bytes(key), PyBytes::new(py, &value).unbind());
        Ok(Work {
            missing: work.missing.into_iter().map(key_bytes).collect(),
            chunks: work.chunks.into_iter().map(stored).collect(),
            named: work.named,
            removed: work.removed,
        })
    }

    fn supply(&self, py: Python<'_>, keys: Vec<Vec<u8>>, values: Vec<Bound<'_, PyBytes>>) -> PyResult<()> {
        let keys = keys.iter().map(|key| read_key(key)).collect::<PyResult<Vec<_>>>()?;
        let values: Vec<&[u8]> = values.iter().map(PyBytesMethods::as_bytes).collect();
        let supplied =
            |tables: &mut Tables| keys.iter().zip(values).try_for_each(|(key, value)| tables.supply(*key, value));
        Ok(self.locked(py, supplied)??)
    }

    fn drop_before(&self, py: Python<'_>, number: u64) -> PyResult<()> {
        self.locked(py, |tables| tables.drop_before(number))
    }

    fn cold(&self, py: Python<'_>, most: usize) -> PyResult<Vec<Vec<u8>>> {
        Ok(self.locked(py, |tables| tables.cold(most))?.into_iter().map(key_bytes).collect())
    }

    #[getter]
    fn runs(&self, py: Python<'_>) -> PyResult<Vec<RunFacts>> {
        self.locked(py, |tables| {
            let of_table = |(table, (runs, unfolded)): (usize, (&Vec<Run>, &Unfolded))| {
                let runs = runs.iter().map(move |run| (table, Some(run.id), run.entries, run.before));
                let left = (!unfolded.is_empty()).then(|| (table, None, unfolded.len() as u64, tables.numbers().end));
                runs.chain(left).collect::<Vec<_>>()
            };
            tables.runs.iter().zip(&tables.unfolded).enumerate().flat_map(of_table).collect()
        })
    }

    #[getter]
    fn memory(&self, py: Python<'_>) -> PyResult<usize> {
        self.locked(py, |tables| tables.memory())
    }

    fn unfolded(&self, py: Python<'_>, table: usize) -> PyResult<Entries> {
        let entries = self.locked(py, |tables| tables.unfolded.get(table).map(|one| one.all().collect::<Vec<_>>()))?;
        entries_of(&entries.unwrap_or_default())
    }

    fn rows_of(&self, py: Python<'_>, numbers: Array<i64>) -> PyResult<(Vec<Vec<u8>>, Vec<u8>)> {
        let found = self.locked(py, |tables| {
            let held = tables.numbers();
            if numbers.iter().any(|number| !held.contains(&(*number as u64))) {
                return Err(held);
            }
            let missing = tables.missing_rows(numbers.iter().map(|number| *number as u64));
            let words = numbers.iter().filter(|_| missing.is_empty());
            let words = words.flat_map(|number| tables.row(*number as u64).words());
            let found = bytes_of(words.map(|word| word.to_le_bytes()));
            Ok((missing, found))
        })?;
        let (missing, rows) = found.map_err(|held| {
            PyValueError::new_err(format!("document numbers {:?}: there are rows of {held:?}", &*numbers))
        })?;
        Ok((missing.into_iter().map(key_bytes).collect(), rows))
    }

    fn evict(&self, py: Python<'_>) -> PyResult<()> {
        self.locked(py, |tables| tables.cache.evict())
    }
}

impl BlockTables {
    fn locked<T: Send>(&self, py: Python<'_>, call: impl FnOnce(&mut Tables) -> T + Send) -> PyResult<T> {
        work(py, || self.tables.lock().map(|mut tables| call(&mut tables)).ok())?.ok_or_else(broken)
    }
}

#[pyclass(frozen, module = "_native", name = "Search")]
pub struct PySearch(Mutex<Search>);

#[pymethods]
impl PySearch {
    #[new]
    #[pyo3(signature = (limits, articles, plan, lookups, *, best, withdrawn, own_ids = None))]
    fn new(
        limits: &PyLimits,
        articles: GivenArticles,
        plan: Array<u32>,
        lookups: usize,
        best: usize,
        withdrawn: Array<i64>,
        own_ids: Option<Array<u64>>,
    ) -> PyResult<Self> {
        let (limits, count) = (Arc::clone(&limits.0), articles.statuses.len());
        if lookups == 0 || best == 0 || (plan.len() != lookups && plan.len() != lookups * count) {
            return Err(PyValueError::new_err(format!(
                "{} look-ups for {best} entries near {count} articles",
                plan.len()
            )));
        }
        let mut articles = articles.made(&limits)?;
        if let Some(ids) = own_ids {
            articles.iter_mut().zip(ids.each(count, "own_ids")?).for_each(|(article, id)| article.own_id = Some(id));
        }
        let withdrawn = withdrawn.chunks_exact(2).map(|one| (one[0] as u64, one[1] as u64)).collect();
        let terms = Terms { plan: plan.all(), lookups, limits, best, withdrawn };
        Ok(Self(Mutex::new(Search::new(articles, terms))))
    }

    fn run(&self, py: Python<'_>, tables: &BlockTables) -> PyResult<Vec<Vec<u8>>> {
        let missing = tables.locked(py, |tables| self.0.lock().map(|mut search| search.run(tables)).ok());
        let missing = missing.map_err(|error| self.named(py, error))?.ok_or_else(broken)?;
        Ok(missing.into_iter().map(key_bytes).collect())
    }

    /// Articles, document numbers and distances.
    fn near(&self) -> PyResult<(Vec<u8>, Vec<u8>, Vec<u8>)> {
        let search = self.0.lock().map_err(|_| broken())?;
        caught(|| {
            let articles = bytes_of(search.near().map(|(article, ..)| (article as i64).to_le_bytes()));
            let numbers = bytes_of(search.near().map(|(_, number, _)| i64::from(number).to_le_bytes()));
            let distances = bytes_of(search.near().map(|(.., distance)| (distance as u16).to_le_bytes()));
            (articles, numbers, distances)
        })
    }

    #[getter]
    fn counts(&self) -> PyResult<(usize, usize)> {
        let search = self.0.lock().map_err(|_| broken())?;
        Ok((search.lists(), search.compared))
    }
}

impl PySearch {
    /// The error that ended a run; it names the article at which the search panicked, if it did.
    fn named(&self, py: Python<'_>, error: PyErr) -> PyErr {
        let article = self.0.lock().err().and_then(|poison| PoisonError::into_inner(poison).article());
        let named = article.map_or(Ok(()), |article| error.value(py).setattr("article", article));
        named.err().unwrap_or(error)
    }
}

/// Columns of `core.query.Articles`.
#[derive(FromPyObject)]
struct GivenArticles {
    statuses: Array<u8>,
    scope_hashes: Array<u64>,
    signatures: Array<u8>,
    margins: Array<u8>,
    sketches: Array<u8>,
    before: Array<i64>,
    times: Array<i64>,
}

impl GivenArticles {
    fn made(self, limits: &Limits) -> PyResult<Vec<Article>> {
        let (count, of, statuses) = (self.statuses.len(), limits.scheme, self.statuses);
        let rows = |column: Array<u8>, each, name| Ok::<_, PyErr>((column.sized(count, each, name)?, each));
        let scope_hashes = self.scope_hashes.each(count, "scope_hashes")?;
        let columns = [
            rows(self.signatures, 8 * WORDS, "signatures")?,
            rows(self.margins, of.margin_bytes(), "margins")?,
            rows(self.sketches, of.sketch_bytes, "sketches")?,
        ];
        let (before, times) = (self.before.each(count, "before")?, self.times.each(count, "times")?);
        let article = |at: usize| {
            let row = columns.each_ref().map(|(column, each)| &column[at * each..][..*each]);
            Article::new(limits, (statuses[at], scope_hashes[at]), row, (before[at] as u64, times[at]))
        };
        caught(|| (0..count).map(article).collect())
    }
}

fn key_bytes(key: Key) -> Vec<u8> {
    match key {
        Key::List(run, chunk) => [b"C".as_slice(), &run.to_be_bytes(), &chunk.to_be_bytes()].concat(),
        Key::Rows(chunk) => [b"W".as_slice(), &chunk.to_be_bytes()].concat(),
    }
}

fn read_key(key: &[u8]) -> PyResult<Key> {
    let number = |at: usize| key.get(at..at + 4).map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]));
    match (key.first(), number(1), number(5), key.len()) {
        (Some(b'C'), Some(run), Some(chunk), 9) => Ok(Key::List(run, chunk)),
        (Some(b'W'), Some(chunk), None, 5) => Ok(Key::Rows(chunk)),
        _ => Err(PyValueError::new_err(format!("{key:?} is no key of a chunk"))),
    }
}

fn entries_of(entries: &[Entry]) -> PyResult<Entries> {
    caught(|| {
        let keys = bytes_of(entries.iter().map(|entry| entry.key.to_le_bytes()));
        (keys, bytes_of(entries.iter().map(|entry| entry.number.to_le_bytes())))
    })
}
