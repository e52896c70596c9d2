//! Are vectors read from every format, and other files refused?

mod common;

use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{
    ArrayRef, FixedSizeListArray, Int64Array, LargeListArray, ListArray, RecordBatch,
};
use common::{Folder, gzip, zstd};
use simjoin_core::{Elements, VectorCollection};
use simjoin_io::{ReadVectors, VectorFormat, VectorOptions, npy_header, read_vectors};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

fn read_with(path: &str, options: &VectorOptions) -> simjoin_core::Result<ReadVectors> {
    read_vectors(path, options, &AtomicU64::new(0))
}

fn read(path: &str) -> VectorCollection {
    read_with(path, &VectorOptions::default()).unwrap().vectors
}

fn error(path: &str, options: &VectorOptions) -> String {
    let error = read_with(path, options).expect_err(path).to_string();
    assert!(!error.contains('\n'), "{error}");
    match path.rsplit_once('/') {
        Some((folder, _)) => error.replace(&format!("{folder}/"), ""),
        None => error,
    }
}

fn plain(path: &str) -> String {
    error(path, &VectorOptions::default())
}

fn columns(column: Option<&str>, id: Option<&str>) -> VectorOptions {
    VectorOptions { format: None, column: column.map(Into::into), id: id.map(Into::into) }
}

fn npy(kind: &str, fortran: bool, shape: &[u64], data: &[u8]) -> Vec<u8> {
    let mut file = npy_header(kind, shape);
    if fortran {
        let at = file.windows(5).position(|bytes| bytes == b"False").unwrap();
        file[at..at + 5].copy_from_slice(b"True ");
    }
    file.extend_from_slice(data);
    file
}

const ROWS: [[f32; 3]; 2] = [[1.0, -2.5, 3.0], [0.0, 1e-3, 7.0]];

fn f32s(bytes: fn(f32) -> [u8; 4]) -> Vec<u8> {
    ROWS.iter().flatten().flat_map(|&x| bytes(x)).collect()
}

fn assert_rows(vectors: &VectorCollection, wide: bool) {
    assert_eq!((vectors.len(), vectors.dimension()), (2, 3));
    let flat = ROWS.iter().flatten();
    let expected = match wide {
        true => Elements::F64(flat.map(|&x| f64::from(x)).collect()),
        false => Elements::F32(flat.copied().collect()),
    };
    assert_eq!(vectors.elements(), &expected);
}

#[test]
fn npy_is_read_in_every_order_and_precision() {
    let folder = Folder::new();
    let wide: Vec<u8> = ROWS.iter().flatten().flat_map(|&x| f64::from(x).to_le_bytes()).collect();
    let columns: Vec<u8> =
        (0..3).flat_map(|c| (0..2).flat_map(move |r| ROWS[r][c].to_be_bytes())).collect();
    let small = npy("<f4", false, &[2, 3], &f32s(f32::to_le_bytes));
    assert_rows(&read(&folder.write("a.npy", &small)), false);
    assert_rows(&read(&folder.write("a.npy.gz", gzip(&small))), false);
    assert_rows(&read(&folder.write("a.npy.zst", zstd(&small))), false);
    assert_rows(
        &read(&folder.write("b.npy", npy(">f4", false, &[2, 3], &f32s(f32::to_be_bytes)))),
        false,
    );
    assert_rows(&read(&folder.write("c.npy", npy("<f8", false, &[2, 3], &wide))), true);
    let transposed = npy(">f4", true, &[2, 3], &columns);
    assert_rows(&read(&folder.write("d.npy.gz", gzip(&transposed))), false);
    assert_rows(&read(&folder.write("d.npy", npy(">f4", true, &[2, 3], &columns))), false);
    let none = read(&folder.write("e.npy", npy("<f4", false, &[0, 5], b"")));
    assert_eq!((none.len(), none.dimension()), (0, 5));
}

#[test]
fn invalid_npy_files_are_refused() {
    let folder = Folder::new();
    let data = f32s(f32::to_le_bytes);
    for (bytes, message) in [
        (vec![], "a.npy: the input is empty; an npy file was expected"),
        (b"PK\x03\x04 something else".to_vec(), "not an npy file"),
        (npy("<f4", false, &[3, 3], &data), "3 × 3 numbers of 4 bytes and the header are"),
        (npy("<f4", false, &[2, 2], &data), "but the file has"),
        (npy("<i8", false, &[2, 3], &data), "the array has numbers of type `i8`; f4 or f8"),
        (
            npy("<f4", false, &[6], &data),
            "shape (6); two dimensions, vectors × elements, were expected",
        ),
        (npy("<f4", false, &[2, 0], b""), "dimension 0"),
        (npy("<f4", false, &[99999999999, 99999999999], b""), "which no memory can hold"),
        (npy("<f4", false, &[2, 3], &data)[..30].to_vec(), "ends within its npy header"),
        (b"\x93NUMPY\x09\x00aaaa".to_vec(), "npy version 9"),
    ] {
        let error = plain(&folder.write("a.npy", &bytes));
        assert!(error.contains(message), "{error}");
    }
    // The length of a compressed file is unknown, so no memory is allocated for the size in its header.
    for fortran in [false, true] {
        let lies = gzip(&npy("<f8", fortran, &[1 << 30, 1 << 15], &data));
        assert_eq!(
            plain(&folder.write("b.npy.gz", lies)),
            "b.npy.gz: fewer than 35184372088832 numbers: truncated file"
        );
    }
    let none = gzip(&npy("<f4", true, &[1 << 60, 0], b""));
    assert!(plain(&folder.write("b.npy.gz", none)).contains("dimension 0"));
    let more = gzip(&[npy("<f4", false, &[2, 3], &data), vec![0]].concat());
    assert!(
        plain(&folder.write("c.npy.gz", more))
            .contains("more than the 6 numbers that its header announces")
    );
    let mut nan = data.clone();
    nan[16..20].copy_from_slice(&f32::NAN.to_le_bytes());
    let error = plain(&folder.write("d.npy", npy("<f4", false, &[2, 3], &nan)));
    assert_eq!(
        error,
        "d.npy: row 1 (counting from 0): element 1 is NaN; finite numbers were expected"
    );
    let error = error_of_column(&folder.write("e.npy", npy("<f4", false, &[2, 3], &data)));
    assert!(error.contains("column needs a format with columns"), "{error}");
}

fn error_of_column(path: &str) -> String {
    error(path, &columns(Some("x"), None))
}

#[test]
fn fvecs_and_bvecs_are_read_or_refused() {
    let folder = Folder::new();
    let fvecs: Vec<u8> = ROWS
        .iter()
        .flat_map(|row| {
            3i32.to_le_bytes().into_iter().chain(row.iter().flat_map(|x| x.to_le_bytes()))
        })
        .collect();
    assert_rows(&read(&folder.write("a.fvecs", &fvecs)), false);
    assert_rows(&read(&folder.write("a.fvecs.zst", zstd(&fvecs))), false);
    let bvecs = [2, 0, 0, 0, 7, 255, 2, 0, 0, 0, 0, 1];
    let vectors = read(&folder.write("a.bvecs", bvecs));
    assert_eq!(vectors.elements(), &Elements::F32(vec![7.0, 255.0, 0.0, 1.0]));
    for (name, bytes, message) in [
        (
            "b.fvecs",
            &fvecs[..18],
            "b.fvecs: row 1 (counting from 0): the file ends within a dimension",
        ),
        ("c.fvecs", &fvecs[..31], "row 1 (counting from 0): fewer than 3 elements: truncated file"),
        ("d.fvecs", &[][..], "d.fvecs: no vectors: the input is empty"),
        (
            "e.bvecs",
            &[0, 0, 0, 0][..],
            "row 0 (counting from 0): the vector has dimension 0; expected 1 to",
        ),
        (
            "f.bvecs",
            &[1, 0, 0, 0, 5, 2, 0, 0, 0, 5, 5][..],
            "row 1 (counting from 0): a vector of dimension 2; the first has 1",
        ),
        ("g.fvecs", b"some text that is no fvecs", "the vector has dimension"),
    ] {
        let error = plain(&folder.write(name, bytes));
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn csv_is_read_with_and_without_a_header() {
    let folder = Folder::new();
    for (name, text) in [
        ("a.csv", "1,-2.5,3\n0,0.001,7\n"),
        ("b.csv", "x,y,z\n1, -2.5 ,3\n0,1e-3,7.0"),
        ("c.tsv", "1\t-2.5\t3\n0\t0.001\t7\n"),
    ] {
        let vectors = read(&folder.write(name, text));
        let expected = Elements::F64(vec![1.0, -2.5, 3.0, 0.0, 0.001, 7.0]);
        assert_eq!(vectors.elements(), &expected, "{name}");
    }
    let path = folder.write("d.csv", "v,name\n\"[1, 2, 3]\",a\n4 5;6,b\n");
    let found = read_with(&path, &columns(Some("v"), Some("name"))).unwrap();
    assert_eq!(found.vectors.elements(), &Elements::F64(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    assert_eq!(found.ids.unwrap().get(1), "b");
    let path = folder.write("e.csv", "name,x,y\nn1,1,2\nn2,3,4\n");
    let found = read_with(&path, &columns(None, Some("name"))).unwrap();
    assert_eq!(found.vectors.elements(), &Elements::F64(vec![1.0, 2.0, 3.0, 4.0]));
    // If columns are named, the first record is a header, even if it holds numbers.
    let path = folder.write("e2.csv", ",0,1\n7,1,2\n8,3,4\n");
    let found = read_with(&path, &columns(None, Some(""))).unwrap();
    assert_eq!(found.vectors.elements(), &Elements::F64(vec![1.0, 2.0, 3.0, 4.0]));
    assert_eq!(found.ids.unwrap().get(1), "8");
    for (name, text, options, message) in [
        ("f.csv", "", columns(None, None), "f.csv: no vectors: the input is empty"),
        (
            "g.csv",
            "x,y\n1,2\n3,four\n",
            columns(None, None),
            "g.csv: line 3: `four` in column `y` is not a number",
        ),
        (
            "h.csv",
            "1,2\n3\n",
            columns(None, None),
            "h.csv: line 2: 1 fields; the first record has 2",
        ),
        ("i.csv", "1,2\n3,nan\n", columns(None, None), "row 1 (counting from 0): element 1 is NaN"),
        (
            "j.csv",
            "x,y\n1,2\n",
            columns(Some("z"), None),
            "no column `z`; the columns are `x`, `y`",
        ),
        ("k.csv", "1,2\n3,4\n", columns(None, Some("x")), "id needs a header row"),
        (
            "l.csv",
            "v,i\n1 2,a\n1 2 3,b\n",
            columns(Some("v"), None),
            "line 3: a vector of dimension 3; the first has 2",
        ),
        (
            "m.csv",
            "x,i\n1,a\n2,a\n",
            columns(None, Some("i")),
            "the id `a` was already used at line 2",
        ),
        ("n.csv", "x,y\n", columns(None, None), "n.csv: no vectors"),
        // A vector with an empty or mistyped field is not a header.
        (
            "o.csv",
            "1,,3\n4,5,6\n",
            columns(None, None),
            "o.csv: line 1: `` in field 2 is not a number; expected a vector of numbers, or a header",
        ),
        ("p.csv", "1,2.x\n4,5\n", columns(None, None), "line 1: `2.x` in field 2 is not a number"),
        // Tables without column names as pandas writes them, with and without the index.
        (
            "q.csv",
            ",0,1\n0,1.5,2.5\n",
            columns(None, None),
            "line 1: `` in field 1 is not a number",
        ),
        ("r.csv", "0,1\n1.5,2.5\n", columns(None, None), "line 1: the numbers from 0 to 1 may be"),
    ] {
        let found = error(&folder.write(name, text), &options);
        assert!(found.contains(message), "{found}");
    }
}

fn write_arrow(folder: &Folder, name: &str, batch: &RecordBatch) -> String {
    let path = folder.path(name);
    let file = std::fs::File::create(&path).unwrap();
    if name.ends_with(".parquet") {
        let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
    } else {
        let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &batch.schema()).unwrap();
        writer.write(batch).unwrap();
        writer.finish().unwrap();
    }
    path
}

#[test]
fn vectors_are_read_from_columns_of_lists() {
    let folder = Folder::new();
    let lists = || ROWS.iter().map(|row| Some(row.iter().map(|&x| Some(x))));
    let wide = || ROWS.iter().map(|row| Some(row.iter().map(|&x| Some(f64::from(x)))));
    let columns_of: [(ArrayRef, bool); 3] = [
        (Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(lists())), false),
        (Arc::new(LargeListArray::from_iter_primitive::<Float64Type, _, _>(wide())), true),
        (Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(lists(), 3)), false),
    ];
    for (column, is_wide) in columns_of {
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![40, 41]));
        let batch = RecordBatch::try_from_iter([("id", ids), ("v", column)]).unwrap();
        for name in ["a.parquet", "a.arrow"] {
            let path = write_arrow(&folder, name, &batch);
            let found = read_with(&path, &columns(Some("v"), Some("id"))).unwrap();
            assert_rows(&found.vectors, is_wide);
            let ids = found.ids.unwrap();
            assert!(ids.are_integers() && ids.get(1) == "41");
            assert!(error(&path, &columns(Some("id"), None)).contains("lists of 32-bit or 64-bit"));
        }
    }
    let ragged = vec![Some(vec![Some(1f32), Some(2.0)]), Some(vec![Some(1.0)])];
    let nulls = vec![Some(vec![Some(1f32)]), None, Some(vec![None])];
    for (lists, message) in [
        (ragged, "row 1 (counting from 0): a vector of dimension 1; the first has 2"),
        (nulls, "row 1 (counting from 0): null in column `v`"),
        (vec![Some(vec![Some(1.0)]), Some(vec![None])], "row 1 (counting from 0): null in a list"),
        (vec![Some(vec![])], "a vector without numbers"),
        (vec![], "no vectors"),
    ] {
        let column: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(lists));
        let batch = RecordBatch::try_from_iter([("v", column)]).unwrap();
        for name in ["b.parquet", "b.arrow"] {
            let found = plain(&write_arrow(&folder, name, &batch));
            assert!(found.contains(message), "{found}");
        }
    }
}

#[test]
fn random_bytes_are_read_or_refused_on_one_line() {
    let folder = Folder::new();
    let formats = ["npy", "fvecs", "bvecs", "csv", "tsv", "parquet", "arrow"];
    let starts: [&[u8]; 5] =
        [b"", b"\x93NUMPY\x01\x00\x10\x00{'descr'", b"\x02\0\0\0", b"PAR1PAR1PAR1", b"1,2\n"];
    for start in starts {
        for tail in 0..40usize {
            let bytes: Vec<u8> = start
                .iter()
                .copied()
                .chain((0..tail).map(|at| (at * 37 + tail * 11) as u8))
                .collect();
            let path = folder.write("x", &bytes);
            for format in formats {
                let format: VectorFormat = format.parse().unwrap();
                let options = VectorOptions { format: Some(format), ..VectorOptions::default() };
                if let Err(error) = read_with(&path, &options) {
                    assert!(!error.to_string().contains('\n'), "{error}");
                }
            }
        }
    }
}
