// One number for everything that a run on a device has verified: the manifest, sources and tests of
// this crate. Compiled into the tests by `build.rs` and into `xtask`, which checks that the record of
// the last run on a device is of these very sources.

use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// The hash of the crate's files, names included, or why it cannot be had.
pub fn source_hash(folder: &Path) -> std::io::Result<String> {
    let mut files = Vec::new();
    for part in ["Cargo.toml", "build.rs", "source_hash.rs", "src", "tests"] {
        collect(&folder.join(part), &mut files)?;
    }
    files.sort_unstable();
    let mut hash = Sha256::new();
    for file in files {
        let name = file.strip_prefix(folder).unwrap_or(&file).to_string_lossy().into_owned();
        let content = std::fs::read(&file)?;
        for part in [name.as_bytes(), &content] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_path_buf());
        return Ok(());
    }
    for entry in std::fs::read_dir(path)? {
        collect(&entry?.path(), files)?;
    }
    Ok(())
}
