//! How are Python objects converted to batches?
//!
//! Objects with the Arrow PyCapsule interface (`__arrow_c_stream__`, `__arrow_c_array__`) are used without
//! copying: PyArrow, Polars, pandas, DuckDB and others. Anything else that can be iterated is a list of
//! rows: strings, or lists of strings and integers; those are copied into columns, batch by batch.

use crate::errors::{OrRaise, raise};
use arrow_array::builder::{ArrayBuilder, LargeStringBuilder};
use arrow_array::ffi::{FFI_ArrowArray, from_ffi};
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{
    Array, ArrayReader, ArrayRef, Int64Array, LargeListArray, RecordBatch, RecordBatchOptions,
    StructArray, UInt64Array, make_array,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::{
    IntoPyDict, PyBool, PyBytes, PyCapsule, PyDict, PyInt, PyIterator, PySlice, PyString, PyTuple,
};
use simjoin::engine::{Elements, Error, VectorCollection};
use simjoin_io::Batches;
use std::sync::Arc;

/// The number of rows of a list that are copied into one batch.
const ROWS: usize = 8192;

/// The name for a column without a name.
const UNNAMED: &str = "values";

/// The data of one side of a join, as the Python part of the package passes it.
#[derive(FromPyObject)]
pub struct SideData<'py> {
    /// An object that holds rows.
    #[pyo3(item)]
    data: Bound<'py, PyAny>,
    /// The name in messages.
    #[pyo3(item)]
    name: String,
    /// The column to join, if there are several.
    #[pyo3(item)]
    column: Option<String>,
    /// The column of ids.
    #[pyo3(item)]
    id: Option<String>,
    /// The ids, for a list of rows.
    #[pyo3(item)]
    ids: Option<Bound<'py, PyAny>>,
}

impl SideData<'_> {
    /// Returns the elements of a single set.
    pub fn elements(self, py: Python<'_>) -> PyResult<Batches<'static>> {
        let SideData { data, name, column, .. } = self;
        let (schema, batches): (_, BoxedBatches) = match arrays(&data, &name)? {
            Some(arrays) => table(arrays),
            None if is_numpy(&data)? => {
                let numbers = numbers(py, &data, &name)?;
                let batch = RecordBatch::try_from_iter([(UNNAMED, numbers)]);
                let batch = batch.map_err(|error| Error::Internal(error.to_string()));
                let batch = batch.or_raise(py)?;
                (batch.schema(), Box::new(std::iter::once(Ok(batch))))
            }
            None => {
                let (schema, batches) = element_list(py, &data, &name)?;
                (schema, Box::new(batches.into_iter().map(Ok)))
            }
        };
        Ok(Batches { name, schema, column, id: None, batches })
    }

    /// Returns the rows of vectors.
    pub fn vectors(self, py: Python<'_>) -> PyResult<VectorData> {
        let SideData { data, name, column, id, .. } = self;
        if let Some(arrays) = arrays(&data, &name)? {
            let (schema, batches) = table(arrays);
            return Ok(VectorData::Table(Batches { name, schema, column, id, batches }));
        }
        let is_numpy = is_numpy(&data)?;
        if column.is_some() || id.is_some() {
            let message = format!("{name}: `column` and `id` need a table, but these are rows");
            return Err(raise(py, "UsageError", &message));
        }
        let collection = if is_numpy {
            let (dimension, elements) = matrix(py, &data, &name)?;
            VectorCollection::new(&name, dimension, elements).or_raise(py)?
        } else {
            vector_list(py, &data, &name)?
        };
        Ok(VectorData::Ready(collection))
    }

    /// Returns the rows of sets or texts.
    pub fn batches(self, py: Python<'_>) -> PyResult<Batches<'static>> {
        let SideData { data, name, column, id, ids } = self;
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

/// VectorData, read or to be read.
pub enum VectorData {
    Table(Batches<'static>),
    Ready(VectorCollection),
}

type Arrays = (Arc<Field>, Box<dyn Iterator<Item = Result<ArrayRef, ArrowError>> + Send>);

/// Returns the arrays behind an object with Arrow's interface; `None` if it has none.
fn arrays(data: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<Arrays>> {
    let py = data.py();
    let wrong = |error: ArrowError| {
        let message = error.to_string();
        Error::input(name, "", message.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    if data.hasattr("__arrow_c_stream__")? {
        let capsule = data.call_method0("__arrow_c_stream__")?;
        let capsule = capsule.cast::<PyCapsule>()?;
        let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
        // SAFETY: a capsule of this name holds a stream, which is moved out of it. The rest is marked
        // as released, so it is not released twice.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.cast().as_ptr()) };
        let reader =
            py.detach(|| ArrayStreamReader::try_new(stream)).map_err(wrong).or_raise(py)?;
        return Ok(Some((reader.field().clone(), Box::new(reader))));
    }
    if data.hasattr("__arrow_c_array__")? {
        let (field, array) = array(data)?;
        let (field, array) =
            (field.map_err(wrong).or_raise(py)?, array.map_err(wrong).or_raise(py)?);
        return Ok(Some((Arc::new(field), Box::new(std::iter::once(Ok(array))))));
    }
    Ok(None)
}

type Found<T> = Result<T, ArrowError>;

/// Returns the array behind an object with Arrow's interface for one array, and its field.
pub fn array(object: &Bound<'_, PyAny>) -> PyResult<(Found<Field>, Found<ArrayRef>)> {
    let capsules = object.call_method0("__arrow_c_array__")?;
    let capsules = capsules.cast::<PyTuple>()?;
    let (schema, array) = (capsules.get_item(0)?, capsules.get_item(1)?);
    let schema = schema.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_schema"))?;
    let array = array.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_array"))?;
    // SAFETY: capsules of these names hold a schema and an array that belong together. Both are moved
    // out of the capsules, and the rest is marked as released.
    let (field, data) = unsafe {
        let schema = FFI_ArrowSchema::from_raw(schema.cast().as_ptr());
        let array = FFI_ArrowArray::from_raw(array.cast().as_ptr());
        (Field::try_from(&schema), from_ffi(array, &schema))
    };
    Ok((field, data.map(make_array)))
}

type BoxedBatches = Box<dyn Iterator<Item = Result<RecordBatch, String>> + Send>;

/// Converts arrays to batches: structures are rows of a table; anything else is its only column.
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
    let expected = "an Arrow, Polars, pandas or DuckDB column or table, a list of strings, or a list of lists \
                    of strings or integers";
    let rows = rows(data, name, expected)?;
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
        columns.push(&row)?.map_err(&wrong)?;
        if let Some(ids) = &mut ids {
            let id = ids.next().transpose()?.ok_or_else(|| wrong("a row without an id".into()))?;
            if let Err(what) = id_column.push(&id)? {
                return Err(wrong(format!("its id is {what}; expected a string or an integer")));
            }
        }
        number += 1;
        if number.is_multiple_of(ROWS) {
            py.check_signals()?;
        }
        // All batches have one type, which missing rows do not determine.
        if columns.rows >= ROWS && columns.lists.is_some() {
            batches.push(columns.finish().or_raise(py)?);
            all_ids.push(id_column.finish());
        }
    }
    if columns.rows > 0 || batches.is_empty() {
        batches.push(columns.finish().or_raise(py)?);
        all_ids.push(id_column.finish());
    }
    if ids.is_some_and(|mut ids| ids.next().is_some()) {
        return Err(raise(py, "InputError", &format!("{name}: there are more ids than rows")));
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
    let batches = batches.collect::<simjoin::engine::Result<Vec<_>>>().or_raise(py)?;
    Ok((schema, batches))
}

/// Iterates over the rows or elements of a list or another iterable, except text.
fn rows<'py>(
    data: &Bound<'py, PyAny>,
    name: &str,
    expected: &str,
) -> PyResult<Bound<'py, PyIterator>> {
    let is_one = data.is_instance_of::<PyString>() || data.is_instance_of::<PyBytes>();
    if let Some(rows) = data.try_iter().ok().filter(|_| !is_one) {
        return Ok(rows);
    }
    let message = format!("{name}: a {} was given; expected {expected}", kind(data)?);
    Err(raise(data.py(), "InputError", &message))
}

/// Builds the column of rows of a batch.
#[derive(Default)]
struct ListColumns {
    values: LargeStringBuilder,
    /// The ends of lists; empty if rows are strings.
    ends: Vec<i64>,
    /// Whether rows are lists; unknown until a row is not missing.
    lists: Option<bool>,
    /// The number of rows so far.
    rows: usize,
}

impl ListColumns {
    /// Adds a row: a string, a list, or None, which is empty.
    fn push(&mut self, row: &Bound<'_, PyAny>) -> PyResult<Result<(), Unfit>> {
        if row.is_none() {
            match self.lists {
                Some(lists) => self.end(lists),
                None => self.rows += 1,
            }
            return Ok(Ok(()));
        }
        if let Ok(text) = row.cast::<PyString>() {
            if self.lists == Some(true) {
                return Ok(Err("a string among lists; expected a list".into()));
            }
            let Ok(text) = text.to_str() else { return Ok(Err("text that is not Unicode".into())) };
            self.begin(false);
            self.values.append_value(text);
            self.rows += 1;
            return Ok(Ok(()));
        }
        let list = !row.is_instance_of::<PyBytes>() && !row.is_instance_of::<PyDict>();
        let Some(elements) = row.try_iter().ok().filter(|_| list) else {
            let expected = "expected a string, or a list of strings or integers";
            return Ok(Err(format!("a {}; {expected}", kind(row)?)));
        };
        if self.lists == Some(false) {
            return Ok(Err("a list among strings; expected a string".into()));
        }
        self.begin(true);
        for (at, element) in elements.enumerate() {
            if let Err(what) = with_text(&element?, |text, _| self.values.append_value(text))? {
                return Ok(Err(format!("element {at} is {what}; expected a string or an integer")));
            }
        }
        self.end(true);
        Ok(Ok(()))
    }

    /// Sets the type of rows. The missing rows before become empty.
    fn begin(&mut self, lists: bool) {
        if self.lists.replace(lists).is_none() {
            let missing = std::mem::take(&mut self.rows);
            (0..missing).for_each(|_| self.end(lists));
        }
    }

    /// Ends a list, or adds an empty string.
    fn end(&mut self, lists: bool) {
        match lists {
            true => self.ends.push(self.values.len() as i64),
            false => self.values.append_value(""),
        }
        self.rows += 1;
    }

    fn finish(&mut self) -> simjoin::engine::Result<ArrayRef> {
        // If all rows are missing, they are strings.
        self.begin(self.lists == Some(true));
        self.rows = 0;
        let values = Arc::new(self.values.finish());
        if self.lists != Some(true) {
            return Ok(values);
        }
        let ends = std::mem::take(&mut self.ends);
        let offsets = OffsetBuffer::new(std::iter::once(0).chain(ends).collect());
        let element = Arc::new(Field::new("item", DataType::LargeUtf8, true));
        let list = LargeListArray::try_new(element, offsets, values, None);
        Ok(Arc::new(list.map_err(|error| Error::Internal(error.to_string()))?))
    }
}

/// Returns the name of the type of an object.
fn kind(object: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(object.get_type().name()?.to_string())
}

/// A description of an invalid object.
type Unfit = String;

/// Calls `receive` with a string, or with an integer in decimal, and with whether it is an integer.
fn with_text(
    object: &Bound<'_, PyAny>,
    receive: impl FnOnce(&str, bool),
) -> PyResult<Result<(), Unfit>> {
    if let Ok(text) = object.cast::<PyString>() {
        let Ok(text) = text.to_str() else { return Ok(Err("text that is not Unicode".into())) };
        receive(text, false);
        return Ok(Ok(()));
    }
    let unfit = || Ok(Err(format!("a {}", kind(object)?)));
    if object.is_instance_of::<PyBool>() {
        return unfit();
    }
    // Integers of NumPy are not integers of Python, but can be used as indices.
    let number = match object.cast::<PyInt>() {
        Ok(number) => number.clone(),
        Err(_) if object.hasattr("__index__")? && !object.hasattr("__len__")? => {
            object.call_method0("__index__")?.cast_into::<PyInt>()?
        }
        Err(_) => return unfit(),
    };
    match number.extract::<i64>() {
        Ok(number) => receive(itoa::Buffer::new().format(number), true),
        Err(_) => receive(number.str()?.to_str()?, true),
    }
    Ok(Ok(()))
}

/// Builds the column of ids of a list.
#[derive(Default)]
struct IdColumn {
    values: Vec<String>,
    seen: bool,
    /// Whether an id is not a 64-bit integer.
    text: bool,
}

struct IdValues(Vec<String>);

impl IdColumn {
    fn push(&mut self, id: &Bound<'_, PyAny>) -> PyResult<Result<(), Unfit>> {
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

/// Returns whether the Python part has converted the data to a NumPy array.
fn is_numpy(data: &Bound<'_, PyAny>) -> PyResult<bool> {
    data.hasattr("__array_interface__")
}

/// The number of numbers that are copied from NumPy at a time.
const BLOCK: usize = 1 << 17;

/// Calls `receive` with the bytes of a NumPy array, row by row, in blocks of whole elements.
fn blocks(
    py: Python<'_>,
    array: &Bound<'_, PyAny>,
    mut receive: impl FnMut(&[u8]),
) -> PyResult<()> {
    let rows: usize = array.len()?;
    let width: usize = array.getattr("size")?.extract::<usize>()?.checked_div(rows).unwrap_or(1);
    let step = (BLOCK / width.max(1)).max(1);
    for first in (0..rows).step_by(step) {
        let range = PySlice::new(py, first as isize, (first + step).min(rows) as isize, 1);
        let bytes = array.get_item(range)?.call_method0("tobytes")?;
        receive(bytes.cast::<PyBytes>()?.as_bytes());
        py.check_signals()?;
    }
    Ok(())
}

/// Cuts a block into numbers of eight bytes each.
fn words(bytes: &[u8]) -> impl Iterator<Item = [u8; 8]> {
    bytes.chunks_exact(8).map(|word| word.try_into().unwrap_or_default())
}

/// Returns an empty list that has memory for the numbers of an array.
fn reserved<T>(py: Python<'_>, name: &str, count: usize) -> PyResult<Vec<T>> {
    let mut all = Vec::new();
    let reserved = all.try_reserve_exact(count).map_err(|_| Error::Memory {
        what: name.to_owned(),
        needed: (count as u64).saturating_mul(size_of::<T>() as u64),
        limit: u64::MAX,
        device: false,
    });
    reserved.or_raise(py)?;
    Ok(all)
}

/// Copies the integers of a one-dimensional array.
fn numbers(py: Python<'_>, array: &Bound<'_, PyAny>, name: &str) -> PyResult<ArrayRef> {
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    let dimensions: usize = array.getattr("ndim")?.extract()?;
    if dimensions != 1 || !matches!(kind.as_str(), "i" | "u") {
        let found: String = array.getattr("dtype")?.str()?.extract()?;
        let message = format!(
            "{name}: an array of {dimensions} dimensions of {found}; expected one dimension of integers"
        );
        return Err(raise(py, "InputError", &message));
    }
    if kind == "i" {
        let mut all: Vec<i64> = reserved(py, name, array.len()?)?;
        let wide = array.call_method1("astype", ("<i8",))?;
        blocks(py, &wide, |bytes| all.extend(words(bytes).map(i64::from_le_bytes)))?;
        return Ok(Arc::new(Int64Array::from(all)));
    }
    let mut all: Vec<u64> = reserved(py, name, array.len()?)?;
    let wide = array.call_method1("astype", ("<u8",))?;
    blocks(py, &wide, |bytes| all.extend(words(bytes).map(u64::from_le_bytes)))?;
    Ok(Arc::new(UInt64Array::from(all)))
}

/// Copies the rows of a two-dimensional array. Half precision becomes single; integers become double.
fn matrix(py: Python<'_>, array: &Bound<'_, PyAny>, name: &str) -> PyResult<(usize, Elements)> {
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    let size: usize = array.getattr("dtype")?.getattr("itemsize")?.extract()?;
    let fits = shape.len() == 2
        && match kind.as_str() {
            "f" => size <= 8,
            // Double precision represents all values of these types exactly.
            "i" | "u" => size <= 4,
            _ => false,
        };
    if !fits {
        let found: String = array.getattr("dtype")?.str()?.extract()?;
        let message = format!(
            "{name}: an array of {} dimensions of {found}; expected two dimensions of floating-point numbers",
            shape.len()
        );
        return Err(raise(py, "InputError", &message));
    }
    let count = shape[0] * shape[1];
    let elements = if kind == "f" && size <= 4 {
        let mut all: Vec<f32> = reserved(py, name, count)?;
        let narrow =
            array.call_method("astype", ("<f4",), Some(&[("copy", false)].into_py_dict(py)?))?;
        let four = |four: &[u8]| f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        blocks(py, &narrow, |bytes| all.extend(bytes.chunks_exact(4).map(four)))?;
        Elements::F32(all)
    } else {
        let mut all: Vec<f64> = reserved(py, name, count)?;
        let wide =
            array.call_method("astype", ("<f8",), Some(&[("copy", false)].into_py_dict(py)?))?;
        blocks(py, &wide, |bytes| all.extend(words(bytes).map(f64::from_le_bytes)))?;
        Elements::F64(all)
    };
    Ok((shape[1], elements))
}

/// Copies a list of lists of numbers, in double precision.
fn vector_list(py: Python<'_>, data: &Bound<'_, PyAny>, name: &str) -> PyResult<VectorCollection> {
    let expected = "a NumPy array of two dimensions, a column of lists of numbers, or a list of lists of numbers";
    let rows = rows(data, name, expected)?;
    let (mut dimension, mut all) = (None, Vec::new());
    for (number, row) in rows.enumerate() {
        let row = row?;
        let wrong = |message: String| {
            let place = format!("row {number} (counting from 0)");
            raise(py, "InputError", &Error::input(name, place, message).to_string())
        };
        let Ok(elements) = row.try_iter() else {
            return Err(wrong(format!("a {}; expected a list of numbers", kind(&row)?)));
        };
        let before = all.len();
        for (at, element) in elements.enumerate() {
            let element = element?;
            let value =
                if element.is_instance_of::<PyString>() { None } else { element.extract().ok() };
            let Some(value) = value else {
                let kind = kind(&element)?;
                return Err(wrong(format!("element {at} is a {kind}; expected a number")));
            };
            all.push(value);
        }
        let found = all.len() - before;
        let first = *dimension.get_or_insert(found);
        if first != found || found == 0 {
            return Err(wrong(format!(
                "a vector of dimension {found}; the first has {first}, and all must have the same, at least 1"
            )));
        }
        if number.is_multiple_of(ROWS) {
            py.check_signals()?;
        }
    }
    let Some(dimension) = dimension else {
        return Err(raise(py, "InputError", &format!("{name}: no vectors: the input is empty")));
    };
    VectorCollection::new(name, dimension, Elements::F64(all)).or_raise(py)
}

/// Copies the elements of a single set into a column.
fn element_list(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    name: &str,
) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
    let elements = rows(data, name, "a set or column of strings or integers")?;
    let mut column = IdColumn::default();
    for (number, element) in elements.enumerate() {
        let element = element?;
        if let Err(what) = column.push(&element)? {
            let place = format!("element {number} (counting from 0)");
            let error =
                Error::input(name, place, format!("{what}; expected a string or an integer"));
            return Err(raise(py, "InputError", &error.to_string()));
        }
        if number.is_multiple_of(ROWS) {
            py.check_signals()?;
        }
    }
    let integers = !column.text;
    let batch = RecordBatch::try_from_iter([(UNNAMED, column.finish().column(integers))]);
    let batch = batch.map_err(|error| Error::Internal(error.to_string())).or_raise(py)?;
    Ok((batch.schema(), vec![batch]))
}
