//! The block tables of an index, and searches in them: what they hold passes as the bytes that are stored.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::values::{Array, bytes_of, whole};
use super::{broken, caught, work};
use crate::postings::chunk::{Blocks, Chunk, Entry, Key, MOST_ENTRIES, Shape, from_bytes, words_of};
use crate::postings::near::{Article, Demand, Limits, SKETCH_WORDS, Sieve, WORDS};
use crate::postings::rows::{ROW_WORDS, Rows};
use crate::postings::search::{Search, Terms};
use crate::postings::tables::{MOST_TABLES, Tables};

/// Keys and document numbers of entries.
type Entries = (Vec<u8>, Vec<u8>);

#[pyfunction]
pub fn decode_chunk(value: &[u8], table: u8, block_bits: u8) -> PyResult<Entries> {
    entries_of(&caught(|| from_bytes(value, Blocks { table, bits: block_bits }))??)
}

/// Table, number, entries, document number before which they are, and whether it is stored.
type RunFacts = (u8, u64, u64, u64, bool);

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
            let runs = tables.runs.iter().flatten();
            runs.map(|run| (run.blocks.table, run.id, run.entries, run.before, run.is_stored)).collect()
        })
    }

    #[getter]
    fn memory(&self, py: Python<'_>) -> PyResult<usize> {
        self.locked(py, |tables| tables.cache.memory())
    }

    fn entries(&self, run: u64) -> PyResult<Entries> {
        let tables = self.tables.lock().map_err(|_| broken())?;
        let run = tables.runs.iter().flatten().find(|one| one.id == run);
        let chunks =
            run.into_iter().flat_map(|run| (0..run.places.len()).filter_map(|at| run.chunk(at, &tables.cache)));
        entries_of(&chunks.flat_map(Chunk::entries).collect::<Vec<_>>())
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
    #[pyo3(signature = (*, keys, words, scope_hashes, before, reach, plan, lookups, directed, sieve, bucket_limit, best,
        candidates = None, sure = None, sketches = None, least_equal = None, form_words = 0, form_limit = 0,
        certain = -1, far = 0, far_equal = 0, dominated = None, oldest = None, own_ids = None, withdrawn = None))]
    #[expect(clippy::too_many_arguments, reason = "by name")]
    fn new(
        keys: Array<u64>,
        words: Array<u64>,
        scope_hashes: Array<u64>,
        before: Array<i64>,
        reach: Array<i64>,
        plan: Array<u32>,
        lookups: usize,
        directed: bool,
        sieve: Option<u64>,
        bucket_limit: usize,
        best: usize,
        candidates: Option<usize>,
        sure: Option<Array<u64>>,
        sketches: Option<Array<u64>>,
        least_equal: Option<Array<i64>>,
        form_words: usize,
        form_limit: i32,
        certain: i32,
        far: i32,
        far_equal: i32,
        dominated: Option<Array<u8>>,
        oldest: Option<Array<i64>>,
        own_ids: Option<Array<u64>>,
        withdrawn: Option<Array<i64>>,
    ) -> PyResult<Self> {
        let count = scope_hashes.len();
        if lookups == 0 || (plan.len() != lookups && plan.len() != lookups * count) {
            return Err(PyValueError::new_err(format!("{} look-ups for {count} articles", plan.len())));
        }
        let each = |given: Option<Array<i64>>, missing, name: &str| match given {
            Some(given) => given.each(count, name),
            None => Ok(vec![missing; count]),
        };
        let compares = sketches.is_some();
        let has_form = compares && form_words > 0;
        let sure = Shares::of(sure, count, 2 * WORDS, "sure")?;
        let sketches = Shares::of(sketches, count, SKETCH_WORDS, "sketches")?;
        if (compares && count > 0 && sketches.each <= form_words) || sure.each % 2 != 0 || best == 0 {
            let message = format!("{} words of a sketch, {} of masks, {best} entries", sketches.each, sure.each);
            return Err(PyValueError::new_err(message));
        }
        let limits = Limits {
            directed,
            value_words: sketches.each - usize::from(has_form && count > 0),
            compares: directed && compares,
            has_form,
            certain,
            far,
            form_limit,
        };
        let columns = Columns {
            keys: keys.fixed(count, "keys")?,
            words: words.fixed(count, "words")?,
            scope_hashes,
            before: before.each(count, "before")?,
            reach: reach.each(count, "reach")?,
            sieve,
            sure,
            sketches,
            least_equal: each(least_equal, 0, "least_equal")?,
            far_equal,
            dominated: dominated.map(|one| one.each(count, "dominated")).transpose()?,
            oldest: each(oldest, i64::MIN, "oldest")?,
            own_ids: own_ids.map(|ids| ids.each(count, "own_ids")).transpose()?,
        };
        let articles = caught(|| (0..count).map(|at| columns.article(at)).collect())?;
        let withdrawn = withdrawn.as_deref().unwrap_or_default().chunks_exact(2);
        let withdrawn = withdrawn.map(|one| (one[0] as u64, one[1] as u64)).collect();
        let terms = Terms { plan: plan.all(), lookups, limits, bucket_limit, candidates, best, withdrawn };
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
        Ok((search.lists(), search.compared()))
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

/// What a search is given of its articles.
struct Columns {
    keys: Vec<[u64; WORDS]>,
    words: Vec<[u64; WORDS]>,
    scope_hashes: Array<u64>,
    before: Vec<i64>,
    reach: Vec<i64>,
    sieve: Option<u64>,
    sure: Shares,
    sketches: Shares,
    least_equal: Vec<i64>,
    far_equal: i32,
    dominated: Option<Vec<u8>>,
    oldest: Vec<i64>,
    own_ids: Option<Vec<u64>>,
}

impl Columns {
    fn article(&self, at: usize) -> Article {
        let (sketch, sure) = (self.sketches.at(at), self.sure.at(at));
        let demand = Demand {
            reach: self.reach[at] as i32,
            least_equal: self.least_equal[at] as i32,
            far_equal: self.far_equal,
            dominated: self.dominated.as_ref().map_or(0, |each| each[at]),
        };
        Article {
            keys: self.keys[at],
            words: self.words[at],
            sketch: std::array::from_fn(|word| sketch.get(word).copied().unwrap_or(0)),
            sieves: std::array::from_fn(|word| Sieve {
                sure: match sure.chunks_exact(2).nth(word) {
                    Some(masks) => [masks[0], masks[1]],
                    None => [u64::MAX, 0],
                },
                most: self.sieve.unwrap_or(u64::try_from(self.reach[at]).unwrap_or(0)),
            }),
            demand,
            scope_hash: self.scope_hashes[at],
            oldest: self.oldest[at],
            own_id: self.own_ids.as_ref().map(|ids| ids[at]),
            before: self.before[at] as u64,
        }
    }
}

/// Words of which each article has as many; maybe none.
struct Shares {
    words: Vec<u64>,
    each: usize,
}

impl Shares {
    fn of(given: Option<Array<u64>>, count: usize, most: usize, name: &str) -> PyResult<Self> {
        let words = given.map_or_else(Vec::new, Array::all);
        let each = words.len() / count.max(1);
        if each * count != words.len() || each > most {
            return Err(PyValueError::new_err(format!("{} words of {name} for {count}", words.len())));
        }
        Ok(Self { words, each })
    }

    fn at(&self, article: usize) -> &[u64] {
        &self.words[article * self.each..][..self.each]
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
