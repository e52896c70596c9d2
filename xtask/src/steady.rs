//! Do tests give the same result every time, on a busy machine, and for any cost table?
//!
//! Runs the tests of plans, of simulated devices, and of CPU and device together many times, next to enough
//! busy processes to slow down a small machine, with the cost table unchanged and scaled by 0.1 and by 10. A
//! test that fails once depends on time.

use crate::{Check, root};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The number of processes that keep a core busy.
const BUSY_PROCESSES: usize = 8;

/// The number of test programs that run at a time: while one waits, others use the cores.
const PARALLEL_PROGRAMS: usize = 4;

/// The machines that tests are planned for.
const MACHINES: [&str; 3] = ["fixed", "fixed:0.1", "fixed:10"];

/// The packages whose tests are run, with the arguments for cargo that select the tests.
const TESTS: [(&str, &[&str]); 3] = [
    ("simjoin-engine", &["--lib"]),
    ("simjoin", &["--lib", "--test", "machine", "--test", "glimpse", "--test", "vectors"]),
    (
        "simjoin-cli",
        &["--test", "simulated", "--test", "report", "--test", "bench", "--test", "sets"],
    ),
];

/// The command that starts a busy process.
pub const LOAD: &str = "steady-load";

/// Runs all tests `times` times for each machine.
pub fn check(times: &str) -> Check {
    let wrong = || format!("steady {times}: expected the number of repetitions, such as 20");
    let times: usize = times.parse().ok().filter(|times| *times > 0).ok_or_else(wrong)?;
    let mut programs = Vec::new();
    for (package, chosen) in TESTS {
        let folder = root().join("crates").join(package);
        programs.extend(build(package, chosen)?.into_iter().map(|path| (folder.clone(), path)));
    }
    let load = Load::start()?;
    let mut failures = 0;
    for machine in MACHINES {
        let begin = Instant::now();
        let next = AtomicUsize::new(0);
        let run_next = || -> Result<[usize; 2], String> {
            let mut sum = [0; 2];
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= times * programs.len() {
                    return Ok(sum);
                }
                let (folder, program) = &programs[at % programs.len()];
                let [passed, failed] = run(folder, program, machine)?;
                sum = [sum[0] + passed, sum[1] + failed];
            }
        };
        let sums = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..PARALLEL_PROGRAMS).map(|_| scope.spawn(run_next)).collect();
            let ended =
                threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread ended")?);
            ended.collect::<Result<Vec<_>, String>>()
        })?;
        let [passed, failed] = [0, 1].map(|at| sums.iter().map(|sum| sum[at]).sum::<usize>());
        let seconds = begin.elapsed().as_secs_f64();
        eprintln!(
            "SIMJOIN_MACHINE={machine}: {times} runs next to {BUSY_PROCESSES} busy processes, {passed} tests passed and {failed} \
             failed, {seconds:.0} s"
        );
        failures += failed;
    }
    drop(load);
    if failures == 0 { Ok(()) } else { Err(format!("{failures} tests failed")) }
}

/// Builds tests of a package and returns their programs.
fn build(package: &str, chosen: &[&str]) -> Result<Vec<PathBuf>, String> {
    let output = Command::new("cargo")
        .args(["test", "--locked", "--no-run", "--package", package])
        .args(chosen)
        .current_dir(root())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("the tests of {package} do not build:\n{text}"));
    }
    // Such as "Executable tests/bench.rs (target/debug/deps/bench-0123456789abcdef)".
    let programs = text.lines().filter_map(|line| {
        let line = line.trim().strip_prefix("Executable ")?;
        Some(root().join(line.rsplit_once('(')?.1.strip_suffix(')')?))
    });
    let programs: Vec<PathBuf> = programs.collect();
    if programs.is_empty() { Err(format!("{package} has no tests:\n{text}")) } else { Ok(programs) }
}

/// Runs a test program and returns the numbers of passed and failed tests.
fn run(folder: &Path, program: &Path, machine: &str) -> Result<[usize; 2], String> {
    let ran = Command::new(program)
        .current_dir(folder)
        .env("SIMJOIN_MACHINE", machine)
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&ran.stdout);
    let tests = |state: &str| text.matches(&format!(" ... {state}\n")).count();
    if ran.status.success() {
        return Ok([tests("ok"), 0]);
    }
    eprintln!("{} with SIMJOIN_MACHINE={machine}:\n{}", program.display(), last_lines(&text));
    Ok([tests("ok"), tests("FAILED").max(1)])
}

/// Returns the last lines of an output, each shortened.
fn last_lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| line.chars().take(500).collect()).collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}

/// Busy processes, which end when this is dropped.
struct Load(Vec<Child>);

impl Load {
    fn start() -> Result<Self, String> {
        let mut load = Load(Vec::new());
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        for _ in 0..BUSY_PROCESSES {
            let child = Command::new(&program).arg(LOAD).stdin(Stdio::piped()).spawn();
            load.0.push(child.map_err(|error| format!("{}: {error}", program.display()))?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Keeps a core busy until the process that started this one has ended.
pub fn load() -> Check {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    loop {
        std::hint::spin_loop();
    }
}
