//! Does every command give the same answer on every kind of GPU as on the CPU?
//!
//! The GPUs are emulated. `cargo xtask emulated` builds them, and runs these tests with a library that
//! replaces the driver first on the path of the loader. If it has not been built, the tests
//! count as ignored.
//!
//! Every trial runs the program once on the CPU and then by each technique of a GPU, and
//! compares rows, counts and groups.

mod common;
use common::{Folder, Run};
use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::path::PathBuf;
use std::process::ExitCode;

/// The compute capabilities for which different kernels are compiled.
const CAPABILITIES: [&str; 6] = ["7.5", "8.0", "8.6", "9.0", "10.0", "12.0"];

/// A join, and the techniques that support it on a GPU.
struct Command {
    name: &'static str,
    arguments: &'static str,
    techniques: &'static [&'static str],
    /// The answers to check in addition to its rows.
    answers: &'static [&'static str],
}

const SETS: &[&str] = &[
    "gpu-prefix",
    "gpu-bitmap:256",
    "gpu-bitmap:512",
    "gpu-bitmap:1024",
    "gpu-bitmap:2048",
    "gpu-mmjoin",
    "gpu-verify:all-pairs:a",
    "gpu-verify:ppjoin:b",
    "gpu-verify:group-join:c",
];
const VECTORS: &[&str] = &["gpu-quantile", "gpu-tensor", "gpu-grid", "gpu-nested-loop"];
const OVERLAPS: &[&str] =
    &["combined", "dense", "bitmap", "index", "bitmap-dynamic", "binary-search", "hash"];

const COMMANDS: &[Command] = &[
    Command {
        name: "sets",
        arguments: "sets a.txt --jaccard 0.5",
        techniques: SETS,
        answers: &["--count", "--groups"],
    },
    Command {
        name: "sets_of_two_files",
        arguments: "sets a.txt b.txt --cosine 0.6 --with-itself",
        techniques: SETS,
        answers: &["--count"],
    },
    Command {
        name: "sets_with_long_prefixes",
        arguments: "sets b.txt a.txt --overlap 2",
        techniques: SETS,
        answers: &["--count"],
    },
    Command {
        name: "text",
        arguments: "text t.csv --column title --id id --tokens qgrams:3 --dice 0.7",
        techniques: &["gpu-prefix", "gpu-bitmap:256", "gpu-verify:ppjoin:c"],
        answers: &["--count"],
    },
    Command {
        name: "vectors_of_few_dimensions",
        arguments: "vectors v.npy --within 0.05",
        techniques: VECTORS,
        answers: &["--count", "--groups"],
    },
    Command {
        name: "vectors_of_many_dimensions",
        arguments: "vectors w.csv x.csv --within 0.25",
        techniques: VECTORS,
        answers: &["--count"],
    },
    Command {
        name: "vectors_by_cosine",
        arguments: "vectors w.csv --cosine 0.99",
        techniques: VECTORS,
        answers: &["--count"],
    },
    Command {
        name: "vectors_of_whole_numbers",
        arguments: "vectors g.csv --within 30",
        techniques: VECTORS,
        answers: &["--count"],
    },
    Command {
        name: "overlaps",
        arguments: "overlaps a.txt --positive",
        techniques: OVERLAPS,
        answers: &["--count", "--top 3"],
    },
    Command {
        name: "overlaps_of_two_files",
        arguments: "overlaps b.txt a.txt",
        techniques: OVERLAPS,
        answers: &["--count"],
    },
    Command {
        name: "intersect",
        arguments: "intersect p.txt q.txt",
        techniques: &["ip", "ip-obs", "ip-hash", "bitmap"],
        answers: &["-o -", "--containment"],
    },
];

/// An emulated machine.
#[derive(Clone, Default)]
struct Gpus {
    variables: Vec<(&'static str, String)>,
}

impl Gpus {
    /// Devices in the form "capability:multiprocessors:memory", separated by commas.
    fn of(devices: &str) -> Self {
        // The folder may hold kernels that another build of the emulator has compiled; they are removed.
        let cache = emulator().unwrap_or_default().join("cache");
        let gpus = Gpus::default().with("XDG_CACHE_HOME", &cache.display());
        gpus.with("EMULATOR_DEVICES", &devices)
    }

    fn with(mut self, name: &'static str, value: &dyn Display) -> Self {
        self.variables.push((name, value.to_string()));
        self
    }

    fn run(&self, folder: &Folder, arguments: &str) -> Run {
        let variables: Vec<(&str, &str)> =
            self.variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let threads = if arguments.contains("--threads") { "" } else { "--threads 2" };
        folder.run_in(&format!("{arguments} {threads}"), b"", &variables)
    }
}

impl Display for Gpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.variables.iter().map(|(n, v)| format!("{n}={v}")).collect();
        f.write_str(&words.join(" "))
    }
}

/// Generates the same numbers on every machine.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(limit)) as u32
    }
}

/// Returns families of near-duplicate sets, with empty, equal, single-token and very long ones, and a
/// token that most sets hold.
fn sets(count: u32, seed: u64) -> String {
    let mut numbers = Numbers(seed);
    let mut text = String::new();
    for row in 0..count {
        let family = row / 6;
        let mut of_family = Numbers(u64::from(family) * 7919 + 1);
        let size = match family % 9 {
            0 => 1,
            1 => 2,
            8 if family % 27 == 8 => 700,
            _ => 4 + of_family.below(40),
        };
        let mut tokens: BTreeSet<u32> = (0..size).map(|_| of_family.below(900)).collect();
        if row % 6 > 1 {
            tokens.extend((0..1 + row % 3).map(|_| numbers.below(900)));
        }
        if row % 6 == 4 {
            tokens.pop_first();
        }
        if row % 5 != 0 {
            tokens.insert(1000);
        }
        if row % 61 == 60 {
            tokens.clear();
        }
        let words: Vec<String> = tokens.iter().map(u32::to_string).collect();
        text += &(words.join(" ") + "\n");
    }
    text
}

/// Returns sets so long that a warp merges two of them in several steps. Sets of one family are similar; those of
/// different families just miss the threshold, which shows before their end.
fn long_sets() -> String {
    let mut text = String::new();
    for row in 0..48 {
        let (mut of_family, mut own) = (Numbers(row % 12), Numbers(100 + row));
        let mut token = |at: u32| 4 * at + of_family.below(20) / 17 + own.below(50) / 49;
        let tokens: Vec<String> = (0..1500).map(|at| token(at).to_string()).collect();
        text += &(tokens.join(" ") + "\n");
    }
    text
}

fn titles() -> String {
    let mut numbers = Numbers(5);
    let words = ["exact", "joins", "of", "sets", "and", "texts", "on", "every", "device", "fast"];
    let mut text = String::from("id,title\n");
    let mut title = String::new();
    for row in 0..120 {
        if row % 3 == 0 {
            let chosen: Vec<&str> = (0..5).map(|_| words[numbers.below(10) as usize]).collect();
            title = chosen.join(" ");
        }
        text += &format!("r{row},{title}{}\n", ["", "s", " x"][row % 3]);
    }
    text
}

/// Returns points on a grid of whole numbers, some of them equal, with pairs exactly on the threshold.
fn grid() -> String {
    let mut numbers = Numbers(9);
    let mut text = String::new();
    for row in 0..300 {
        let spread = if row % 4 == 0 { 31 } else { 200 };
        let point: Vec<String> = (0..12).map(|_| numbers.below(spread).to_string()).collect();
        text += &(point.join(",") + "\n");
    }
    // Their distance is exactly 30.
    text += "0,0,0,0,0,0,0,0,0,0,0,0\n30,0,0,0,0,0,0,0,0,0,0,0\n0,18,24,0,0,0,0,0,0,0,0,0\n";
    text
}

/// Returns points around 20 centres, which do not depend on the seed.
fn clusters(count: u32, dimensions: u32, seed: u64) -> String {
    let mut numbers = Numbers(seed);
    let mut text = String::new();
    for _ in 0..count {
        let mut centre = Numbers(u64::from(numbers.below(20)) * 104_729 + 3);
        let point: Vec<String> = (0..dimensions)
            .map(|_| (f64::from(centre.below(1000) * 10 + numbers.below(1000)) / 1e4).to_string())
            .collect();
        text += &(point.join(",") + "\n");
    }
    text
}

fn numbers(seed: u64, count: u32, universe: u32) -> String {
    let mut numbers = Numbers(seed);
    let found: BTreeSet<u32> = (0..count).map(|_| numbers.below(universe)).collect();
    found.iter().map(|number| format!("{number}\n")).collect()
}

fn folder() -> Folder {
    let folder = Folder::new();
    folder.file("a.txt", sets(330, 1)).file("b.txt", sets(150, 2)).file("t.csv", titles());
    folder.file("g.csv", grid()).file("long.txt", long_sets());
    folder.file("p.txt", numbers(1, 5000, 20_000)).file("q.txt", numbers(2, 3000, 20_000));
    let points = "generate vectors clusters --vectors";
    folder.run(&format!("{points} 900 --dimension 4 -o v.npy")).ok();
    folder.file("w.csv", clusters(400, 40, 1)).file("x.csv", clusters(300, 40, 2));
    folder
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Returns the answer of the CPU, which must not be empty.
fn expected(folder: &Folder, join: &str) -> Result<String, Failed> {
    let run = folder.run(&format!("{join} --engine cpu"));
    let number: Option<f64> = run.out.trim().parse().ok();
    let nothing = number.map_or(run.out.lines().count() < 2, |number| number == 0.0);
    if run.status != 0 || nothing {
        return Err(format!("{join}: {run:?}").into());
    }
    Ok(run.out)
}

/// Runs a join on emulated GPUs, and compares its answer with the CPU's. Standard error must be empty.
fn agrees(folder: &Folder, gpus: &Gpus, join: &str, how: &str, cpu: &str) -> Result<(), Failed> {
    let run = gpus.run(folder, &format!("{join} {how}"));
    if run.status == 0 && run.err.is_empty() && sorted(&run.out) == sorted(cpu) {
        return Ok(());
    }
    let (found, wanted) = (run.out.lines().count(), cpu.lines().count());
    let (status, said) = (run.status, run.err);
    let said = said.trim();
    let count =
        if wanted == 1 { format!("{} for {}", run.out.trim(), cpu.trim()) } else { String::new() };
    Err(format!("{gpus} {join} {how}: status {status}, {found} lines for {wanted} {count}: {said}")
        .into())
}

/// Runs a command on one device of a capability, by each technique and for every answer.
fn on_capability(command: &Command, capability: &str) -> Result<(), Failed> {
    let folder = folder();
    let gpus = Gpus::of(&format!("{capability}:3:1G"));
    for answer in [""].iter().chain(command.answers) {
        let join = format!("{} {answer}", command.arguments);
        let cpu = expected(&folder, &join)?;
        for technique in command.techniques {
            agrees(&folder, &gpus, &join, &format!("--engine gpu --technique {technique}"), &cpu)?;
        }
        if command.name != "intersect" {
            agrees(&folder, &gpus, &join, "--engine gpu", &cpu)?;
        }
    }
    Ok(())
}

/// Runs a command on different machines: with streams in a random order, two devices, even of
/// different kinds, or no memory pools.
fn on_machines(command: &Command) -> Result<(), Failed> {
    let folder = folder();
    let join = command.arguments;
    let counts = format!("{join} --count");
    let cpu = expected(&folder, join)?;
    let counted =
        if command.name == "intersect" { String::new() } else { expected(&folder, &counts)? };
    let mut seed = 0;
    for devices in [
        "9.0:3:1G,9.0:3:1G",
        "9.0:3:1G,8.6:5:1G",
        "8.6:2:1G,9.0:4:1G",
        "7.5:3:1G,8.0:3:1G",
        "12.0:4:1G",
    ] {
        for technique in command.techniques {
            seed += 1;
            let gpus = Gpus::of(devices).with("EMULATOR_ORDER", &seed);
            let how = format!("--engine gpu --technique {technique}");
            agrees(&folder, &gpus, join, &how, &cpu)?;
            if !counted.is_empty() {
                agrees(&folder, &gpus, &counts, &how, &counted)?;
            }
        }
    }
    let gpus = Gpus::of("9.0:3:1G").with("EMULATOR_NO_POOLS", &1);
    for technique in command.techniques {
        agrees(&folder, &gpus, join, &format!("--engine gpu --technique {technique}"), &cpu)?;
    }
    Ok(())
}

/// Runs a command on devices of little memory. Work that does not fit is done in parts, or refused in one line.
fn on_small_devices(command: &Command) -> Result<(), Failed> {
    let folder = folder();
    let join = command.arguments;
    let cpu = expected(&folder, join)?;
    let mut joined = 0;
    for memory in ["1M", "3M", "20M", "300M"] {
        for technique in command.techniques {
            let how = format!("{join} --engine gpu --technique {technique}");
            let run = Gpus::of(&format!("8.6:3:{memory}")).run(&folder, &how);
            if run.status == 0 && sorted(&run.out) == sorted(&cpu) {
                joined += 1;
                continue;
            }
            let refused = run.status == 1 && run.out.is_empty() && run.err.lines().count() == 1;
            if !refused || !run.err.contains("memory") {
                return Err(format!("{how} with {memory}: {run:?}").into());
            }
        }
    }
    if joined < command.techniques.len() {
        return Err(format!("{join}: only {joined} runs were not refused").into());
    }
    Ok(())
}

/// Runs a command on CPU and devices together, with a fixed share, a queue, and an estimated share.
fn on_both(command: &Command) -> Result<(), Failed> {
    let folder = folder();
    let splits: &[&str] = if command.name.starts_with("vectors") {
        &["", "--split 0.5 --threads 1", "--technique nested-loop+gpu-tensor"]
    } else {
        &[
            "",
            "--split 0.5",
            "--split 0.9 --technique prefix-bitmap+gpu-bitmap",
            "--split queue:7",
            "--split 0.5 --technique gpu-verify",
        ]
    };
    for answer in ["", "--count"] {
        let join = format!("{} {answer}", command.arguments);
        let cpu = expected(&folder, &join)?;
        for (at, devices) in
            ["7.5:3:1G", "9.0:3:1G", "10.0:3:1G", "8.6:3:1G,9.0:3:1G"].iter().enumerate()
        {
            for split in splits {
                let gpus = Gpus::of(devices).with("EMULATOR_ORDER", &at);
                agrees(&folder, &gpus, &join, &format!("--engine hybrid {split}"), &cpu)?;
            }
        }
    }
    Ok(())
}

/// Runs a command by `auto` with a CPU so slow that the GPU is chosen, or the CPU if
/// NVRTC cannot compile for the GPU.
fn on_auto(command: &Command) -> Result<(), Failed> {
    let folder = folder();
    let join = format!("{} --stats stats.json", command.arguments);
    let cpu = expected(&folder, command.arguments)?;
    let refused = "sm_70,sm_75,sm_80,sm_86,sm_87,sm_88,sm_89,sm_90";
    let gpus = Gpus::of("9.0:4:1G").with("SIMJOIN_MACHINE", &"fixed:1000000");
    let empty = gpus.clone().with("XDG_CACHE_HOME", &folder.join("empty").display());
    for (gpus, engine) in [(gpus, "gpu"), (empty.with("EMULATOR_NVRTC_REFUSES", &refused), "cpu")] {
        let run = gpus.run(&folder, &join);
        let told = run.err.lines().all(|line| line.contains("the CPU did its work"));
        let stats = std::fs::read_to_string(folder.join("stats.json")).unwrap_or_default();
        let chosen = stats.contains(&format!("\"engine\": \"{engine}\""));
        if run.status != 0 || sorted(&run.out) != sorted(&cpu) || !told || !chosen {
            return Err(format!("{gpus} {join}, for {engine}: {run:?}").into());
        }
    }
    Ok(())
}

/// Runs a command on a device that fails at some point. The CPU does its work, a warning says so, and the answer is the
/// same. Faults occur later and later, until the join ends before them.
fn with_faults(command: &Command) -> Result<(), Failed> {
    let folder = folder();
    let join = command.arguments;
    let cpu = expected(&folder, join)?;
    for technique in command.techniques {
        let how = format!("{join} --engine gpu --technique {technique}");
        for fault in ["out-of-memory", "launch-failed", "lost"] {
            let (mut warned, mut silent, mut at) = (0, 0, 1);
            while silent < 2 && at < 5000 {
                let gpus = Gpus::of("9.0:3:1G").with("EMULATOR_FAULT", &format!("{fault}@{at}"));
                let run = gpus.run(&folder, &how);
                let exact = run.status == 0 && sorted(&run.out) == sorted(&cpu);
                let told = run.err.lines().all(|line| line.contains("the CPU did its work"));
                let failed = run.status == 1 && run.err.lines().count() == 1 && run.out.is_empty();
                // Without a device, the join does not begin.
                let may_fail = fault == "lost";
                if !(exact && told || may_fail && failed) {
                    return Err(format!("{gpus} {how}: {run:?}").into());
                }
                if run.err.is_empty() {
                    silent += 1;
                } else {
                    warned += 1;
                    silent = 0;
                }
                at += 1 + at / 2;
            }
            if warned == 0 {
                return Err(format!("{how}: no {fault} was noticed").into());
            }
        }
    }
    Ok(())
}

/// A fault in a kernel or in the order of streams, and a join that must show it.
struct Planted {
    what: &'static str,
    /// The text in the source of the kernels, and its replacement.
    text: Option<(&'static str, &'static str)>,
    /// Further settings of the emulated device.
    variable: Option<(&'static str, &'static str)>,
    join: &'static str,
    technique: &'static str,
}

const PLANTED: &[Planted] = &[
    Planted {
        what: "a block does not wait until all of its bits have arrived",
        text: Some((
            "await_groups<STAGES - 2>();\n        __syncthreads();",
            "await_groups<STAGES - 2>();",
        )),
        variable: None,
        join: "overlaps a.txt --positive",
        technique: "dense",
    },
    Planted {
        what: "a table is used before all threads have cleared it",
        text: Some((
            "make_uint4(LAST, LAST, LAST, LAST);\n        }\n        __syncthreads();",
            "make_uint4(LAST, LAST, LAST, LAST);\n        }",
        )),
        variable: None,
        join: "intersect p.txt q.txt",
        technique: "ip-hash",
    },
    Planted {
        what: "an entry of a list is written past its end",
        text: Some(("lists.entries[place] = {", "lists.entries[place + 1] = {")),
        variable: None,
        join: "sets a.txt --jaccard 0.5",
        technique: "gpu-prefix",
    },
    Planted {
        what: "tokens are replaced while other threads may still read them",
        text: Some((
            "__syncwarp();\n        // The y of the last x may still come.",
            "// The y of the last x may still come.",
        )),
        variable: Some(("EMULATOR_RACES", "1")),
        join: "sets long.txt --jaccard 0.7",
        technique: "gpu-prefix",
    },
    Planted {
        what: "counts are copied before they are complete",
        text: None,
        variable: Some(("EMULATOR_IGNORE_WAITS", "1")),
        join: "overlaps a.txt",
        technique: "hash",
    },
];

/// Checks that a planted fault is noticed, by a different answer or because the device reports it.
fn planted(fault: &Planted) -> Result<(), Failed> {
    let folder = folder();
    let cpu = expected(&folder, fault.join)?;
    let how = format!("{} --engine gpu --technique {}", fault.join, fault.technique);
    let keeping =
        |name: &str| Gpus::of("9.0:3:1G").with("XDG_CACHE_HOME", &folder.join(name).display());
    let mut seen = Vec::new();
    for order in 1..=40 {
        agrees(&folder, &keeping("kernels").with("EMULATOR_ORDER", &order), &how, "", &cpu)?;
        // These are not the real kernels, so their coverage is not recorded.
        let gpus = keeping("planted").with("EMULATOR_ORDER", &order);
        let mut gpus = gpus.with("EMULATOR_LOG", &"");
        if let Some((from, to)) = fault.text {
            let file = folder.join("mutation");
            std::fs::write(&file, format!("{from}\n=====\n{to}"))
                .map_err(|error| error.to_string())?;
            gpus = gpus.with("EMULATOR_MUTATION", &file.display());
        }
        if let Some((name, value)) = fault.variable {
            gpus = gpus.with(name, &value);
        }
        let run = gpus.run(&folder, &how);
        let other_answer = run.status == 0 && sorted(&run.out) != sorted(&cpu);
        // The emulated device ends the program when it detects an impossible operation.
        let reported = run.status == -1 && run.err.contains("emulated device: ");
        if other_answer || reported {
            return Ok(());
        }
        seen.push(run.err);
    }
    Err(format!("{}: {how} gives the right answer: {seen:?}", fault.what).into())
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let ignored = emulator().is_none();
    let mut trials = Vec::new();
    let mut add = |name: String, test: Box<dyn FnOnce() -> Result<(), Failed> + Send>| {
        trials.push(Trial::test(name, test).with_ignored_flag(ignored));
    };
    for command in COMMANDS {
        let name = command.name;
        for capability in CAPABILITIES {
            let test = move || on_capability(command, capability);
            add(format!("{name}_on_{capability}_match_cpu"), Box::new(test));
        }
        add(format!("{name}_on_two_devices_match_cpu"), Box::new(move || on_machines(command)));
        if name != "intersect" {
            let test = move || on_small_devices(command);
            add(format!("{name}_on_small_devices_match_cpu"), Box::new(test));
        }
        if name.starts_with("sets") || name.starts_with("text") || name.starts_with("vectors") {
            add(format!("{name}_on_both_match_cpu"), Box::new(move || on_both(command)));
        }
        if name != "intersect" {
            add(format!("{name}_on_auto_match_cpu"), Box::new(move || on_auto(command)));
        }
        add(format!("{name}_match_cpu_when_device_fails"), Box::new(move || with_faults(command)));
    }
    for fault in PLANTED {
        let name = format!("planted_fault_is_noticed: {}", fault.what);
        add(name, Box::new(move || planted(fault)));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Returns the folder of the emulated driver, where the loader finds it.
fn emulator() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("SIMJOIN_EMULATOR")?);
    assert!(folder.join("libcuda.so").exists(), "{}: no libcuda.so", folder.display());
    Some(folder)
}
