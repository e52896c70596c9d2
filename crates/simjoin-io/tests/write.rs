//! Can outputs be read back unchanged?

mod common;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use common::*;
use simjoin_core::{Error, RowPair, Side};
use simjoin_io::{GroupWriter, Ids, PairWriter, ReadOptions};

const PAIRS: [RowPair; 4] = [
    RowPair { left: 0, right: 1, overlap: 4, similarity: 0.8, left_input: Side::Left },
    RowPair { left: 0, right: 2, overlap: 5, similarity: 5.0, left_input: Side::Left },
    RowPair { left: 1, right: 2, overlap: 1, similarity: 1.0 / 3.0, left_input: Side::Left },
    RowPair { left: 1, right: 2, overlap: 1, similarity: 0.8, left_input: Side::Left },
];

fn write_pairs(path: &str, ids: Option<&Ids>) -> u64 {
    let mut writer = PairWriter::create(Some(path), ids, ids).unwrap();
    writer.write(&PAIRS[..1]).unwrap();
    writer.write(&[]).unwrap();
    writer.write(&PAIRS[1..]).unwrap();
    writer.finish().unwrap()
}

fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Reads ids from a file.
fn ids(values: [&str; 3], integers: bool) -> Ids {
    let folder = Folder::new();
    let lines = values.map(|value| match integers {
        true => format!("{{\"t\":\"x\",\"i\":{value}}}\n"),
        false => format!("{{\"t\":\"x\",\"i\":{}}}\n", serde_json::json!(value)),
    });
    let path = folder.write("a.jsonl", lines.concat());
    let options =
        ReadOptions { column: Some("t".into()), id: Some("i".into()), ..ReadOptions::default() };
    let ids = read(&path, &options).unwrap().left.ids.unwrap();
    assert_eq!(ids.are_integers(), integers);
    ids
}

fn read_parquet(path: &str) -> Vec<RecordBatch> {
    let file = std::fs::File::open(path).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(file, 1 << 20);
    reader.unwrap().map(Result::unwrap).collect()
}

fn read_arrow(path: &str) -> Vec<RecordBatch> {
    let file = std::fs::File::open(path).unwrap();
    let reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
    reader.map(Result::unwrap).collect()
}

#[test]
fn pairs_are_written_as_delimited_text() {
    let folder = Folder::new();
    let expected = "left\tright\toverlap\tsimilarity\n0\t1\t4\t0.8\n0\t2\t5\t5\n\
                    1\t2\t1\t0.3333333333333333\n1\t2\t1\t0.8\n";
    let bytes = write_pairs(&folder.path("a.tsv"), None);
    assert_eq!(text(&folder.path("a.tsv")), expected);
    assert_eq!(bytes, expected.len() as u64);
    write_pairs(&folder.path("a.csv"), None);
    assert_eq!(text(&folder.path("a.csv")), expected.replace('\t', ","));
    let names: Vec<_> = folder.names();
    assert_eq!(names, ["a.csv", "a.tsv"].map(Into::<std::path::PathBuf>::into));
}

#[test]
fn pairs_are_written_as_compressed_text() {
    let folder = Folder::new();
    write_pairs(&folder.path("a.tsv"), None);
    for name in ["a.tsv.gz", "a.tsv.zst"] {
        let bytes = write_pairs(&folder.path(name), None);
        let packed = std::fs::read(folder.path(name)).unwrap();
        assert_eq!(bytes, packed.len() as u64);
        let mut plain = Vec::new();
        if name.ends_with("gz") {
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&packed[..]), &mut plain)
                .unwrap();
        } else {
            plain = zstd::decode_all(&packed[..]).unwrap();
        }
        assert_eq!(String::from_utf8(plain).unwrap(), text(&folder.path("a.tsv")));
    }
}

#[test]
fn ids_of_any_text_can_be_read_back() {
    let folder = Folder::new();
    let values = ["tab\there, \"quoted\"", "two\nlines\r", "é"];
    let ids = ids(values, false);
    for (name, delimiter) in [("a.tsv", b'\t'), ("a.csv", b',')] {
        write_pairs(&folder.path(name), Some(&ids));
        let mut reader =
            csv::ReaderBuilder::new().delimiter(delimiter).from_path(folder.path(name)).unwrap();
        let records: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(records.len(), 4);
        for (record, pair) in records.iter().zip(PAIRS) {
            assert_eq!(&record[0], values[pair.left as usize]);
            assert_eq!(&record[1], values[pair.right as usize]);
            assert_eq!(record[3].parse::<f64>().unwrap(), pair.similarity);
        }
    }
    write_pairs(&folder.path("a.jsonl"), Some(&ids));
    for (line, pair) in text(&folder.path("a.jsonl")).lines().zip(PAIRS) {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["left"], values[pair.left as usize]);
        assert_eq!(value["right"], values[pair.right as usize]);
    }
}

#[test]
fn pairs_are_written_as_json_lines() {
    let folder = Folder::new();
    write_pairs(&folder.path("a.jsonl"), None);
    let lines = text(&folder.path("a.jsonl"));
    assert!(
        lines.starts_with("{\"left\":0,\"right\":1,\"overlap\":4,\"similarity\":0.8}\n"),
        "{lines}"
    );
    for (line, pair) in lines.lines().zip(PAIRS) {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["similarity"].as_f64(), Some(pair.similarity));
        assert_eq!(value["overlap"], pair.overlap);
    }
    write_pairs(&folder.path("b.jsonl"), Some(&ids(["-5", "70", "6"], true)));
    assert!(text(&folder.path("b.jsonl")).starts_with("{\"left\":-5,\"right\":70,"));
}

#[test]
fn pairs_are_written_as_columns() {
    let folder = Folder::new();
    let (strings, integers) = (ids(["x", "", "z"], false), ids(["-5", "70", "6"], true));
    for name in ["a.parquet", "a.arrow"] {
        let path = folder.path(name);
        let load = if name.ends_with("parquet") { read_parquet } else { read_arrow };
        for ids in [None, Some(&strings), Some(&integers)] {
            let bytes = write_pairs(&path, ids);
            assert_eq!(bytes, std::fs::metadata(&path).unwrap().len());
            let batches = load(&path);
            let batch = &batches[0];
            assert_eq!((batches.len(), batch.num_rows(), batch.num_columns()), (1, 4, 4));
            let names: Vec<_> = batch.schema().fields().iter().map(|f| f.name().clone()).collect();
            assert_eq!(names, ["left", "right", "overlap", "similarity"]);
            assert!(batch.schema().fields().iter().all(|field| !field.is_nullable()));
            for (row, pair) in PAIRS.iter().enumerate() {
                for (column, key) in [(0, pair.left), (1, pair.right)] {
                    let column = batch.column(column);
                    match ids {
                        Some(ids) if !ids.are_integers() => {
                            assert_eq!(column.as_string::<i32>().value(row), ids.get(key as usize));
                        }
                        ids => {
                            let expected =
                                ids.map_or(key.to_string(), |i| i.get(key as usize).into());
                            let value = column.as_primitive::<Int64Type>().value(row);
                            assert_eq!(value.to_string(), expected);
                        }
                    }
                }
                let overlap = batch.column(2).as_primitive::<Int64Type>().value(row);
                assert_eq!(overlap, i64::from(pair.overlap));
                assert_eq!(
                    batch.column(3).as_primitive::<Float64Type>().value(row),
                    pair.similarity
                );
            }
        }
    }
}

/// Writes the pairs of `PAIRS`; every other pair is within the right input.
fn write_with_itself(path: &str, left: Option<&Ids>, right: Option<&Ids>) -> Vec<RowPair> {
    let mut rows = PAIRS.to_vec();
    rows.iter_mut().step_by(2).for_each(|row| row.left_input = Side::Right);
    let mut writer = PairWriter::create_with_itself(Some(path), left, right).unwrap();
    writer.write(&rows).unwrap();
    writer.finish().unwrap();
    rows
}

#[test]
fn the_input_of_the_left_row_is_written_as_text() {
    let folder = Folder::new();
    let expected = "left\tright\toverlap\tsimilarity\tleft_input\n0\t1\t4\t0.8\tright\n\
                    0\t2\t5\t5\tleft\n1\t2\t1\t0.3333333333333333\tright\n1\t2\t1\t0.8\tleft\n";
    write_with_itself(&folder.path("a.tsv"), None, None);
    assert_eq!(text(&folder.path("a.tsv")), expected);
    write_with_itself(&folder.path("a.csv"), None, None);
    assert_eq!(text(&folder.path("a.csv")), expected.replace('\t', ","));
    // The rows of each input have its own ids, quoted where necessary.
    let (old, new) = (ids(["x", "y,", "z"], false), ids(["5", "6", "\"7\""], false));
    write_with_itself(&folder.path("b.csv"), Some(&old), Some(&new));
    assert_eq!(
        text(&folder.path("b.csv")),
        "left,right,overlap,similarity,left_input\n5,6,4,0.8,right\nx,\"\"\"7\"\"\",5,5,left\n\
         6,\"\"\"7\"\"\",1,0.3333333333333333,right\n\"y,\",\"\"\"7\"\"\",1,0.8,left\n"
    );
    write_with_itself(&folder.path("a.jsonl"), None, None);
    let lines = text(&folder.path("a.jsonl"));
    let first =
        "{\"left\":0,\"right\":1,\"overlap\":4,\"similarity\":0.8,\"left_input\":\"right\"}\n";
    assert!(lines.starts_with(first), "{lines}");
    // The left column holds numbers only if the ids of both inputs are numbers.
    let numbers = ids(["50", "60", "70"], true);
    for (old, left) in [(&old, ["\"50\"", "\"x\""]), (&numbers, ["50", "50"])] {
        write_with_itself(&folder.path("b.jsonl"), Some(old), Some(&numbers));
        let lines = text(&folder.path("b.jsonl"));
        for (line, left) in lines.lines().zip(left) {
            assert!(line.starts_with(&format!("{{\"left\":{left},\"right\":")), "{line}");
            assert!(line.contains("\"right\":60") || line.contains("\"right\":70"), "{line}");
        }
    }
    let path = folder.path("c.tsv");
    assert!(PairWriter::create_with_itself(Some(&path), Some(&old), None).is_err());
}

#[test]
fn the_input_of_the_left_row_is_written_as_a_column() {
    let folder = Folder::new();
    let (strings, integers) = (ids(["x", "", "z"], false), ids(["-5", "70", "6"], true));
    for name in ["a.parquet", "a.arrow"] {
        let path = folder.path(name);
        let load = if name.ends_with("parquet") { read_parquet } else { read_arrow };
        for (left, right) in [
            (None, None),
            (Some(&strings), Some(&integers)),
            (Some(&integers), Some(&strings)),
            (Some(&integers), Some(&integers)),
        ] {
            let rows = write_with_itself(&path, left, right);
            let batches = load(&path);
            let batch = &batches[0];
            assert_eq!((batches.len(), batch.num_rows(), batch.num_columns()), (1, 4, 5));
            let schema = batch.schema();
            assert_eq!(schema.field(4).name(), "left_input");
            assert!(schema.fields().iter().all(|field| !field.is_nullable()));
            for (at, row) in rows.iter().enumerate() {
                assert_eq!(batch.column(4).as_string::<i32>().value(at), row.left_input.name());
                let named = |ids: Option<&Ids>, row: u32| {
                    ids.map_or(row.to_string(), |ids| ids.get(row as usize).to_owned())
                };
                let of_left = if row.left_input == Side::Left { left } else { right };
                let wanted = [named(of_left, row.left), named(right, row.right)];
                for (column, wanted) in (0..2).zip(wanted) {
                    let column = batch.column(column);
                    let value = match column.as_string_opt::<i32>() {
                        Some(strings) => strings.value(at).to_owned(),
                        None => column.as_primitive::<Int64Type>().value(at).to_string(),
                    };
                    assert_eq!(value, wanted, "{name}");
                }
            }
        }
    }
}

#[test]
fn many_rows_are_written_in_batches() {
    let folder = Folder::new();
    let rows: Vec<RowPair> = (0..200_000u32)
        .map(|n| RowPair {
            left: n,
            right: n * 3,
            overlap: n % 7,
            similarity: f64::from(n) / 9.0,
            left_input: Side::Left,
        })
        .collect();
    for name in ["a.parquet", "a.arrow", "a.tsv"] {
        let path = folder.path(name);
        let mut writer = PairWriter::create(Some(&path), None, None).unwrap();
        rows.chunks(999).for_each(|chunk| writer.write(chunk).unwrap());
        writer.write(&rows).unwrap();
        writer.finish().unwrap();
        if name == "a.tsv" {
            let lines = text(&path);
            assert_eq!(lines.lines().count(), 400_001);
            for (line, row) in lines.lines().skip(1).zip(rows.iter().chain(&rows)) {
                let expected =
                    format!("{}\t{}\t{}\t{}", row.left, row.right, row.overlap, row.similarity);
                assert_eq!(line, expected);
            }
            continue;
        }
        let batches = if name == "a.parquet" { read_parquet(&path) } else { read_arrow(&path) };
        let lefts: Vec<i64> = batches
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
            .collect();
        assert!(lefts.iter().copied().eq((0..200_000).chain(0..200_000)));
        assert!(batches.iter().all(|batch| batch.num_rows() <= 1 << 20));
    }
}

#[test]
fn outputs_without_rows_have_a_header() {
    let folder = Folder::new();
    for name in ["a.tsv", "a.jsonl", "a.parquet", "a.arrow"] {
        PairWriter::create(Some(&folder.path(name)), None, None).unwrap().finish().unwrap();
    }
    assert_eq!(text(&folder.path("a.tsv")), "left\tright\toverlap\tsimilarity\n");
    assert_eq!(text(&folder.path("a.jsonl")), "");
    assert!(read_parquet(&folder.path("a.parquet")).is_empty());
    assert!(read_arrow(&folder.path("a.arrow")).is_empty());
}

#[test]
fn groups_are_written_in_every_format() {
    let folder = Folder::new();
    let ids = ids(["x", "y", "z"], false);
    let rows = [0, 1, 0];
    for (name, ids, expected) in [
        ("a.tsv", None, "row\tgroup\n0\t0\n1\t1\n2\t0\n"),
        ("b.csv", Some(&ids), "row,group\nx,x\ny,y\nz,x\n"),
        (
            "c.jsonl",
            Some(&ids),
            "{\"row\":\"x\",\"group\":\"x\"}\n{\"row\":\"y\",\"group\":\"y\"}\n\
             {\"row\":\"z\",\"group\":\"x\"}\n",
        ),
    ] {
        let mut writer = GroupWriter::create(Some(&folder.path(name)), ids).unwrap();
        writer.write(&rows).unwrap();
        writer.finish().unwrap();
        assert_eq!(text(&folder.path(name)), expected);
    }
    let path = folder.path("d.parquet");
    let mut writer = GroupWriter::create(Some(&path), None).unwrap();
    writer.write(&rows).unwrap();
    writer.finish().unwrap();
    let batch = &read_parquet(&path)[0];
    assert_eq!(batch.num_columns(), 2);
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().values(), &[0, 1, 2]);
}

#[test]
fn unfinished_outputs_change_no_files() {
    let folder = Folder::new();
    for name in ["a.tsv", "a.parquet", "a.arrow", "a.csv.zst"] {
        let path = folder.write(name, "old");
        let mut writer = PairWriter::create(Some(&path), None, None).unwrap();
        writer.write(&PAIRS).unwrap();
        let partial = folder.names().into_iter().find(|other| *other != std::path::Path::new(name));
        assert!(partial.unwrap().to_str().unwrap().starts_with('.'));
        assert!(folder.names()[0].to_str().unwrap().ends_with(".partial"));
        drop(writer);
        assert_eq!(text(&path), "old");
        std::fs::remove_file(&path).unwrap();
        assert!(folder.names().is_empty());
    }
}

fn create_error(path: &str) -> Error {
    match PairWriter::create(Some(path), None, None) {
        Ok(_) => panic!("{path} was created"),
        Err(error) => error,
    }
}

#[test]
fn targets_that_cannot_be_written_are_refused() {
    let folder = Folder::new();
    let error = create_error(&folder.path("none/a.tsv"));
    assert!(matches!(&error, Error::Io { path, .. } if path.ends_with("none/a.tsv")));
    assert!(error.to_string().contains("none does not exist"), "{error}");
    std::fs::create_dir(folder.path("dir.tsv")).unwrap();
    let error = create_error(&folder.path("dir.tsv"));
    assert!(matches!(&error, Error::Io { .. }));
    assert!(error.to_string().ends_with("dir.tsv: is a directory; a file name was expected"));
    let error = create_error(&folder.path("a.txt"));
    assert!(matches!(&error, Error::Config(_)));
    assert!(error.to_string().contains(".tsv, .csv, .jsonl"), "{error}");
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn folders_without_write_permission_are_refused() {
        let folder = Folder::new();
        let locked = folder.path("locked");
        std::fs::create_dir(&locked).unwrap();
        std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o500)).unwrap();
        // A privileged user may write everywhere.
        if std::fs::write(format!("{locked}/probe"), "").is_err() {
            let error = create_error(&format!("{locked}/a.tsv"));
            assert!(error.to_string().contains("locked/a.tsv: "), "{error}");
            assert!(error.to_string().to_lowercase().contains("permission denied"), "{error}");
        }
    }

    #[test]
    fn new_files_have_the_usual_permissions() {
        let folder = Folder::new();
        let mode = |name: &str| std::fs::metadata(folder.path(name)).unwrap().permissions().mode();
        folder.write("ordinary", "");
        write_pairs(&folder.path("a.tsv"), None);
        assert_eq!(mode("a.tsv"), mode("ordinary"));
        let private = std::fs::Permissions::from_mode(0o640);
        std::fs::set_permissions(folder.path("a.tsv"), private).unwrap();
        write_pairs(&folder.path("a.tsv"), None);
        assert_eq!(mode("a.tsv") & 0o777, 0o640);
    }

    #[test]
    fn links_to_files_are_kept() {
        let folder = Folder::new();
        folder.write("real.tsv", "old");
        std::os::unix::fs::symlink(folder.path("real.tsv"), folder.path("link.tsv")).unwrap();
        write_pairs(&folder.path("link.tsv"), None);
        assert!(std::fs::symlink_metadata(folder.path("link.tsv")).unwrap().is_symlink());
        assert!(text(&folder.path("real.tsv")).starts_with("left"));
    }

    #[test]
    fn links_to_missing_files_are_followed() {
        let folder = Folder::new();
        std::os::unix::fs::symlink("new.tsv", folder.path("link.tsv")).unwrap();
        write_pairs(&folder.path("link.tsv"), None);
        assert!(std::fs::symlink_metadata(folder.path("link.tsv")).unwrap().is_symlink());
        assert!(text(&folder.path("new.tsv")).starts_with("left"));
        std::os::unix::fs::symlink("round.tsv", folder.path("round.tsv")).unwrap();
        let error = create_error(&folder.path("round.tsv")).to_string();
        assert!(error.ends_with("round.tsv: too many levels of symbolic links"), "{error}");
    }

    #[test]
    fn temporary_files_of_ended_processes_are_removed() {
        let folder = Folder::new();
        let abandoned = folder.write(".simjoin-abcdef.partial", "half");
        let other = folder.write(".simjoin-abcdef.tsv", "something else");
        // A live process holds the lock of its file.
        let alive = folder.write(".simjoin-ghijkl.partial", "half");
        let lock = std::fs::File::open(&alive).unwrap();
        lock.lock().unwrap();
        let one = PairWriter::create(Some(&folder.path("a.tsv")), None, None).unwrap();
        write_pairs(&folder.path("b.tsv"), None);
        one.finish().unwrap();
        assert!(!std::fs::exists(abandoned).unwrap());
        assert!(std::fs::exists(other).unwrap() && std::fs::exists(alive).unwrap());
        assert_eq!(folder.names().len(), 4);
    }

    #[test]
    fn temporary_files_are_as_private_as_their_targets() {
        let folder = Folder::new();
        let path = folder.write("a.tsv", "old");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let writer = PairWriter::create(Some(&path), None, None).unwrap();
        for name in folder.names() {
            let metadata = std::fs::metadata(folder.path(name.to_str().unwrap())).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        }
        writer.finish().unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn special_files_are_written_directly() {
        write_pairs("/dev/null", None);
        assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
        // The error occurs when the buffer is written, at the latest at the end.
        let many = vec![PAIRS[0]; 200_000];
        for rows in [&PAIRS[..], &many] {
            let mut writer = PairWriter::create(Some("/dev/full"), None, None).unwrap();
            let written = writer.write(rows).and_then(|()| writer.finish());
            let error = written.unwrap_err().to_string();
            assert!(error.starts_with("/dev/full: No space left on device"), "{error}");
        }
        let folder = Folder::new();
        for name in ["a.tsv", "a.parquet", "a.arrow", "a.tsv.gz", "a.jsonl.zst"] {
            std::os::unix::fs::symlink("/dev/full", folder.path(name)).unwrap();
            let error = PairWriter::create(Some(&folder.path(name)), None, None)
                .and_then(|mut writer| {
                    writer.write(&many)?;
                    writer.finish()
                })
                .unwrap_err()
                .to_string();
            assert!(
                error.ends_with(&format!("{name}: No space left on device (os error 28)")),
                "{error}"
            );
        }
    }
}
