//! The module that Python imports: bytes in, bytes out, the interpreter released while there is work.
//!
//! Numbers travel as little-endian arrays. A panic is a defect: it becomes an exception, and the tables or the search
//! that it left behind refuse every further call. A panic on the way from a record or a text to its entry is no
//! exception: that record or text is rejected.

#![allow(clippy::needless_pass_by_value, clippy::elidable_lifetime_names, reason = "as PyO3 passes arguments")]

use pyo3::prelude::*;

#[pymodule]
mod _native {
    use std::borrow::Cow;
    use std::collections::HashMap;
    use std::sync::{Mutex, PoisonError};

    use pyo3::IntoPyObjectExt;
    use pyo3::buffer::{Element, PyBuffer};
    use pyo3::exceptions::{PyRuntimeError, PyValueError};
    use pyo3::prelude::*;
    use pyo3::pybacked::PyBackedBytes;
    use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
    use xxhash_rust::xxh3::xxh3_64;

    use crate::decode::html;
    use crate::decode::json::{self, Container, NotJson, Number, Token};
    use crate::decode::readable::Markup;
    use crate::decode::{self, Kind, MOST_ID_BYTES, MOST_LEVELS, Reason};
    use crate::entries::{Entry, Maker, Raw};
    use crate::entry::{Batch, Format};
    use crate::features::Feature;
    use crate::features::weights::COMMON_WORDS;
    use crate::panics::{self, Panic, Readers};
    use crate::postings::chunk::{Blocks, Chunk, Damage, Key, MOST_ENTRIES, words_of};
    use crate::postings::near::{self, ACCOUNT_BYTES, Article, Demand, Limits, Pair, SKETCH_WORDS, Sieve, WORDS};
    use crate::postings::plan::{self, BLOCKS_PER_WORD, MARGINS, Planner, Shape};
    use crate::postings::rows::{ROW_WORDS, Rows};
    use crate::postings::search::{Search, Terms};
    use crate::postings::stock::Stock;
    use crate::postings::tables::{KEY_FACTORS, MOST_TABLES, Tables};
    use crate::reader::{Explained, Fields, OwnWords, Reader, Reading, Scheme, Status};
    use crate::segment::dictionary::jieba;
    use crate::settings::{Compared, Features, Normalisation, Settings, Treat, Treatment, Weights};
    use crate::text::clean;
    use crate::text::edit::Room;
    use crate::text::halves::Text;
    use crate::text::numbers;
    use crate::text::simplify::HASHES as OPENCC_HASHES;

    pyo3::create_exception!(_native, DamageError, PyValueError, "Stored bytes are not what their key says.");
    pyo3::create_exception!(_native, PanicError, PyRuntimeError, "A panic, which is a defect of the native core.");

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("DamageError", module.py().get_type::<DamageError>())?;
        let panic = module.py().get_type::<PanicError>();
        panic.setattr("article", module.py().None())?;
        module.add("PanicError", panic)?;
        module.add("MAX_ID_BYTES", MOST_ID_BYTES)?;
        module.add("KEY_FACTORS", KEY_FACTORS)?;
        module.add("OPENCC_HASHES", OPENCC_HASHES)?;
        let common_words = ("common_words.txt", xxh3_64(COMMON_WORDS.as_bytes()));
        let hashes = jieba::HASHES.into_iter().chain([common_words]);
        let hashes: HashMap<&str, String> = hashes.map(|(name, hash)| (name, format!("{hash:016x}"))).collect();
        module.add("DATA_HASHES", hashes)
    }

    impl From<Damage> for PyErr {
        fn from(Damage(what): Damage) -> Self {
            DamageError::new_err(what)
        }
    }

    impl From<Panic> for PyErr {
        fn from(Panic(said): Panic) -> Self {
            PanicError::new_err(format!("a defect in the native core: {said}"))
        }
    }

    #[pyfunction]
    #[pyo3(signature = (margins, lookups, *, tables, block_bits, mask_bits, costs))]
    fn plans<'py>(
        py: Python<'py>,
        margins: PyBuffer<u8>,
        lookups: usize,
        tables: usize,
        block_bits: usize,
        mask_bits: usize,
        costs: [u32; MARGINS],
    ) -> PyResult<Bound<'py, PyBytes>> {
        let shape = Shape { tables, block_bits, mask_bits, costs };
        if !(1..=16).contains(&tables) || !(16..=24).contains(&block_bits) || mask_bits > 4 || costs[MARGINS - 1] > 4096
        {
            return Err(PyValueError::new_err(format!("no plan has the shape {shape:?}")));
        }
        if !(1..=shape.lookups()).contains(&lookups) {
            let message = format!("{lookups} look-ups: directed search takes 1 to {}", shape.lookups());
            return Err(PyValueError::new_err(message));
        }
        let margins = whole(array(py, &margins)?, shape.margin_bytes(), "margins")?;
        let made = work(py, || {
            let mut planner = Planner::new(shape);
            let mut made = vec![0; margins.len() / shape.margin_bytes() * lookups];
            for (margins, plan) in margins.chunks_exact(shape.margin_bytes()).zip(made.chunks_exact_mut(lookups)) {
                planner.plan(margins, plan);
            }
            bytes_of(made.into_iter().map(u32::to_le_bytes))
        })?;
        Ok(PyBytes::new(py, &made))
    }

    #[pyfunction]
    fn surest<'py>(py: Python<'py>, margins: PyBuffer<u8>, counts: Vec<usize>) -> PyResult<Bound<'py, PyBytes>> {
        let margins = whole(array(py, &margins)?, plan::WORD_BITS / 2, "margins")?;
        let made = work(py, || {
            let of_word = |word| counts.iter().flat_map(move |&count| plan::surest(word, count));
            let masks = margins.chunks_exact(plan::WORD_BITS / 2).flat_map(of_word);
            bytes_of(masks.map(u64::to_le_bytes))
        })?;
        Ok(PyBytes::new(py, &made))
    }

    /// What the check finds in pairs; see the stub.
    #[pyfunction]
    #[pyo3(signature = (words, others, *, directed, reach, sketches, other_sketches, sketch_words, least_equal,
        far_equal, form_words, form_limit, certain, far))]
    #[expect(clippy::too_many_arguments, reason = "by name")]
    fn accounts<'py>(
        py: Python<'py>,
        words: PyBuffer<u64>,
        others: PyBuffer<u64>,
        directed: bool,
        reach: PyBuffer<i64>,
        sketches: PyBuffer<u64>,
        other_sketches: PyBuffer<u64>,
        sketch_words: usize,
        least_equal: PyBuffer<i64>,
        far_equal: PyBuffer<i64>,
        form_words: usize,
        form_limit: i32,
        certain: i32,
        far: i32,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (words, others) = (array(py, &words)?, array(py, &others)?);
        let (articles, pairs) = (words.len() / WORDS, others.len() / WORDS);
        let words = fixed::<_, WORDS>(words, paired(articles, pairs)?, "words")?;
        let others = fixed::<_, WORDS>(others, pairs, "others")?;
        let each = |given: &PyBuffer<i64>, name: &str| fixed::<_, 1>(array(py, given)?, articles, name);
        let demands = each(&reach, "reach")?.into_iter().zip(each(&least_equal, "least_equal")?);
        let demands = demands.zip(each(&far_equal, "far_equal")?).map(|(([reach], [least]), [far])| Demand {
            reach: reach as i32,
            least_equal: least as i32,
            far_equal: far as i32,
        });
        let demands: Vec<_> = demands.collect();
        let (sketches, other_sketches) = (array(py, &sketches)?, array(py, &other_sketches)?);
        if (sketches.len(), other_sketches.len()) != (articles * sketch_words, pairs * sketch_words)
            || sketch_words > SKETCH_WORDS
            || form_words > sketch_words.min(1)
        {
            let (mine, theirs) = (sketches.len(), other_sketches.len());
            let message = format!("{mine} and {theirs} words of sketches, {sketch_words} each, {form_words} of a form");
            return Err(PyValueError::new_err(message));
        }
        let limits = Limits {
            directed,
            compares: directed && sketch_words > 0,
            value_words: sketch_words - form_words,
            has_form: form_words > 0,
            certain,
            far,
            form_limit,
        };
        let made = work(py, || {
            let pair = |at: usize| {
                let article = if articles == 1 { 0 } else { at };
                Pair {
                    article: (&words[article], &sketches[article * sketch_words..][..sketch_words]),
                    entry: (&others[at], &other_sketches[at * sketch_words..][..sketch_words]),
                    demand: demands[article],
                    limits: &limits,
                }
            };
            let mut made = vec![0; pairs * ACCOUNT_BYTES];
            for (at, bytes) in made.chunks_exact_mut(ACCOUNT_BYTES).enumerate() {
                bytes.copy_from_slice(&pair(at).account());
            }
            made
        })?;
        Ok(PyBytes::new(py, &made))
    }

    /// The distances of each article from every entry; see the stub.
    #[pyfunction]
    #[pyo3(signature = (words, others, *, directed))]
    fn distances<'py>(
        py: Python<'py>,
        words: PyBuffer<u64>,
        others: PyBuffer<u64>,
        directed: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let words = whole(array(py, &words)?, WORDS, "words")?;
        let others = whole(array(py, &others)?, WORDS, "others")?;
        let made = work(py, || {
            let mut made = vec![[0; 2]; words.len() / WORDS * (others.len() / WORDS)];
            near::write_distances(directed, &words, &others, &mut made);
            made.into_flattened()
        })?;
        Ok(PyBytes::new(py, &made))
    }

    /// Counts and answers of the sieve, and places in the plan, of pairs; see the stub.
    type Meetings<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

    #[pyfunction]
    #[pyo3(signature = (keys, others, *, key_words, sure, most, plan, lookups, block_bits))]
    #[expect(clippy::too_many_arguments, reason = "by name")]
    fn meetings<'py>(
        py: Python<'py>,
        keys: PyBuffer<u64>,
        others: PyBuffer<u64>,
        key_words: usize,
        sure: PyBuffer<u64>,
        most: PyBuffer<i64>,
        plan: PyBuffer<u32>,
        lookups: usize,
        block_bits: u8,
    ) -> PyResult<Meetings<'py>> {
        if !(1..=WORDS).contains(&key_words) || !(16..=24).contains(&block_bits) {
            return Err(PyValueError::new_err(format!("{key_words} key words, blocks of {block_bits} bits")));
        }
        let keys = whole(array(py, &keys)?, key_words, "keys")?;
        let others = whole(array(py, &others)?, key_words, "others")?;
        let (articles, pairs) = (keys.len() / key_words, others.len() / key_words);
        paired(articles, pairs)?;
        let most = fixed::<_, 1>(array(py, &most)?, articles, "most")?;
        let (sure, plan) = (array(py, &sure)?, array(py, &plan)?);
        if sure.len() != 2 * keys.len() || (plan.len() != lookups && plan.len() != lookups * articles) {
            let (masks, plan) = (sure.len(), plan.len());
            let message = format!("{masks} masks and {plan} look-ups, {lookups} each, for {articles} articles");
            return Err(PyValueError::new_err(message));
        }
        let (counts, passed, places) = work(py, || {
            let (mut counts, mut passed, mut places) = (Vec::new(), Vec::new(), Vec::new());
            let places_of = |plan: &[u32]| plan.iter().copied().zip(0..).collect::<HashMap<_, i32>>();
            let mut planned = places_of(plan.get(..lookups).unwrap_or_default());
            for (at, entry) in others.chunks_exact(key_words).enumerate() {
                let article = if articles == 1 { 0 } else { at };
                if article > 0 && plan.len() > lookups {
                    planned = places_of(&plan[article * lookups..][..lookups]);
                }
                let sieves: [Sieve; WORDS] = std::array::from_fn(|word| {
                    let masks = &sure[2 * (article * key_words + word.min(key_words - 1))..];
                    Sieve { sure: [masks[0], masks[1]], most: most[article][0] as u32 }
                });
                let article = &keys[article * key_words..][..key_words];
                for (sieve, (one, other)) in sieves.iter().zip(article.iter().zip(entry)) {
                    let count = sieve.count(*one, *other);
                    counts.push(count as u8);
                    passed.push(u8::from(sieve.passes(count)));
                }
                let tables = if lookups == 0 { 0 } else { key_words * BLOCKS_PER_WORD };
                places.extend((0..tables as u8).map(|table| {
                    let blocks = Blocks { table, bits: block_bits };
                    let mask = blocks.of(article[blocks.word()]) ^ blocks.of(entry[blocks.word()]);
                    planned.get(&(u32::from(table) << block_bits | mask)).copied().unwrap_or(i32::MAX)
                }));
            }
            (counts, passed, bytes_of(places.into_iter().map(i32::to_le_bytes)))
        })?;
        Ok((PyBytes::new(py, &counts), PyBytes::new(py, &passed), PyBytes::new(py, &places)))
    }

    /// What a plain batch says of itself, and how many bytes of texts it has; see the stub.
    type BatchFacts = (usize, bool, i64, i32, usize, usize, bool, usize, usize);

    #[pyclass(frozen, get_all)]
    struct JoinedBatches {
        batches: Vec<BatchFacts>,
        widths: Vec<usize>,
        begins: Vec<usize>,
        columns: Py<PyBytes>,
        ids: Py<PyBytes>,
        reasons: Py<PyBytes>,
    }

    #[pyfunction]
    #[pyo3(signature = (values, *, version, kinds, widths, special, last_status, most_entries))]
    #[expect(clippy::too_many_arguments, reason = "by name")]
    fn join_batches(
        py: Python<'_>,
        values: Vec<Bound<'_, PyBytes>>,
        version: u8,
        kinds: [u8; 2],
        widths: Vec<Vec<usize>>,
        special: [usize; 4],
        last_status: u8,
        most_entries: usize,
    ) -> PyResult<JoinedBatches> {
        if special.iter().any(|&kind| kind >= widths.len()) {
            return Err(PyValueError::new_err(format!("columns of kinds {special:?} among {}", widths.len())));
        }
        let format = Format { version, kinds, widths, special, last_status, most_entries };
        let values: Vec<&[u8]> = values.iter().map(PyBytesMethods::as_bytes).collect();
        let joined = work(py, || format.join(&values))?;
        let facts = |batch: &Batch| {
            let [ids, reasons] = batch.text_bytes;
            (
                batch.value,
                batch.is_seeded,
                batch.read_to,
                batch.partition,
                batch.entries,
                batch.name_bytes,
                batch.is_ascii,
                ids,
                reasons,
            )
        };
        let [ids, reasons] = &joined.texts;
        Ok(JoinedBatches {
            batches: joined.batches.iter().map(facts).collect(),
            widths: joined.widths,
            begins: joined.begins,
            columns: PyBytes::new(py, &joined.bytes).unbind(),
            ids: PyBytes::new(py, ids).unbind(),
            reasons: PyBytes::new(py, reasons).unbind(),
        })
    }

    type Arrays<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

    #[pyfunction]
    fn decode_chunk<'py>(py: Python<'py>, value: &[u8], table: u8, block_bits: u8) -> PyResult<Arrays<'py>> {
        let chunk = caught(|| Chunk::from_bytes(value, Blocks { table, bits: block_bits }, &mut Stock::default()))??;
        entries_of(py, std::iter::once(&chunk))
    }

    /// Table, number, entries, document number before which they are, and whether it is stored.
    type RunFacts = (u8, u64, u64, u64, bool);

    #[pyclass(frozen)]
    struct BlockTables {
        tables: Mutex<Tables>,
        row_words: usize,
    }

    #[pyclass(frozen, get_all)]
    struct Work {
        missing: Vec<Py<PyBytes>>,
        chunks: Vec<(Py<PyBytes>, Py<PyBytes>)>,
        named: Vec<(u32, Py<PyBytes>)>,
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
            if !(1..=MOST_TABLES).contains(&tables.into())
                || ![16, 20, 24].contains(&block_bits)
                || row_words < ROW_WORDS
            {
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
            let mut tables = Tables::new(blocks, rows, memory_bytes, fold_entries, chunk_entries, numbers);
            tables.drop_before(first);
            Ok(Self { tables: Mutex::new(tables), row_words })
        }

        fn open_run(&self, py: Python<'_>, run: u32, directory: &[u8]) -> PyResult<()> {
            Ok(self.locked(py, |tables| tables.open_run(run, directory))??)
        }

        /// Document number from which on some table has entries in no run.
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
            let bytes = |bytes: &[u8]| PyBytes::new(py, bytes).unbind();
            Ok(Work {
                missing: work.missing.into_iter().map(|key| bytes(&key_bytes(key))).collect(),
                chunks: work.chunks.iter().map(|(key, value)| (bytes(&key_bytes(*key)), bytes(value))).collect(),
                named: work.named.iter().map(|(run, directory)| (*run, bytes(directory))).collect(),
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

        fn cold<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Vec<Bound<'py, PyBytes>>> {
            let keys = self.locked(py, |tables| tables.cold(most))?;
            Ok(keys.into_iter().map(|key| PyBytes::new(py, &key_bytes(key))).collect())
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

        /// Keys and document numbers of a run that is in memory.
        fn entries<'py>(&self, py: Python<'py>, run: u64) -> PyResult<Arrays<'py>> {
            let tables = self.tables.lock().map_err(|_| broken())?;
            let places = tables.runs.iter().flatten().find(|one| one.id == run).map(|run| &run.places);
            entries_of(py, places.into_iter().flatten().filter_map(|place| tables.cache.list(*place)))
        }

        /// The rows of some document numbers, or the keys of what is missing first.
        fn rows_of<'py>(
            &self,
            py: Python<'py>,
            numbers: PyBuffer<i64>,
        ) -> PyResult<(Vec<Bound<'py, PyBytes>>, Bound<'py, PyBytes>)> {
            let numbers = array(py, &numbers)?;
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
                PyValueError::new_err(format!("document numbers {numbers:?}: there are rows of {held:?}"))
            })?;
            let keys = missing.into_iter().map(|key| PyBytes::new(py, &key_bytes(key))).collect();
            Ok((keys, PyBytes::new(py, &rows)))
        }

        /// Let chunks go that are beyond the budget.
        fn evict(&self, py: Python<'_>) -> PyResult<()> {
            self.locked(py, |tables| tables.cache.evict())
        }
    }

    impl BlockTables {
        fn locked<T: Send>(&self, py: Python<'_>, call: impl FnOnce(&mut Tables) -> T + Send) -> PyResult<T> {
            work(py, || self.tables.lock().map(|mut tables| call(&mut tables)).ok())?.ok_or_else(broken)
        }
    }

    #[pyclass(frozen, name = "Search")]
    struct PySearch(Mutex<Search>);

    #[pymethods]
    impl PySearch {
        #[new]
        #[pyo3(signature = (*, keys, words, groups, before, reach, plan, lookups, directed, sieve, bucket_limit, best,
            candidates = None, sure = None, sketches = None, least_equal = None, form_words = 0, form_limit = 0,
            certain = -1, far = 0, far_equal = 0, oldest = None, own_ids = None, withdrawn = None))]
        #[expect(clippy::too_many_arguments, reason = "by name")]
        fn new(
            py: Python<'_>,
            keys: PyBuffer<u64>,
            words: PyBuffer<u64>,
            groups: PyBuffer<u64>,
            before: PyBuffer<i64>,
            reach: PyBuffer<i64>,
            plan: PyBuffer<u32>,
            lookups: usize,
            directed: bool,
            sieve: Option<u32>,
            bucket_limit: usize,
            best: usize,
            candidates: Option<usize>,
            sure: Option<PyBuffer<u64>>,
            sketches: Option<PyBuffer<u64>>,
            least_equal: Option<PyBuffer<i64>>,
            form_words: usize,
            form_limit: i32,
            certain: i32,
            far: i32,
            far_equal: i32,
            oldest: Option<PyBuffer<i64>>,
            own_ids: Option<PyBuffer<u64>>,
            withdrawn: Option<PyBuffer<i64>>,
        ) -> PyResult<Self> {
            let groups = array(py, &groups)?;
            let count = groups.len();
            let keys = fixed::<_, WORDS>(array(py, &keys)?, count, "keys")?;
            let words = fixed::<_, WORDS>(array(py, &words)?, count, "words")?;
            let before = fixed::<_, 1>(array(py, &before)?, count, "before")?;
            let reach = fixed::<_, 1>(array(py, &reach)?, count, "reach")?;
            let each = |given: Option<PyBuffer<i64>>, missing, name: &str| match given {
                Some(given) => fixed::<_, 1>(array(py, &given)?, count, name),
                None => Ok(vec![[missing]; count]),
            };
            let (oldest, least_equal) = (each(oldest, i64::MIN, "oldest")?, each(least_equal, 0, "least_equal")?);
            let own_ids = own_ids.map(|ids| fixed::<_, 1>(array(py, &ids)?, count, "own_ids")).transpose()?;
            let compares = sketches.is_some();
            let (sure, sketches) = (optional(py, sure)?, optional(py, sketches)?);
            let sketch_words = sketches.len() / count.max(1);
            let sure_words = sure.len() / count.max(1) / 2;
            let sized = sketch_words * count == sketches.len() && sure_words * 2 * count == sure.len();
            if !sized
                || sketch_words > SKETCH_WORDS
                || (compares && count > 0 && sketch_words <= form_words)
                || sure_words > WORDS
                || best == 0
            {
                let message = format!("{} words of sketches, {} of masks for {count}", sketches.len(), sure.len());
                return Err(PyValueError::new_err(message));
            }
            let plan = array(py, &plan)?;
            if lookups == 0 || (plan.len() != lookups && plan.len() != lookups * count) {
                return Err(PyValueError::new_err(format!("{} look-ups for {count} articles", plan.len())));
            }
            let article = |at: usize| Article {
                keys: keys[at],
                words: words[at],
                sketch: std::array::from_fn(|word| {
                    sketches[at * sketch_words..][..sketch_words].get(word).copied().unwrap_or(0)
                }),
                sieves: std::array::from_fn(|word| Sieve {
                    sure: match sure[at * 2 * sure_words..].chunks_exact(2).take(sure_words).nth(word) {
                        Some(masks) => [masks[0], masks[1]],
                        None => [u64::MAX, 0],
                    },
                    most: sieve.unwrap_or(u32::try_from(reach[at][0]).unwrap_or(0)),
                }),
                demand: Demand { reach: reach[at][0] as i32, least_equal: least_equal[at][0] as i32, far_equal },
                group: groups[at],
                oldest: oldest[at][0],
                own_id: own_ids.as_ref().map(|ids| ids[at][0]),
                before: before[at][0] as u64,
            };
            let articles = caught(|| (0..count).map(article).collect())?;
            let has_form = compares && form_words > 0;
            let limits = Limits {
                directed,
                value_words: sketch_words - usize::from(has_form && count > 0),
                compares: directed && compares,
                has_form,
                certain,
                far,
                form_limit,
            };
            let withdrawn = match withdrawn {
                Some(withdrawn) => array(py, &withdrawn)?,
                None => Vec::new(),
            };
            let withdrawn = withdrawn.chunks_exact(2).map(|one| (one[0] as u64, one[1] as u64)).collect();
            let terms = Terms { plan, lookups, limits, bucket_limit, candidates, best, withdrawn };
            Ok(Self(Mutex::new(Search::new(articles, terms))))
        }

        /// Go on until chunks are missing: their keys, none at the end.
        fn run<'py>(&self, py: Python<'py>, tables: &BlockTables) -> PyResult<Vec<Bound<'py, PyBytes>>> {
            let missing = tables.locked(py, |tables| self.0.lock().map(|mut search| search.run(tables)).ok());
            let missing = missing.map_err(|error| self.named(py, error))?.ok_or_else(broken)?;
            Ok(missing.into_iter().map(|key| PyBytes::new(py, &key_bytes(key))).collect())
        }

        /// Articles, document numbers and distances of the near entries, by article, then nearest, then earliest.
        fn near<'py>(
            &self,
            py: Python<'py>,
        ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
            let search = self.0.lock().map_err(|_| broken())?;
            let [articles, numbers, distances] = caught(|| {
                let articles = bytes_of(search.near().map(|(article, ..)| (article as i64).to_le_bytes()));
                let numbers = bytes_of(search.near().map(|(_, number, _)| i64::from(number).to_le_bytes()));
                let distances = bytes_of(search.near().map(|(.., distance)| (distance as u16).to_le_bytes()));
                [articles, numbers, distances]
            })?;
            Ok((PyBytes::new(py, &articles), PyBytes::new(py, &numbers), PyBytes::new(py, &distances)))
        }

        /// Posting lists that the plans name, and entries that were compared.
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

    /// Why there is no article: see `said`.
    type Said<'py> = (&'static str, usize, usize, Bound<'py, PyString>, &'static str);
    /// Id, texts, scope, and why there is no article.
    type Decoded<'py> = (Bound<'py, PyAny>, Bound<'py, PyTuple>, Option<Bound<'py, PyString>>, Option<Said<'py>>);

    #[pyclass(frozen, name = "Format")]
    struct PyFormat(decode::Format);

    #[pymethods]
    impl PyFormat {
        #[new]
        #[pyo3(signature = (*, is_json, most_bytes, id_field, scope_field, text_fields, may_lack_texts))]
        fn new(
            is_json: bool,
            most_bytes: usize,
            id_field: Vec<u8>,
            scope_field: Option<Vec<u8>>,
            text_fields: Vec<Vec<u8>>,
            may_lack_texts: bool,
        ) -> Self {
            Self(decode::Format { is_json, most_bytes, id_field, scope_field, text_fields, may_lack_texts })
        }

        fn decode<'py>(
            &self,
            py: Python<'py>,
            key: Option<PyBackedBytes>,
            value: Option<PyBackedBytes>,
            fallback: Bound<'py, PyAny>,
        ) -> PyResult<Decoded<'py>> {
            let record = py.detach(|| panics::decode(&self.0, key.as_deref(), value.as_deref()));
            let id = record.id.map_or(Ok(fallback), |id| text(py, &id).map(Bound::into_any))?;
            match record.article {
                Ok(article) => {
                    let texts: Vec<_> = article.texts.iter().map(|one| text(py, one)).collect::<PyResult<_>>()?;
                    let scope = article.scope.map(|scope| text(py, &scope)).transpose()?;
                    Ok((id, PyTuple::new(py, texts)?, scope, None))
                }
                Err(reason) => Ok((id, PyTuple::empty(py), None, Some(said(py, reason, Some(&self.0))?))),
            }
        }
    }

    #[pyfunction]
    fn key_id<'py>(py: Python<'py>, key: Option<PyBackedBytes>) -> PyResult<Option<Bound<'py, PyString>>> {
        decode::key_id(key.as_deref()).map(|id| text(py, &id)).transpose()
    }

    #[pyfunction]
    #[pyo3(signature = (value, names = None, *, as_written = Vec::new()))]
    fn parse_object<'py>(
        py: Python<'py>,
        value: PyBackedBytes,
        names: Option<Vec<Vec<u8>>>,
        as_written: Vec<Vec<u8>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let made = caught(|| {
            let mut reader = json::Reader::new(decode::checked(&value)?);
            match reader.next_token()?.map(Kind::of).ok_or(Reason::NotJson)? {
                Kind::Object => Members { py, names, as_written }.read(&mut reader),
                other => {
                    while reader.next_token()?.is_some() {}
                    Err(Reason::NotObject(other).into())
                }
            }
        })?;
        match made {
            Ok(members) => Ok(members.into_any()),
            Err(Unmade::Reason(reason)) => said(py, reason, None)?.into_bound_py_any(py),
            Err(Unmade::Error(error)) => Err(error),
        }
    }

    /// Makes Python's values of the members of a JSON object.
    struct Members<'py> {
        py: Python<'py>,
        /// Names of the members that are made; all of them if there are none.
        names: Option<Vec<Vec<u8>>>,
        /// Names of those whose numbers are texts unless 64 bits hold them.
        as_written: Vec<Vec<u8>>,
    }

    /// What holds the next value, and the name that it has in an object.
    enum Holder<'py> {
        Object(Bound<'py, PyDict>, Option<Bound<'py, PyString>>),
        Array(Bound<'py, PyList>),
    }

    enum Unmade {
        Reason(Reason),
        Error(PyErr),
    }

    impl<'py> Members<'py> {
        /// Read what follows the beginning of the object.
        fn read(&self, reader: &mut json::Reader) -> Result<Bound<'py, PyDict>, Unmade> {
            let members = PyDict::new(self.py);
            let mut open = vec![Holder::Object(members.clone(), None)];
            let mut is_as_written = false;
            while let Some(token) = reader.next_token()? {
                match token {
                    Token::Name(name) => {
                        let is_one_of = |names: &Vec<Vec<u8>>| names.iter().any(|one| name.is(one));
                        if reader.depth() == 1 && self.names.as_ref().is_some_and(|names| !is_one_of(names)) {
                            reader.skip_value()?;
                        } else if let Some(Holder::Object(_, waiting)) = open.last_mut() {
                            is_as_written = reader.depth() == 1 && is_one_of(&self.as_written);
                            *waiting = Some(text(self.py, &name.text())?);
                        }
                    }
                    Token::End => _ = open.pop(),
                    Token::Begin(Container::Object) => {
                        let object = PyDict::new(self.py);
                        hold(&open, object.as_any())?;
                        open.push(Holder::Object(object, None));
                        is_as_written = false;
                    }
                    Token::Begin(Container::Array) => {
                        let array = PyList::empty(self.py);
                        hold(&open, array.as_any())?;
                        open.push(Holder::Array(array));
                        is_as_written = false;
                    }
                    Token::Text(written) => hold(&open, text(self.py, &written.text())?.as_any())?,
                    Token::Number(number) => hold(&open, &self.number(number, is_as_written)?)?,
                    Token::Boolean(flag) => hold(&open, &flag.into_bound_py_any(self.py)?)?,
                    Token::Null => hold(&open, self.py.None().bind(self.py))?,
                }
            }
            Ok(members)
        }

        fn number(&self, number: Number, is_as_written: bool) -> PyResult<Bound<'py, PyAny>> {
            match number.whole().map(|whole| i64::try_from(whole).map_err(|_| whole as u64)) {
                Some(Ok(whole)) => whole.into_bound_py_any(self.py),
                Some(Err(whole)) => whole.into_bound_py_any(self.py),
                None if is_as_written => number.written().into_bound_py_any(self.py),
                None => number.float().into_bound_py_any(self.py),
            }
        }
    }

    impl From<NotJson> for Unmade {
        fn from(error: NotJson) -> Self {
            Self::Reason(error.into())
        }
    }

    impl From<Reason> for Unmade {
        fn from(reason: Reason) -> Self {
            Self::Reason(reason)
        }
    }

    impl From<PyErr> for Unmade {
        fn from(error: PyErr) -> Self {
            Self::Error(error)
        }
    }

    /// Add a value to the innermost holder.
    fn hold<'py>(open: &[Holder<'py>], value: &Bound<'py, PyAny>) -> PyResult<()> {
        match open.last() {
            Some(Holder::Object(object, Some(name))) => object.set_item(name, value),
            Some(Holder::Array(array)) => array.append(value),
            Some(Holder::Object(_, None)) | None => unreachable!("a value has a holder, and in an object a name"),
        }
    }

    /// What the text of a reason says: its name in `core/reasons.py`, a size or position, a limit, fields, a kind.
    fn said<'py>(py: Python<'py>, reason: Reason, format: Option<&decode::Format>) -> PyResult<Said<'py>> {
        let texts = format.map_or(&[][..], |format| &format.text_fields);
        let (name, number, limit, fields, kind) = match reason {
            Reason::Tombstone => ("TOMBSTONE", 0, 0, &[][..], None),
            Reason::TooLong(size) => ("TOO_LONG", size, format.map_or(0, |format| format.most_bytes), &[][..], None),
            Reason::TooDeep => ("TOO_DEEP", 0, MOST_LEVELS, &[][..], None),
            Reason::NotUtf8(at) => ("NOT_UTF8", at, 0, &[][..], None),
            Reason::NotJson => ("NOT_JSON", 0, 0, &[][..], None),
            Reason::NotObject(kind) => ("NOT_OBJECT", 0, 0, &[][..], Some(kind)),
            Reason::LongId(size) => ("LONG_ID", size, MOST_ID_BYTES, &[][..], None),
            Reason::NoText if format.is_some_and(|format| format.may_lack_texts) => ("NO_TEXTS", 0, 0, texts, None),
            Reason::NoText => ("NO_TEXT", 0, 0, texts, None),
            Reason::NotText(at, kind) => ("NOT_TEXT", 0, 0, &texts[at..=at], Some(kind)),
            Reason::NotScope(kind) => {
                let scope = format.and_then(|format| format.scope_field.as_ref());
                ("NOT_SCOPE", 0, 0, scope.map_or(&[][..], std::slice::from_ref), Some(kind))
            }
            Reason::EmptyText => ("EMPTY_TEXT", 0, 0, &[][..], None),
            Reason::Defect => ("DEFECT", 0, 0, &[][..], None),
        };
        Ok((name, number, limit, text(py, &fields.join(&b", "[..]))?, kind.map_or("", Kind::name)))
    }

    /// A text in generalized UTF-8.
    fn text<'py>(py: Python<'py>, text: &[u8]) -> PyResult<Bound<'py, PyString>> {
        match std::str::from_utf8(text) {
            Ok(text) => Ok(PyString::new(py, text)),
            Err(_) => PyString::from_encoded_object(&PyBytes::new(py, text), Some(c"utf-8"), Some(c"surrogatepass")),
        }
    }

    #[pyfunction]
    fn text_of_html(html: Bound<'_, PyString>) -> PyResult<Bound<'_, PyString>> {
        without(html, html::text_of)
    }

    #[pyfunction]
    #[pyo3(signature = (text, *, is_html, entities, tags))]
    fn readable(text: Bound<'_, PyString>, is_html: bool, entities: bool, tags: bool) -> PyResult<Bound<'_, PyString>> {
        without(text, |text| decode::readable::readable(text, Markup { is_html, entities, tags }))
    }

    /// What a step leaves of a text; the same object if it is all of it.
    fn without<'py>(
        given: Bound<'py, PyString>,
        step: impl FnOnce(&[u8]) -> Cow<'_, [u8]> + Send,
    ) -> PyResult<Bound<'py, PyString>> {
        let bytes = Given::of(&given)?;
        let made = work(given.py(), || match step(bytes.text().bytes()) {
            Cow::Borrowed(_) => None,
            Cow::Owned(made) => Some(made),
        })?;
        made.map_or_else(|| Ok(given.clone()), |made| text(given.py(), &made))
    }

    type Columns<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);
    type Entries<'py> = (
        Bound<'py, PyBytes>,
        Bound<'py, PyBytes>,
        Bound<'py, PyBytes>,
        (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>),
        Bound<'py, PyBytes>,
        Bound<'py, PyBytes>,
        Vec<(usize, Said<'py>)>,
    );
    type Named<'py> = (String, u64, u64, Bound<'py, PyBytes>);
    type Told<'py> = (
        (u8, String, Vec<Named<'py>>, Vec<i64>),
        (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>),
        (String, String),
    );

    #[pyclass(frozen, name = "TextReader")]
    struct TextReader(Readers);

    #[pymethods]
    impl TextReader {
        #[new]
        fn new(
            py: Python<'_>,
            settings: &Bound<'_, PyAny>,
            words: Vec<(String, Option<u64>)>,
            stop_words: Vec<String>,
        ) -> PyResult<Self> {
            let (settings, own) = (settings_of(settings)?, OwnWords { words, stop_words });
            Ok(Self(work(py, || Readers::new(Scheme::new(settings, &own)))?))
        }

        /// Statuses, signatures, margins and sketches of texts, given by their fields without markup.
        fn read<'py>(&self, py: Python<'py>, texts: Vec<Vec<Bound<'py, PyString>>>) -> PyResult<Columns<'py>> {
            let given = texts.iter().map(fields_of).collect::<PyResult<Vec<_>>>()?;
            let made: Vec<_> = py.detach(|| given.iter().map(|fields| self.0.read(&texts_of(fields))).collect());
            let column =
                |part: fn(&Reading) -> &[u8]| PyBytes::new(py, &made.iter().map(part).collect::<Vec<_>>().concat());
            let statuses: Vec<u8> = made.iter().map(|one| one.status as u8).collect();
            Ok((
                PyBytes::new(py, &statuses),
                column(|one| &one.signature),
                column(|one| &one.margins),
                column(|one| &one.sketch),
            ))
        }

        /// Checksums, statuses, groups, signatures, margins and sketches of records; lengths of ids, and ids; reasons.
        fn entries<'py>(
            &self,
            py: Python<'py>,
            fmt: &PyFormat,
            html: Vec<bool>,
            records: Vec<(Option<PyBackedBytes>, Option<PyBackedBytes>, Bound<'py, PyString>)>,
        ) -> PyResult<Entries<'py>> {
            let fallbacks = records.iter().map(|record| Given::of(&record.2)).collect::<PyResult<Vec<_>>>()?;
            let raws = records.iter().zip(&fallbacks).map(|((key, value, _), fallback)| Raw {
                key: key.as_deref(),
                value: value.as_deref(),
                fallback: fallback.text().bytes(),
            });
            let raws: Vec<Raw> = raws.collect();
            let maker = Maker { format: &fmt.0, readers: &self.0, html: &html };
            let made: Vec<Entry> = py.detach(|| raws.into_iter().map(|raw| maker.entry(raw)).collect());
            let column = |part: fn(&Reading) -> &[u8]| {
                PyBytes::new(py, &made.iter().flat_map(|one| part(&one.reading)).copied().collect::<Vec<u8>>())
            };
            let ids: Vec<u8> = made.iter().flat_map(|one| one.id.iter()).copied().collect();
            let reasons = made.iter().enumerate().filter_map(|(row, one)| one.reason.map(|reason| (row, reason)));
            let reasons = reasons.map(|(row, reason)| Ok((row, said(py, reason, Some(&fmt.0))?)));
            Ok((
                PyBytes::new(py, &bytes_of(made.iter().map(|one| one.checksum.to_le_bytes()))),
                PyBytes::new(py, &made.iter().map(|one| one.reading.status as u8).collect::<Vec<_>>()),
                PyBytes::new(py, &bytes_of(made.iter().map(|one| one.group.to_le_bytes()))),
                (column(|one| &one.signature), column(|one| &one.margins), column(|one| &one.sketch)),
                PyBytes::new(py, &bytes_of(made.iter().map(|one| (one.id.len() as u32).to_le_bytes()))),
                PyBytes::new(py, &ids),
                reasons.collect::<PyResult<Vec<_>>>()?,
            ))
        }

        /// What the reading of a text is made from.
        fn explain<'py>(&self, py: Python<'py>, fields: Vec<Bound<'py, PyString>>) -> PyResult<Told<'py>> {
            let fields = fields_of(&fields)?;
            Ok(told(py, py.detach(|| self.with_reader(&fields, Reader::explain))?))
        }

        /// What features that a caller counted make of a long text, or a short one.
        fn weigh<'py>(
            &self,
            py: Python<'py>,
            counts: Vec<(Bound<'py, PyString>, u64)>,
            is_long: bool,
        ) -> PyResult<Told<'py>> {
            let counts = counts.iter().map(|(name, count)| Ok((Given::of(name)?.text().joined().into_owned(), *count)));
            let counts = counts.collect::<PyResult<Vec<_>>>()?;
            let status = if is_long { Status::Long } else { Status::Short };
            Ok(told(py, work(py, || self.0.scheme().weigh(&counts, status))?))
        }

        /// The words of a text as long text, those of ideographs first.
        fn words(&self, py: Python<'_>, fields: Vec<Bound<'_, PyString>>) -> PyResult<Vec<String>> {
            let fields = fields_of(&fields)?;
            py.detach(|| self.with_reader(&fields, Reader::words))
        }
    }

    impl TextReader {
        /// Call with the reader, the scheme and the fields.
        fn with_reader<T>(
            &self,
            fields: &[Given],
            call: impl for<'t> FnOnce(&mut Reader, &Scheme, Fields<'t>) -> T,
        ) -> PyResult<T> {
            let fields = texts_of(fields);
            Ok(self.0.with(|reader, scheme| call(reader, scheme, &fields))?)
        }
    }

    fn texts_of<'a>(fields: &'a [Given]) -> Vec<Text<'a>> {
        fields.iter().map(Given::text).collect()
    }

    fn fields_of<'a>(fields: &'a Vec<Bound<'_, PyString>>) -> PyResult<Vec<Given<'a>>> {
        fields.iter().map(Given::of).collect()
    }

    fn told(py: Python<'_>, (made, account): (Reading, Explained)) -> Told<'_> {
        let named = |one: Feature| (one.name, one.count, one.weight, PyBytes::new(py, &one.hash));
        let features = account.features.into_iter().map(named).collect();
        (
            (made.status as u8, account.text, features, account.sums.to_vec()),
            (PyBytes::new(py, &made.signature), PyBytes::new(py, &made.margins), PyBytes::new(py, &made.sketch)),
            (account.form.frame, account.form.numbers),
        )
    }

    /// What `scheme.FingerprintSettings` say.
    fn settings_of(given: &Bound<'_, PyAny>) -> PyResult<Settings> {
        let compared = |name: &str| match given.getattr(name)?.extract::<&str>()? {
            "letters" => Ok(Compared::Letters),
            "characters" => Ok(Compared::Characters),
            other => Err(unknown(name, other)),
        };
        Ok(Settings {
            long: treatment_of(&given.getattr("long")?)?,
            short: treatment_of(&given.getattr("short")?)?,
            article_size: given.getattr("article_size")?.extract()?,
            exact_size: given.getattr("exact_size")?.extract()?,
            exact: compared("exact")?,
            field_weights: given.getattr("field_weights")?.extract()?,
            key_sentences: given.getattr("key_sentences")?.extract()?,
            sketch: given.getattr("sketch")?.extract()?,
            sketched: compared("sketch_text")?,
            form: given.getattr("form")?.extract()?,
            seed: given.getattr("seed")?.extract()?,
            margin_bits: 2 * given.getattr("widths")?.getattr("margin_bytes")?.extract::<usize>()?,
        })
    }

    fn treatment_of(given: &Bound<'_, PyAny>) -> PyResult<Treatment> {
        let features = given.getattr("features")?;
        let says = |name: &str, value: &str| Ok::<_, PyErr>(features.getattr(name)?.extract::<&str>()? == value);
        let damped = features.getattr("damped")?.extract::<bool>()?;
        let damping = if damped { Some(features.getattr("damping")?.extract()?) } else { None };
        Ok(Treatment {
            normalisation: given.getattr("normalisation")?.extract::<Steps>()?.try_into()?,
            features: Features {
                are_grams: says("kind", "chars")?,
                marked: says("words", "marked")?,
                weights: match features.getattr("weights")?.extract::<&str>()? {
                    "tf" => Weights::Count,
                    "level" => Weights::Level,
                    "tfidf" => Weights::CountIdf(damping),
                    other => return Err(unknown("weights", other)),
                },
                top_k: features.getattr("top_k")?.extract()?,
                of_languages: says("idf", "languages")?,
                root: features.getattr("root")?.extract()?,
                gram_weights: features.getattr("gram_weights")?.extract()?,
            },
        })
    }

    fn unknown(name: &str, value: &str) -> PyErr {
        PyValueError::new_err(format!("{name}: unknown value {value:?}"))
    }

    // Steps of normalising.

    /// `scheme.Normalisation`.
    #[derive(FromPyObject)]
    #[expect(clippy::struct_excessive_bools, reason = "each is a step, taken or not")]
    struct Steps {
        invisible: bool,
        tags: bool,
        entities: bool,
        urls: String,
        emails: String,
        users: String,
        numbers: String,
        emoji: String,
        join_numbers: bool,
        rejoin: bool,
        simplify: bool,
        unspace: bool,
        repeats: bool,
        lookalikes: bool,
    }

    impl TryFrom<Steps> for Normalisation {
        type Error = PyErr;

        fn try_from(steps: Steps) -> PyResult<Self> {
            Ok(Self {
                invisible: steps.invisible,
                tags: steps.tags,
                entities: steps.entities,
                urls: treat(&steps.urls)?,
                emails: treat(&steps.emails)?,
                users: treat(&steps.users)?,
                numbers: treat(&steps.numbers)?,
                emoji: treat(&steps.emoji)?,
                join_numbers: steps.join_numbers,
                rejoin: steps.rejoin,
                simplify: steps.simplify,
                unspace: steps.unspace,
                repeats: steps.repeats,
                lookalikes: steps.lookalikes,
            })
        }
    }

    fn treat(name: &str) -> PyResult<Treat> {
        match name {
            "keep" => Ok(Treat::Keep),
            "drop" => Ok(Treat::Drop),
            "token" => Ok(Treat::Token),
            _ => Err(PyValueError::new_err(format!("{name} is not keep, drop or token"))),
        }
    }

    /// A text from Python.
    enum Given<'a> {
        Whole(&'a str),
        /// In generalized UTF-8.
        Halves(Vec<u8>),
    }

    impl<'a> Given<'a> {
        fn of(text: &'a Bound<'_, PyString>) -> PyResult<Self> {
            if let Ok(whole) = text.to_str() {
                return Ok(Self::Whole(whole));
            }
            let encoded = text.call_method1("encode", ("utf-8", "surrogatepass"))?;
            Ok(Self::Halves(encoded.cast::<PyBytes>()?.as_bytes().to_vec()))
        }

        fn text(&self) -> Text<'_> {
            match self {
                Self::Whole(text) => Text::Whole(text),
                Self::Halves(bytes) => Text::Halves(bytes),
            }
        }
    }

    /// The text that was made of one; the same object if it is the same text.
    fn made<'py>(given: Bound<'py, PyString>, made: Option<String>) -> Bound<'py, PyString> {
        made.map_or(given.clone(), |made| PyString::new(given.py(), &made))
    }

    #[pyfunction]
    fn before_nfkc<'py>(
        py: Python<'py>,
        texts: Vec<Bound<'py, PyString>>,
        steps: Steps,
    ) -> PyResult<Vec<(Bound<'py, PyString>, bool, bool)>> {
        let steps = steps.try_into()?;
        let given = texts.iter().map(Given::of).collect::<PyResult<Vec<_>>>()?;
        let cleaned = work(py, || {
            let mut room = Room::default();
            let clean = |text: Text| {
                let cleaned = clean::before_nfkc(text, &steps, &mut room);
                (changed(text, &cleaned.text), cleaned.is_addressed, cleaned.is_simplified)
            };
            given.iter().map(Given::text).map(clean).collect::<Vec<_>>()
        })?;
        drop(given);
        let each = texts.into_iter().zip(cleaned);
        Ok(each.map(|(given, (text, addressed, simplified))| (made(given, text), addressed, simplified)).collect())
    }

    #[pyfunction]
    #[pyo3(signature = (texts, steps, *, numbers))]
    fn after_nfkc<'py>(
        py: Python<'py>,
        texts: Vec<Bound<'py, PyString>>,
        steps: Steps,
        numbers: bool,
    ) -> PyResult<Vec<Bound<'py, PyString>>> {
        let steps = steps.try_into()?;
        let given = texts.iter().map(|text| text.to_str()).collect::<PyResult<Vec<_>>>()?;
        let after = work(py, || {
            let mut room = Room::default();
            let step = |text: &str| changed(Text::Whole(text), &clean::after_nfkc(text, &steps, numbers, &mut room));
            given.into_iter().map(step).collect::<Vec<_>>()
        })?;
        Ok(texts.into_iter().zip(after).map(|(given, after)| made(given, after)).collect())
    }

    #[pyfunction]
    fn without_schemes(text: Bound<'_, PyString>) -> PyResult<Bound<'_, PyString>> {
        let given = text.to_str()?;
        let after =
            work(text.py(), || changed(Text::Whole(given), &clean::without_schemes(given, &mut Room::default())))?;
        Ok(made(text.clone(), after))
    }

    #[pyfunction]
    fn simplify(text: Bound<'_, PyString>) -> PyResult<Bound<'_, PyString>> {
        let given = Given::of(&text)?;
        let after = work(text.py(), || changed(given.text(), &clean::simplified(given.text(), &mut Room::default())))?;
        drop(given);
        Ok(made(text, after))
    }

    #[pyfunction]
    fn has_symbol(text: &str) -> bool {
        numbers::has_symbol(text)
    }

    #[pyfunction]
    fn is_number(word: &str) -> bool {
        numbers::is_number(word)
    }

    /// What is not as it was given.
    fn changed(given: Text, text: &str) -> Option<String> {
        (text.as_bytes() != given.bytes()).then(|| text.to_owned())
    }

    /// Run without the interpreter; a panic becomes an exception.
    fn work<T: Send>(py: Python<'_>, call: impl FnOnce() -> T + Send) -> PyResult<T> {
        py.detach(|| caught(call))
    }

    /// Run; a panic becomes an exception.
    fn caught<T>(call: impl FnOnce() -> T) -> PyResult<T> {
        Ok(panics::caught(call)?)
    }

    fn broken() -> PyErr {
        PanicError::new_err("a defect in the native core: it stopped at a panic before, which standard error names")
    }

    fn key_bytes(key: Key) -> Vec<u8> {
        match key {
            Key::List(run, chunk) => [b"C".as_slice(), &run.to_be_bytes(), &chunk.to_be_bytes()].concat(),
            Key::Rows(chunk) => [b"W".as_slice(), &chunk.to_be_bytes()].concat(),
        }
    }

    fn read_key(key: &[u8]) -> PyResult<Key> {
        let number =
            |at: usize| key.get(at..at + 4).map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]));
        match (key.first(), number(1), number(5), key.len()) {
            (Some(b'C'), Some(run), Some(chunk), 9) => Ok(Key::List(run, chunk)),
            (Some(b'W'), Some(chunk), None, 5) => Ok(Key::Rows(chunk)),
            _ => Err(PyValueError::new_err(format!("{key:?} is no key of a chunk"))),
        }
    }

    fn entries_of<'py, 'a>(py: Python<'py>, chunks: impl Iterator<Item = &'a Chunk> + Clone) -> PyResult<Arrays<'py>> {
        let (keys, numbers) = caught(|| {
            let keys = bytes_of(chunks.clone().flat_map(Chunk::keys).map(|key| key.to_le_bytes()));
            let numbers = chunks.flat_map(|chunk| (0..chunk.len()).map(|at| chunk.number(at).to_le_bytes()));
            (keys, bytes_of(numbers))
        })?;
        Ok((PyBytes::new(py, &keys), PyBytes::new(py, &numbers)))
    }

    fn array<T: Element>(py: Python<'_>, given: &PyBuffer<T>) -> PyResult<Vec<T>> {
        given.to_vec(py)
    }

    fn optional<T: Element>(py: Python<'_>, given: Option<PyBuffer<T>>) -> PyResult<Vec<T>> {
        given.map_or_else(|| Ok(Vec::new()), |given| array(py, &given))
    }

    /// Numbers of which each thing has so many.
    fn whole<T>(numbers: Vec<T>, each: usize, name: &str) -> PyResult<Vec<T>> {
        if each == 0 || numbers.len() % each != 0 {
            return Err(PyValueError::new_err(format!("{} numbers of {name}: each has {each}", numbers.len())));
        }
        Ok(numbers)
    }

    fn fixed<T: Copy, const EACH: usize>(numbers: Vec<T>, count: usize, name: &str) -> PyResult<Vec<[T; EACH]>> {
        if numbers.len() != count * EACH {
            return Err(PyValueError::new_err(format!("{} numbers of {name} for {count}", numbers.len())));
        }
        Ok(numbers.chunks_exact(EACH).map(|each| each.try_into().expect("so many")).collect())
    }

    /// The number of articles that are compared with so many entries: one for each, or one for all of them.
    fn paired(articles: usize, entries: usize) -> PyResult<usize> {
        if articles != 1 && articles != entries {
            return Err(PyValueError::new_err(format!("{articles} articles beside {entries} entries")));
        }
        Ok(articles)
    }

    fn bytes_of<const EACH: usize>(numbers: impl Iterator<Item = [u8; EACH]>) -> Vec<u8> {
        numbers.flatten().collect()
    }
}
