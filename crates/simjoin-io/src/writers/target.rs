//! Where do an output's bytes go?
//!
//! To standard output, straight into an existing special file (`/dev/null`, a pipe), or into a
//! temporary file beside the target that is renamed over it at the very end. A target that is
//! dropped before [`finish`](Target::finish) leaves nothing behind.
//!
//! A new file gets the permissions of any new file; one that replaces another keeps that one's.

use simjoin_core::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// Compression of the whole output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    Gzip,
    Zstd,
}

/// The receiver of an output's bytes. Writes are passed on as they come: callers buffer.
pub(super) struct Target {
    stream: Stream,
    /// The temporary file's path, and the one it is to get.
    rename: Option<(TempPath, PathBuf)>,
}

enum Stream {
    Raw(Raw),
    Gzip(flate2::write::GzEncoder<Raw>),
    Zstd(zstd::stream::write::Encoder<'static, Raw>),
}

/// The open end itself; counts what it takes.
struct Raw {
    sink: Sink,
    bytes: u64,
}

enum Sink {
    StandardOutput(io::Stdout),
    File(File),
}

impl Write for Raw {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.sink {
            Sink::StandardOutput(out) => out.write(bytes),
            Sink::File(file) => file.write(bytes),
        }?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::StandardOutput(out) => out.flush(),
            Sink::File(file) => file.flush(),
        }
    }
}

impl Target {
    pub(super) fn standard_output() -> Target {
        Target::new(Sink::StandardOutput(io::stdout()), None)
    }

    fn new(sink: Sink, rename: Option<(TempPath, PathBuf)>) -> Target {
        Target { stream: Stream::Raw(Raw { sink, bytes: 0 }), rename }
    }

    /// The path's file, if it exists and is no ordinary file. A directory is an error.
    pub(super) fn existing_special(path: &str) -> Result<Option<Target>> {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                let error = io::Error::new(
                    io::ErrorKind::IsADirectory,
                    "is a directory; a file name was expected",
                );
                Err(Error::io(path, error))
            }
            Ok(metadata) if !metadata.is_file() => {
                let file = OpenOptions::new().write(true).open(path);
                let file = file.map_err(|error| Error::io(path, error))?;
                Ok(Some(Target::new(Sink::File(file), None)))
            }
            _ => Ok(None),
        }
    }

    /// A file that will stand at this path.
    pub(super) fn file(path: &str) -> Result<Target> {
        // A link is followed, so that the link stays and the file it points to is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            let message = format!("the folder {} does not exist", folder.display());
            return Err(Error::io(path, io::Error::new(io::ErrorKind::NotFound, message)));
        }
        let mut builder = tempfile::Builder::new();
        builder.prefix(".simjoin-").suffix(".partial");
        #[cfg(unix)]
        let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666);
        #[cfg(unix)]
        builder.permissions(mode);
        // tempfile's error names the temporary file, which says nothing to the user.
        let file = builder.tempfile_in(folder).map_err(|error| {
            let plain = error.raw_os_error().map(io::Error::from_raw_os_error);
            Error::io(path, plain.unwrap_or_else(|| error.kind().into()))
        })?;
        let (file, temporary) = file.into_parts();
        if let Ok(existing) = fs::metadata(&target) {
            file.set_permissions(existing.permissions()).map_err(|error| Error::io(path, error))?;
        }
        Ok(Target::new(Sink::File(file), Some((temporary, target))))
    }

    /// The same target with compression before it. Only for a target that nothing was written to.
    pub(super) fn packed(self, packing: Packing) -> io::Result<Target> {
        let stream = match (self.stream, packing) {
            (Stream::Raw(raw), Packing::Gzip) => {
                Stream::Gzip(flate2::write::GzEncoder::new(raw, flate2::Compression::new(3)))
            }
            (Stream::Raw(raw), Packing::Zstd) => {
                Stream::Zstd(zstd::stream::write::Encoder::new(raw, 1)?)
            }
            (stream, _) => stream,
        };
        Ok(Target { stream, rename: self.rename })
    }

    /// Closes the file and gives it its name. Answers with its size.
    pub(super) fn finish(self) -> io::Result<u64> {
        let mut raw = match self.stream {
            Stream::Raw(raw) => raw,
            Stream::Gzip(encoder) => encoder.finish()?,
            Stream::Zstd(encoder) => encoder.finish()?,
        };
        raw.flush()?;
        if let Sink::File(file) = raw.sink {
            close(file)?;
        }
        if let Some((temporary, target)) = self.rename {
            temporary.persist(target).map_err(|error| error.error)?;
        }
        Ok(raw.bytes)
    }
}

/// Closes a file and hears what the system says: some report a full disk only here.
#[cfg(unix)]
fn close(file: File) -> io::Result<()> {
    nix::unistd::close(file).map_err(io::Error::from)
}

#[cfg(not(unix))]
fn close(file: File) -> io::Result<()> {
    drop(file);
    Ok(())
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Raw(raw) => raw.write(bytes),
            Stream::Gzip(encoder) => encoder.write(bytes),
            Stream::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.stream {
            Stream::Raw(raw) => raw.flush(),
            Stream::Gzip(encoder) => encoder.flush(),
            Stream::Zstd(encoder) => encoder.flush(),
        }
    }
}
