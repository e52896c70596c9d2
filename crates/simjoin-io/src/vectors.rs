//! How are vectors read?
//!
//! [`read_vectors`] reads one file at a time. Elements go directly into the collection, with only a buffer in addition.

use crate::block::BlockIds;
use crate::dictionary::{Hasher, Place};
use crate::ids::{Ids, IdsBuilder};
use crate::memory::Batches;
use crate::options::BlockSize;
use crate::path::{display_name, ending};
use crate::read::on_one_line;
use crate::readers::vectors::{self, VectorRows};
use crate::readers::{Columns, columnar};
use crate::source;
use simjoin_core::{Error, Parameter, Result, VectorCollection};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::AtomicU64;

/// The format of a file of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VectorFormat {
    /// A NumPy array of two dimensions, f32 or f64.
    Npy,
    /// For each vector, its dimension in four bytes, then its elements as f32.
    Fvecs,
    /// Like [`Fvecs`](Self::Fvecs), but each element is one byte.
    Bvecs,
    /// Comma-separated values: one element per field, or one field with all elements.
    Csv,
    /// Like [`Csv`](Self::Csv), but with tabs.
    Tsv,
    /// Apache Parquet: a column of lists.
    Parquet,
    /// Apache Arrow IPC, file or stream: a column of lists.
    Arrow,
}

impl VectorFormat {
    const NAMES: [(VectorFormat, &'static str); 7] = [
        (VectorFormat::Npy, "npy"),
        (VectorFormat::Fvecs, "fvecs"),
        (VectorFormat::Bvecs, "bvecs"),
        (VectorFormat::Csv, "csv"),
        (VectorFormat::Tsv, "tsv"),
        (VectorFormat::Parquet, "parquet"),
        (VectorFormat::Arrow, "arrow"),
    ];

    /// Returns the format that a path's ending stands for, without `.gz` or `.zst`.
    pub fn of_path<P: AsRef<Path> + ?Sized>(path: &P) -> Result<VectorFormat> {
        match ending(path.as_ref()).0.as_str() {
            "feather" | "ipc" => Ok(VectorFormat::Arrow),
            ending => Self::NAMES.iter().find(|(_, name)| ending == *name).map(|one| one.0).ok_or_else(
                || {
                    let message = format!(
                        "must say how the vectors of {} are written: npy, fvecs, bvecs, csv, tsv, parquet or \
                         arrow",
                        display_name(path.as_ref())
                    );
                    Error::parameter(Parameter::Format, message)
                },
            ),
        }
    }
}

impl FromStr for VectorFormat {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::NAMES.iter().find(|one| one.1 == name).map(|one| one.0).ok_or_else(|| {
            Error::Config(format!(
                "unknown format `{name}`; expected npy, fvecs, bvecs, csv, tsv, parquet or arrow"
            ))
        })
    }
}

impl fmt::Display for VectorFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES.iter().find(|one| one.0 == *self).map_or("", |one| one.1))
    }
}

/// The options for reading vectors.
#[derive(Clone, Debug, Default)]
pub struct VectorOptions {
    /// The format; by default the path's ending decides.
    pub format: Option<VectorFormat>,
    /// The column with the vectors. Without it, every column of a CSV file except the ids is an element.
    pub column: Option<String>,
    /// The column with the ids of the rows; by default a row is named by its number.
    pub id: Option<String>,
}

/// The rows of one input.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadVectors {
    /// The vectors.
    pub vectors: VectorCollection,
    /// The ids of the rows, if an id column was requested.
    pub ids: Option<Ids>,
}

/// Reads a file of vectors.
///
/// The path `-` is standard input; gzip and zstd are decompressed. Adds the number of bytes read from the input to
/// `bytes_read`, so that callers can show progress.
pub fn read_vectors<P: AsRef<Path> + ?Sized>(
    path: &P,
    options: &VectorOptions,
    bytes_read: &AtomicU64,
) -> Result<ReadVectors> {
    read(path.as_ref(), options, bytes_read).map_err(on_one_line)
}

fn read(path: &Path, options: &VectorOptions, bytes_read: &AtomicU64) -> Result<ReadVectors> {
    let format = options.format.map_or_else(|| VectorFormat::of_path(path), Ok)?;
    let name = &display_name(path);
    let columns = Columns { column: options.column.clone(), id: options.id.clone() };
    if matches!(format, VectorFormat::Npy | VectorFormat::Fvecs | VectorFormat::Bvecs) {
        columns.refuse(|| format!("{name} is read as {format}"))?;
    }
    let mut rows = VectorRows::default();
    let mut ids = BlockIds { integers: true, ..BlockIds::default() };
    let place = match format {
        VectorFormat::Npy => {
            let vectors = vectors::npy(path, bytes_read)?;
            return Ok(ReadVectors { vectors, ids: None });
        }
        VectorFormat::Fvecs | VectorFormat::Bvecs => {
            let source = source::open(path, bytes_read)?;
            vectors::vecs(source, format == VectorFormat::Bvecs, &mut rows)?;
            Place::Row
        }
        VectorFormat::Csv | VectorFormat::Tsv => {
            let delimiter = if format == VectorFormat::Csv { b',' } else { b'\t' };
            let source = source::open(path, bytes_read)?;
            vectors::csv(source, delimiter, &columns, &mut rows, &mut ids)?;
            Place::Line
        }
        VectorFormat::Parquet | VectorFormat::Arrow => {
            let kind = columnar::ColumnKind::Vectors;
            let mut reader = match format {
                VectorFormat::Parquet => {
                    columnar::parquet(path, bytes_read, &columns, kind, BlockSize::NUMBERS)?
                }
                _ => columnar::arrow(path, bytes_read, &columns, kind, BlockSize::NUMBERS)?,
            };
            while reader.next_vectors(&mut rows, &mut ids)? {}
            Place::Row
        }
    };
    let ids = options.id.as_ref().map(|_| check_ids(name, place, &ids)).transpose()?;
    Ok(ReadVectors { vectors: rows.finish(name)?, ids })
}

/// Reads the vectors of a table in memory, as [`read_vectors`] does with a file.
pub fn collect_vectors(table: Batches<'_>) -> Result<ReadVectors> {
    let (name, with_ids) = (table.name.clone(), table.id.is_some());
    let read = || {
        let mut reader =
            columnar::memory(table, columnar::ColumnKind::Vectors, BlockSize::NUMBERS)?;
        let mut rows = VectorRows::default();
        let mut ids = BlockIds { integers: true, ..BlockIds::default() };
        while reader.next_vectors(&mut rows, &mut ids)? {}
        let ids = with_ids.then(|| check_ids(&name, Place::Row, &ids)).transpose()?;
        Ok(ReadVectors { vectors: rows.finish(&name)?, ids })
    };
    read().map_err(on_one_line)
}

/// Checks that ids are unique.
fn check_ids(name: &str, place: Place, ids: &BlockIds) -> Result<Ids> {
    let mut builder = IdsBuilder::new(name, place);
    builder.append(ids, &Hasher::default())?;
    Ok(builder.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_decides_the_format() {
        for (path, format) in [
            ("a.npy", VectorFormat::Npy),
            ("a/b.FVECS.gz", VectorFormat::Fvecs),
            ("a.bvecs", VectorFormat::Bvecs),
            ("a.csv.zst", VectorFormat::Csv),
            ("a.tsv", VectorFormat::Tsv),
            ("a.parquet", VectorFormat::Parquet),
            ("a.feather", VectorFormat::Arrow),
        ] {
            assert_eq!(VectorFormat::of_path(path).unwrap(), format);
            assert_eq!(format.to_string().parse::<VectorFormat>().unwrap(), format);
        }
        for path in ["a", "-", "a.txt", "npy"] {
            let error = VectorFormat::of_path(path).unwrap_err().to_string();
            assert!(error.starts_with("format must say") && error.contains("npy"), "{error}");
        }
        assert!("lines".parse::<VectorFormat>().unwrap_err().to_string().contains("`lines`"));
    }
}
