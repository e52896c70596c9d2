//! Do the techniques for `simjoin sets --containment` find all pairs?

mod common;
use common::Folder;

#[test]
fn every_technique_finds_the_same_pairs() {
    let folder = Folder::new();
    folder.run("generate zipf --sets 2K --universe 300 --size 6 -o a.txt").ok();
    folder.run("generate zipf --sets 500 --universe 300 --size 15 --seed 2 -o b.txt").ok();
    for files in ["a.txt", "a.txt b.txt", "b.txt a.txt"] {
        for (threshold, techniques) in [
            ("1", &["auto", "lcjoin", "mmjoin", "prefix-bitmap", "ppjoin"][..]),
            ("0.8", &["auto", "mmjoin", "prefix-bitmap", "ppjoin"]),
        ] {
            let rows = |technique: &str, rest: &str| {
                let command = format!("sets {files} --containment {threshold} {rest}");
                let out = folder.run(&format!("{command} --technique {technique}")).ok();
                let mut rows: Vec<String> = out.lines().map(str::to_owned).collect();
                rows.sort();
                rows
            };
            let expected = rows("naive", "");
            assert!(expected.len() > 100, "{files} {threshold}");
            for technique in techniques {
                assert_eq!(rows(technique, ""), expected, "{files} {threshold} {technique}");
                let little = rows(technique, "--memory 600K --threads 1");
                assert_eq!(little, expected, "{files} {threshold} {technique}");
            }
        }
    }
}

#[test]
fn lcjoin_only_runs_at_containment_1() {
    let folder = Folder::new();
    folder.file("a.txt", "a b\nb\n");
    for predicate in ["--containment 0.9", "--jaccard 1", "--overlap 1"] {
        folder
            .run(&format!("sets a.txt {predicate} --technique lcjoin"))
            .fails(2, &["lcjoin", "containment 1"]);
    }
    folder.run("bench a.txt --containment 1,0.5 --technique lcjoin").fails(2, &["lcjoin"]);
    let out = folder.run("sets a.txt --containment 1 --technique lcjoin").ok();
    assert_eq!(out, "left\tright\toverlap\tsimilarity\n0\t1\t1\t1\n");
    let run = folder.run("sets a.txt --containment 1 --technique auto --explain");
    assert!(run.status == 0 && run.err.contains("lcjoin") && run.err.contains("mmjoin"), "{run:?}");
}
