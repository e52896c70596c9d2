//! Where are results kept that can be made again?
//!
//! In the user's cache folder: `simjoin` under `$XDG_CACHE_HOME` or `~/.cache`, and where Windows keeps such data.

use etcetera::BaseStrategy;
use std::io::{Error, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Returns the path of a file in the cache folder; `None` where the user has no such folder.
pub fn cache_file(name: impl AsRef<Path>) -> Option<PathBuf> {
    let folders = etcetera::choose_base_strategy().ok()?;
    Some(folders.cache_dir().join("simjoin").join(name))
}

/// Returns the text of a file in the cache folder, after its header; `None` where its first line is another one.
pub(crate) fn recall(name: &str, header: &str) -> Option<String> {
    let text = std::fs::read_to_string(cache_file(name)?).ok()?;
    after(&text, header).map(str::to_owned)
}

fn after<'t>(text: &'t str, header: &str) -> Option<&'t str> {
    text.strip_prefix(header)?.strip_prefix('\n')
}

/// Writes a file in the cache folder, after a header that [`recall`] expects.
pub(crate) fn remember(name: &str, header: &str, text: &str) {
    if let Some(file) = cache_file(name) {
        keep(&file, format!("{header}\n{text}").as_bytes());
    }
}

/// Writes a file, which other processes see as a whole or not at all. Only if the machine itself stops may it be cut short,
/// so readers check what they read. A file that cannot be written is made again next time; that is no error.
pub fn keep(file: &Path, bytes: &[u8]) {
    let _ = write(file, bytes);
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), Error> {
    let folder = file.parent().ok_or_else(|| Error::other("a file without a folder"))?;
    std::fs::create_dir_all(folder)?;
    // Its name is not predictable, and it is removed unless it gets the final name.
    let mut part = NamedTempFile::new_in(folder)?;
    part.write_all(bytes)?;
    part.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_after_another_header_is_ignored() {
        assert_eq!(after("simjoin 1\nsome\ntext\n", "simjoin 1"), Some("some\ntext\n"));
        for text in ["", "simjoin 1", "simjoin 12\ntext", "simjoin 2\ntext", "\nsimjoin 1\n"] {
            assert_eq!(after(text, "simjoin 1"), None, "{text:?}");
        }
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep").join("file");
        for text in ["a longer text", "short"] {
            keep(&file, text.as_bytes());
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        // A folder of that name is in the way.
        let file = folder.path().join("name");
        std::fs::create_dir_all(file.join("inside")).unwrap();
        keep(&file, b"text");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
