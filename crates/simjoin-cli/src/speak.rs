//! How does the program print answers and notes?
//!
//! The answer goes to standard output; a failure to write it is an error. Notes go to standard error; a failure to
//! write them is ignored.

use simjoin::engine::{Error, Result};
use simjoin_io::STANDARD_OUTPUT;
use std::fmt::{Arguments, Display};
use std::io::Write;

/// Writes one line to standard output.
pub fn answer(text: &impl Display) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(|error| Error::io(STANDARD_OUTPUT, error))
}

/// Writes one line, or several, to standard error.
pub fn note(text: Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
