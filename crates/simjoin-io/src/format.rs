//! Which format does an input have?
//!
//! The ending of the path decides, without the ending of a compression. Standard input and files with any other ending
//! are read as lines.

use crate::path::ending;
use simjoin_core::Error;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// The format of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// One record per line.
    Lines,
    /// Comma-separated values with a header row.
    Csv,
    /// Tab-separated values with a header row, quoted like CSV.
    Tsv,
    /// One JSON object per line.
    Jsonl,
    /// Apache Parquet.
    Parquet,
    /// Apache Arrow IPC, file or stream.
    Arrow,
}

impl Format {
    /// Returns the format that a path's ending stands for.
    pub fn of_path<P: AsRef<Path> + ?Sized>(path: &P) -> Format {
        match ending(path.as_ref()).0.as_str() {
            "csv" => Format::Csv,
            "tsv" => Format::Tsv,
            "jsonl" | "ndjson" => Format::Jsonl,
            "parquet" => Format::Parquet,
            "arrow" | "feather" | "ipc" => Format::Arrow,
            _ => Format::Lines,
        }
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            "lines" => Ok(Format::Lines),
            "csv" => Ok(Format::Csv),
            "tsv" => Ok(Format::Tsv),
            "jsonl" => Ok(Format::Jsonl),
            "parquet" => Ok(Format::Parquet),
            "arrow" => Ok(Format::Arrow),
            _ => Err(Error::Config(format!(
                "unknown format `{name}`; expected lines, csv, tsv, jsonl, parquet or arrow"
            ))),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Lines => "lines",
            Format::Csv => "csv",
            Format::Tsv => "tsv",
            Format::Jsonl => "jsonl",
            Format::Parquet => "parquet",
            Format::Arrow => "arrow",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_before_the_compression_decides_the_format() {
        for (path, format) in [
            ("a.csv", Format::Csv),
            ("dir.csv/a", Format::Lines),
            ("A.TSV.GZ", Format::Tsv),
            ("a.ndjson.zst", Format::Jsonl),
            ("a.csv.xz", Format::Csv),
            ("x/y.jsonl", Format::Jsonl),
            ("a.parquet", Format::Parquet),
            ("a.feather", Format::Arrow),
            ("a.ipc", Format::Arrow),
            ("a.arrow.gz", Format::Arrow),
            ("a.txt", Format::Lines),
            ("csv", Format::Lines),
            ("-", Format::Lines),
        ] {
            assert_eq!(Format::of_path(path), format, "{path}");
        }
    }

    #[test]
    fn formats_parse_from_the_names_they_print() {
        for name in ["lines", "csv", "tsv", "jsonl", "parquet", "arrow"] {
            assert_eq!(name.parse::<Format>().unwrap().to_string(), name);
        }
        let error = "xml".parse::<Format>().unwrap_err().to_string();
        assert!(error.contains("`xml`") && error.contains("parquet"), "{error}");
    }
}
