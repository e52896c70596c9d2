//! Is every format read into the same sets as lines?

mod common;

use arrow_array::builder::{
    FixedSizeListBuilder, Int32Builder, LargeListBuilder, ListBuilder, StringBuilder,
    StringDictionaryBuilder, UInt8Builder,
};
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, Int64Array, LargeStringArray, RecordBatch, StringArray, StringViewArray,
    UInt32Array,
};
use common::*;
use simjoin_io::{Format, ReadOptions, ReadSets, Tokenizer, read_sets, read_sets_with_texts};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const RECORDS: [&str; 6] = ["b a b", "", "c  é a", "The cat, THE cat's 3.5", "a", "\u{3000}ß c"];

fn options(tokenizer: Tokenizer) -> ReadOptions {
    ReadOptions { tokenizer, ..ReadOptions::default() }
}

fn sets() -> ReadOptions {
    options(Tokenizer::Whitespace)
}

fn with(column: &str, id: Option<&str>) -> ReadOptions {
    ReadOptions { column: Some(column.into()), id: id.map(Into::into), ..sets() }
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

fn ids(read: &ReadSets) -> Vec<&str> {
    let ids = read.left.ids.as_ref().unwrap();
    (0..ids.len()).map(|row| ids.get(row)).collect()
}

#[test]
fn lines_are_records() {
    let folder = Folder::new();
    let path = folder.write("a.txt", "b a b\n\n a\tc \n");
    let read = read(&path, &sets()).unwrap();
    assert_eq!(rows(&read.left.sets), [vec![0, 1], vec![], vec![1, 2]]);
    assert_eq!((read.universe, read.left.ids, read.right), (3, None, None));
}

#[test]
fn line_ends_and_a_byte_order_mark_are_no_tokens() {
    let folder = Folder::new();
    let expected = read(&folder.write("a.txt", "x y\nz\n\nx"), &sets()).unwrap();
    assert_eq!(expected.left.sets.rows(), 4);
    for text in ["x y\r\nz\r\n\r\nx", "\u{feff}x y\nz\n\nx\n", "\u{feff}x y\r\nz\r\n\r\nx\r\n"] {
        let path = folder.write("b.txt", text);
        for tokenizer in [Tokenizer::Whitespace, Tokenizer::Qgrams(2), Tokenizer::Words] {
            let expected = read(&folder.path("a.txt"), &options(tokenizer)).unwrap();
            assert_eq!(read(&path, &options(tokenizer)).unwrap(), expected, "{text:?}");
        }
    }
}

#[test]
fn compressed_files_are_read_like_plain_ones() {
    let folder = Folder::new();
    let text: String = (0..3000).map(|n| format!("{} {}\n", n % 70, n % 11)).collect();
    let (first, second) = text.split_at(text.len() / 2);
    let plain = read(&folder.write("a.txt", &text), &sets()).unwrap();
    for (name, bytes) in [
        ("a.txt.gz", gzip(text.as_bytes())),
        ("b.gz", [gzip(first.as_bytes()), gzip(second.as_bytes())].concat()),
        ("a.txt.zst", zstd(text.as_bytes())),
        ("b.zst", [zstd(first.as_bytes()), zstd(second.as_bytes())].concat()),
        ("no-ending", zstd(text.as_bytes())),
    ] {
        let path = folder.write(name, &bytes);
        let count = AtomicU64::new(0);
        assert_eq!(read_sets(&path, None, &sets(), &count).unwrap(), plain, "{name}");
        assert_eq!(count.load(Ordering::Relaxed), bytes.len() as u64);
    }
}

#[test]
fn every_format_gives_the_same_sets() {
    let folder = Folder::new();
    let lines = folder.write("a.txt", RECORDS.join("\n") + "\n");
    let mut delimited = csv::WriterBuilder::new().from_writer(Vec::new());
    let mut tabbed = csv::WriterBuilder::new().delimiter(b'\t').from_writer(Vec::new());
    let mut jsonl = String::new();
    for writer in [&mut delimited, &mut tabbed] {
        writer.write_record(["key", "text"]).unwrap();
    }
    for (row, record) in RECORDS.iter().enumerate() {
        let key = format!("k,\"{row}");
        delimited.write_record([&key[..], record]).unwrap();
        tabbed.write_record([&key[..], record]).unwrap();
        let object = serde_json::json!({ "other": [{"text": 1}], "text": record, "key": key });
        writeln!(jsonl, "{object}").unwrap();
    }
    let text = RECORDS.to_vec();
    let keys: Vec<String> = (0..RECORDS.len()).map(|row| format!("k,\"{row}")).collect();
    let mut dictionary = StringDictionaryBuilder::<Int8Type>::new();
    text.iter().for_each(|record| dictionary.append_value(record));
    let keys: ArrayRef = Arc::new(StringArray::from(keys));
    let columns: [(&str, ArrayRef); 4] = [
        ("utf8", Arc::new(StringArray::from(text.clone()))),
        ("large", Arc::new(LargeStringArray::from(text.clone()))),
        ("view", Arc::new(StringViewArray::from(text.clone()))),
        ("dictionary", Arc::new(dictionary.finish())),
    ];
    let csv = delimited.into_inner().unwrap();
    let mut paths = vec![
        folder.write("a.csv", &csv),
        folder.write("bom.csv", [b"\xEF\xBB\xBF", &csv[..]].concat()),
        folder.write("a.csv.gz", gzip(&csv)),
        folder.write("a.tsv", tabbed.into_inner().unwrap()),
        folder.write("a.jsonl", &jsonl),
        folder.write("crlf.ndjson", jsonl.replace('\n', "\r\n")),
        folder.write("a.jsonl.zst", zstd(jsonl.as_bytes())),
    ];
    for (name, column) in columns {
        let batch = batch(vec![("text", column), ("key", keys.clone())]);
        paths.extend(write_columnar(&folder, name, &batch));
    }
    for plain in ["utf8-zstd.parquet", "utf8-lz4.arrow", "utf8-plain-stream.arrow"] {
        let bytes = std::fs::read(folder.path(plain)).unwrap();
        paths.push(folder.write(&format!("{plain}.gz"), gzip(&bytes)));
        paths.push(folder.write(&format!("{plain}.zst"), zstd(&bytes)));
    }
    for tokenizer in [Tokenizer::Whitespace, Tokenizer::Words, Tokenizer::Qgrams(3)] {
        for multiset in [false, true] {
            let base = ReadOptions { multiset, ..options(tokenizer) };
            let expected = read(&lines, &base).unwrap();
            for path in &paths {
                let found =
                    read(path, &ReadOptions { column: Some("text".into()), ..base.clone() });
                assert_eq!(found.unwrap(), expected, "{path}");
                // The column may be omitted if it is the only one other than the id (the JSONL file has another).
                let column = path.contains("json").then(|| "text".into());
                let options = ReadOptions { column, id: Some("key".into()), ..base.clone() };
                let found = read(path, &options).unwrap();
                assert_eq!(found.left.sets, expected.left.sets, "{path}");
                assert_eq!(ids(&found)[5], "k,\"5");
                assert!(!found.left.ids.unwrap().are_integers());
            }
        }
    }
}

#[test]
fn list_elements_are_tokens_unchanged() {
    let folder = Folder::new();
    let expected = vec![vec![0, 1], vec![], vec![1, 2]];
    let lists = [vec!["5", "a b"], vec![], vec!["a b", "5 "]];
    let mut list = ListBuilder::new(StringBuilder::new());
    let mut large = LargeListBuilder::new(StringDictionaryBuilder::<Int32Type>::new());
    for row in &lists {
        list.append_value(row.iter().map(Some));
        row.iter().for_each(|token| large.values().append_value(token));
        large.append(true);
    }
    let (list, large) = (list.finish(), large.finish());
    let mut paths =
        vec![folder.write("a.jsonl", "{\"t\":[5,\"a b\"]}\n{\"t\":[]}\n{\"t\":[\"a b\",\"5 \"]}")];
    paths.extend(write_columnar(&folder, "list", &batch(vec![("t", Arc::new(list))])));
    paths.extend(write_columnar(&folder, "large", &batch(vec![("t", Arc::new(large))])));
    for path in &paths {
        assert_eq!(rows(&read(path, &sets()).unwrap().left.sets), expected, "{path}");
    }

    let mut integers = ListBuilder::new(Int32Builder::new());
    integers.append_value([Some(-7), Some(8)]);
    integers.append_value([]);
    integers.append_value([Some(8), Some(8), Some(9)]);
    let mut fixed = FixedSizeListBuilder::new(UInt8Builder::new(), 2);
    for row in [[3, 4], [5, 5], [4, 200]] {
        row.iter().for_each(|&value| fixed.values().append_value(value));
        fixed.append(true);
    }
    let batch =
        batch(vec![("t", Arc::new(integers.finish()) as _), ("f", Arc::new(fixed.finish()) as _)]);
    for path in write_columnar(&folder, "integers", &batch) {
        assert_eq!(rows(&read(&path, &with("t", None)).unwrap().left.sets), expected, "{path}");
        let fixed = read(&path, &with("f", None)).unwrap();
        assert_eq!(rows(&fixed.left.sets), [vec![0, 1], vec![2], vec![1, 3]], "{path}");
    }
    // The integer -7 in a list is the token `-7` of a line.
    let lines = folder.write("a.txt", "8 -7\n");
    let both = read_sets(
        &folder.path("integers-plain.parquet"),
        Some(&lines),
        &ReadOptions { format: None, ..with("t", None) },
        &AtomicU64::new(0),
    );
    assert!(both.unwrap_err().to_string().contains("column needs a format with columns"));
}

#[test]
fn null_rows_are_empty_sets_in_every_format() {
    let folder = Folder::new();
    let records = [Some("a b"), None, Some("b"), None, Some("a")];
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["p", "q", "r", "s", "t"]));
    let (mut csv, mut jsonl) = (String::from("key,text\n"), String::new());
    for (key, record) in ["p", "q", "r", "s", "t"].into_iter().zip(records) {
        writeln!(csv, "{key},{}", record.unwrap_or_default()).unwrap();
        writeln!(jsonl, "{}", serde_json::json!({ "key": key, "text": record })).unwrap();
    }
    let mut dictionary = StringDictionaryBuilder::<Int8Type>::new();
    records.iter().for_each(|record| dictionary.append_option(*record));
    let columns: [(&str, ArrayRef); 4] = [
        ("utf8", Arc::new(StringArray::from(records.to_vec()))),
        ("large", Arc::new(LargeStringArray::from(records.to_vec()))),
        ("view", Arc::new(StringViewArray::from(records.to_vec()))),
        ("dictionary", Arc::new(dictionary.finish())),
    ];
    let csv = folder.write("a.csv", csv);
    let mut paths = vec![folder.write("a.jsonl", jsonl)];
    for (name, column) in columns {
        let columns = batch(vec![("key", keys.clone()), ("text", column)]);
        paths.extend(write_columnar(&folder, name, &columns));
    }
    for tokenizer in [Tokenizer::Whitespace, Tokenizer::Words, Tokenizer::Qgrams(2)] {
        let options = ReadOptions { tokenizer, ..with("text", Some("key")) };
        let expected = read(&csv, &options).unwrap();
        assert_eq!(expected.left.sets.rows(), 5);
        for path in &paths {
            assert_eq!(read(path, &options).unwrap(), expected, "{path}");
        }
    }
    // Values that a null hides are not part of its row.
    let mut lists = FixedSizeListBuilder::new(Int32Builder::new(), 2);
    for (values, valid) in [([1, 2], true), ([3, 4], false), ([2, 2], true)] {
        lists.values().append_slice(&values);
        lists.append(valid);
    }
    let lists: ArrayRef = Arc::new(lists.finish());
    for path in write_columnar(&folder, "l", &batch(vec![("i", keys.slice(0, 3)), ("l", lists)])) {
        let read = read(&path, &with("l", Some("i"))).unwrap();
        assert_eq!(rows(&read.left.sets), [vec![0, 1], vec![], vec![1]], "{path}");
        assert_eq!(ids(&read), ["p", "q", "r"], "{path}");
    }
}

#[test]
fn integer_ids_are_recognised() {
    let folder = Folder::new();
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let signed: ArrayRef = Arc::new(Int64Array::from(vec![-5, 0, i64::MAX]));
    let unsigned: ArrayRef = Arc::new(UInt32Array::from(vec![7, 8, 9]));
    let batch = batch(vec![("i", signed), ("t", text), ("u", unsigned)]);
    let mut cases: Vec<(String, &str, [&str; 3], bool)> = Vec::new();
    for path in write_columnar(&folder, "a", &batch) {
        cases.push((path.clone(), "i", ["-5", "0", "9223372036854775807"], true));
        cases.push((path.clone(), "u", ["7", "8", "9"], true));
        cases.push((path, "t", ["a", "b", "c"], false));
    }
    let json = |last: &str| {
        format!("{{\"t\":\"a\",\"i\":1}}\n{{\"i\":-2,\"t\":\"b\"}}\n{{\"t\":\"c\",\"i\":{last}}}\n")
    };
    cases.push((folder.write("a.jsonl", json("3")), "i", ["1", "-2", "3"], true));
    cases.push((folder.write("b.jsonl", json("\"3\"")), "i", ["1", "-2", "3"], false));
    let big = "18446744073709551615";
    cases.push((folder.write("c.jsonl", json(big)), "i", ["1", "-2", big], false));
    let csv = folder.write("a.csv", "t,i\na,1\nb,2\nc,3\n");
    cases.push((csv, "i", ["1", "2", "3"], false));
    for (path, id, expected, integers) in cases {
        let read = read(&path, &with("t", Some(id))).unwrap();
        assert_eq!(ids(&read), expected, "{path}");
        assert_eq!(read.left.ids.unwrap().are_integers(), integers, "{path}");
    }
}

#[test]
fn tokens_of_two_inputs_are_numbered_together() {
    let folder = Folder::new();
    let left = folder.write("a.txt", "x y\nz\n");
    let right = folder.write("b.csv", "t\nz w\n\"\"\nx\n");
    let read = read_sets(&left, Some(&right), &sets(), &AtomicU64::new(0)).unwrap();
    assert_eq!(rows(&read.left.sets), [vec![0, 1], vec![2]]);
    assert_eq!(rows(&read.right.unwrap().sets), [vec![2, 3], vec![], vec![0]]);
    assert_eq!(read.universe, 4);
}

#[test]
fn the_format_option_overrides_the_ending() {
    let folder = Folder::new();
    let path = folder.write("a.txt", "t\nx y\n");
    let read = |format| read(&path, &ReadOptions { format: Some(format), ..sets() }).unwrap();
    assert_eq!(read(Format::Csv).left.sets.rows(), 1);
    assert_eq!(read(Format::Lines).left.sets.rows(), 2);
}

#[test]
fn csv_fields_may_hold_delimiters_quotes_and_lines() {
    let folder = Folder::new();
    let path = folder.write("a.csv", "id,t\r\n1,\"x, \"\"y\"\"\r\nz\"\r\n\r\n2,x\r\n");
    let read = read(&path, &with("t", Some("id"))).unwrap();
    assert_eq!(rows(&read.left.sets), [vec![0, 1, 2], vec![3]]);
    assert_eq!(ids(&read), ["1", "2"]);
}

#[test]
fn repeated_tokens_count_once_or_as_often_as_they_occur() {
    let folder = Folder::new();
    let path = folder.write("a.txt", "a a a b\na a\n");
    assert_eq!(rows(&read(&path, &sets()).unwrap().left.sets), [vec![0, 1], vec![0]]);
    let multiset = ReadOptions { multiset: true, ..sets() };
    let counted = read(&path, &multiset).unwrap();
    assert_eq!(rows(&counted.left.sets), [vec![0, 1, 2, 3], vec![0, 1]]);
    assert_eq!(counted.universe, 4);
    let path = folder.write("b.txt", "aaaa\n");
    let grams = read(&path, &ReadOptions { multiset: true, ..options(Tokenizer::Qgrams(2)) });
    assert_eq!(grams.unwrap().left.sets.tokens.len(), 5);
}

#[test]
fn the_texts_of_tokens_can_be_kept() {
    let folder = Folder::new();
    let left = folder.write("a.txt", "b a b\n\u{3000}é </script>\n");
    let right = folder.write("b.txt", "b b b \u{1}\n");
    for (multiset, expected) in [
        (false, vec!["b", "a", "é", "</script>", "\u{1}"]),
        (true, vec!["b", "a", "b (2)", "é", "</script>", "b (3)", "\u{1}"]),
    ] {
        let options = ReadOptions { multiset, ..sets() };
        let count = AtomicU64::new(0);
        let (read, texts) = read_sets_with_texts(&left, Some(&right), &options, &count).unwrap();
        assert_eq!(read, read_sets(&left, Some(&right), &options, &count).unwrap());
        let called: Vec<String> = (0..texts.len() as u32).map(|token| texts.get(token)).collect();
        assert_eq!(called, expected);
        assert!(!texts.is_empty());
    }
}

#[test]
fn large_batches_are_cut_into_blocks() {
    let folder = Folder::new();
    let count = 30_000;
    let mut list = ListBuilder::new(Int32Builder::new());
    let mut lines = String::new();
    for row in 0..count {
        list.append_value((0..row % 4).map(|at| Some(row * 7 % (at + 50))));
        let tokens: Vec<String> =
            (0..row % 4).map(|at| (row * 7 % (at + 50)).to_string()).collect();
        writeln!(lines, "{}", tokens.join(" ")).unwrap();
    }
    let list = list.finish();
    assert_eq!(list.len(), count as usize);
    let expected = read(&folder.write("a.txt", lines), &sets()).unwrap();
    let batch = batch(vec![("t", Arc::new(list))]);
    let path = folder.path("a.arrow");
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    assert_eq!(read(&path, &sets()).unwrap(), expected);
}

#[cfg(target_os = "linux")]
#[test]
fn paths_need_not_be_utf_8() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.csv");
    let path = std::path::Path::new(&folder.path("")).join(name);
    std::fs::write(&path, "t\na b\n").unwrap();
    let sets = read_sets(&path, None, &ReadOptions::default(), &AtomicU64::new(0)).unwrap();
    assert_eq!(rows(&sets.left.sets), [[0, 1]]);
    let output = path.with_file_name(std::ffi::OsStr::from_bytes(b"\xff.tsv.gz"));
    simjoin_io::PairWriter::create(Some(&output), None, None).unwrap().finish().unwrap();
    assert!(output.exists());
}
