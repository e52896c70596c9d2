//! Gives random bytes to every reader, which must return sets, vectors or one clear line, and never panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use simjoin_io::{
    Format, ReadOptions, Tokenizer, VectorFormat, VectorOptions, read_numbers, read_sets,
    read_vectors,
};
use std::io::Write;
use std::sync::atomic::AtomicU64;

const FORMATS: [Format; 6] =
    [Format::Lines, Format::Csv, Format::Tsv, Format::Jsonl, Format::Parquet, Format::Arrow];

const VECTOR_FORMATS: [VectorFormat; 7] = [
    VectorFormat::Npy,
    VectorFormat::Fvecs,
    VectorFormat::Bvecs,
    VectorFormat::Csv,
    VectorFormat::Tsv,
    VectorFormat::Parquet,
    VectorFormat::Arrow,
];

fuzz_target!(|data: &[u8]| {
    let [choice, content @ ..] = data else { return };
    let tokenizer = match choice & 3 {
        0 => Tokenizer::Whitespace,
        1 => Tokenizer::Words,
        _ => Tokenizer::Qgrams(usize::from(choice & 3)),
    };
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(content).unwrap();
    let path = file.path().to_str().unwrap();
    for format in FORMATS {
        let columns = format != Format::Lines && choice & 8 != 0;
        let options = ReadOptions {
            tokenizer,
            multiset: choice & 4 != 0,
            format: Some(format),
            column: columns.then(|| "a".into()),
            id: (columns && choice & 16 != 0).then(|| "b".into()),
            threads: 1,
        };
        match read_sets(path, None, &options, &AtomicU64::new(0)) {
            Ok(input) => {
                let (sets, _) =
                    simjoin::engine::prepare(input.left.sets, None, input.universe).unwrap();
                sets.validate().unwrap();
            }
            Err(error) => assert!(error.to_string().contains(path), "{error}"),
        }
    }
    for format in VECTOR_FORMATS {
        let columns = choice & 8 != 0
            && !matches!(format, VectorFormat::Npy | VectorFormat::Fvecs | VectorFormat::Bvecs);
        let options = VectorOptions {
            format: Some(format),
            column: columns.then(|| "a".into()),
            id: (columns && choice & 16 != 0).then(|| "b".into()),
        };
        match read_vectors(path, &options, &AtomicU64::new(0)) {
            Ok(input) => assert!(input.vectors.dimension() > 0),
            Err(error) => assert!(error.to_string().contains(path), "{error}"),
        }
    }
    for ending in [".txt", ".u32", ".npy"] {
        let mut file = tempfile::Builder::new().suffix(ending).tempfile().unwrap();
        file.write_all(content).unwrap();
        let path = file.path().to_str().unwrap();
        if let Err(error) = read_numbers(path, &AtomicU64::new(0)) {
            let text = error.to_string();
            assert!(text.contains(path) && !text.contains('\n'), "{text}");
        }
    }
});
