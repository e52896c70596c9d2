//! Where do the bytes of an input come from?
//!
//! A [`Source`] is a file or standard input. It is decompressed if it begins with the magic bytes of gzip or zstd (all
//! members, all frames). [`open_seekable`] returns a real file for the formats that need random access; other inputs
//! are first copied to an unnamed temporary file. The bytes read from the input itself are counted for progress.

use crate::path::{Compression, display_name, is_standard};
use simjoin_core::{Error, Result};
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

impl Compression {
    /// Returns the compression of data that begins with these bytes.
    fn of_magic(head: &[u8]) -> Compression {
        match head {
            [0x1F, 0x8B, ..] => Compression::Gzip,
            // A zstd frame, or a skippable frame before one.
            [0x28, 0xB5, 0x2F, 0xFD] | [0x50..=0x5F, 0x2A, 0x4D, 0x18] => Compression::Zstd,
            [0xFD, b'7', b'z', b'X'] => Compression::Xz,
            _ => Compression::None,
        }
    }
}

/// Reads the decompressed bytes of an input.
pub(crate) struct Source<'a> {
    reader: Box<dyn Read + Send + 'a>,
    context: ErrorContext,
}

/// The name and the compression of an input, for errors while it is read.
#[derive(Clone)]
pub(crate) struct ErrorContext {
    name: String,
    compression: Compression,
}

impl ErrorContext {
    /// Describes an input that is not compressed.
    #[cfg(test)]
    pub(crate) fn plain(name: &str) -> Self {
        ErrorContext { name: name.to_owned(), compression: Compression::None }
    }

    /// Returns the name of the input in messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the bytes are decompressed.
    pub(crate) fn is_compressed(&self) -> bool {
        self.compression != Compression::None
    }

    /// Turns a reading error into an error of the operating system, or of data that cannot be decompressed.
    pub(crate) fn error(&self, error: io::Error) -> Error {
        let kind = match self.compression {
            _ if error.raw_os_error().is_some() => return Error::io(&self.name, error),
            Compression::None | Compression::Xz => return Error::io(&self.name, error),
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        };
        if error.kind() == io::ErrorKind::UnexpectedEof {
            Error::input(&self.name, "", format!("the {kind} data ends too early: truncated file"))
        } else {
            Error::input(&self.name, "", format!("corrupt {kind} data: {error}"))
        }
    }
}

impl Source<'_> {
    /// Returns the context for errors of [`Read`].
    pub(crate) fn context(&self) -> ErrorContext {
        self.context.clone()
    }
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

/// Counts the bytes that are read.
struct Counting<'a, R> {
    inner: R,
    bytes: &'a AtomicU64,
}

impl<R: Read> Read for Counting<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Opens a file; refuses directories.
fn open_file(path: &Path) -> Result<File> {
    let os = |error| Error::io(display_name(path), error);
    let file = File::open(path).map_err(os)?;
    if file.metadata().map_err(os)?.is_dir() {
        return Err(Error::input(display_name(path), "", "is a directory; a file was expected"));
    }
    Ok(file)
}

/// Fills a buffer and returns the number of bytes read, which is smaller only at the end of the input.
pub(crate) fn read_full(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads the first bytes and returns their number, which is smaller only if the input has no more.
fn read_head(reader: &mut impl Read) -> io::Result<([u8; 4], usize)> {
    let mut head = [0; 4];
    let filled = read_full(reader, &mut head)?;
    Ok((head, filled))
}

/// Opens an input for reading from start to end; `-` is standard input.
pub(crate) fn open<'a>(path: &Path, bytes: &'a AtomicU64) -> Result<Source<'a>> {
    let name = display_name(path);
    if is_standard(path) {
        return decompress(io::stdin(), &name, bytes);
    }
    decompress(open_file(path)?, &name, bytes)
}

fn decompress<'a>(
    inner: impl Read + Send + 'a,
    name: &str,
    bytes: &'a AtomicU64,
) -> Result<Source<'a>> {
    let mut raw = Counting { inner, bytes };
    let (head, filled) = read_head(&mut raw).map_err(|error| Error::io(name, error))?;
    let compression = Compression::of_magic(&head[..filled]);
    let context = ErrorContext { name: name.to_owned(), compression };
    let raw = Cursor::new(head).take(filled as u64).chain(raw);
    let reader: Box<dyn Read + Send + 'a> = match compression {
        Compression::None => Box::new(raw),
        Compression::Xz => {
            let message = "xz compression is not supported; expected plain data, gzip or zstd \
                           (`xz -dc` decompresses to standard output)";
            return Err(Error::input(name, "", message));
        }
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(
            BufReader::with_capacity(256 * 1024, raw),
        )),
        Compression::Zstd => {
            let mut decoder =
                zstd::stream::read::Decoder::new(raw).map_err(|error| Error::io(name, error))?;
            decoder.window_log_max(31).map_err(|error| Error::io(name, error))?;
            Box::new(decoder)
        }
    };
    Ok(Source { reader, context })
}

/// A file that can be read at any position.
pub(crate) struct Seekable {
    /// The file, at its start.
    pub(crate) file: File,
    /// The length of the file.
    pub(crate) length: u64,
    /// Whether its bytes have already been counted, because it is a temporary copy.
    pub(crate) counted: bool,
}

/// Opens an input for reading at any position of its decompressed bytes.
pub(crate) fn open_seekable(path: &Path, bytes: &AtomicU64) -> Result<Seekable> {
    let name = display_name(path);
    if !is_standard(path) {
        let mut file = open_file(path)?;
        let os = |error| Error::io(&name, error);
        let metadata = file.metadata().map_err(os)?;
        if metadata.is_file() {
            let (head, filled) = read_head(&mut file).map_err(os)?;
            if Compression::of_magic(&head[..filled]) == Compression::None {
                file.seek(SeekFrom::Start(0)).map_err(os)?;
                return Ok(Seekable { file, length: metadata.len(), counted: false });
            }
        }
    }
    let mut source = open(path, bytes)?;
    let copy_error = |error: io::Error| {
        Error::io(format!("temporary copy of {name} in {}", std::env::temp_dir().display()), error)
    };
    let mut file = tempfile::tempfile().map_err(copy_error)?;
    let mut buffer = vec![0; 1 << 20];
    let mut length = 0;
    loop {
        match source.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                io::Write::write_all(&mut file, &buffer[..read]).map_err(copy_error)?;
                length += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(source.context.error(error)),
        }
    }
    file.seek(SeekFrom::Start(0)).map_err(copy_error)?;
    Ok(Seekable { file, length, counted: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn read(data: &[u8]) -> (Result<Vec<u8>>, u64) {
        let bytes = AtomicU64::new(0);
        let result = decompress(data, "x", &bytes).and_then(|mut source| {
            let mut out = Vec::new();
            let context = source.context();
            source.read_to_end(&mut out).map_err(|error| context.error(error))?;
            Ok(out)
        });
        (result, bytes.into_inner())
    }

    #[test]
    fn plain_and_compressed_data_are_read_alike() {
        let text: Vec<u8> = (0..20_000u32).flat_map(|n| format!("{n}\n").into_bytes()).collect();
        let zst = zstd::encode_all(&text[..], 1).unwrap();
        for packed in [text.clone(), gzip(&text), zst] {
            let (read, count) = read(&packed);
            assert!(read.unwrap() == text);
            assert_eq!(count, packed.len() as u64);
        }
    }

    #[test]
    fn all_members_and_all_frames_are_read() {
        let both = [gzip(b"one\n"), gzip(b"two\n")].concat();
        assert_eq!(read(&both).0.unwrap(), b"one\ntwo\n");
        let frames = [&b"one\n"[..], b"two\n"].map(|part| zstd::encode_all(part, 1).unwrap());
        assert_eq!(read(&frames.concat()).0.unwrap(), b"one\ntwo\n");
        let skippable = [&[0x50, 0x2A, 0x4D, 0x18, 2, 0, 0, 0, 9, 9], &frames[0][..]].concat();
        assert_eq!(read(&skippable).0.unwrap(), b"one\n");
    }

    #[test]
    fn errors_in_truncated_and_corrupt_data_name_the_compression() {
        let text = vec![b'a'; 100_000];
        let cut = gzip(&text);
        let error = read(&cut[..cut.len() - 3]).0.unwrap_err().to_string();
        assert_eq!(error, "x: the gzip data ends too early: truncated file");
        let cut = zstd::encode_all(&text[..], 1).unwrap();
        let error = read(&cut[..cut.len() - 3]).0.unwrap_err().to_string();
        assert_eq!(error, "x: the zstd data ends too early: truncated file");
        let mut bad = gzip(b"hello hello hello");
        let last = bad.len() - 6;
        bad[last] ^= 0x55;
        let error = read(&bad).0.unwrap_err().to_string();
        assert!(error.starts_with("x: corrupt gzip data: "), "{error}");
        for short in [&b""[..], b"a", b"\x1f", b"(\xb5/"] {
            assert_eq!(read(short).0.unwrap(), short);
        }
    }
}
