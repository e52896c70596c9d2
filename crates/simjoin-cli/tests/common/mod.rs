//! Helpers for tests of the command line: a folder, files in it, and the program.

#![allow(dead_code)]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.join(name), content).unwrap();
        self
    }

    /// Returns a command that runs the program in the folder.
    pub fn command(&self) -> Command {
        command(program(), self.path())
    }

    /// Runs the program in the folder, reads one line of its output and closes the pipe; the program
    /// must end quietly. Returns the line.
    pub fn leave_after_a_line(&self, arguments: &str) -> String {
        let mut child = self
            .command()
            .args(arguments.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
        line
    }

    /// Runs the program in the folder.
    pub fn run(&self, arguments: &str) -> Run {
        self.run_with(arguments, b"")
    }

    /// Runs the program in the folder with this standard input.
    pub fn run_with(&self, arguments: &str, input: &[u8]) -> Run {
        self.run_in(arguments, input, &[])
    }

    /// Runs the program in the folder with this standard input and these environment variables.
    pub fn run_in(&self, arguments: &str, input: &[u8], variables: &[(&str, &str)]) -> Run {
        let mut child = self
            .command()
            .args(arguments.split_whitespace())
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        // The program may end before it has read everything.
        let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        Run::new(output)
    }

    /// Returns the names in the folder, including hidden ones, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Returns a command that plans for a fixed machine, unless the environment names another one, without a simulated device and
/// with a separate cache folder.
pub fn command(program: impl AsRef<OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(folder)
        .env("SIMJOIN_MACHINE", machine())
        .env("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"))
        .env_remove("SIMJOIN_SIMULATED_GPU");
    command
}

/// Returns the fixed machine for which plans are made. Its cost table may be scaled.
pub fn machine() -> String {
    machine_times(1.0)
}

/// Returns the same machine, slower by a factor.
pub fn machine_times(factor: f64) -> String {
    let outside = std::env::var("SIMJOIN_MACHINE").unwrap_or_default();
    let scale = outside.strip_prefix("fixed:").map_or(1.0, |scale| scale.parse().unwrap());
    format!("fixed:{}", scale * factor)
}

pub fn program() -> &'static str {
    env!("CARGO_BIN_EXE_simjoin")
}

#[derive(Debug)]
pub struct Run {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Run {
    pub fn new(output: Output) -> Self {
        Run {
            status: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Returns the output of a run, which must have succeeded with an empty standard error.
    pub fn ok(self) -> String {
        assert_eq!((self.status, self.err.as_str()), (0, ""), "{self:?}");
        self.out
    }

    /// Checks that the run failed with this status and exactly one line that contains all of these parts.
    pub fn fails(self, status: i32, parts: &[&str]) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.err.matches('\n').count(), 1, "{self:?}");
        assert!(self.err.ends_with('\n') && self.err.starts_with("simjoin: "), "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "{part:?} is not in {self:?}");
        }
    }
}
