//! How is a join's input read?
//!
//! [`read_sets`] is the whole of it: one file for a self-join, two for a join, tokens of both in
//! one numbering.

use crate::dictionary::TokenTexts;
use crate::format::Format;
use crate::memory::Batches;
use crate::options::{Cut, ReadOptions, ReadSets, Table};
use crate::path::{display_name, escape_controls, is_standard};
use crate::pipeline::BlockReader;
use crate::readers::{Columns, columnar, csv, jsonl, lines};
use crate::rows::SetReader;
use crate::source;
use crate::tokenize::Tokenizer;
use simjoin_core::{Error, Result};
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// Reads and tokenizes one input, or two into one numbering of tokens.
///
/// A path of `-` is standard input. `bytes_read` rises with the bytes taken from the inputs (before
/// decompression), for showing progress.
///
/// The result does not depend on the number of threads. The first fault in file order is the one
/// that is reported.
pub fn read_sets<P: AsRef<Path> + ?Sized>(
    left: &P,
    right: Option<&P>,
    options: &ReadOptions,
    bytes_read: &AtomicU64,
) -> Result<ReadSets> {
    let cut = Cut::for_tokenizer(options.tokenizer);
    let (left, right) = (left.as_ref(), right.map(AsRef::as_ref));
    read_sets_cut(left, right, options, cut, bytes_read).map(|(sets, _)| sets)
}

/// The same, and what the tokens are called.
pub fn read_sets_with_texts<P: AsRef<Path> + ?Sized>(
    left: &P,
    right: Option<&P>,
    options: &ReadOptions,
    bytes_read: &AtomicU64,
) -> Result<(ReadSets, TokenTexts)> {
    let cut = Cut::for_tokenizer(options.tokenizer);
    let (left, right) = (left.as_ref(), right.map(AsRef::as_ref));
    let (sets, reader) = read_sets_cut(left, right, options, cut, bytes_read)?;
    Ok((sets, reader.into_texts()))
}

fn read_sets_cut(
    left: &Path,
    right: Option<&Path>,
    options: &ReadOptions,
    cut: Cut,
    bytes_read: &AtomicU64,
) -> Result<(ReadSets, SetReader)> {
    if is_standard(left) && right.is_some_and(is_standard) {
        return Err(Error::Config("only one of the two inputs can be standard input (-)".into()));
    }
    let mut reader = SetReader::default();
    let left = reader.file_cut(left, options, cut, bytes_read)?;
    let right = right.map(|right| reader.file_cut(right, options, cut, bytes_read)).transpose()?;
    Ok((ReadSets { left, right, universe: reader.universe() }, reader))
}

impl SetReader {
    /// Reads a file, as [`read_sets`] does.
    pub fn file<P: AsRef<Path> + ?Sized>(
        &mut self,
        path: &P,
        options: &ReadOptions,
        bytes_read: &AtomicU64,
    ) -> Result<Table> {
        self.file_cut(path.as_ref(), options, Cut::for_tokenizer(options.tokenizer), bytes_read)
    }

    fn file_cut(
        &mut self,
        path: &Path,
        options: &ReadOptions,
        cut: Cut,
        bytes_read: &AtomicU64,
    ) -> Result<Table> {
        self.check(options)?;
        open(path, options, cut, bytes_read)
            .and_then(|reader| self.read(reader, &display_name(path), options, false))
            .map_err(on_one_line)
    }

    fn table(&mut self, table: Batches<'_>, options: &ReadOptions) -> Result<Table> {
        self.check(options)?;
        let options = ReadOptions { id: table.id.clone(), ..options.clone() };
        let name = table.name.clone();
        let cut = Cut::for_tokenizer(options.tokenizer);
        columnar::memory(table, records(options.tokenizer), cut)
            .and_then(|reader| self.read(Box::new(reader), &name, &options, true))
            .map_err(on_one_line)
    }
}

/// Tokenizes one table in memory, or two into one numbering of tokens, as [`read_sets`] does with files.
/// Columns are those of the tables, not of the options. A table without records is a collection without
/// sets: nothing is in the answer, which is no error to those who hold tables.
pub fn collect_sets(
    left: Batches<'_>,
    right: Option<Batches<'_>>,
    options: &ReadOptions,
) -> Result<ReadSets> {
    let mut reader = SetReader::default();
    let left = reader.table(left, options)?;
    let right = right.map(|right| reader.table(right, options)).transpose()?;
    Ok(ReadSets { left, right, universe: reader.universe() })
}

/// What a column must hold for a tokenizer.
fn records(tokenizer: Tokenizer) -> columnar::Kind {
    match tokenizer {
        Tokenizer::Whitespace => columnar::Kind::Tokens,
        _ => columnar::Kind::Text,
    }
}

/// Messages quote column names and ids, in which there may be newlines and other controls: those
/// are shown by their escapes.
pub(crate) fn on_one_line(error: Error) -> Error {
    match error {
        Error::Input { path, place, parameter, message } => {
            let message = escape_controls(&message).into_owned();
            Error::Input { path, place, parameter, message }
        }
        other => other,
    }
}

fn open<'a>(
    path: &Path,
    options: &ReadOptions,
    cut: Cut,
    bytes_read: &'a AtomicU64,
) -> Result<Box<dyn BlockReader + 'a>> {
    let format = options.format.unwrap_or_else(|| Format::of_path(path));
    let columns = Columns { column: options.column.clone(), id: options.id.clone() };
    let records = records(options.tokenizer);
    Ok(match format {
        Format::Lines => {
            columns.refuse(|| {
                let name = display_name(path);
                format!(
                    "{name} is read as lines; its format must be csv, tsv, jsonl, parquet or arrow"
                )
            })?;
            Box::new(lines::Reader::new(source::open(path, bytes_read)?, cut.bytes))
        }
        Format::Csv | Format::Tsv => {
            let delimiter = if format == Format::Csv { b',' } else { b'\t' };
            let source = source::open(path, bytes_read)?;
            Box::new(csv::Reader::new(source, delimiter, &columns, cut.bytes)?)
        }
        Format::Jsonl => {
            let source = source::open(path, bytes_read)?;
            Box::new(jsonl::Reader::new(source, columns, cut.bytes))
        }
        Format::Parquet => Box::new(columnar::parquet(path, bytes_read, &columns, records, cut)?),
        Format::Arrow => Box::new(columnar::arrow(path, bytes_read, &columns, records, cut)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fmt::Write;

    fn options(threads: usize) -> ReadOptions {
        ReadOptions { threads, ..ReadOptions::default() }
    }

    fn read(path: &str, options: &ReadOptions, bytes: usize, rows: usize) -> Result<ReadSets> {
        let cut = Cut { bytes, rows };
        read_sets_cut(Path::new(path), None, options, cut, &AtomicU64::new(0)).map(|(sets, _)| sets)
    }

    /// A result in a form that can be compared.
    fn outcome(result: Result<ReadSets>) -> std::result::Result<ReadSets, String> {
        result.map_err(|error| error.to_string())
    }

    fn write(folder: &tempfile::TempDir, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Threads and cuts change nothing, in good input and bad (the lines may hold invalid
        /// UTF-8, the ids may repeat, records may be ragged or no JSON).
        #[test]
        fn threads_and_cuts_do_not_change_the_result(
            records in prop::collection::vec("[ab1 é\r]{0,8}", 0..30),
            ids in prop::collection::vec(0u32..200, 30),
            bad in prop::option::of(0usize..40),
            multiset in any::<bool>(),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let (mut lines, mut csv, mut jsonl) = (Vec::new(), String::from("id,text\n"), String::new());
            for (row, record) in records.iter().enumerate() {
                lines.extend_from_slice(record.as_bytes());
                lines.extend_from_slice(if bad == Some(row) { b"\xff\n" } else { b"\n" });
                let more = if bad == Some(row) { ",x" } else { "" };
                writeln!(csv, "{},\"{record}\"{more}", ids[row]).unwrap();
                let record = record.replace('\r', "\\r");
                writeln!(jsonl, "{{\"id\":{},\"text\":\"{record}\"{more}}}", ids[row]).unwrap();
            }
            let with_ids = ReadOptions {
                id: Some("id".into()), column: Some("text".into()), multiset, ..options(1)
            };
            let plain = ReadOptions { multiset, ..options(1) };
            for (path, base) in [
                (write(&folder, "a.txt", &lines), plain),
                (write(&folder, "a.csv", &csv), with_ids.clone()),
                (write(&folder, "a.jsonl", &jsonl), with_ids),
            ] {
                let expected = outcome(read(&path, &base, 1 << 20, 8192));
                for (threads, bytes) in [(1, 1), (1, 5), (2, 16), (3, 1), (5, 100)] {
                    let options = ReadOptions { threads, ..base.clone() };
                    prop_assert_eq!(&outcome(read(&path, &options, bytes, 3)), &expected, "{}", path);
                }
            }
        }

        #[test]
        fn random_bytes_are_read_or_refused(
            bytes in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..200),
                "[\\[\\]{}\",:a1 \n\r\t]{0,80}".prop_map(String::into_bytes),
            ],
            magic in 0usize..8,
        ) {
            let magics: [&[u8]; 8] = [
                b"", b"\x1f\x8b\x08\0", b"\x28\xb5\x2f\xfd", b"PAR1", b"ARROW1\0\0",
                b"\xff\xff\xff\xff", b"\xef\xbb\xbf", b"text\n",
            ];
            let magic = magics[magic];
            let bytes = [magic, &bytes[..], if magic == b"PAR1" { magic } else { b"" }].concat();
            let folder = tempfile::tempdir().unwrap();
            let path = write(&folder, "a", &bytes);
            for format in [
                Format::Lines, Format::Csv, Format::Tsv, Format::Jsonl, Format::Parquet, Format::Arrow,
            ] {
                for tokenizer in [Tokenizer::Whitespace, Tokenizer::Words, Tokenizer::Qgrams(3)] {
                    let options =
                        ReadOptions { format: Some(format), tokenizer, ..options(2) };
                    if let Err(error) = read(&path, &options, 16, 2) {
                        prop_assert!(!error.to_string().contains('\n'), "{}", error);
                    }
                }
            }
        }
    }
}
