//! What was executed?
//!
//! At the end of the process, the file `EMULATOR_LOG` gets one line for each kernel and architecture, for each form of
//! PTX, and for each function of the driver:
//!
//! ```text
//! kernel NAME@SOURCE sm_90 LAUNCHES THREADS
//! ptx cp.async.commit_group TIMES
//! call cuLaunchKernel TIMES
//! ```
//!
//! `SOURCE` is a hash of the kernel's source, since several sources may have kernels of the same name.

use crate::settings::settings;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

/// The counts so far.
#[derive(Default)]
pub(super) struct Log {
    calls: BTreeMap<&'static str, u64>,
    kernels: BTreeMap<(String, String), (u64, u64)>,
    forms: BTreeMap<String, u64>,
}

impl Log {
    pub(super) fn called(&mut self, name: &'static str) {
        *self.calls.entry(name).or_default() += 1;
    }

    pub(super) fn launched(&mut self, kernel: &str, architecture: &str, threads: u64) {
        let key = (kernel.to_string(), architecture.to_string());
        let entry = self.kernels.entry(key).or_default();
        entry.0 += 1;
        entry.1 += threads;
    }

    pub(super) fn executed(&mut self, form: &str, times: u64) {
        if times > 0 {
            *self.forms.entry(form.to_string()).or_default() += times;
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for ((kernel, architecture), (launches, threads)) in &self.kernels {
            let _ = writeln!(text, "kernel {kernel} {architecture} {launches} {threads}");
        }
        for (form, times) in &self.forms {
            let _ = writeln!(text, "ptx {form} {times}");
        }
        for (name, times) in &self.calls {
            let _ = writeln!(text, "call {name} {times}");
        }
        text
    }
}

/// Registers a function that writes the log when the process ends.
pub(super) fn at_exit() {
    if settings().log.is_some() {
        // SAFETY: the function may be called at any time, and does not unwind.
        unsafe { libc::atexit(write) };
    }
}

extern "C" fn write() {
    let Some(file) = &settings().log else { return };
    // If a thread still holds the lock at the end, nothing is written.
    let Some(mut driver) = super::DRIVER.try_lock() else { return };
    let Some(driver) = driver.as_mut() else { return };
    let modules: Vec<_> = driver.modules.values().cloned().collect();
    for module in modules {
        module.count(&mut driver.log);
    }
    let text = driver.log.text();
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
    // One call, so that processes that end at the same time do not mix their lines.
    if let Err(error) = opened.and_then(|mut file| file.write_all(text.as_bytes())) {
        eprintln!("emulated device: EMULATOR_LOG={}: {error}", file.display());
    }
}
