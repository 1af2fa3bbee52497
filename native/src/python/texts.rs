//! Texts to what entries have of them, and to what that is made from.

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use super::decode::{PyFormat, Said, said};
use super::values::{Given, bytes_of};
use super::work;
use crate::entries::{Entry, Maker, Raw};
use crate::features::Feature;
use crate::panics;
use crate::reader::{Explained, Fields, OwnWords, Reader, Reading, Scheme, Status};
use crate::settings::{
    Compared, Features, MOST_FIELD_WEIGHT, MOST_GRAM_WEIGHT, Normalisation, Settings, Treat, Treatment, Weights,
};
use crate::signature::sums::Hash;
use crate::text::halves::Text;

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
        settings: &Bound<'_, PyAny>,
        words: Vec<(String, Option<u64>)>,
        stop_words: Vec<String>,
    ) -> PyResult<Self> {
        let (settings, own) = (settings_of(settings)?, OwnWords { words, stop_words });
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
            fallback: fallback.text().bytes(),
        });
        self.entries_of(py, fmt, &html, raws.collect())
    }

    fn line_entries<'py>(
        &self,
        py: Python<'py>,
        fmt: &PyFormat,
        html: Vec<bool>,
        lines: Vec<PyBackedBytes>,
        source: Given,
        numbers: Vec<u64>,
    ) -> PyResult<Entries<'py>> {
        if numbers.len() != lines.len() {
            return Err(PyValueError::new_err(format!("{} numbers of {} lines", numbers.len(), lines.len())));
        }
        let source = source.text().bytes();
        let ids = numbers.iter().map(|number| [source, format!(":{number}").as_bytes()].concat());
        let ids: Vec<_> = ids.collect();
        let raws = lines.iter().zip(&ids).map(|(line, id)| Raw { key: None, value: Some(line), fallback: id });
        self.entries_of(py, fmt, &html, raws.collect())
    }

    fn explain(&self, py: Python<'_>, fields: Vec<Given>) -> PyResult<Told> {
        py.detach(|| self.with_reader(&fields, Reader::explain)).map(told)
    }

    fn weigh(&self, py: Python<'_>, counts: Vec<(Given, u64)>, is_long: bool) -> PyResult<Told> {
        let counts: Vec<_> = counts.iter().map(|(name, count)| (name.text().joined().into_owned(), *count)).collect();
        let status = if is_long { Status::Long } else { Status::Short };
        work(py, || self.0.weigh(&counts, status)).map(told)
    }

    fn words(&self, py: Python<'_>, fields: Vec<Given>) -> PyResult<Vec<String>> {
        py.detach(|| self.with_reader(&fields, Reader::words))
    }
}

impl TextReader {
    /// The entries of records.
    fn entries_of<'py>(
        &self,
        py: Python<'py>,
        fmt: &PyFormat,
        html: &[bool],
        raws: Vec<Raw<'_>>,
    ) -> PyResult<Entries<'py>> {
        let maker = Maker { format: &fmt.0, scheme: &self.0, html };
        let made: Vec<Entry> = py.detach(|| raws.into_iter().map(|raw| maker.entry(raw)).collect());
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

    /// Calls with the reader of the thread, the scheme and the fields.
    fn with_reader<T>(
        &self,
        fields: &[Given],
        call: impl for<'t> FnOnce(&mut Reader, &Scheme, Fields<'t>) -> T,
    ) -> PyResult<T> {
        let fields = texts_of(fields);
        Ok(panics::with_reader(|reader| call(reader, &self.0, &fields))?)
    }
}

fn texts_of(fields: &[Given]) -> Vec<Text<'_>> {
    fields.iter().map(Given::text).collect()
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

fn told((made, account): (Reading, Explained)) -> Told {
    let features = account.features.into_iter();
    let features = features.map(|Feature { name, count, weight, hash }| (name, count, weight, hash)).collect();
    (
        (made.status as u8, account.text, features, account.sums.to_vec()),
        (made.signature, made.margins, made.sketch),
        (account.form.frame, account.form.numbers),
    )
}

/// What `scheme.FingerprintSettings` say.
fn settings_of(given: &Bound<'_, PyAny>) -> PyResult<Settings> {
    let compared = [("letters", Compared::Letters), ("characters", Compared::Characters)];
    let field_weights: Vec<u64> = get(given, "field_weights")?;
    refuse_greater("field_weights", &field_weights, MOST_FIELD_WEIGHT)?;
    Ok(Settings {
        long: treatment_of(&given.getattr("long")?)?,
        short: treatment_of(&given.getattr("short")?)?,
        article_size: get(given, "article_size")?,
        exact_size: get(given, "exact_size")?,
        exact: one_of(given, "exact", compared)?,
        field_weights,
        key_sentences: get(given, "key_sentences")?,
        sketch: get(given, "sketch")?,
        sketched: one_of(given, "sketch_text", compared)?,
        form: get(given, "form")?,
        seed: get(given, "seed")?,
        margin_bits: 2 * get::<usize>(&given.getattr("widths")?, "margin_bytes")?,
    })
}

fn treatment_of(given: &Bound<'_, PyAny>) -> PyResult<Treatment> {
    let (features, normalisation) = (&given.getattr("features")?, &given.getattr("normalisation")?);
    let damping = if get(features, "damped")? { Some(get(features, "damping")?) } else { None };
    let weights = [("tf", Weights::Count), ("level", Weights::Level), ("tfidf", Weights::CountIdf(damping))];
    let gram_weights: [u64; 5] = get(features, "gram_weights")?;
    refuse_greater("gram_weights", &gram_weights, MOST_GRAM_WEIGHT)?;
    let is_taken = |name: &str| get(normalisation, name);
    let treat = |name: &str| {
        one_of(normalisation, name, [("keep", Treat::Keep), ("drop", Treat::Drop), ("token", Treat::Token)])
    };
    Ok(Treatment {
        normalisation: Normalisation {
            invisible: is_taken("invisible")?,
            quotes: one_of(normalisation, "quotes", [("keep", false), ("drop", true)])?,
            tags: is_taken("tags")?,
            entities: is_taken("entities")?,
            urls: treat("urls")?,
            emails: treat("emails")?,
            users: treat("users")?,
            numbers: treat("numbers")?,
            emoji: treat("emoji")?,
            fold: is_taken("fold")?,
            join_numbers: is_taken("join_numbers")?,
            rejoin: is_taken("rejoin")?,
            simplify: is_taken("simplify")?,
            unspace: is_taken("unspace")?,
            repeats: is_taken("repeats")?,
            lookalikes: is_taken("lookalikes")?,
        },
        features: Features {
            are_grams: one_of(features, "kind", [("words", false), ("chars", true)])?,
            marked: one_of(features, "words", [("plain", false), ("marked", true)])?,
            weights: one_of(features, "weights", weights)?,
            top_k: get(features, "top_k")?,
            of_languages: one_of(features, "idf", [("jieba", false), ("languages", true)])?,
            root: get(features, "root")?,
            gram_weights: gram_weights.map(|weight| weight as u32),
        },
    })
}

fn refuse_greater(name: &str, weights: &[u64], most: u64) -> PyResult<()> {
    weights.iter().find(|&&weight| weight > most).map_or(Ok(()), |weight| {
        let message = format!("{name}: {weight} is greater than {most}; sums of greater weights could overflow");
        Err(PyValueError::new_err(message))
    })
}

/// A setting.
fn get<'py, T: FromPyObjectOwned<'py>>(given: &Bound<'py, PyAny>, name: &str) -> PyResult<T> {
    given.getattr(name)?.extract().map_err(Into::into)
}

/// What a setting names.
fn one_of<T, const N: usize>(given: &Bound<'_, PyAny>, name: &str, known: [(&str, T); N]) -> PyResult<T> {
    let value: String = get(given, name)?;
    let found = known.into_iter().find(|(name, _)| *name == value);
    found.map(|(_, one)| one).ok_or_else(|| PyValueError::new_err(format!("{name}: unknown value {value:?}")))
}
