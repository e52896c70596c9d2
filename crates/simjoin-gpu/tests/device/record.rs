//! Which kernels have run on a real device, on which device, and when?
//!
//! `cargo xtask gpu-record` runs the tests of `device.rs` on this machine's GPU and writes the record.
//! `cargo xtask gpu-kernels` reports the kernels that have changed since.

use simjoin_gpu::{DeviceInfo, kernel_text};
use std::time::{SystemTime, UNIX_EPOCH};

/// The path of the record.
pub const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/gpu-verification.toml");

/// Returns the record of a run in which `passed` tests passed, or an error that says why there can be none.
pub fn record(info: &DeviceInfo, passed: u64) -> Result<String, String> {
    if emulated(&info.name) {
        return Err(format!("`{}` is emulated; only a real device can be recorded", info.name));
    }
    let (major, minor) = info.driver;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = date(seconds / 86_400);
    let mut text = format!(
        "# The last run on a real device, written by `cargo xtask gpu-record`.\n\
         tests = \"crates/simjoin-gpu/tests/device.rs\"\n\
         passed = {passed}\n\
         device = \"{}\"\n\
         capability = \"{}.{}\"\n\
         driver = \"CUDA {major}.{minor}\"\n\
         date = \"{year}-{month:02}-{day:02}\"\n\n\
         # Hashes of the texts without comments and blank space.\n\
         [kernels]\n",
        info.name, info.capability.0, info.capability.1,
    );
    for (name, source) in kernel_text::FILES {
        text += &format!("\"{name}\" = \"{}\"\n", kernel_text::hash(source));
    }
    Ok(text)
}

/// Returns one line about the kernels that have changed since a record was written, or an error about the
/// record.
pub fn changes(record: &str, files: &[(&str, &str)]) -> Result<String, String> {
    let value = |name: &str| {
        let mut values = record.lines().filter_map(|line| line.split_once(" = "));
        let found = values.find(|(key, _)| key.trim_matches('"') == name);
        found.map(|(_, value)| value.trim_matches('"'))
    };
    let known = |name: &str| {
        value(name)
            .ok_or_else(|| format!("{FILE} has no `{name}`; `cargo xtask gpu-record` writes it"))
    };
    let (device, date) = (known("device")?, known("date")?);
    if emulated(device) {
        return Err(format!(
            "{FILE} names `{device}`, which is emulated; it must name a real device"
        ));
    }
    if !known("passed")?.parse::<u32>().is_ok_and(|passed| passed > 0) {
        return Err(format!(
            "{FILE} records no passed test; `cargo xtask gpu-record` writes it again"
        ));
    }
    let differs = |(name, source): &&(&str, &str)| value(name) != Some(&*kernel_text::hash(source));
    let changed: Vec<&str> = files.iter().filter(differs).map(|(name, _)| *name).collect();
    Ok(if changed.is_empty() {
        format!("no kernel has changed since the last run on a real device ({device}, {date})")
    } else {
        format!(
            "kernels changed since the last run on a real device ({device}, {date}): {}; run \
             `cargo xtask gpu-record` on a machine with a GPU",
            changed.join(", ")
        )
    })
}

/// Returns whether a device of this name is emulated.
fn emulated(name: &str) -> bool {
    name.to_lowercase().contains("emulated")
}

/// Returns the year, month and day of a day counted from 1970-01-01.
fn date(mut day: u64) -> (u64, u64, u64) {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    (year, month, day + 1)
}

/// Tests of the record itself, which need no device.
pub const TESTS: [(&str, fn()); 3] = [
    ("record_names_kernels_that_changed", record_names_kernels_that_changed),
    ("record_of_emulated_device_is_refused", record_of_emulated_device_is_refused),
    ("committed_record_is_readable", committed_record_is_readable),
];

fn device(name: &str) -> DeviceInfo {
    DeviceInfo {
        ordinal: 0,
        name: name.into(),
        memory: 1 << 30,
        capability: (9, 0),
        multiprocessors: 132,
        bandwidth: 0,
        driver: (13, 0),
        timeout: false,
    }
}

fn record_names_kernels_that_changed() {
    let text = record(&device("NVIDIA H200"), 22).unwrap();
    let report = |files: &[(&str, &str)]| changes(&text, files).unwrap();
    let mut files = kernel_text::FILES.to_vec();
    assert!(report(&files).starts_with("no kernel has changed since"), "{}", report(&files));
    let commented = format!("// a comment\n{}", files[0].1);
    files[0].1 = &commented;
    assert!(report(&files).contains("no kernel has changed"), "{}", report(&files));
    let prefix = files.iter().position(|(name, _)| *name == "prefix.cu").unwrap();
    let longer = format!("{}\nint more;", files[prefix].1);
    files[prefix].1 = &longer;
    files.push(("new.cu", "int a;"));
    let expected = "prefix.cu, new.cu; run `cargo xtask gpu-record` on a machine with a GPU";
    assert!(report(&files).contains("(NVIDIA H200, 2"), "{}", report(&files));
    assert!(report(&files).ends_with(expected), "{}", report(&files));
    for (from, to) in [("passed = 22", "passed = 0"), ("device =", "devil ="), ("date =", "day =")]
    {
        assert!(changes(&text.replace(from, to), &files).is_err(), "{to}");
    }
    for (days, expected) in [(0, (1970, 1, 1)), (11_016, (2000, 2, 29)), (20_775, (2026, 11, 18))] {
        assert_eq!(date(days), expected);
    }
}

fn record_of_emulated_device_is_refused() {
    assert!(record(&device("Emulated sm_90"), 22).unwrap_err().contains("emulated"));
    let text = record(&device("NVIDIA H200"), 22).unwrap().replace("NVIDIA H200", "Emulated sm_90");
    assert!(changes(&text, kernel_text::FILES).unwrap_err().contains("emulated"));
}

fn committed_record_is_readable() {
    let text = std::fs::read_to_string(FILE).unwrap();
    changes(&text, kernel_text::FILES).unwrap();
}
