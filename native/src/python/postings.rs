//! The block tables of an index, and searches in them: what they hold passes as the bytes that are stored.
//!
//! The storage is an object of Python. It is called while the tables are locked, without the interpreter: another thread
//! that waits for them does not hold it.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::pairs::PyLimits;
use super::values::{Array, bytes_of, whole};
use super::{PanicError, broken, caught, work};
use crate::postings::chunk::{Blocks, Damage, Key, MOST_ENTRIES, Shape, Storage, words_of};
use crate::postings::near::{Article, Limits, WORDS};
use crate::postings::rows::{ROW_WORDS, Rows};
use crate::postings::run::Run;
use crate::postings::search::{Search, Terms};
use crate::postings::tables::{MOST_TABLES, Tables};
use crate::postings::unfolded::Unfolded;

/// Table, number, entries, and document number before which they are.
type RunFacts = (usize, Option<u32>, u64, u64);
/// Articles, document numbers and distances of near entries, and how many entries were compared.
type NearEntries = (Vec<u8>, Vec<u8>, Vec<u8>, usize);

#[pyclass(frozen, module = "_native")]
pub struct BlockTables {
    tables: Mutex<Tables>,
    storage: Py<PyAny>,
    row_words: usize,
}

#[pymethods]
impl BlockTables {
    #[new]
    #[pyo3(signature = (storage, *, tables, block_bits, row_words, chunk_rows, first, after, tail, memory_bytes,
        fold_entries, chunk_entries, next_run, run_families))]
    #[expect(clippy::too_many_arguments, reason = "by name")]
    fn new(
        storage: Py<PyAny>,
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
        let rows = (Rows::stored(row_words, chunk_rows, (first, after), tail), first);
        let numbers = (next_run, run_families);
        let tables = Tables::new(blocks, rows, memory_bytes, fold_entries, Shape::of(chunk_entries), numbers);
        Ok(Self { tables: Mutex::new(tables), storage, row_words })
    }

    fn open_run(&self, py: Python<'_>, run: u32, directory: &[u8]) -> PyResult<()> {
        Ok(self.locked(py, |tables| tables.open_run(run, directory))??)
    }

    fn append_missing(&self, py: Python<'_>) -> PyResult<()> {
        self.stored(py, |tables, storage| tables.append_missing(storage))
    }

    fn append(&self, py: Python<'_>, rows: &[u8]) -> PyResult<()> {
        let rows = whole(words_of(rows).collect(), self.row_words, "rows")?;
        self.stored(py, |tables, storage| tables.append(&rows, storage))
    }

    fn go_on(&self, py: Python<'_>, entries: usize) -> PyResult<()> {
        self.stored(py, |tables, storage| tables.go_on(entries, storage))
    }

    fn drop_before(&self, py: Python<'_>, number: u64) -> PyResult<()> {
        self.stored(py, |tables, storage| tables.drop_before(number, storage))
    }

    fn cold(&self, py: Python<'_>, most: usize) -> PyResult<Vec<Vec<u8>>> {
        Ok(self.locked(py, |tables| tables.cold(most))?.into_iter().map(key_bytes).collect())
    }

    fn supply(&self, py: Python<'_>, keys: Vec<Vec<u8>>, values: Vec<Bound<'_, PyBytes>>) -> PyResult<()> {
        let keys = keys.iter().map(|key| read_key(key)).collect::<PyResult<Vec<_>>>()?;
        let values: Vec<&[u8]> = values.iter().map(PyBytesMethods::as_bytes).collect();
        let supplied = |tables: &mut Tables| {
            keys.iter().zip(values).try_for_each(|(key, value)| tables.supply(*key, value))?;
            tables.cache.evict();
            Ok::<_, Damage>(())
        };
        Ok(self.locked(py, supplied)??)
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

    fn sum(&self, py: Python<'_>, table: usize) -> PyResult<(u64, u64)> {
        self.stored(py, |tables, storage| tables.sum(table, storage))
    }

    fn rows_of(&self, py: Python<'_>, numbers: Array<i64>) -> PyResult<Vec<u8>> {
        let held = self.locked(py, |tables| tables.numbers())?;
        let numbers: Vec<_> = numbers.all().into_iter().map(|number| number as u64).collect();
        if numbers.iter().any(|number| !held.contains(number)) {
            return Err(PyValueError::new_err(format!("document numbers {numbers:?}: there are rows of {held:?}")));
        }
        let words = self.stored(py, |tables, storage| tables.rows_of(&numbers, storage))?;
        caught(|| bytes_of(words.into_iter().map(u64::to_le_bytes)))
    }

    #[pyo3(signature = (limits, articles, plan, lookups, *, best, withdrawn, own_ids = None))]
    #[expect(clippy::too_many_arguments, reason = "by name")]
    fn near(
        &self,
        py: Python<'_>,
        limits: &PyLimits,
        articles: GivenArticles,
        plan: Array<u32>,
        lookups: usize,
        best: usize,
        withdrawn: Array<i64>,
        own_ids: Option<Array<u64>>,
    ) -> PyResult<NearEntries> {
        let (limits, count) = (Arc::clone(&limits.0), articles.statuses.len());
        if lookups == 0 || best == 0 || (plan.len() != lookups && plan.len() != lookups * count) {
            let message = format!("{} look-ups for {best} entries near {count} articles", plan.len());
            return Err(PyValueError::new_err(message));
        }
        let mut articles = articles.made(&limits)?;
        if let Some(ids) = own_ids {
            articles.iter_mut().zip(ids.each(count, "own_ids")?).for_each(|(article, id)| article.own_id = Some(id));
        }
        let withdrawn = withdrawn.chunks_exact(2).map(|one| (one[0] as u64, one[1] as u64)).collect();
        let mut search = Search::new(Terms { plan: plan.all(), lookups, limits, best, withdrawn });
        let ran = self.stored(py, |tables, storage| search.run(&articles, tables, storage));
        ran.or_else(|error| {
            if error.is_instance_of::<PanicError>(py) {
                error.value(py).setattr("article", search.article)?;
            }
            Err(error)
        })?;
        caught(|| {
            let articles = bytes_of(search.near.iter().map(|&(article, ..)| (article as i64).to_le_bytes()));
            let numbers = bytes_of(search.near.iter().map(|&(_, number, _)| i64::from(number).to_le_bytes()));
            let distances = bytes_of(search.near.iter().map(|&(.., distance)| (distance as u16).to_le_bytes()));
            (articles, numbers, distances, search.compared)
        })
    }
}

impl BlockTables {
    fn locked<T: Send>(&self, py: Python<'_>, call: impl FnOnce(&mut Tables) -> T + Send) -> PyResult<T> {
        work(py, || self.tables.lock().map(|mut tables| call(&mut tables)).ok())?.ok_or_else(broken)
    }

    /// Call with the storage; raises what that raised.
    fn stored<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Tables, &mut PyStorage<'_>) -> Result<T, Damage> + Send,
    ) -> PyResult<T> {
        let mut storage = PyStorage { storage: &self.storage, raised: None };
        let returned = self.locked(py, |tables| call(tables, &mut storage))?;
        match storage.raised {
            Some(error) => Err(error),
            None => Ok(returned?),
        }
    }
}

/// The storage of Python, and what it raised.
struct PyStorage<'a> {
    storage: &'a Py<PyAny>,
    raised: Option<PyErr>,
}

impl PyStorage<'_> {
    fn call<T>(&mut self, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Result<T, Damage> {
        Python::attach(|py| call(self.storage.bind(py))).map_err(|error| {
            self.raised = Some(error);
            Damage("the storage failed".to_owned())
        })
    }
}

impl Storage for PyStorage<'_> {
    fn read(&mut self, keys: &[Key]) -> Result<Vec<Vec<u8>>, Damage> {
        let keys: Vec<_> = keys.iter().copied().map(key_bytes).collect();
        self.call(|storage| {
            let values: Vec<Bound<'_, PyBytes>> = storage.call_method1("read", (keys,))?.extract()?;
            Ok(values.iter().map(|value| value.as_bytes().to_vec()).collect())
        })
    }

    fn write(&mut self, chunks: &[(Key, Vec<u8>)]) -> Result<(), Damage> {
        self.call(|storage| {
            let stored = |(key, value): &(Key, Vec<u8>)| (key_bytes(*key), PyBytes::new(storage.py(), value));
            storage.call_method1("write", (chunks.iter().map(stored).collect::<Vec<_>>(),)).map(|_| ())
        })
    }

    fn name(&mut self, named: Option<(u32, Vec<u8>)>, removed: &[u32], runs: &[u32]) -> Result<(), Damage> {
        self.call(|storage| storage.call_method1("name", (named, removed, runs)).map(|_| ()))
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
