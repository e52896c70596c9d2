//! Does `simjoin overlaps` find all overlaps?

mod common;
use common::Folder;

const BASKETS: &str = "salt bread oil\nbread oil\n\nbread oil\nmilk\n";

fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn every_pair_is_found_once_with_its_overlap() {
    let folder = Folder::new();
    folder.file("a.txt", BASKETS).file("b.txt", "oil\nmilk salt\n");
    let all = [
        "0\t1\t2", "0\t2\t0", "0\t3\t2", "0\t4\t0", "1\t2\t0", "1\t3\t2", "1\t4\t0", "2\t3\t0",
        "2\t4\t0", "3\t4\t0",
    ];
    for technique in ["auto", "index", "bitmap", "product"] {
        for threads in [1, 3] {
            let run = |rest: &str| {
                folder
                    .run(&format!("overlaps {rest} --technique {technique} --threads {threads}"))
                    .ok()
            };
            let out = run("a.txt");
            assert!(out.starts_with("left\tright\toverlap\n"));
            assert_eq!(sorted(&out), all);
            assert_eq!(run("a.txt --count"), "10\n");
            assert_eq!(sorted(&run("a.txt --positive")), ["0\t1\t2", "0\t3\t2", "1\t3\t2"]);
            assert_eq!(run("a.txt --positive --count"), "3\n");
            let best = ["0\t1\t2", "1\t0\t2", "3\t0\t2"];
            assert_eq!(sorted(&run("a.txt --top 1")), best);
            assert_eq!(run("a.txt --top 1 --count"), "3\n");
            let two = ["0\t0\t1", "0\t1\t1", "1\t0\t1", "3\t0\t1", "4\t1\t1"];
            assert_eq!(sorted(&run("a.txt b.txt --positive")), two);
            assert_eq!(run("a.txt b.txt --count"), "10\n");
            assert_eq!(
                sorted(&run("a.txt b.txt --top 1")),
                ["0\t0\t1", "1\t0\t1", "3\t0\t1", "4\t1\t1"]
            );
        }
    }
}

#[test]
fn overlaps_of_columns_and_text_are_written_with_ids() {
    let folder = Folder::new();
    folder.file("a.csv", "id,t\nx,The old man\ny,old men\nz,sea\n");
    let command = "overlaps a.csv --column t --id id --tokens words --positive";
    assert_eq!(folder.run(command).ok(), "left\tright\toverlap\nx\ty\t1\n");
    folder.run(&format!("{command} -o o.csv")).ok();
    assert_eq!(
        std::fs::read_to_string(folder.join("o.csv")).unwrap(),
        "left,right,overlap\nx,y,1\n"
    );
    folder.run(&format!("{command} -o o.jsonl")).ok();
    let json = std::fs::read_to_string(folder.join("o.jsonl")).unwrap();
    assert_eq!(json, "{\"left\":\"x\",\"right\":\"y\",\"overlap\":1}\n");
    for name in ["o.parquet", "o.arrow"] {
        folder.run(&format!("{command} -o {name}")).ok();
        // The output can be read again, as a column of strings.
        let read = folder.run(&format!("sets {name} --column right --jaccard 0.5 --count")).ok();
        assert_eq!(read, "0\n");
    }
}

#[test]
fn large_collections_fit_little_memory() {
    let folder = Folder::new();
    folder.run("generate zipf --sets 3K --universe 2K --size 20 -o a.txt").ok();
    let all = folder.run("overlaps a.txt --positive --count").ok();
    for rest in ["--technique index", "--technique bitmap", "--memory 1500K", "--threads 1"] {
        assert_eq!(folder.run(&format!("overlaps a.txt --positive --count {rest}")).ok(), all);
    }
    folder.run("overlaps a.txt --positive --count --memory 2K").fails(1, &["memory", "limit"]);
    folder.run("overlaps a.txt --top 3 --memory 1500K").fails(1, &["best of each row", "limit"]);
    // The number equals that of a join with a threshold.
    assert_eq!(folder.run("sets a.txt --overlap 1 --count").ok(), all);
    let run = folder.run("overlaps a.txt --positive --count --explain --stats s.json");
    assert_eq!((run.status, &run.out), (0, &all));
    for part in ["input: 3,000 records", "product", "<- chosen", "found: "] {
        assert!(run.err.contains(part), "{part} is not in {}", run.err);
    }
    let stats = std::fs::read_to_string(folder.join("s.json")).unwrap();
    for part in ["\"technique\"", "\"passes\"", "\"pairs\"", "\"seconds\""] {
        assert!(stats.contains(part), "{part} is not in {stats}");
    }
}

#[test]
fn the_best_pairs_are_found_over_several_passes() {
    let folder = Folder::new();
    let rows: String = (0..140_000).map(|row| format!("{row} x{}\n", row % 7)).collect();
    folder.file("left.txt", "139999 x6\n5\n").file("right.txt", rows);
    for technique in ["index", "product", "auto"] {
        let command = format!("overlaps left.txt right.txt --top 1 --technique {technique}");
        let out = folder.run(&command).ok();
        let mut lines: Vec<&str> = out.lines().skip(1).collect();
        lines.sort_unstable();
        assert_eq!(lines, ["0\t139999\t2", "1\t5\t1"], "{technique}");
    }
}

#[test]
fn overlaps_match_cpu_when_device_fails() {
    let folder = Folder::new();
    folder.run("generate zipf --sets 400 --universe 300 --size 9 -o a.txt").ok();
    folder.file("b.txt", BASKETS.repeat(20));
    for join in ["a.txt", "a.txt --positive", "a.txt b.txt --top 2", "b.txt --positive --count"] {
        let cpu = folder.run(&format!("overlaps {join} --engine cpu")).ok();
        for (device, fails) in [("speed=5", false), ("fail=1", true), ("fail=@1", true)] {
            for technique in ["auto", "bitmap", "hash"] {
                let more = format!("overlaps {join} --engine gpu --technique {technique}");
                let more = format!("{more} --threads 2 --stats s.json");
                let run = folder.run_in(&more, b"", &[("SIMJOIN_SIMULATED_GPU", device)]);
                assert_eq!(
                    (run.status, sorted(&run.out)),
                    (0, sorted(&cpu)),
                    "{more}: {}",
                    run.err
                );
                assert!(run.err.contains("the GPU is simulated"), "{}", run.err);
                assert_eq!(run.err.contains("the CPU did its work"), fails, "{more}: {}", run.err);
                let stats = std::fs::read_to_string(folder.join("s.json")).unwrap();
                let engine = if fails { "cpu" } else { "gpu" };
                assert!(stats.contains(&format!("\"engine\": \"{engine}\"")), "{more}: {stats}");
            }
        }
    }
}

#[test]
fn plan_trace_and_statistics_describe_the_run() {
    let folder = Folder::new();
    folder.run("generate zipf --sets 400 --universe 300 --size 9 -o a.txt").ok();
    let run =
        folder.run("overlaps a.txt --positive -o o.tsv --explain --stats s.json --trace t.json");
    assert_eq!(run.status, 0, "{}", run.err);
    for part in ["pairs to count", "<- chosen", "expected: about ", "step 1: "] {
        assert!(run.err.contains(part), "{part} is not in {}", run.err);
    }
    let stats = std::fs::read_to_string(folder.join("s.json")).unwrap();
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    let technique = stats["technique"].as_str().unwrap();
    let chosen = run.err.lines().find(|line| line.contains("<- chosen")).unwrap();
    assert!(chosen.trim().starts_with(technique), "{chosen}: {technique}");
    assert_eq!((&stats["candidates"], &stats["passes"]), (&(399 * 400 / 2).into(), &1.into()));
    let trace = std::fs::read_to_string(folder.join("t.json")).unwrap();
    assert!(trace.contains("CPU thread ") && trace.contains(technique), "{trace}");
    // The number of all pairs is known without counting.
    let run = folder.run("overlaps a.txt --count --explain --stats s.json");
    assert_eq!((run.status, run.out.as_str()), (0, "79800\n"));
    assert!(run.err.contains("the number of pairs is known"), "{}", run.err);
    let stats = std::fs::read_to_string(folder.join("s.json")).unwrap();
    assert!(stats.contains("\"technique\": \"none\""), "{stats}");
}

#[test]
fn wrong_usage_and_bad_input_are_one_line() {
    let folder = Folder::new();
    folder.file("a.txt", "a b\n").file("bad.txt", b"a b\nc \xff\n");
    let before = folder.names();
    for (arguments, status, parts) in [
        ("", 2, ["LEFT", "required"]),
        ("a.txt --top 0", 2, ["--top", "from 1"]),
        ("a.txt --top some", 2, ["--top", "from 1"]),
        ("a.txt --technique magic", 2, ["magic", "product"]),
        ("a.txt --count -o x.tsv", 2, ["--count", "--output"]),
        ("a.txt -o x.txt", 2, ["x.txt", ".parquet"]),
        ("a.txt --memory much", 2, ["--memory", "512M"]),
        ("a.txt --engine hybrid", 2, ["hybrid", "gpu"]),
        ("a.txt --stats x.json --trace x.json", 2, ["--stats", "--trace"]),
        ("nowhere.txt", 1, ["nowhere.txt", "No such file"]),
        ("bad.txt", 1, ["bad.txt: line 2", "UTF-8"]),
        ("a.txt -o no/where.tsv", 1, ["no/where.tsv", "does not exist"]),
    ] {
        folder.run(&format!("overlaps {arguments}")).fails(status, &parts);
        assert_eq!(folder.names(), before, "{arguments}");
    }
}
