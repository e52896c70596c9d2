//! Does `simjoin sets` find and write all pairs?

mod common;
use common::Folder;

const BASKETS: &str = "milk bread butter\nbread milk butter\nmilk bread butter jam\n\nbeer\n";

#[test]
fn pairs_are_written_as_tsv_with_a_header() {
    let folder = Folder::new();
    let out = folder.file("b.txt", BASKETS).run("sets b.txt --jaccard 0.75").ok();
    let mut lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.remove(0), "left\tright\toverlap\tsimilarity");
    lines.sort_unstable();
    assert_eq!(lines, ["0\t1\t3\t1", "0\t2\t3\t0.75", "1\t2\t3\t0.75"]);
}

#[test]
fn every_measure_and_technique_counts_the_same() {
    let folder = Folder::new();
    folder.file("b.txt", BASKETS);
    for (predicate, pairs) in [
        ("--jaccard 0.76", "1\n"),
        ("--jaccard 3/4", "3\n"),
        ("--cosine 0.86", "3\n"),
        ("--cosine 0.87", "1\n"),
        ("--dice 0.857142857142857142", "3\n"),
        ("--dice 0.857142857142857143", "1\n"),
        ("--overlap 3", "3\n"),
        ("--overlap 4", "0\n"),
        ("--containment 1", "3\n"),
    ] {
        for technique in ["auto", "ppjoin", "group-join", "skip-join", "all-pairs", "naive"] {
            for threads in 1..3 {
                let out = folder
                    .run(&format!(
                        "sets b.txt {predicate} --count --technique {technique} --threads {threads}"
                    ))
                    .ok();
                assert_eq!(out, pairs, "{predicate} {technique} {threads}");
            }
        }
    }
}

#[test]
fn two_files_join_left_with_right() {
    let folder = Folder::new();
    folder.file("l.txt", "a b c\nx y\n").file("r.txt", "q\nc b a\na b\ny x\n");
    let out = folder.run("sets l.txt r.txt --jaccard 0.6").ok();
    let mut lines: Vec<&str> = out.lines().skip(1).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0\t1\t3\t1", "0\t2\t2\t0.6666666666666666", "1\t3\t2\t1"]);
}

#[test]
fn groups_name_the_smallest_row_of_each_component() {
    let folder = Folder::new();
    let out = folder.file("b.txt", BASKETS).run("sets b.txt --jaccard 0.75 --groups").ok();
    assert_eq!(out, "row\tgroup\n0\t0\n1\t0\n2\t0\n3\t3\n4\t4\n");
}

#[test]
fn standard_input_may_be_compressed() {
    let folder = Folder::new();
    assert_eq!(folder.run_with("sets - --jaccard 0.75 --count", BASKETS.as_bytes()).ok(), "3\n");
    // A gzip member with stored blocks is written by hand, so the test needs no compressor.
    let body = BASKETS.as_bytes();
    let mut gzip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    gzip.extend((body.len() as u16).to_le_bytes());
    gzip.extend((!(body.len() as u16)).to_le_bytes());
    gzip.extend(body);
    gzip.extend(crc32(body).to_le_bytes());
    gzip.extend((body.len() as u32).to_le_bytes());
    assert_eq!(folder.run_with("sets - --jaccard 0.75 --count", &gzip).ok(), "3\n");
    assert_eq!(
        folder.file("b.txt.gz", &gzip).run("sets b.txt.gz --jaccard 0.75 --count").ok(),
        "3\n"
    );
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 }
        })
    })
}

#[test]
fn columns_and_ids_are_read_and_written() {
    let folder = Folder::new();
    folder.file("b.jsonl", "{\"id\":\"x\",\"items\":[\"a\",\"b c\"]}\n{\"id\":\"y\",\"items\":[\"b c\",\"a\"]}\n{\"id\":\"z\",\"items\":[1,2]}\n");
    let out = folder.run("sets b.jsonl --column items --id id --jaccard 1").ok();
    assert_eq!(out, "left\tright\toverlap\tsimilarity\nx\ty\t2\t1\n");
    for name in ["o.tsv", "o.csv", "o.jsonl", "o.parquet", "o.arrow"] {
        let run = folder.run(&format!("sets b.jsonl --column items --id id --jaccard 1 -o {name}"));
        assert_eq!(run.ok(), "");
        assert!(folder.join(name).metadata().unwrap().len() > 0);
    }
    assert_eq!(
        std::fs::read_to_string(folder.join("o.csv")).unwrap(),
        "left,right,overlap,similarity\nx,y,2,1\n"
    );
    let line = std::fs::read_to_string(folder.join("o.jsonl")).unwrap();
    assert!(line.contains("\"left\":\"x\"") && line.contains("\"overlap\":2"), "{line}");
    // Outputs can be read again, as sets of one token each.
    let again = folder.run("sets o.parquet --column left --overlap 1 --count").ok();
    assert_eq!(again, "0\n");
    let groups = folder.run("sets b.jsonl --column items --id id --jaccard 1 --groups").ok();
    assert_eq!(groups, "row\tgroup\nx\tx\ny\tx\nz\tz\n");
}

#[test]
fn stats_are_json_with_the_documented_keys() {
    let folder = Folder::new();
    folder.file("b.txt", BASKETS);
    folder.run("sets b.txt --jaccard 0.75 --count --threads 2 --stats s.json").ok();
    let text = std::fs::read_to_string(folder.join("s.json")).unwrap();
    let stats: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(stats["records"]["left"], 5);
    assert!(stats["records"]["right"].is_null());
    assert_eq!(stats["tokens"], 11);
    assert_eq!(stats["universe"], 5);
    assert_eq!(stats["pairs"], 3);
    assert!(stats["candidates"].is_u64());
    assert_eq!(stats["engine"], "cpu");
    assert!(stats["technique"].is_string());
    assert_eq!(stats["threads"], 2);
    for phase in ["read", "prepare", "join", "write", "total"] {
        assert!(stats["seconds"][phase].is_f64(), "{phase}");
    }
}

#[test]
fn the_output_is_the_same_to_the_byte_with_any_number_of_threads() {
    let folder = Folder::new();
    let rows: String = (0..4000)
        .map(|row| {
            let tokens: Vec<String> =
                (0..5 + row % 7).map(|at| (row / 3 * 17 % 900 + at).to_string()).collect();
            tokens.join(" ") + "\n"
        })
        .collect();
    folder.file("b.txt", rows);
    let one = folder.run("sets b.txt --jaccard 0.6 --threads 1").ok();
    assert!(one.lines().count() > 10_000);
    for threads in [2, 3, 8] {
        assert_eq!(one, folder.run(&format!("sets b.txt --jaccard 0.6 --threads {threads}")).ok());
    }
    let small = folder.run("sets b.txt --jaccard 0.6 --memory 100K --count").ok();
    assert_eq!(small.trim().parse::<usize>().unwrap(), one.lines().count() - 1);
}

#[test]
fn help_version_and_completions_are_printed() {
    let folder = Folder::new();
    let help = folder.run("sets --help").ok();
    for word in ["--jaccard", "--containment", "--groups", "--technique", "Examples:", "--column"] {
        assert!(help.contains(word), "{word}");
    }
    assert!(folder.run("--help").ok().contains("Examples:"));
    assert!(folder.run("--version").ok().starts_with("simjoin "));
    for shell in ["bash", "zsh", "fish"] {
        assert!(folder.run(&format!("completions {shell}")).ok().contains("simjoin"), "{shell}");
    }
    let bare = folder.run("");
    assert_eq!(bare.status, 2);
    assert!(bare.err.contains("Usage:"));
}

#[test]
fn explain_shows_the_plan_before_and_the_real_figures_after() {
    let folder = Folder::new();
    let lines: Vec<String> = (0..300u32)
        .map(|row| (0..12).map(|at| (row / 3 * 7 + at * (row % 3 + 5)).to_string()).collect())
        .map(|tokens: Vec<String>| tokens.join(" "))
        .collect();
    folder.file("sets.txt", lines.join("\n"));
    let cache = folder.path().join("cache");
    let explain = |machine: &str| {
        let variables = [("SIMJOIN_MACHINE", machine), ("XDG_CACHE_HOME", cache.to_str().unwrap())];
        let run = folder.run_in("sets sets.txt --jaccard 0.5 --count --explain", b"", &variables);
        assert_eq!(run.status, 0, "{run:?}");
        for part in [
            "input: 300 records",
            "plan, step 1 of",
            "<- chosen",
            "prefix-bitmap  64 bits",
            "skip-join",
            "expected: about",
            &format!("found: {} pairs (estimated {})", run.out.trim(), run.out.trim()),
        ] {
            assert!(run.err.contains(part), "{part:?} is not in\n{}", run.err);
        }
    };
    // Showing a plan measures nothing and stores nothing, so the plan is the same as without --explain.
    explain("fixed");
    explain("calibrated");
    assert!(!cache.exists());
    for wrong in ["quick", "fixed:0", "fixed:x"] {
        let run = folder.run_in("sets sets.txt --jaccard 0.5", b"", &[("SIMJOIN_MACHINE", wrong)]);
        run.fails(2, &["SIMJOIN_MACHINE", wrong, "expected"]);
    }
}

#[test]
fn chosen_technique_is_never_called_impossible() {
    let folder = Folder::new();
    folder.run("generate zipf --sets 2K --universe 1M --size 10 -o z.txt").ok();
    // More tokens than a signature has bits.
    let run = folder.run("sets z.txt --jaccard 0.5 --count --technique dense --explain");
    assert_eq!(run.status, 0, "{run:?}");
    let chosen = run.err.lines().find(|line| line.ends_with("<- chosen")).unwrap();
    assert!(chosen.contains("dense") && chosen.contains("no estimate"), "{chosen}");
    assert!(!run.err.contains("not possible"), "{}", run.err);
}
