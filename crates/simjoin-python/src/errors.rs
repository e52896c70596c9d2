//! Which exception does an error become?
//!
//! The classes are written in Python (`simjoin/_errors.py`). They have two bases each, so that `except ValueError`
//! works as people expect. The messages are those of the engine, with parameters named as in Python.

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use simjoin::engine::Error;

/// Returns the exception for an error of the engine.
pub fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error {
        Error::Interrupted => return PyKeyboardInterrupt::new_err(()),
        Error::Input { .. } => "InputError",
        Error::Config(_) | Error::Parameter { .. } => "UsageError",
        Error::Memory { .. } => "MemoryLimitError",
        Error::Unavailable(_) | Error::Io { .. } => "UnavailableError",
        _ => "InternalError",
    };
    raise(py, class, &error.to_string())
}

/// Returns an exception of the class with this name.
pub fn raise(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let instance = py
        .import("simjoin._errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1((message,)));
    instance.map_or_else(|error| error, PyErr::from_value)
}

/// Converts results of the engine to results of Python.
pub trait OrRaise<T> {
    /// Returns the value or raises the exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for simjoin::engine::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error))
    }
}
