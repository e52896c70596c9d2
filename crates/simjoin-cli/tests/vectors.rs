//! Does `simjoin vectors` find and write all pairs?

mod common;
use common::Folder;
use simjoin::engine::{AUTO, Processor, Subject, names};

const POINTS: &str = "0,0\n3,4\n0,1\n100,100\n3,4\n";

fn sorted(out: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = out.lines().skip(1).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn pairs_are_written_as_tsv_with_a_header() {
    let folder = Folder::new();
    let out = folder.file("p.csv", POINTS).run("vectors p.csv --within 5").ok();
    assert_eq!(out.lines().next(), Some("left\tright\tdistance"));
    let expected = [
        "0\t1\t5",
        "0\t2\t1",
        "0\t4\t5",
        "1\t2\t4.242640687119285",
        "1\t4\t0",
        "2\t4\t4.242640687119285",
    ];
    assert_eq!(sorted(&out), expected);
    assert_eq!(folder.run("vectors p.csv --within 4.999999999999999 --count").ok(), "4\n");
    assert_eq!(folder.run("vectors p.csv --within 0 --count").ok(), "1\n");
    let groups = folder.run("vectors p.csv --within 4.5 --groups").ok();
    assert_eq!(groups, "row\tgroup\n0\t0\n1\t0\n2\t0\n3\t3\n4\t0\n");
}

#[test]
fn two_files_are_joined_by_cosine() {
    let folder = Folder::new();
    folder.file("a.csv", "3,4\n-1,0\n").file("b.csv", "4,3\n8,6\n0,1\n6,8\n");
    let out = folder.run("vectors a.csv b.csv --cosine 0.96").ok();
    let found = sorted(&out);
    assert_eq!(found.len(), 3);
    assert!(found[0].starts_with("0\t0\t0.04") && found[2] == "0\t3\t0", "{found:?}");
    assert_eq!(folder.run("vectors a.csv b.csv --cosine -1 --count").ok(), "8\n");
    assert_eq!(folder.run("vectors b.csv --cosine 1 --count").ok(), "1\n");
    folder.file("zero.csv", "1,2\n0,0\n");
    folder
        .run("vectors zero.csv --cosine 0.5")
        .fails(1, &["zero.csv: row 1 (counting from 0): the vector is zero"]);
}

#[test]
fn every_output_format_has_ids() {
    let folder = Folder::new();
    folder.file("p.csv", "name,x,y\na,0,0\nb,0,2\n");
    let run =
        |output: &str| folder.run(&format!("vectors p.csv --id name --within 2 -o {output}")).ok();
    for (output, expected) in [
        ("o.tsv", "left\tright\tdistance\na\tb\t2\n"),
        ("o.csv", "left,right,distance\na,b,2\n"),
        ("o.jsonl", "{\"left\":\"a\",\"right\":\"b\",\"distance\":2}\n"),
    ] {
        assert_eq!(run(output), "");
        assert_eq!(std::fs::read_to_string(folder.join(output)).unwrap(), expected);
    }
    for output in ["o.parquet", "o.arrow"] {
        run(output);
        assert!(std::fs::metadata(folder.join(output)).unwrap().len() > 100);
    }
}

/// Every technique, tier of this processor and number of threads must write the same bytes, except for
/// the order.
#[test]
fn techniques_tiers_and_threads_agree() {
    let folder = Folder::new();
    for (shape, dimension, distance) in [
        ("uniform", 2, "0.02"),
        ("clusters", 8, "0.1"),
        ("correlated", 40, "0.15"),
        ("clusters", 200, "0.95"),
    ] {
        let make =
            format!("generate vectors {shape} --vectors 700 --dimension {dimension} -o v.npy");
        folder.run(&make).ok();
        let mut expected: Option<Vec<String>> = None;
        for technique in std::iter::once(AUTO).chain(names(Subject::Vectors, Processor::Cpu)) {
            if technique == "grid" && dimension > 64 {
                continue;
            }
            for tier in ["scalar", "avx2", "avx512", "neon"] {
                for threads in [1, 2] {
                    let run = folder.run_in(
                        &format!("vectors v.npy --within {distance} --technique {technique} --threads {threads}"),
                        b"",
                        &[("SIMJOIN_SIMD", tier)],
                    );
                    if run.status == 2 {
                        run.fails(2, &["this processor has"]);
                        continue;
                    }
                    let out = run.ok();
                    let lines: Vec<String> = sorted(&out).into_iter().map(str::to_owned).collect();
                    assert!(lines.len() > 50, "{shape}: {} pairs", lines.len());
                    let wanted = expected.get_or_insert_with(|| lines.clone());
                    assert!(*wanted == lines, "{shape} {technique} {tier} {threads}");
                }
            }
        }
    }
}

#[test]
fn explain_and_stats_describe_the_run() {
    let folder = Folder::new();
    folder.run("generate vectors uniform --vectors 5K --dimension 4 --seed 3 -o v.fvecs").ok();
    let run = folder
        .run("vectors v.fvecs --within 0.05 --count --explain --technique quantile --stats s.json");
    assert_eq!(run.status, 0, "{run:?}");
    for part in [
        "5,000 vectors with themselves, dimension 4",
        "quantile",
        "<- chosen",
        "expected: about ",
        "found: ",
    ] {
        assert!(run.err.contains(part), "{part}: {}", run.err);
    }
    let stats = std::fs::read_to_string(folder.join("s.json")).unwrap();
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["records"]["left"], 5000);
    assert_eq!(stats["technique"], "quantile");
    assert_eq!(format!("{}\n", stats["pairs"]), run.out);
    assert!(stats["seconds"]["total"].as_f64().unwrap() > 0.0);
}

#[test]
fn vectors_fit_little_memory() {
    let folder = Folder::new();
    folder.run("generate vectors uniform --vectors 20K --dimension 3 -o v.npy").ok();
    let free = folder.run("vectors v.npy --within 0.01 --count").ok();
    assert_eq!(folder.run("vectors v.npy --within 0.01 --count --memory 16M").ok(), free);
    folder
        .run("vectors v.npy --within 0.01 --count --memory 10K")
        .fails(1, &["bytes of memory, but the limit is 10240"]);
}

#[test]
fn wrong_usage_and_wrong_files_are_one_line() {
    let folder = Folder::new();
    folder
        .file("p.csv", POINTS)
        .file("q.csv", "1,2,3\n")
        .file("bad.csv", "1,2\n3,x\n")
        .file("t.txt", "1 2\n");
    for (arguments, status, part) in [
        ("vectors p.csv", 2, "required"),
        ("vectors p.csv --within -1", 2, "is negative"),
        ("vectors p.csv --within abc", 2, "is not a number"),
        ("vectors p.csv --cosine 1.5", 2, "is out of range"),
        ("vectors p.csv --within 1 --cosine 1", 2, "cannot be used with"),
        ("vectors t.txt --within 1", 2, "--format must say"),
        ("vectors p.csv --within 1 -o out.xyz", 2, "no known ending"),
        ("vectors p.csv --within 1 --technique ppjoin", 2, "ppjoin"),
        ("vectors p.csv --within 1 --engine cpu --technique gpu-grid", 2, "runs on a GPU"),
        ("vectors p.csv --within 1 --engine hybrid --technique grid+magic", 2, "gpu-tensor"),
        ("vectors p.csv --within 1 --engine cuda", 2, "cuda"),
        ("vectors p.csv --within 1 --device-memory x", 2, "--device-memory"),
        ("vectors p.csv --within 1 --threads 0", 2, "--threads"),
        ("vectors p.csv --within 1 --memory x", 2, "--memory"),
        ("vectors - - --within 1 --format csv", 2, "standard input"),
        ("vectors none.npy --within 1", 1, "none.npy"),
        ("vectors bad.csv --within 1", 1, "bad.csv: line 2: `x` in field 2 is not a number"),
        (
            "vectors p.csv q.csv --within 1",
            1,
            "q.csv: vectors of dimension 3; those of p.csv have 2",
        ),
        ("vectors p.csv --within 1 --technique grid --memory 1", 1, "limit is 1"),
        ("vectors p.csv --within 1 -o none/out.tsv", 1, "none/out.tsv"),
        ("generate vectors uniform --vectors 0 --dimension 2", 2, "--vectors"),
        ("generate vectors uniform --vectors 5 --dimension 2 -o a.txt", 2, ".fvecs"),
        ("generate vectors clusters --vectors 5 --dimension 2 --spread x", 2, "--spread"),
    ] {
        folder.run(arguments).fails(status, &[part]);
    }
    assert_eq!(folder.names(), ["bad.csv", "p.csv", "q.csv", "t.txt"]);
    let csv = folder.run_with("vectors - --format csv --within 5 --count", POINTS.as_bytes());
    assert_eq!(csv.ok(), "6\n");
}
