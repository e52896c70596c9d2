//! What does a path lead to?
//!
//! `-` is standard input or standard output. Everything else is a file, a device, a pipe or a stream that is already
//! open (`/dev/stdout`). Symbolic links are followed, even to files that do not exist yet. Paths need not be UTF-8;
//! messages show them with control characters escaped.

use simjoin_core::{Error, Result};
use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// The name of standard output in messages.
pub const STANDARD_OUTPUT: &str = "standard output";

/// Returns whether a path is standard input or output by name.
pub(crate) fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns the name of an input in messages, with control characters escaped.
pub fn display_name(path: &Path) -> String {
    if is_standard(path) { "standard input".into() } else { shown(path) }
}

/// Returns a path for messages.
pub(crate) fn shown(path: &Path) -> String {
    escape_controls(&path.to_string_lossy()).into_owned()
}

/// Replaces control characters by their escapes, so that a text stays on one line and cannot control a terminal.
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character.is_control() {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// The compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
    /// Recognised only to refuse it with a clear message.
    Xz,
}

/// Returns a path's ending, in lower case, and its compression: `a.CSV.gz` gives `csv` and gzip. Without a dot the
/// ending is empty.
pub(crate) fn ending(path: &Path) -> (String, Compression) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let endings =
        [(".gz", Compression::Gzip), (".zst", Compression::Zstd), (".xz", Compression::Xz)];
    let (stem, compression) = endings
        .iter()
        .find_map(|&(ending, compression)| Some((name.strip_suffix(ending)?, compression)))
        .unwrap_or((&name, Compression::None));
    (stem.rsplit_once('.').map_or("", |(_, ending)| ending).to_owned(), compression)
}

/// The place that an output path leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    StandardOutput,
    StandardError,
    /// A device, a pipe or another open stream, which is written to directly.
    Special(PathBuf),
    /// An ordinary file, which may not exist yet, with all links followed.
    File(PathBuf),
}

impl Destination {
    /// Finds the place that a path leads to.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        // Linux follows the same number of links.
        const MOST_LINKS: usize = 40;
        let mut at = path.to_owned();
        for _ in 0..MOST_LINKS {
            let Some(name) = at.file_name().map(ToOwned::to_owned) else {
                return Ok(Destination::File(at));
            };
            let folder = match at.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => Path::new("."),
            };
            // A folder that does not exist is reported when the file is created.
            let Ok(folder) = fs::canonicalize(folder) else { return Ok(Destination::File(at)) };
            let whole = folder.join(&name);
            if folder.starts_with("/proc") || folder == Path::new("/dev/fd") {
                // The links in /proc/PID/fd are streams, not names.
                let own = fs::canonicalize("/proc/self/fd").is_ok_and(|own| own == folder)
                    || folder == Path::new("/dev/fd");
                return Ok(match name.to_str() {
                    Some("1") if own => Destination::StandardOutput,
                    Some("2") if own => Destination::StandardError,
                    _ => Destination::Special(whole),
                });
            }
            match fs::symlink_metadata(&whole) {
                Ok(metadata) if metadata.is_symlink() => at = folder.join(fs::read_link(&whole)?),
                Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => {
                    return Ok(Destination::Special(whole));
                }
                _ => return Ok(Destination::File(whole)),
            }
        }
        Err(io::Error::other("too many levels of symbolic links"))
    }
}

/// The identity of an ordinary file, independent of its name.
#[derive(PartialEq, Eq)]
enum Identity {
    /// The device and the file's number on it; on systems without these, the whole path.
    Existing(u64, u64, PathBuf),
    /// A file that does not exist yet: the identity of its folder, and its name in the folder.
    New(u64, u64, OsString),
}

impl Identity {
    fn of(path: &Path, metadata: &Metadata) -> Option<Self> {
        let (device, number) = numbers(metadata);
        let name =
            if cfg!(unix) { PathBuf::new() } else { fs::canonicalize(path).unwrap_or_default() };
        metadata.is_file().then_some(Identity::Existing(device, number, name))
    }

    fn of_input(path: &Path) -> Option<Self> {
        let metadata =
            if is_standard(path) { metadata_of(&io::stdin()) } else { fs::metadata(path).ok() };
        Identity::of(path, &metadata?)
    }

    /// Returns the file that an output will replace; `None` if it is written to directly.
    fn of_output(path: &Path) -> Option<Self> {
        let Ok(Destination::File(path)) = Destination::of(path) else { return None };
        if let Ok(metadata) = fs::metadata(&path) {
            return Identity::of(&path, &metadata);
        }
        let folder = fs::canonicalize(path.parent()?).ok()?;
        let (device, number) = numbers(&fs::metadata(&folder).ok()?);
        let name = if cfg!(unix) { path.file_name()?.to_owned() } else { path.into() };
        Some(Identity::New(device, number, name))
    }
}

#[cfg(unix)]
fn numbers(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn numbers(_: &Metadata) -> (u64, u64) {
    (0, 0)
}

#[cfg(unix)]
fn metadata_of(stream: &impl std::os::fd::AsFd) -> Option<Metadata> {
    fs::File::from(stream.as_fd().try_clone_to_owned().ok()?).metadata().ok()
}

#[cfg(not(unix))]
fn metadata_of<T>(_: &T) -> Option<Metadata> {
    None
}

/// Refuses outputs that would overwrite an input, one another, or the file that standard output goes to.
///
/// Files are compared, not names: relative paths, symbolic links and hard links are all recognised. Each output is the
/// option that names it, and its path. Outputs to devices, pipes and open streams overwrite nothing.
pub fn check_outputs(inputs: &[&Path], outputs: &[(&str, &Path)]) -> Result<()> {
    let inputs = inputs.iter().filter_map(|path| {
        let name = if is_standard(path) {
            display_name(path)
        } else {
            format!("the input {}", shown(path))
        };
        Some((name, Identity::of_input(path)?))
    });
    let mut inputs: Vec<(String, Identity)> = inputs.collect();
    let stdout = metadata_of(&io::stdout());
    let stdout = stdout.and_then(|metadata| Identity::of(Path::new("-"), &metadata));
    inputs.extend(stdout.map(|stdout| (STANDARD_OUTPUT.to_owned(), stdout)));
    let mut seen: Vec<(&str, Identity)> = Vec::new();
    for &(option, path) in outputs {
        let Some(file) = Identity::of_output(path) else { continue };
        if let Some((name, _)) = inputs.iter().find(|(_, one)| *one == file) {
            return Err(Error::Config(format!(
                "{option} {} and {name} are the same file, which would be overwritten; expected two different files",
                shown(path)
            )));
        }
        if let Some((other, _)) = seen.iter().find(|(_, one)| *one == file) {
            return Err(Error::Config(format!(
                "{other} and {option} both write to {}; expected two different files",
                shown(path)
            )));
        }
        seen.push((option, file));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(shown(Path::new("a\u{1b}[2J\n.txt")), "a\\u{1b}[2J\\n.txt");
        assert_eq!(shown(Path::new("é b.txt")), "é b.txt");
        assert_eq!(display_name(Path::new("-")), "standard input");
    }

    #[test]
    fn endings_are_separated_from_compressions() {
        for (path, expected, compression) in [
            ("a.CSV.GZ", "csv", Compression::Gzip),
            ("x.csv/a.tsv.zst", "tsv", Compression::Zstd),
            ("a.csv.xz", "csv", Compression::Xz),
            ("a.gz", "", Compression::Gzip),
            ("a", "", Compression::None),
            ("x.csv/a", "", Compression::None),
            ("/", "", Compression::None),
        ] {
            assert_eq!(ending(Path::new(path)), (expected.to_owned(), compression), "{path}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn outputs_that_are_inputs_or_one_another_are_refused() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("in.tsv"), "x").unwrap();
        fs::write(path("other.tsv"), "x").unwrap();
        symlink("in.tsv", path("link.tsv")).unwrap();
        symlink("link.tsv", path("link of link.tsv")).unwrap();
        fs::hard_link(path("in.tsv"), path("hard.tsv")).unwrap();
        symlink("new.tsv", path("dangling.tsv")).unwrap();
        fs::create_dir(path("d")).unwrap();
        symlink(".", path("d/same")).unwrap();
        let check = |input: &str, outputs: &[(&str, &str)]| {
            let outputs: Vec<_> =
                outputs.iter().map(|&(option, name)| (option, path(name))).collect();
            let outputs: Vec<_> =
                outputs.iter().map(|(option, path)| (*option, path.as_path())).collect();
            check_outputs(&[&path(input)], &outputs).map_err(|error| error.to_string())
        };
        for name in ["in.tsv", "link.tsv", "link of link.tsv", "hard.tsv", "d/../in.tsv"] {
            let error = check("in.tsv", &[("--output", "other.tsv"), ("--stats", name)]);
            let error = error.expect_err(name);
            assert!(error.contains("--stats ") && error.contains("the input "), "{error}");
            assert!(error.contains("in.tsv") && error.contains(name), "{error}");
        }
        check("link.tsv", &[("--output", "in.tsv")]).unwrap_err();
        for (one, other) in
            [("other.tsv", "d/../other.tsv"), ("new.tsv", "dangling.tsv"), ("d/a", "d/same/same/a")]
        {
            let error = check("in.tsv", &[("--output", one), ("--trace", other)]).unwrap_err();
            assert!(error.starts_with("--output and --trace both write to "), "{error}");
        }
        check("in.tsv", &[("--output", "other.tsv"), ("--stats", "new.tsv")]).unwrap();
        check("none.tsv", &[("--output", "d/new.tsv"), ("--stats", "new.tsv")]).unwrap();
        // Outputs to a device overwrite nothing.
        let null = Path::new("/dev/null");
        check_outputs(&[null], &[("--output", null), ("--stats", null)]).unwrap();
    }
}
