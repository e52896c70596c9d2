//! Does the page of `--report` show the real figures of the run?

mod common;
use common::{Folder, Run};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the data of a page.
fn data(folder: &Folder, name: &str) -> Value {
    let page = std::fs::read_to_string(folder.join(name)).unwrap();
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    let (data, rest) = rest.split_once("</script>").unwrap();
    // Exactly one more script follows, so no token ended the data early.
    assert_eq!(rest.matches("<script").count(), 1);
    assert!(rest.ends_with("</script>\n</body>\n</html>\n"));
    serde_json::from_str(data).unwrap()
}

/// Returns sets: many are similar, and some are repeated or empty.
fn sets(count: u32) -> String {
    let mut text = String::new();
    for row in 0..count {
        let seed = row % (count / 5);
        let tokens = (0..seed % 24).map(|at| {
            let at = if at == row % 7 { at + 1000 } else { at };
            (seed.wrapping_mul(2_654_435_761) >> 9).wrapping_mul(at + 1) % (40 + 9 * at)
        });
        text += &tokens.map(|token| token.to_string()).collect::<Vec<_>>().join(" ");
        text += "\n";
    }
    text
}

/// Pairs by the input of the left row, the left row and the right row, with overlap and similarity.
type Found = BTreeMap<(String, u64, u64), (u64, f64)>;

fn found(tsv: &str) -> Found {
    let mut found = Found::new();
    for line in tsv.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let side = fields.get(4).copied().unwrap_or("left").to_string();
        let key = (side, fields[0].parse().unwrap(), fields[1].parse().unwrap());
        found.insert(key, (fields[2].parse().unwrap(), fields[3].parse().unwrap()));
    }
    found
}

fn stage(data: &Value, name: &str) -> u64 {
    let stages = data["funnel"].as_array().unwrap();
    stages.iter().find(|stage| stage["name"] == name).unwrap()["pairs"].as_u64().unwrap()
}

fn sum(bars: &Value) -> u64 {
    bars.as_array().unwrap().iter().map(|bar| bar["count"].as_u64().unwrap()).sum()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_string()).collect()
}

/// Returns the tokens of a record that are shown, and those that are marked.
fn tokens(record: &Value) -> (BTreeSet<String>, BTreeSet<String>) {
    let all = strings(&record["tokens"]);
    let shared = record["shared"].as_array().unwrap().iter();
    let shared = shared.map(|at| all[at.as_u64().unwrap() as usize].clone()).collect();
    (all.into_iter().collect(), shared)
}

/// Runs a join on an engine. A simulated device is named on standard error.
fn run(folder: &Folder, engine: &str, arguments: &str) -> Run {
    let device = [("SIMJOIN_SIMULATED_GPU", "speed=3")];
    let variables: &[_] = if engine == "cpu" { &[] } else { &device };
    let run = folder.run_in(&format!("{arguments} --engine {engine}"), b"", variables);
    assert_eq!(run.status, 0, "{engine} {arguments}: {run:?}");
    run
}

/// A run, and the expected figures.
#[derive(Clone, Copy)]
struct Case<'a> {
    what: &'a str,
    join: &'a str,
    /// The records of both files.
    inputs: [&'a [BTreeSet<String>]; 2],
    expected: &'a Found,
    data: &'a Value,
    stats: &'a Value,
}

/// Checks the number of pairs after each stage.
fn check_funnel(case: &Case<'_>) {
    let Case { what, join, expected, data, stats, inputs: [a, b], .. } = *case;
    let two = join.contains("b.txt");
    let records = a.len() as u64;
    let all = match (two, join.contains("itself")) {
        (false, _) => records * (records - 1) / 2,
        (true, false) => records * b.len() as u64,
        (true, true) => {
            let right = b.len() as u64;
            records * right + right * (right - 1) / 2
        }
    };
    assert_eq!(stage(data, "pairs of records"), all, "{what}");
    assert_eq!(stage(data, "candidates"), stats["candidates"], "{what}");
    assert_eq!(stage(data, "results"), expected.len() as u64);
    let distinct = stage(data, "pairs of distinct sets");
    let by_length = stage(data, "left by length");
    assert!(all >= distinct && distinct >= by_length, "{what}: {}", data["funnel"]);
    assert!(by_length >= stage(data, "similar pairs of distinct sets"), "{what}");
    assert_eq!(data["funnel"][0]["shown"].as_str().unwrap().replace(',', ""), all.to_string());
}

/// Checks the bars of similarities.
fn check_histogram(case: &Case<'_>) {
    let Case { what, join, expected, data, .. } = *case;
    assert_eq!(sum(&data["histogram"]["bins"]), expected.len() as u64, "{what}");
    for bin in data["histogram"]["bins"].as_array().unwrap() {
        let (from, to) = (bin["from"].as_f64().unwrap(), bin["to"].as_f64().unwrap());
        let last = from == to || join.contains("overlap");
        let inside = |value: f64| from <= value && (value < to || last && value <= to);
        let count = expected.values().filter(|(_, value)| inside(*value)).count() as u64;
        assert_eq!(bin["count"], count, "{what}: {bin}");
    }
}

/// Checks the pairs that are shown.
fn check_sample(case: &Case<'_>) {
    let Case { join, what, expected, data, inputs: [a, b], .. } = *case;
    let two = join.contains("b.txt");
    let sample = data["sample"]["pairs"].as_array().unwrap();
    assert!(!sample.is_empty() && sample.len() <= 500);
    for pair in sample {
        let within = pair["within_right"].as_bool().unwrap();
        let key = |side: &str| pair[side]["key"].as_str().unwrap().parse::<u64>().unwrap();
        let (left, right) = (key("left"), key("right"));
        let side = if within { "right" } else { "left" };
        let (overlap, value) = expected[&(side.to_string(), left, right)];
        assert_eq!(pair["overlap"], overlap);
        assert_eq!(pair["value"], value, "{what}");
        let (one, other) = match (two, within) {
            (false, _) => (&a[left as usize], &a[right as usize]),
            (true, false) => (&a[left as usize], &b[right as usize]),
            (true, true) => (&b[left as usize], &b[right as usize]),
        };
        let common: BTreeSet<String> = one.intersection(other).cloned().collect();
        assert_eq!(tokens(&pair["left"]), (one.clone(), common.clone()), "{what}");
        assert_eq!(tokens(&pair["right"]), (other.clone(), common), "{what}");
    }
}

/// Checks sizes, frequencies and groups.
fn check_shapes(case: &Case<'_>) {
    let Case { join, expected, data, stats, inputs: [a, b], .. } = *case;
    let two = join.contains("b.txt");
    let full = |rows: &[BTreeSet<String>]| rows.iter().filter(|row| !row.is_empty()).count() as u64;
    assert_eq!(sum(&data["sizes"][0]["bins"]), full(a));
    let both = || a.iter().chain(if two { b } else { &[] });
    let occurrences: usize = both().map(BTreeSet::len).sum();
    assert_eq!(data["frequencies"]["occurrences"], occurrences);
    assert_eq!(data["frequencies"]["tokens"], stats["universe"]);
    for named in data["frequencies"]["named"].as_array().unwrap() {
        let token = named[0].as_str().unwrap();
        assert_eq!(named[1], both().filter(|row| row.contains(token)).count());
    }
    if two {
        assert_eq!(sum(&data["sizes"][1]["bins"]), full(b));
        assert!(data["groups"].is_null());
    } else {
        let groups = &data["groups"];
        assert_eq!(sum(&groups["bins"]), groups["groups"].as_u64().unwrap());
        let rows = groups["rows"].as_u64().unwrap() + groups["alone"].as_u64().unwrap();
        assert_eq!(rows, a.len() as u64);
        let partners: BTreeSet<u64> =
            expected.keys().flat_map(|(_, left, right)| [*left, *right]).collect();
        assert_eq!(groups["rows"], partners.len());
    }
}

#[test]
fn page_shows_the_figures_of_the_run_for_every_answer_and_engine() {
    let folder = Folder::new();
    let (a, b) = (sets(1500), sets(400));
    folder.file("a.txt", &a).file("b.txt", &b);
    let rows = |text: &str| -> Vec<BTreeSet<String>> {
        text.lines().map(|line| line.split_whitespace().map(str::to_string).collect()).collect()
    };
    let (a, b) = (rows(&a), rows(&b));
    for (join, answers) in [
        ("sets a.txt --jaccard 0.8", "-o out.tsv,--count,--groups -o out.tsv"),
        ("sets a.txt --overlap 6", "-o out.tsv,--count"),
        ("sets a.txt b.txt --cosine 0.7", "-o out.tsv,--count"),
        ("sets a.txt b.txt --dice 0.9 --with-itself", "-o out.tsv,--count"),
        ("sets a.txt --containment 1", "--count,--groups"),
        ("sets a.txt --jaccard 0.6 --memory 2M", "--count"),
    ] {
        let plain = folder.run(&format!("{join} --engine cpu")).ok();
        let expected = found(&plain);
        let mut first: Option<(Value, Value, Value)> = None;
        for answer in answers.split(',') {
            for engine in ["cpu", "gpu", "hybrid --split 0.5", "hybrid --split queue"] {
                let more = "--report r.html --stats s.json --threads 2";
                let what = format!("{join} {answer} on {engine}");
                run(&folder, engine, &format!("{join} {answer} {more}"));
                let stats = std::fs::read_to_string(folder.join("s.json")).unwrap();
                let stats: Value = serde_json::from_str(&stats).unwrap();
                let data = data(&folder, "r.html");
                let pairs = expected.len() as u64;
                assert_eq!(data["pairs"], pairs, "{what}");
                assert_eq!(data["pairs"], stats["pairs"]);
                for name in ["engine", "technique", "threads", "warnings"] {
                    assert_eq!(data[name], stats[name], "{what}: {name}");
                }
                assert_eq!(data["seconds"], stats["seconds"]);

                let case = Case {
                    what: &what,
                    join,
                    inputs: [&a, &b],
                    expected: &expected,
                    data: &data,
                    stats: &stats,
                };
                check_funnel(&case);
                check_histogram(&case);
                check_sample(&case);
                check_shapes(&case);

                // Plan and timeline.
                assert!(!data["plan"]["parts"].as_array().unwrap().is_empty());
                assert!(!data["plan"]["ran"].as_array().unwrap().is_empty());
                let rows = data["timeline"]["rows"].as_array().unwrap();
                assert!(!rows.is_empty());
                let on_device = rows.iter().any(|row| row["on_device"] == true);
                assert!(!on_device || engine != "cpu", "{what}");
                if engine == "gpu" {
                    assert!(
                        on_device && data["devices"][0].as_str().unwrap().contains("simulated")
                    );
                }

                // These figures are the same on every engine.
                let same =
                    (data["histogram"].clone(), data["sample"].clone(), data["groups"].clone());
                assert_eq!(first.get_or_insert_with(|| same.clone()), &same, "{what}");
            }
        }
    }
}

#[test]
fn the_answer_is_the_same_with_a_report() {
    let folder = Folder::new();
    folder.file("a.txt", sets(600));
    for join in [
        "sets a.txt --jaccard 0.7",
        "sets a.txt --jaccard 0.7 --groups",
        "sets a.txt --dice 0.8 --count",
    ] {
        let join = format!("{join} --engine cpu --technique prefix-bitmap");
        let plain = folder.run(&join).ok();
        assert_eq!(folder.run(&format!("{join} --report r.html")).ok(), plain);
        assert_eq!(folder.run(&format!("{join} --report r.html --threads 1")).ok(), plain);
    }
}

#[test]
fn tokens_cannot_inject_code_into_the_page() {
    let folder = Folder::new();
    let evil = [
        "</script>",
        "<script>alert(1)</script>",
        "<!--",
        "\"quoted\"",
        "it's",
        "back\\slash",
        "&amp;",
        "🙂👩‍👩‍👧",
        "\u{1}\u{7f}",
        "\u{202e}txt.exe",
        "{{data}}",
        "${1+1}`",
    ];
    let line = evil.join(" ");
    folder.file("a.txt", format!("{line}\n{line} more\n\0 x\n\0 x y\n"));
    folder.run("sets a.txt --jaccard 0.6 --report r.html --count").ok();
    let page = std::fs::read_to_string(folder.join("r.html")).unwrap();
    assert!(
        !page.contains("<script>alert(1)") && !page.contains('\0') && !page.contains('\u{202e}')
    );
    let data = data(&folder, "r.html");
    let pairs = data["sample"]["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 2);
    let long = &pairs[1];
    assert_eq!(strings(&long["left"]["tokens"]), evil);
    assert_eq!(long["left"]["shared"].as_array().unwrap().len(), evil.len());
    assert_eq!(strings(&long["right"]["tokens"])[..evil.len()], evil);
    assert_eq!(strings(&pairs[0]["left"]["tokens"]), ["\0", "x"]);

    // Ids, and the command itself.
    folder.file("a.csv", "id,t\n</script><b>,a b c d\n\"\u{1}\",a b c d e\n");
    folder
        .run("sets a.csv --column t --id id --jaccard 0.8 --report </script>.html --count")
        .fails(1, &["does not exist"]);
    folder.run("sets a.csv --column t --id id --jaccard 0.8 --report <script>.html --count").ok();
    let data = self::data(&folder, "<script>.html");
    assert_eq!(data["sample"]["pairs"][0]["left"]["key"], "</script><b>");
    assert_eq!(data["sample"]["pairs"][0]["right"]["key"], "\u{1}");
    assert_eq!(data["groups"]["largest"][0][0], "</script><b>");
    assert!(data["command"].as_str().unwrap().contains("--report '<script>.html'"));
}

#[test]
fn long_records_are_shortened_and_repeated_tokens_numbered() {
    let folder = Folder::new();
    let many: Vec<String> = (0..1000).map(|token| format!("token{token}")).collect();
    let line = many.join(" ");
    let word = "é".repeat(500);
    folder.file("a.txt", format!("{line}\n{line} z\n{word} b b b\n{word} b b b c\n"));
    folder.run("sets a.txt --multiset --jaccard 0.8 --report r.html --count").ok();
    let data = data(&folder, "r.html");
    let pairs = data["sample"]["pairs"].as_array().unwrap();
    let (short, long) = (&pairs[0], &pairs[1]);
    assert_eq!((&long["left"]["size"], &long["overlap"]), (&1000.into(), &1000.into()));
    assert_eq!(long["left"]["tokens"].as_array().unwrap().len(), 150);
    let shown = strings(&short["left"]["tokens"]);
    assert_eq!(shown, [format!("{}…", "é".repeat(80)), "b".into(), "b (2)".into(), "b (3)".into()]);
    assert!(std::fs::metadata(folder.join("r.html")).unwrap().len() < 200_000);
}

#[test]
fn text_is_shown_as_tokens() {
    let folder = Folder::new();
    folder.file("a.txt", "The quick, brown fox\nthe QUICK brown foxes\n");
    folder.run("text a.txt --jaccard 0.6 --report r.html --count").ok();
    let words = data(&folder, "r.html");
    let pair = &words["sample"]["pairs"][0];
    assert_eq!(strings(&pair["right"]["tokens"]), ["the", "quick", "brown", "foxes"]);
    assert_eq!(pair["right"]["shared"], serde_json::json!([0, 1, 2]));
    assert_eq!((&words["kind"], &words["tokens"]), (&"text".into(), &"words".into()));
    assert_eq!(words["histogram"]["on_threshold"], 1);
    // Standard input can only be read once, but its tokens are shown too.
    let input = b"abc\nabd\n";
    folder.run_with("text - --tokens qgrams:2 --overlap 2 --report r.html --count", input).ok();
    let grams = data(&folder, "r.html");
    let pair = &grams["sample"]["pairs"][0];
    assert_eq!(strings(&pair["left"]["tokens"]), ["$a", "ab", "bc", "c$"]);
    assert_eq!(pair["left"]["shared"], serde_json::json!([0, 1]));
}

#[test]
fn pairs_of_vectors_are_shown_with_their_distance() {
    let folder = Folder::new();
    let rows = |seed: u32, count: u32| -> String {
        let number = |at: u32| (at.wrapping_mul(2_654_435_761) ^ seed) >> 22;
        (0..count).map(|row| format!("{},{}.5\n", number(2 * row), number(2 * row + 1))).collect()
    };
    folder
        .file("a.csv", format!("x,y\n{}", rows(1, 900)))
        .file("b.csv", format!("x,y\n{}", rows(2, 300)));
    for join in [
        "vectors a.csv --within 20",
        "vectors a.csv b.csv --within 20",
        "vectors a.csv --cosine 0.9999",
    ] {
        let plain = folder.run(join).ok();
        let mut expected = BTreeMap::new();
        for line in plain.lines().skip(1) {
            let fields: Vec<&str> = line.split('\t').collect();
            expected.insert((fields[0], fields[1]), fields[2].parse::<f64>().unwrap());
        }
        let mut first: Option<Value> = None;
        let answers = ["-o out.tsv", "--count", "--groups"];
        for answer in &answers[..if join.contains("b.csv") { 2 } else { 3 }] {
            for technique in ["quantile", "grid", "nested-loop"] {
                let more =
                    format!("{answer} --technique {technique} --report r.html --stats s.json");
                let run = folder.run(&format!("{join} {more}"));
                assert_eq!(run.status, 0, "{run:?}");
                let stats = std::fs::read_to_string(folder.join("s.json")).unwrap();
                let stats: Value = serde_json::from_str(&stats).unwrap();
                let data = data(&folder, "r.html");
                assert_eq!(data["pairs"], expected.len());
                assert_eq!(sum(&data["histogram"]["bins"]), expected.len() as u64);
                assert_eq!(stage(&data, "candidates"), stats["candidates"]);
                assert_eq!(stage(&data, "results"), stats["pairs"]);
                assert_eq!(sum(&data["sizes"][0]["bins"]), 900);
                for pair in data["sample"]["pairs"].as_array().unwrap() {
                    let key = |side: &str| pair[side]["key"].as_str().unwrap();
                    assert_eq!(pair["value"], expected[&(key("left"), key("right"))]);
                }
                assert!(!data["timeline"]["rows"].as_array().unwrap().is_empty());
                let sample = data["sample"].clone();
                assert_eq!(first.get_or_insert_with(|| sample.clone()), &sample, "{join} {more}");
            }
        }
    }
}

#[test]
fn page_of_vectors_names_engine_devices_and_warnings() {
    let folder = Folder::new();
    folder.run("generate vectors uniform --vectors 600 --dimension 4 -o v.npy").ok();
    let shown = |device: &str, engine: &str| {
        let join = "vectors v.npy --within 0.2 --count --report r.html --stats s.json --engine";
        let variables = [("SIMJOIN_SIMULATED_GPU", device)];
        let run = folder.run_in(&format!("{join} {engine}"), b"", &variables);
        assert_eq!(run.status, 0, "{run:?}");
        let stats = std::fs::read_to_string(folder.join("s.json")).unwrap();
        let stats: Value = serde_json::from_str(&stats).unwrap();
        let data = data(&folder, "r.html");
        for name in ["engine", "technique", "threads", "warnings"] {
            assert_eq!(data[name], stats[name], "{engine}: {name}");
        }
        data
    };
    let data = shown("speed=2", "cpu");
    assert_eq!((&data["engine"], strings(&data["devices"]).len()), (&"cpu".into(), 0));
    let data = shown("speed=2", "gpu");
    assert_eq!(data["engine"], "gpu");
    assert!(data["devices"][0].as_str().unwrap().contains("simulated"), "{}", data["devices"]);
    assert_eq!(strings(&data["warnings"]).len(), 0);
    let data = shown("speed=2,fail=@1", "gpu");
    assert!(data["warnings"][0].as_str().unwrap().contains("failed"), "{}", data["warnings"]);
}

#[test]
fn run_without_results_has_a_page_and_failed_run_has_none() {
    let folder = Folder::new();
    folder.file("a.txt", "a b\nc d\n\n").file("empty.txt", "").file("bad.txt", b"a\n\xff\n");
    folder.file("c.txt", "a b c\na b c d\n");
    folder.file("one.csv", "1,2\n");
    folder.run("sets a.txt --jaccard 0.5 --report r.html").ok();
    let data = data(&folder, "r.html");
    assert_eq!((&data["pairs"], sum(&data["histogram"]["bins"])), (&0.into(), 0));
    assert_eq!(data["sample"]["pairs"], serde_json::json!([]));
    assert_eq!((&data["groups"]["groups"], &data["groups"]["alone"]), (&0.into(), &3.into()));
    // No sets can match.
    folder.run("sets a.txt --overlap 9 --report r.html").ok();
    folder.run("vectors one.csv --within 0 --report v.html").ok();
    assert_eq!(self::data(&folder, "v.html")["pairs"], 0);

    let before = std::fs::read(folder.join("r.html")).unwrap();
    let names = folder.names();
    folder.run("sets empty.txt --jaccard 0.5 --report r.html").fails(1, &["empty.txt", "empty"]);
    folder.run("sets bad.txt --jaccard 0.5 --report r.html").fails(1, &["bad.txt", "line 2"]);
    folder.run("sets a.txt --jaccard 2 --report r.html").fails(2, &["above 1"]);
    folder
        .run("sets a.txt --jaccard 0.5 --report no/r.html -o o.tsv")
        .fails(1, &["no/r.html", "does not exist"]);
    folder
        .run("sets a.txt --jaccard 0.5 --report r.html -o no/o.tsv")
        .fails(1, &["no/o.tsv", "does not exist"]);
    folder.run("vectors bad.txt --within 1 --format csv --report r.html").fails(1, &["bad.txt"]);
    folder.run("sets c.txt --jaccard 0.5 --memory 100K --report r.html").fails(1, &["memory"]);
    assert_eq!(folder.names(), names);
    assert_eq!(std::fs::read(folder.join("r.html")).unwrap(), before);
}
