//! Which rows does a Parquet or Arrow column hold?
//!
//! The reader thread decodes the wanted columns batch by batch; blocks are slices of batches. A
//! record is a string (plain, large, view or dictionary-encoded), or for white-space tokens a list
//! of strings or integers whose elements are tokens as they are. Nulls are errors.
//!
//! Arrow IPC is read in its file and its stream format.

use super::vectors::VectorRows;
use super::{Columns, ipc_check};
use crate::block::{BlockBuilder, BlockIds};
use crate::dictionary::Place;
use crate::memory::{Batches, Element};
use crate::pipeline::{Block, BlockReader};
use crate::source::{Seekable, display_name, open_seekable};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, LargeStringArray, RecordBatch, RecordBatchReader, StringArray, StringViewArray,
};
use arrow_buffer::NullBuffer;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, Length};
use simjoin_core::{Error, Result};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

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
            // A column of nulls has rows that are refused, or none.
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
    block_rows: usize,
    /// What is left of the batch that is being cut up.
    batch: Option<RecordBatch>,
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

/// Runs a decoder. Arrow and Parquet assert some things about damaged data instead of reporting
/// them; such a panic is an error like any other, and says nothing on standard error itself.
fn decode<T>(
    step: impl FnOnce() -> std::result::Result<T, String>,
) -> std::result::Result<T, String> {
    static QUIET_WHILE_DECODING: Once = Once::new();
    QUIET_WHILE_DECODING.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !DECODING.get() {
                report(info);
            }
        }));
    });
    let outer = DECODING.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(step));
    DECODING.set(outer);
    result.unwrap_or_else(|_| Err("it cannot be decoded".into()))
}

thread_local! {
    /// Whether this thread is inside [`decode`].
    static DECODING: Cell<bool> = const { Cell::new(false) };
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
pub(crate) fn memory(table: Batches<'_>, records: Kind, block_rows: usize) -> Result<Reader<'_>> {
    let columns = Columns { column: table.column, id: table.id };
    let (wanted, projection) = choose(&table.name, MEMORY, &table.schema, &columns, records)?;
    let batches = table.batches.map(move |batch| {
        batch.and_then(|batch| batch.project(&projection).map_err(|error| error.to_string()))
    });
    Ok(Reader::new(Box::new(batches), wanted, block_rows, None))
}

/// Opens a Parquet file.
pub(crate) fn parquet<'a>(
    path: &str,
    bytes: &'a AtomicU64,
    columns: &Columns,
    records: Kind,
    block_rows: usize,
) -> Result<Reader<'a>> {
    let name = display_name(path);
    let input = open_not_empty(path, bytes)?;
    let broken = |reason: &str| corrupt(name, "Parquet", reason);
    // The decoder keeps the file for itself, so it counts into a counter of its own.
    let counter = Arc::new(AtomicU64::new(0));
    let counted = input.counted;
    let chunks = Chunks { file: input.file, length: input.length, bytes: counter.clone() };
    check_parquet_magic(&chunks.file, input.length).map_err(|reason| broken(&reason))?;
    let builder = decode(|| {
        ParquetRecordBatchReaderBuilder::try_new(chunks).map_err(|error| error.to_string())
    })
    .map_err(|reason| broken(&reason))?;
    check_parquet_metadata(builder.metadata(), input.length).map_err(|reason| broken(&reason))?;
    let (wanted, projection) = choose(name, "Parquet", builder.schema(), columns, records)?;
    let expected_rows = u64::try_from(builder.metadata().file_metadata().num_rows()).ok();
    let mask = ProjectionMask::roots(builder.parquet_schema(), projection);
    let builder = builder.with_projection(mask).with_batch_size(block_rows);
    let batches = decode(|| builder.build().map_err(|error| error.to_string()))
        .map_err(|reason| broken(&reason))?;
    let batches = batches.map(move |batch| {
        let read = counter.swap(0, Ordering::Relaxed);
        if !counted {
            bytes.fetch_add(read, Ordering::Relaxed);
        }
        batch.map_err(|error| error.to_string())
    });
    Ok(Reader::new(Box::new(batches), wanted, block_rows, expected_rows))
}

fn check_parquet_magic(mut file: &File, length: u64) -> std::result::Result<(), String> {
    let mut check = || -> io::Result<bool> {
        let mut magic = [0; 4];
        file.seek(SeekFrom::Start(0))?;
        file.read_exact(&mut magic)?;
        let head = magic;
        file.seek(SeekFrom::Start(length - 4))?;
        file.read_exact(&mut magic)?;
        Ok(head == *b"PAR1" && magic == *b"PAR1")
    };
    if length < 12 || !check().map_err(|error| error.to_string())? {
        return Err("it does not begin and end with PAR1".into());
    }
    Ok(())
}

/// Checks that the metadata's numbers fit the file: the decoder trusts them.
fn check_parquet_metadata(
    metadata: &ParquetMetaData,
    length: u64,
) -> std::result::Result<(), String> {
    let mut rows = 0i64;
    for group in metadata.row_groups() {
        if group.num_rows() < 0 {
            return Err("a negative number of rows".into());
        }
        rows = rows.saturating_add(group.num_rows());
        for column in group.columns() {
            let outside = || "a column lies outside the file".to_owned();
            let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            let start = u64::try_from(start).map_err(|_| outside())?;
            let size = u64::try_from(column.compressed_size()).map_err(|_| outside())?;
            if start.checked_add(size).is_none_or(|end| end > length)
                || column.data_page_offset() < 0
                || column.num_values() < 0
            {
                return Err(outside());
            }
        }
    }
    if metadata.file_metadata().num_rows() != rows {
        return Err("its parts have another number of rows than the whole".into());
    }
    Ok(())
}

/// Opens an Arrow IPC file or stream.
pub(crate) fn arrow<'a>(
    path: &str,
    bytes: &'a AtomicU64,
    columns: &Columns,
    records: Kind,
    block_rows: usize,
) -> Result<Reader<'a>> {
    let name = display_name(path);
    let mut input = open_not_empty(path, bytes)?;
    let broken = |reason: &str| corrupt(name, "Arrow", reason);
    let is_file = ipc_check::is_file_format(&mut input.file).map_err(|e| Error::io(name, e))?;
    let check = if is_file { ipc_check::check_file } else { ipc_check::check_stream };
    check(&mut input.file, input.length).map_err(|reason| broken(&reason))?;
    input.file.seek(SeekFrom::Start(0)).map_err(|error| Error::io(name, error))?;
    let schema_file = input.file.try_clone().map_err(|error| Error::io(name, error))?;
    // One look at the schema tells the projection; the second reader uses it.
    let open_schema = || {
        let file = BufReader::new(schema_file);
        let schema = if is_file {
            FileReader::try_new(file, None).map(|reader| reader.schema())
        } else {
            StreamReader::try_new(file, None).map(|reader| reader.schema())
        };
        schema.map_err(|error| error.to_string())
    };
    let schema = decode(open_schema).map_err(|reason| broken(&reason))?;
    let (wanted, projection) = choose(name, "Arrow", &schema, columns, records)?;
    input.file.seek(SeekFrom::Start(0)).map_err(|error| Error::io(name, error))?;
    let counter = (!input.counted).then_some(bytes);
    let file =
        BufReader::with_capacity(256 * 1024, CountingFile { file: input.file, bytes: counter });
    let open_batches =
        || -> std::result::Result<Box<dyn RecordBatchReader + Send + 'a>, ArrowError> {
            Ok(if is_file {
                Box::new(FileReader::try_new(file, Some(projection))?)
            } else {
                Box::new(StreamReader::try_new(file, Some(projection))?)
            })
        };
    let batches = decode(|| open_batches().map_err(|error| error.to_string()))
        .map_err(|reason| broken(&reason))?;
    let batches = batches.map(|batch| batch.map_err(|error| error.to_string()));
    Ok(Reader::new(Box::new(batches), wanted, block_rows, None))
}

fn open_not_empty(path: &str, bytes: &AtomicU64) -> Result<Seekable> {
    let input = open_seekable(path, bytes)?;
    if input.length == 0 {
        return Err(Error::input(display_name(path), "", "no records: the input is empty"));
    }
    Ok(input)
}

struct CountingFile<'a> {
    file: File,
    bytes: Option<&'a AtomicU64>,
}

impl Read for CountingFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        if let Some(bytes) = self.bytes {
            bytes.fetch_add(read as u64, Ordering::Relaxed);
        }
        Ok(read)
    }
}

impl Seek for CountingFile<'_> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}

/// A file as Parquet wants it.
struct Chunks {
    file: File,
    length: u64,
    bytes: Arc<AtomicU64>,
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Chunks {
    type T = <File as ChunkReader>::T;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        self.file.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<bytes::Bytes> {
        // A damaged length is refused before memory is asked for.
        if start.checked_add(length as u64).is_none_or(|end| end > self.length) {
            return Err(parquet::errors::ParquetError::EOF("a chunk lies outside the file".into()));
        }
        self.bytes.fetch_add(length as u64, Ordering::Relaxed);
        self.file.get_bytes(start, length)
    }
}

impl<'a> Reader<'a> {
    fn new(
        batches: Box<dyn Iterator<Item = std::result::Result<RecordBatch, String>> + Send + 'a>,
        wanted: Wanted,
        block_rows: usize,
        expected_rows: Option<u64>,
    ) -> Self {
        Reader {
            batches,
            wanted: Arc::new(wanted),
            block_rows: block_rows.max(1),
            batch: None,
            rows: 0,
            expected_rows,
        }
    }
}

impl Reader<'_> {
    /// The next rows, and the number of the first.
    fn next_rows(&mut self) -> Result<Option<ColumnBlock>> {
        let batch = loop {
            match self.batch.take() {
                Some(batch) if batch.num_rows() > 0 => break batch,
                _ => {}
            }
            let batches = &mut self.batches;
            let batch = decode(|| batches.next().transpose());
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
        let rows = batch.num_rows().min(self.block_rows);
        let block = ColumnBlock {
            batch: batch.slice(0, rows),
            first_row: self.rows,
            wanted: self.wanted.clone(),
        };
        self.rows += rows as u64;
        self.batch = Some(batch.slice(rows, batch.num_rows() - rows));
        Ok(Some(block))
    }

    /// Hands on the next elements of a single set; false at the end.
    pub(crate) fn next_elements(
        &mut self,
        take: &mut dyn FnMut(Element<'_>) -> Result<()>,
    ) -> Result<bool> {
        let Some(block) = self.next_rows()? else { return Ok(false) };
        block.elements(take)?;
        Ok(true)
    }

    /// Adds the next vectors, and ids where they are wanted; false at the end.
    pub(crate) fn next_vectors(
        &mut self,
        rows: &mut VectorRows,
        ids: &mut BlockIds,
    ) -> Result<bool> {
        let Some(block) = self.next_rows()? else { return Ok(false) };
        block.vectors(rows, ids)?;
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

struct ColumnBlock {
    batch: RecordBatch,
    first_row: u64,
    wanted: Arc<Wanted>,
}

impl ColumnBlock {
    fn elements(&self, take: &mut dyn FnMut(Element<'_>) -> Result<()>) -> Result<()> {
        let wanted = &self.wanted;
        let (column, name) = (self.batch.column(wanted.column.0), &wanted.column.1);
        let nulls = column.logical_nulls();
        let values =
            Values::of(column).ok_or_else(|| wanted.corrupt("a column changes its type"))?;
        let mut digits = itoa::Buffer::new();
        for row in 0..self.batch.num_rows() {
            if is_null(nulls.as_ref(), row) {
                let message = format!("null in column `{name}`; a string or integer was expected");
                return Err(wanted.error(self.first_row + row as u64, message));
            }
            take(match &values {
                Values::Signed { values, .. } => Element::Signed(values[row]),
                Values::Unsigned { values, .. } => Element::Unsigned(values[row]),
                text => Element::Text(text.get(row, &mut digits)),
            })?;
        }
        Ok(())
    }

    fn vectors(&self, rows: &mut VectorRows, ids: &mut BlockIds) -> Result<()> {
        let wanted = &self.wanted;
        let (column, name) = (self.batch.column(wanted.column.0), &wanted.column.1);
        let changes = || wanted.corrupt("a column changes its type within the file");
        let nulls = column.logical_nulls();
        let (ends, elements) = list_parts(column).ok_or_else(changes)?;
        let element_nulls = elements.logical_nulls();
        for row in 0..self.batch.num_rows() {
            let place = self.first_row + row as u64;
            let range = ends[row]..ends[row + 1];
            if is_null(nulls.as_ref(), row) {
                let message = format!("null in column `{name}`; a list of numbers was expected");
                return Err(wanted.error(place, message));
            }
            if range.start > range.end || range.end > elements.len() {
                return Err(wanted.corrupt("a list lies outside its elements"));
            }
            if range.clone().any(|element| is_null(element_nulls.as_ref(), element)) {
                let message = format!("null in a list of column `{name}`; numbers were expected");
                return Err(wanted.error(place, message));
            }
            let added = match elements.data_type() {
                DataType::Float32 => {
                    rows.add_f32(&elements.as_primitive::<Float32Type>().values()[range])
                }
                DataType::Float64 => {
                    rows.add_f64(&elements.as_primitive::<Float64Type>().values()[range])
                }
                _ => return Err(changes()),
            };
            added.map_err(|message| wanted.error(place, message))?;
        }
        let Some((at, name)) = &wanted.id else { return Ok(()) };
        let column = self.batch.column(*at);
        let (values, nulls) = (Values::of(column).ok_or_else(changes)?, column.logical_nulls());
        let mut digits = itoa::Buffer::new();
        for row in 0..self.batch.num_rows() {
            let place = self.first_row + row as u64;
            if is_null(nulls.as_ref(), row) {
                return Err(wanted.error(place, format!("null in id column `{name}`")));
            }
            let id = values.get(row, &mut digits);
            ids.integers &= values.are_integers() && id.parse::<i64>().is_ok();
            ids.text.push_str(id);
            ids.ends.push(ids.text.len());
            ids.places.push(place);
        }
        Ok(())
    }
}

/// Where lists end, the start of the first before them, and the elements of all.
fn list_parts(column: &ArrayRef) -> Option<(Vec<usize>, &ArrayRef)> {
    Some(match column.data_type() {
        DataType::List(_) => {
            let list = column.as_list::<i32>();
            (list.value_offsets().iter().map(|&end| end as usize).collect(), list.values())
        }
        DataType::LargeList(_) => {
            let list = column.as_list::<i64>();
            (list.value_offsets().iter().map(|&end| end as usize).collect(), list.values())
        }
        DataType::FixedSizeList(_, size) => {
            let list = column.as_fixed_size_list();
            let size = usize::try_from(*size).ok()?;
            let first = list.value_offset_at(0);
            ((0..=list.len()).map(|row| first + row * size).collect(), list.values())
        }
        _ => return None,
    })
}

impl Block for ColumnBlock {
    fn tokenize(&self, builder: &mut BlockBuilder) -> Result<()> {
        let wanted = &self.wanted;
        let (column, name) = (self.batch.column(wanted.column.0), &wanted.column.1);
        let nulls = column.logical_nulls();
        let records = Records::of(column)
            .ok_or_else(|| wanted.corrupt("a column changes its type within the file"))?;
        let ids = match &wanted.id {
            None => None,
            Some((at, name)) => {
                let column = self.batch.column(*at);
                let values = Values::of(column)
                    .ok_or_else(|| wanted.corrupt("a column changes its type within the file"))?;
                Some((values, column.logical_nulls(), name))
            }
        };
        let mut digits = itoa::Buffer::new();
        for row in 0..self.batch.num_rows() {
            let place = self.first_row + row as u64;
            if is_null(nulls.as_ref(), row) {
                let message = format!("null in column `{name}`; a value was expected");
                return Err(wanted.error(place, message));
            }
            match &records {
                Records::Text(values) => builder.record(values.get(row, &mut digits)),
                Records::Lists { ends, values, nulls } => {
                    for element in ends[row]..ends[row + 1] {
                        if is_null(nulls.as_ref(), element - ends[0]) {
                            let at = element - ends[row];
                            let message = format!(
                                "element {at} of the list in column `{name}` is null; \
                                 a value was expected"
                            );
                            return Err(wanted.error(place, message));
                        }
                        match values {
                            Values::Signed { start, values } => {
                                let value = values[element - start];
                                builder.integer(value as u64, value);
                            }
                            Values::Unsigned { start, values } => {
                                let value = values[element - start];
                                builder.integer(value, value);
                            }
                            text => builder.token(text.get(element, &mut digits).as_bytes()),
                        }
                    }
                }
            }
            if let Some((values, nulls, name)) = &ids {
                if is_null(nulls.as_ref(), row) {
                    let message = format!("null in id column `{name}`; a value was expected");
                    return Err(wanted.error(place, message));
                }
                builder.id(values.get(row, &mut digits), values.are_integers(), place);
            }
            builder.end_row();
        }
        Ok(())
    }
}

#[inline]
fn is_null(nulls: Option<&NullBuffer>, at: usize) -> bool {
    nulls.is_some_and(|nulls| nulls.is_null(at))
}

/// A record column of a block.
enum Records<'a> {
    Text(Values<'a>),
    /// Row `r` holds the elements `ends[r]..ends[r + 1]`; nulls are those from `ends[0]` on.
    Lists {
        ends: Vec<usize>,
        values: Values<'a>,
        nulls: Option<NullBuffer>,
    },
}

impl<'a> Records<'a> {
    fn of(column: &'a ArrayRef) -> Option<Self> {
        let Some((ends, elements)) = list_parts(column) else {
            return Values::of(column).map(Records::Text);
        };
        // A slice of a batch shares all elements of the batch; only its own are looked at.
        let (first, last) = (*ends.first()?, *ends.last()?);
        let nulls = (first <= last && last <= elements.len())
            .then(|| elements.slice(first, last - first).logical_nulls())?;
        let values = Values::of_range(elements, first, last)?;
        Some(Records::Lists { ends, values, nulls })
    }
}

/// Strings or integers by position.
enum Values<'a> {
    Utf8(&'a StringArray),
    LargeUtf8(&'a LargeStringArray),
    Utf8View(&'a StringViewArray),
    Dictionary {
        start: usize,
        keys: Vec<usize>,
        values: Box<Values<'a>>,
    },
    Signed {
        start: usize,
        values: Vec<i64>,
    },
    Unsigned {
        start: usize,
        values: Vec<u64>,
    },
    /// Nulls alone, which nobody asks for.
    Nulls,
}

impl<'a> Values<'a> {
    fn of(column: &'a ArrayRef) -> Option<Self> {
        Self::of_range(column, 0, column.len())
    }

    /// Values that will be asked for only within `first..last`.
    fn of_range(column: &'a ArrayRef, first: usize, last: usize) -> Option<Self> {
        fn signed<'a, T>(column: &ArrayRef, first: usize, last: usize) -> Option<Values<'a>>
        where
            T: ArrowPrimitiveType,
            T::Native: Into<i64>,
        {
            let values = column.as_primitive::<T>().values().get(first..last)?;
            Some(Values::Signed {
                start: first,
                values: values.iter().map(|&v| v.into()).collect(),
            })
        }
        fn unsigned<'a, T>(column: &ArrayRef, first: usize, last: usize) -> Option<Values<'a>>
        where
            T: ArrowPrimitiveType,
            T::Native: Into<u64>,
        {
            let values = column.as_primitive::<T>().values().get(first..last)?;
            Some(Values::Unsigned {
                start: first,
                values: values.iter().map(|&v| v.into()).collect(),
            })
        }
        match column.data_type() {
            DataType::Null => Some(Values::Nulls),
            DataType::Utf8 => Some(Values::Utf8(column.as_string())),
            DataType::LargeUtf8 => Some(Values::LargeUtf8(column.as_string())),
            DataType::Utf8View => Some(Values::Utf8View(column.as_string_view())),
            DataType::Int8 => signed::<Int8Type>(column, first, last),
            DataType::Int16 => signed::<Int16Type>(column, first, last),
            DataType::Int32 => signed::<Int32Type>(column, first, last),
            DataType::Int64 => signed::<Int64Type>(column, first, last),
            DataType::UInt8 => unsigned::<UInt8Type>(column, first, last),
            DataType::UInt16 => unsigned::<UInt16Type>(column, first, last),
            DataType::UInt32 => unsigned::<UInt32Type>(column, first, last),
            DataType::UInt64 => unsigned::<UInt64Type>(column, first, last),
            DataType::Dictionary(_, _) => {
                let dictionary = column.as_any_dictionary();
                let values = dictionary.values();
                // Where the value is null the row is, and its key is not looked at.
                let keys = match values.is_empty() {
                    true => Vec::new(),
                    false => {
                        let slice = column.slice(first, last - first);
                        slice.as_any_dictionary().normalized_keys()
                    }
                };
                let values = Box::new(Values::of(values)?);
                Some(Values::Dictionary { start: first, keys, values })
            }
            _ => None,
        }
    }

    /// Whether the values are integers by their type.
    fn are_integers(&self) -> bool {
        matches!(self, Values::Signed { .. } | Values::Unsigned { .. })
    }

    /// The value as text. Asked for only where it is not null.
    #[inline]
    fn get<'b>(&'b self, at: usize, digits: &'b mut itoa::Buffer) -> &'b str {
        match self {
            Values::Utf8(array) => array.value(at),
            Values::LargeUtf8(array) => array.value(at),
            Values::Utf8View(array) => array.value(at),
            Values::Dictionary { start, keys, values } => values.get(keys[at - start], digits),
            Values::Signed { start, values } => digits.format(values[at - start]),
            Values::Unsigned { start, values } => digits.format(values[at - start]),
            Values::Nulls => "",
        }
    }
}
