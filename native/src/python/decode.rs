//! Bytes that are read: records to the fields of articles, texts with markup, log records.

use std::borrow::Cow;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyString, PyTuple};

use super::values::{Given, text};
use super::{caught, work};
use crate::batches::{Batch, Format};
use crate::decode::html;
use crate::decode::paths::{Path, Step, Value};
use crate::decode::{self, Kind, MOST_ID_BYTES, MOST_LEVELS, Operation, Reason};
use crate::panics;

/// Why there is no article: see `said`.
pub type Said<'py> = (&'static str, usize, usize, Bound<'py, PyString>, &'static str);
/// Id, texts, scope, and why there is no article.
type Decoded<'py> = (Bound<'py, PyAny>, Bound<'py, PyTuple>, Option<Bound<'py, PyString>>, Option<Said<'py>>);

/// The name of a field, and the steps of its path.
type GivenPath = (Vec<u8>, Vec<Option<GivenStep>>);

/// A member or an element; none stands for all elements.
#[derive(FromPyObject)]
pub enum GivenStep {
    Element(usize),
    Key(Vec<u8>),
}

fn path((name, steps): GivenPath, takes_lists: bool) -> Path {
    let step = |step| match step {
        None => Step::All,
        Some(GivenStep::Element(at)) => Step::Element(at),
        Some(GivenStep::Key(key)) => Step::Key(key),
    };
    Path { name, steps: steps.into_iter().map(step).collect(), takes_lists }
}

#[pyclass(frozen, module = "_native", name = "Format")]
pub struct PyFormat(pub decode::Format);

#[pymethods]
impl PyFormat {
    #[new]
    #[pyo3(signature = (*, is_json, most_bytes, id_field, scope_field, text_fields, may_lack_texts, key_field = None,
        takes_deletes = false, operation = None))]
    #[expect(clippy::too_many_arguments, reason = "by name")]
    fn new(
        is_json: bool,
        most_bytes: usize,
        id_field: GivenPath,
        scope_field: Option<GivenPath>,
        text_fields: Vec<GivenPath>,
        may_lack_texts: bool,
        key_field: Option<GivenPath>,
        takes_deletes: bool,
        operation: Option<(GivenPath, Vec<u8>, GivenPath)>,
    ) -> Self {
        let operation = operation.map(|(at, says, id)| Operation { at: path(at, false), says, id: path(id, false) });
        Self(decode::Format {
            is_json,
            most_bytes,
            id: path(id_field, false),
            scope: scope_field.map(|field| path(field, false)),
            texts: text_fields.into_iter().map(|field| path(field, true)).collect(),
            may_lack_texts,
            key: key_field.map(|field| path(field, false)),
            takes_deletes,
            operation,
        })
    }

    fn has_text(&self, py: Python<'_>, value: PyBackedBytes) -> PyResult<bool> {
        work(py, || self.0.has_text(&value))
    }

    fn key_id<'py>(&self, py: Python<'py>, key: Option<PyBackedBytes>) -> PyResult<Option<Bound<'py, PyString>>> {
        work(py, || self.0.key_id(key.as_deref()))?.map(|id| text(py, &id)).transpose()
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

/// What is at a path that leads to one value: its kind, and a text or a number as it is written.
#[pyfunction]
pub fn field<'py>(
    py: Python<'py>,
    value: PyBackedBytes,
    at: GivenPath,
) -> PyResult<Option<(&'static str, Bound<'py, PyString>)>> {
    let path = path(at, false);
    let values = caught(|| decode::values(&value, std::iter::once(&path)))?;
    let found = values.ok().and_then(|mut values| values.pop()?.pop());
    let told = match found {
        None => return Ok(None),
        Some(Value::Text(written)) => (Kind::Text.name(), text(py, &written.text())?),
        Some(Value::Number(number)) => (Kind::Number.name(), text(py, number.written().as_bytes())?),
        Some(Value::Boolean(_)) => (Kind::Boolean.name(), PyString::intern(py, "")),
        Some(Value::Other(kind)) => (kind.name(), PyString::intern(py, "")),
        Some(Value::List) => (Kind::Array.name(), PyString::intern(py, "")),
    };
    Ok(Some(told))
}

/// The id at a path; none where there is no text and no number.
#[pyfunction]
pub fn field_id(py: Python<'_>, value: PyBackedBytes, at: GivenPath) -> PyResult<Option<Bound<'_, PyString>>> {
    let path = path(at, false);
    let values = caught(|| decode::values(&value, std::iter::once(&path)))?.unwrap_or_default();
    let id = values.first().and_then(|values| decode::name(values).ok().flatten());
    id.map(|id| text(py, &id)).transpose()
}

#[pyfunction]
pub fn quoted_names<'py>(py: Python<'py>, value: PyBackedBytes, names: Vec<GivenPath>) -> PyResult<Bound<'py, PyAny>> {
    let names: Vec<_> = names.into_iter().map(|name| path(name, false)).collect();
    match work(py, || decode::quoted_names(&value, &names))? {
        Ok(object) => PyBytes::new(py, &object).into_bound_py_any(py),
        Err(reason) => said(py, reason, None)?.into_bound_py_any(py),
    }
}

/// What the text of a reason says: its name in `core/reasons.py`, a size or position, a limit, fields, a kind.
pub fn said<'py>(py: Python<'py>, reason: Reason, format: Option<&decode::Format>) -> PyResult<Said<'py>> {
    let names = |paths: &[Path]| paths.iter().map(|path| path.name.clone()).collect::<Vec<_>>();
    let texts = || format.map_or(Vec::new(), |format| names(&format.texts));
    let none = Vec::new;
    let (name, number, limit, fields, kind) = match reason {
        Reason::Tombstone => ("TOMBSTONE", 0, 0, none(), None),
        Reason::Delete => ("DELETE", 0, 0, none(), None),
        Reason::DeleteWithoutId => ("DELETE_WITHOUT_ID", 0, 0, none(), None),
        Reason::TooLong(size) => ("TOO_LONG", size, format.map_or(0, |format| format.most_bytes), none(), None),
        Reason::TooDeep => ("TOO_DEEP", 0, MOST_LEVELS, none(), None),
        Reason::NotUtf8(at) => ("NOT_UTF8", at, 0, none(), None),
        Reason::NotJson => ("NOT_JSON", 0, 0, none(), None),
        Reason::NotObject(kind) => ("NOT_OBJECT", 0, 0, none(), Some(kind)),
        Reason::NotId(kind) => {
            ("NOT_ID", 0, 0, format.map_or(none(), |format| vec![format.id.name.clone()]), Some(kind))
        }
        Reason::NotDeleteId(kind) => {
            let operation = format.and_then(|format| format.operation.as_ref());
            ("NOT_ID", 0, 0, operation.map(|one| one.id.name.clone()).into_iter().collect(), Some(kind))
        }
        Reason::LongId(size) => ("LONG_ID", size, MOST_ID_BYTES, none(), None),
        Reason::NoText if format.is_some_and(|format| format.may_lack_texts) => ("NO_TEXTS", 0, 0, texts(), None),
        Reason::NoText => ("NO_TEXT", 0, 0, texts(), None),
        Reason::NotText(at, kind) => ("NOT_TEXT", 0, 0, texts().split_off(at)[..1].to_vec(), Some(kind)),
        Reason::NotScope(kind) => {
            let scope = format.and_then(|format| format.scope.clone());
            ("NOT_SCOPE", 0, 0, scope.map(|scope| scope.name).into_iter().collect(), Some(kind))
        }
        Reason::EmptyText => ("EMPTY_TEXT", 0, 0, none(), None),
        Reason::Defect => ("DEFECT", 0, 0, none(), None),
    };
    Ok((name, number, limit, text(py, &fields.join(&b", "[..]))?, kind.map_or("", Kind::name)))
}

#[pyfunction]
#[pyo3(signature = (html, *, marks_quotes=false))]
pub fn text_of_html(html: Bound<'_, PyString>, marks_quotes: bool) -> PyResult<Bound<'_, PyString>> {
    without(html, |html| html::text_of(html, marks_quotes))
}

#[pyfunction]
#[pyo3(signature = (text, *, is_html, entities, tags))]
pub fn readable(text: Bound<'_, PyString>, is_html: bool, entities: bool, tags: bool) -> PyResult<Bound<'_, PyString>> {
    without(text, |text| decode::readable::readable(text, is_html, entities, tags))
}

/// What a step leaves of a text; the same object if it is all of it.
fn without<'py>(
    given: Bound<'py, PyString>,
    step: impl FnOnce(&[u8]) -> Cow<'_, [u8]> + Send,
) -> PyResult<Bound<'py, PyString>> {
    let bytes = Given::of(&given)?;
    let made = work(given.py(), || match step(bytes.bytes()) {
        Cow::Borrowed(_) => None,
        Cow::Owned(made) => Some(made),
    })?;
    made.map_or_else(|| Ok(given.clone()), |made| text(given.py(), &made))
}

/// What a plain batch says of itself, and how many bytes of texts it has; see the stub.
type BatchFacts = (usize, bool, i64, i32, usize, usize, bool, usize, usize);

#[pyclass(frozen, get_all, module = "_native")]
pub struct JoinedBatches {
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
pub fn join_batches(
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
