//! How are answers written to files?
//!
//! [`PairWriter`] writes rows of `left, right, overlap, similarity`; [`GroupWriter`] writes rows of `row, group`. The
//! ending of the path decides the format; standard output is TSV. Text formats may be compressed, with the additional
//! ending `.gz` or `.zst`.
//!
//! | | keys without ids | keys with ids | overlap | similarity |
//! | --- | --- | --- | --- | --- |
//! | TSV, CSV | decimal | unchanged, quoted where needed | decimal | shortest decimal that is read back as the same number |
//! | JSONL | number | string, or number when all ids were integers | number | number |
//! | Parquet, Arrow | Int64 | Utf8, or Int64 when all ids were integers | Int64 | Float64 |
//!
//! [`PairWriter::create_distances`] writes rows of `left, right, distance` for vectors; distances have the format of
//! similarities.
//!
//! [`PairWriter::create_with_itself`] adds a text column `left_input`: the input that the row in `left` belongs to,
//! `left` or `right`.
//!
//! [`PairWriter::create_overlaps`] omits the similarity.
//!
//! No value is ever null. A writer needs about the memory of a buffer of text, or of a row group of columns.

mod columnar;
mod target;
mod text;

use crate::ids::Ids;
use crate::path::{Compression, ending, shown};
use columnar::ColumnWriter;
use simjoin_core::{Error, Result, RowPair, Side};
use std::io::Write;
use std::path::Path;
use target::Target;
use text::TextWriter;

/// The format of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputFormat {
    /// Tab-separated values with a header row.
    Tsv,
    /// Comma-separated values with a header row.
    Csv,
    /// One JSON object per line.
    Jsonl,
    /// Apache Parquet, compressed with zstd.
    Parquet,
    /// Apache Arrow IPC in its file format.
    Arrow,
}

impl OutputFormat {
    /// Returns the format that a path's ending stands for. Devices, pipes and open streams may have any name, and get
    /// TSV if the ending is unknown.
    pub fn of_path<P: AsRef<Path> + ?Sized>(path: &P) -> Result<OutputFormat> {
        Ok(format_of(path.as_ref())?.0)
    }
}

fn format_of(path: &Path) -> Result<(OutputFormat, Compression)> {
    match named_format(path) {
        Err(_) if !target::is_ordinary(path) => Ok((OutputFormat::Tsv, Compression::None)),
        format => format,
    }
}

fn named_format(path: &Path) -> Result<(OutputFormat, Compression)> {
    let (ending, compression) = ending(path);
    let path = shown(path);
    let format = match (ending.as_str(), compression) {
        (_, Compression::Xz) => return Err(no_xz(&path)),
        ("tsv", _) => OutputFormat::Tsv,
        ("csv", _) => OutputFormat::Csv,
        ("jsonl", _) => OutputFormat::Jsonl,
        ("parquet", Compression::None) => OutputFormat::Parquet,
        ("arrow", Compression::None) => OutputFormat::Arrow,
        ("parquet" | "arrow", _) => {
            return Err(Error::Config(format!(
                "the output {path} is compressed by its format already; end it with .{ending}"
            )));
        }
        _ => {
            return Err(Error::Config(format!(
                "the output {path} has no known ending; use .tsv, .csv, .jsonl (each also with \
                 .gz or .zst), .parquet or .arrow"
            )));
        }
    };
    Ok((format, compression))
}

fn no_xz(path: &str) -> Error {
    Error::Config(format!(
        "the output {path} cannot be compressed with xz; end it with .gz or .zst, or without a compression"
    ))
}

/// A file that appears under its name only when it is complete. Without [`finish`](Self::finish) no file appears.
pub struct WholeFile {
    name: String,
    target: Target,
}

impl WholeFile {
    /// Starts a file, so that a file that cannot be written is an error now.
    pub fn create<P: AsRef<Path> + ?Sized>(path: &P) -> Result<Self> {
        let (name, target) = Target::open(Some(path.as_ref()))?;
        Ok(WholeFile { name, target })
    }

    /// Writes the content; the file now exists under its name.
    pub fn finish(mut self, content: &[u8]) -> Result<()> {
        let written = self.target.write_all(content).and_then(|()| self.target.finish());
        written.map(drop).map_err(|error| Error::io(self.name, error))
    }
}

/// Writes lines of any content. Without [`finish`](Self::finish) no file appears.
pub struct LinesWriter {
    name: String,
    target: Target,
}

impl LinesWriter {
    /// Starts an output; no path means standard output. A file whose path ends with `.gz` or `.zst` is compressed. Files
    /// are created as by [`PairWriter::create`].
    pub fn create<P: AsRef<Path> + ?Sized>(path: Option<&P>) -> Result<Self> {
        let path = path.map(AsRef::as_ref);
        let compression = path.map_or(Compression::None, |path| ending(path).1);
        if let (Some(path), Compression::Xz) = (path, compression) {
            return Err(no_xz(&shown(path)));
        }
        let (name, target) = Target::open(path)?;
        let target = target.compressed(compression).map_err(|error| Error::io(&name, error))?;
        Ok(LinesWriter { name, target })
    }

    /// Writes text unchanged. There is no buffer, so callers should write large parts.
    pub fn write(&mut self, lines: &[u8]) -> Result<()> {
        self.target.write_all(lines).map_err(|error| Error::io(&self.name, error))
    }

    /// Completes the output, which then exists under its name. Returns its size in bytes.
    pub fn finish(self) -> Result<u64> {
        self.target.finish().map_err(|error| Error::io(self.name, error))
    }
}

/// The columns of an output.
pub(crate) struct OutputColumns<'a> {
    /// The two columns that name rows.
    keys: [KeyColumn<'a>; 2],
    /// The columns of values.
    values: ValueColumns,
    /// Whether a last column names the input of the left row.
    inputs: bool,
}

impl<'a> OutputColumns<'a> {
    /// Returns the columns of pairs.
    pub(crate) fn pairs(
        values: ValueColumns,
        left: Option<&'a Ids>,
        right: Option<&'a Ids>,
    ) -> Self {
        let keys = [KeyColumn::new("left", left), KeyColumn::new("right", right)];
        OutputColumns { keys, values, inputs: false }
    }

    /// Returns the columns of pairs whose left row may belong to either input. Either both inputs have ids or neither.
    pub(crate) fn with_itself(left: Option<&'a Ids>, right: Option<&'a Ids>) -> Result<Self> {
        if left.is_some() != right.is_some() {
            let message =
                "one input has ids and the other has none; expected ids of both or of neither";
            return Err(Error::Config(message.into()));
        }
        let keys = [KeyColumn { name: "left", ids: [left, right] }, KeyColumn::new("right", right)];
        Ok(OutputColumns { keys, values: ValueColumns::Sets, inputs: true })
    }

    /// Returns the columns of groups: a row, and the smallest row of its group.
    pub(crate) fn groups(ids: Option<&'a Ids>) -> Self {
        let keys = [KeyColumn::new("row", ids), KeyColumn::new("group", ids)];
        OutputColumns { keys, values: ValueColumns::None, inputs: false }
    }
}

/// The columns of an output that hold values of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueColumns {
    /// No columns.
    None,
    /// Overlap and similarity.
    Sets,
    /// Only the overlap.
    Overlap,
    /// The distance.
    Distance,
}

impl ValueColumns {
    /// Returns the names of the columns.
    fn names(self) -> &'static [&'static str] {
        match self {
            ValueColumns::None => &[],
            ValueColumns::Sets => &["overlap", "similarity"],
            ValueColumns::Overlap => &["overlap"],
            ValueColumns::Distance => &["distance"],
        }
    }

    /// Returns whether there is a column for the overlap.
    fn overlap(self) -> bool {
        matches!(self, ValueColumns::Sets | ValueColumns::Overlap)
    }

    /// Returns whether there is a column for the similarity or the distance.
    fn score(self) -> bool {
        matches!(self, ValueColumns::Sets | ValueColumns::Distance)
    }
}

/// A column that names rows.
struct KeyColumn<'a> {
    name: &'static str,
    /// The ids of the rows of the left input and of the right one; the first column may hold rows of both.
    ids: [Option<&'a Ids>; 2],
}

impl<'a> KeyColumn<'a> {
    fn new(name: &'static str, ids: Option<&'a Ids>) -> Self {
        KeyColumn { name, ids: [ids; 2] }
    }

    /// Returns whether the column holds integers.
    fn is_integers(&self) -> bool {
        self.ids.into_iter().flatten().all(Ids::are_integers)
    }
}

/// Writes pairs. Without [`finish`](Self::finish) no file appears.
pub struct PairWriter<'a>(RowWriter<'a>);

impl<'a> PairWriter<'a> {
    /// Starts an output; no path means TSV on standard output. A self-join passes the same ids twice.
    ///
    /// A file is written under a temporary name in the target's folder and renamed at the end. Existing special files
    /// (devices, pipes) are written to directly, as TSV unless their names end with another format.
    pub fn create<P: AsRef<Path> + ?Sized>(
        path: Option<&P>,
        left: Option<&'a Ids>,
        right: Option<&'a Ids>,
    ) -> Result<Self> {
        Ok(PairWriter(RowWriter::create(
            path.map(AsRef::as_ref),
            OutputColumns::pairs(ValueColumns::Sets, left, right),
        )?))
    }

    /// Starts an output of pairs of vectors, as [`create`](Self::create) does. [`RowPair::similarity`] holds the
    /// distance.
    pub fn create_distances<P: AsRef<Path> + ?Sized>(
        path: Option<&P>,
        left: Option<&'a Ids>,
        right: Option<&'a Ids>,
    ) -> Result<Self> {
        Ok(PairWriter(RowWriter::create(
            path.map(AsRef::as_ref),
            OutputColumns::pairs(ValueColumns::Distance, left, right),
        )?))
    }

    /// Starts an output of pairs between two inputs and pairs within the right one, as
    /// [`create`](Self::create) does. Either both inputs have ids or neither.
    pub fn create_with_itself<P: AsRef<Path> + ?Sized>(
        path: Option<&P>,
        left: Option<&'a Ids>,
        right: Option<&'a Ids>,
    ) -> Result<Self> {
        Ok(PairWriter(RowWriter::create(
            path.map(AsRef::as_ref),
            OutputColumns::with_itself(left, right)?,
        )?))
    }

    /// Starts an output of overlaps without a similarity, as [`create`](Self::create) does.
    pub fn create_overlaps<P: AsRef<Path> + ?Sized>(
        path: Option<&P>,
        left: Option<&'a Ids>,
        right: Option<&'a Ids>,
    ) -> Result<Self> {
        Ok(PairWriter(RowWriter::create(
            path.map(AsRef::as_ref),
            OutputColumns::pairs(ValueColumns::Overlap, left, right),
        )?))
    }

    /// Adds rows.
    pub fn write(&mut self, rows: &[RowPair]) -> Result<()> {
        self.0.write(rows)
    }

    /// Completes the output, which then exists under its name. Returns its size in bytes.
    pub fn finish(self) -> Result<u64> {
        self.0.finish()
    }
}

/// Writes groups. Without [`finish`](Self::finish) no file appears.
pub struct GroupWriter<'a> {
    rows: RowWriter<'a>,
    next: u32,
    buffer: Vec<RowPair>,
}

impl<'a> GroupWriter<'a> {
    /// Starts an output, as [`PairWriter::create`] does.
    pub fn create<P: AsRef<Path> + ?Sized>(path: Option<&P>, ids: Option<&'a Ids>) -> Result<Self> {
        Ok(GroupWriter {
            rows: RowWriter::create(path.map(AsRef::as_ref), OutputColumns::groups(ids))?,
            next: 0,
            buffer: Vec::new(),
        })
    }

    /// Adds the next rows. `groups` holds the smallest row of the group of each.
    pub fn write(&mut self, groups: &[u32]) -> Result<()> {
        for chunk in groups.chunks(4096) {
            self.buffer.clear();
            self.buffer.extend((self.next..).zip(chunk).map(|(left, &right)| RowPair {
                left,
                right,
                overlap: 0,
                similarity: 0.0,
                left_input: Side::Left,
            }));
            self.next += chunk.len() as u32;
            self.rows.write(&self.buffer)?;
        }
        Ok(())
    }

    /// Completes the output, which then exists under its name. Returns its size in bytes.
    pub fn finish(self) -> Result<u64> {
        self.rows.finish()
    }
}

/// Writes rows in any format.
struct RowWriter<'a> {
    name: String,
    format: FormatWriter<'a>,
}

/// The writer of a format. It owns the target, and returns it at the end.
enum FormatWriter<'a> {
    Text(Box<TextWriter<'a>>),
    Columns(Box<ColumnWriter<'a>>),
}

impl<'a> RowWriter<'a> {
    fn create(path: Option<&Path>, columns: OutputColumns<'a>) -> Result<Self> {
        let (format, compression) =
            path.map_or(Ok((OutputFormat::Tsv, Compression::None)), format_of)?;
        let (name, target) = Target::open(path)?;
        let target = target.compressed(compression).map_err(|error| Error::io(&name, error))?;
        let format = match format {
            OutputFormat::Tsv | OutputFormat::Csv | OutputFormat::Jsonl => {
                FormatWriter::Text(Box::new(TextWriter::new(target, format, &columns)))
            }
            OutputFormat::Parquet | OutputFormat::Arrow => {
                let writer = ColumnWriter::new(target, format, columns);
                FormatWriter::Columns(Box::new(writer.map_err(|error| Error::io(&name, error))?))
            }
        };
        Ok(RowWriter { name, format })
    }

    fn write(&mut self, rows: &[RowPair]) -> Result<()> {
        let written = match &mut self.format {
            FormatWriter::Text(writer) => writer.write(rows),
            FormatWriter::Columns(writer) => writer.write(rows),
        };
        written.map_err(|error| Error::io(&self.name, error))
    }

    fn finish(self) -> Result<u64> {
        let target = match self.format {
            FormatWriter::Text(writer) => writer.finish(),
            FormatWriter::Columns(writer) => writer.finish(),
        };
        target.and_then(Target::finish).map_err(|error| Error::io(&self.name, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_decides_the_format() {
        for (path, format) in [
            ("a.tsv", OutputFormat::Tsv),
            ("a.b/c.CSV", OutputFormat::Csv),
            ("a.jsonl.zst", OutputFormat::Jsonl),
            ("a.tsv.gz", OutputFormat::Tsv),
            ("a.parquet", OutputFormat::Parquet),
            ("a.arrow", OutputFormat::Arrow),
        ] {
            assert_eq!(OutputFormat::of_path(path).unwrap(), format);
        }
        for path in ["a", "a.txt", "a.gz", "a.parquet.gz", ".tsv/a"] {
            let error = OutputFormat::of_path(path).unwrap_err();
            assert!(matches!(error, Error::Config(_)), "{path}: {error}");
            assert!(error.to_string().contains(".parquet"), "{error}");
        }
    }

    #[test]
    fn outputs_of_lines_appear_complete_and_compressed_by_their_ending() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.txt", "a.gz", "a.txt.ZST"] {
            let path = folder.path().join(name).to_str().unwrap().to_owned();
            let mut writer = LinesWriter::create(Some(&path)).unwrap();
            writer.write(b"one\n").unwrap();
            writer.write(b"two\n").unwrap();
            assert!(!std::fs::exists(&path).unwrap());
            let size = writer.finish().unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().len(), size);
            let mut lines = Vec::new();
            let visit = |line: &str, number| {
                lines.push((line.to_owned(), number));
                Ok(())
            };
            crate::read_lines(&path, &std::sync::atomic::AtomicU64::new(0), visit).unwrap();
            assert_eq!(lines, [("one".to_owned(), 1), ("two".to_owned(), 2)]);
        }
        let path = folder.path().join("b.txt").to_str().unwrap().to_owned();
        LinesWriter::create(Some(&path)).unwrap().write(b"half").unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    }
}
