//! Helpers that the tests of this folder share.
#![allow(dead_code)]

use simjoin_core::RawSets;
use simjoin_io::{ReadOptions, ReadSets, read_sets};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

/// A temporary folder that is removed at the end of the test.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    /// Returns the names in the folder, sorted.
    pub fn names(&self) -> Vec<PathBuf> {
        let mut names: Vec<PathBuf> = std::fs::read_dir(self.0.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into())
            .collect();
        names.sort();
        names
    }
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

pub fn read(path: &str, options: &ReadOptions) -> simjoin_core::Result<ReadSets> {
    let options = ReadOptions { threads: 2, ..options.clone() };
    read_sets(path, None, &options, &AtomicU64::new(0))
}

/// Returns the error message of an input, without the folder's path.
pub fn read_error(path: &str, options: &ReadOptions) -> String {
    let error = read(path, options).expect_err(path).to_string();
    assert!(!error.contains('\n'), "one line: {error}");
    match path.rsplit_once('/') {
        Some((folder, _)) => error.replace(&format!("{folder}/"), ""),
        None => error,
    }
}

pub fn rows(sets: &RawSets) -> Vec<Vec<u32>> {
    sets.offsets.windows(2).map(|w| sets.tokens[w[0]..w[1]].to_vec()).collect()
}

/// Writes a batch as Parquet, as an Arrow file and as an Arrow stream, several batches each.
pub fn write_columnar(
    folder: &Folder,
    name: &str,
    batch: &arrow_array::RecordBatch,
) -> Vec<String> {
    use parquet::basic::Compression;
    use parquet::file::properties::WriterProperties;
    let half = batch.num_rows() / 2;
    let parts = [batch.slice(0, half), batch.slice(half, batch.num_rows() - half)];
    let mut paths = Vec::new();
    for (tag, compression) in [
        ("plain", Compression::UNCOMPRESSED),
        ("snappy", Compression::SNAPPY),
        ("gzip", Compression::GZIP(parquet::basic::GzipLevel::default())),
        ("lz4", Compression::LZ4_RAW),
        ("brotli", Compression::BROTLI(parquet::basic::BrotliLevel::default())),
        ("zstd", Compression::ZSTD(parquet::basic::ZstdLevel::default())),
    ] {
        let path = folder.path(&format!("{name}-{tag}.parquet"));
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_max_row_group_row_count(Some(2))
            .build();
        let file = std::fs::File::create(&path).unwrap();
        let mut writer =
            parquet::arrow::ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        parts.iter().for_each(|part| writer.write(part).unwrap());
        writer.close().unwrap();
        paths.push(path);
    }
    for (tag, compression) in [
        ("plain", None),
        ("lz4", Some(arrow_ipc::CompressionType::LZ4_FRAME)),
        ("zstd", Some(arrow_ipc::CompressionType::ZSTD)),
    ] {
        use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
        let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
        let schema = batch.schema();
        let path = folder.path(&format!("{name}-{tag}.arrow"));
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = FileWriter::try_new_with_options(file, &schema, options.clone()).unwrap();
        parts.iter().for_each(|part| writer.write(part).unwrap());
        writer.finish().unwrap();
        paths.push(path);
        let path = folder.path(&format!("{name}-{tag}-stream.arrow"));
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = StreamWriter::try_new_with_options(file, &schema, options).unwrap();
        parts.iter().for_each(|part| writer.write(part).unwrap());
        writer.finish().unwrap();
        paths.push(path);
    }
    paths
}
