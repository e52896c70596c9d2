//! What of the GPU's part can be checked without a GPU?
//!
//! Its tests run where there is a device, and leave a record in `crates/simjoin-gpu`; here it is only
//! checked that the record is of these very sources. And every kernel is compiled, which needs NVRTC
//! but no device.

use crate::{Check, call, root};
use std::path::{Path, PathBuf};

#[path = "../../crates/simjoin-gpu/source_hash.rs"]
mod source_hash;

const HOW: &str = "run the tests of simjoin-gpu on a machine with a GPU, with \
                   SIMJOIN_GPU_RECORD=crates/simjoin-gpu/gpu-verification.toml, and commit that file";

/// The record of the last run on a device is of the sources that are here.
pub fn record() -> Check {
    let folder = root().join("crates/simjoin-gpu");
    let sources = source_hash::source_hash(&folder).map_err(|error| error.to_string())?;
    let file = folder.join("gpu-verification.toml");
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{error}; {HOW}"))?;
    agrees(&text, &sources)
}

fn agrees(record: &str, sources: &str) -> Check {
    let value = |name: &str| {
        let line = record.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
        line.map(|value| value.trim_matches('"'))
    };
    let passed = value("passed").and_then(|count| count.parse::<u32>().ok()).unwrap_or(0);
    if value("sources") != Some(sources) {
        return Err(format!("the GPU code has changed since it was verified on a device; {HOW}"));
    }
    if passed == 0 || value("device").is_none() || value("date").is_none() {
        return Err(format!("the record names no device, date or passed tests; {HOW}"));
    }
    Ok(())
}

/// Every kernel compiles.
pub fn kernels() -> Check {
    let nvrtc = nvrtc()?;
    let path = nvrtc.to_string_lossy();
    call(
        "cargo",
        // With the features of all packages, as in the step that runs all tests.
        &["test", "--locked", "--workspace", "--test", "kernels"],
        &[("SIMJOIN_NVRTC", &path)],
    )
}

/// The compiler, from the Python package, in a folder of its own.
fn nvrtc() -> Result<PathBuf, String> {
    let folder = root().join("target/nvrtc");
    let found = |folder: &Path| {
        let library = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with("libnvrtc.so")
        };
        let lib = std::fs::read_dir(folder.join("nvidia/cu13/lib")).ok()?;
        lib.flatten().map(|entry| entry.path()).find(library)
    };
    if let Some(library) = found(&folder) {
        return Ok(library);
    }
    let target = folder.to_string_lossy();
    call(
        "python3",
        &[
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            &target,
            "nvidia-cuda-nvrtc==13.0.*",
        ],
        &[],
    )?;
    found(&folder).ok_or_else(|| format!("{target} holds no libnvrtc.so"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = "sources = \"abc\"\ndevice = \"D\"\ndate = \"2026-01-01\"\npassed = 3\n";

    #[test]
    fn a_record_of_other_sources_does_not_count() {
        assert!(agrees(RECORD, "abc").is_ok());
        assert!(agrees(RECORD, "abd").is_err());
        assert!(agrees("", "abc").is_err());
        assert!(agrees(&RECORD.replace("= 3", "= 0"), "abc").is_err());
        assert!(agrees(&RECORD.replace("device", "devil"), "abc").is_err());
    }
}
