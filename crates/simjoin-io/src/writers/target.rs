//! Where do the bytes of an output go?
//!
//! They go to a stream that is already open, directly into an existing special file (`/dev/null`, a pipe), or into a
//! temporary file in the target's folder. The temporary file is renamed at the very end, when all its bytes have reached
//! the disk. A target that is dropped before [`finish`](Target::finish) leaves nothing behind.
//!
//! A new file gets the usual permissions of new files; a file that replaces another has that file's permissions from the
//! first byte on.
//!
//! A process that is killed leaves its temporary file. A process locks its temporary file as long as it lives, so the
//! next output in the folder finds those without a lock and removes them.

use crate::path::{Compression, Destination, STANDARD_OUTPUT, shown};
use simjoin_core::{Error, Result};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, TempPath};

/// Receives the bytes of an output. It has no buffer, so callers should write large parts.
pub(super) struct Target {
    encoder: Encoder,
    /// The path of the temporary file, and the final path.
    rename: Option<(TempPath, PathBuf)>,
}

/// Compresses bytes before they are counted and written.
enum Encoder {
    Plain(Counted),
    Gzip(flate2::write::GzEncoder<Counted>),
    Zstd(zstd::stream::write::Encoder<'static, Counted>),
}

/// Writes to a file or stream, and counts the bytes.
struct Counted {
    output: OpenOutput,
    bytes: u64,
}

enum OpenOutput {
    Stdout(io::Stdout),
    Stderr(io::Stderr),
    File(File),
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.output {
            OpenOutput::Stdout(out) => out.write(bytes),
            OpenOutput::Stderr(err) => err.write(bytes),
            OpenOutput::File(file) => file.write(bytes),
        }?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.output {
            OpenOutput::Stdout(out) => out.flush(),
            OpenOutput::Stderr(err) => err.flush(),
            OpenOutput::File(file) => file.flush(),
        }
    }
}

/// Returns whether a path names an ordinary file, which may not exist yet, rather than a device, a pipe or a stream.
pub(super) fn is_ordinary(path: &Path) -> bool {
    matches!(Destination::of(path), Ok(Destination::File(_)) | Err(_))
}

/// The names of temporary files begin and end like this.
const PARTIAL: (&str, &str) = (".simjoin-", ".partial");

impl Target {
    /// Opens an output, and returns its name in messages; no path means standard output.
    pub(super) fn open(path: Option<&Path>) -> Result<(String, Target)> {
        let Some(path) = path else {
            let out = OpenOutput::Stdout(io::stdout());
            return Ok((STANDARD_OUTPUT.into(), Target::new(out, None)));
        };
        let name = shown(path);
        let os = |error| Error::io(&name, error);
        let target = match Destination::of(path).map_err(os)? {
            Destination::StandardOutput => return Target::open(None),
            Destination::StandardError => Target::new(OpenOutput::Stderr(io::stderr()), None),
            Destination::Special(place) => {
                // A stream to a file is continued at the end of the file.
                let file = OpenOptions::new().append(true).open(place).map_err(os)?;
                Target::new(OpenOutput::File(file), None)
            }
            Destination::File(place) => Target::file(&name, place)?,
        };
        Ok((name, target))
    }

    fn new(output: OpenOutput, rename: Option<(TempPath, PathBuf)>) -> Target {
        Target { encoder: Encoder::Plain(Counted { output, bytes: 0 }), rename }
    }

    /// Starts a file with the final path `place`.
    fn file(name: &str, place: PathBuf) -> Result<Target> {
        let failed = |kind, message: String| Err(Error::io(name, io::Error::new(kind, message)));
        if place.is_dir() {
            let message = "is a directory; a file name was expected".into();
            return failed(io::ErrorKind::IsADirectory, message);
        }
        let folder = match place.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            let message = format!("the folder {} does not exist", shown(folder));
            return failed(io::ErrorKind::NotFound, message);
        }
        let existing = fs::metadata(&place).ok().map(|file| file.permissions());
        // The error of tempfile names the temporary file, which the user does not know.
        let file = temporary(folder, existing.as_ref()).map_err(|error| {
            let plain = error.raw_os_error().map(io::Error::from_raw_os_error);
            Error::io(name, plain.unwrap_or_else(|| error.kind().into()))
        })?;
        let (file, temporary) = file.into_parts();
        if let Some(existing) = existing {
            file.set_permissions(existing).map_err(|error| Error::io(name, error))?;
        }
        Ok(Target::new(OpenOutput::File(file), Some((temporary, place))))
    }

    /// Adds compression to a target. Nothing may have been written to it before.
    pub(super) fn compressed(self, compression: Compression) -> io::Result<Target> {
        let encoder = match (self.encoder, compression) {
            (Encoder::Plain(raw), Compression::Gzip) => {
                Encoder::Gzip(flate2::write::GzEncoder::new(raw, flate2::Compression::new(3)))
            }
            (Encoder::Plain(raw), Compression::Zstd) => {
                Encoder::Zstd(zstd::stream::write::Encoder::new(raw, 1)?)
            }
            (encoder, _) => encoder,
        };
        Ok(Target { encoder, rename: self.rename })
    }

    /// Completes the output, and renames a file when its bytes are on the disk. Returns the size.
    pub(super) fn finish(self) -> io::Result<u64> {
        let mut raw = match self.encoder {
            Encoder::Plain(raw) => raw,
            Encoder::Gzip(encoder) => encoder.finish()?,
            Encoder::Zstd(encoder) => encoder.finish()?,
        };
        raw.flush()?;
        if let (OpenOutput::File(file), Some((temporary, place))) = (&raw.output, self.rename) {
            file.sync_all()?;
            temporary.persist(&place).map_err(|error| error.error)?;
            sync_folder(&place);
        }
        Ok(raw.bytes)
    }
}

/// Creates a temporary file, readable only by users who may read the file that it replaces. It is locked, to show that
/// its process is alive.
fn temporary(folder: &Path, existing: Option<&fs::Permissions>) -> io::Result<NamedTempFile> {
    remove_abandoned(folder);
    let mut builder = tempfile::Builder::new();
    builder.prefix(PARTIAL.0).suffix(PARTIAL.1);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = existing.map_or(0o666, |existing| existing.mode() & 0o600);
        builder.permissions(fs::Permissions::from_mode(mode));
    }
    #[cfg(not(unix))]
    let _ = existing;
    loop {
        let file = builder.tempfile_in(folder)?;
        match file.as_file().try_lock() {
            Ok(()) if is_named(file.as_file()) => return Ok(file),
            // Another process found the file before it was locked, and removes it.
            Ok(()) | Err(TryLockError::WouldBlock) => {}
            // The file system has no locks, so nothing is removed.
            Err(TryLockError::Error(_)) => return Ok(file),
        }
    }
}

/// Returns whether a file still has a name.
fn is_named(file: &File) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        file.metadata().is_ok_and(|file| file.nlink() > 0)
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        true
    }
}

/// Removes the temporary files of processes that have ended. A file that cannot be removed stays.
fn remove_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_ours = name.starts_with(PARTIAL.0) && name.ends_with(PARTIAL.1);
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let Ok(file) = OpenOptions::new().write(true).open(entry.path()) else { continue };
        // The lock is held until the file is removed. If its owner is just starting, it notices.
        if file.try_lock().is_ok() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Writes the new name to the disk. The file is complete in any case, so it is not an error if the folder cannot be
/// synchronised, as on some network file systems.
fn sync_folder(place: &Path) {
    #[cfg(unix)]
    if let Some(folder) = place.parent() {
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
    #[cfg(not(unix))]
    let _ = place;
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.encoder {
            Encoder::Plain(raw) => raw.write(bytes),
            Encoder::Gzip(encoder) => encoder.write(bytes),
            Encoder::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.encoder {
            Encoder::Plain(raw) => raw.flush(),
            Encoder::Gzip(encoder) => encoder.flush(),
            Encoder::Zstd(encoder) => encoder.flush(),
        }
    }
}
