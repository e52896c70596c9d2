//! Where do an output's bytes go?
//!
//! To a stream that is open already, straight into an existing special file (`/dev/null`, a pipe), or into a
//! temporary file in the target's folder that is renamed over it at the very end, when all its bytes have reached the
//! disk. A target that is dropped before [`finish`](Target::finish) leaves nothing behind.
//!
//! A new file gets the permissions of any new file; one that replaces another keeps that one's, from the first byte on.
//!
//! A process that is killed leaves its temporary file. Such a file is locked for as long as its process lives, so the
//! next output in the folder finds those that are not and removes them.

use crate::path::{Destination, Packing, STANDARD_OUTPUT, shown};
use simjoin_core::{Error, Result};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, TempPath};

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
    StandardError(io::Stderr),
    File(File),
}

impl Write for Raw {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.sink {
            Sink::StandardOutput(out) => out.write(bytes),
            Sink::StandardError(err) => err.write(bytes),
            Sink::File(file) => file.write(bytes),
        }?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::StandardOutput(out) => out.flush(),
            Sink::StandardError(err) => err.flush(),
            Sink::File(file) => file.flush(),
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
    /// Opens an output, and says what messages call it; no path means standard output.
    pub(super) fn open(path: Option<&Path>) -> Result<(String, Target)> {
        let Some(path) = path else {
            let out = Sink::StandardOutput(io::stdout());
            return Ok((STANDARD_OUTPUT.into(), Target::new(out, None)));
        };
        let name = shown(path);
        let os = |error| Error::io(&name, error);
        let target = match Destination::of(path).map_err(os)? {
            Destination::StandardOutput => return Target::open(None),
            Destination::StandardError => Target::new(Sink::StandardError(io::stderr()), None),
            Destination::Special(place) => {
                // A stream that leads to a file goes on at its end.
                let file = OpenOptions::new().append(true).open(place).map_err(os)?;
                Target::new(Sink::File(file), None)
            }
            Destination::File(place) => Target::file(&name, place)?,
        };
        Ok((name, target))
    }

    fn new(sink: Sink, rename: Option<(TempPath, PathBuf)>) -> Target {
        Target { stream: Stream::Raw(Raw { sink, bytes: 0 }), rename }
    }

    /// Starts a file that will stand at this place.
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
        // tempfile's error names the temporary file, which says nothing to the user.
        let file = temporary(folder, existing.as_ref()).map_err(|error| {
            let plain = error.raw_os_error().map(io::Error::from_raw_os_error);
            Error::io(name, plain.unwrap_or_else(|| error.kind().into()))
        })?;
        let (file, temporary) = file.into_parts();
        if let Some(existing) = existing {
            file.set_permissions(existing).map_err(|error| Error::io(name, error))?;
        }
        Ok(Target::new(Sink::File(file), Some((temporary, place))))
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

    /// Completes the output, and gives a file its name once its bytes are on the disk. Returns its size.
    pub(super) fn finish(self) -> io::Result<u64> {
        let mut raw = match self.stream {
            Stream::Raw(raw) => raw,
            Stream::Gzip(encoder) => encoder.finish()?,
            Stream::Zstd(encoder) => encoder.finish()?,
        };
        raw.flush()?;
        if let (Sink::File(file), Some((temporary, place))) = (&raw.sink, self.rename) {
            file.sync_all()?;
            temporary.persist(&place).map_err(|error| error.error)?;
            sync_folder(&place);
        }
        Ok(raw.bytes)
    }
}

/// Creates a temporary file that nobody may read who may not read what it replaces. It is locked, which tells that its
/// process is alive.
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
            // Another process found it without its lock, and removes it.
            Ok(()) | Err(TryLockError::WouldBlock) => {}
            // A file system without locks, where nothing is removed.
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

/// Removes the temporary files of processes that are no more. A file that cannot be removed stays.
fn remove_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_ours = name.starts_with(PARTIAL.0) && name.ends_with(PARTIAL.1);
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let Ok(file) = OpenOptions::new().write(true).open(entry.path()) else { continue };
        // The lock is held until the file is gone, so that its owner, should it be starting, notices.
        if file.try_lock().is_ok() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Writes the new name to the disk. The file is complete in any case, so a folder that cannot be synchronised, as on
/// some network file systems, is no failure.
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
