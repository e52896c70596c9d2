//! Tests that need devices of a certain kind, or that fail, and so an emulated one.
//!
//! Devices are found once in a process, so each part of such a test runs in a process of its own: this program again,
//! with variables that say what is emulated.

use libtest_mimic::Failed;
use simjoin_gpu::Device;
use std::process::{Command, ExitCode};

/// The variable that names the part to be run.
const PART: &str = "SIMJOIN_GPU_PART";

/// A part of a test: runs on all devices of its process.
pub type Part = (&'static str, fn() -> Result<(), Failed>);

/// Returns whether a device is an emulated one.
pub fn is_emulated(device: &Device) -> bool {
    device.info.name.to_lowercase().contains("emulated")
}

/// Runs the part that this process was started for; `None` where it was started for all tests.
pub fn run_part(parts: &[&[Part]]) -> Option<ExitCode> {
    let wanted = std::env::var(PART).ok()?;
    let Some((_, part)) = parts.iter().copied().flatten().find(|(name, _)| *name == wanted) else {
        eprintln!("{PART}={wanted}: there is no such part");
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

/// Runs a part in a process of its own, where devices are emulated as the variables say.
pub fn again(part: &str, variables: &[(&str, &str)]) -> Result<(), Failed> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let ran = Command::new(program)
        .env(PART, part)
        // Where streams run late, freed memory is free late, and a limit on memory is no longer exact.
        .env_remove("EMULATOR_ORDER")
        .envs(variables.iter().copied())
        .output()
        .map_err(|error| error.to_string())?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    Err(format!("{part} with {variables:?}: {}: {}", ran.status, said.trim()).into())
}
