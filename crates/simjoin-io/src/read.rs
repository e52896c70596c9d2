//! How are the inputs of a join read?
//!
//! [`read_sets`] reads one file for a self-join, or two for a join, and numbers the tokens of both together.

use crate::dictionary::TokenTexts;
use crate::format::Format;
use crate::memory::Batches;
use crate::options::{BlockSize, ReadOptions, ReadSets, Table};
use crate::path::{display_name, escape_controls, is_standard};
use crate::pipeline::BlockReader;
use crate::readers::{Columns, columnar, csv, jsonl, lines};
use crate::rows::SetReader;
use crate::source;
use crate::tokenize::Tokenizer;
use simjoin_core::{Error, Result};
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// Reads and tokenizes one input, or two whose tokens are numbered together.
///
/// The path `-` is standard input. Adds the number of bytes read from the inputs, before decompression, to
/// `bytes_read`, so that callers can show progress.
///
/// The result does not depend on the number of threads. The first error in file order is reported.
pub fn read_sets<P: AsRef<Path> + ?Sized>(
    left: &P,
    right: Option<&P>,
    options: &ReadOptions,
    bytes_read: &AtomicU64,
) -> Result<ReadSets> {
    let block_size = BlockSize::for_tokenizer(options.tokenizer);
    let (left, right) = (left.as_ref(), right.map(AsRef::as_ref));
    read_sets_in_blocks(left, right, options, block_size, bytes_read).map(|(sets, _)| sets)
}

/// Reads inputs as [`read_sets`] does, and also returns the texts of the tokens.
pub fn read_sets_with_texts<P: AsRef<Path> + ?Sized>(
    left: &P,
    right: Option<&P>,
    options: &ReadOptions,
    bytes_read: &AtomicU64,
) -> Result<(ReadSets, TokenTexts)> {
    let block_size = BlockSize::for_tokenizer(options.tokenizer);
    let (left, right) = (left.as_ref(), right.map(AsRef::as_ref));
    let (sets, reader) = read_sets_in_blocks(left, right, options, block_size, bytes_read)?;
    Ok((sets, reader.into_texts()))
}

fn read_sets_in_blocks(
    left: &Path,
    right: Option<&Path>,
    options: &ReadOptions,
    block_size: BlockSize,
    bytes_read: &AtomicU64,
) -> Result<(ReadSets, SetReader)> {
    if is_standard(left) && right.is_some_and(is_standard) {
        let message = "both inputs are standard input (`-`); expected at most one";
        return Err(Error::Config(message.into()));
    }
    let mut reader = SetReader::default();
    let left = reader.file_in_blocks(left, options, block_size, bytes_read)?;
    let right = right
        .map(|right| reader.file_in_blocks(right, options, block_size, bytes_read))
        .transpose()?;
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
        self.file_in_blocks(
            path.as_ref(),
            options,
            BlockSize::for_tokenizer(options.tokenizer),
            bytes_read,
        )
    }

    fn file_in_blocks(
        &mut self,
        path: &Path,
        options: &ReadOptions,
        block_size: BlockSize,
        bytes_read: &AtomicU64,
    ) -> Result<Table> {
        self.check(options)?;
        open(path, options, block_size, bytes_read)
            .and_then(|reader| self.read(reader, &display_name(path), options, false))
            .map_err(on_one_line)
    }

    fn table(&mut self, table: Batches<'_>, options: &ReadOptions) -> Result<Table> {
        self.check(options)?;
        let options = ReadOptions { id: table.id.clone(), ..options.clone() };
        let name = table.name.clone();
        let block_size = BlockSize::for_tokenizer(options.tokenizer);
        columnar::memory(table, records(options.tokenizer), block_size)
            .and_then(|reader| self.read(Box::new(reader), &name, &options, true))
            .map_err(on_one_line)
    }
}

/// Tokenizes one table in memory, or two, as [`read_sets`] does with files.
///
/// The tables name the columns to read, not the options. A table without records is not an error: it becomes a
/// collection without sets.
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

/// Returns the kind of column that a tokenizer needs.
fn records(tokenizer: Tokenizer) -> columnar::ColumnKind {
    match tokenizer {
        Tokenizer::Whitespace => columnar::ColumnKind::Tokens,
        _ => columnar::ColumnKind::Text,
    }
}

/// Escapes control characters in the message of an error. Column names and ids, which messages quote, may hold
/// newlines.
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
    block_size: BlockSize,
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
            Box::new(lines::Reader::new(source::open(path, bytes_read)?, block_size.bytes))
        }
        Format::Csv | Format::Tsv => {
            let delimiter = if format == Format::Csv { b',' } else { b'\t' };
            let source = source::open(path, bytes_read)?;
            Box::new(csv::Reader::new(source, delimiter, &columns, block_size.bytes)?)
        }
        Format::Jsonl => {
            let source = source::open(path, bytes_read)?;
            Box::new(jsonl::Reader::new(source, columns, block_size.bytes))
        }
        Format::Parquet => {
            Box::new(columnar::parquet(path, bytes_read, &columns, records, block_size)?)
        }
        Format::Arrow => {
            Box::new(columnar::arrow(path, bytes_read, &columns, records, block_size)?)
        }
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
        let block_size = BlockSize { bytes, rows };
        read_sets_in_blocks(Path::new(path), None, options, block_size, &AtomicU64::new(0))
            .map(|(sets, _)| sets)
    }

    /// Returns a result in a form that can be compared.
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

        /// The input may be valid, or have lines that are not UTF-8, repeated ids, ragged records or invalid JSON.
        #[test]
        fn threads_and_block_sizes_do_not_change_the_result(
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
