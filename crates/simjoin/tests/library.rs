//! Does the library do what its users expect?

use simjoin::{
    Decimal, Engine, Error, Input, Join, Pair, Result, Sets, Side, Text, Tokenizer, Vectors, join,
    self_join,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::rc::Rc;

/// Sets of which many pairs are similar.
fn many() -> Sets {
    Sets::new((0..3000u32).map(|row| [row / 10, row / 10 + 1, 7, row % 3]))
}

fn keys(pairs: &[Pair]) -> Vec<(u32, u32)> {
    let mut keys: Vec<_> = pairs.iter().map(|pair| (pair.left, pair.right)).collect();
    keys.sort_unstable();
    keys
}

fn message<T>(result: Result<T>) -> String {
    match result {
        Err(Error::Internal(text)) => panic!("called an internal error: {text}"),
        Err(error) => error.to_string(),
        Ok(_) => panic!("no error"),
    }
}

#[test]
fn tokens_of_any_kind_are_the_same_sets() {
    let expected =
        keys(&self_join(&Sets::new([[1, 2, 3], [3, 2, 1]])).jaccard(1).collect().unwrap());
    assert_eq!(expected, [(0, 1)]);
    let numbers = vec![vec![1u64, 2, 3], vec![3, 2, 1]];
    let strings = [vec!["1", "2", "3"], vec!["3", "2", "1"]];
    for sets in [
        Sets::new(&numbers),
        Sets::new(numbers.clone()),
        Sets::new(numbers.iter().map(|row| row.iter().map(|&token| token as i8))),
        Sets::new(&strings),
        Sets::new(strings.iter().map(|row| row.iter().map(ToString::to_string))),
        Sets::new(["1 2 3", "3 2 1"].map(str::split_whitespace)),
    ] {
        assert_eq!(keys(&self_join(&sets).jaccard(1).collect().unwrap()), expected);
        assert_eq!(join(&sets, &Sets::new(&numbers)).jaccard(1).count().unwrap(), 4);
    }
    let owned = vec![String::from("a b"), String::from("B a")];
    for text in [Text::new(&owned), Text::new(owned.clone()), Text::new("a b\nB a".lines())] {
        assert_eq!(self_join(&text).jaccard(1).count().unwrap(), 1);
    }
}

#[test]
fn repeated_tokens_count_if_that_is_wanted() {
    let sets = Sets::new([vec!["a", "a", "b"], vec!["a", "b"]]);
    assert_eq!(self_join(&sets).jaccard(1).count().unwrap(), 1);
    assert_eq!(self_join(&sets.clone().multiset(true)).jaccard(1).count().unwrap(), 0);
    assert_eq!(self_join(&sets.multiset(true)).jaccard("2/3").count().unwrap(), 1);
}

#[test]
fn thresholds_are_exact_whether_number_or_text() {
    let sets = Sets::new([vec![1, 2, 3, 4, 5], vec![1, 2, 3, 4]]);
    fn count(sets: &Sets, threshold: impl Decimal) -> u64 {
        self_join(sets).jaccard(threshold).count().unwrap()
    }
    assert_eq!([count(&sets, 0.8), count(&sets, 0.8f32), count(&sets, "0.8")], [1; 3]);
    assert_eq!([count(&sets, "4/5"), count(&sets, String::from(".8"))], [1; 2]);
    assert_eq!([count(&sets, 0.800_000_1), count(&sets, 1), count(&sets, 1u8)], [0; 3]);
    assert_eq!(self_join(&sets).overlap(4).count().unwrap(), 1);
    assert_eq!(self_join(&sets).overlap(4.0).count().unwrap(), 1);
    assert_eq!(self_join(&sets).overlap(5u64).count().unwrap(), 0);
    assert_eq!(self_join(&sets).dice(0.8).count().unwrap(), 1);
    assert_eq!(self_join(&sets).cosine(0.9).count().unwrap(), 0);
    let points = Vectors::new([0.0, 0.1, 0.30000000000000004], 1).unwrap();
    assert_eq!(self_join(&points).within(0.1).count().unwrap(), 1);
    let axes = Vectors::from_rows([[1.0f32, 0.0], [2.0, 0.0], [0.0, 1.0]]).unwrap();
    assert_eq!(self_join(&axes).cosine(1).count().unwrap(), 1);
}

#[test]
fn what_is_no_threshold_is_an_error() {
    let sets = Sets::new([[1, 2]]);
    let of = |join: Join<Sets>| message(join.count());
    for float in [f64::NAN, f64::INFINITY, -0.5, 0.0, -0.0, 1.5, f64::MIN_POSITIVE, f64::MAX] {
        assert!(
            of(self_join(&sets).jaccard(float)).contains("expected a number above 0"),
            "{float}"
        );
        assert!(of(self_join(&sets).overlap(float)).contains("expected a whole number"), "{float}");
    }
    assert!(of(self_join(&sets).overlap(-1)).contains("expected a whole number"));
    assert!(of(self_join(&sets).dice("")).contains("is not a number"));
    let points = Vectors::new([0.0, 1.0], 1).unwrap();
    for float in [f64::NAN, f64::INFINITY, -0.5] {
        assert!(message(self_join(&points).within(float).count()).contains("distance"), "{float}");
        assert!(message(self_join(&points).cosine(2.0 * float).count()).contains("cosine"));
    }
}

#[test]
fn bad_input_is_an_error_that_names_the_row() {
    assert!(message(Vectors::new([0.0, f32::NAN], 2)).contains("row 0 (counting from 0)"));
    assert!(message(Vectors::new([0.0; 3], 2)).contains("not a whole number of vectors"));
    assert!(message(Vectors::new([0.0; 3], 0)).contains("dimension 0"));
    assert!(message(Vectors::from_rows(Vec::<Vec<f32>>::new())).contains("no dimension"));
    let ragged = Vectors::from_rows([vec![0.0, 1.0], vec![0.0]]);
    assert!(message(ragged).contains("row 1 (counting from 0): 1 elements; expected 2"));
    let (flat, deep) = (Vectors::new([0.0], 1).unwrap(), Vectors::new([0.0; 2], 2).unwrap());
    assert!(message(join(&flat, &deep).within(1).count()).contains("dimension 2"));
    let zero = Vectors::new([0.0, 0.0, 1.0, 0.0], 2).unwrap();
    assert!(message(self_join(&zero).cosine(0.5).count()).contains("row 0"));
    for q in [0, 101, usize::MAX] {
        let text = Text::new(["a"]).tokens(Tokenizer::Qgrams(q));
        assert!(message(self_join(&text).jaccard(1).count()).contains("from 1 to 100"));
    }
    let sets = Sets::new([[1]]);
    let join_of = || self_join(&sets).jaccard(1);
    assert!(message(join_of().technique("magic").count()).contains("unknown technique"));
    assert!(message(join_of().threads(5000).count()).contains("expected a number from 1 to 1024"));
    assert!(message(join_of().engine(Engine::Cpu).technique("gpu-bitmap").count()).contains("GPU"));
    assert!(message(join(&sets, &sets).jaccard(1).groups()).contains("one input"));
}

#[test]
fn inputs_without_rows_have_no_pairs() {
    let nothing = Sets::new(Vec::<Vec<u32>>::new());
    assert_eq!(self_join(&nothing).jaccard(1).count().unwrap(), 0);
    assert_eq!(self_join(&nothing).jaccard(1).groups().unwrap(), [0u32; 0]);
    assert_eq!(join(&nothing, &many()).overlap(1).collect().unwrap(), []);
    assert_eq!(join(&many(), &nothing).overlap(1).iter().count(), 0);
    let blank = Text::new(["", " ", "."]);
    assert_eq!(self_join(&blank).jaccard(0.1).count().unwrap(), 0);
    let none = Vectors::new([0.0f32; 0], 3).unwrap();
    assert_eq!(self_join(&none).within(1).count().unwrap(), 0);
    assert_eq!(simjoin::intersect(&[], &[1]).size().unwrap(), 0);
}

#[test]
fn answers_agree_whatever_the_settings() {
    let sets = many();
    let plain = self_join(&sets).jaccard(0.5);
    let expected = keys(&plain.collect().unwrap());
    assert!(expected.len() > 10_000);
    for join in [
        plain.clone().threads(1),
        plain.clone().threads(3).technique("ppjoin"),
        plain.clone().memory(1 << 20),
        plain.clone().engine(Engine::Cpu),
    ] {
        assert_eq!(keys(&join.collect().unwrap()), expected);
        assert_eq!(join.count().unwrap(), expected.len() as u64);
        let streamed: Result<Vec<_>> = join.iter().collect();
        assert_eq!(streamed.unwrap(), join.collect().unwrap());
        let mut each = Vec::new();
        let report = join.each(|pair| {
            each.push(pair);
            ControlFlow::Continue(())
        });
        assert_eq!((report.unwrap().pairs, keys(&each)), (expected.len() as u64, expected.clone()));
    }
    let groups = plain.groups().unwrap();
    assert!(expected.iter().all(|&(left, right)| {
        let [left, right] = [left, right].map(|row| groups[row as usize]);
        left == right && left <= right
    }));
    assert!(plain.explain().unwrap().to_string().contains("<- chosen"));
}

#[test]
fn right_input_is_joined_with_itself_if_that_is_wanted() {
    let (old, new) = (Sets::new([[1, 2], [1, 2]]), Sets::new([[1, 2], [2, 1]]));
    let both = join(&old, &new).jaccard(1).with_itself(true);
    let pairs = both.collect().unwrap();
    let of = |side| pairs.iter().filter(move |pair| pair.left_input == side).count();
    assert_eq!((of(Side::Left), of(Side::Right)), (4, 1));
    assert_eq!(join(&old, &new).jaccard(1).count().unwrap(), 4);
}

#[test]
fn dropping_an_iterator_stops_the_join() {
    // All of the 50 million pairs would not be collected.
    let sets = Sets::new(vec![[1u8, 2]; 10_000]);
    let join = self_join(&sets).jaccard(1);
    let mut pairs = join.iter();
    let first: BTreeSet<_> = pairs
        .by_ref()
        .take(1000)
        .map(|pair| pair.map(|pair| (pair.left, pair.right)).unwrap())
        .collect();
    assert_eq!(first.len(), 1000);
    drop(pairs);
    drop(join.iter());
}

#[test]
fn an_iterator_can_be_read_on_the_only_thread_of_a_pool() {
    let pool = simjoin::engine::pool(1).unwrap();
    let pairs = self_join(&many()).jaccard(0.9).iter();
    let count = pool.install(|| pairs.inspect(|pair| assert!(pair.is_ok())).count() as u64);
    assert_eq!(count, self_join(&many()).jaccard(0.9).count().unwrap());
}

#[test]
fn an_iterator_ends_after_an_error() {
    let mut pairs = self_join(&many()).jaccard(2).iter();
    assert!(pairs.next().unwrap().is_err());
    assert!(pairs.next().is_none() && pairs.next().is_none());
}

#[test]
fn sets_that_do_not_ascend_are_not_intersected() {
    let good: Vec<u32> = (0..100_000).collect();
    for (at, wrong) in [(5, 7), (99_999, 0), (1, 0)] {
        let mut bad = good.clone();
        bad[at] = wrong;
        for (left, right, name) in [(&bad, &good, "left"), (&good, &bad, "right")] {
            let text = message(simjoin::intersect(left, right).elements());
            assert!(text.contains(name) && text.contains("ascend"), "{text}");
        }
    }
    let report = simjoin::intersect(&good, &good[10..]).threads(2).report().unwrap();
    assert_eq!((report.size, report.containment()), (99_990, 1.0));
}

#[test]
fn inputs_and_joins_go_from_thread_to_thread() {
    fn of<T: Send + Sync + Clone + std::fmt::Debug>(_: &T) {}
    fn check<I: Input>(rows: &I) {
        of(rows);
    }
    check(&many());
    check(&Text::new(["a"]));
    of(&self_join(&many()).jaccard(1));
    // What rows are made of need not.
    let rows = Rc::new(["a", "b"]);
    assert_eq!(self_join(&Text::new(rows.iter())).jaccard(1).count().unwrap(), 0);
}

#[cfg(not(feature = "gpu"))]
#[test]
fn a_gpu_that_is_not_built_in_is_unavailable() {
    let error = self_join(&many()).jaccard(1).engine(Engine::Gpu).count().unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    assert!(error.to_string().contains("feature `gpu`"), "{error}");
    let error = simjoin::intersect(&[1], &[1]).engine(Engine::Gpu).size().unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
}

#[cfg(feature = "io")]
mod files {
    use super::*;
    use simjoin::{Format, VectorFormat};
    use std::path::{Path, PathBuf};

    /// A folder that is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("simjoin-library-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            std::fs::write(&path, text).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn files_are_joined_and_written() {
        let folder = Folder::new("written");
        let path =
            folder.write("a.csv", "key,title,year\nk1,The Sea,1\nk2,the sea!,2\nk3,Emma,3\n");
        let titles = Text::from_file(&path).column("title").id("key");
        let books = self_join(&titles).jaccard(1);
        assert_eq!(books.id(Side::Left, 0), None, "nothing has been read");
        let out = folder.0.join("out.tsv");
        assert_eq!(books.write(&out).unwrap().pairs, 1);
        assert_eq!(read(&out), "left\tright\toverlap\tsimilarity\nk1\tk2\t2\t1\n");
        let ids = [0, 2, 3].map(|row| books.id(Side::Right, row));
        assert_eq!(ids, [Some("k1"), Some("k3"), None]);
        // A file and rows in memory have one numbering of tokens.
        let pairs = join(&titles, &Text::new(["EMMA"])).jaccard(1).collect().unwrap();
        assert_eq!(keys(&pairs), [(2, 0)]);
        let with_itself = join(&titles, &titles).jaccard(1).with_itself(true);
        with_itself.write(&out).unwrap();
        assert!(read(&out).starts_with("left\tright\toverlap\tsimilarity\tleft_input\n"));
    }

    #[test]
    fn vectors_of_two_precisions_are_joined() {
        let folder = Folder::new("vectors");
        let path = folder.write("a.txt", "x,y\n0,0.5\n1,0.5\n");
        let left = Vectors::from_file(&path).format(VectorFormat::Csv);
        let right = Vectors::new([1.0f32, 0.5], 2).unwrap();
        let out = folder.0.join("out.csv");
        assert_eq!(join(&left, &right).within(0).write(&out).unwrap().pairs, 1);
        assert_eq!(read(&out), "left,right,distance\n1,0,0\n");
    }

    #[test]
    fn an_input_is_not_replaced_by_the_output() {
        let folder = Folder::new("replaced");
        let path = folder.write("a.tsv", "1 2\n2 1\n");
        let sets = Sets::from_file(&path).format(Format::Lines);
        let link = folder.0.join("link.tsv");
        if cfg!(unix) {
            std::fs::hard_link(&path, &link).unwrap();
        }
        for output in [&path, &link].into_iter().filter(|path| path.exists()) {
            let text = message(self_join(&sets).jaccard(1).write(output));
            assert!(text.contains("the output ") && text.contains("are the same file"), "{text}");
        }
        assert_eq!(read(&path), "1 2\n2 1\n");
    }

    #[test]
    fn what_is_wrong_with_files_is_an_error() {
        let folder = Folder::new("wrong");
        let none = Text::from_file(folder.0.join("none.txt"));
        assert!(message(self_join(&none).jaccard(1).count()).contains("none.txt"));
        let memory = Text::new(["a"]).column("title");
        assert!(message(self_join(&memory).jaccard(1).count()).contains("in memory"));
        let vectors = Vectors::new([0.0], 1).unwrap().id("key");
        assert!(message(self_join(&vectors).within(1).count()).contains("in memory"));
        let text = message(self_join(&many()).jaccard(1).write(folder.0.join("a.doc")));
        assert!(text.contains("no known ending"), "{text}");
        assert!(message(self_join(&many()).jaccard(1).write("")).contains("ending"));
    }
}
