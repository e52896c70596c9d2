//! How is an array of NumPy's written down?
//!
//! A `.npy` file begins with a magic string, a version and the text of a Python dictionary, which says the type of the
//! numbers, their order and the shape; the numbers follow as they lie in memory.
//! <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>

use crate::source::{Explain, read_full};
use simjoin_core::{Error, Result};
use std::io::Read;

const MAGIC: &[u8] = b"\x93NUMPY";

/// Headers are a few hundred bytes long; a longer one is damage.
const LONGEST_HEADER: usize = 1 << 16;

/// What the header of a file says.
#[derive(Debug, PartialEq)]
pub(crate) struct Header {
    /// The type of the numbers without their byte order, such as `f4` or `u8`.
    pub(crate) kind: String,
    pub(crate) big_endian: bool,
    /// Whether columns rather than rows are contiguous.
    pub(crate) fortran: bool,
    pub(crate) shape: Vec<usize>,
    /// The number of bytes before the first number.
    pub(crate) bytes: u64,
}

/// Returns the beginning of a file whose numbers have this type, such as `<f4`, and this shape; the numbers follow row
/// by row.
pub fn npy_header(kind: &str, shape: &[u64]) -> Vec<u8> {
    let sizes: Vec<String> = shape.iter().map(u64::to_string).collect();
    // A tuple of one is written with a comma.
    let comma = if shape.len() == 1 { "," } else { "" };
    let text = format!(
        "{{'descr': '{kind}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        sizes.join(", ")
    );
    // Everything before the numbers is a multiple of 64 bytes and ends with a line break.
    let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
    let mut header = [MAGIC, b"\x01\x00"].concat();
    header.extend_from_slice(&(length as u16).to_le_bytes());
    header.extend_from_slice(text.as_bytes());
    header.resize(10 + length - 1, b' ');
    header.push(b'\n');
    header
}

impl Header {
    /// Reads a header; the input stands at the first number then.
    pub(crate) fn read(input: &mut impl Read, explain: &Explain) -> Result<Self> {
        let wrong = |message: &str| Error::input(explain.name(), "", message);
        let mut read = |size: usize| -> Result<Vec<u8>> {
            let mut bytes = vec![0; size];
            let filled = read_full(input, &mut bytes).map_err(|error| explain.error(error))?;
            bytes.truncate(filled);
            Ok(bytes)
        };
        let start = read(8)?;
        if start.is_empty() {
            return Err(wrong("the input is empty; an npy file was expected"));
        }
        if !start.starts_with(&MAGIC[..start.len().min(MAGIC.len())]) {
            return Err(wrong("not an npy file: it does not begin with \\x93NUMPY"));
        }
        let truncated = || wrong("the file ends within its npy header: truncated file");
        let size = match start.get(6) {
            Some(1) => 2,
            Some(2 | 3) => 4,
            Some(version) => {
                return Err(wrong(&format!("npy version {version}; 1, 2 or 3 was expected")));
            }
            None => return Err(truncated()),
        };
        let digits = read(size)?;
        if digits.len() < size {
            return Err(truncated());
        }
        let length = digits.iter().rev().fold(0usize, |all, &byte| all << 8 | usize::from(byte));
        if length > LONGEST_HEADER {
            return Err(wrong(&format!(
                "an npy header of {length} bytes is too long for an array"
            )));
        }
        let text = read(length)?;
        if text.len() < length {
            return Err(truncated());
        }
        let bytes = (8 + size + length) as u64;
        Header::parse(&String::from_utf8_lossy(&text), bytes).map_err(|message| wrong(&message))
    }

    /// Reads a dictionary such as `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
    fn parse(text: &str, bytes: u64) -> std::result::Result<Self, String> {
        let value = |key: &str| -> std::result::Result<&str, String> {
            let missing = || format!("its npy header does not say `{key}`");
            [format!("'{key}'"), format!("\"{key}\"")]
                .iter()
                .find_map(|quoted| text.split_once(quoted.as_str()))
                .and_then(|(_, after)| after.trim_start().strip_prefix(':'))
                .map(str::trim_start)
                .ok_or_else(missing)
        };
        let kind = value("descr")?
            .strip_prefix(['\'', '"'])
            .and_then(|rest| rest.split(['\'', '"']).next())
            .ok_or("its elements are records; an array of numbers was expected")?;
        let (big_endian, plain) = match kind.chars().next() {
            Some('<' | '|') => (false, &kind[1..]),
            Some('>') => (true, &kind[1..]),
            Some('=') => (cfg!(target_endian = "big"), &kind[1..]),
            _ => (false, kind),
        };
        let fortran = match value("fortran_order")? {
            order if order.starts_with("True") => true,
            order if order.starts_with("False") => false,
            _ => return Err("its npy header does not say `fortran_order`".into()),
        };
        let shape = value("shape")?
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(')'))
            .ok_or("its npy header does not say `shape`")?
            .0;
        let sizes = shape.split(',').map(str::trim).filter(|part| !part.is_empty());
        let sizes = sizes.map(|part| part.trim_end_matches('L').parse());
        let sizes = sizes.collect::<std::result::Result<_, _>>();
        let shape =
            sizes.map_err(|_| format!("its shape ({shape}) is not one of whole numbers"))?;
        Ok(Header { kind: plain.to_owned(), big_endian, fortran, shape, bytes })
    }

    /// Returns the shape as messages show it.
    pub(crate) fn shape_text(&self) -> String {
        let sizes: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        format!("({})", sizes.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_header_reads_back() {
        for (kind, shape) in [("<u4", &[7u64][..]), ("<f4", &[3, 4]), ("<f8", &[1000, 960])] {
            let written = npy_header(kind, shape);
            assert_eq!(written.len() % 64, 0);
            let explain = Explain::plain("x");
            let header = Header::read(&mut &written[..], &explain).unwrap();
            let expected = Header {
                kind: kind[1..].into(),
                big_endian: false,
                fortran: false,
                shape: shape.iter().map(|&size| size as usize).collect(),
                bytes: written.len() as u64,
            };
            assert_eq!(header, expected);
        }
    }

    #[test]
    fn headers_are_read_or_refused() {
        let header = Header::parse("{\"shape\":(5,2),'descr':'>f8','fortran_order':True}", 9);
        let expected = Header {
            kind: "f8".into(),
            big_endian: true,
            fortran: true,
            shape: vec![5, 2],
            bytes: 9,
        };
        assert_eq!(header.unwrap(), expected);
        let header = Header::parse("{'descr': '|u1', 'fortran_order': False, 'shape': ()}", 9);
        assert!(header.unwrap().shape.is_empty());
        for (text, message) in [
            ("", "does not say `descr`"),
            ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}", "are records"),
            ("{'descr': '<f4', 'shape': (3, 4)}", "`fortran_order`"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3)}", "whole numbers"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': 3}", "`shape`"),
        ] {
            let error = Header::parse(text, 9).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
