//! Does a device, even one that fails, give the same answer as the CPU?
//!
//! The device is simulated and time is virtual, so the tests run the same way on every machine: the division of work
//! only depends on the cost table and the speed of the device. The shares and choices in these tests also hold for cost
//! tables with a tenth and ten times the seconds (`cargo xtask steady`).

mod common;
use common::{Folder, Run, machine_times};
use serde_json::Value;

/// Returns sets: many are similar, and some are repeated.
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

/// Runs the program with a simulated device.
fn with_device(folder: &Folder, device: &str, arguments: &str) -> Run {
    folder.run_in(arguments, b"", &[("SIMJOIN_SIMULATED_GPU", device)])
}

/// Runs the program on a simulated device.
fn on(folder: &Folder, device: &str, arguments: &str) -> Run {
    with_device(folder, device, &format!("{arguments} --engine gpu"))
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn json(folder: &Folder, file: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join(file)).unwrap()).unwrap()
}

/// Returns whether a warning says that the device failed.
fn failed(run: &Run) -> bool {
    run.err.contains("failed; the CPU did its work")
}

/// Returns whether a device with this specification must fail; `None` if that depends on the pieces.
fn must_fail(device: &str) -> Option<bool> {
    let (_, fail) = device.split_once("fail=").unwrap_or(("", "0"));
    match fail {
        "1" | "@1" => Some(true),
        "0" => Some(false),
        _ => None,
    }
}

#[test]
fn device_of_any_kind_matches_cpu() {
    let folder = folder();
    for join in [
        "sets a.txt --jaccard 0.6",
        "sets a.txt --overlap 5",
        "sets a.txt b.txt --cosine 0.7",
        "sets a.txt b.txt --jaccard 0.8 --with-itself",
        "sets a.txt --containment 0.9 --count",
        "sets a.txt --dice 0.8 --groups",
    ] {
        let cpu = folder.run(&format!("{join} --engine cpu")).ok();
        for device in [
            "speed=1",
            "speed=50,latency=1",
            "speed=0.5,memory=400K",
            "speed=5,fail=0.3",
            "speed=5,fail=1",
            "speed=5,fail=@1",
            "speed=5,memory=400K,fail=0.5",
        ] {
            for (technique, threads) in [("auto", 1), ("gpu-bitmap", 3), ("gpu-prefix", 2)] {
                let more = format!("{join} --technique {technique} --threads {threads}");
                let run = on(&folder, device, &more);
                assert_eq!(run.status, 0, "{device} {more}: {}", run.err);
                assert!(run.err.contains("the GPU is simulated"), "{}", run.err);
                let expected = must_fail(device).unwrap_or(failed(&run));
                assert_eq!(failed(&run), expected, "{device} {more}: {}", run.err);
                assert_eq!(sorted(&run.out), sorted(&cpu), "{device} {more}");
            }
        }
    }
}

#[test]
fn hybrid_matches_cpu_wherever_the_work_is_split() {
    let folder = folder();
    for join in [
        "sets a.txt --jaccard 0.6",
        "sets a.txt b.txt --cosine 0.7",
        "sets a.txt --overlap 5 --count",
        "sets a.txt --dice 0.8 --groups",
    ] {
        let cpu = folder.run(&format!("{join} --engine cpu")).ok();
        for device in
            ["speed=0.1", "speed=5", "speed=40,memory=400K", "speed=5,fail=0.4", "speed=5,fail=@1"]
        {
            for (split, threads) in [
                ("", 1),
                ("", 3),
                ("--split 0", 3),
                ("--split 0.3", 1),
                ("--split 1", 3),
                ("--split queue", 1),
                ("--split queue", 3),
                ("--split queue:3", 1),
            ] {
                let more = format!("{join} {split} --threads {threads} --engine hybrid");
                let run = with_device(&folder, device, &more);
                assert_eq!(run.status, 0, "{device} {more}: {}", run.err);
                if !matches!(split, "" | "--split 0") {
                    assert!(run.err.contains("the GPU is simulated"), "{}", run.err);
                }
                let expected = match split {
                    // The device may get no work, or certainly gets none.
                    "" => None,
                    "--split 0" => Some(false),
                    _ => must_fail(device),
                };
                let expected = expected.unwrap_or(failed(&run));
                assert_eq!(failed(&run), expected, "{device} {more}: {}", run.err);
                assert_eq!(sorted(&run.out), sorted(&cpu), "{device} {more}");
            }
        }
    }
}

#[test]
fn no_pair_is_lost_when_device_fails_after_many_pairs() {
    let folder = Folder::new();
    // Nearly all sets are similar.
    let set = |row: u32| (0..20).map(move |at| if at == row % 20 { row + 100 } else { at });
    let line = |row: u32| set(row).map(|token| token.to_string()).collect::<Vec<_>>().join(" ");
    folder.file("alike.txt", (0..450).map(|row| line(row) + "\n").collect::<String>());
    for how in ["", "--groups", "--count", "--report r.html"] {
        let join = format!("sets alike.txt --jaccard 0.6 --memory 4M --threads 2 {how}");
        let cpu = folder.run(&format!("{join} --engine cpu")).ok();
        for device in ["speed=5", "speed=5,fail=@1", "speed=5,fail=@2", "speed=5,fail=0.1"] {
            for technique in ["gpu-bitmap", "gpu-prefix"] {
                let more = format!("{join} --technique {technique} --trace t.json");
                let run = on(&folder, device, &more);
                assert_eq!(run.status, 0, "{device} {more}: {}", run.err);
                assert_eq!(sorted(&run.out), sorted(&cpu), "{device} {more}");
                // A part of the sets is at least one piece; if pairs are only counted, all sets are two pieces.
                let expected = must_fail(device).unwrap_or(failed(&run));
                let expected = if device.contains("@2") { true } else { expected };
                assert_eq!(failed(&run), expected, "{device} {more}: {}", run.err);
                // More pairs than fit the stage are joined in parts. Counting and groups hold no pairs.
                let trace = json(&folder, "t.json");
                let events = trace["traceEvents"].as_array().unwrap().iter();
                let begun = events.filter(|event| event["name"] == "prepare").count();
                let held = !matches!(how, "--count" | "--groups");
                let once = !held && !failed(&run);
                assert_eq!(begun == 1, once, "{device} {more}: {begun}");
            }
        }
    }
}

#[test]
fn join_beyond_device_memory_runs_in_passes_or_is_refused() {
    let folder = folder();
    let join = "sets a.txt --jaccard 0.6 --count --technique bitmap";
    let cpu = folder.run(&format!("{join} --engine cpu")).ok();
    let explained = on(&folder, "speed=5", &format!("{join} --device-memory 400K --explain"));
    assert_eq!((explained.status, explained.out), (0, cpu));
    assert!(explained.err.contains("step 2:"), "{}", explained.err);
    on(&folder, "speed=5,memory=1K", join).fails(1, &["GPU memory", "1024"]);
}

#[test]
fn invalid_device_specifications_are_refused() {
    let folder = folder();
    for wrong in ["speed=fast", "fail=@0", "actual=0"] {
        on(&folder, wrong, "sets a.txt --jaccard 0.6").fails(2, &["SIMJOIN_SIMULATED_GPU", wrong]);
    }
}

#[test]
fn stats_and_trace_describe_both_sides() {
    let folder = folder();
    let join = "sets a.txt --jaccard 0.6 --count --threads 2 --engine hybrid --split 0.5";
    let files = "--stats stats.json --trace trace.json --explain";
    let run = with_device(&folder, "speed=2", &format!("{join} {files}"));
    assert_eq!(run.status, 0, "{run:?}");
    assert!(run.err.contains("(planned 50 %)"), "{}", run.err);
    let stats = json(&folder, "stats.json");
    let number = |name: &str| stats[name].as_f64().unwrap_or(-1.0);
    assert_eq!((number("planned_device_share"), &stats["engine"]), (0.5, &"hybrid".into()));
    assert!((0.4..0.6).contains(&number("device_share")), "{stats}");
    assert!(number("virtual_seconds") > 0.0, "{stats}");
    let trace = json(&folder, "trace.json");
    let events = trace["traceEvents"].as_array().unwrap();
    let rows: Vec<&str> =
        events.iter().filter_map(|event| event["args"]["name"].as_str()).collect();
    for row in ["CPU thread 0", "GPU attendant 0", "GPU stream 0"] {
        assert!(rows.contains(&row), "{rows:?}");
    }
    // Each event belongs to a row, and lies within the reported time.
    let drawn: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert!(drawn.len() >= 4, "{drawn:?}");
    let end_of = |event: &Value| event["ts"].as_f64().unwrap() + event["dur"].as_f64().unwrap();
    for event in &drawn {
        assert!((event["tid"].as_u64().unwrap() as usize) < rows.len(), "{event}");
        assert!(event["ts"].as_f64().unwrap() >= 0.0 && event["dur"].as_f64().unwrap() > 0.0);
    }
    // Both begin at the same time, so both were busy until the first one ended.
    let last = |of: &str| {
        let on_row =
            |event: &&&Value| rows[event["tid"].as_u64().unwrap() as usize].starts_with(of);
        drawn.iter().filter(on_row).map(|event| end_of(event) / 1e6).fold(0.0, f64::max)
    };
    let (first, second) = (last("CPU").min(last("GPU")), last("CPU").max(last("GPU")));
    assert!((second / number("virtual_seconds") - 1.0).abs() < 1e-6, "{second} {stats}");
    assert!(
        (first / second / number("concurrency") - 1.0).abs() < 1e-6,
        "{first} {second} {stats}"
    );
    // The CPU alone has neither.
    folder.run("sets a.txt --jaccard 0.6 --count --engine cpu --stats stats.json").ok();
    let stats = json(&folder, "stats.json");
    for name in ["concurrency", "planned_device_share", "virtual_seconds"] {
        assert_eq!(stats[name], Value::Null, "{name}");
    }
}

#[test]
fn simulated_run_is_the_same_every_time() {
    let folder = folder();
    for device in ["speed=2", "speed=2,actual=0.3", "speed=3,fail=@2"] {
        for split in ["", "--split queue:20"] {
            let join = format!("sets a.txt --jaccard 0.5 --count --engine hybrid {split}");
            let files = "--threads 2 --stats stats.json --trace trace.json";
            let mut first: Option<(Value, Value)> = None;
            for simd in ["", "scalar", "", ""] {
                let simd = if simd.is_empty() {
                    std::env::var("SIMJOIN_SIMD").ok()
                } else {
                    Some(simd.into())
                };
                let mut variables = vec![("SIMJOIN_SIMULATED_GPU", device)];
                variables.extend(simd.as_deref().map(|simd| ("SIMJOIN_SIMD", simd)));
                let run = folder.run_in(&format!("{join} {files}"), b"", &variables);
                assert_eq!(run.status, 0, "{run:?}");
                let (mut stats, mut trace) =
                    (json(&folder, "stats.json"), json(&folder, "trace.json"));
                // Seconds are real, not virtual.
                stats.as_object_mut().unwrap().remove("seconds");
                // Both sides write to it.
                let events = trace["traceEvents"].as_array_mut().unwrap();
                events.sort_by_cached_key(Value::to_string);
                let (stats, trace) = first.get_or_insert_with(|| (stats.clone(), trace.clone()));
                assert_eq!((&*stats, &*trace), (&*stats, &*trace), "{device} {split}");
            }
        }
    }
}

#[test]
fn auto_uses_a_device_if_it_is_faster() {
    let folder = folder();
    folder.file("tiny.txt", sets(50));
    let cpu = folder.run("sets a.txt --jaccard 0.5 --count --engine cpu").ok();
    for (file, device, engine) in [
        ("a.txt", "speed=1000", "gpu"),
        ("a.txt", "speed=0.001", "cpu"),
        ("a.txt", "speed=1000,latency=5000", "cpu"),
        // Such short joins run without planning.
        ("tiny.txt", "speed=1000", "cpu"),
    ] {
        let join = format!("sets {file} --jaccard 0.5 --count --threads 1 --stats stats.json");
        // These joins take from milliseconds to a second of one core.
        let machine = machine_times(10.0);
        let machine = if file == "tiny.txt" { "fixed" } else { &machine };
        let variables = [("SIMJOIN_SIMULATED_GPU", device), ("SIMJOIN_MACHINE", machine)];
        let run = folder.run_in(&join, b"", &variables);
        assert_eq!(run.status, 0, "{device}: {run:?}");
        let stats = json(&folder, "stats.json");
        assert_eq!(stats["engine"], engine, "{file} {device}");
        assert_eq!(run.err.contains("the GPU is simulated"), engine != "cpu", "{run:?}");
        if file == "a.txt" {
            assert_eq!(run.out, cpu, "{device}");
        }
    }
}

#[test]
fn auto_divides_long_joins_between_sides_of_similar_speed() {
    let folder = Folder::new();
    folder.file("c.txt", sets(30_000));
    let join = "sets c.txt --jaccard 0.3 --count --threads 1 --stats stats.json";
    let cpu = folder.run(&format!("{join} --engine cpu")).ok();
    // The join takes about a second of one core.
    let machine = machine_times(30.0);
    let divided = |device: &str| {
        let variables = [("SIMJOIN_SIMULATED_GPU", device), ("SIMJOIN_MACHINE", &*machine)];
        let run = folder.run_in(join, b"", &variables);
        assert_eq!((run.status, &run.out), (0, &cpu), "{}", run.err);
        let stats = json(&folder, "stats.json");
        assert_eq!(stats["engine"], "hybrid", "{device}: {stats}");
        move |name: &str| stats[name].as_f64().unwrap()
    };
    let both = divided("speed=1");
    assert!((0.1..0.9).contains(&both("planned_device_share")), "{}", both("device_share"));
    assert!(both("concurrency") > 0.5, "{}", both("concurrency"));
    // A device that is slower than assumed gets less than planned.
    let late = divided("speed=1,actual=0.1");
    assert!(
        late("device_share") < 0.9 * late("planned_device_share"),
        "{} {}",
        late("device_share"),
        late("planned_device_share")
    );
}

#[test]
fn simulated_device_is_listed_and_timed() {
    let folder = folder();
    let listed = with_device(&folder, "speed=2", "devices");
    assert!(listed.status == 0 && listed.out.contains("simulated"), "{listed:?}");
    let bench = "bench b.txt --jaccard 0.7 --threads 1 --repeat 1 --technique auto --json";
    let ways = "--engine cpu,gpu,hybrid,auto --split auto,0.3,queue:5";
    let run = with_device(&folder, "speed=2", &format!("{bench} {ways}"));
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
    assert!(rows.iter().all(|row| row["virtual_seconds"].as_f64().unwrap() > 0.0));
    for wrong in ["queue:0", "queue:x", "1.5", "half"] {
        let join = format!("sets a.txt --jaccard 0.6 --engine hybrid --split {wrong}");
        with_device(&folder, "speed=2", &join).fails(2, &["--split", wrong, "queue:100"]);
    }
    folder.run("bench b.txt --jaccard 0.7 --split 0.3").fails(2, &["--split", "hybrid"]);
}

#[test]
fn shared_join_is_done_once_whatever_becomes_of_the_device() {
    let folder = folder();
    folder.file("c.txt", sets(10_000));
    // The join is long enough for `auto` to share it.
    let machine = machine_times(1000.0);
    for join in ["sets c.txt --jaccard 0.5", "sets c.txt b.txt --cosine 0.6 --with-itself"] {
        let cpu = folder.run(&format!("{join} --engine cpu")).ok();
        for device in [
            "speed=0.5",
            "speed=1",
            "speed=2",
            "speed=1,memory=2M",
            "speed=1,fail=0.2",
            "speed=1,fail=@1",
            "speed=0.5,fail=@2",
            "speed=1,fail=1",
        ] {
            for engine in ["hybrid", "auto", "auto --memory 40M"] {
                let more = format!("{join} --threads 1 --engine {engine} --stats stats.json");
                let variables = [("SIMJOIN_SIMULATED_GPU", device), ("SIMJOIN_MACHINE", &*machine)];
                let run = folder.run_in(&more, b"", &variables);
                assert_eq!(run.status, 0, "{device} {more}: {}", run.err);
                assert_eq!(sorted(&run.out), sorted(&cpu), "{device} {more}");
                // The memory of the device may be too small for its part.
                if !device.contains("memory") {
                    let stats = json(&folder, "stats.json");
                    let planned = stats["planned_device_share"].as_f64().unwrap();
                    assert!(planned > 0.0 && planned < 1.0, "{device} {more}: {stats}");
                    let expected = must_fail(device).unwrap_or(failed(&run));
                    assert_eq!(failed(&run), expected, "{device} {more}: {}", run.err);
                }
            }
        }
    }
}

#[test]
fn processor_that_is_faster_than_expected_does_more() {
    let folder = Folder::new();
    folder.file("c.txt", sets(50_000));
    let share = |device: &str| {
        let join = "sets c.txt --jaccard 0.5 --count --threads 1 --engine hybrid --stats s.json";
        let run = with_device(&folder, device, join);
        assert_eq!(run.status, 0, "{run:?}");
        let stats = json(&folder, "s.json");
        (stats["device_share"].as_f64().unwrap(), stats["planned_device_share"].as_f64().unwrap())
    };
    let (slow, planned) = share("speed=1,actual=0.25");
    assert!(slow < 0.75 * planned, "{slow} {planned}");
    let (fast, planned) = share("speed=1,actual=4");
    assert!(fast > 1.25 * planned, "{fast} {planned}");
}

/// Vectors are joined on a device, or on CPU cores and a device that share the stripes of a join.
#[test]
fn vectors_on_a_device_match_cpu() {
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
        for (device, how, engine) in [
            ("speed=2", "--engine gpu", "gpu"),
            ("speed=2", "--engine gpu --technique grid", "gpu"),
            ("speed=2", "--technique gpu-tensor", "gpu"),
            ("speed=2", "--engine hybrid", "hybrid"),
            ("speed=2", "--engine hybrid --technique nested-loop --threads 3", "hybrid"),
            ("speed=1000", "--engine auto", "gpu"),
            ("speed=0.001", "--engine auto", "cpu"),
            ("speed=1000,latency=5000", "--engine auto", "cpu"),
        ] {
            let run = with_device(&folder, device, &format!("{join} {how} --stats s.json"));
            assert_eq!((run.status, sorted(&run.out)), (0, sorted(&cpu)), "{join} {how}");
            let stats = json(&folder, "s.json");
            assert_eq!(stats["engine"], engine, "{join} {how} {device}");
            assert!(stats["virtual_seconds"].as_f64().unwrap() > 0.0, "{stats}");
            if engine == "hybrid" {
                let part = stats["device_share"].as_f64().unwrap();
                assert!(part > 0.0 && part <= 1.0, "{join} {how}: {part}");
            }
        }
    }
}

/// If a device that joins vectors fails, the answer is the same as on the CPU, and a warning is printed.
#[test]
fn vectors_match_cpu_when_device_fails() {
    let folder = Folder::new();
    folder.run("generate vectors clusters --vectors 13K --dimension 4 -o v.npy").ok();
    folder.run("generate vectors clusters --vectors 5K --dimension 4 -o w.npy").ok();
    for join in [
        "vectors v.npy --within 0.02",
        "vectors v.npy w.npy --within 0.03",
        "vectors w.npy v.npy --cosine 0.9999 --count",
        "vectors v.npy --within 0.02 --groups",
    ] {
        let cpu = folder.run(&format!("{join} --engine cpu")).ok();
        for device in [
            "fail=1",
            "speed=4,fail=@2",
            "speed=0.5,latency=1,fail=@1",
            "speed=1,fail=0.4",
            "memory=10K",
        ] {
            for how in
                ["--engine gpu", "--engine hybrid --threads 2", "--engine hybrid --threads 1"]
            {
                let more = format!("{join} {how} --stats s.json --trace t.json");
                let run = with_device(&folder, device, &more);
                if (how, device) == ("--engine gpu", "memory=10K") {
                    run.fails(1, &["GPU memory", "10240"]);
                    continue;
                }
                let (said, found) = (&run.err, (run.status, sorted(&run.out)));
                assert_eq!(found, (0, sorted(&cpu)), "{join} {how} {device}");
                let stats = json(&folder, "s.json");
                let warnings = stats["warnings"].as_array().unwrap().len();
                assert_eq!(warnings, said.matches("; the CPU did its work").count(), "{said}");
                assert!(warnings <= 1, "{said}");
                assert!(warnings == 1 || device.contains("0.4"), "{join} {how} {device}");
                // The reported engine is the one that did the work.
                let share = stats["device_share"].as_f64().unwrap();
                let engine = if share > 0.0 { "hybrid" } else { "cpu" };
                assert!(warnings == 0 || stats["engine"] == engine, "{join} {how} {device}");
                if ["fail=1", "memory=10K"].contains(&device) {
                    assert_eq!(engine, "cpu", "{join} {how} {device}");
                }
                let events = json(&folder, "t.json")["traceEvents"].as_array().unwrap().len();
                assert!(events > 2, "{join} {how} {device}");
            }
        }
    }
}

/// CPU and device share a join of vectors if the technique joins stripe by stripe.
#[test]
fn vectors_are_shared_by_techniques_with_stripes() {
    let folder = Folder::new();
    folder.run("generate vectors clusters --vectors 9K --dimension 4 -o v.npy").ok();
    let join = "vectors v.npy --within 0.05 --count --engine hybrid --stats s.json";
    let cpu = folder.run("vectors v.npy --within 0.05 --count --engine cpu").ok();
    for (technique, split) in
        [("nested-loop+gpu-tensor", ""), ("gpu-grid", ""), ("gpu-tensor", "--split 0.6")]
    {
        let more = format!("{join} --technique {technique} {split}");
        let run = with_device(&folder, "speed=2", &more);
        assert_eq!((run.status, run.out), (0, cpu.clone()), "{}", run.err);
        let stats = json(&folder, "s.json");
        let ran = stats["technique"].as_str().unwrap();
        let on_device = technique.rsplit('+').next().unwrap();
        assert_eq!(ran, format!("nested-loop+{on_device}"));
    }
    for technique in ["grid", "quantile+gpu-tensor"] {
        let run = with_device(&folder, "speed=2", &format!("{join} --technique {technique}"));
        run.fails(2, &["only as a whole", "expected nested-loop"]);
    }
}

/// A device and cores of similar speed are faster together, and `auto` uses both.
#[test]
fn vectors_are_joined_by_both_if_that_is_faster() {
    let folder = Folder::new();
    folder.run("generate vectors uniform --vectors 40K --dimension 40 -o v.npy").ok();
    let stats = |device: &str| {
        let join = "vectors v.npy --within 0.6 --count --threads 1 --stats s.json --explain";
        let run = with_device(&folder, device, join);
        assert_eq!(run.status, 0, "{}", run.err);
        (json(&folder, "s.json"), run.err)
    };
    let (both, said) = stats("speed=1");
    assert_eq!(both["engine"], "hybrid", "{said}");
    let of = |name: &str| both[name].as_f64().unwrap();
    assert!((0.3..0.8).contains(&of("device_share")), "{both}");
    assert!((of("planned_device_share") - 0.5).abs() < 0.05, "{both}");
    assert!(of("concurrency") > 0.3 && of("concurrency") <= 1.0, "{both}");
    assert!(said.contains("(planned ") && said.contains("the GPU is simulated"), "{said}");
    // A device that is slower than assumed gets less.
    let (late, said) = stats("speed=1,actual=0.2");
    assert!(late["device_share"].as_f64().unwrap() < 0.7 * of("device_share"), "{late} {said}");
    assert_eq!(stats("speed=0.01").0["engine"], "cpu");
    assert_eq!(stats("speed=1000").0["engine"], "gpu");
}

/// If the only device fails after it has passed on more pairs than a stage can hold, the join fails and leaves no file.
#[test]
fn join_fails_when_device_fails_after_pairs_were_passed_on() {
    let folder = Folder::new();
    folder.run("generate vectors clusters --vectors 17K --dimension 4 -o v.npy").ok();
    let on = |device: &str, join: &str| {
        on(&folder, device, &format!("vectors v.npy --within 0.05 --memory 24M {join}"))
    };
    assert_eq!(on("fail=0", "-o ok.tsv").status, 0);
    let run = on("fail=@3", "-o failed.tsv");
    assert_eq!((run.status, run.err.trim()), (1, "simjoin: the simulated GPU failed"));
    assert!(folder.join("ok.tsv").exists() && !folder.join("failed.tsv").exists());
    // Counting and groups hold numbers, not pairs.
    for how in ["--count", "--groups"] {
        let run = on("fail=@3", how);
        let cpu = folder.run(&format!("vectors v.npy --within 0.05 --engine cpu {how}")).ok();
        assert_eq!((run.status, sorted(&run.out)), (0, sorted(&cpu)), "{how}: {}", run.err);
        assert!(run.err.contains("the CPU did its work"), "{}", run.err);
    }
}

#[test]
fn explain_does_not_change_the_plan() {
    let folder = folder();
    folder.run("generate vectors clusters --vectors 3K --dimension 6 -o v.npy").ok();
    for join in [
        "sets a.txt --jaccard 0.6",
        "sets a.txt b.txt --cosine 0.5",
        "sets a.txt --overlap 3 --memory 8M",
        "sets a.txt --jaccard 0.6 --engine hybrid --split queue",
        "text a.txt --tokens qgrams:3 --dice 0.8",
        "vectors v.npy --within 0.1",
        "vectors v.npy --within 0.1 --engine hybrid",
    ] {
        for device in ["speed=0.5", "speed=1", "speed=20"] {
            let stats = |more: &str| {
                let arguments = format!("{join} --count --threads 2 --stats s.json {more}");
                let run = with_device(&folder, device, &arguments);
                assert_eq!(run.status, 0, "{run:?}");
                let stats = json(&folder, "s.json");
                let names = ["engine", "technique", "details", "planned_device_share"];
                names.map(|name| stats[name].clone())
            };
            assert_eq!(stats(""), stats("--explain"), "{join} {device}");
            assert_eq!(stats(""), stats("--report r.html"), "{join} {device}");
        }
    }
}

#[test]
fn device_intersects_two_sets() {
    let folder = Folder::new();
    let multiples =
        |of: u32| (0..30_000 / of).map(|at| format!("{}\n", at * of)).collect::<String>();
    folder.file("a.txt", multiples(2)).file("b.txt", multiples(3)).file("empty.txt", "");
    for arguments in [
        "intersect a.txt b.txt",
        "intersect a.txt b.txt --containment",
        "intersect a.txt b.txt -o -",
        "intersect a.txt empty.txt",
    ] {
        let cpu = folder.run(&format!("{arguments} --engine cpu")).ok();
        for device in ["speed=1", "speed=5,latency=2", "fail=1", "fail=@1", "memory=1"] {
            for technique in ["auto", "ip-hash"] {
                let more = format!("{arguments} --technique {technique} --stats s.json");
                let run = on(&folder, device, &more);
                assert_eq!((run.status, &run.out), (0, &cpu), "{device} {more}: {}", run.err);
                assert!(run.err.contains("the GPU is simulated"), "{}", run.err);
                let fails = device.starts_with("fail") || device.starts_with("memory");
                let told = run.err.contains("; the CPU did its work");
                assert_eq!(told, fails, "{device} {more}: {}", run.err);
                let stats = json(&folder, "s.json");
                assert_eq!(stats["engine"], if fails { "cpu" } else { "gpu" });
                let name = if technique == "auto" { "ip" } else { technique };
                assert_eq!(stats["technique"] == name, !fails, "{}", stats["technique"]);
            }
        }
    }
    // `auto` is the CPU for sets in memory, and only one processor works at a time.
    let run = with_device(&folder, "speed=50", "intersect a.txt b.txt --stats s.json");
    assert_eq!((run.ok(), &json(&folder, "s.json")["engine"]), ("5000\n".into(), &"cpu".into()));
    with_device(&folder, "speed=50", "intersect a.txt b.txt --engine hybrid")
        .fails(2, &["hybrid", "auto, cpu, gpu"]);
    with_device(&folder, "speed=fast", "intersect a.txt b.txt --engine gpu")
        .fails(2, &["SIMJOIN_SIMULATED_GPU", "speed=fast"]);
    let run =
        with_device(&folder, "speed=1", "intersect a.txt b.txt --technique ip --stats s.json");
    assert_eq!((run.status, &*run.out), (0, "5000\n"));
    assert_eq!(json(&folder, "s.json")["engine"], "gpu");
}
