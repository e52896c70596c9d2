//! Which rows does a Parquet or Arrow column hold?
//!
//! The reader thread decodes the wanted columns batch by batch; blocks are slices of batches. A
//! record is a string (plain, large, view or dictionary-encoded), or for white-space tokens a list
//! of strings or integers whose elements are tokens as they are. Nulls are errors.
//!
//! `files.rs` opens files, `rows.rs` hands on what a block holds.
//!
//! # Memory
//!
//! Batches are decoded [`STEP`] rows at a time, and a block takes as many as its bytes allow, so that a file of long
//! texts needs no more memory than one of short texts. The strings of a Parquet file stay where they were
//! decompressed: a text that is repeated by its dictionary is held once.

mod files;
mod rows;

use super::Columns;
use super::vectors::VectorRows;
use crate::block::BlockIds;
use crate::dictionary::Place;
use crate::memory::{Batches, Element};
use crate::options::Cut;
use crate::pipeline::{Block, BlockReader};
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Schema};
use rows::{ColumnBlock, Piece, text_bytes};
use simjoin_core::{Error, Result};
use std::sync::Arc;

pub(crate) use files::{arrow, parquet};

/// Rows that are decoded, and weighed, at a time.
const STEP: usize = 256;

/// What the column of records is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Strings.
    Text,
    /// Strings, or lists of strings or integers.
    Tokens,
    /// Lists of floating-point numbers.
    Vectors,
    /// Strings or integers.
    Elements,
}

impl Kind {
    fn fits(self, kind: &DataType) -> bool {
        match self {
            // All rows of such a column are null.
            Kind::Text => is_text(kind) || kind.is_null(),
            Kind::Tokens => is_text(kind) || is_list(kind) || kind.is_null(),
            Kind::Elements => is_text(kind) || kind.is_integer() || kind.is_null(),
            Kind::Vectors => match kind {
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
            Kind::Text => "strings",
            Kind::Tokens => "strings, or lists of strings or integers",
            Kind::Elements => "strings or integers",
            Kind::Vectors => "lists of 32-bit or 64-bit floating-point numbers",
        }
    }
}

/// Reads the wanted columns of decoded batches.
pub(crate) struct Reader<'a> {
    batches: Box<dyn Iterator<Item = std::result::Result<RecordBatch, String>> + Send + 'a>,
    wanted: Arc<Wanted>,
    cut: Cut,
    /// What is left of the batch that is being cut up.
    batch: Option<RecordBatch>,
    /// The error that comes after the rows before it.
    error: Option<Error>,
    rows: u64,
    /// How many rows the file says it has.
    expected_rows: Option<u64>,
}

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

/// Finds the columns in a schema and checks their types. The positions in the answer are those in
/// the projection, which holds the schema's positions in order.
fn choose(
    name: &str,
    format: &'static str,
    schema: &Schema,
    columns: &Columns,
    records: Kind,
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

/// The format of what is in memory, in no file.
const MEMORY: &str = "memory";

/// Takes a table in memory.
pub(crate) fn memory(table: Batches<'_>, records: Kind, cut: Cut) -> Result<Reader<'_>> {
    let columns = Columns { column: table.column, id: table.id };
    let (wanted, projection) = choose(&table.name, MEMORY, &table.schema, &columns, records)?;
    let batches = table.batches.map(move |batch| {
        batch.and_then(|batch| batch.project(&projection).map_err(|error| error.to_string()))
    });
    Ok(Reader::new(Box::new(batches), wanted, cut, None))
}

impl<'a> Reader<'a> {
    fn new(
        batches: Box<dyn Iterator<Item = std::result::Result<RecordBatch, String>> + Send + 'a>,
        wanted: Wanted,
        cut: Cut,
        expected_rows: Option<u64>,
    ) -> Self {
        Reader {
            batches,
            wanted: Arc::new(wanted),
            cut,
            batch: None,
            error: None,
            rows: 0,
            expected_rows,
        }
    }
}

impl Reader<'_> {
    /// Returns the next rows of one batch, at most as many as wished for; nothing at the end.
    fn next_piece(&mut self, most: usize) -> Result<Option<Piece>> {
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
                            let reason = format!("it says {expected} rows but holds {}", self.rows);
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
        Ok(Some(Piece { batch: batch.slice(0, rows), first_row, wanted }))
    }

    /// Returns the rows of the next block.
    fn next_rows(&mut self) -> Result<Option<ColumnBlock>> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut block = Vec::new();
        let (mut rows, mut bytes) = (0, 0);
        while block.is_empty() || (rows < self.cut.rows && bytes < self.cut.bytes) {
            match self.next_piece(STEP.min(self.cut.rows - rows).max(1)) {
                Ok(Some(piece)) => {
                    rows += piece.batch.num_rows();
                    bytes += text_bytes(piece.batch.column(self.wanted.column.0));
                    block.push(piece);
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

    /// Hands on the next elements of a single set; false at the end.
    pub(crate) fn next_elements(
        &mut self,
        take: &mut dyn FnMut(Element<'_>) -> Result<()>,
    ) -> Result<bool> {
        let Some(block) = self.next_rows()? else { return Ok(false) };
        block.0.iter().try_for_each(|piece| piece.elements(take))?;
        Ok(true)
    }

    /// Adds the next vectors, and ids where they are wanted; false at the end.
    pub(crate) fn next_vectors(
        &mut self,
        rows: &mut VectorRows,
        ids: &mut BlockIds,
    ) -> Result<bool> {
        let Some(block) = self.next_rows()? else { return Ok(false) };
        block.0.iter().try_for_each(|piece| piece.vectors(rows, ids))?;
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
        // Without the schema of Arrow a reader takes the column for plain strings.
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
        // Texts that repeat the one before are as small in a file as those of a dictionary.
        let repeated = WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_encoding(Encoding::DELTA_BYTE_ARRAY)
            .set_compression(parquet::basic::Compression::ZSTD(ZstdLevel::default()));
        let cut = Cut { bytes: 1 << 20, rows: 8192 };
        for (column, properties) in
            [(views.clone(), WriterProperties::new()), (views.slice(0, 2 * STEP), repeated.build())]
        {
            let expected = column.len();
            let file = write(column, properties);
            assert!(file.as_file().metadata().unwrap().len() < 1 << 20);
            let columns = Columns { column: None, id: None };
            let bytes = AtomicU64::new(0);
            let mut reader = parquet(file.path(), &bytes, &columns, Kind::Text, cut).unwrap();
            let mut rows = 0;
            while let Some(block) = reader.next_rows().unwrap() {
                let size: usize = block.0.iter().map(|one| text_bytes(one.batch.column(0))).sum();
                assert!(size <= cut.bytes + STEP * LONG, "{size}");
                rows += block.0.iter().map(|one| one.batch.num_rows()).sum::<usize>();
            }
            assert_eq!(rows, expected);
        }
    }

    #[test]
    fn text_of_every_type_is_weighed() {
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
