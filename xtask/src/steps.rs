//! How are all steps run, and how long does each take?
//!
//! Two at a time, because much of a step uses only one core. Each step is a separate process
//! (`cargo xtask STEP`) whose output is shown when it ends. Steps that need cargo's build folder at the same
//! time wait for each other. After a failure no further step starts. At the end a table shows the time of
//! each step.

use crate::{Check, root};
use parking_lot::Mutex;
use std::fs::{File, create_dir_all};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The number of steps that run at a time.
const PARALLEL_STEPS: usize = 2;

/// Clock ticks per second in Linux's `/proc`.
const TICKS: f64 = 100.0;

/// A finished step.
struct FinishedStep {
    name: &'static str,
    line: String,
    passed: bool,
}

/// Runs all steps, and prints the table.
pub fn run_all(names: &[&'static str]) -> Check {
    let begin = Instant::now();
    let program = std::env::current_exe().map_err(|error| format!("xtask: {error}"))?;
    let logs = root().join("target/xtask");
    create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    let pending = Mutex::new(names.iter());
    let ended = Mutex::new(Vec::new());
    let next = || {
        let failed = ended.lock().iter().any(|step: &FinishedStep| !step.passed);
        if failed { None } else { pending.lock().next() }
    };
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL_STEPS {
            scope.spawn(|| {
                while let Some(&name) = next() {
                    eprintln!("── {name} …");
                    let step = run_one(&program, &logs.join(format!("{name}.log")), name);
                    ended.lock().push(step);
                }
            });
        }
    });
    let mut ended = ended.into_inner();
    ended.sort_by_key(|step| names.iter().position(|name| *name == step.name));
    eprintln!("\n{:<14}{:>10}{:>14}", "step", "seconds", "CPU seconds");
    for step in &ended {
        eprintln!("{:<14}{}", step.name, step.line);
    }
    eprintln!("{:<14}{}", "all", times(begin));
    let failed: Vec<&str> =
        ended.iter().filter(|step| !step.passed).map(|step| step.name).collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

/// Runs a step in a separate process, and shows its output.
fn run_one(program: &Path, log: &Path, name: &'static str) -> FinishedStep {
    let run = || -> std::io::Result<(bool, String)> {
        let file = File::create(log)?;
        let status = Command::new(program)
            .arg(name)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .status()?;
        let output = std::fs::read(log)?;
        Ok((status.success(), String::from_utf8_lossy(&output).into_owned()))
    };
    let (passed, output) = run().unwrap_or_else(|error| (false, format!("{name}: {error}\n")));
    eprint!("{output}");
    // The last line of `run_step`.
    let last = output.lines().rev().find_map(|line| line.strip_prefix(&format!("── {name}: ")));
    FinishedStep { name, line: last.unwrap_or("    failed").to_owned(), passed }
}

/// Runs a step in this process. The last line of its output has its times.
pub fn run_step(name: &str, check: fn() -> Check) -> Check {
    eprintln!("── {name}");
    let begin = Instant::now();
    let checked = check();
    eprintln!("── {name}: {}", times(begin));
    checked.map_err(|why| format!("── {name} failed: {why}"))
}

/// Returns the seconds since `begin`, and the CPU seconds of this process and of the processes that it has
/// waited for.
fn times(begin: Instant) -> String {
    let wall = begin.elapsed().as_secs_f64();
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let cpu = cpu_seconds(&stat).map_or_else(|| "?".into(), |seconds| format!("{seconds:.0}"));
    format!("{wall:>10.0}{cpu:>14}")
}

/// Returns the sum of the four times in a line of `/proc/PID/stat`: user and system, own and children's.
fn cpu_seconds(stat: &str) -> Option<f64> {
    // The second field is a name in parentheses, which may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: Option<Vec<f64>> =
        fields.split_whitespace().skip(11).take(4).map(|field| field.parse().ok()).collect();
    ticks.filter(|ticks| ticks.len() == 4).map(|ticks| ticks.iter().sum::<f64>() / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_seconds_are_the_sum_of_four_fields() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 200 0 0 150 50 1000 300 20 0 1 0 12345 0";
        assert_eq!(cpu_seconds(stat), Some(15.0));
        assert_eq!(cpu_seconds(""), None);
        assert_eq!(cpu_seconds("7 (a) S 1 7"), None);
    }
}
