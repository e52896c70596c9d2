//! How are Parquet and Arrow columns read?
//!
//! The reader thread decodes the wanted columns batch by batch; blocks are slices of batches. A record is a string
//! (plain, large, view or dictionary-encoded), or for white-space tokens a list of strings or integers, whose elements
//! are the tokens. A null record has no tokens; null elements are errors.
//!
//! `files.rs` opens files; `rows.rs` reads the rows of a block.
//!
//! # Memory
//!
//! Batches are decoded [`STEP`] rows at a time, and the size of a block is limited in bytes, so a file of long texts
//! needs no more memory than one of short texts. The strings of a Parquet file are not copied after decompression: a
//! text that its dictionary repeats is held once.

mod files;
mod rows;

use super::Columns;
use super::vectors::VectorRows;
use crate::block::BlockIds;
use crate::dictionary::Place;
use crate::memory::{Batches, Element};
use crate::options::BlockSize;
use crate::pipeline::{Block, BlockReader};
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Schema};
use rows::{BatchSlice, ColumnBlock, text_bytes};
use simjoin_core::{Error, Result};
use std::sync::Arc;

pub(crate) use files::{arrow, parquet};

/// The number of rows that are decoded, and whose bytes are counted, at a time.
const STEP: usize = 256;

/// The types that the column of records may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    /// Strings.
    Text,
    /// Strings, or lists of strings or integers.
    Tokens,
    /// Lists of floating-point numbers.
    Vectors,
    /// Strings or integers.
    Elements,
}

impl ColumnKind {
    fn fits(self, kind: &DataType) -> bool {
        match self {
            // All rows of a column of type null are null.
            ColumnKind::Text => is_text(kind) || kind.is_null(),
            ColumnKind::Tokens => is_text(kind) || is_list(kind) || kind.is_null(),
            ColumnKind::Elements => is_text(kind) || kind.is_integer() || kind.is_null(),
            ColumnKind::Vectors => match kind {
                DataType::List(element)
                | DataType::LargeList(element)
                | DataType::FixedSizeList(element, _) => {
                    matches!(element.data_type(), DataType::Float32 | DataType::Float64)
                }
                _ => false,
            },
        }
    }

    fn expected(self) -> &'static str {
        match self {
            ColumnKind::Text => "strings",
            ColumnKind::Tokens => "strings, or lists of strings or integers",
            ColumnKind::Elements => "strings or integers",
            ColumnKind::Vectors => "lists of 32-bit or 64-bit floating-point numbers",
        }
    }
}

/// Reads the wanted columns of decoded batches.
pub(crate) struct Reader<'a> {
    batches: Box<dyn Iterator<Item = std::result::Result<RecordBatch, String>> + Send + 'a>,
    wanted: Arc<Wanted>,
    block_size: BlockSize,
    /// The rest of the batch that is being cut into blocks.
    batch: Option<RecordBatch>,
    /// An error to report after the rows before it.
    error: Option<Error>,
    rows: u64,
    /// The number of rows according to the metadata of the file.
    expected_rows: Option<u64>,
}

/// The input and the columns to read, each with its position and its name.
struct Wanted {
    name: String,
    format: &'static str,
    column: (usize, String),
    id: Option<(usize, String)>,
}

impl Wanted {
    fn corrupt(&self, reason: &str) -> Error {
        corrupt(&self.name, self.format, reason)
    }

    fn error(&self, row: u64, message: String) -> Error {
        Error::input(&self.name, Place::Row.text(row), message)
    }
}

fn corrupt(name: &str, format: &str, reason: &str) -> Error {
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    if format == MEMORY {
        return Error::input(name, "", reason);
    }
    Error::input(name, "", format!("corrupt or truncated {format} file: {reason}"))
}

/// Finds the columns in a schema and checks their types. The returned positions are positions in the projection, which
/// holds positions in the schema in ascending order.
fn choose(
    name: &str,
    format: &'static str,
    schema: &Schema,
    columns: &Columns,
    records: ColumnKind,
) -> Result<(Wanted, Vec<usize>)> {
    let names: Vec<&String> = schema.fields().iter().map(|field| field.name()).collect();
    let (column, id) = columns.find(name, &names)?;
    let kind = schema.field(column).data_type();
    if !records.fits(kind) {
        let expected = records.expected();
        return Err(Error::input(
            name,
            "",
            format!("column `{}` is of type {kind}; {expected} were expected", names[column]),
        ));
    }
    if let Some(id) = id {
        let kind = schema.field(id).data_type();
        if !(is_text(kind) || kind.is_integer()) {
            return Err(Error::input(
                name,
                "",
                format!(
                    "id column `{}` is of type {kind}; strings or integers were expected",
                    names[id]
                ),
            ));
        }
    }
    let mut projection: Vec<usize> = [column].into_iter().chain(id).collect();
    projection.sort_unstable();
    projection.dedup();
    let place = |at: usize| projection.iter().position(|&p| p == at).unwrap_or(0);
    let wanted = Wanted {
        name: name.to_owned(),
        format,
        column: (place(column), names[column].clone()),
        id: id.map(|id| (place(id), names[id].clone())),
    };
    Ok((wanted, projection))
}

fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => {
            matches!(**values, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
        }
        _ => false,
    }
}

fn is_list(kind: &DataType) -> bool {
    match kind {
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::FixedSizeList(element, _) => {
            let element = element.data_type();
            is_text(element) || element.is_integer() || element.is_null()
        }
        _ => false,
    }
}

/// The format name of tables in memory.
const MEMORY: &str = "memory";

/// Reads a table in memory.
pub(crate) fn memory(
    table: Batches<'_>,
    records: ColumnKind,
    block_size: BlockSize,
) -> Result<Reader<'_>> {
    let columns = Columns { column: table.column, id: table.id };
    let (wanted, projection) = choose(&table.name, MEMORY, &table.schema, &columns, records)?;
    let batches = table.batches.map(move |batch| {
        batch.and_then(|batch| batch.project(&projection).map_err(|error| error.to_string()))
    });
    Ok(Reader::new(Box::new(batches), wanted, block_size, None))
}

impl<'a> Reader<'a> {
    fn new(
        batches: Box<dyn Iterator<Item = std::result::Result<RecordBatch, String>> + Send + 'a>,
        wanted: Wanted,
        block_size: BlockSize,
        expected_rows: Option<u64>,
    ) -> Self {
        Reader {
            batches,
            wanted: Arc::new(wanted),
            block_size,
            batch: None,
            error: None,
            rows: 0,
            expected_rows,
        }
    }
}

impl Reader<'_> {
    /// Returns the next rows of one batch, at most `most`; nothing at the end.
    fn next_slice(&mut self, most: usize) -> Result<Option<BatchSlice>> {
        let batch = loop {
            match self.batch.take() {
                Some(batch) if batch.num_rows() > 0 => break batch,
                _ => {}
            }
            let batches = &mut self.batches;
            let batch = files::decode(|| batches.next().transpose());
            match batch.map_err(|reason| self.wanted.corrupt(&reason))? {
                Some(batch) => self.batch = Some(batch),
                None => {
                    return match self.expected_rows {
                        Some(expected) if expected != self.rows => {
                            let reason = format!(
                                "its metadata says {expected} rows, but it holds {}",
                                self.rows
                            );
                            Err(self.wanted.corrupt(&reason))
                        }
                        _ => Ok(None),
                    };
                }
            }
        };
        let rows = batch.num_rows().min(most);
        let (first_row, wanted) = (self.rows, self.wanted.clone());
        self.rows += rows as u64;
        self.batch = Some(batch.slice(rows, batch.num_rows() - rows));
        Ok(Some(BatchSlice { batch: batch.slice(0, rows), first_row, wanted }))
    }

    /// Returns the rows of the next block.
    fn next_rows(&mut self) -> Result<Option<ColumnBlock>> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut block = Vec::new();
        let (mut rows, mut bytes) = (0, 0);
        while block.is_empty() || (rows < self.block_size.rows && bytes < self.block_size.bytes) {
            match self.next_slice(STEP.min(self.block_size.rows - rows).max(1)) {
                Ok(Some(slice)) => {
                    rows += slice.batch.num_rows();
                    bytes += text_bytes(slice.batch.column(self.wanted.column.0));
                    block.push(slice);
                }
                Ok(None) => break,
                Err(error) if block.is_empty() => return Err(error),
                Err(error) => {
                    self.error = Some(error);
                    break;
                }
            }
        }
        Ok((!block.is_empty()).then_some(ColumnBlock(block)))
    }

    /// Calls `visit` with the next elements of a single set. Returns false at the end.
    pub(crate) fn next_elements(
        &mut self,
        visit: &mut dyn FnMut(Element<'_>) -> Result<()>,
    ) -> Result<bool> {
        let Some(block) = self.next_rows()? else { return Ok(false) };
        block.0.iter().try_for_each(|slice| slice.elements(visit))?;
        Ok(true)
    }

    /// Adds the next vectors to `rows`, and their ids, if there are any, to `ids`. Returns false at the end.
    pub(crate) fn next_vectors(
        &mut self,
        rows: &mut VectorRows,
        ids: &mut BlockIds,
    ) -> Result<bool> {
        let Some(block) = self.next_rows()? else { return Ok(false) };
        block.0.iter().try_for_each(|slice| slice.vectors(rows, ids))?;
        Ok(true)
    }
}

impl BlockReader for Reader<'_> {
    fn next_block(&mut self) -> Result<Option<Box<dyn Block>>> {
        Ok(self.next_rows()?.map(|block| Box::new(block) as _))
    }

    fn place(&self) -> Place {
        Place::Row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::{ListBuilder, StringBuilder};
    use arrow_array::{Array, ArrayRef, LargeStringArray, StringArray, StringViewArray};
    use arrow_schema::Field;
    use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
    use parquet::basic::{Encoding, ZstdLevel};
    use parquet::file::properties::WriterProperties;
    use std::sync::atomic::AtomicU64;

    fn write(column: ArrayRef, properties: WriterProperties) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let field = Field::new("t", column.data_type().clone(), false);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![column]).unwrap();
        // Without the Arrow schema, a reader treats the column as plain strings.
        let options =
            ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
        let copy = file.reopen().unwrap();
        let mut writer = ArrowWriter::try_new_with_options(copy, batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        file
    }

    /// A batch of 8,192 rows of these texts is 2.4 GB, more than a column of strings can hold.
    #[test]
    fn long_texts_in_parquet_come_in_blocks_of_bounded_size() {
        const ROWS: usize = 8200;
        const LONG: usize = 300_000;
        let text = "x".repeat(LONG);
        let views: ArrayRef = Arc::new(StringViewArray::from_iter_values(vec![&text; ROWS]));
        // With this encoding, a text that equals the one before takes as little space as with a dictionary.
        let repeated = WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_encoding(Encoding::DELTA_BYTE_ARRAY)
            .set_compression(parquet::basic::Compression::ZSTD(ZstdLevel::default()));
        let block_size = BlockSize { bytes: 1 << 20, rows: 8192 };
        for (column, properties) in
            [(views.clone(), WriterProperties::new()), (views.slice(0, 2 * STEP), repeated.build())]
        {
            let expected = column.len();
            let file = write(column, properties);
            assert!(file.as_file().metadata().unwrap().len() < 1 << 20);
            let columns = Columns { column: None, id: None };
            let bytes = AtomicU64::new(0);
            let mut reader =
                parquet(file.path(), &bytes, &columns, ColumnKind::Text, block_size).unwrap();
            let mut rows = 0;
            while let Some(block) = reader.next_rows().unwrap() {
                let size: usize = block.0.iter().map(|one| text_bytes(one.batch.column(0))).sum();
                assert!(size <= block_size.bytes + STEP * LONG, "{size}");
                rows += block.0.iter().map(|one| one.batch.num_rows()).sum::<usize>();
            }
            assert_eq!(rows, expected);
        }
    }

    #[test]
    fn the_bytes_of_texts_of_every_type_are_counted() {
        let texts = ["abc", "", "a longer text than fits a view", "d"];
        let bytes = texts.concat().len();
        let mut lists = ListBuilder::new(StringBuilder::new());
        lists.append_value([Some("before")]);
        lists.append_value(texts.map(Some));
        let columns: [ArrayRef; 3] = [
            Arc::new(StringArray::from_iter_values(texts)),
            Arc::new(LargeStringArray::from_iter_values(texts)),
            Arc::new(StringViewArray::from_iter_values(texts)),
        ];
        for column in columns {
            assert_eq!(text_bytes(&column), bytes);
            assert_eq!(text_bytes(&column.slice(3, 1)), 1);
        }
        let lists: ArrayRef = Arc::new(lists.finish());
        assert_eq!(text_bytes(&lists.slice(1, 1)), bytes);
        let numbers: ArrayRef = Arc::new(arrow_array::Int32Array::from(vec![1; 5]));
        assert_eq!(text_bytes(&numbers), 40);
    }
}
