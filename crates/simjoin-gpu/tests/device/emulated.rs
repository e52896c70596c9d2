//! How are tests run that need an emulated device, of a certain kind or with faults?
//!
//! Devices are found once per process, so each part of such a test runs in a separate process: this program
//! again, with variables that describe the emulated devices.

use libtest_mimic::Failed;
use simjoin_gpu::Device;
use std::process::{Command, ExitCode};

/// The variable that names the part to run.
const PART: &str = "SIMJOIN_GPU_PART";

/// A part of a test, which runs on all devices of its process.
pub type Part = (&'static str, fn() -> Result<(), Failed>);

/// Returns whether a device is an emulated one.
pub fn is_emulated(device: &Device) -> bool {
    device.info.name.to_lowercase().contains("emulated")
}

/// Runs the part that this process was started for; `None` if it was started for all tests.
pub fn run_part(parts: &[&[Part]]) -> Option<ExitCode> {
    let wanted = std::env::var(PART).ok()?;
    let Some((_, part)) = parts.iter().copied().flatten().find(|(name, _)| *name == wanted) else {
        eprintln!("{PART}={wanted}: no such part");
        return Some(ExitCode::FAILURE);
    };
    Some(match part() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{}", why.message().unwrap_or("failed"));
            ExitCode::FAILURE
        }
    })
}

/// Runs a part in a separate process, with variables that describe the emulated devices.
pub fn run_in_process(part: &str, variables: &[(&str, &str)]) -> Result<(), Failed> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let ran = Command::new(program)
        .env(PART, part)
        // If streams run late, memory is freed late, and a limit on memory is not exact.
        .env_remove("EMULATOR_ORDER")
        .envs(variables.iter().copied())
        .output()
        .map_err(|error| error.to_string())?;
    if ran.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&ran.stderr);
    Err(format!("{part} with {variables:?}: {}: {}", ran.status, errors.trim()).into())
}
