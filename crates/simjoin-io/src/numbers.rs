//! How is one large set of numbers read?
//!
//! A set may be text (numbers separated by white space), raw 32-bit little-endian integers (`.u32`), or a
//! one-dimensional NumPy array of integers (`.npy`); each plain, gzip or zstd. Elements keep their order: the caller
//! sorts them.
//!
//! Text may hold anything else than numbers from 0 to 2³²-1: [`read_numbers`] then returns the first such word and its
//! place, and [`read_words`] can read the file as words instead.
//!
//! # Memory
//!
//! 4 bytes an element, and a block of the file.

use crate::dictionary::Vocabulary;
use crate::npy::Header;
use crate::path::ending;
use crate::read::on_one_line;
use crate::readers::lines::read_lines;
use crate::source::{self, ErrorContext, Source};
use simjoin_core::{Error, Result};
use std::io::Read;
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// The format of a set of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberFormat {
    /// Decimal numbers between white space.
    Text,
    /// Raw 32-bit little-endian integers.
    U32,
    /// A NumPy array.
    Npy,
}

impl NumberFormat {
    /// Returns the format that a path's ending stands for, without `.gz` or `.zst`.
    pub fn of_path<P: AsRef<Path> + ?Sized>(path: &P) -> Self {
        match ending(path.as_ref()).0.as_str() {
            "u32" => NumberFormat::U32,
            "npy" => NumberFormat::Npy,
            _ => NumberFormat::Text,
        }
    }
}

/// The content of a file that should hold numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// All numbers, in the order of the file.
    All(Vec<u32>),
    /// The first word that is not a number.
    Other {
        /// The line of the word, counted from 1.
        line: u64,
        /// The word, or the beginning of a long one.
        word: String,
    },
}

/// The number of bytes that are read at a time.
const BLOCK: usize = 1 << 20;

/// Reads the numbers of a file; `-` is standard input. Adds the number of bytes read from it to `bytes_read`.
pub fn read_numbers<P: AsRef<Path> + ?Sized>(path: &P, bytes_read: &AtomicU64) -> Result<Numbers> {
    let mut blocks = Blocks::new(source::open(path.as_ref(), bytes_read)?);
    match NumberFormat::of_path(path) {
        NumberFormat::Text => text(&mut blocks),
        NumberFormat::U32 => raw(&mut blocks).map(Numbers::All),
        NumberFormat::Npy => npy(&mut blocks).map(Numbers::All).map_err(on_one_line),
    }
}

/// Reads the words of a file, adds new ones to a vocabulary, and returns their numbers.
pub fn read_words<P: AsRef<Path> + ?Sized>(
    path: &P,
    vocabulary: &mut Vocabulary,
    bytes_read: &AtomicU64,
) -> Result<Vec<u32>> {
    let mut numbers = Vec::new();
    read_lines(path, bytes_read, |line, _| {
        for word in line.split_whitespace() {
            numbers.push(vocabulary.number(word)?);
        }
        Ok(())
    })?;
    Ok(numbers)
}

/// Reads an input in blocks.
struct Blocks<'a> {
    source: Source<'a>,
    context: ErrorContext,
    buffer: Vec<u8>,
}

impl<'a> Blocks<'a> {
    fn new(source: Source<'a>) -> Self {
        let context = source.context();
        Blocks { source, context, buffer: Vec::new() }
    }

    /// Appends up to a block to the buffer. Returns false at the end of the input.
    fn more(&mut self) -> Result<bool> {
        let before = self.buffer.len();
        let read = (&mut self.source).take(BLOCK as u64).read_to_end(&mut self.buffer);
        read.map_err(|error| self.context.error(error))?;
        Ok(self.buffer.len() > before)
    }
}

fn text(blocks: &mut Blocks<'_>) -> Result<Numbers> {
    let mut numbers = Vec::new();
    let mut line = 1;
    let mut first = true;
    loop {
        let more = blocks.more()?;
        let buffer = &mut blocks.buffer;
        if first && buffer.starts_with(b"\xEF\xBB\xBF") {
            buffer.drain(..3);
        }
        first = false;
        // The last word may continue in the next block.
        let end = match more {
            true => buffer.iter().rposition(u8::is_ascii_whitespace).map_or(0, |at| at + 1),
            false => buffer.len(),
        };
        if let Some(at) = parse(&buffer[..end], &mut numbers, &mut line) {
            let word = buffer[at..].split(u8::is_ascii_whitespace).next().unwrap_or_default();
            let shown: String = String::from_utf8_lossy(word).chars().take(60).collect();
            return Ok(Numbers::Other { line, word: shown.escape_debug().to_string() });
        }
        buffer.drain(..end);
        if !more {
            return Ok(Numbers::All(numbers));
        }
        // A word as long as a block is no supported number.
        if buffer.len() >= BLOCK {
            let shown = String::from_utf8_lossy(&buffer[..60]).escape_debug().to_string();
            return Ok(Numbers::Other { line, word: shown });
        }
    }
}

/// Adds the numbers of whole words and counts lines. Returns the start of the first word that is not a number.
fn parse(bytes: &[u8], numbers: &mut Vec<u32>, line: &mut u64) -> Option<usize> {
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if byte.is_ascii_whitespace() {
            *line += u64::from(byte == b'\n');
            at += 1;
            continue;
        }
        let start = at;
        let mut value = 0u64;
        while at < bytes.len() && bytes[at].is_ascii_digit() {
            // Limits the value, which is then refused, so that it cannot overflow.
            value = (value * 10 + u64::from(bytes[at] - b'0')).min(1 << 33);
            at += 1;
        }
        if at == start || (at < bytes.len() && !bytes[at].is_ascii_whitespace()) {
            return Some(start);
        }
        match u32::try_from(value) {
            Ok(value) => numbers.push(value),
            Err(_) => return Some(start),
        }
    }
    None
}

fn raw(blocks: &mut Blocks<'_>) -> Result<Vec<u32>> {
    let mut numbers = Vec::new();
    while blocks.more()? {
        drain_elements::<4>(&mut blocks.buffer, |bytes| {
            numbers.push(u32::from_le_bytes(bytes));
            Ok(())
        })?;
    }
    if !blocks.buffer.is_empty() {
        let bytes = 4 * numbers.len() + blocks.buffer.len();
        return Err(Error::input(
            blocks.context.name(),
            "",
            format!(
                "{bytes} bytes are not a multiple of 4: the file is truncated, or does not hold 32-bit integers"
            ),
        ));
    }
    Ok(numbers)
}

/// Removes all whole elements from the front of a buffer and calls `each` with them.
fn drain_elements<const N: usize>(
    buffer: &mut Vec<u8>,
    mut each: impl FnMut([u8; N]) -> Result<()>,
) -> Result<()> {
    let (whole, _) = buffer.as_chunks::<N>();
    let end = N * whole.len();
    for &bytes in whole {
        each(bytes)?;
    }
    buffer.drain(..end);
    Ok(())
}

fn npy(blocks: &mut Blocks<'_>) -> Result<Vec<u32>> {
    let name = blocks.context.name().to_owned();
    let wrong = |message: String| Error::input(&name, "", message);
    let header = Header::read(&mut blocks.source, &blocks.context)?;
    let [count] = header.shape[..] else {
        let shape = header.shape_text();
        return Err(wrong(format!("the array has shape {shape}; one dimension was expected")));
    };
    let mut numbers: Vec<u32> = Vec::new();
    let mut push = |value: i128| {
        let number = u32::try_from(value).map_err(|_| {
            Error::input(
                &name,
                format!("element {}", numbers.len()),
                format!("{value} is not supported; expected a number from 0 to {}", u32::MAX),
            )
        })?;
        numbers.push(number);
        Ok(())
    };
    loop {
        let more = blocks.more()?;
        macro_rules! push_all {
            ($type:ty) => {
                drain_elements::<{ size_of::<$type>() }>(&mut blocks.buffer, |bytes| {
                    let value = if header.big_endian {
                        <$type>::from_be_bytes(bytes)
                    } else {
                        <$type>::from_le_bytes(bytes)
                    };
                    push(i128::from(value))
                })?
            };
        }
        match header.kind.as_str() {
            "u1" => push_all!(u8),
            "u2" => push_all!(u16),
            "u4" => push_all!(u32),
            "u8" => push_all!(u64),
            "i1" => push_all!(i8),
            "i2" => push_all!(i16),
            "i4" => push_all!(i32),
            "i8" => push_all!(i64),
            kind => {
                return Err(wrong(format!(
                    "the array has numbers of type `{kind}`; integers (u1 to u8, i1 to i8) were expected"
                )));
            }
        }
        if !more {
            break;
        }
    }
    if numbers.len() != count || !blocks.buffer.is_empty() {
        let found = numbers.len();
        return Err(wrong(format!(
            "the npy header announces {count} elements, but {found} follow: truncated or damaged file"
        )));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npy::npy_header;
    use proptest::prelude::*;

    fn read(name: &str, bytes: &[u8]) -> std::result::Result<Numbers, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let read = read_numbers(path.to_str().unwrap(), &AtomicU64::new(0));
        read.map_err(|error| error.to_string())
    }

    fn all(name: &str, bytes: &[u8]) -> Vec<u32> {
        match read(name, bytes) {
            Ok(Numbers::All(numbers)) => numbers,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn text_holds_numbers_between_white_space() {
        let wanted = [3, 1, 4_294_967_295, 0, 7];
        assert_eq!(all("a.txt", b"\xEF\xBB\xBF3 1\n\n 4294967295\t0\r\n007"), wanted);
        assert!(all("a.txt", b"").is_empty());
        assert!(all("a.txt", b" \n ").is_empty());
        for (bytes, at, word) in [
            (&b"1 2\n3 4294967296\n"[..], 2, "4294967296"),
            (b"1 -2", 1, "-2"),
            (b"1\n\nbread 2", 3, "bread"),
            (b"1.5", 1, "1.5"),
            (b"99999999999999999999999999", 1, "99999999999999999999999999"),
            (b"1 \xff\x01 2", 1, "\u{fffd}\\u{1}"),
        ] {
            let other = Numbers::Other { line: at, word: word.to_owned() };
            assert_eq!(read("a", bytes), Ok(other));
        }
        // Words that cross the ends of blocks.
        let long: String = (0..400_000u32).map(|n| format!("{n} ")).collect();
        assert!(long.len() > 2 * BLOCK);
        assert_eq!(all("a", long.as_bytes()), (0..400_000).collect::<Vec<_>>());
        let word = vec![b'1'; 3 * BLOCK];
        assert!(matches!(read("a", &word), Ok(Numbers::Other { line: 1, .. })));
    }

    #[test]
    fn raw_numbers_and_arrays_are_read_alike() {
        let numbers = [5u32, 0, u32::MAX, 70_000];
        let raw: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        assert_eq!(all("a.u32", &raw), numbers);
        let mut npy = npy_header("<u4", &[4]);
        npy.extend_from_slice(&raw);
        assert_eq!(all("a.npy", &npy), numbers);
        assert_eq!(all("a.u32.zst", &zstd::encode_all(&raw[..], 1).unwrap()), numbers);
        assert!(all("a.U32", b"").is_empty());
        for (kind, bytes) in [
            ("<i8", numbers.map(|n| i64::from(n).to_le_bytes().to_vec()).concat()),
            (">u8", numbers.map(|n| u64::from(n).to_be_bytes().to_vec()).concat()),
            (">u4", numbers.map(|n| n.to_be_bytes().to_vec()).concat()),
        ] {
            let header = npy_header(kind, &[4])[10..].to_vec();
            let mut npy = b"\x93NUMPY\x02\x00".to_vec();
            npy.extend_from_slice(&(header.len() as u32).to_le_bytes());
            npy.extend_from_slice(&header);
            npy.extend_from_slice(&bytes);
            assert_eq!(all("a.npy", &npy), numbers, "{kind}");
        }
    }

    #[test]
    fn errors_in_damaged_files_name_the_file() {
        let with = |kind: &str, shape: &str, bytes: &[u8]| {
            let header = format!("{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}");
            let mut npy = b"\x93NUMPY\x01\x00".to_vec();
            npy.extend_from_slice(&(header.len() as u16).to_le_bytes());
            npy.extend_from_slice(header.as_bytes());
            npy.extend_from_slice(bytes);
            npy
        };
        for (name, bytes, part) in [
            ("a.u32", b"12345".to_vec(), "5 bytes are not a multiple of 4"),
            ("a.npy", b"".to_vec(), "the input is empty; an npy file was expected"),
            ("a.npy", b"12345678".to_vec(), "not an npy file"),
            ("a.npy", b"\x93NUM".to_vec(), "truncated"),
            ("a.npy", b"\x93NUMPY\x09\x00".to_vec(), "npy version 9"),
            ("a.npy", with("'<f4'", "(1,)", &[0; 4]), "type `f4`; integers"),
            ("a.npy", with("[('a', '<u4')]", "(1,)", &[0; 4]), "structures"),
            ("a.npy", with("'<u4'", "(1, 1)", &[0; 4]), "shape (1, 1); one dimension"),
            ("a.npy", with("'<u4'", "(2,)", &[0; 4]), "2 elements, but 1"),
            ("a.npy", with("'<i4'", "(2,)", &[255; 8]), "element 0: -1"),
            ("a.npy", with("'<u8'", "(1,)", &[1; 8]), "from 0 to 4294967295"),
            ("a.npy", with("'<\n4'", "(1,)", &[0; 4]), "`\\n4`"),
            ("a.npy", with("''", "(1,)", &[0; 4]), "type ``"),
            ("a.npy", with("'é'", "(1,)", &[0; 4]), "type `é`"),
        ] {
            let error = read(name, &bytes).unwrap_err();
            assert!(error.contains(part) && error.contains(name), "{error}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_are_read_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..120),
            magic in any::<bool>(),
        ) {
            let bytes = if magic { [&b"\x93NUMPY\x01\x00\x20\x00"[..], &bytes].concat() } else { bytes };
            for name in ["a.npy", "a.u32", "a.txt"] {
                if let Err(error) = read(name, &bytes) {
                    prop_assert!(!error.contains('\n'), "{}", error);
                }
            }
        }
    }
}
