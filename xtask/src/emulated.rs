//! Does the GPU code work on the emulated device?

use crate::{Check, call, cpp_compiler, root};
use std::path::{Path, PathBuf};

/// The names under which programs look for NVIDIA's libraries.
const NAMES: [&str; 5] =
    ["libcuda.so", "libcuda.so.1", "libnvrtc.so", "libnvrtc.so.12", "libnvrtc.so.13"];

/// Where cargo puts what it builds.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Where the emulated device is.
fn folder() -> PathBuf {
    target().join("emulator")
}

/// Builds the emulated device, and puts it where a program finds it.
pub fn build() -> Check {
    cpp_compiler()?;
    call("cargo", &["build", "--locked", "--package", "cuda-emulator"], &[])?;
    let folder = folder();
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    place(&target().join("debug/libcuda_emulator.so"), &folder)
        .map_err(|error| format!("{}: {error}", folder.display()))
}

/// One library under all names, unless it is there already.
fn place(built: &Path, folder: &Path) -> std::io::Result<()> {
    let library = folder.join(NAMES[0]);
    let new = std::fs::read(built)?;
    if std::fs::read(&library).is_ok_and(|old| old == new)
        && NAMES.iter().all(|name| folder.join(name).exists())
    {
        return Ok(());
    }
    // Processes that run keep what they have loaded.
    let part = folder.join(format!("{}.{}.part", NAMES[0], std::process::id()));
    std::fs::write(&part, new)?;
    std::fs::rename(&part, &library)?;
    for name in &NAMES[1..] {
        let link = folder.join(name);
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(NAMES[0], &link)?;
    }
    // Kernels that another build of it compiled are of no use.
    let _ = std::fs::remove_dir_all(folder.join("cache"));
    Ok(())
}
