//! Does every error name the file, the place and the expected content on one line?

mod common;

use arrow_array::builder::{ListBuilder, StringBuilder, StringDictionaryBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, Float64Array, Int32Array, RecordBatch, StringArray};
use common::*;
use simjoin_core::Error;
use simjoin_io::{Format, ReadOptions, Tokenizer, read_sets};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

fn plain() -> ReadOptions {
    ReadOptions::default()
}

fn with(column: &str, id: Option<&str>) -> ReadOptions {
    ReadOptions { column: Some(column.into()), id: id.map(Into::into), ..plain() }
}

/// Returns the error of a file with this content.
fn error(name: &str, content: impl AsRef<[u8]>, options: &ReadOptions) -> String {
    let folder = Folder::new();
    read_error(&folder.write(name, content), options)
}

#[test]
fn files_that_cannot_be_opened_are_refused() {
    let folder = Folder::new();
    for name in ["none.txt", "none.csv", "none.parquet", "none.arrow"] {
        let message = read_error(&folder.path(name), &plain());
        assert!(message.starts_with(&format!("{name}: No such file or directory")), "{message}");
    }
    std::fs::create_dir(folder.path("dir.parquet")).unwrap();
    std::fs::create_dir(folder.path("dir")).unwrap();
    for name in ["dir", "dir.parquet"] {
        let message = read_error(&folder.path(name), &plain());
        assert_eq!(message, format!("{name}: is a directory; a file was expected"));
    }
}

#[cfg(unix)]
#[test]
fn unreadable_files_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let path = folder.write("a.txt", "x");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    // A privileged user may read everything.
    if std::fs::File::open(&path).is_err() {
        assert!(read_error(&path, &plain()).starts_with("a.txt: Permission denied"));
    }
}

#[test]
fn options_that_do_not_fit_the_input_are_refused() {
    let folder = Folder::new();
    let path = folder.write("a.txt", "x\n");
    for options in [with("c", None), ReadOptions { id: Some("i".into()), ..plain() }] {
        let error = read(&path, &options).unwrap_err();
        assert!(matches!(&error, Error::Parameter { .. }), "{error}");
        assert!(error.to_string().contains("is read as lines"), "{error}");
    }
    let error = read_sets("-", Some("-"), &plain(), &AtomicU64::new(0)).unwrap_err();
    assert!(matches!(error, Error::Config(_)));
    assert_eq!(error.to_string(), "both inputs are standard input (`-`); expected at most one");
}

#[test]
fn inputs_without_records_or_tokens_are_refused() {
    for name in ["a.txt", "a.jsonl", "a.parquet", "a.arrow"] {
        assert_eq!(error(name, "", &plain()), format!("{name}: no records: the input is empty"));
    }
    assert_eq!(error("a.txt", "\u{feff}", &plain()), "a.txt: no records: the input is empty");
    assert_eq!(
        error("a.csv", "", &plain()),
        "a.csv: no records: the input is empty; a header row was expected"
    );
    assert_eq!(error("a.csv", "t\n", &plain()), "a.csv: no records: the input is empty");
    assert_eq!(error("a.gz", gzip(b""), &plain()), "a.gz: no records: the input is empty");
    assert_eq!(
        error("a.txt", "\n \n\t\n", &plain()),
        "a.txt: no tokens: every record is empty (3 read)"
    );
    let words = ReadOptions { tokenizer: Tokenizer::Words, ..plain() };
    assert!(
        error("a.txt", "--\n...\n", &words).contains("no tokens: every record is empty (2 read)")
    );
    // Each of two inputs needs a token.
    let folder = Folder::new();
    let (left, right) = (folder.write("a.txt", "x\n"), folder.write("b.txt", "\n"));
    let error = read_sets(&left, Some(&right), &plain(), &AtomicU64::new(0)).unwrap_err();
    assert!(error.to_string().ends_with("b.txt: no tokens: every record is empty (1 read)"));
}

#[test]
fn invalid_utf8_is_refused() {
    let expected = "line 3: byte 3 of the line is not UTF-8; UTF-8 text was expected";
    let text = b"a\nb\nc \xff d\ne\n";
    assert_eq!(error("a.txt", text, &plain()), format!("a.txt: {expected}"));
    assert_eq!(error("a.txt.gz", gzip(text), &plain()), format!("a.txt.gz: {expected}"));
    assert_eq!(
        error("a.jsonl", b"{\"t\":\"a\"}\n{\"t\":\"\xc3\"}\n", &plain()),
        "a.jsonl: line 2: byte 7 of the line is not UTF-8; UTF-8 text was expected"
    );
    assert_eq!(
        error("a.csv", b"t,u\r\na,b\r\n\xff,c\r\n", &with("t", None)),
        "a.csv: line 3: column `t` is not UTF-8; UTF-8 text was expected"
    );
    assert_eq!(
        error("a.csv", b"t,\xff\n", &with("t", None)),
        "a.csv: line 1: column name 2 is not UTF-8"
    );
}

#[test]
fn errors_in_csv_name_the_line() {
    let options = with("t", None);
    for (text, message) in [
        ("t,u\na,b\n\"x\ny\",c\nd\n", "line 5: 1 field found; the header has 2"),
        ("t,u\r\na,b\r\n\r\na,b,c\r\n", "line 4: 3 fields found; the header has 2"),
        (
            "t,u\na,b\nc,\"d\ne,f\n",
            "line 3: a quoted field that starts in this record is never closed",
        ),
        ("t\n\"a", "line 2: a quoted field that starts in this record is never closed"),
        ("x,y\n1,2\n", "no column `t`; the columns are `x`, `y`"),
        ("t,t\n1,2\n", "more than one column is called `t`"),
    ] {
        assert_eq!(error("a.csv", text, &options), format!("a.csv: {message}"));
        assert_eq!(error("a.tsv", text.replace(',', "\t"), &options), format!("a.tsv: {message}"));
    }
    assert_eq!(
        error("a.csv", "x,y\n1,2\n", &plain()),
        "a.csv: column must say which column to read; the columns are `x`, `y`"
    );
    let ids = with("t", Some("i"));
    assert_eq!(
        error("a.csv", "i,t\n1,a\n2,\"b\nc\"\n1,d\n", &ids),
        "a.csv: line 5: the id `1` was already used at line 2; ids must be unique"
    );
    assert_eq!(
        error("a.csv", "i,t\n1,a\n,b\n", &ids),
        "a.csv: line 3: the id in column `i` is empty"
    );
}

#[test]
fn xz_is_refused_by_name() {
    let xz = b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4F";
    for name in ["a.csv.xz", "a.txt.xz", "a.parquet.xz", "a.jsonl"] {
        let options = if name == "a.txt.xz" { plain() } else { with("t", None) };
        let message = error(name, xz, &options);
        assert!(
            message.starts_with(&format!("{name}: xz compression is not supported; expected")),
            "{message}"
        );
    }
}

#[cfg(unix)]
#[test]
fn control_characters_in_file_names_are_escaped() {
    for name in ["\u{1b}[31m.txt", "\u{1b}[31m.csv", "\u{1b}[31m.parquet"] {
        let message = error(name, "\u{fe}\n", &with("t", None));
        assert!(message.contains("\\u{1b}[31m") && !message.contains('\u{1b}'), "{message}");
    }
    let folder = Folder::new();
    let message = read_error(&folder.path("none\r\n.txt"), &plain());
    assert!(message.starts_with("none\\r\\n.txt: No such file"), "{message}");
}

/// Takes linear time in the number of keys; quadratic time would be minutes.
#[test]
fn missing_keys_are_found_quickly_among_very_many() {
    let object: String = (0..400_000).map(|key| format!(",\"k{key}\":0")).collect();
    let message = error("a.jsonl", format!("{{{}}}\n", &object[1..]), &with("t", None));
    assert!(
        message
            .starts_with("a.jsonl: line 1: the key `t` is missing; the object has the keys `k0`"),
        "{message}"
    );
    assert!(message.ends_with("`k39`, and 399960 more"), "{message}");
}

#[test]
fn messages_are_short_and_on_one_line() {
    assert_eq!(
        error("a.tsv", "\"x\ny\"\tz\n1\t2\n", &plain()),
        "a.tsv: column must say which column to read; the columns are `x\\ny`, `z`"
    );
    let long = "é".repeat(5000);
    assert_eq!(
        error("a.csv", format!("i,t\n{long},a\n{long},b\n"), &with("t", Some("i"))),
        format!(
            "a.csv: line 3: the id `{}…` was already used at line 2; ids must be unique",
            "é".repeat(100)
        )
    );
}

#[test]
fn errors_in_json_name_the_line() {
    let options = with("t", Some("i"));
    let good = "{\"t\":\"a\",\"i\":1}\n";
    for (line, message) in [
        ("", "a blank line; one JSON object per line was expected"),
        ("  ", "a blank line; one JSON object per line was expected"),
        ("{\"t\":\"a\"", "invalid JSON at byte 8: EOF while parsing an object"),
        ("{\"t\":\"a\",\"i\":2} x", "invalid JSON at byte 17: trailing characters"),
        ("{t:1}", "invalid JSON at byte 2: key must be a string"),
        (
            "[1]",
            "invalid type: sequence, expected an object; one JSON object per line was expected",
        ),
        (
            "7",
            "invalid type: integer `7`, expected an object; one JSON object per line was expected",
        ),
        ("{\"x\":1,\"y\":2}", "the key `t` is missing; the object has the keys `x`, `y`"),
        ("{}", "the key `t` is missing; the object is empty"),
        ("{\"t\":\"a\"}", "the key `i` is missing; the object has the keys `t`"),
        ("{\"t\":\"a\",\"i\":null}", "the id `i` is null; a value was expected"),
        (
            "{\"t\":7,\"i\":2}",
            "`t` is an integer; a string or an array of strings or integers was expected",
        ),
        (
            "{\"t\":{},\"i\":2}",
            "`t` is an object; a string or an array of strings or integers was expected",
        ),
        (
            "{\"t\":[\"a\",null],\"i\":2}",
            "element 1 of `t` is null; a string or an integer was expected",
        ),
        (
            "{\"t\":[1.5],\"i\":2}",
            "element 0 of `t` is a number with a fraction or an exponent; a string or an integer was expected",
        ),
        (
            "{\"t\":[[]],\"i\":2}",
            "element 0 of `t` is an array; a string or an integer was expected",
        ),
        (
            "{\"t\":\"a\",\"i\":2.0}",
            "the id `i` is a number with a fraction or an exponent; a string or an integer was expected",
        ),
        (
            "{\"t\":\"a\",\"i\":true}",
            "the id `i` is a boolean; a string or an integer was expected",
        ),
        ("{\"t\":\"b\",\"i\":1}", "the id `1` was already used at line 1; ids must be unique"),
        ("{\"t\":\"b\",\"i\":\"1\"}", "the id `1` was already used at line 1; ids must be unique"),
    ] {
        let text = format!("{good}{line}\n{}", good.replace('1', "3"));
        assert_eq!(error("a.jsonl", text, &options), format!("a.jsonl: line 2: {message}"));
    }
    let words = ReadOptions { tokenizer: Tokenizer::Words, ..with("t", None) };
    assert_eq!(
        error("a.jsonl", "{\"t\":[\"a\"]}", &words),
        "a.jsonl: line 1: `t` is an array; a string was expected"
    );
    assert_eq!(
        error("a.jsonl", "{\"a\":\"x\",\"b\":\"y\"}\n", &plain()),
        "a.jsonl: column must say which column to read; the columns are `a`, `b`"
    );
    assert!(
        error("a.jsonl", "{\"a\":\"x\"\n", &plain()).starts_with("a.jsonl: line 1: invalid JSON")
    );
}

fn columnar_errors(column: ArrayRef, options: &ReadOptions) -> Vec<String> {
    let ids: ArrayRef = Arc::new(StringArray::from(vec![Some("p"), Some("q"), Some("p"), None]));
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 4]));
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![1.0; 4]));
    let columns = [("t", column), ("ids", ids), ("numbers", numbers), ("floats", floats)];
    let folder = Folder::new();
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    write_columnar(&folder, "a", &batch)
        .iter()
        .map(|path| {
            let message = read_error(path, options);
            let name = path.rsplit('/').next().unwrap();
            message.strip_prefix(&format!("{name}: ")).unwrap_or(&message).to_owned()
        })
        .collect()
}

#[test]
fn errors_in_columns_name_the_row() {
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c", "d"]));
    let mut lists = ListBuilder::new(StringBuilder::new());
    lists.append_value([Some("a")]);
    lists.append_value([None::<&str>; 0]);
    lists.append_value([Some("a"), Some("b"), None]);
    lists.append_null();
    let lists: ArrayRef = Arc::new(lists.finish());
    let words = ReadOptions { tokenizer: Tokenizer::Words, ..with("t", None) };
    for (column, options, message) in [
        (
            text.clone(),
            with("x", None),
            "no column `x`; the columns are `t`, `ids`, `numbers`, `floats`",
        ),
        (
            text.clone(),
            plain(),
            "column must say which column to read; the columns are `t`, `ids`, `numbers`, `floats`",
        ),
        (
            text.clone(),
            with("numbers", None),
            "column `numbers` is of type Int32; strings, or lists of strings or integers were expected",
        ),
        (
            text.clone(),
            with("t", Some("floats")),
            "id column `floats` is of type Float64; strings or integers were expected",
        ),
        (
            text.clone(),
            with("t", Some("ids")),
            "row 2 (counting from 0): the id `p` was already used at row 0 (counting from 0); ids must be unique",
        ),
        (
            lists.clone(),
            with("t", None),
            "row 2 (counting from 0): element 2 of the list in column `t` is null; a value was expected",
        ),
        (
            text,
            with("numbers", Some("t")),
            "column `numbers` is of type Int32; strings, or lists of strings or integers were expected",
        ),
    ] {
        for found in columnar_errors(column.clone(), &options) {
            assert_eq!(found, message);
        }
    }
    for found in columnar_errors(lists, &words) {
        assert!(found.starts_with("column `t` is of type List("), "{found}");
        assert!(found.ends_with("; strings were expected"), "{found}");
    }
    let only: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let batch = RecordBatch::try_from_iter([("t", text), ("i", only)]).unwrap();
    let folder = Folder::new();
    for path in write_columnar(&folder, "a", &batch) {
        let message = read_error(&path, &with("t", Some("i")));
        assert!(
            message
                .ends_with("row 1 (counting from 0): null in id column `i`; a value was expected"),
            "{message}"
        );
    }
}

#[test]
fn truncated_and_corrupt_compressed_data_is_refused() {
    let text: String = (0..5000).map(|n| format!("{n}\n")).collect();
    let (gz, zst) = (gzip(text.as_bytes()), zstd(text.as_bytes()));
    for name in ["a.gz", "a.csv.gz", "a.parquet.gz"] {
        assert_eq!(
            error(name, &gz[..gz.len() - 20], &plain()),
            format!("{name}: the gzip data ends too early: truncated file")
        );
    }
    for name in ["a.zst", "a.tsv.zst", "a.arrow.zst"] {
        assert_eq!(
            error(name, &zst[..zst.len() - 20], &plain()),
            format!("{name}: the zstd data ends too early: truncated file")
        );
    }
    let mut corrupt = gz.clone();
    let at = corrupt.len() - 5;
    corrupt[at] ^= 0xFF;
    assert!(error("a.gz", &corrupt, &plain()).starts_with("a.gz: corrupt gzip data: "));
    // An error in an earlier line is reported first, even if the file is truncated.
    let text = [b"ok\n\xff\n", text.as_bytes()].concat();
    let gz = gzip(&text);
    assert!(error("a.gz", &gz[..gz.len() - 20], &plain()).starts_with("a.gz: line 2: byte 1"));
}

#[test]
fn files_of_other_formats_are_refused() {
    for text in ["not parquet at all, only text\n", "PAR1", "PAR1PAR1"] {
        assert_eq!(
            error("a.parquet", text, &plain()),
            "a.parquet: corrupt or truncated Parquet file: it does not begin and end with PAR1"
        );
    }
    assert!(
        error("a.parquet", "PAR1....\0\0\0\x7fPAR1", &plain())
            .starts_with("a.parquet: corrupt or truncated Parquet file: ")
    );
    for text in
        ["some text that is no arrow", "ARROW1", "ARROW1\0\0........................", "\u{1}"]
    {
        let message = error("a.arrow", text, &plain());
        assert!(message.starts_with("a.arrow: corrupt or truncated Arrow file: "), "{message}");
    }
    let parquet = ReadOptions { format: Some(Format::Parquet), ..plain() };
    assert!(error("a.txt", "x\n", &parquet).contains("Parquet"));
}

/// Damages files in many places, one byte at a time, and truncates them at many lengths. The result
/// is sets or an error.
#[test]
fn damaged_columnar_files_never_cause_a_panic() {
    let folder = Folder::new();
    let mut lists = ListBuilder::new(StringDictionaryBuilder::<Int32Type>::new());
    for row in 0..6 {
        (0..row).for_each(|at| lists.values().append_value(format!("t{at}")));
        lists.append(true);
    }
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a b", "b", "c a a", "d", "", "e f g"]));
    let ids: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 4, 5, 6]));
    let batch =
        RecordBatch::try_from_iter([("t", text), ("l", Arc::new(lists.finish()) as _), ("i", ids)]);
    let paths = write_columnar(&folder, "a", &batch.unwrap());
    let kinds =
        ["plain.parquet", "snappy.parquet", "plain.arrow", "zstd-stream.arrow", "lz4.arrow"];
    for path in paths.iter().filter(|path| kinds.iter().any(|kind| path.ends_with(kind))) {
        let good = std::fs::read(path).unwrap();
        let name = path.rsplit('/').next().unwrap();
        let broken = folder.path(&format!("broken-{name}"));
        let check = |bytes: &[u8], at: usize| {
            std::fs::write(&broken, bytes).unwrap();
            let options = ReadOptions { threads: 1, ..with(["t", "l"][at % 2], Some("i")) };
            if let Err(error) = read_sets(&broken, None, &options, &AtomicU64::new(0)) {
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        };
        for at in (0..good.len()).step_by(7) {
            check(&good[..at], at);
        }
        for at in (0..good.len()).step_by(2) {
            let mut bytes = good.clone();
            bytes[at] ^= [0x01, 0x80, 0xFF, 0x10][at / 2 % 4];
            check(&bytes, at / 8);
        }
    }
}
