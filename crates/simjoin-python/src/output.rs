//! Which answers does Python receive?
//!
//! A [`Table`] holds an answer in memory; a [`Stream`] returns it batch by batch while the join runs.
//! Both have Arrow's interface (`__arrow_c_stream__`), and nothing is copied.

use crate::errors::raise;
use crate::job::{Job, Message, Stop};
use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, SchemaRef};
use parking_lot::{Mutex, MutexGuard};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList, PyTuple};
use std::fmt::Write as _;

/// The number of rows that are shown.
const SHOWN: usize = 10;

/// An answer in memory.
#[pyclass(module = "simjoin", frozen)]
pub struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    stats: Option<Py<PyDict>>,
}

impl Table {
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>, stats: Option<Py<PyDict>>) -> Self {
        Table { schema, batches, stats }
    }

    fn rows_of(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn columns(&self, at: usize) -> impl Iterator<Item = &ArrayRef> {
        self.batches.iter().map(move |batch| batch.column(at))
    }
}

/// Makes a capsule with the columns' names and types.
fn schema_capsule<'py>(py: Python<'py>, schema: &SchemaRef) -> PyResult<Bound<'py, PyCapsule>> {
    let schema =
        FFI_ArrowSchema::try_from(schema.as_ref()).map_err(|error| internal(py, &error))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

fn stream_capsule<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}

fn internal(py: Python<'_>, error: &ArrowError) -> PyErr {
    raise(py, "InternalError", &error.to_string())
}

/// Returns a value of a column as a Python object.
fn value<'py>(py: Python<'py>, column: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
    Ok(match column.data_type() {
        DataType::Int64 => {
            column.as_primitive::<Int64Type>().value(row).into_pyobject(py)?.into_any()
        }
        DataType::Float64 => {
            column.as_primitive::<Float64Type>().value(row).into_pyobject(py)?.into_any()
        }
        _ => column.as_string::<i32>().value(row).into_pyobject(py)?.into_any(),
    })
}

#[pymethods]
impl Table {
    fn __len__(&self) -> usize {
        self.rows_of()
    }

    /// Rows and columns.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        (self.rows_of(), self.schema.fields().len())
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The names and types of the columns.
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        for field in self.schema.fields() {
            let kind = match field.data_type() {
                DataType::Int64 => "int64",
                DataType::Float64 => "float64",
                _ => "string",
            };
            fields.set_item(field.name(), kind)?;
        }
        Ok(fields)
    }

    /// Statistics: records, pairs, technique, seconds of each phase.
    #[getter]
    fn stats<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyDict>> {
        self.stats.as_ref().map(|stats| stats.bind(py).clone())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows producers to ignore the requested schema; the consumer converts.
        drop(requested_schema);
        let batches = self.batches.clone().into_iter().map(Ok);
        stream_capsule(py, Box::new(RecordBatchIterator::new(batches, self.schema.clone())))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    /// Returns all rows as tuples.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        for batch in &self.batches {
            for row in 0..batch.num_rows() {
                let values = batch.columns().iter().map(|column| value(py, column, row));
                rows.append(PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)?)?;
            }
            py.check_signals()?;
        }
        Ok(rows)
    }

    /// Returns the columns as lists, by name.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for (at, field) in self.schema.fields().iter().enumerate() {
            let list = PyList::empty(py);
            for column in self.columns(at) {
                for row in 0..column.len() {
                    list.append(value(py, column, row)?)?;
                }
                py.check_signals()?;
            }
            columns.set_item(field.name(), list)?;
        }
        Ok(columns)
    }

    /// Returns the columns as NumPy arrays, by name.
    fn to_numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let numpy = py.import("numpy")?;
        let arrays = PyDict::new(py);
        for (at, field) in self.schema.fields().iter().enumerate() {
            let kind = field.data_type();
            if !matches!(kind, DataType::Int64 | DataType::Float64) {
                let list = PyList::empty(py);
                for column in self.columns(at) {
                    for row in 0..column.len() {
                        list.append(value(py, column, row)?)?;
                    }
                }
                arrays.set_item(field.name(), numpy.call_method1("array", (list, "O"))?)?;
                continue;
            }
            let bytes = PyBytes::new_with(py, 8 * self.rows_of(), |mut bytes| {
                for column in self.columns(at) {
                    let data = column.to_data();
                    let own = &data.buffers()[0].as_slice()[8 * data.offset()..][..8 * data.len()];
                    let (now, later) = bytes.split_at_mut(own.len());
                    now.copy_from_slice(own);
                    bytes = later;
                }
                Ok(())
            })?;
            let kind = if *kind == DataType::Int64 { "int64" } else { "float64" };
            let array = numpy.call_method1("frombuffer", (bytes, kind))?;
            arrays.set_item(field.name(), array)?;
        }
        Ok(arrays)
    }

    /// Returns a `pyarrow.Table`, without copying.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.call_method1("table", (slf,))
    }

    /// Returns a `polars.DataFrame`.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("polars")?.call_method1("DataFrame", (slf,))
    }

    /// Returns a `pandas.DataFrame`.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        py.import("pandas")?.call_method1("DataFrame", (slf.get().to_numpy(py)?,))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let rows = self.rows_of();
        let mut text = format!("simjoin.Table: {rows} {}", if rows == 1 { "row" } else { "rows" });
        let names = self.column_names();
        let mut shown: Vec<Vec<String>> = vec![names];
        'all: for batch in &self.batches {
            for row in 0..batch.num_rows() {
                if shown.len() > SHOWN {
                    break 'all;
                }
                let texts = batch.columns().iter().map(|column| -> PyResult<String> {
                    Ok(value(py, column, row)?.str()?.to_str()?.to_owned())
                });
                shown.push(texts.collect::<PyResult<_>>()?);
            }
        }
        let count = self.schema.fields().len();
        let width = |at: usize| shown.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..count).map(width).collect();
        for row in &shown {
            text.push('\n');
            for (cell, width) in row.iter().zip(&widths) {
                let _ = write!(text, "  {cell:>width$}");
            }
        }
        if rows > SHOWN {
            text.push_str("\n  …");
        }
        Ok(text)
    }
}

/// An answer of a running join: an iterator of tables. Dropping it, or `close`, ends the join.
#[pyclass(module = "simjoin", frozen)]
pub struct Stream {
    state: Mutex<State>,
    schema: SchemaRef,
    stats: Mutex<Option<Py<PyDict>>>,
}

/// The state of a stream.
enum State {
    /// The join runs.
    Open(Job),
    /// A thread waits for the next rows; the handle can end the join.
    Read(Stop),
    /// The join has ended or was closed, or an Arrow reader owns it.
    Closed,
}

impl Stream {
    /// Waits until the input has been read and the columns are known.
    pub fn start(py: Python<'_>, mut job: Job) -> PyResult<Self> {
        match job.next(py, None)? {
            Message::Schema(schema) => {
                Ok(Stream { state: Mutex::new(State::Open(job)), schema, stats: Mutex::new(None) })
            }
            _ => Err(raise(py, "InternalError", "an answer without columns")),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Takes the join, for one reader at a time. Returns `None` if it has ended.
    fn take(&self, py: Python<'_>) -> PyResult<Option<Job>> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Closed) {
            State::Open(job) => {
                *state = State::Read(job.stopper());
                Ok(Some(job))
            }
            State::Read(stop) => {
                *state = State::Read(stop);
                Err(raise(py, "UsageError", "the stream is being read by another thread"))
            }
            State::Closed => Ok(None),
        }
    }
}

#[pymethods]
impl Stream {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Table>> {
        let Some(mut job) = self.take(py)? else { return Ok(None) };
        let message = job.next(py, None);
        let mut state = self.state();
        if matches!(*state, State::Closed) {
            // Another thread has closed the stream in the meantime.
            return Ok(None);
        }
        *state = match message {
            Ok(Message::Batch(_)) => State::Open(job),
            _ => State::Closed,
        };
        drop(state);
        match message? {
            Message::Batch(batch) => Ok(Some(Table::new(self.schema.clone(), vec![batch], None))),
            Message::Schema(_) => Err(raise(py, "InternalError", "the columns were sent twice")),
            Message::End(outcome) => {
                outcome.warn(py)?;
                let stats = outcome.stats(py)?.unbind();
                *self.stats.lock() = Some(stats);
                Ok(None)
            }
        }
    }

    /// Ends the join.
    fn close(&self, py: Python<'_>) {
        let state = std::mem::replace(&mut *self.state(), State::Closed);
        match state {
            State::Open(job) => job.stop(py),
            State::Read(stop) => stop.stop(),
            State::Closed => {}
        }
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_details))]
    fn __exit__(&self, py: Python<'_>, _details: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    /// Statistics, available after the last batch.
    #[getter]
    fn stats<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyDict>> {
        let stats = self.stats.lock();
        stats.as_ref().map(|stats| stats.bind(py).clone())
    }

    /// Gives the rest of the answer to an Arrow reader.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let Some(job) = self.take(py)? else {
            return Err(raise(py, "UsageError", "the stream has already been read or closed"));
        };
        *self.state() = State::Closed;
        stream_capsule(
            py,
            Box::new(RemainingBatches { job: Some(job), schema: self.schema.clone() }),
        )
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    fn __repr__(&self) -> String {
        let names: Vec<_> =
            self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        format!("simjoin.Stream of {}", names.join(", "))
    }
}

/// The rest of an answer, for an Arrow reader.
struct RemainingBatches {
    job: Option<Job>,
    schema: SchemaRef,
}

impl Iterator for RemainingBatches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let job = self.job.as_mut()?;
        // The reader may hold the interpreter, and the input may wait for it.
        let message = Python::try_attach(|py| {
            job.next(py, None).map_err(|error| ArrowError::CDataInterface(error.to_string()))
        });
        match message {
            Some(Ok(Message::Batch(batch))) => Some(Ok(batch)),
            Some(Err(error)) => {
                self.job = None;
                Some(Err(error))
            }
            _ => {
                self.job = None;
                None
            }
        }
    }
}

impl RecordBatchReader for RemainingBatches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
