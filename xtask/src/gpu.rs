//! Which parts of the GPU code can be checked without a GPU?
//!
//! Every kernel compiles. This needs NVRTC but no device, and only runs for kernels that have changed since
//! they last compiled (`crates/simjoin-gpu/kernels-compiled.txt`). One line reports the kernels that have
//! changed since they last ran on a real device (`crates/simjoin-gpu/gpu-verification.toml`); that is not a
//! failure.

use crate::{Check, call, root};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the arguments for a test of `simjoin-gpu`, with the features of all packages, as in the step that
/// runs all tests.
fn cargo_test(name: &str) -> Vec<&str> {
    vec!["test", "--quiet", "--locked", "--workspace", "--test", name, "--"]
}

/// Runs the tests of `simjoin-gpu` on the GPU of this machine, and records the run if all pass.
pub fn record() -> Check {
    call("cargo", &cargo_test("device"), &[("SIMJOIN_GPU_RECORD", "1")])
}

/// Compiles the kernels that have changed.
pub fn kernels() -> Check {
    compile("changed")
}

/// Compiles every kernel.
pub fn all_kernels() -> Check {
    compile("all")
}

fn compile(which: &str) -> Check {
    let listed = Command::new("cargo")
        .args(cargo_test("kernels"))
        .args(["--list", "--format", "terse"])
        .env("SIMJOIN_KERNELS", which)
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if !listed.status.success() {
        return Err(format!("the kernels' tests do not build ({})", listed.status));
    }
    let listed = String::from_utf8_lossy(&listed.stdout);
    if !listed.contains("[NVRTC]") {
        return Ok(());
    }
    let nvrtc = nvrtc()?;
    let environment = [
        ("SIMJOIN_KERNELS", which),
        ("SIMJOIN_KERNELS_RECORD", "1"),
        ("SIMJOIN_NVRTC", &nvrtc.to_string_lossy()),
    ];
    call("cargo", &cargo_test("kernels"), &environment)
}

/// Returns the compiler, from the Python package in a separate folder.
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
    let install = ["-m", "pip", "install", "--quiet", "--no-deps", "--target", &target];
    call("python3", &[&install[..], &["nvidia-cuda-nvrtc==13.0.*"]].concat(), &[])?;
    found(&folder).ok_or_else(|| format!("{target} contains no libnvrtc.so"))
}
