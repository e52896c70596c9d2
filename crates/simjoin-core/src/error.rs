//! Which errors are there, and who causes them?
//!
//! Every message is one line that tells people what to do. Errors of the input name the file and the place in
//! it; errors of the configuration name the parameter; errors of a missing backend say how to get it.
//!
//! Users of the command line, of Python and of Rust write the same parameter in different ways, so an error
//! carries a [`Parameter`], and each front end passes its own spelling to [`Error::message`].

use std::fmt;

/// The result of every fallible operation in simjoin.
pub type Result<T> = std::result::Result<T, Error>;

/// A parameter that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// The column of a file that is joined.
    Column,
    /// The memory that a join may use on each device.
    DeviceMemory,
    /// The format of an input file.
    Format,
    /// The column of a file that names its rows.
    Id,
    /// The memory that a join may use.
    Memory,
    /// The technique that joins.
    Technique,
    /// The number of threads.
    Threads,
    /// The number of overlaps that each row keeps.
    Top,
}

impl Parameter {
    /// Returns the name in Rust and Python, such as `device_memory`.
    pub fn name(self) -> &'static str {
        match self {
            Parameter::Column => "column",
            Parameter::DeviceMemory => "device_memory",
            Parameter::Format => "format",
            Parameter::Id => "id",
            Parameter::Memory => "memory",
            Parameter::Technique => "technique",
            Parameter::Threads => "threads",
            Parameter::Top => "top",
        }
    }
}

/// An error, classified by its cause.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The input is invalid: the file, the place in it if known
    /// (such as `line 17` or `row 3`), and what was expected.
    Input {
        /// The file as the user named it.
        path: String,
        /// The place within the file; empty for the whole file.
        place: String,
        /// The parameter that would fix the error; its name begins the message.
        parameter: Option<Parameter>,
        /// The error, and what was expected.
        message: String,
    },
    /// The value of one parameter is invalid; its name begins the message.
    Parameter {
        /// The parameter.
        parameter: Parameter,
        /// The error of the value, and what was expected.
        message: String,
    },
    /// The parameters contradict each other, or a value is invalid.
    Config(String),
    /// The operating system refused a file operation.
    Io {
        /// The file as the user named it.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The join needs more memory than is allowed.
    Memory {
        /// The data or the step that needs the memory.
        what: String,
        /// The number of bytes needed.
        needed: u64,
        /// The number of bytes allowed; `u64::MAX` if only the machine sets a limit.
        limit: u64,
        /// Whether it is the memory of a device.
        device: bool,
    },
    /// A backend that is not built in or not present on this machine, and how to get it.
    Unavailable(String),
    /// The user has interrupted the join.
    Interrupted,
    /// A bug in simjoin.
    Internal(String),
}

impl Error {
    /// Makes an error of the input at a place (`line 17`, `row 3`; empty for the whole file).
    pub fn input(
        path: impl Into<String>,
        place: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        let (path, place, message) = (path.into(), place.into(), message.into());
        Error::Input { path, place, parameter: None, message }
    }

    /// Makes an error of the input that a parameter would fix.
    pub fn input_needs(
        path: impl Into<String>,
        place: impl Into<String>,
        parameter: Parameter,
        message: impl Into<String>,
    ) -> Self {
        let (path, place, message) = (path.into(), place.into(), message.into());
        Error::Input { path, place, parameter: Some(parameter), message }
    }

    /// Makes an error of a parameter with an invalid value.
    pub fn parameter(parameter: Parameter, message: impl Into<String>) -> Self {
        Error::Parameter { parameter, message: message.into() }
    }

    /// Makes an error of the operating system on a file.
    pub fn io(path: impl Into<String>, source: std::io::Error) -> Self {
        Error::Io { path: path.into(), source }
    }

    /// Returns the message, with parameters named as a front end spells them.
    pub fn message(&self, spell: impl Fn(Parameter) -> String) -> String {
        match self {
            Error::Input { path, place, parameter, message } => {
                let separator = if place.is_empty() { "" } else { ": " };
                let parameter = parameter.map_or(String::new(), |parameter| spell(parameter) + " ");
                format!("{path}{separator}{place}: {parameter}{message}")
            }
            Error::Parameter { parameter, message } => format!("{} {message}", spell(*parameter)),
            Error::Config(message) | Error::Unavailable(message) => message.clone(),
            Error::Io { path, source } => format!("{path}: {source}"),
            Error::Memory { what, needed, limit, device } => {
                let memory = if *device { "GPU memory" } else { "memory" };
                let limit = match *limit {
                    u64::MAX => "more than this machine can give".into(),
                    limit => format!("but the limit is {limit}"),
                };
                format!("{what} needs {needed} bytes of {memory}, {limit}")
            }
            Error::Interrupted => "interrupted".into(),
            Error::Internal(message) => format!("internal error (please report it): {message}"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message(|parameter| parameter.name().into()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_front_end_spells_parameters() {
        let flag = |parameter: Parameter| format!("--{}", parameter.name().replace('_', "-"));
        let wrong = Error::parameter(Parameter::DeviceMemory, "0 is not a size");
        assert_eq!(wrong.to_string(), "device_memory 0 is not a size");
        assert_eq!(wrong.message(flag), "--device-memory 0 is not a size");
        let missing = Error::input_needs("f", "", Parameter::Column, "must name one");
        assert_eq!(missing.to_string(), "f: column must name one");
        assert_eq!(missing.message(flag), "f: --column must name one");
        let placed = Error::input_needs("f", "line 1", Parameter::Id, "needs a header");
        assert_eq!(placed.message(flag), "f: line 1: --id needs a header");
        assert_eq!(Error::input("f", "line 1", "bad").message(flag), "f: line 1: bad");
    }

    #[test]
    fn memory_without_a_limit_shows_no_number() {
        let error = |limit| {
            let error = Error::Memory { what: "a".into(), needed: 7, limit, device: false };
            error.to_string()
        };
        assert_eq!(error(5), "a needs 7 bytes of memory, but the limit is 5");
        assert_eq!(error(u64::MAX), "a needs 7 bytes of memory, more than this machine can give");
    }
}
