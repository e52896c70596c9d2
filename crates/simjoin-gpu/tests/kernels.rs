//! Does every kernel compile for every architecture that it is meant for?
//!
//! Needs NVRTC, but no device; where it is missing, the tests are counted as ignored, unless
//! `SIMJOIN_NVRTC` says that it must be there.

use libtest_mimic::{Arguments, Trial};
use simjoin_gpu::{Kernel, Nvrtc, kernels};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    // Compiled anew, not taken from a cache.
    let empty = std::env::temp_dir().join(format!("simjoin-kernels-{}", std::process::id()));
    // SAFETY: no other thread has begun.
    unsafe { std::env::set_var("XDG_CACHE_HOME", &empty) };
    let missing = Nvrtc::get().is_err() && std::env::var_os("SIMJOIN_NVRTC").is_none();
    let mut tests = Vec::new();
    for Kernel { name, source, defines, architectures } in kernels() {
        for &architecture in architectures {
            let text: Vec<String> =
                defines.iter().map(|(name, to)| format!("{name}={to}")).collect();
            let title = format!("{name} {} {architecture}", text.join(" "));
            let defines = defines.clone();
            let compile = move || {
                let nvrtc = Nvrtc::get().map_err(|error| error.to_string())?;
                let code = nvrtc.compile(source, architecture, &defines);
                let code = code.map_err(|error| error.to_string())?;
                if code.starts_with(b"\x7fELF") { Ok(()) } else { Err("no machine code".into()) }
            };
            tests.push(Trial::test(title, compile).with_ignored_flag(missing));
        }
    }
    let code = libtest_mimic::run(&arguments, tests).exit_code();
    let _ = std::fs::remove_dir_all(empty);
    code
}
