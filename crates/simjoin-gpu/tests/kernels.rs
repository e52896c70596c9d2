//! Does every kernel compile for every architecture that it is meant for?
//!
//! `kernels-compiled.txt` records what has compiled: one line per kernel, set of definitions, architecture
//! and version of NVRTC, with a hash of the text. Only kernels that are not in it are tested here. These
//! tests need NVRTC, but no device. Without NVRTC they are ignored, unless `SIMJOIN_NVRTC` names it.
//!
//! * `SIMJOIN_KERNELS=all` compiles every kernel, recorded or not.
//! * `SIMJOIN_KERNELS_RECORD=1` writes the record if all kernels have compiled. `cargo xtask gpu-kernels`
//!   sets it.
//!
//! The tests of the other record, `gpu-verification.toml`, are here too.

use libtest_mimic::{Arguments, Failed, Trial};
use simjoin_gpu::{Kernel, Nvrtc, kernel_text, kernels};
use std::collections::BTreeSet;
use std::process::ExitCode;

#[path = "device/record.rs"]
mod record;

/// The version of NVRTC that the record is for.
const VERSION: (i32, i32) = (13, 0);

/// The path of the record.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/kernels-compiled.txt");

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    // An empty cache, so that kernels are compiled.
    let empty = std::env::temp_dir().join(format!("simjoin-kernels-{}", std::process::id()));
    // SAFETY: no other thread has started.
    unsafe { std::env::set_var("XDG_CACHE_HOME", &empty) };
    let compiled = std::fs::read_to_string(FILE).unwrap_or_default();
    let compiled: BTreeSet<&str> = compiled.lines().collect();
    let all = std::env::var_os("SIMJOIN_KERNELS").is_some_and(|which| which == "all");
    let missing = Nvrtc::get().is_err() && std::env::var_os("SIMJOIN_NVRTC").is_none();
    let check = |(name, test): (&str, fn())| {
        let run = move || {
            test();
            Ok(())
        };
        Trial::test(name, run)
    };
    let mut tests: Vec<Trial> = record::TESTS.into_iter().map(check).collect();
    let mut lines = BTreeSet::new();
    for Kernel { name, source, defines, architectures } in kernels() {
        for &architecture in architectures {
            let defines = defines.clone();
            let line = line(name, &defines, architecture, source);
            if all || !compiled.contains(&*line) {
                let title = line.rsplit_once(' ').map_or(&*line, |(title, _)| title);
                let compile = move || compile(source, architecture, &defines);
                tests.push(
                    Trial::test(title, compile).with_kind("NVRTC").with_ignored_flag(missing),
                );
            }
            lines.insert(line);
        }
    }
    let known = lines.iter().filter(|line| compiled.contains(&***line)).count();
    eprintln!("{known} of {} kernels have not changed since they compiled", lines.len());
    match std::fs::read_to_string(record::FILE) {
        Ok(text) => match record::changes(&text, kernel_text::FILES) {
            Ok(report) | Err(report) => eprintln!("{report}"),
        },
        Err(error) => eprintln!("{}: {error}", record::FILE),
    }
    let conclusion = libtest_mimic::run(&arguments, tests);
    let _ = std::fs::remove_dir_all(empty);
    if std::env::var_os("SIMJOIN_KERNELS_RECORD").is_some() {
        if conclusion.has_failed() || conclusion.num_ignored + conclusion.num_filtered_out > 0 {
            eprintln!("no record: not everything has compiled");
            return ExitCode::FAILURE;
        }
        let text: String = lines.iter().map(|line| line.to_owned() + "\n").collect();
        if lines.iter().map(String::as_str).collect::<BTreeSet<_>>() != compiled {
            if let Err(error) = std::fs::write(FILE, text) {
                eprintln!("{FILE}: {error}");
                return ExitCode::FAILURE;
            }
            eprintln!("{FILE} has been rewritten; commit it");
        }
    }
    conclusion.exit_code()
}

/// Returns the line of the record for a kernel, with a hash of the options and the text.
fn line(name: &str, defines: &[(&str, u32)], architecture: &str, source: &str) -> String {
    let mut words = vec![name.to_owned()];
    words.extend(defines.iter().map(|(name, to)| format!("{name}={to}")));
    words.push(architecture.into());
    words.push(format!("NVRTC-{}.{}", VERSION.0, VERSION.1));
    words.push(kernel_text::hash(&format!("{:?}\n{source}", Nvrtc::OPTIONS)));
    words.join(" ")
}

fn compile(source: &str, architecture: &str, defines: &[(&str, u32)]) -> Result<(), Failed> {
    let nvrtc = Nvrtc::get().map_err(|error| error.to_string())?;
    if nvrtc.version() != VERSION && std::env::var_os("SIMJOIN_KERNELS_RECORD").is_some() {
        return Err(format!("NVRTC is {:?}; the record is for {VERSION:?}", nvrtc.version()).into());
    }
    let code = nvrtc.compile(source, architecture, defines);
    let code = code.map_err(|error| error.to_string())?;
    if code.starts_with(b"\x7fELF") { Ok(()) } else { Err("no machine code".into()) }
}
