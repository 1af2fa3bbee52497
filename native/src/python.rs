//! The module that Python imports: bytes in, bytes out, the interpreter released while there is work. The stub,
//! `_native.pyi`, says what each function does.
//!
//! * [`texts`]: what entries have of texts. [`decode`]: records, JSON, markup and log records.
//! * [`lines`]: lines of files. [`postings`]: block tables and searches. [`pairs`]: plans, the sieve and the check, for arrays.
//! * [`values`]: arrays and texts, from Python and for it.
//! * [`usable_cores`]: how many threads are worth it.
//!
//! A panic is a defect: it becomes an exception, and the tables or the search that it left behind refuse every further
//! call. A panic on the way from a record or a text to its entry is no exception: that record or text is rejected.

#![allow(clippy::needless_pass_by_value, clippy::elidable_lifetime_names, reason = "as PyO3 passes arguments")]

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::panics::{self, Panic};
use crate::postings::chunk::Damage;

mod decode;
mod lines;
mod pairs;
mod postings;
mod texts;
mod values;

pyo3::create_exception!(_native, DamageError, PyValueError, "Stored bytes are not what their key says.");
pyo3::create_exception!(_native, PanicError, PyRuntimeError, "A panic, which is a defect of the native core.");

#[pymodule]
mod _native {
    use std::collections::HashMap;

    use pyo3::prelude::*;
    use xxhash_rust::xxh3::xxh3_64;

    #[pymodule_export]
    use super::decode::{JoinedBatches, PyFormat, field, field_id, join_batches, quoted_names, readable, text_of_html};
    #[pymodule_export]
    use super::lines::{marked_lines, stripped_lines};
    #[pymodule_export]
    use super::pairs::{PyLimits, plans};
    #[pymodule_export]
    use super::postings::BlockTables;
    #[pymodule_export]
    use super::texts::TextReader;
    #[pymodule_export]
    use super::usable_cores;
    use super::{DamageError, PanicError};
    use crate::decode::MOST_ID_BYTES;
    use crate::features::weights::COMMON_WORDS;
    use crate::postings::near::{FIRM_MARGIN, SURE_BITS, SURE_SIEVE_BITS, WORD_SIEVE_BITS};
    use crate::postings::tables::KEY_FACTORS;
    use crate::reader::load;
    use crate::segment::dictionary::jieba;
    use crate::text::simplify::HASHES as OPENCC_HASHES;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        load();
        module.add("DamageError", module.py().get_type::<DamageError>())?;
        let panic = module.py().get_type::<PanicError>();
        panic.setattr("article", module.py().None())?;
        module.add("PanicError", panic)?;
        module.add("MAX_ID_BYTES", MOST_ID_BYTES)?;
        module.add("KEY_FACTORS", KEY_FACTORS)?;
        module.add("SURE_BITS", SURE_BITS)?;
        module.add("SURE_SIEVE_BITS", SURE_SIEVE_BITS)?;
        module.add("WORD_SIEVE_BITS", WORD_SIEVE_BITS)?;
        module.add("FIRM_MARGIN", FIRM_MARGIN)?;
        module.add("OPENCC_HASHES", OPENCC_HASHES)?;
        let common_words = ("common_words.txt", xxh3_64(COMMON_WORDS.as_bytes()));
        let hashes = jieba::HASHES.into_iter().chain([common_words]);
        let hashes: HashMap<&str, String> = hashes.map(|(name, hash)| (name, format!("{hash:016x}"))).collect();
        module.add("DATA_HASHES", hashes)
    }
}

#[pyfunction]
fn usable_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
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
