//! How is a NumPy array stored?
//!
//! A `.npy` file begins with a magic string, a version and the text of a Python dictionary, which gives the type of the
//! numbers, their order and the shape. The numbers follow as they are in memory.
//! <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>

use crate::source::{ErrorContext, read_full};
use simjoin_core::{Error, Result};
use std::io::Read;

const MAGIC: &[u8] = b"\x93NUMPY";

/// The longest header that is accepted, in bytes. Real headers have a few hundred.
const LONGEST_HEADER: usize = 1 << 16;

/// The header of a file.
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

/// Returns the header of a file of numbers with this type, such as `<f4`, and this shape. The numbers follow it, row by
/// row.
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
    /// Reads a header. The input is then at the first number.
    pub(crate) fn read(input: &mut impl Read, context: &ErrorContext) -> Result<Self> {
        let wrong = |message: &str| Error::input(context.name(), "", message);
        let mut read = |size: usize| -> Result<Vec<u8>> {
            let mut bytes = vec![0; size];
            let filled = read_full(input, &mut bytes).map_err(|error| context.error(error))?;
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
                "the npy header is {length} bytes long; at most {LONGEST_HEADER} were expected"
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
            let missing = || format!("the npy header has no `{key}`");
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
            .ok_or("the elements of the array are structures; numbers were expected")?;
        let (big_endian, plain) = match kind.chars().next() {
            Some('<' | '|') => (false, &kind[1..]),
            Some('>') => (true, &kind[1..]),
            Some('=') => (cfg!(target_endian = "big"), &kind[1..]),
            _ => (false, kind),
        };
        let fortran = match value("fortran_order")? {
            order if order.starts_with("True") => true,
            order if order.starts_with("False") => false,
            _ => {
                let message = "`fortran_order` in the npy header is neither True nor False";
                return Err(message.into());
            }
        };
        let shape = value("shape")?
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(')'))
            .ok_or("`shape` in the npy header is not a tuple")?
            .0;
        let sizes = shape.split(',').map(str::trim).filter(|part| !part.is_empty());
        let sizes = sizes.map(|part| part.trim_end_matches('L').parse());
        let sizes = sizes.collect::<std::result::Result<_, _>>();
        let shape =
            sizes.map_err(|_| format!("the shape ({shape}) does not consist of whole numbers"))?;
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
    fn written_headers_are_read_back() {
        for (kind, shape) in [("<u4", &[7u64][..]), ("<f4", &[3, 4]), ("<f8", &[1000, 960])] {
            let written = npy_header(kind, shape);
            assert_eq!(written.len() % 64, 0);
            let context = ErrorContext::plain("x");
            let header = Header::read(&mut &written[..], &context).unwrap();
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
    fn valid_headers_are_read_and_others_refused() {
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
            ("", "has no `descr`"),
            ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}", "are structures"),
            ("{'descr': '<f4', 'shape': (3, 4)}", "`fortran_order`"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3)}", "whole numbers"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': 3}", "`shape`"),
        ] {
            let error = Header::parse(text, 9).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
