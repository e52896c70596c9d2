//! What happens with devices and compilers that do not fit together, and with damaged cached code?

use super::emulated::{Part, run_in_process};
use super::run;
use super::vectors::{self, Collect, by_cpu, clustered, sorted_pairs, vectors};
use libtest_mimic::Failed;
use simjoin_core::{Bounds, Error, Measure, Predicate, VectorPredicate};
use simjoin_cpu::Naive;
use simjoin_engine::{Budget, Kind, SetTask, Sets, Technique, Tile, VectorTask, Vectors};
use simjoin_gpu::{
    Device, GpuBitmap, GpuPrefix, GpuVectors, Nvrtc, VectorWay, devices, first_device, left_out,
};
use simjoin_testing::collections;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const PARTS: [Part; 6] = [
    ("joins", joins),
    ("no_code", no_code),
    ("no_compiler", no_compiler),
    ("second_device_alone", second_device_alone),
    ("no_device", no_device),
    ("inexact_sums", inexact_sums),
];

/// Tests that a device that NVRTC does not know runs code for the newest one that it knows.
pub fn newer_device(_: &Arc<Device>) -> Result<(), Failed> {
    let folder = Folder::new("newer")?;
    for (device, nvrtc) in [("12.0:2:1G", "12.4"), ("10.0:2:1G", "12.4")] {
        run_in_process(
            "joins",
            &[
                ("EMULATOR_DEVICES", device),
                ("EMULATOR_NVRTC", nvrtc),
                ("EMULATOR_DRIVER", "12.8"),
                ("XDG_CACHE_HOME", folder.text()),
            ],
        )?;
    }
    Ok(())
}

/// Tests that the error is `Unavailable`, so that the CPU can do the work, if NVRTC makes no code for a
/// device.
pub fn nothing_compiles(_: &Arc<Device>) -> Result<(), Failed> {
    let folder = Folder::new("nothing")?;
    let all = "sm_75,sm_80,sm_86,sm_87,sm_88,sm_89,sm_90";
    let cache = ("XDG_CACHE_HOME", folder.text());
    run_in_process(
        "no_code",
        &[("EMULATOR_DEVICES", "9.0:2:1G"), ("EMULATOR_NVRTC_REFUSES", all), cache],
    )?;
    let versions = [("EMULATOR_DRIVER", "12.4"), ("EMULATOR_NVRTC", "13.0")];
    run_in_process("no_compiler", &[versions[0], versions[1], cache])
}

/// Tests that devices that are too old, or that cannot be opened, are left out, and the others are used.
pub fn some_left_out(_: &Arc<Device>) -> Result<(), Failed> {
    run_in_process("second_device_alone", &[("EMULATOR_DEVICES", "6.1:2:1G,9.0:2:1G")])?;
    let both = ("EMULATOR_DEVICES", "9.0:2:1G,9.0:2:1G");
    run_in_process("second_device_alone", &[both, ("EMULATOR_CLOSED", "0")])?;
    run_in_process("no_device", &[both, ("EMULATOR_CLOSED", "0,1")])
}

/// Tests that cached code that was cut short or does not load is compiled and cached again.
pub fn damaged_code(_: &Arc<Device>) -> Result<(), Failed> {
    let folder = Folder::new("damaged")?;
    let run = || {
        run_in_process(
            "joins",
            &[("EMULATOR_DEVICES", "9.0:2:1G"), ("XDG_CACHE_HOME", folder.text())],
        )
    };
    run()?;
    let cached_files = folder.cached_files()?;
    if cached_files.is_empty() {
        return Err("no code is cached".into());
    }
    let code = |file: &PathBuf| std::fs::read(file).map_err(|error| error.to_string());
    let whole = cached_files.iter().map(code).collect::<Result<Vec<_>, _>>()?;
    for damage in [|code: &[u8]| code[..code.len() / 2].to_vec(), other_code] {
        for (file, whole) in cached_files.iter().zip(&whole) {
            std::fs::write(file, damage(whole)).map_err(|error| error.to_string())?;
        }
        run()?;
        for (file, whole) in cached_files.iter().zip(&whole) {
            if code(file)? != *whole {
                return Err(format!("{} was not restored", file.display()).into());
            }
        }
    }
    Ok(())
}

/// Returns a valid cache file with code that no driver loads.
fn other_code(_: &[u8]) -> Vec<u8> {
    simjoin_gpu::cache_entry(b"\x7fELF, but nothing else")
}

/// Tests tensor cores that keep 12 bits of a sum, simulated by a kernel that truncates the sums.
pub fn inexact_device(_: &Arc<Device>) -> Result<(), Failed> {
    let folder = Folder::new("inexact")?;
    let find = "        // The thresholds of rows and columns.";
    let cut = "        for (u32 i = 0; i < TALL * BROAD * 4; i++) {\n            Sum& sum = sums[i / (BROAD * 4)][i / 4 % BROAD][i % 4];\n            sum = (Sum)((int)(sum * 16) / 16);\n        }\n";
    let file = folder.0.join("mutation");
    std::fs::write(&file, format!("{find}\n=====\n{cut}{find}")).map_err(|e| e.to_string())?;
    let file = file.to_str().expect("a temporary file's name is text");
    for device in ["9.0:2:1G", "8.6:2:1G"] {
        run_in_process(
            "inexact_sums",
            &[
                ("EMULATOR_DEVICES", device),
                ("EMULATOR_MUTATION", file),
                ("XDG_CACHE_HOME", folder.text()),
            ],
        )?;
    }
    Ok(())
}

/// Checks that tensor cores are not used, and that pairs are found without them.
fn inexact_sums() -> Result<(), Failed> {
    let devices = devices().map_err(|error| error.to_string())?;
    let rows = vectors(&clustered(1, 300, 100, 9, 0.3), false);
    let predicate = VectorPredicate::within("1.5").unwrap();
    let task = VectorTask::new(&rows, None, predicate);
    let budget = Budget::unlimited(0, 2);
    let technique = GpuVectors::new(devices, VectorWay::Tensor);
    let prepared = technique
        .prepare(&task, &Vectors::whole(&task), &budget)
        .map_err(|error| error.to_string())?;
    let details = prepared.details();
    if !details.contains("differences") || !details.contains("less exactly") {
        return Err(details.into());
    }
    let mut sink = Collect(Vec::new());
    vectors::run(&technique, &task, &mut sink)?;
    if sorted_pairs(&task, &sink.0) != by_cpu(&task) {
        return Err("gpu-tensor finds different pairs".into());
    }
    match GpuVectors::new(devices, VectorWay::Quantile).prepare(
        &task,
        &Vectors::whole(&task),
        &budget,
    ) {
        Err(Error::Unavailable(why)) if why.contains("less exactly") => Ok(()),
        Err(why) => Err(why.to_string().into()),
        Ok(_) => Err("gpu-quantile is prepared".into()),
    }
}

/// A folder that is removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Result<Self, Failed> {
        let path = std::env::temp_dir().join(format!("simjoin-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| error.to_string())?;
        Ok(Folder(path))
    }

    fn text(&self) -> &str {
        self.0.to_str().expect("a temporary folder's name is text")
    }

    /// Returns the files of cached code, by name.
    fn cached_files(&self) -> Result<Vec<PathBuf>, String> {
        fn files(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
            for entry in std::fs::read_dir(folder)? {
                let path = entry?.path();
                if path.is_dir() { files(&path, found)? } else { found.push(path) }
            }
            Ok(())
        }
        let mut found = Vec::new();
        files(&self.0.join("simjoin"), &mut found).map_err(|error| error.to_string())?;
        found.sort_unstable();
        Ok(found)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Checks that some techniques find the pairs of the CPU on all devices.
fn joins() -> Result<(), Failed> {
    let devices = devices().map_err(|error| error.to_string())?;
    let rows = super::near_duplicates(30, 0..150);
    let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.6").unwrap());
    let (left, _) = collections(&rows, None);
    for (task, _) in SetTask::directions(&left, None, true, bounds) {
        let (tile, budget) = (Tile::whole(&task), Budget::unlimited(1000, 2));
        let expected = run(&Naive, &task, &tile, &budget);
        let techniques: [Box<dyn Technique<Sets>>; 2] = [
            Box::new(GpuBitmap::new(devices, 256)),
            Box::new(GpuPrefix { devices: devices.to_vec() }),
        ];
        for technique in techniques {
            if run(&*technique, &task, &tile, &budget) != expected {
                return Err(format!("{} finds different pairs", technique.name()).into());
            }
        }
    }
    let rows = vectors(&clustered(1, 300, 40, 9, 0.3), false);
    let predicate = VectorPredicate::within("1.1").unwrap();
    let task = VectorTask::new(&rows, None, predicate);
    let mut sink = Collect(Vec::new());
    vectors::run(&GpuVectors::new(devices, VectorWay::Tensor), &task, &mut sink)?;
    match sorted_pairs(&task, &sink.0) == by_cpu(&task) {
        true => Ok(()),
        false => Err("gpu-tensor finds different pairs".into()),
    }
}

/// Checks the error for a device without code.
fn no_code() -> Result<(), Failed> {
    let devices = devices().map_err(|error| error.to_string())?;
    let rows = vectors(&clustered(1, 300, 4, 9, 0.3), false);
    let predicate = VectorPredicate::within("0.1").unwrap();
    let task = VectorTask::new(&rows, None, predicate);
    let technique = GpuVectors::new(devices, VectorWay::NestedLoop);
    let budget = Budget::unlimited(0, 2);
    match technique.prepare(&task, &Vectors::whole(&task), &budget) {
        Err(Error::Unavailable(why)) if why.contains("compute capability 9.0") => Ok(()),
        Err(why) => Err(format!("another error: {why:?}").into()),
        Ok(_) => Err("it is prepared".into()),
    }
}

fn no_compiler() -> Result<(), Failed> {
    match Nvrtc::get() {
        Err(Error::Unavailable(why)) if why.contains("NVRTC 13.0") && why.contains("12.4") => {
            Ok(())
        }
        other => Err(format!("{other:?}").into()),
    }
}

fn second_device_alone() -> Result<(), Failed> {
    let first = first_device().map_err(|error| error.to_string())?;
    let all = devices().map_err(|error| error.to_string())?;
    let used: Vec<usize> = all.iter().map(|device| device.info.ordinal).collect();
    if used != [1] || first.info.ordinal != 1 {
        return Err(format!("devices {used:?} are used").into());
    }
    match &left_out()[..] {
        [out] if out.ordinal == 0 && out.name.contains("mulated") && !out.why.is_empty() => {}
        other => return Err(format!("left out: {other:?}").into()),
    }
    joins()
}

fn no_device() -> Result<(), Failed> {
    match (devices(), first_device()) {
        (Err(Error::Unavailable(why)), Err(Error::Unavailable(same)))
            if why == same && why.contains("0 (") && why.contains("1 (") =>
        {
            Ok(())
        }
        other => Err(format!("{other:?}").into()),
    }
}
