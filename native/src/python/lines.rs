//! Lines of files, and the same with verdicts.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use super::values::Array;
use super::work;
use crate::lines::{add_marked, is_blank, stripped, unique};

/// The records in lines, and the numbers of their lines.
type Stripped<'py> = (Vec<Bound<'py, PyBytes>>, Vec<usize>);

#[pyfunction]
pub fn stripped_lines<'py>(py: Python<'py>, lines: Vec<Bound<'py, PyBytes>>) -> Stripped<'py> {
    let (mut records, mut numbers) = (Vec::with_capacity(lines.len()), Vec::new());
    for (number, line) in lines.into_iter().enumerate() {
        let record = stripped(line.as_bytes());
        if is_blank(record) {
            continue;
        }
        numbers.push(number);
        let is_whole = record.len() == line.as_bytes().len();
        records.push(if is_whole { line } else { PyBytes::new(py, record) });
    }
    (records, numbers)
}

#[pyfunction]
#[pyo3(signature = (lines, *, fingerprints, said, whole, outputs, is_plain))]
pub fn marked_lines<'py>(
    py: Python<'py>,
    lines: Vec<PyBackedBytes>,
    fingerprints: Array<u64>,
    said: HashMap<usize, PyBackedBytes>,
    whole: HashMap<usize, PyBackedBytes>,
    outputs: Vec<u8>,
    is_plain: bool,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let fingerprints = fingerprints.each(lines.len(), "fingerprints")?;
    if outputs.len() != lines.len() {
        return Err(PyValueError::new_err(format!("{} outputs of {} lines", outputs.len(), lines.len())));
    }
    let written = work(py, || {
        let mut written = vec![Vec::new(); outputs.iter().max().map_or(0, |&most| usize::from(most) + 1)];
        for (row, line) in lines.iter().enumerate() {
            let output = &mut written[usize::from(outputs[row])];
            match (whole.get(&row), said.get(&row)) {
                (Some(whole), _) => output.extend_from_slice(whole),
                _ if is_plain => {
                    output.extend_from_slice(line);
                    output.push(b'\n');
                }
                (None, Some(said)) => add_marked(line, said, output),
                (None, None) => add_marked(line, unique(fingerprints[row]).as_bytes(), output),
            }
        }
        written
    })?;
    Ok(written.iter().map(|written| PyBytes::new(py, written)).collect())
}
