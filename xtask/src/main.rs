//! What does the project check, and with which command?
//!
//! `cargo xtask test` runs everything that CI runs. Each check is also a separate command.

#![forbid(unsafe_code)]

mod emulated;
mod environment;
mod gpu;
mod layers;
mod licences;
mod modules;
mod python;
mod steady;
mod steps;

use environment::Environment;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The result of a check: nothing, or the reason why it failed.
pub type Check = Result<(), String>;

const HELP: &str = "\
cargo xtask COMMAND

  test               everything below except gpu-record, steady, soak and fuzz, as in CI, with a table of times
  format             formatting
  lint               clippy on all targets, warnings denied
  unit               all tests of the workspace
  emulator           builds the emulated GPU in target/emulator
  emulated           the device tests and every command on emulated GPUs
  docs               documentation, warnings denied
  layers             crates and ordered modules only use earlier ones, and no file is too long
  licences           the licence of every dependency is accepted
  gpu-kernels        changed GPU kernels compile (--all: every kernel; NVRTC is installed in target/nvrtc)
  fuzz-build         the fuzz targets build
  python             the Python package: wheel, tests, examples, types, style (in target/python)
  benchmarks         the tests of the benchmark driver
  report             the page of --report in a real browser (Chromium is installed)
  expected           a quick subset of the published exact counts (--all for every one)
  book               the documentation builds, and its commands print what it shows
  soak [S]           random joins compared with brute force, with kills and limits, for S seconds (3600)
  gpu-record         run the tests of simjoin-gpu on the GPU of this machine, and record it
  steady [N]         tests of plans and simulated devices, N times (20), on a busy machine, with three cost tables
  fuzz TARGET [S]    run a fuzz target (readers or techniques) for S seconds, 60 by default";

type Step = (&'static str, fn() -> Check);

/// The steps in the order in which they start, two at a time. Steps that build for release are next to steps
/// that build for development, since only one step can use the development folder at a time.
const STEPS: &[Step] = &[
    ("format", format),
    ("layers", layers::check),
    ("licences", licences::check),
    ("lint", lint),
    ("expected", expected),
    ("gpu-kernels", gpu::kernels),
    ("unit", unit),
    ("emulated", emulated::check),
    ("book", book),
    ("python", python::check),
    ("docs", docs),
    ("fuzz-build", fuzz_build),
    ("report", report),
    ("benchmarks", benchmarks),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["test"] => steps::run_all(&STEPS.iter().map(|(name, _)| *name).collect::<Vec<_>>()),
        ["soak"] => soak("3600"),
        ["soak", seconds] => soak(seconds),
        ["emulator"] => emulated::build(),
        ["steady"] => steady::check("20"),
        ["steady", times] => steady::check(times),
        [steady::LOAD] => steady::load(),
        ["fuzz", target] => fuzz(target, "60"),
        ["fuzz", target, seconds] => fuzz(target, seconds),
        ["gpu-kernels", "--all"] => gpu::all_kernels(),
        ["gpu-record"] => gpu::record(),
        ["expected", "--all"] => published_counts(&[]),
        [name] => match STEPS.iter().find(|(step, _)| *step == name) {
            Some((name, check)) => steps::run_step(name, *check),
            None => Err(HELP.into()),
        },
        _ => Err(HELP.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Runs a program in the root folder. Returns an error if it fails.
fn call(program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Check {
    let status = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(root())
        .status()
        .map_err(|error| format!("{program}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{program} {} ended with {status}", arguments.join(" ")))
    }
}

/// Installs a Debian package. Steps install packages one at a time.
fn install(package: &str) -> Check {
    let path = root().join("target/installing.lock");
    let file = std::fs::File::create(&path);
    let locked = file.and_then(|file| file.lock().map(|()| file));
    let _alone = locked.map_err(|error| format!("{}: {error}", path.display()))?;
    eprintln!("installing {package}");
    call("apt-get", &["update", "--quiet"], &[])?;
    call("apt-get", &["install", "--yes", "--quiet", "--no-install-recommends", package], &[])
}

/// Installs a component of the toolchain, such as rustfmt or clippy, if a minimal installation lacks it.
fn component(command: &str, name: &str) -> Check {
    let present = Command::new("cargo").args([command, "--version"]).output();
    if present.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    eprintln!("installing {name}");
    call("rustup", &["component", "add", name], &[])
        .map_err(|why| format!("{name} is needed; install it with your Rust toolchain ({why})"))
}

fn format() -> Check {
    component("fmt", "rustfmt")?;
    call("cargo", &["fmt", "--all", "--check"], &[])
}

fn lint() -> Check {
    component("clippy", "clippy")?;
    cpp_compiler()?;
    call(
        "cargo",
        &["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"],
        &[],
    )
}

fn unit() -> Check {
    cpp_compiler()?;
    call("cargo", &["test", "--workspace", "--locked"], &[])
}

fn docs() -> Check {
    cpp_compiler()?;
    call(
        "cargo",
        &["doc", "--workspace", "--no-deps", "--locked", "--document-private-items"],
        &[("RUSTDOCFLAGS", "--deny warnings")],
    )
}

/// Installs a C++ compiler if it is missing. libFuzzer is written in C++.
fn cpp_compiler() -> Check {
    let present = |name: &str| Command::new(name).arg("--version").output().is_ok();
    if present("c++") || std::env::var_os("CXX").is_some() {
        return Ok(());
    }
    install("g++")
        .map_err(|why| format!("a C++ compiler is needed to build libFuzzer; install g++ ({why})"))
}

fn fuzz_build() -> Check {
    programs()
}

/// Builds all programs, together with the tests, so that libraries have the same features. Otherwise they
/// would be compiled again.
fn programs() -> Check {
    cpp_compiler()?;
    call("cargo", &["build", "--workspace", "--bins", "--tests", "--locked"], &[])
}

/// The compiler options for coverage instrumentation for libFuzzer with a stable compiler.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1 \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table";

fn fuzz(target: &str, seconds: &str) -> Check {
    cpp_compiler()?;
    let corpus = format!("fuzz/corpus/{target}");
    std::fs::create_dir_all(root().join(&corpus)).map_err(|error| format!("{corpus}: {error}"))?;
    let host = host()?;
    call(
        "cargo",
        &[
            "run",
            "--release",
            "--package",
            "simjoin-fuzz",
            "--target",
            &host,
            "--target-dir",
            "target/fuzz",
            "--bin",
            target,
            "--",
            &corpus,
            &format!("-max_total_time={seconds}"),
            "-max_len=4096",
        ],
        &[("RUSTFLAGS", COVERAGE)],
    )
}

/// Returns the compiler's host. Naming it as the target keeps the instrumentation out of build scripts.
fn host() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output().map_err(|e| format!("rustc: {e}"))?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .find_map(|line| line.strip_prefix("host: ").map(str::to_string))
        .ok_or_else(|| "rustc reports no host".into())
}

/// Runs random joins with the program for a while.
fn soak(seconds: &str) -> Check {
    call("cargo", &["build", "--release", "--locked", "--package", "simjoin-cli"], &[])?;
    call("python3", &["fuzz/soak.py", "--seconds", seconds], &[])
}

fn benchmarks() -> Check {
    call(
        "python3",
        &[
            "-m",
            "unittest",
            "discover",
            "--start-directory",
            "benchmarks/tests",
            "--top-level-directory",
            "benchmarks",
        ],
        &[],
    )
}

/// Tests the page of `--report` in a browser, which is installed if it is missing.
fn report() -> Check {
    let present = |name: &&str| Command::new(*name).arg("--version").output().is_ok();
    // The names that `chromium.py` looks for.
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    if !names.iter().any(present) {
        install("chromium").map_err(|why| {
            format!("Chromium is needed to test the page of a report; install it ({why})")
        })?;
    }
    programs()?;
    let folder =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let program = folder.join("debug/simjoin");
    call("python3", &["xtask/report/test.py", &program.to_string_lossy()], &[])
}

fn expected() -> Check {
    published_counts(&["--quick"])
}

fn published_counts(extra: &[&str]) -> Check {
    call("python3", &[&["benchmarks/run.py", "expected"], extra].concat(), &[])
}

/// Builds the documentation with mkdocs in a separate environment, and runs every command in it.
fn book() -> Check {
    let recipe = std::fs::read_to_string(root().join("docs/requirements.txt"));
    let recipe = recipe.map_err(|error| format!("docs/requirements.txt: {error}"))?;
    let packages = ["--requirement", "docs/requirements.txt"];
    let environment = Environment::prepare("book-venv", &recipe, &packages)?;
    // The book shows the program's help.
    call("cargo", &["build", "--release", "--locked", "--package", "simjoin-cli"], &[])?;
    let build = ["-m", "mkdocs", "build", "--quiet", "--config-file", "docs/mkdocs.yml"];
    environment.run("python", &build)?;
    environment.run("python", &["docs/check.py"])
}
