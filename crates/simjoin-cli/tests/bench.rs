//! Does `simjoin bench` print correct tables and JSON?

mod common;
use common::Folder;
use serde_json::Value;
use simjoin::engine::{AUTO, Processor, Subject, names};

fn baskets(folder: &Folder) {
    let rows: String = (0..600)
        .map(|row| {
            let tokens: Vec<String> =
                (0..4 + row % 5).map(|at| (row / 3 * 7 % 90 + at).to_string()).collect();
            tokens.join(" ") + "\n"
        })
        .collect();
    folder.file("b.txt", rows);
}

fn rows(folder: &Folder, arguments: &str) -> Vec<Value> {
    let out = folder.run(&format!("bench b.txt {arguments} --budget 0 --json")).ok();
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn texts(rows: &[Value], field: &str) -> Vec<String> {
    rows.iter().map(|row| row[field].as_str().unwrap_or("null").to_string()).collect()
}

#[test]
fn every_cell_is_a_json_object_with_the_documented_fields() {
    let folder = Folder::new();
    baskets(&folder);
    let rows = rows(&folder, "--jaccard 0.5,0.9,2/3 --technique auto,naive --threads 2,1");
    // Threads and techniques keep their order; thresholds begin with the highest.
    assert_eq!(
        texts(&rows, "threshold"),
        [["0.9", "0.9", "2/3", "2/3", "0.5", "0.5"], ["0.9", "0.9", "2/3", "2/3", "0.5", "0.5"]]
            .concat()
    );
    assert_eq!(texts(&rows, "technique"), ["auto", "naive"].repeat(6));
    for (at, row) in rows.iter().enumerate() {
        assert_eq!(row["file"], "b.txt");
        assert_eq!(row["measure"], "jaccard");
        assert_eq!(row["threads"], if at < 6 { 2 } else { 1 });
        assert_eq!(row["finished"], true);
        assert_eq!(row["runs"], 1);
        assert!(row["candidates"].is_u64());
        assert_eq!(row["join_min"], row["join_median"]);
        assert_eq!(row["joins"], serde_json::json!([row["join_min"]]));
        for seconds in ["read", "prepare", "join_min", "join_median"] {
            assert!(row[seconds].is_f64(), "{seconds}");
        }
        let threshold = row["threshold"].as_str().unwrap();
        let count = folder.run(&format!("sets b.txt --count --jaccard {threshold}")).ok();
        assert_eq!(row["pairs"].to_string(), count.trim());
    }
    assert_eq!(rows[1]["ran"], "naive");
    // At 0.9, sets of at most 8 tokens only match equal sets, so nothing is run.
    assert_eq!(rows[0]["ran"], "auto");
    assert_ne!(rows[2]["ran"], "auto");
}

fn techniques() -> impl Iterator<Item = &'static str> {
    std::iter::once(AUTO).chain(names(Subject::Sets, Processor::Cpu))
}

#[test]
fn all_techniques_except_naive_are_the_default() {
    let folder = Folder::new();
    baskets(&folder);
    let rows = rows(&folder, "--overlap 4 --threads 1");
    // Two techniques are only for containment.
    let known: Vec<&str> =
        techniques().filter(|name| !["naive", "lcjoin", "mmjoin"].contains(name)).collect();
    assert_eq!(texts(&rows, "technique"), known);
}

#[test]
fn repeated_values_run_once() {
    let folder = Folder::new();
    baskets(&folder);
    let rows = rows(&folder, "--dice 0.5,1/2,0.50 --technique ppjoin,ppjoin --threads 1,1");
    assert_eq!(rows.len(), 1);
}

#[test]
fn short_joins_run_more_often_than_requested() {
    let folder = Folder::new();
    folder.file("b.txt", "a b\nb c\n");
    let line = folder.run("bench b.txt --jaccard 1 --technique ppjoin --threads 1 --json").ok();
    let row: Value = serde_json::from_str(&line).unwrap();
    assert!(row["runs"].as_u64().unwrap() > 5, "{line}");
    assert!(row["join_min"].as_f64() <= row["join_median"].as_f64(), "{line}");
}

#[test]
fn runs_over_the_limit_are_ended_and_skipped_at_lower_thresholds() {
    let folder = Folder::new();
    // Every pair is similar, and naive compares all of them.
    let many: String = (0..20_000).map(|row| format!("a b c d e f g h {row}\n")).collect();
    folder.file("b.txt", many);
    let arguments = "--jaccard 0.5,0.4 --technique naive --threads 1 --limit 0.001";
    let rows = rows(&folder, arguments);
    for (row, runs) in rows.iter().zip([1, 0]) {
        assert_eq!(row["finished"], false);
        assert_eq!(row["runs"], runs);
        for absent in ["ran", "pairs", "candidates", "join_min", "join_median"] {
            assert!(row[absent].is_null(), "{absent}");
        }
    }
    let table = folder.run(&format!("bench b.txt {arguments}")).ok();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[1].contains("> 0.001") && lines[2].contains("skipped"), "{table}");
}

#[test]
fn the_table_is_aligned() {
    let folder = Folder::new();
    baskets(&folder);
    let out = folder.run("bench b.txt --containment 0.9,0.8 --threads 1 --budget 0").ok();
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("containment  technique "), "{out}");
    assert!(lines[1].starts_with("0.9          auto "), "{out}");
    assert_eq!(lines.len(), 1 + 2 * (techniques().count() - 2));
    assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{out}");
}

#[test]
fn text_columns_and_memory() {
    let folder = Folder::new();
    folder.file("t.csv", "id,t\n1,The fox!\n2,the FOX\n3,\"a hen, a fox\"\n");
    let bench = |more: &str| {
        folder.run(&format!("bench t.csv --column t --jaccard 1 --threads 1 --json {more}"))
    };
    let pairs = |more: &str| {
        let out = bench(&format!("--budget 0 --technique ppjoin {more}")).ok();
        serde_json::from_str::<Value>(&out).unwrap()["pairs"].as_u64().unwrap()
    };
    assert_eq!(pairs("--tokens words"), 1);
    assert_eq!(pairs("--tokens qgrams:2"), 0);
    assert_eq!(pairs(""), 0);
    assert_eq!(pairs("--tokens words --memory 1M"), 1);
    folder
        .run("bench t.csv --column t --tokens words --jaccard 0.2 --threads 1 --json --memory 10")
        .fails(1, &["memory", "limit is 10"]);
}

#[test]
fn wrong_usage_is_one_line_and_status_2() {
    let folder = Folder::new();
    baskets(&folder);
    for (arguments, part) in [
        ("b.txt", "--jaccard"),
        ("--jaccard 0.5", "FILE"),
        ("b.txt --jaccard 0.5,", "is not a number"),
        ("b.txt --jaccard 0.5,1.5", "is above 1"),
        ("b.txt --overlap 5,0.5", "whole number"),
        ("b.txt --jaccard 0.5 --dice 0.5", "cannot be used with"),
        ("b.txt --jaccard 0.5 --technique ppjoin,magic", "group-join"),
        ("b.txt --jaccard 0.5 --threads 1,0", "--threads"),
        ("b.txt --jaccard 0.5 --repeat 0", "--repeat"),
        ("b.txt --jaccard 0.5 --budget soon", "--budget"),
        ("b.txt --jaccard 0.5 --limit soon", "--limit"),
        ("b.txt --jaccard 0.5 --memory lots", "512M"),
        ("b.txt --jaccard 0.5 --tokens letters", "qgrams:"),
        ("b.txt --jaccard 0.5 --column x", "--column"),
        ("- --jaccard 0.5", "standard input"),
        ("b.txt b.txt --jaccard 0.5", "b.txt"),
    ] {
        let run = folder.run(&format!("bench {arguments}"));
        assert!(run.err.contains(part), "{arguments}: {run:?}");
        run.fails(2, &[]);
    }
    // Nothing is printed before the file is read.
    for (arguments, status, part) in [
        ("nowhere.txt --jaccard 0.5", 1, "nowhere.txt: No such file"),
        ("b.txt --jaccard 0.5 --column x", 2, "--column needs a format with columns"),
    ] {
        let run = folder.run(&format!("bench {arguments}"));
        assert_eq!(run.out, "");
        run.fails(status, &[part]);
    }
}
