//! Does a device, and does a device that fails, give the same answer as the CPU?
//!
//! The device is simulated, so this runs everywhere.

mod common;
use common::{Folder, Run};
use serde_json::Value;

const DEVICE: (&str, &str) = ("SIMJOIN_SIMULATED_GPU", "speed=2");

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
        for device in ["speed=0.1", "speed=5", "speed=40,memory=400K", "speed=5,fail=0.4"] {
            for split in
                ["", "--split 0", "--split 0.3", "--split 1", "--split queue", "--split queue:3"]
            {
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
fn a_device_that_fails_late_loses_nothing_however_many_pairs_it_has_found() {
    let folder = Folder::new();
    // Nearly all of them are alike.
    let set = |row: u32| (0..20).map(move |at| if at == row % 20 { row + 100 } else { at });
    let line = |row: u32| set(row).map(|token| token.to_string()).collect::<Vec<_>>().join(" ");
    folder.file("alike.txt", (0..700).map(|row| line(row) + "\n").collect::<String>());
    let mut failed = 0;
    for how in ["", "--groups", "--count", "--report r.html"] {
        let join = format!("sets alike.txt --jaccard 0.6 --memory 4M --threads 2 {how}");
        let cpu = folder.run(&format!("{join} --engine cpu")).ok();
        for device in ["speed=5", "speed=5,fail=0.02", "speed=5,fail=0.1", "speed=5,fail=0.3"] {
            for technique in ["gpu-bitmap", "gpu-prefix"] {
                let more = format!("{join} --technique {technique} --trace t.json");
                let run = on(&folder, device, &more);
                assert_eq!(run.status, 0, "{device} {more}: {run:?}");
                assert_eq!(sorted(&run.out), sorted(&cpu), "{device} {more}");
                failed += usize::from(run.err.contains("failed; the CPU did its work"));
                // More than may be held: in parts.
                let trace = json(&folder, "t.json");
                let events = trace["traceEvents"].as_array().unwrap().iter();
                let begun = events.filter(|event| event["name"] == "prepare").count();
                let once = how == "--count" && !run.err.contains("failed");
                assert_eq!(begun == 1, once, "{device} {more}: {begun}");
            }
        }
    }
    assert!(failed > 8, "{failed}");
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

fn json(folder: &Folder, file: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join(file)).unwrap()).unwrap()
}

#[test]
fn what_both_sides_did_is_told_and_drawn() {
    let folder = folder();
    let join = "sets a.txt --jaccard 0.6 --count --threads 2 --engine hybrid --split 0.5";
    let files = "--stats stats.json --trace trace.json --explain";
    let run = folder.run_in(&format!("{join} {files}"), b"", &[DEVICE]);
    assert_eq!(run.status, 0, "{run:?}");
    assert!(run.err.contains("(planned 50 %)"), "{}", run.err);
    let stats = json(&folder, "stats.json");
    let number = |name: &str| stats[name].as_f64().unwrap_or(-1.0);
    assert_eq!((number("planned_share"), &stats["engine"]), (0.5, &"hybrid".into()));
    assert!((0.4..0.6).contains(&number("share")), "{stats}");
    assert!((0.0..=1.0).contains(&number("overlap")), "{stats}");
    let trace = json(&folder, "trace.json");
    let events = trace["traceEvents"].as_array().unwrap();
    let rows: Vec<&str> =
        events.iter().filter_map(|event| event["args"]["name"].as_str()).collect();
    for row in ["CPU thread 0", "GPU attendant 0", "GPU stream 0"] {
        assert!(rows.contains(&row), "{rows:?}");
    }
    // Each event lies on a row, and none before the beginning.
    let drawn: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert!(drawn.len() >= 4, "{drawn:?}");
    for event in drawn {
        assert!((event["tid"].as_u64().unwrap() as usize) < rows.len(), "{event}");
        assert!(event["ts"].as_f64().unwrap() >= 0.0 && event["dur"].as_f64().unwrap() >= 0.0);
    }
    // The CPU alone has neither.
    folder.run("sets a.txt --jaccard 0.6 --count --engine cpu --stats stats.json").ok();
    let stats = json(&folder, "stats.json");
    assert_eq!((&stats["overlap"], &stats["planned_share"]), (&Value::Null, &Value::Null));
}

#[test]
fn auto_takes_a_device_where_that_pays() {
    let folder = folder();
    folder.file("tiny.txt", sets(50));
    let cpu = folder.run("sets a.txt --jaccard 0.5 --count --engine cpu").ok();
    for (file, device, engines) in [
        ("a.txt", "speed=1000", &["gpu", "hybrid"][..]),
        ("a.txt", "speed=0.001", &["cpu"]),
        ("a.txt", "speed=1000,latency=5000", &["cpu"]),
        ("tiny.txt", "speed=1000", &["cpu"]),
    ] {
        let join = format!("sets {file} --jaccard 0.5 --count --threads 1 --stats stats.json");
        let run = folder.run_in(&join, b"", &[("SIMJOIN_SIMULATED_GPU", device)]);
        assert_eq!(run.status, 0, "{device}: {run:?}");
        let stats = json(&folder, "stats.json");
        let engine = stats["engine"].as_str().unwrap();
        assert!(engines.contains(&engine), "{file} {device}: {engine}");
        assert_eq!(run.err.contains("the GPU is simulated"), engine != "cpu", "{run:?}");
        if file == "a.txt" {
            assert_eq!(run.out, cpu, "{device}");
        }
    }
}

#[test]
fn a_simulated_device_is_listed_and_timed() {
    let folder = folder();
    let listed = folder.run_in("devices", b"", &[DEVICE]);
    assert!(listed.status == 0 && listed.out.contains("simulated"), "{listed:?}");
    let bench = "bench b.txt --jaccard 0.7 --threads 1 --repeat 1 --technique auto --json";
    let ways = "--engine cpu,gpu,hybrid,auto --split auto,0.3,queue:5";
    let run = folder.run_in(&format!("{bench} {ways}"), b"", &[DEVICE]);
    assert_eq!(run.status, 0, "{run:?}");
    let rows: Vec<Value> =
        run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let way = |row: &Value| (row["engine"].to_string(), row["split"].to_string());
    let said: Vec<(String, String)> = rows.iter().map(way).collect();
    let text = |text: &str| format!("{text:?}");
    let expected = [
        (text("cpu"), "null".into()),
        (text("gpu"), "null".into()),
        (text("hybrid"), text("auto")),
        (text("hybrid"), text("0.3")),
        (text("hybrid"), text("queue:5")),
        (text("auto"), "null".into()),
    ];
    assert_eq!(said, expected);
    assert!(rows.iter().all(|row| row["pairs"] == rows[0]["pairs"]));
    for wrong in ["queue:0", "queue:x", "1.5", "half"] {
        let join = format!("sets a.txt --jaccard 0.6 --engine hybrid --split {wrong}");
        folder.run_in(&join, b"", &[DEVICE]).fails(2, &["--split", wrong, "queue:100"]);
    }
    folder.run("bench b.txt --jaccard 0.7 --split 0.3").fails(2, &["--split", "hybrid"]);
}

#[test]
fn what_is_kept_back_goes_to_whoever_comes_first_and_is_done_once() {
    let folder = folder();
    folder.file("c.txt", sets(30_000));
    let (mut divided, mut failed) = (0, 0);
    for join in ["sets c.txt --jaccard 0.5", "sets c.txt b.txt --cosine 0.6 --with-itself"] {
        let cpu = folder.run(&format!("{join} --engine cpu")).ok();
        for device in [
            "speed=1,rest=0.1",
            "speed=1,rest=0.5",
            "speed=0.5,rest=0.9",
            "speed=2,rest=0.9",
            "speed=1,latency=3,rest=0.5",
            "speed=1,memory=2M,rest=0.5",
            "speed=1,fail=0.2,rest=0.5",
            "speed=1,fail=0.5,rest=0.9",
            "speed=1,fail=1,rest=0.5",
        ] {
            for engine in ["hybrid", "auto", "auto --memory 40M"] {
                let more = format!("{join} --threads 1 --engine {engine} --stats stats.json");
                let run = folder.run_in(&more, b"", &[("SIMJOIN_SIMULATED_GPU", device)]);
                assert_eq!(run.status, 0, "{device} {more}: {run:?}");
                assert_eq!(sorted(&run.out), sorted(&cpu), "{device} {more}");
                let planned = json(&folder, "stats.json")["planned_share"].as_f64();
                divided += usize::from(planned.is_some_and(|share| share > 0.0 && share < 1.0));
                failed += usize::from(run.err.contains("the CPU did its work"));
            }
        }
    }
    assert!(divided >= 12 && failed >= 6, "{divided} divided, {failed} failed");
}

/// Vectors on a device, and on CPU cores beside one that takes stripes of the same join.
#[test]
fn vectors_on_a_device_are_those_of_the_cpu() {
    let folder = Folder::new();
    folder.run("generate vectors clusters --vectors 9K --dimension 6 -o v.npy").ok();
    folder.run("generate vectors clusters --vectors 5K --dimension 6 -o w.npy").ok();
    for join in [
        "vectors v.npy --within 0.05",
        "vectors v.npy w.npy --within 0.05",
        "vectors w.npy --cosine 0.9995",
        "vectors v.npy --within 0.03 --count",
        "vectors v.npy --within 0.02 --groups",
    ] {
        let cpu = folder.run(&format!("{join} --engine cpu")).ok();
        assert!(cpu.trim() != "0" && cpu.trim().len() > 2, "{join}: {cpu}");
        for how in [
            "--engine gpu",
            "--engine gpu --technique grid",
            "--technique gpu-tensor",
            "--engine hybrid",
            "--engine hybrid --technique nested-loop --threads 3",
            "--engine auto",
        ] {
            let run = folder.run_in(&format!("{join} {how} --stats s.json"), b"", &[DEVICE]);
            let stats = std::fs::read_to_string(folder.join("s.json")).unwrap();
            let stats: Value = serde_json::from_str(&stats).unwrap();
            assert_eq!((run.status, sorted(&run.out)), (0, sorted(&cpu)), "{join} {how}");
            match how.split(' ').nth(1) {
                Some("hybrid") => {
                    assert_eq!(stats["engine"], "hybrid", "{join} {how}");
                    let part = stats["device_part"].as_f64().unwrap();
                    assert!((0.0..=1.0).contains(&part), "{join} {how}: {part}");
                }
                Some("auto") => assert_eq!(stats["engine"], "cpu", "{join} {how}"),
                _ => assert_eq!(stats["engine"], "gpu", "{join} {how}"),
            }
        }
    }
}

/// Whatever becomes of a device that joins vectors, the answer is the CPU's, and people are told.
#[test]
fn vectors_of_a_device_that_fails_are_done_by_the_cpu() {
    let folder = Folder::new();
    folder.run("generate vectors clusters --vectors 17K --dimension 4 -o v.npy").ok();
    folder.run("generate vectors clusters --vectors 5K --dimension 4 -o w.npy").ok();
    let (mut failed, mut went_on) = (0, 0);
    for join in [
        "vectors v.npy --within 0.02",
        "vectors v.npy w.npy --within 0.03",
        "vectors w.npy v.npy --cosine 0.9999 --count",
        "vectors v.npy --within 0.02 --groups",
    ] {
        let cpu = folder.run(&format!("{join} --engine cpu")).ok();
        for device in [
            "fail=1",
            // The second piece, and the seventh.
            "speed=4,fail=0.45",
            "speed=0.5,latency=1,fail=0.45",
            "speed=1,fail=0.4",
            "memory=100K",
        ] {
            for how in ["--engine gpu", "--engine hybrid", "--engine hybrid --threads 1"] {
                let more = format!("{join} {how} --stats s.json --trace t.json");
                let run = folder.run_in(&more, b"", &[("SIMJOIN_SIMULATED_GPU", device)]);
                let (said, found) = (&run.err, (run.status, sorted(&run.out)));
                assert_eq!(found, (0, sorted(&cpu)), "{join} {how} {device}");
                let stats = json(&folder, "s.json");
                let warnings = stats["warnings"].as_array().unwrap().len();
                assert_eq!(warnings, said.matches("; the CPU did its work").count(), "{said}");
                assert!(warnings <= 1, "{said}");
                failed += warnings;
                // Beside cores, only what it had not done is done again.
                let shared = how.contains("hybrid") && device != "memory=100K";
                let engine = if shared { "hybrid" } else { "cpu" };
                assert!(warnings == 0 || stats["engine"] == engine, "{join} {how} {device}");
                let part = stats["device_part"].as_f64();
                went_on += usize::from(warnings == 1 && part.is_some_and(|part| part > 0.0));
                let events = json(&folder, "t.json")["traceEvents"].as_array().unwrap().len();
                assert!(events > 2, "{join} {how} {device}");
            }
        }
    }
    assert!(failed > 20 && went_on > 0, "{failed} {went_on}");
}

/// Cores and a device that are about as fast do more together, and `auto` knows.
#[test]
fn vectors_are_joined_by_both_where_that_pays() {
    let folder = Folder::new();
    folder.run("generate vectors uniform --vectors 60K --dimension 40 -o v.npy").ok();
    let stats = |device: &str| {
        let join = "vectors v.npy --within 0.6 --count --threads 1 --stats s.json --explain";
        let run = folder.run_in(join, b"", &[("SIMJOIN_SIMULATED_GPU", device)]);
        assert_eq!(run.status, 0, "{}", run.err);
        (json(&folder, "s.json"), run.err)
    };
    let (both, said) = stats("speed=1");
    assert_eq!(both["engine"], "hybrid", "{said}");
    let of = |name: &str| both[name].as_f64().unwrap();
    assert!((0.05..0.95).contains(&of("device_part")), "{both}");
    assert!((of("planned_part") - 0.5).abs() < 0.05, "{both}");
    assert!(of("overlap") > 0.0 && of("overlap") <= 1.0, "{both}");
    assert!(said.contains("(planned ") && said.contains("the GPU is simulated"), "{said}");
    assert_eq!(stats("speed=0.01").0["engine"], "cpu");
    assert_eq!(stats("speed=1000").0["engine"], "gpu");
}

/// A device alone that fails after more pairs than can be held back have gone on ends the join, and leaves no file.
#[test]
fn vectors_that_cannot_be_taken_back_end_the_join() {
    let folder = Folder::new();
    folder.run("generate vectors clusters --vectors 17K --dimension 4 -o v.npy").ok();
    let on = |device: &str, join: &str| {
        folder.run_in(
            &format!("vectors v.npy --within 0.05 --engine gpu --memory 24M {join}"),
            b"",
            &[("SIMJOIN_SIMULATED_GPU", device)],
        )
    };
    assert_eq!(on("fail=0", "-o ok.tsv").status, 0);
    let run = on("fail=0.45", "-o failed.tsv");
    assert_eq!((run.status, run.err.trim()), (1, "simjoin: the simulated GPU failed"));
    assert!(folder.join("ok.tsv").exists() && !folder.join("failed.tsv").exists());
    // Counting and groups hold numbers, not pairs.
    for how in ["--count", "--groups"] {
        let run = on("fail=0.45", how);
        let cpu = folder.run(&format!("vectors v.npy --within 0.05 --engine cpu {how}")).ok();
        assert_eq!((run.status, sorted(&run.out)), (0, sorted(&cpu)), "{how}: {}", run.err);
        assert!(run.err.contains("the CPU did its work"), "{}", run.err);
    }
}
