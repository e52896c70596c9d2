//! How does C++ become a shared library, and when does a cached one suffice?
//!
//! The C++ compiler is that of the machine (`CXX`, or `c++`). Its results are cached in a folder under a hash of
//! everything that they depend on: the text after the preprocessor, the device's own sources, the compiler and its
//! options. Architectures with the same text share a result, and so do processes: files get their names when they are
//! complete, and a process waits for a file that another process is making.

use crate::settings::settings;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

const MACHINE: &str = include_str!("../device/machine.h");
const CUDA: &str = include_str!("../device/cuda.h");
const PTX: &str = include_str!("../device/ptx.h");
const RUNTIME: &str = include_str!("../device/runtime.cc");
const MEMORY: &str = include_str!("../device/memory.cc");
const MATRIX: &str = include_str!("../device/matrix.cc");
const RACES: &str = include_str!("../device/races.cc");

/// The C++ compiler.
struct Compiler {
    program: String,
    /// The output of `--version`.
    version: String,
}

fn compiler() -> Result<&'static Compiler, String> {
    static FOUND: OnceLock<Result<Compiler, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let program = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
        let output = Command::new(&program).arg("--version").output().map_err(|error| {
            format!("the emulated compiler needs a C++ compiler: {program}: {error}")
        })?;
        Ok(Compiler { version: String::from_utf8_lossy(&output.stdout).into_owned(), program })
    });
    found.as_ref().map_err(String::clone)
}

/// Returns the options for all compilations.
fn options() -> Vec<&'static str> {
    let mut options = vec![
        "-std=c++17",
        "-fPIC",
        "-w",
        "-pipe",
        "-fvisibility=hidden",
        "-fno-exceptions",
        "-fno-rtti",
        "-fno-strict-aliasing",
        "-fwrapv",
        "-fno-stack-protector",
        "-fno-threadsafe-statics",
        "-fno-asynchronous-unwind-tables",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-fno-semantic-interposition",
        // NVRTC does this by default.
        "-ffp-contract=fast",
    ];
    #[cfg(target_arch = "x86_64")]
    {
        options.push("-fcf-protection=none");
        if is_modern() {
            options.push("-march=x86-64-v3");
        }
    }
    if settings().races {
        options.push("-DEMULATOR_RACES");
    }
    options
}

/// Returns whether this processor supports `-march=x86-64-v3`.
#[cfg(target_arch = "x86_64")]
fn is_modern() -> bool {
    std::is_x86_feature_detected!("avx2")
        && std::is_x86_feature_detected!("fma")
        && std::is_x86_feature_detected!("bmi1")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("lzcnt")
        && std::is_x86_feature_detected!("popcnt")
        && std::is_x86_feature_detected!("f16c")
        && std::is_x86_feature_detected!("movbe")
}

/// Returns the concatenation of several source files.
fn concatenated(files: &[(&str, &str)]) -> String {
    let mut all = String::new();
    for (name, text) in files {
        all.push_str(&format!("# 1 \"{name}\"\n"));
        for line in text.lines() {
            // Included files come earlier.
            let keep = !line.starts_with("#include") && !line.starts_with("#pragma once");
            all.push_str(if keep { line } else { "" });
            all.push('\n');
        }
    }
    all
}

/// Returns the beginning of every translated source.
pub fn prelude() -> String {
    concatenated(&[("machine.h", MACHINE), ("cuda.h", CUDA), ("ptx.h", PTX)])
}

/// Returns a hash of how modules are compiled: the same for one build of the emulator, on one machine, with
/// the same settings.
pub fn variant() -> [u8; 32] {
    let mut hash = Sha256::new();
    for text in [MACHINE, CUDA, PTX, RUNTIME, MEMORY, MATRIX, RACES] {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hash.update([u8::from(settings().races)]);
    if let Some((find, replacement)) = &settings().mutation {
        hash.update(find);
        hash.update("=====");
        hash.update(replacement);
    }
    hash.finalize().into()
}

/// Runs the compiler on a text. Returns its output, or its error messages.
fn run(arguments: &[&str], input: &str) -> Result<Vec<u8>, String> {
    let compiler = compiler()?;
    let failed = |error: std::io::Error| format!("{}: {error}", compiler.program);
    let mut child = Command::new(&compiler.program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut stdin = child.stdin.take();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A compiler that does not read all of its input reports an error itself.
            if let Some(stdin) = stdin.as_mut() {
                let _ = stdin.write_all(input.as_bytes());
            }
        });
        child.wait_with_output()
    });
    let output = output.map_err(failed)?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Returns the text of a source after the preprocessor. Messages refer to the source by `name`.
pub fn preprocess(source: &str, name: &str, defines: &[String]) -> Result<String, String> {
    let mut arguments = vec!["-E", "-x", "c++", "-std=c++17", "-nostdinc"];
    arguments.extend(defines.iter().map(String::as_str));
    arguments.push("-");
    let text = format!("# 1 \"{name}\"\n{source}");
    let out = run(&arguments, &text)?;
    String::from_utf8(out).map_err(|_| format!("{name} is not valid UTF-8"))
}

/// Returns the shared library of a translated source.
pub fn library(code: &str) -> Result<Vec<u8>, String> {
    let runtime = runtime()?;
    let runtime = runtime.to_string_lossy();
    // Line numbers, for messages.
    let mut flags = vec!["-O2", "-g1", "-fsanitize=alignment,bounds"];
    if settings().races {
        flags.push("-fsanitize=thread");
    }
    // The runtime defines the functions of the checks, so the compiler's libraries are not linked.
    let link = ["-shared", "-nostdlib", "-x", "c++", "-", "-x", "none", &runtime, "-lm", "-lc"];
    flags.extend(link);
    let file = cached_result(code, &flags, "so")?;
    std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))
}

/// Returns the compiled code that runs threads.
fn runtime() -> Result<PathBuf, String> {
    static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let code = concatenated(&[
            ("machine.h", MACHINE),
            ("ptx.h", PTX),
            ("runtime.cc", RUNTIME),
            ("memory.cc", MEMORY),
            ("matrix.cc", MATRIX),
            ("races.cc", RACES),
        ]);
        cached_result(&code, &["-O3", "-c", "-x", "c++", "-"], "o")
    });
    made.clone()
}

/// Returns the compiler's result for a text, from the cache if possible.
fn cached_result(code: &str, flags: &[&str], kind: &str) -> Result<PathBuf, String> {
    let options = options();
    let mut hash = Sha256::new();
    for part in options.iter().chain(flags).copied().chain([&compiler()?.version[..], code]) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let name: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let folder = &settings().cache;
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let file = folder.join(format!("{name}.{kind}"));
    if file.exists() {
        return Ok(file);
    }
    let lock_file = folder.join(format!("{name}.lock"));
    let _lock = Lock::new(&lock_file)?;
    if file.exists() {
        return Ok(file);
    }
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let part = folder.join(format!("{name}.{}.{number}.part", std::process::id()));
    let out = part.to_string_lossy();
    let mut arguments = options;
    arguments.extend(["-o", &out]);
    arguments.extend(flags);
    let made = run(&arguments, code).and_then(|_| {
        std::fs::rename(&part, &file).map_err(|error| format!("{}: {error}", file.display()))
    });
    if made.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    made.map(|()| file)
}

/// A lock between processes, which is released when it is dropped or its process ends.
struct Lock<'a> {
    _file: File,
    path: &'a Path,
}

impl<'a> Lock<'a> {
    fn new(path: &'a Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let file = File::create(path).map_err(failed)?;
        // SAFETY: the descriptor is open.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } != 0 {
            return Err(failed(std::io::Error::last_os_error()));
        }
        Ok(Lock { _file: file, path })
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // Waiting processes have the file open. At worst a result is made twice.
        let _ = std::fs::remove_file(self.path);
    }
}
