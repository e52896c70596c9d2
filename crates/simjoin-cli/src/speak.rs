//! How does the program speak to a person?
//!
//! The answer goes to standard output, and it is an error where that cannot be written. Notes go to standard
//! error, and a join does not end because nobody hears them.

use simjoin::engine::{Error, Result};
use std::fmt::{Arguments, Display};
use std::io::Write;

/// Writes one line to standard output.
pub fn answer(text: &impl Display) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(|error| Error::io("standard output", error))
}

/// Writes one line, or several, to standard error.
pub fn note(text: Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
