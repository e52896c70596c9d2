//! Does everything that a caller may pass end in an answer, or in an error that names what is wrong?

use simjoin::engine::{
    Control, Elements, Machine, Measure, Predicate, RawSets, Threshold, VectorCollection,
    VectorPredicate, prepare, vector_join,
};
use simjoin::{Decimal, Engine, Error, Input, Join, Result, Sets, Text, Vectors, join, self_join};
use std::ops::ControlFlow;

/// Returns the message of an error that a caller can act on.
fn message<T>(result: Result<T>) -> String {
    match result {
        Err(Error::Internal(text)) => panic!("called an internal error: {text}"),
        Err(error) => error.to_string(),
        Ok(_) => panic!("no error"),
    }
}

/// Asks a join for every answer. None may panic or be an internal error, and all agree on whether there is an error.
fn every_answer<I: Input>(join: &Join<I>) -> Result<u64> {
    let count = join.count();
    let texts = |result: Result<u64>| result.map_err(|error| error.to_string());
    let expected = texts(match &count {
        Ok(count) => Ok(*count),
        Err(Error::Internal(text)) => panic!("called an internal error: {text}"),
        Err(error) => Err(Error::Config(error.to_string())),
    });
    assert_eq!(texts(join.report().map(|report| report.pairs)), expected);
    assert_eq!(texts(join.collect().map(|pairs| pairs.len() as u64)), expected);
    let mut seen = 0;
    let each = join.each(|_| {
        seen += 1;
        ControlFlow::Continue(())
    });
    assert_eq!(texts(each.map(|_| seen)), expected);
    let pairs: Result<Vec<_>> = join.into_iter().collect();
    assert_eq!(texts(pairs.map(|pairs| pairs.len() as u64)), expected);
    assert_eq!(texts(join.explain().map(|_| 0)).is_err(), expected.is_err());
    count
}

/// Thresholds of every kind, sensible and not.
const TEXTS: [&str; 24] = [
    "abc",
    "",
    " ",
    "0",
    "-1",
    "-0.5",
    "1.1",
    "1e-9",
    "1",
    "0.5",
    ".5",
    "1/3",
    "1/0",
    "0/1",
    "-1/2",
    "1e999999999999",
    "1e-999999999999",
    "nan",
    "inf",
    "0x10",
    "5",
    "4294967296",
    "1_000",
    "½",
];

/// Asks joins by every measure. Those whose predicate can be read from the text of the threshold have answers.
fn every_measure<D: Decimal + Copy + ToString>(threshold: D) {
    let sets = Sets::new([vec![1, 2, 3], vec![1, 2], vec![9], vec![]]);
    let points = Vectors::from_rows([[0.0, 1.0], [1.0, 0.0], [5.0, 5.0]]).unwrap();
    let text = &*threshold.to_string();
    let ratio = Threshold::parse_ratio(text).is_ok();
    for (join, fits) in [
        (self_join(&sets).jaccard(threshold), ratio),
        (self_join(&sets).cosine(threshold), ratio),
        (self_join(&sets).dice(threshold), ratio),
        (self_join(&sets).containment(threshold), ratio),
        (self_join(&sets).overlap(threshold), Threshold::parse_count(text).is_ok()),
        (join(&sets, &sets).jaccard(threshold).with_itself(true), ratio),
    ] {
        assert_eq!(every_answer(&join).is_ok(), fits, "{text:?}");
    }
    for (join, fits) in [
        (self_join(&points).within(threshold), VectorPredicate::within(text).is_ok()),
        (self_join(&points).cosine(threshold), VectorPredicate::cosine(text).is_ok()),
    ] {
        assert_eq!(every_answer(&join).is_ok(), fits, "{text:?}");
    }
}

#[test]
fn any_threshold_is_an_answer_or_an_error() {
    TEXTS.into_iter().for_each(every_measure);
    for float in [f64::NAN, f64::INFINITY, -1.0, -0.0, 0.0, 1e-9, 0.1, 1.1, f64::MAX, 5e-324] {
        every_measure(float);
        every_measure(float as f32);
    }
    every_measure(u64::MAX);
    every_measure(i64::MIN);
    every_measure(0u8);
    every_measure(-1i8);
    every_measure(3usize);
    let sets = Sets::new([vec![1, 2, 3], vec![1, 2]]);
    let points = Vectors::new([0.0, 1.0], 1).unwrap();
    for (text, part) in
        [("abc", "is not a number"), ("0", "is zero"), ("-1", "is negative"), ("1.1", "is above 1")]
    {
        let said = message(self_join(&sets).jaccard(text).count());
        assert!(said.contains(part) && said.contains("such as 0.8"), "{said}");
    }
    let said = message(self_join(&points).within(-1).count());
    assert!(said.contains("is negative") && said.contains("such as 0.25"), "{said}");
    assert_eq!(self_join(&sets).jaccard("1e-9").count().unwrap(), 1);
}

#[test]
fn a_float_is_the_decimal_that_it_prints_as() {
    let sets = Sets::new([vec![1, 2, 3, 4, 5, 6, 7], (1..=10).collect()]);
    assert_eq!(self_join(&sets).jaccard(0.7f32).count().unwrap(), 1);
    assert_eq!(self_join(&sets).jaccard(0.7f64).count().unwrap(), 1);
    assert_eq!(self_join(&sets).overlap(7u64).count().unwrap(), 1);
    assert_eq!(self_join(&sets).overlap(8u64).count().unwrap(), 0);
    assert_eq!(self_join(&sets).jaccard(0.1 + 0.6).count().unwrap(), 1);
}

#[test]
fn empty_inputs_have_no_pairs() {
    let nothing = Sets::new(Vec::<Vec<String>>::new());
    let blank = Sets::new([Vec::<u32>::new(), Vec::new()]);
    let some = Sets::new([[1, 2], [1, 2]]);
    for left in [&nothing, &blank] {
        assert_eq!(every_answer(&self_join(left).jaccard(0.1)).unwrap(), 0);
        for right in [&nothing, &blank, &some] {
            for (one, other) in [(left, right), (right, left)] {
                assert_eq!(every_answer(&join(one, other).overlap(1)).unwrap(), 0);
                let both = join(one, other).cosine(1).with_itself(true);
                assert_eq!(every_answer(&both).unwrap(), u64::from(std::ptr::eq(other, &some)));
            }
        }
    }
    let text = Text::new([""; 0]);
    assert_eq!(every_answer(&self_join(&text).jaccard(0.5)).unwrap(), 0);
    let none = Vectors::new([0.0f64; 0], 2).unwrap();
    let one = Vectors::new([0.0f32, 0.0], 2).unwrap();
    assert_eq!(every_answer(&join(&none, &one).within(1)).unwrap(), 0);
    assert_eq!(every_answer(&join(&one, &none).within(1)).unwrap(), 0);
    assert_eq!(every_answer(&self_join(&one).within(1)).unwrap(), 0);
}

#[test]
fn vectors_that_are_none_are_refused() {
    for (result, part) in [
        (Vectors::new([f32::NAN], 1), "row 0 (counting from 0): element 0 is NaN"),
        (
            Vectors::new([0.0, f64::NEG_INFINITY], 1),
            "row 1 (counting from 0): element 0 is infinite",
        ),
        (Vectors::new([0.0; 3], 2), "3 numbers are not a whole number of vectors of dimension 2"),
        (Vectors::new([0.0; 3], 0), "dimension 0"),
        (Vectors::new([0.0; 3], usize::MAX), "not a whole number"),
        (Vectors::new([0.0; 0], 0), "no dimension"),
        (
            Vectors::from_rows([vec![0.5], vec![]]),
            "row 1 (counting from 0): 0 elements; expected 1",
        ),
        (Vectors::from_rows([Vec::<f32>::new()]), "dimension"),
    ] {
        let said = message(result);
        assert!(said.contains(part), "{said}");
    }
    let (two, three) = (Vectors::new([0.0; 2], 2).unwrap(), Vectors::new([0.0; 3], 3).unwrap());
    let said = message(every_answer(&join(&two, &three).within(1)));
    assert!(said.contains("dimension 3") && said.contains("have 2"), "{said}");
}

#[test]
fn settings_of_any_value_are_an_answer_or_an_error() {
    let sets = Sets::new((0..300u32).map(|row| [row / 3, 1000 + row / 2, 2000]));
    let plain = self_join(&sets).jaccard(0.5);
    let expected = plain.count().unwrap();
    assert_eq!(every_answer(&plain.clone().threads(0)).unwrap(), expected);
    assert_eq!(every_answer(&plain.clone().threads(1024)).unwrap(), expected);
    for threads in [1025, usize::MAX] {
        // Inputs are read already.
        let said = message(every_answer(&plain.clone().threads(threads)));
        assert!(said.contains("threads") && said.contains("from 1 to 1024"), "{said}");
        let said = message(simjoin::intersect(&[1], &[1]).threads(threads).size());
        assert!(said.contains("threads") && said.contains("from 1 to 1024"), "{said}");
    }
    for memory in [0, 1, 1000, u64::MAX] {
        match plain.clone().memory(memory).count() {
            Ok(count) => assert_eq!(count, expected),
            Err(error) => assert!(matches!(error, Error::Memory { .. }), "{memory}: {error}"),
        }
    }
    for technique in
        ["", " ", "magic", "bitmap:7", "bitmap+ppjoin", "ppjoin:", "+", ":", "gpu-", "é"]
    {
        match plain.clone().technique(technique).count() {
            Ok(count) => assert_eq!(count, expected),
            error => assert!(message(error).contains("technique"), "{technique}"),
        }
        assert!(
            message(simjoin::intersect(&[1], &[1]).technique(technique).size())
                .contains("technique")
        );
    }
    let hybrid = simjoin::intersect(&[1], &[1]).engine(Engine::Hybrid).size();
    assert!(message(hybrid).contains("one processor"));
    assert!(message(join(&sets, &sets).jaccard(1).groups()).contains("one input"));
}

#[test]
fn sets_that_do_not_ascend_are_named() {
    for (left, right, part) in [
        (&[2, 1][..], &[1][..], "the left set: element 1"),
        (&[1], &[3, 3], "the right set: element 1"),
    ] {
        let said = message(simjoin::intersect(left, right).size());
        assert!(said.contains(part), "{said}");
        assert_eq!(message(simjoin::intersect(left, right).elements()), said);
    }
    assert_eq!(simjoin::intersect(&[], &[]).elements().unwrap(), [0u32; 0]);
    assert_eq!(simjoin::intersect(&[0, u32::MAX], &[u32::MAX]).elements().unwrap(), [u32::MAX]);
}

fn raw(offsets: &[usize], tokens: &[u32]) -> RawSets {
    RawSets { offsets: offsets.to_vec(), tokens: tokens.to_vec() }
}

#[test]
fn broken_promises_of_raw_sets_name_the_row() {
    for (sets, universe, part) in [
        (raw(&[0, 2, 3], &[0, 1, 7]), 7, "row 1 (counting from 0): token 7 is not below 7"),
        (raw(&[0, 1], &[0]), 0, "row 0 (counting from 0): token 0 is not below 0"),
        (raw(&[0, 1, 4], &[0, 2, 1, 2]), 3, "row 1"),
        (raw(&[], &[]), 3, "offsets"),
        (raw(&[0], &[1]), 3, "offsets"),
        (raw(&[1, 1], &[0]), 3, "offsets"),
        (raw(&[0, 2, 1, 3], &[0, 1, 2]), 3, "offsets"),
        (raw(&[0, usize::MAX], &[0]), 3, "offsets"),
        (raw(&[0, 1], &[0]), usize::MAX, "distinct tokens"),
    ] {
        let said = message(prepare(sets.clone(), None, universe));
        assert!(said.contains(part), "{said}");
        let said = message(prepare(RawSets::default(), Some(sets), universe));
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn collections_that_do_not_belong_together_are_refused() {
    let sets = |rows: &[&[u32]], universe| {
        let mut raw = RawSets::default();
        rows.iter().for_each(|row| raw.push(row));
        prepare(raw, None, universe).unwrap().0
    };
    let small = sets(&[&[0, 1], &[1, 2]], 3);
    let large = sets(&[&[0, 1, 900], &[998, 999], &[5, 6, 7, 8]], 1000);
    for technique in
        ["auto", "bitmap", "prefix-bitmap", "ppjoin", "skip-join", "mmjoin", "dense", "naive"]
    {
        for (left, right) in [(&small, &large), (&large, &small)] {
            let predicate = Predicate::parse(Measure::Jaccard, "0.2").unwrap();
            let join = simjoin::engine::join(predicate).technique(technique);
            let said = message(join.count(left, Some(right), &Control::default()));
            assert!(said.contains("number tokens differently"), "{technique}: {said}");
        }
    }
    let positive = simjoin::engine::overlaps(simjoin::engine::WantedOverlaps::Positive);
    let said = message(positive.count(&small, Some(&large), &Control::default()));
    assert!(said.contains("number tokens differently"), "{said}");
    let nothing = Default::default();
    assert_eq!(positive.count(&small, Some(&nothing), &Control::default()).unwrap().pairs, 0);
    let vectors = |elements| VectorCollection::new("rows", 1, elements).unwrap();
    let (narrow, wide) = (vectors(Elements::F32(vec![0.5])), vectors(Elements::F64(vec![0.5])));
    let within = vector_join(VectorPredicate::within("1").unwrap());
    let said = message(within.count(&narrow, Some(&wide), &Control::default()));
    assert!(said.contains("different precision"), "{said}");
}

#[test]
fn machines_of_any_speed_plan() {
    let sets = prepare(raw(&[0, 2, 4], &[0, 1, 1, 0]), None, 2).unwrap().0;
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, f64::MAX] {
        let join = simjoin::engine::join(Predicate::parse(Measure::Jaccard, "1").unwrap());
        let join = join.machine(Machine::fixed().scaled(factor));
        assert_eq!(join.count(&sets, None, &Control::default()).unwrap().pairs, 1, "{factor}");
    }
    assert!(message(Machine::fixed().simulating("speed=fast")).contains("speed=fast"));
}

#[cfg(feature = "io")]
mod files {
    use super::*;
    use simjoin::{Format, VectorFormat};

    #[test]
    fn what_is_not_in_a_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let table = write("table.csv", b"key,title\nk1,the sea\nk2,emma\n");
        let points = write("points.csv", b"key,x,y\na,0,0\nb,0,1\n");
        let none = folder.path().join("none.csv");
        for (text, part) in [
            (Text::from_file(&table).column("name"), "no column `name`; the columns are"),
            (Text::from_file(&table).column("title").id("isbn"), "no column `isbn`"),
            (Text::from_file(&table), "column"),
            (Text::from_file(&none).column("title"), "none.csv"),
            (Text::from_file(folder.path()), "directory"),
            (Text::from_file(""), ""),
            (Text::from_file(&table).column("title").format(Format::Parquet), "table.csv"),
            (Text::from_file(&table).column("title").format(Format::Jsonl), "table.csv"),
            (Text::from_file(write("bad.txt", b"\xff\xfe\n")), "UTF-8"),
            (Text::new(["a"]).id("key"), "in memory"),
        ] {
            let said = message(every_answer(&self_join(&text).jaccard(0.5)));
            assert!(said.contains(part), "{said}");
        }
        for (rows, part) in [
            (Vectors::from_file(&points).column("z"), "no column `z`"),
            (Vectors::from_file(&points).id("isbn"), "no column `isbn`"),
            (Vectors::from_file(&points), "`a`"),
            (Vectors::from_file(&none), "none.csv"),
            (Vectors::from_file(folder.path().join("none")), "format"),
            (Vectors::from_file(&points).format(VectorFormat::Npy), "not an npy file"),
            (Vectors::from_file(&points).format(VectorFormat::Fvecs), "dimension"),
            (Vectors::from_file(write("ragged.csv", b"0,0.5\n1\n")), "line 2"),
            (Vectors::from_file(write("nan.csv", b"0,0.5\n1,nan\n")), "element 1 is NaN"),
            (Vectors::from_file(write("empty.csv", b"")), "empty"),
        ] {
            let said = message(every_answer(&self_join(&rows).within(1)));
            assert!(said.contains(part), "{said}");
        }
        let memory = self_join(&Sets::new([[1]])).jaccard(1);
        for (path, part) in [("", "ending"), ("pairs", "ending"), ("no/such/folder.tsv", "no/such")]
        {
            let said = message(memory.write(path));
            assert!(said.contains(part), "{said}");
        }
        // A row that is not there has no id.
        let ids = self_join(&Text::from_file(&table).column("title").id("key")).jaccard(1);
        assert_eq!(ids.count().unwrap(), 0);
        assert_eq!(ids.id(simjoin::Side::Right, u32::MAX), None);
    }
}
