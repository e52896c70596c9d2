//! Does `simjoin generate` make the documented collections?

mod common;
use common::{Folder, Run};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};

#[test]
fn synthetic_sets_are_written_to_a_file_or_to_standard_output() {
    let folder = Folder::new();
    for kind in ["uniform", "zipf", "normal"] {
        let command = format!("generate {kind} --sets 2K --universe 1K --size 8");
        let out = folder.run(&command).ok();
        assert_eq!(out.lines().count(), 2000);
        for line in out.lines() {
            let tokens: Vec<u32> = line.split(' ').map(|token| token.parse().unwrap()).collect();
            assert!(tokens.iter().all(|token| (1..=1000).contains(token)), "{line}");
            assert_eq!(tokens.iter().collect::<BTreeSet<_>>().len(), tokens.len(), "{line}");
        }
        // The same seed gives the same bytes, and another seed different ones.
        assert_eq!(folder.run(&format!("{command} --seed 1 -o a.txt")).ok(), "");
        assert_eq!(std::fs::read_to_string(folder.join("a.txt")).unwrap(), out);
        assert_eq!(folder.run(&format!("{command} -o -")).ok(), out);
        assert_ne!(folder.run(&format!("{command} --seed 2")).ok(), out);
    }
    assert_eq!(folder.names(), ["a.txt"]);
}

#[test]
fn collections_of_the_literature_have_any_number_of_sets() {
    let folder = Folder::new();
    let out = folder.run("generate like kosarak --sets 3K").ok();
    assert_eq!(out.lines().count(), 3000);
    let tokens = out.split_whitespace().count() as f64 / 3000.0;
    assert!((7.0..9.0).contains(&tokens), "{tokens}");
    // Sizes are skewed: 1 is the most frequent size.
    let single = out.lines().filter(|line| !line.contains(' ')).count();
    assert!((250..500).contains(&single), "{single}");
    assert_eq!(folder.run("generate like kosarak --sets 3K --seed 1").ok(), out);
    assert_ne!(folder.run("generate like kosarak --sets 3K --seed 2").ok(), out);
}

#[test]
fn collections_of_the_literature_are_listed() {
    let folder = Folder::new();
    let out = folder.run("generate like --list").ok();
    let mut lines = out.lines();
    assert_eq!(lines.next(), Some("name\tsets\tsize\tuniverse\tabout"));
    assert_eq!(lines.next(), Some("aol\t10000000\t3\t3900000\tqueries of a search engine"));
    assert!(lines.all(|line| line.split('\t').count() == 5));
}

#[test]
fn tokens_of_zipf_are_less_evenly_distributed_than_uniform_ones() {
    let folder = Folder::new();
    let share = |law: &str| {
        let out = folder.run(&format!("generate {law} --sets 5K --universe 1K --size 5")).ok();
        out.split_whitespace().filter(|token| *token == "1").count()
    };
    let (uniform, flat) = (share("uniform"), share("zipf --exponent 0"));
    let (zipf, steep) = (share("zipf"), share("zipf --exponent 1.5"));
    assert!((5..60).contains(&uniform) && (5..60).contains(&flat), "{uniform} {flat}");
    assert!(zipf > 1500 && steep > zipf, "{zipf} {steep}");
}

#[test]
fn single_sets_may_be_written_as_raw_numbers() {
    let folder = Folder::new();
    for kind in ["uniform", "zipf --exponent 0.8", "normal --deviation 3K"] {
        let command = format!("generate {kind} --sets 1 --universe 20K --size 5K");
        let text = folder.run(&command).ok();
        let numbers: Vec<u32> = text.split_whitespace().map(|n| n.parse().unwrap()).collect();
        assert!((4_500..5_500).contains(&numbers.len()) && numbers.is_sorted_by(|a, b| a < b));
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        folder.run(&format!("{command} -o a.u32")).ok();
        assert_eq!(std::fs::read(folder.join("a.u32")).unwrap(), bytes);
        folder.run(&format!("{command} -o a.npy")).ok();
        let npy = std::fs::read(folder.join("a.npy")).unwrap();
        assert!(npy.starts_with(b"\x93NUMPY") && npy.ends_with(&bytes));
        assert_eq!((npy.len() - bytes.len()) % 64, 0);
    }
    folder
        .run("generate uniform --sets 2 --universe 20 --size 5 -o b.u32")
        .fails(2, &["b.u32", "--sets 1"]);
}

#[test]
fn generated_files_can_be_joined_compressed_or_not() {
    let folder = Folder::new();
    let sets = "generate zipf --sets 1K --universe 50 --size 4";
    for name in ["a.txt", "a.txt.gz", "a.ZST"] {
        folder.run(&format!("{sets} -o {name}")).ok();
    }
    let count = folder.run("sets a.txt --jaccard 0.8 --count").ok();
    assert!(count.trim().parse::<u64>().unwrap() > 0);
    for name in ["a.txt.gz", "a.ZST"] {
        assert_eq!(folder.run(&format!("sets {name} --jaccard 0.8 --count")).ok(), count);
        let head = std::fs::read(folder.join(name)).unwrap();
        assert!(head.starts_with(b"\x1f\x8b") || head.starts_with(b"\x28\xb5\x2f\xfd"));
    }
}

#[test]
fn inflating_multiplies_the_result_by_about_the_factor() {
    let folder = Folder::new();
    folder.run("generate zipf --sets 2K --universe 300 --size 5 -o a.txt.gz").ok();
    folder.run("generate inflate a.txt.gz --times 4 -o b.txt").ok();
    let (small, large) = (
        folder.run("sets a.txt.gz --jaccard 0.6 --count").ok().trim().parse::<f64>().unwrap(),
        folder.run("sets b.txt --jaccard 0.6 --count").ok().trim().parse::<f64>().unwrap(),
    );
    assert!(large >= 4.0 * small && large < 10.0 * small, "{small} {large}");
    let text = std::fs::read_to_string(folder.join("b.txt")).unwrap();
    assert_eq!(text.lines().count(), 8000);
    // The first of every four is the original, which is unchanged.
    let once = folder.run("generate inflate a.txt.gz --times 1").ok();
    assert!(text.lines().step_by(4).eq(once.lines()));
    folder.file("empty.txt", "").run("generate inflate empty.txt --times 5 -o e.txt").ok();
    assert_eq!(std::fs::read(folder.join("e.txt")).unwrap(), b"");
    // A file may be replaced by its own inflated copy.
    folder.file("c.txt", "a b\nb\n").run("generate inflate c.txt --times 2 -o c.txt").ok();
    assert_eq!(std::fs::read_to_string(folder.join("c.txt")).unwrap(), "a b\nb a\nb\na\n");
}

#[test]
fn dirty_copies_are_found_by_a_join() {
    let folder = Folder::new();
    let titles = "A tale of two cities\nThe old man and the sea\nÜber die Grenze\n";
    folder.file("t.txt", titles);
    let out = folder.run("generate dirty t.txt --copies 2 --edits 1..2").ok();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 9);
    assert!(lines.iter().step_by(3).copied().eq(titles.lines()));
    let piped = folder.run_with("generate dirty - --copies 2 --edits 1..2", titles.as_bytes());
    assert_eq!(piped.ok(), out);
    folder.file("d.txt", &out);
    let groups = folder.run("text d.txt --tokens qgrams:2 --jaccard 0.4 --groups").ok();
    let groups: BTreeSet<&str> =
        groups.lines().skip(1).map(|line| line.split('\t').next_back().unwrap()).collect();
    assert_eq!(groups, BTreeSet::from(["0", "3", "6"]));
}

#[test]
fn wrong_usage_is_one_line_and_status_2() {
    let folder = Folder::new();
    folder.file("a.txt", "a b\n").file("a.csv", "t\na\n");
    let good = "--sets 10 --universe 10 --size 5";
    for (arguments, part) in [
        ("uniform --sets 0 --universe 10 --size 5", "--sets"),
        ("uniform --sets 10 --universe 0 --size 5", "--universe"),
        ("uniform --sets 10 --universe 10 --size 0", "--size"),
        ("uniform --sets 10 --universe 10 --size 11", "above the universe of 10"),
        ("zipf --sets 10 --universe 5G --size 5", "at most 4294967295"),
        ("zipf --sets 5X --universe 10 --size 5", "500K"),
        ("zipf --sets 1.5M --universe 10 --size 5", "whole number"),
        ("zipf --sets -3 --universe 10 --size 5", "--sets \"-3\""),
        ("zipf --sets 99999999999G --universe 10 --size 5", "--sets"),
        ("zipf --sets 10 --universe 10", "--size"),
        (&format!("zipf {good} --exponent steep"), "--exponent"),
        (&format!("zipf {good} --exponent -1"), "from 0 to 10"),
        (&format!("zipf {good} --exponent NaN"), "from 0 to 10"),
        (&format!("uniform {good} --exponent 1"), "--exponent"),
        (&format!("normal {good} --deviation 0"), "--deviation"),
        (&format!("normal {good} --deviation 1"), "at most 4 times"),
        (&format!("normal {good} --deviation 11"), "from 1 to the universe"),
        (&format!("uniform {good} --seed x"), "--seed"),
        ("inflate a.txt", "--times"),
        ("inflate a.txt --times 0", "--times"),
        ("inflate - --times 2", "standard input can be read only once"),
        ("inflate /dev/stdin --times 2", "can be read only once"),
        ("inflate a.csv --times 2", "only reads files with one record per line"),
        ("dirty a.txt", "--copies"),
        ("dirty a.txt --copies 0", "--copies"),
        ("dirty a.txt --copies 1 --edits 5..1", "5..1"),
        ("dirty a.txt --copies 1 --edits some", "1..5"),
        ("dirty a.parquet --copies 1", "parquet"),
        ("flowers", "flowers"),
        ("like flowers", "kosarak"),
        ("like", "NAME"),
        ("like bms --list", "--list"),
        ("like bms --sets 0", "--sets"),
    ] {
        let run = folder.run(&format!("generate {arguments} -o out.txt"));
        assert!(run.err.contains(part), "{arguments}: {run:?}");
        run.fails(2, &[]);
    }
    assert_eq!(folder.names(), ["a.csv", "a.txt"]);
}

#[test]
fn bad_input_is_one_line_and_status_1_and_leaves_no_file() {
    let folder = Folder::new();
    std::fs::create_dir(folder.join("d")).unwrap();
    folder
        .file("a.txt", "a b\n")
        .file("bad.txt", b"a b\nc \xff\n")
        .file("cut.gz", b"\x1f\x8b\x08\0");
    let before = folder.names();
    for (arguments, parts) in [
        ("inflate nowhere.txt --times 2 -o out.txt", ["nowhere.txt", "No such file"]),
        ("dirty nowhere.txt --copies 2 -o out.txt", ["nowhere.txt", "No such file"]),
        ("inflate d --times 2 -o out.txt", ["d: ", "directory"]),
        ("dirty d --copies 2 -o out.txt", ["d: ", "directory"]),
        ("inflate bad.txt --times 1 -o out.txt", ["bad.txt: line 2", "UTF-8"]),
        ("dirty bad.txt --copies 1 -o out.txt", ["bad.txt: line 2", "UTF-8"]),
        ("inflate cut.gz --times 1 -o out.txt", ["cut.gz", "gzip"]),
        ("dirty cut.gz --copies 1 -o out.txt", ["cut.gz", "gzip"]),
        ("inflate a.txt --times 3 -o out.txt", ["a.txt", "at most 2 times"]),
        ("inflate a.txt --times 2 -o no/where.txt", ["no/where.txt", "does not exist"]),
        ("dirty a.txt --copies 2 -o d", ["d: ", "directory"]),
        ("zipf --sets 9 --universe 9 --size 3 -o no/where.txt", ["no/where.txt", "does not exist"]),
    ] {
        folder.run(&format!("generate {arguments}")).fails(1, &parts);
        assert_eq!(folder.names(), before, "{arguments}");
    }
    if std::path::Path::new("/dev/full").exists() {
        folder
            .run("generate uniform --sets 9 --universe 9 --size 3 -o /dev/full")
            .fails(1, &["/dev/full", "No space left"]);
    }
}

#[test]
fn the_run_ends_quietly_when_the_reader_of_standard_output_ends() {
    let command = "generate zipf --sets 100G --universe 1K --size 10";
    assert!(Folder::new().leave_after_a_line(command).ends_with('\n'));
}

#[test]
fn interrupts_leave_no_files() {
    let folder = Folder::new();
    let child = folder
        .command()
        .args("generate uniform --sets 100G --universe 1K --size 10 -o out.txt".split(' '))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while folder.names().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    Run::new(child.wait_with_output().unwrap()).fails(130, &["interrupted"]);
    assert!(folder.names().is_empty());
}

#[test]
fn options_of_clusters_are_refused_for_uniform_vectors() {
    let folder = Folder::new();
    let uniform = "generate vectors uniform --vectors 3 --dimension 2";
    for option in ["--spread 0.1", "--clusters 3"] {
        let part = option.split(' ').next().unwrap();
        folder.run(&format!("{uniform} {option}")).fails(2, &[part, "clusters and correlated"]);
    }
    folder
        .run("generate uniform --sets 3 --universe 9 --size 2 -o a.txt.xz")
        .fails(2, &["xz", ".gz"]);
    assert!(folder.names().is_empty());
}
