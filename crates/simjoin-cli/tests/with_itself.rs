//! Does `--with-itself` join new records with old ones and with each other?

mod common;
use common::Folder;

const OLD: &str = "milk bread butter\nmilk bread butter\nbeer\nmilk bread butter jam\n";
const NEW: &str = "wine\nbread milk butter\nbeer crisps\nbutter bread milk\n";

fn folder() -> Folder {
    let folder = Folder::new();
    folder.file("old.txt", OLD).file("new.txt", NEW);
    let table = |rows: &str, prefix: &str| {
        let lines = (0..).zip(rows.lines()).map(|(row, line)| format!("{prefix}{row},{line}\n"));
        format!("key,items\n{}", lines.collect::<String>())
    };
    folder.file("old.csv", table(OLD, "o")).file("new.csv", table(NEW, "n"));
    folder
}

fn sorted(lines: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = lines.lines().skip(1).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn new_rows_meet_old_ones_and_each_other() {
    let folder = folder();
    for command in ["sets", "text"] {
        let out = folder.run(&format!("{command} old.txt new.txt --with-itself --jaccard 1")).ok();
        assert!(out.starts_with("left\tright\toverlap\tsimilarity\tleft_input\n"), "{out}");
        assert_eq!(
            sorted(&out),
            [
                "0\t1\t3\t1\tleft",
                "0\t3\t3\t1\tleft",
                "1\t1\t3\t1\tleft",
                "1\t3\t3\t1\tleft",
                "1\t3\t3\t1\tright"
            ]
        );
        let without = folder.run(&format!("{command} old.txt new.txt --jaccard 1")).ok();
        assert_eq!(without.lines().next(), Some("left\tright\toverlap\tsimilarity"));
        assert_eq!(sorted(&without), ["0\t1\t3\t1", "0\t3\t3\t1", "1\t1\t3\t1", "1\t3\t3\t1"]);
    }
}

#[test]
fn every_technique_counts_what_is_written() {
    let folder = folder();
    let command = "sets old.txt new.txt --with-itself --jaccard 0.5";
    let pairs = folder.run(command).ok().lines().count() - 1;
    // Four pairs of equal rows, two with the row of four tokens, one within the new rows, and one with beer.
    assert_eq!(pairs, 2 * 2 + 2 + 1 + 1);
    for technique in
        ["auto", "prefix-bitmap", "bitmap", "ppjoin", "group-join", "all-pairs", "naive"]
    {
        for threads in 1..3 {
            let how = format!("--technique {technique} --threads {threads} --stats s.json");
            let count = folder.run(&format!("{command} --count {how}")).ok();
            assert_eq!(count, format!("{pairs}\n"), "{how}");
            let stats = std::fs::read_to_string(folder.join("s.json")).unwrap();
            let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
            assert_eq!(stats["pairs"], pairs);
        }
    }
}

#[test]
fn every_format_names_the_input_of_the_left_row() {
    let folder = folder();
    let command = "sets old.csv new.csv --column items --id key --with-itself --jaccard 1";
    let wanted = [
        ["n1", "n3", "3", "1", "right"],
        ["o0", "n1", "3", "1", "left"],
        ["o0", "n3", "3", "1", "left"],
        ["o1", "n1", "3", "1", "left"],
        ["o1", "n3", "3", "1", "left"],
    ];
    for (name, delimiter) in [("o.tsv", "\t"), ("o.csv", ",")] {
        assert_eq!(folder.run(&format!("{command} -o {name}")).ok(), "");
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let header = ["left", "right", "overlap", "similarity", "left_input"].join(delimiter);
        assert_eq!(text.lines().next(), Some(header.as_str()));
        assert_eq!(sorted(&text), wanted.map(|row| row.join(delimiter)));
    }
    folder.run(&format!("{command} -o o.jsonl")).ok();
    let text = std::fs::read_to_string(folder.join("o.jsonl")).unwrap();
    let mut rows: Vec<[String; 3]> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|row| ["left", "right", "left_input"].map(|key| row[key].as_str().unwrap().to_owned()))
        .collect();
    rows.sort();
    assert_eq!(rows, wanted.map(|row| [row[0], row[1], row[4]].map(str::to_owned)));
    // The program itself reads the columns back: the values that an input of one row shares with
    // the column, row by row.
    for name in ["o.parquet", "o.arrow"] {
        folder.run(&format!("{command} -o {name}")).ok();
        for (column, value, rows) in [
            ("left_input", "right", 1),
            ("left_input", "left", 4),
            ("left", "n1", 1),
            ("left", "o1", 2),
        ] {
            folder.file("value.jsonl", format!("{{\"{column}\":\"{value}\"}}\n"));
            let count = folder
                .run(&format!("sets {name} value.jsonl --column {column} --jaccard 1 --count"))
                .ok();
            assert_eq!(count, format!("{rows}\n"), "{name} {column} {value}");
        }
    }
}

#[test]
fn the_output_is_the_same_to_the_byte_with_any_number_of_threads() {
    let folder = Folder::new();
    let rows = |from: u32, to: u32| -> String {
        (from..to)
            .map(|row| {
                let tokens: Vec<String> =
                    (0..5 + row % 7).map(|at| (row / 3 * 17 % 900 + at).to_string()).collect();
                tokens.join(" ") + "\n"
            })
            .collect()
    };
    folder.file("old.txt", rows(0, 3000)).file("new.txt", rows(2500, 4500));
    let command = "sets old.txt new.txt --with-itself --jaccard 0.6 --threads";
    let one = folder.run(&format!("{command} 1")).ok();
    let within = one.lines().filter(|line| line.ends_with("\tright")).count();
    assert!(within > 3000 && one.lines().count() > 2 * within, "{within}");
    for threads in [2, 3, 8] {
        assert_eq!(one, folder.run(&format!("{command} {threads}")).ok());
    }
}

#[test]
fn help_explains_with_itself() {
    for command in ["sets", "text"] {
        let help = Folder::new().run(&format!("{command} --help")).ok();
        let words: Vec<&str> = help.split_whitespace().collect();
        let help = words.join(" ");
        assert!(help.contains("--with-itself Also join RIGHT with itself"), "{help}");
        assert!(help.contains("also right with right"), "{help}");
    }
}
