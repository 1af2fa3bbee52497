//! Arrays and texts, from Python and for it. Numbers travel as little-endian arrays.

use std::ops::Deref;

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyString};

/// Numbers from Python: a copy of its array.
pub struct Array<T>(Vec<T>);

impl<'a, 'py, T: Element> FromPyObject<'a, 'py> for Array<T> {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        PyBuffer::<T>::get(&given)?.to_vec(given.py()).map(Self)
    }
}

impl<T> Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Copy> Array<T> {
    /// All of them.
    pub fn all(self) -> Vec<T> {
        self.0
    }

    /// Numbers of which each thing has so many.
    pub fn whole(self, each: usize, name: &str) -> PyResult<Vec<T>> {
        whole(self.0, each, name)
    }

    /// One number for each of so many things.
    pub fn each(self, count: usize, name: &str) -> PyResult<Vec<T>> {
        self.sized(count, 1, name)
    }

    /// Numbers of so many things, each of which has as many.
    pub fn sized(self, count: usize, each: usize, name: &str) -> PyResult<Vec<T>> {
        if self.len() != count * each {
            return Err(PyValueError::new_err(format!("{} numbers of {name} for {count}", self.len())));
        }
        Ok(self.0)
    }
}

/// Numbers of which each thing has so many.
pub fn whole<T>(numbers: Vec<T>, each: usize, name: &str) -> PyResult<Vec<T>> {
    if each == 0 || numbers.len() % each != 0 {
        return Err(PyValueError::new_err(format!("{} numbers of {name}: each has {each}", numbers.len())));
    }
    Ok(numbers)
}

/// Numbers as bytes, one after the other.
pub fn bytes_of<const EACH: usize>(numbers: impl Iterator<Item = [u8; EACH]>) -> Vec<u8> {
    numbers.collect::<Vec<_>>().into_flattened()
}

/// A text from Python.
pub enum Given {
    Whole(PyBackedStr),
    /// In generalized UTF-8.
    Halves(Vec<u8>),
}

impl Given {
    pub fn of(text: &Bound<'_, PyString>) -> PyResult<Self> {
        if let Ok(whole) = PyBackedStr::try_from(text.clone()) {
            return Ok(Self::Whole(whole));
        }
        // Not the method of the text: a class of strings may have another one.
        let encoded = text.py().get_type::<PyString>().call_method1("encode", (text, "utf-8", "surrogatepass"))?;
        Ok(Self::Halves(encoded.cast::<PyBytes>()?.as_bytes().to_vec()))
    }

    /// In generalized UTF-8.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Whole(text) => text.as_bytes(),
            Self::Halves(bytes) => bytes,
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Given {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Self::of(&*given.cast::<PyString>()?)
    }
}

/// A text in generalized UTF-8, for Python.
pub fn text<'py>(py: Python<'py>, text: &[u8]) -> PyResult<Bound<'py, PyString>> {
    match std::str::from_utf8(text) {
        Ok(text) => Ok(PyString::new(py, text)),
        Err(_) => PyString::from_encoded_object(&PyBytes::new(py, text), Some(c"utf-8"), Some(c"surrogatepass")),
    }
}
