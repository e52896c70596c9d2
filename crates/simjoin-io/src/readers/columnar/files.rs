//! How is a Parquet or Arrow file opened?
//!
//! Decoders trust some numbers in a file, so these are checked first. Arrow IPC is read in its file and its stream
//! format.

use super::{ColumnKind, Columns, Reader, STEP, choose, corrupt};
use crate::options::BlockSize;
use crate::path::display_name;
use crate::readers::ipc_check;
use crate::source::{Seekable, open_seekable};
use arrow_array::RecordBatchReader;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::ConvertedType;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, Length};
use simjoin_core::{Error, Result};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

/// Runs a decoder. Arrow and Parquet panic on some damaged data; such a panic becomes an error, and prints nothing on
/// standard error.
pub(super) fn decode<T>(
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

/// Opens a Parquet file.
pub(crate) fn parquet<'a>(
    path: &Path,
    bytes: &'a AtomicU64,
    columns: &Columns,
    records: ColumnKind,
    block_size: BlockSize,
) -> Result<Reader<'a>> {
    let name = &display_name(path);
    let input = open_not_empty(path, bytes)?;
    let broken = |reason: &str| corrupt(name, "Parquet", reason);
    // The decoder must own all that it uses, so it has a counter of its own.
    let counter = Arc::new(AtomicU64::new(0));
    let counted = input.counted;
    let chunks = Chunks { file: input.file, length: input.length, bytes: counter.clone() };
    check_parquet_magic(&chunks.file, input.length).map_err(|reason| broken(&reason))?;
    let metadata = decode(|| {
        ArrowReaderMetadata::load(&chunks, ArrowReaderOptions::new())
            .map_err(|error| error.to_string())
    })
    .map_err(|reason| broken(&reason))?;
    check_parquet_metadata(metadata.metadata(), input.length).map_err(|reason| broken(&reason))?;
    let (wanted, projection) = choose(name, "Parquet", metadata.schema(), columns, records)?;
    let expected_rows = u64::try_from(metadata.metadata().file_metadata().num_rows()).ok();
    let views = ArrowReaderOptions::new().with_schema(with_views(&metadata, &projection));
    let views = decode(|| {
        ArrowReaderMetadata::try_new(metadata.metadata().clone(), views)
            .map_err(|error| error.to_string())
    });
    let metadata = views.unwrap_or(metadata);
    let batch_rows = batch_rows(metadata.metadata(), &projection).min(block_size.rows);
    let mask = ProjectionMask::roots(metadata.parquet_schema(), projection);
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(chunks, metadata);
    let builder = builder.with_projection(mask).with_batch_size(batch_rows.max(1));
    let batches = decode(|| builder.build().map_err(|error| error.to_string()))
        .map_err(|reason| broken(&reason))?;
    let batches = batches.map(move |batch| {
        let read = counter.swap(0, Ordering::Relaxed);
        if !counted {
            bytes.fetch_add(read, Ordering::Relaxed);
        }
        batch.map_err(|error| error.to_string())
    });
    Ok(Reader::new(Box::new(batches), wanted, block_size, expected_rows))
}

/// Returns the schema with string views instead of strings in the wanted columns. Views point into the decompressed
/// pages, so a batch can hold any number of them. Columns that are not declared as UTF-8 stay as they are, because the
/// decoder only checks declared ones.
fn with_views(metadata: &ArrowReaderMetadata, projection: &[usize]) -> SchemaRef {
    let parquet = metadata.parquet_schema();
    let is_utf8 = |root: usize| {
        (0..parquet.num_columns())
            .filter(|&leaf| parquet.get_column_root_idx(leaf) == root)
            .all(|leaf| parquet.column(leaf).converted_type() == ConvertedType::UTF8)
    };
    let schema = metadata.schema();
    let fields = schema.fields().iter().enumerate().map(|(at, field)| {
        match projection.contains(&at) && is_utf8(at) {
            true => Arc::new(field.as_ref().clone().with_data_type(as_views(field.data_type()))),
            false => field.clone(),
        }
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

fn as_views(kind: &DataType) -> DataType {
    let element = |field: &Arc<Field>| {
        Arc::new(field.as_ref().clone().with_data_type(as_views(field.data_type())))
    };
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Dictionary(_, values) => as_views(values),
        DataType::List(field) => DataType::List(element(field)),
        DataType::LargeList(field) => DataType::LargeList(element(field)),
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(element(field), *size),
        other => other.clone(),
    }
}

/// Returns the number of rows to decode at a time. It is small if rows are long on average.
fn batch_rows(metadata: &ParquetMetaData, projection: &[usize]) -> usize {
    /// The approximate number of bytes to decode at a time.
    const BATCH_BYTES: u64 = 64 << 20;
    let parquet = metadata.file_metadata().schema_descr();
    let longest = metadata.row_groups().iter().map(|group| {
        let wanted = |&leaf: &usize| projection.contains(&parquet.get_column_root_idx(leaf));
        let bytes = (0..group.num_columns()).filter(wanted);
        let bytes = bytes
            .map(|leaf| group.column(leaf).uncompressed_size().max(0))
            .fold(0, i64::saturating_add);
        bytes as u64 / (group.num_rows().max(1) as u64)
    });
    let longest = longest.max().unwrap_or(0).max(1);
    usize::try_from(BATCH_BYTES / longest).unwrap_or(STEP).clamp(1, STEP)
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

/// Checks that the numbers in the metadata fit the file, because the decoder trusts them.
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
        return Err("the row groups and the file disagree on the number of rows".into());
    }
    Ok(())
}

/// Opens an Arrow IPC file or stream.
pub(crate) fn arrow<'a>(
    path: &Path,
    bytes: &'a AtomicU64,
    columns: &Columns,
    records: ColumnKind,
    block_size: BlockSize,
) -> Result<Reader<'a>> {
    let name = &display_name(path);
    let mut input = open_not_empty(path, bytes)?;
    let broken = |reason: &str| corrupt(name, "Arrow", reason);
    let is_file = ipc_check::is_file_format(&mut input.file).map_err(|e| Error::io(name, e))?;
    let check = if is_file { ipc_check::check_file } else { ipc_check::check_stream };
    check(&mut input.file, input.length).map_err(|reason| broken(&reason))?;
    input.file.seek(SeekFrom::Start(0)).map_err(|error| Error::io(name, error))?;
    let schema_file = input.file.try_clone().map_err(|error| Error::io(name, error))?;
    // The first reader only reads the schema, which gives the projection for the second one.
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
    Ok(Reader::new(Box::new(batches), wanted, block_size, None))
}

fn open_not_empty(path: &Path, bytes: &AtomicU64) -> Result<Seekable> {
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

/// A file in the form that the Parquet decoder needs.
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
        // A damaged length is refused before memory is allocated for it.
        if start.checked_add(length as u64).is_none_or(|end| end > self.length) {
            return Err(parquet::errors::ParquetError::EOF("a chunk lies outside the file".into()));
        }
        self.bytes.fetch_add(length as u64, Ordering::Relaxed);
        self.file.get_bytes(start, length)
    }
}
