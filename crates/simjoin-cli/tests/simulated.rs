//! Does a device, and does a device that fails, give the same answer as the CPU?
//!
//! The device is simulated, so this runs everywhere.

mod common;
use common::{Folder, Run};

/// Sets of which many are alike, and some repeated.
fn sets(count: u32) -> String {
    let mut text = String::new();
    for row in 0..count {
        let seed = row % (count / 5);
        let tokens = (0..4 + seed % 20).map(|at| {
            let at = if at == row % 7 { at + 1000 } else { at };
            (seed.wrapping_mul(2_654_435_761) >> 9).wrapping_mul(at + 1) % (40 + 9 * at)
        });
        text += &tokens.map(|token| token.to_string()).collect::<Vec<_>>().join(" ");
        text += "\n";
    }
    text
}

fn folder() -> Folder {
    let folder = Folder::new();
    folder.file("a.txt", sets(3000)).file("b.txt", sets(500));
    folder
}

fn on(folder: &Folder, device: &str, arguments: &str) -> Run {
    let variables = [("SIMJOIN_SIMULATED_GPU", device)];
    folder.run_in(&format!("{arguments} --engine gpu"), b"", &variables)
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_device_of_any_kind_gives_the_answer_of_the_cpu() {
    let folder = folder();
    let mut failed = 0;
    for join in [
        "sets a.txt --jaccard 0.6",
        "sets a.txt --overlap 5",
        "sets a.txt b.txt --cosine 0.7",
        "sets a.txt b.txt --jaccard 0.8 --with-itself",
        "sets a.txt --containment 0.9 --count",
        "sets a.txt --dice 0.8 --groups",
    ] {
        let cpu = folder.run(&format!("{join} --engine cpu")).ok();
        for (device, fails) in [
            ("speed=1", Some(false)),
            ("speed=50,latency=1", Some(false)),
            ("speed=0.5,memory=400K", Some(false)),
            ("speed=5,fail=0.3", None),
            ("speed=5,fail=1", Some(true)),
            ("speed=5,memory=400K,fail=0.5", None),
        ] {
            for technique in ["auto", "gpu-bitmap", "gpu-prefix"] {
                for threads in [1, 3] {
                    let more = format!("{join} --technique {technique} --threads {threads}");
                    let run = on(&folder, device, &more);
                    assert_eq!(run.status, 0, "{device} {more}: {run:?}");
                    assert!(run.err.contains("the GPU is simulated"), "{run:?}");
                    let said = run.err.contains("failed; the CPU did its work");
                    assert!(fails.is_none_or(|fails| fails == said), "{device} {more}: {run:?}");
                    failed += usize::from(said);
                    assert_eq!(sorted(&run.out), sorted(&cpu), "{device} {more}");
                }
            }
        }
    }
    // All of those that had to, and some of those that might.
    assert!(failed > 6 * 3 * 2 + 20, "{failed}");
}

#[test]
fn both_at_once_give_the_answer_of_the_cpu_wherever_the_work_is_split() {
    let folder = folder();
    let mut failed = 0;
    for join in [
        "sets a.txt --jaccard 0.6",
        "sets a.txt b.txt --cosine 0.7",
        "sets a.txt --overlap 5 --count",
        "sets a.txt --dice 0.8 --groups",
    ] {
        let cpu = folder.run(&format!("{join} --engine cpu")).ok();
        for device in ["speed=0.1", "speed=5", "speed=1000,memory=400K", "speed=5,fail=0.4"] {
            for split in ["", "--split 0", "--split 0.3", "--split 1", "--split queue"] {
                for threads in [1, 3] {
                    let more = format!("{join} {split} --threads {threads} --engine hybrid");
                    let run = folder.run_in(&more, b"", &[("SIMJOIN_SIMULATED_GPU", device)]);
                    assert_eq!(run.status, 0, "{device} {more}: {run:?}");
                    assert!(run.err.contains("the GPU is simulated"), "{run:?}");
                    failed += usize::from(run.err.contains("the CPU did its work"));
                    assert_eq!(sorted(&run.out), sorted(&cpu), "{device} {more}");
                }
            }
        }
    }
    assert!(failed > 5, "{failed}");
}

#[test]
fn what_exceeds_the_memory_is_done_in_passes_or_refused() {
    let folder = folder();
    let join = "sets a.txt --jaccard 0.6 --count --technique bitmap";
    let cpu = folder.run(&format!("{join} --engine cpu")).ok();
    let explained = on(&folder, "speed=5", &format!("{join} --device-memory 400K --explain"));
    assert_eq!((explained.status, explained.out), (0, cpu));
    assert!(explained.err.contains("part 2:"), "{}", explained.err);
    on(&folder, "speed=5,memory=1K", join).fails(1, &["GPU memory", "1024"]);
}

#[test]
fn a_device_that_cannot_be_understood_is_refused() {
    let folder = folder();
    on(&folder, "speed=fast", "sets a.txt --jaccard 0.6").fails(2, &["SIMJOIN_SIMULATED_GPU"]);
}
