//! Does `simjoin intersect` find all common elements?

mod common;
use common::Folder;

fn raw(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[test]
fn sizes_elements_and_containments_are_exact() {
    let folder = Folder::new();
    folder.file("a.txt", "5 3 9\n3 1\t7\n").file("b.txt", "3\n4\n5\n\n1\n1000000\n2\n6\n");
    for technique in ["auto", "merge", "gallop", "blocks", "bitmap"] {
        let run = |rest: &str| {
            folder.run(&format!("intersect a.txt b.txt --technique {technique} {rest}")).ok()
        };
        assert_eq!(run(""), "3\n");
        assert_eq!(run("--threads 1"), "3\n");
        assert_eq!(run("--containment"), "0.6\n");
        assert_eq!(run("-o -"), "1\n3\n5\n");
        assert_eq!(run("-o both.txt"), "3\n");
        assert_eq!(std::fs::read_to_string(folder.join("both.txt")).unwrap(), "1\n3\n5\n");
    }
    folder.file("empty.txt", "");
    assert_eq!(folder.run("intersect a.txt empty.txt").ok(), "0\n");
    assert_eq!(folder.run("intersect a.txt empty.txt --containment").ok(), "0\n");
    assert_eq!(folder.run("intersect a.txt empty.txt -o -").ok(), "");
    assert_eq!(folder.run("intersect a.txt a.txt --containment").ok(), "1\n");
    assert_eq!(folder.run_with("intersect - b.txt", b"6 7").ok(), "1\n");
}

#[test]
fn every_format_holds_the_same_set() {
    let folder = Folder::new();
    for (name, seed) in [("a", 1), ("b", 2)] {
        for ending in ["u32", "npy", "txt", "txt.gz", "u32.zst"] {
            let made = "generate uniform --sets 1 --universe 200K --size 50K";
            folder.run(&format!("{made} --seed {seed} -o {name}.{ending}")).ok();
        }
    }
    let size = folder.run("intersect a.u32 b.u32").ok();
    assert!((12_000..13_000).contains(&size.trim().parse::<u32>().unwrap()), "{size}");
    let elements = folder.run("intersect a.u32 b.u32 -o -").ok();
    assert_eq!(elements.lines().count().to_string(), size.trim());
    for (a, b) in [("a.npy", "b.txt"), ("a.txt.gz", "b.u32.zst"), ("a.txt", "b.npy")] {
        assert_eq!(folder.run(&format!("intersect {a} {b} --threads 3 -o -")).ok(), elements);
        for simd in ["scalar", "avx2"] {
            let run = folder.run_in(&format!("intersect {a} {b}"), b"", &[("SIMJOIN_SIMD", simd)]);
            if run.status == 0 {
                assert_eq!(run.ok(), size);
            }
        }
    }
    // Outputs can be read again.
    for ending in ["u32", "npy", "txt.zst", "npy.gz"] {
        assert_eq!(folder.run(&format!("intersect a.u32 b.u32 -o c.{ending}")).ok(), size);
        assert_eq!(folder.run(&format!("intersect c.{ending} a.npy -o -")).ok(), elements);
        assert_eq!(folder.run(&format!("intersect c.{ending} b.txt --containment")).ok(), "1\n");
    }
}

#[test]
fn words_and_large_numbers_are_compared_as_text() {
    let folder = Folder::new();
    folder
        .file("a.txt", "salt bread\n18446744073709551615 oil 7")
        .file("b.txt", "7 oil oil\nsalt\n");
    assert_eq!(folder.run("intersect a.txt b.txt").ok(), "3\n");
    assert_eq!(folder.run("intersect a.txt b.txt -o -").ok(), "salt\noil\n7\n");
    assert_eq!(folder.run("intersect b.txt a.txt -o -").ok(), "7\noil\nsalt\n");
    folder.file("n.txt", "1 7 18446744073709551615");
    assert_eq!(folder.run("intersect n.txt a.txt").ok(), "2\n");
    folder.run("intersect a.txt b.txt -o c.u32").fails(2, &["c.u32", "words"]);
    folder
        .run_with("intersect - b.txt", b"1 2\n3 x")
        .fails(1, &["standard input: line 2: `x` is not a number", "read twice"]);
    folder.file("c.u32", raw(&[7, 9]));
    folder
        .run("intersect c.u32 b.txt")
        .fails(1, &["b.txt: line 1: `oil` is not a number", "holds numbers"]);
}

#[test]
fn statistics_and_plan_describe_the_run() {
    let folder = Folder::new();
    folder.file("a.u32", raw(&[5, 1, 5, 9])).file("b.u32", raw(&[1, 2, 3, 9]));
    folder.run("intersect a.u32 b.u32 --stats s.json --quiet").ok();
    let stats = std::fs::read_to_string(folder.join("s.json")).unwrap();
    for part in [
        "\"left\": 3",
        "\"right\": 4",
        "\"size\": 2",
        "\"containment\": 0.66",
        "\"tier\"",
        "\"read\"",
    ] {
        assert!(stats.contains(part), "{part} is not in {stats}");
    }
    assert!(stats.contains("\"repeated\": null"), "{stats}");
    assert_eq!(folder.run("intersect a.u32 b.u32 --repeat 2 --stats s.json").ok(), "2\n");
    let stats = std::fs::read_to_string(folder.join("s.json")).unwrap();
    assert!(stats.contains("\"count\": ") && stats.contains("\"read\": "), "{stats}");
    let run = folder.run("intersect a.u32 b.u32 --explain");
    assert_eq!((run.status, run.out.as_str()), (0, "2\n"));
    for part in ["left: 3 elements from 1 to 9", "right: 4", "plan: ", "found: 2 elements"] {
        assert!(run.err.contains(part), "{part} is not in {}", run.err);
    }
}

#[test]
fn wrong_usage_and_bad_input_are_one_line() {
    let folder = Folder::new();
    std::fs::create_dir(folder.join("d")).unwrap();
    folder.file("a.txt", "1 2 3").file("odd.u32", "12345").file("bad.npy", "nothing of the kind");
    let before = folder.names();
    for (arguments, status, parts) in [
        ("a.txt", 2, ["B", "required"]),
        ("- -", 2, ["at most one", "standard input"]),
        ("a.txt a.txt --technique magic", 2, ["magic", "gallop"]),
        ("a.txt a.txt --threads 0", 2, ["--threads", "1024"]),
        ("a.txt a.txt --repeat 0", 2, ["--repeat", "from 1"]),
        ("a.txt nowhere.txt", 1, ["nowhere.txt", "No such file"]),
        ("d a.txt", 1, ["d: ", "directory"]),
        ("a.txt odd.u32", 1, ["odd.u32", "5 bytes"]),
        ("bad.npy a.txt", 1, ["bad.npy", "not an npy file"]),
        ("a.txt a.txt -o no/where.txt", 1, ["no/where.txt", "does not exist"]),
        ("a.txt a.txt -o d", 1, ["d: ", "directory"]),
        ("a.txt a.txt --stats no/where.json", 1, ["no/where.json", "does not exist"]),
    ] {
        folder.run(&format!("intersect {arguments}")).fails(status, &parts);
        assert_eq!(folder.names(), before, "{arguments}");
    }
}
