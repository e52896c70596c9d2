//! Who is to blame when something goes wrong?
//!
//! Every message is one line that a person can act on. Bad input names the file and the place in
//! it; configuration errors name the option; a missing backend says how to get it.

use std::fmt;

/// The result of every fallible operation in simjoin.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, and whose doing it is.
#[derive(Debug)]
pub enum Error {
    /// The input is not what it should be: the file, the place in it where known
    /// (such as `line 17` or `row 3`), and what was expected.
    Input {
        /// The file as the user named it.
        path: String,
        /// The place within the file, empty when the whole file is meant.
        place: String,
        /// What is wrong and what was expected.
        message: String,
    },
    /// The options contradict each other or a value does not fit.
    Config(String),
    /// The operating system refused a file operation.
    Io {
        /// The file as the user named it.
        path: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// More memory is needed than is allowed.
    Memory {
        /// What needs the memory.
        what: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes allowed.
        limit: u64,
        /// Whether it is the memory of a device.
        device: bool,
    },
    /// A backend that is not built in or not present on this machine, and how to get it.
    Unavailable(String),
    /// The user asked to stop.
    Interrupted,
    /// A promise inside simjoin was broken: a bug.
    Internal(String),
}

impl Error {
    /// Bad input at a place (`line 17`, `row 3`; empty for the whole file).
    pub fn input(
        path: impl Into<String>,
        place: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Error::Input { path: path.into(), place: place.into(), message: message.into() }
    }

    /// An operating-system error on a file.
    pub fn io(path: impl Into<String>, source: std::io::Error) -> Self {
        Error::Io { path: path.into(), source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Input { path, place, message } if place.is_empty() => {
                write!(f, "{path}: {message}")
            }
            Error::Input { path, place, message } => write!(f, "{path}: {place}: {message}"),
            Error::Config(message) | Error::Unavailable(message) => f.write_str(message),
            Error::Io { path, source } => write!(f, "{path}: {source}"),
            Error::Memory { what, needed, limit, device } => {
                let memory = if *device { "GPU memory" } else { "memory" };
                write!(f, "{what} needs {needed} bytes of {memory}, but the limit is {limit}")
            }
            Error::Interrupted => f.write_str("interrupted"),
            Error::Internal(message) => write!(f, "internal error (please report it): {message}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
