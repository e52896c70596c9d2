//! How do answers get into files?
//!
//! [`PairWriter`] writes rows of `left, right, overlap, similarity`; [`GroupWriter`] rows of `row,
//! group`. The ending of the path picks the format; standard output is TSV. Text formats may end
//! with `.gz` or `.zst` on top.
//!
//! | | keys without ids | keys with ids | overlap | similarity |
//! | --- | --- | --- | --- | --- |
//! | TSV, CSV | decimal | as they are, quoted where needed | decimal | shortest decimal that reads back as the same number |
//! | JSONL | number | string, or number when all ids were integers | number | number |
//! | Parquet, Arrow | Int64 | Utf8, or Int64 when all ids were integers | Int64 | Float64 |
//!
//! [`PairWriter::create_distances`] writes rows of `left, right, distance` for vectors; distances look as
//! similarities do.
//!
//! [`PairWriter::create_with_itself`] adds a column `left_input`, text in every format: the input
//! that the row in `left` belongs to, `left` or `right`.
//!
//! [`PairWriter::create_overlaps`] leaves out the similarity.
//!
//! No value is ever null. Memory stays at about a buffer of text, or a row group of columns.

mod columnar;
mod target;
mod text;

use crate::ids::Ids;
use crate::path::{Packing, ending, shown};
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
    /// Apache Parquet, zstd inside.
    Parquet,
    /// Apache Arrow IPC in its file format.
    Arrow,
}

impl OutputFormat {
    /// Returns the format that a path's ending stands for. Devices, pipes and open streams may have any name: they
    /// get TSV where it says nothing else.
    pub fn of_path<P: AsRef<Path> + ?Sized>(path: &P) -> Result<OutputFormat> {
        Ok(format_of(path.as_ref())?.0)
    }
}

fn format_of(path: &Path) -> Result<(OutputFormat, Packing)> {
    match named_format(path) {
        Err(_) if !target::is_ordinary(path) => Ok((OutputFormat::Tsv, Packing::None)),
        format => format,
    }
}

fn named_format(path: &Path) -> Result<(OutputFormat, Packing)> {
    let (ending, packing) = ending(path);
    let path = shown(path);
    let format = match (ending.as_str(), packing) {
        (_, Packing::Xz) => return Err(no_xz(&path)),
        ("tsv", _) => OutputFormat::Tsv,
        ("csv", _) => OutputFormat::Csv,
        ("jsonl", _) => OutputFormat::Jsonl,
        ("parquet", Packing::None) => OutputFormat::Parquet,
        ("arrow", Packing::None) => OutputFormat::Arrow,
        ("parquet" | "arrow", _) => {
            return Err(Error::Config(format!(
                "the output {path} cannot be compressed once more; end it with .{ending}"
            )));
        }
        _ => {
            return Err(Error::Config(format!(
                "the output {path} has no known ending; use .tsv, .csv, .jsonl (each also with \
                 .gz or .zst), .parquet or .arrow"
            )));
        }
    };
    Ok((format, packing))
}

fn no_xz(path: &str) -> Error {
    Error::Config(format!(
        "the output {path} cannot be compressed with xz; end it with .gz or .zst, or without a compression"
    ))
}

/// A file that will appear whole. Without [`finish`](Self::finish) none appears.
pub struct WholeFile {
    name: String,
    target: Target,
}

impl WholeFile {
    /// Makes sure that the file can be written.
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

/// Writes lines, whatever is in them. Without [`finish`](Self::finish) no file appears.
pub struct LinesWriter {
    name: String,
    target: Target,
}

impl LinesWriter {
    /// Starts an output; no path means standard output. A path that ends with `.gz` or `.zst` is
    /// compressed. Files come to be as those of [`PairWriter::create`] do.
    pub fn create<P: AsRef<Path> + ?Sized>(path: Option<&P>) -> Result<Self> {
        let path = path.map(AsRef::as_ref);
        let packing = path.map_or(Packing::None, |path| ending(path).1);
        if let (Some(path), Packing::Xz) = (path, packing) {
            return Err(no_xz(&shown(path)));
        }
        let (name, target) = Target::open(path)?;
        let target = target.packed(packing).map_err(|error| Error::io(&name, error))?;
        Ok(LinesWriter { name, target })
    }

    /// Adds text as it is. There is no buffer: the caller hands over large pieces.
    pub fn write(&mut self, lines: &[u8]) -> Result<()> {
        self.target.write_all(lines).map_err(|error| Error::io(&self.name, error))
    }

    /// Completes the output: it now exists under its name. Answers with its size in bytes.
    pub fn finish(self) -> Result<u64> {
        self.target.finish().map_err(|error| Error::io(self.name, error))
    }
}

/// What the columns of an output are.
pub(crate) struct Layout<'a> {
    /// The two columns that name rows.
    keys: [Key<'a>; 2],
    /// What is said about a pair.
    measures: Measures,
    /// Whether the input of the left row follows.
    inputs: bool,
}

impl<'a> Layout<'a> {
    /// Two rows, and what is said about them.
    pub(crate) fn pairs(measures: Measures, left: Option<&'a Ids>, right: Option<&'a Ids>) -> Self {
        let keys = [Key::new("left", left), Key::new("right", right)];
        Layout { keys, measures, inputs: false }
    }

    /// The same where the left row may be of either input. Either both inputs have ids or neither.
    pub(crate) fn with_itself(left: Option<&'a Ids>, right: Option<&'a Ids>) -> Result<Self> {
        if left.is_some() != right.is_some() {
            return Err(Error::Config("one input has ids and the other has none".into()));
        }
        let keys = [Key { name: "left", ids: [left, right] }, Key::new("right", right)];
        Ok(Layout { keys, measures: Measures::Sets, inputs: true })
    }

    /// A row and its group.
    pub(crate) fn groups(ids: Option<&'a Ids>) -> Self {
        let keys = [Key::new("row", ids), Key::new("group", ids)];
        Layout { keys, measures: Measures::None, inputs: false }
    }
}

/// What is said about a pair, beside its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measures {
    /// Nothing.
    None,
    /// Overlap and similarity.
    Sets,
    /// The overlap alone.
    Overlap,
    /// The distance.
    Distance,
}

impl Measures {
    /// The names of the columns.
    fn names(self) -> &'static [&'static str] {
        match self {
            Measures::None => &[],
            Measures::Sets => &["overlap", "similarity"],
            Measures::Overlap => &["overlap"],
            Measures::Distance => &["distance"],
        }
    }

    /// Whether the overlap is said.
    fn overlap(self) -> bool {
        matches!(self, Measures::Sets | Measures::Overlap)
    }

    /// Whether a similarity or a distance is said.
    fn score(self) -> bool {
        matches!(self, Measures::Sets | Measures::Distance)
    }
}

/// A column that names rows.
struct Key<'a> {
    name: &'static str,
    /// The ids to name rows by, for rows of the left input and of the right one: the first column
    /// may hold both.
    ids: [Option<&'a Ids>; 2],
}

impl<'a> Key<'a> {
    fn new(name: &'static str, ids: Option<&'a Ids>) -> Self {
        Key { name, ids: [ids; 2] }
    }

    /// Whether the column is of integers.
    fn is_integers(&self) -> bool {
        self.ids.into_iter().flatten().all(Ids::are_integers)
    }
}

/// Writes pairs. Without [`finish`](Self::finish) no file appears.
pub struct PairWriter<'a>(RowWriter<'a>);

impl<'a> PairWriter<'a> {
    /// Starts an output; no path means TSV on standard output. A self-join passes the same ids
    /// twice.
    ///
    /// A file is written under a temporary name in the target's folder and renamed at the end.
    /// Existing special files (devices, pipes) are written to directly, as TSV where their names say
    /// nothing else.
    pub fn create<P: AsRef<Path> + ?Sized>(
        path: Option<&P>,
        left: Option<&'a Ids>,
        right: Option<&'a Ids>,
    ) -> Result<Self> {
        Ok(PairWriter(RowWriter::create(
            path.map(AsRef::as_ref),
            Layout::pairs(Measures::Sets, left, right),
        )?))
    }

    /// Starts an output of pairs of vectors with their distances, which are what
    /// [`RowPair::similarity`] holds, as [`create`](Self::create) does.
    pub fn create_distances<P: AsRef<Path> + ?Sized>(
        path: Option<&P>,
        left: Option<&'a Ids>,
        right: Option<&'a Ids>,
    ) -> Result<Self> {
        Ok(PairWriter(RowWriter::create(
            path.map(AsRef::as_ref),
            Layout::pairs(Measures::Distance, left, right),
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
            Layout::with_itself(left, right)?,
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
            Layout::pairs(Measures::Overlap, left, right),
        )?))
    }

    /// Adds rows.
    pub fn write(&mut self, rows: &[RowPair]) -> Result<()> {
        self.0.write(rows)
    }

    /// Completes the output: it now exists under its name. Answers with its size in bytes.
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
            rows: RowWriter::create(path.map(AsRef::as_ref), Layout::groups(ids))?,
            next: 0,
            buffer: Vec::new(),
        })
    }

    /// Adds the next rows, each with the smallest row of its group.
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

    /// Completes the output: it now exists under its name. Answers with its size in bytes.
    pub fn finish(self) -> Result<u64> {
        self.rows.finish()
    }
}

/// Either kind of writer. Both hold the target and answer with it at the end.
struct RowWriter<'a> {
    name: String,
    format: Kind<'a>,
}

enum Kind<'a> {
    Text(Box<TextWriter<'a>>),
    Columns(Box<ColumnWriter<'a>>),
}

impl<'a> RowWriter<'a> {
    fn create(path: Option<&Path>, layout: Layout<'a>) -> Result<Self> {
        let (format, packing) = path.map_or(Ok((OutputFormat::Tsv, Packing::None)), format_of)?;
        let (name, target) = Target::open(path)?;
        let target = target.packed(packing).map_err(|error| Error::io(&name, error))?;
        let format = match format {
            OutputFormat::Tsv | OutputFormat::Csv | OutputFormat::Jsonl => {
                Kind::Text(Box::new(TextWriter::new(target, format, &layout)))
            }
            OutputFormat::Parquet | OutputFormat::Arrow => {
                let writer = ColumnWriter::new(target, format, layout);
                Kind::Columns(Box::new(writer.map_err(|error| Error::io(&name, error))?))
            }
        };
        Ok(RowWriter { name, format })
    }

    fn write(&mut self, rows: &[RowPair]) -> Result<()> {
        let written = match &mut self.format {
            Kind::Text(writer) => writer.write(rows),
            Kind::Columns(writer) => writer.write(rows),
        };
        written.map_err(|error| Error::io(&self.name, error))
    }

    fn finish(self) -> Result<u64> {
        let target = match self.format {
            Kind::Text(writer) => writer.finish(),
            Kind::Columns(writer) => writer.finish(),
        };
        target.and_then(Target::finish).map_err(|error| Error::io(&self.name, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_picks_the_format() {
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
    fn lines_appear_whole_and_packed_as_their_ending_says() {
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
