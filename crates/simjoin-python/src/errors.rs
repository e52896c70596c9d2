//! Which exception does an error become?
//!
//! The classes are Python's own (`simjoin/_errors.py`): they have two bases each, so that `except ValueError`
//! works as people expect. Messages are the engine's, which names parameters as Python does.

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use simjoin::engine::Error;

/// The exception for an error of the engine.
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

/// An exception of one of our classes, by name.
pub fn raise(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let made = py
        .import("simjoin._errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1((message,)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// Turns the engine's results into Python's.
pub trait OrRaise<T> {
    /// The value, or the exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for simjoin::engine::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error))
    }
}
