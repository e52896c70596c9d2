//! How are rows written as columns?
//!
//! Rows are gathered into batches of a fixed size. Parquet puts a million rows into a row group (integers as
//! differences, similarities with a dictionary, everything compressed with zstd); Arrow IPC writes each batch unchanged.

use super::target::Target;
use super::{KeyColumn, OutputColumns, OutputFormat};
use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use parking_lot::{Mutex, MutexGuard};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use simjoin_core::{RowPair, Side};
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

/// The number of rows in a batch.
const BATCH_ROWS: usize = 1 << 16;
/// The number of rows in a Parquet row group.
const GROUP_ROWS: usize = 1 << 20;

/// Writes Parquet or Arrow IPC.
pub(super) struct ColumnWriter<'a> {
    format: BatchWriter,
    schema: SchemaRef,
    output: OutputColumns<'a>,
    rows: Vec<RowPair>,
}

/// Writes batches in one of the formats.
enum BatchWriter {
    Parquet(Box<ArrowWriter<SharedTarget>>, SharedTarget),
    Arrow(Box<FileWriter<BufWriter<Target>>>),
}

/// A target that outlives the Parquet writer. Getting the target back from the writer would hide errors of the operating
/// system while the last bytes are written.
#[derive(Clone)]
struct SharedTarget(Arc<Mutex<Target>>);

impl SharedTarget {
    fn lock(&self) -> MutexGuard<'_, Target> {
        self.0.lock()
    }
}

impl Write for SharedTarget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lock().flush()
    }
}

impl<'a> ColumnWriter<'a> {
    pub(super) fn new(
        target: Target,
        format: OutputFormat,
        output: OutputColumns<'a>,
    ) -> io::Result<Self> {
        let schema = output.schema();
        let format = match format {
            OutputFormat::Parquet => {
                let properties = properties(&schema)?;
                let target = SharedTarget(Arc::new(Mutex::new(target)));
                let writer = ArrowWriter::try_new(target.clone(), schema.clone(), Some(properties));
                BatchWriter::Parquet(Box::new(writer.map_err(parquet_error)?), target)
            }
            _ => {
                let target = BufWriter::with_capacity(1 << 20, target);
                BatchWriter::Arrow(Box::new(
                    FileWriter::try_new(target, &schema).map_err(arrow_error)?,
                ))
            }
        };
        Ok(ColumnWriter { format, schema, output, rows: Vec::new() })
    }

    pub(super) fn write(&mut self, mut rows: &[RowPair]) -> io::Result<()> {
        while self.rows.len() + rows.len() >= BATCH_ROWS {
            let (now, later) = rows.split_at(BATCH_ROWS - self.rows.len());
            self.rows.extend_from_slice(now);
            self.write_batch()?;
            rows = later;
        }
        self.rows.extend_from_slice(rows);
        Ok(())
    }

    fn write_batch(&mut self) -> io::Result<()> {
        let batch = self.output.batch(&self.schema, &self.rows)?;
        self.rows.clear();
        match &mut self.format {
            BatchWriter::Parquet(writer, _) => writer.write(&batch).map_err(parquet_error),
            BatchWriter::Arrow(writer) => writer.write(&batch).map_err(arrow_error),
        }
    }

    pub(super) fn finish(mut self) -> io::Result<Target> {
        if !self.rows.is_empty() {
            self.write_batch()?;
        }
        match self.format {
            BatchWriter::Parquet(mut writer, target) => {
                writer.finish().map_err(parquet_error)?;
                writer.sync()?;
                drop(writer);
                let target = Arc::into_inner(target.0);
                let target =
                    target.ok_or_else(|| io::Error::other("the output is still in use"))?;
                Ok(target.into_inner())
            }
            BatchWriter::Arrow(writer) => {
                let buffered = writer.into_inner().map_err(arrow_error)?;
                buffered.into_inner().map_err(io::IntoInnerError::into_error)
            }
        }
    }
}

impl OutputColumns<'_> {
    /// Returns the schema. No column has nulls.
    pub(crate) fn schema(&self) -> SchemaRef {
        let mut fields: Vec<Field> = Vec::new();
        for key in &self.keys {
            let kind = if key.is_integers() { DataType::Int64 } else { DataType::Utf8 };
            fields.push(Field::new(key.name, kind, false));
        }
        for &name in self.values.names() {
            let kind = if name == "overlap" { DataType::Int64 } else { DataType::Float64 };
            fields.push(Field::new(name, kind, false));
        }
        if self.inputs {
            fields.push(Field::new("left_input", DataType::Utf8, false));
        }
        Arc::new(Schema::new(fields))
    }

    /// Makes a batch with this schema.
    pub(crate) fn batch(&self, schema: &SchemaRef, rows: &[RowPair]) -> io::Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = vec![
            key_column(&self.keys[0], rows.iter().map(|row| (row.left_input, row.left)))?,
            key_column(&self.keys[1], rows.iter().map(|row| (Side::Right, row.right)))?,
        ];
        if self.values.overlap() {
            let overlaps = rows.iter().map(|row| i64::from(row.overlap));
            columns.push(Arc::new(Int64Array::from_iter_values(overlaps)));
        }
        if self.values.score() {
            let similarities = rows.iter().map(|row| row.similarity);
            columns.push(Arc::new(Float64Array::from_iter_values(similarities)));
        }
        if self.inputs {
            let inputs = rows.iter().map(|row| row.left_input.name());
            columns.push(Arc::new(StringArray::from_iter_values(inputs)));
        }
        RecordBatch::try_new(schema.clone(), columns).map_err(arrow_error)
    }
}

fn key_column(
    key: &KeyColumn<'_>,
    rows: impl Iterator<Item = (Side, u32)>,
) -> io::Result<ArrayRef> {
    Ok(match key.ids {
        [Some(left), Some(right)] if key.is_integers() => {
            let numbers = rows.map(|(input, row)| {
                let ids = if input == Side::Left { left } else { right };
                ids.get(row as usize).parse().unwrap_or_default()
            });
            Arc::new(Int64Array::from_iter_values(numbers))
        }
        [Some(left), Some(right)] => {
            let mut strings = StringBuilder::new();
            for (input, row) in rows {
                let ids = if input == Side::Left { left } else { right };
                let id = ids.get(row as usize);
                // The builder panics at 2³¹ bytes.
                if strings.values_slice().len() + id.len() > i32::MAX as usize {
                    let message = format!("the ids of {BATCH_ROWS} rows have 2 GiB or more");
                    return Err(io::Error::other(message));
                }
                strings.append_value(id);
            }
            Arc::new(strings.finish())
        }
        _ => Arc::new(Int64Array::from_iter_values(rows.map(|(_, row)| i64::from(row)))),
    })
}

fn properties(schema: &Schema) -> io::Result<WriterProperties> {
    let level = ZstdLevel::try_new(1).map_err(parquet_error)?;
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_created_by(concat!("simjoin ", env!("CARGO_PKG_VERSION")).to_owned());
    for field in schema.fields() {
        if field.data_type() == &DataType::Int64 {
            let column = ColumnPath::from(field.name().as_str());
            properties = properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
        }
    }
    Ok(properties.build())
}

fn arrow_error(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        other => io::Error::other(other.to_string()),
    }
}

fn parquet_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other.to_string()),
        },
        other => io::Error::other(other.to_string()),
    }
}
