//! How do Python's data become batches?
//!
//! Whatever offers the Arrow PyCapsule interface (`__arrow_c_stream__`, `__arrow_c_array__`) is taken as it
//! lies in memory: PyArrow, Polars, pandas, DuckDB and others. Anything else that can be iterated is a list of
//! rows: strings, or lists of strings and integers; those are copied into columns, batch by batch.

use crate::errors::{OrRaise, raise};
use arrow_array::builder::LargeStringBuilder;
use arrow_array::ffi::{FFI_ArrowArray, from_ffi};
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{
    Array, ArrayReader, ArrayRef, Int64Array, LargeListArray, RecordBatch, RecordBatchOptions,
    StructArray, make_array,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyCapsule, PyFloat, PyInt, PyString, PyTuple};
use simjoin::Error;
use simjoin_io::Batches;
use std::sync::Arc;

/// Rows of a list that are copied into one batch.
const ROWS: usize = 8192;

/// The name of a column that has none.
const UNNAMED: &str = "values";

/// One side of a join as the Python part hands it over.
#[derive(FromPyObject)]
pub struct Side<'py> {
    /// Anything that holds rows.
    #[pyo3(item)]
    data: Bound<'py, PyAny>,
    /// What messages call it.
    #[pyo3(item)]
    name: String,
    /// The column to join, where there are several.
    #[pyo3(item)]
    column: Option<String>,
    /// The column of ids.
    #[pyo3(item)]
    id: Option<String>,
    /// The ids themselves, for a list of rows.
    #[pyo3(item)]
    ids: Option<Bound<'py, PyAny>>,
}

impl Side<'_> {
    /// The rows of sets or texts.
    pub fn batches(self, py: Python<'_>) -> PyResult<Batches<'static>> {
        let Side { data, name, column, id, ids } = self;
        if ids.is_none()
            && let Some(arrays) = arrays(&data, &name)?
        {
            let (schema, batches) = table(arrays);
            return Ok(Batches { name, schema, column, id, batches });
        }
        let (schema, batches) = list(py, &data, ids.as_ref(), &name)?;
        let (column, id) = match ids {
            Some(_) => (Some(UNNAMED.into()), Some(ID.into())),
            None => (column, id),
        };
        Ok(Batches { name, schema, column, id, batches: Box::new(batches.into_iter().map(Ok)) })
    }
}

type Arrays = (Arc<Field>, Box<dyn Iterator<Item = Result<ArrayRef, ArrowError>> + Send>);

/// The arrays behind an object with Arrow's interface; `None` where it has none.
fn arrays(data: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<Arrays>> {
    let py = data.py();
    let wrong = |error: ArrowError| {
        let message = error.to_string();
        Error::input(name, "", message)
    };
    if data.hasattr("__arrow_c_stream__")? {
        let capsule = data.call_method0("__arrow_c_stream__")?;
        let capsule = capsule.cast::<PyCapsule>()?;
        let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
        // SAFETY: a capsule of this name holds a stream, which is moved out of it: what is left is marked
        // as released, so that nobody releases it twice.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.cast().as_ptr()) };
        let reader =
            py.detach(|| ArrayStreamReader::try_new(stream)).map_err(wrong).or_raise(py)?;
        return Ok(Some((reader.field().clone(), Box::new(reader))));
    }
    if data.hasattr("__arrow_c_array__")? {
        let capsules = data.call_method0("__arrow_c_array__")?;
        let capsules = capsules.cast::<PyTuple>()?;
        let (schema, array) = (capsules.get_item(0)?, capsules.get_item(1)?);
        let schema = schema.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_schema"))?;
        let array = array.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_array"))?;
        // SAFETY: capsules of these names hold a schema and an array that belong together, and are moved out
        // of them as above.
        let (field, data) = unsafe {
            let schema = FFI_ArrowSchema::from_raw(schema.cast().as_ptr());
            let array = FFI_ArrowArray::from_raw(array.cast().as_ptr());
            (Field::try_from(&schema), from_ffi(array, &schema))
        };
        let array = make_array(data.map_err(wrong).or_raise(py)?);
        let field = Arc::new(field.map_err(wrong).or_raise(py)?);
        return Ok(Some((field, Box::new(std::iter::once(Ok(array))))));
    }
    Ok(None)
}

type BoxedBatches = Box<dyn Iterator<Item = Result<RecordBatch, String>> + Send>;

/// Arrays as batches: structures are rows of a table, anything else is its only column.
fn table((field, arrays): Arrays) -> (SchemaRef, BoxedBatches) {
    if let DataType::Struct(fields) = field.data_type() {
        let schema = Arc::new(Schema::new(fields.clone()));
        let of_schema = schema.clone();
        let batches = arrays.map(move |array| {
            let array = array.map_err(|error| error.to_string())?;
            let rows = array.len();
            let Some(array) = array.as_any().downcast_ref::<StructArray>() else {
                return Err("an array changes its type".into());
            };
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let columns = array.columns().to_vec();
            let batch = RecordBatch::try_new_with_options(of_schema.clone(), columns, &options);
            batch.map_err(|error| error.to_string())
        });
        return (schema, Box::new(batches));
    }
    let name = if field.name().is_empty() { UNNAMED } else { field.name() };
    let field = Field::new(name, field.data_type().clone(), true);
    let schema = Arc::new(Schema::new(vec![field]));
    let of_schema = schema.clone();
    let batches = arrays.map(move |array| {
        let array = array.map_err(|error| error.to_string())?;
        RecordBatch::try_new(of_schema.clone(), vec![array]).map_err(|error| error.to_string())
    });
    (schema, Box::new(batches))
}

/// The name of the column of ids of a list.
const ID: &str = "id";

/// Copies a list of rows into columns.
fn list(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    ids: Option<&Bound<'_, PyAny>>,
    name: &str,
) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
    let kind = |object: &Bound<'_, PyAny>| -> PyResult<String> {
        Ok(object.get_type().name()?.to_string())
    };
    let is_one = data.is_instance_of::<PyString>() || data.is_instance_of::<PyBytes>();
    let rows = if is_one { Err(PyTypeError::new_err(())) } else { data.try_iter() };
    let Ok(rows) = rows else {
        let message = format!(
            "a {} was given; expected an Arrow, Polars, pandas or DuckDB column or table, a list of \
             strings, or a list of lists of strings or integers",
            kind(data)?
        );
        return Err(raise(py, "InputError", &format!("{name}: {message}")));
    };
    let mut columns = ListColumns::default();
    let mut batches = Vec::new();
    let mut ids = ids.map(PyAnyMethods::try_iter).transpose()?;
    let mut id_column = IdColumn::default();
    let mut all_ids = Vec::new();
    let mut number = 0usize;
    for row in rows {
        let row = row?;
        let wrong = |message: String| {
            let place = format!("row {number} (counting from 0)");
            raise(py, "InputError", &Error::input(name, place, message).to_string())
        };
        if let Ok(text) = row.cast::<PyString>() {
            if columns.lists() == Some(true) {
                return Err(wrong("a string among lists; expected a list".into()));
            }
            columns.text(text.to_str().map_err(|_| wrong("text that is not Unicode".into()))?);
        } else {
            let null = row.is_none() || row.is_instance_of::<PyFloat>();
            let elements = if null { None } else { row.try_iter().ok() };
            let elements = elements.filter(|_| !row.is_instance_of::<PyBytes>());
            let Some(elements) = elements else {
                let what = if row.is_none() { "None".into() } else { format!("a {}", kind(&row)?) };
                return Err(wrong(format!(
                    "{what}; expected a string, or a list of strings or integers"
                )));
            };
            if columns.lists() == Some(false) {
                return Err(wrong("a list among strings; expected a string".into()));
            }
            for (at, element) in elements.enumerate() {
                let element = element?;
                if !columns.token(&element)? {
                    return Err(wrong(format!(
                        "element {at} is a {}; expected a string or an integer",
                        kind(&element)?
                    )));
                }
            }
            columns.end_list();
        }
        if let Some(ids) = &mut ids {
            let id = ids.next().transpose()?.ok_or_else(|| wrong("a row without an id".into()))?;
            if !id_column.push(&id)? {
                return Err(wrong(format!(
                    "its id is a {}; expected a string or an integer",
                    kind(&id)?
                )));
            }
        }
        number += 1;
        if number.is_multiple_of(ROWS) {
            batches.push(columns.finish().or_raise(py)?);
            all_ids.push(id_column.finish());
            py.check_signals()?;
        }
    }
    if !number.is_multiple_of(ROWS) || batches.is_empty() {
        batches.push(columns.finish().or_raise(py)?);
        all_ids.push(id_column.finish());
    }
    if ids.is_some_and(|mut ids| ids.next().is_some()) {
        return Err(PyKeyError::new_err("more ids than rows"));
    }
    let schema = |kind: &DataType, integers: Option<bool>| {
        let mut fields = vec![Field::new(UNNAMED, kind.clone(), false)];
        if let Some(integers) = integers {
            let kind = if integers { DataType::Int64 } else { DataType::LargeUtf8 };
            fields.push(Field::new(ID, kind, false));
        }
        Arc::new(Schema::new(fields))
    };
    let with_ids = id_column.seen.then_some(!id_column.text);
    let schema = schema(batches[0].data_type(), with_ids);
    let batches = batches.into_iter().zip(all_ids).map(|(rows, ids)| {
        let mut columns = vec![rows];
        if let Some(integers) = with_ids {
            columns.push(ids.column(integers));
        }
        RecordBatch::try_new(schema.clone(), columns)
            .map_err(|error| Error::Internal(error.to_string()))
    });
    let batches = batches.collect::<simjoin::Result<Vec<_>>>().or_raise(py)?;
    Ok((schema, batches))
}

/// Rows of a batch in the making.
#[derive(Default)]
struct ListColumns {
    values: LargeStringBuilder,
    /// Where lists end; nothing while rows are strings.
    ends: Vec<i64>,
    /// Whether rows are lists, once one has been seen.
    kind: Option<bool>,
}

impl ListColumns {
    fn lists(&self) -> Option<bool> {
        self.kind
    }

    fn text(&mut self, text: &str) {
        self.kind = Some(false);
        self.values.append_value(text);
    }

    /// Adds an element to the list at hand; false where it is none.
    fn token(&mut self, element: &Bound<'_, PyAny>) -> PyResult<bool> {
        with_text(element, |text, _| self.values.append_value(text))
    }

    fn end_list(&mut self) {
        self.kind = Some(true);
        self.ends.push(arrow_array::builder::ArrayBuilder::len(&self.values) as i64);
    }

    fn finish(&mut self) -> simjoin::Result<ArrayRef> {
        let values = Arc::new(self.values.finish());
        if self.kind == Some(false) {
            return Ok(values);
        }
        let ends = std::mem::take(&mut self.ends);
        let offsets = OffsetBuffer::new(std::iter::once(0).chain(ends).collect());
        let element = Arc::new(Field::new("item", DataType::LargeUtf8, true));
        let list = LargeListArray::try_new(element, offsets, values, None);
        Ok(Arc::new(list.map_err(|error| Error::Internal(error.to_string()))?))
    }
}

/// Calls `take` with a string as it is or an integer in decimal, and whether it is an integer; false where
/// the object is neither.
fn with_text(object: &Bound<'_, PyAny>, take: impl FnOnce(&str, bool)) -> PyResult<bool> {
    if let Ok(text) = object.cast::<PyString>() {
        take(text.to_str()?, false);
        return Ok(true);
    }
    if object.is_instance_of::<PyBool>() {
        return Ok(false);
    }
    // NumPy's integers are none of Python's, but can be used as one.
    let number = match object.cast::<PyInt>() {
        Ok(number) => number.clone(),
        Err(_) if object.hasattr("__index__")? && !object.hasattr("__len__")? => {
            object.call_method0("__index__")?.cast_into::<PyInt>()?
        }
        Err(_) => return Ok(false),
    };
    match number.extract::<i64>() {
        Ok(number) => take(itoa::Buffer::new().format(number), true),
        Err(_) => take(number.str()?.to_str()?, true),
    }
    Ok(true)
}

/// Ids of the rows of a list.
#[derive(Default)]
struct IdColumn {
    values: Vec<String>,
    seen: bool,
    /// Whether one of all was no integer of 64 bits.
    text: bool,
}

struct IdValues(Vec<String>);

impl IdColumn {
    fn push(&mut self, id: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.seen = true;
        with_text(id, |text, integer| {
            self.text |= !integer || text.parse::<i64>().is_err();
            self.values.push(text.to_owned());
        })
    }

    fn finish(&mut self) -> IdValues {
        IdValues(std::mem::take(&mut self.values))
    }
}

impl IdValues {
    fn column(self, integers: bool) -> ArrayRef {
        if integers {
            let numbers = self.0.iter().map(|id| id.parse().unwrap_or_default());
            return Arc::new(Int64Array::from_iter_values(numbers));
        }
        let mut strings = LargeStringBuilder::new();
        self.0.iter().for_each(|id| strings.append_value(id));
        Arc::new(strings.finish())
    }
}
