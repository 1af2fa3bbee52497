//! Texts to what entries have of them, and to what that is made from.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use super::decode::{PyFormat, Said, said};
use super::values::{Given, bytes_of};
use super::work;
use crate::entries::{Entry, Maker, Raw};
use crate::features::Feature;
use crate::panics;
use crate::reader::{Explained, OwnWords, Reading, Scheme, Status};
use crate::settings::{MOST_FIELD_WEIGHT, MOST_GRAM_WEIGHT, Settings};
use crate::signature::sums::{BITS, Hash};
use crate::text::halves;

/// Statuses, signatures, margins and sketches.
type Readings = (Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>);
/// Checksums, statuses and scope hashes; signatures, margins and sketches; lengths of ids, and ids; reasons.
type Entries<'py> = (Vec<u8>, Vec<u8>, Vec<u8>, (Vec<u8>, Vec<u8>, Vec<u8>), Vec<u8>, Vec<u8>, Vec<(usize, Said<'py>)>);
type Named = (String, u64, u64, Hash);
/// Status, text, features and sums; signature, margins and sketch; frame and numbers.
type Told = ((u8, String, Vec<Named>, Vec<i64>), (Hash, Vec<u8>, Vec<u8>), (String, String));

#[pyclass(frozen, module = "_native")]
pub struct TextReader(Scheme);

#[pymethods]
impl TextReader {
    #[new]
    fn new(
        py: Python<'_>,
        settings: Settings,
        words: Vec<(String, Option<u64>)>,
        stop_words: Vec<String>,
    ) -> PyResult<Self> {
        refuse_greater("field_weights", &settings.field_weights, MOST_FIELD_WEIGHT)?;
        for treatment in [&settings.long, &settings.short] {
            refuse_greater("gram_weights", &treatment.features.gram_weights, MOST_GRAM_WEIGHT)?;
        }
        let own = OwnWords { words, stop_words };
        Ok(Self(work(py, || Scheme::new(settings, &own))?))
    }

    fn read(&self, py: Python<'_>, texts: Vec<Vec<Given>>) -> Readings {
        py.detach(|| readings(&texts.iter().map(|fields| panics::read(&self.0, &texts_of(fields))).collect::<Vec<_>>()))
    }

    fn entries<'py>(
        &self,
        py: Python<'py>,
        fmt: &PyFormat,
        html: Vec<bool>,
        records: Vec<(Option<PyBackedBytes>, Option<PyBackedBytes>, Given)>,
    ) -> PyResult<Entries<'py>> {
        let raws = records.iter().map(|(key, value, fallback)| Raw {
            key: key.as_deref(),
            value: value.as_deref(),
            fallback: fallback.bytes(),
        });
        let maker = Maker { format: &fmt.0, scheme: &self.0, html: &html };
        let made: Vec<Entry> = py.detach(|| raws.map(|raw| maker.entry(raw)).collect());
        let (statuses, signatures, margins, sketches) = readings(made.iter().map(|one| &one.reading));
        let reasons = made.iter().enumerate().filter_map(|(row, one)| one.reason.map(|reason| (row, reason)));
        let reasons = reasons.map(|(row, reason)| Ok((row, said(py, reason, Some(&fmt.0))?)));
        Ok((
            bytes_of(made.iter().map(|one| one.checksum.to_le_bytes())),
            statuses,
            bytes_of(made.iter().map(|one| one.scope_hash.to_le_bytes())),
            (signatures, margins, sketches),
            bytes_of(made.iter().map(|one| (one.id.len() as u32).to_le_bytes())),
            made.iter().map(|one| &*one.id).collect::<Vec<_>>().concat(),
            reasons.collect::<PyResult<_>>()?,
        ))
    }

    fn explain(&self, py: Python<'_>, fields: Vec<Given>) -> PyResult<Told> {
        let read = || panics::with_reader(|reader| reader.explain(&self.0, &texts_of(&fields)));
        Ok(told(py.detach(read)?))
    }

    fn weigh(&self, py: Python<'_>, counts: Vec<(Given, u64)>, is_long: bool) -> PyResult<Told> {
        let counts: Vec<_> =
            counts.iter().map(|(name, count)| (halves::join(name.bytes()).into_owned(), *count)).collect();
        let status = if is_long { Status::Long } else { Status::Short };
        work(py, || self.0.weigh(&counts, status)).map(told)
    }
}

fn texts_of(fields: &[Given]) -> Vec<&[u8]> {
    fields.iter().map(Given::bytes).collect()
}

/// The columns of what entries have of texts.
fn readings<'a>(made: impl IntoIterator<Item = &'a Reading, IntoIter: Clone>) -> Readings {
    let made = made.into_iter();
    let column = |part: fn(&Reading) -> &[u8]| made.clone().map(part).collect::<Vec<_>>().concat();
    (
        made.clone().map(|one| one.status as u8).collect(),
        column(|one| &one.signature),
        column(|one| &one.margins),
        column(|one| &one.sketch),
    )
}

fn told((made, mut account): (Reading, Explained)) -> Told {
    let features = account.features.into_iter();
    let features = features.map(|Feature { name, count, weight, hash }| (name, count, weight, hash)).collect();
    account.sums.resize(BITS, 0);
    (
        (made.status as u8, account.text, features, account.sums),
        (made.signature, made.margins, made.sketch),
        (account.form.frame, account.form.numbers),
    )
}

fn refuse_greater(name: &str, weights: &[u64], most: u64) -> PyResult<()> {
    weights.iter().find(|&&weight| weight > most).map_or(Ok(()), |weight| {
        let message = format!("{name}: {weight} is greater than {most}; sums of greater weights could overflow");
        Err(PyValueError::new_err(message))
    })
}
