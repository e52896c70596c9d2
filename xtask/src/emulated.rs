//! Does the GPU code work on the emulated device?
//!
//! [`build`] builds the emulated device and puts it where programs look for NVIDIA's libraries. [`check`]
//! runs on it the device tests of `simjoin-gpu`, at their smallest size, once for each compute capability
//! with separate kernels, and then every command of the program. It neither uses nor changes the user's
//! folders.

use crate::{Check, call, programs, root};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The names under which programs look for NVIDIA's libraries.
const NAMES: [&str; 5] =
    ["libcuda.so", "libcuda.so.1", "libnvrtc.so", "libnvrtc.so.12", "libnvrtc.so.13"];

/// The devices of each run: the first one has a capability with separate kernels, the second one is of
/// another kind.
const DEVICES: [&str; 6] = [
    "9.0:4:2G,8.6:3:1G",
    "7.5:3:2G,9.0:2:1G",
    "8.0:4:2G,7.5:2:1G",
    "12.0:4:2G,8.0:3:1G",
    "8.6:3:2G,12.0:2:1G",
    "10.0:4:2G,9.0:3:1G",
];

/// The number of runs that also check for races in shared memory: the first with all features of an
/// architecture, the second with the fewest.
const RUNS_WITH_RACE_CHECK: usize = 2;

/// The number of processes at a time.
const PARALLEL_RUNS: usize = 2;

/// Returns cargo's folder for build results.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns the folder of the emulated device.
fn folder() -> PathBuf {
    target().join("emulator")
}

/// Builds the emulated device, and puts it where a program finds it.
pub fn build() -> Check {
    // Build it in the same way as the step that runs all tests: another build would replace the library while
    // tests run.
    programs()?;
    let folder = folder();
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    place(&target().join("debug/deps/libcuda_emulator.so"), &folder)
        .map_err(|error| format!("{}: {error}", folder.display()))
}

/// Puts one library under all names, unless it is already there.
fn place(built: &Path, folder: &Path) -> std::io::Result<()> {
    let library = folder.join(NAMES[0]);
    let new = std::fs::read(built)?;
    if std::fs::read(&library).is_ok_and(|old| old == new)
        && NAMES.iter().all(|name| folder.join(name).exists())
    {
        return Ok(());
    }
    // Running processes keep the library that they have loaded.
    let part = folder.join(format!("{}.{}.part", NAMES[0], std::process::id()));
    std::fs::write(&part, new)?;
    std::fs::rename(&part, &library)?;
    for name in &NAMES[1..] {
        let link = folder.join(name);
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(NAMES[0], &link)?;
    }
    // Kernels from another build are of no use.
    let _ = std::fs::remove_dir_all(folder.join("cache"));
    Ok(())
}

/// Returns the variables that make a program use the emulated device.
fn environment() -> Vec<(&'static str, String)> {
    let folder = folder();
    let text = |path: &Path| path.to_string_lossy().into_owned();
    vec![
        ("LD_LIBRARY_PATH", text(&folder)),
        ("SIMJOIN_NVRTC", text(&folder.join("libnvrtc.so"))),
        ("SIMJOIN_EMULATOR", text(&folder)),
        ("XDG_CACHE_HOME", text(&folder.join("cache"))),
        ("SIMJOIN_MACHINE", "fixed".into()),
        ("EMULATOR_LOG", text(&folder.join("log"))),
    ]
}

/// Runs every device test and every command on the emulated device.
pub fn check() -> Check {
    build()?;
    let log = folder().join("log");
    let _ = std::fs::remove_file(&log);
    let program = test_program("simjoin-gpu", "device")?;
    let tests = on_all_devices(&program)?;
    let environment = environment();
    let environment: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let test = ["test", "--locked", "--workspace", "--test", "emulated"];
    call("cargo", &test, &environment)?;
    let text =
        std::fs::read_to_string(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    eprintln!("{}", summary(tests, &text));
    Ok(())
}

/// Builds a test and returns the path of its program.
fn test_program(package: &str, name: &str) -> Result<PathBuf, String> {
    let output = Command::new("cargo")
        // With the features of all packages, as in the step that runs all tests.
        .args(["test", "--locked", "--workspace", "--test", name, "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo test: {error}"))?;
    if !output.status.success() {
        return Err(format!("the test {name} cannot be built"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    // Other packages may have a test with that name.
    let folder = format!("/{package}/tests/");
    let of_test = messages.filter(|message| {
        let target = &message["target"];
        target["name"] == name
            && target["src_path"].as_str().is_some_and(|path| path.contains(&folder))
    });
    let mut program =
        of_test.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    program.next().ok_or_else(|| format!("cargo reports no program for the test {name}"))
}

/// Runs the device tests once for each set of devices, some at a time. Returns the number of passed tests.
fn on_all_devices(program: &Path) -> Result<u64, String> {
    let (next, outcome) = (AtomicUsize::new(0), Mutex::new(Ok(0)));
    let work = || {
        while let Some(devices) = DEVICES.get(next.fetch_add(1, Ordering::Relaxed)) {
            let ran = on_devices(program, devices);
            let mut outcome = outcome.lock();
            match (ran, &mut *outcome) {
                (Ok(passed), Ok(all)) => *all += passed,
                (Err(why), Ok(_)) => *outcome = Err(why),
                (Err(why), Err(others)) => {
                    others.push('\n');
                    others.push_str(&why);
                }
                (Ok(_), Err(_)) => {}
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL_RUNS {
            scope.spawn(work);
        }
    });
    outcome.into_inner()
}

/// Runs the device tests on some devices. Streams run late, in an order that differs between runs.
fn on_devices(program: &Path, devices: &str) -> Result<u64, String> {
    let begin = Instant::now();
    let at = DEVICES.iter().position(|&one| one == devices).unwrap_or(0);
    let seed = at + 1;
    let mut command = Command::new(program);
    command.args(["--test-threads", "1"]).envs(environment());
    if at < RUNS_WITH_RACE_CHECK {
        // Kernels for this check are compiled differently, so they have another folder.
        command.env("EMULATOR_RACES", "1").env("XDG_CACHE_HOME", folder().join("cache/races"));
    }
    let output = command
        .env("SIMJOIN_GPU_TESTS", "small")
        .env("EMULATOR_DEVICES", devices)
        .env("EMULATOR_ORDER", seed.to_string())
        .current_dir(root().join("crates/simjoin-gpu"))
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let [output_text, errors] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let passed = passed(&output_text);
    if !output.status.success() || passed == 0 {
        return Err(format!(
            "device tests with EMULATOR_DEVICES={devices} EMULATOR_ORDER={seed} ended with {}:\n\
             {output_text}\n{errors}",
            output.status
        ));
    }
    let seconds = begin.elapsed().as_secs_f64();
    eprintln!("   {devices}: {passed} device tests in {seconds:.0} s");
    Ok(passed)
}

/// Returns the number of passed tests in the output of a test program.
fn passed(output_text: &str) -> u64 {
    let result = output_text.lines().find_map(|line| line.strip_prefix("test result: ok. "));
    result.and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap_or(0)
}

/// Summarizes the log of all processes.
fn summary(tests: u64, log: &str) -> String {
    let (mut kernels, mut pairs, mut forms) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut launches = 0;
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["kernel", kernel, architecture, count, _] => {
                kernels.insert(kernel);
                pairs.insert((kernel, architecture));
                launches += count.parse::<u64>().unwrap_or(0);
            }
            ["ptx", form, _] => {
                forms.insert(form);
            }
            _ => {}
        }
    }
    let forms: Vec<&str> = forms.into_iter().collect();
    format!(
        "   {tests} device tests, {} kernels, {} pairs of a kernel and an architecture, {launches} launches\n   \
         {} forms of PTX: {}",
        kernels.len(),
        pairs.len(),
        forms.len(),
        forms.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_counts_kernels_of_all_processes_once() {
        let log = "kernel a@1 sm_80 2 64\nptx add.u64 3\ncall cuInit 1\n\
                   kernel a@1 sm_90 1 32\nkernel a@1 sm_80 1 32\nkernel b@1 sm_80 1 32\nptx add.u64 1\n";
        let text = summary(7, log);
        assert!(text.contains("7 device tests, 2 kernels, 3 pairs"), "{text}");
        assert!(text.contains("5 launches") && text.contains("1 forms of PTX: add.u64"), "{text}");
    }

    #[test]
    fn passed_tests_are_counted_only_if_all_passed() {
        assert_eq!(passed("running\ntest result: ok. 22 passed; 0 failed; 0 ignored"), 22);
        assert_eq!(passed("test result: FAILED. 20 passed; 2 failed"), 0);
    }
}
