//! Does the emulated device behave as CUDA documents, and does it report kernels that break the rules?
//!
//! Environment variables, which a process reads once, choose the emulated machine. So each case runs in a
//! separate process of this program, which loads the library by the names of NVIDIA's libraries, like any
//! other program.

use libtest_mimic::{Arguments, Failed, Trial};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

#[path = "device/arithmetic.rs"]
mod arithmetic;
#[path = "device/common.rs"]
mod common;
#[path = "device/machines.rs"]
mod machines;
#[path = "device/memory.rs"]
mod memory;
#[path = "device/ptx.rs"]
mod ptx;
#[path = "device/races.rs"]
mod races;
#[path = "device/reports.rs"]
mod reports;

/// The environment variable that names the case of this process.
const CASE: &str = "EMULATOR_TEST_CASE";

/// The expected end of a case's process.
#[derive(Clone, Copy)]
enum End {
    /// All its checks pass.
    Well,
    /// It is aborted with a message that contains all of these parts.
    Abort(&'static [&'static str]),
}

/// A test case.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    variables: &'static [(&'static str, &'static str)],
    end: End,
    run: fn(),
}

/// Returns a case that should pass on the default device.
const fn holds(name: &'static str, run: fn()) -> Case {
    Case { name, variables: &[], end: End::Well, run }
}

/// Returns a case that should end with a message.
const fn aborts(name: &'static str, says: &'static [&'static str], run: fn()) -> Case {
    Case { name, variables: &[], end: End::Abort(says), run }
}

impl Case {
    const fn with(self, variables: &'static [(&'static str, &'static str)]) -> Self {
        Case { variables, ..self }
    }
}

fn main() -> ExitCode {
    let all: Vec<Case> = [
        arithmetic::CASES,
        ptx::CASES,
        memory::CASES,
        reports::CASES,
        races::CASES,
        machines::CASES,
    ]
    .concat();
    if let Ok(wanted) = std::env::var(CASE) {
        let case = all.iter().find(|case| case.name == wanted).expect("there is such a case");
        (case.run)();
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::from_args();
    let folder = tempfile::tempdir().expect("a folder");
    place(folder.path());
    std::fs::write(folder.path().join("mutation"), "a[i] + b[i]\n=====\na[i] - b[i]\n")
        .expect("a file");
    let path = folder.path().to_path_buf();
    let trial = |case: Case| {
        let folder = path.clone();
        Trial::test(case.name, move || check(&case, &folder))
    };
    libtest_mimic::run(&arguments, all.into_iter().map(trial).collect()).exit_code()
}

/// Links the library under NVIDIA's names in a folder that the loader searches.
fn place(folder: &Path) {
    let own = std::env::current_exe().expect("this program's path");
    let library = own.parent().expect("its folder").join("libcuda_emulator.so");
    for name in ["libcuda.so", "libnvrtc.so"] {
        std::os::unix::fs::symlink(&library, folder.join(name)).expect("a link");
    }
}

fn check(case: &Case, folder: &Path) -> Result<(), Failed> {
    let objects = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("emulated-objects");
    let log = folder.join(format!("{}.log", case.name));
    let mutation = folder.join("mutation");
    let output = Command::new(std::env::current_exe()?)
        .env(CASE, case.name)
        .env("LD_LIBRARY_PATH", folder)
        .env("EMULATOR_CACHE", objects)
        .envs(case.variables.iter().map(|&(name, value)| match value {
            "{log}" => (name, log.clone().into_os_string()),
            "{mutation}" => (name, mutation.clone().into_os_string()),
            _ => (name, value.into()),
        }))
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    match case.end {
        End::Well if output.status.success() => {}
        // SIGABRT
        End::Abort(parts)
            if signal == Some(6) && parts.iter().all(|part| errors.contains(part)) => {}
        End::Well => return Err(format!("ended with {}: {errors}", output.status).into()),
        End::Abort(parts) => {
            return Err(
                format!("ended with {}, expected {parts:?}: {errors}", output.status).into()
            );
        }
    }
    if case.variables.iter().any(|&(name, _)| name == "EMULATOR_LOG") {
        machines::check_log(&std::fs::read_to_string(log)?)?;
    }
    Ok(())
}
