//! What becomes of rows of a column that are null?
//!
//! They are rows without tokens, as empty cells of CSV are: they count, and match nothing.

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, LargeListArray, LargeStringArray, RecordBatch, RecordBatchOptions, make_array,
};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, DataType, Schema};
use arrow_select::take::take;
use std::sync::Arc;

/// Finds the column to join; `None` where the answer is an error, which the reader reports.
pub fn column_to_join(schema: &Schema, column: Option<&str>, id: Option<&str>) -> Option<usize> {
    let wanted = |name: &str| column.map_or(Some(name) != id, |column| name == column);
    let mut found = schema.fields().iter().enumerate().filter(|(_, field)| wanted(field.name()));
    let (at, field) = found.next()?;
    // Null is no id.
    (found.next().is_none() && Some(field.name().as_str()) != id).then_some(at)
}

/// Empties the rows of a column that are null.
pub fn emptied(batch: RecordBatch, at: usize) -> Result<RecordBatch, ArrowError> {
    let Some(column) = empty_for_null(batch.column(at))? else { return Ok(batch) };
    let schema = batch.schema();
    let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
    let field = fields[at].as_ref().clone();
    fields[at] = Arc::new(field.with_data_type(column.data_type().clone()));
    let mut columns = batch.columns().to_vec();
    columns[at] = column;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
}

/// The column with empty rows in place of null ones; `None` if it has none, or cannot be joined.
fn empty_for_null(column: &ArrayRef) -> Result<Option<ArrayRef>, ArrowError> {
    let Some(nulls) = column.logical_nulls().filter(|nulls| nulls.null_count() > 0) else {
        return Ok(None);
    };
    let column: ArrayRef = match column.data_type() {
        DataType::Null => {
            let nothing = std::iter::repeat_n("", column.len());
            return Ok(Some(Arc::new(LargeStringArray::from_iter_values(nothing))));
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => column.clone(),
        DataType::List(_) | DataType::LargeList(_) => column.clone(),
        DataType::FixedSizeList(..) => {
            Arc::new(LargeListArray::from(column.as_fixed_size_list().clone()))
        }
        DataType::Dictionary(_, values) if values.is_string() => {
            let dictionary = column.as_any_dictionary();
            take(dictionary.values(), dictionary.keys(), None)?
        }
        _ => return Ok(None),
    };
    // What lies under a null is left out of the copy, so that nothing remains when the nulls are taken away.
    let data = column.to_data();
    let mut rows = MutableArrayData::new(vec![&data], true, data.len());
    let mut copied = 0;
    for (start, end) in nulls.valid_slices() {
        rows.try_extend_nulls(start - copied)?;
        rows.try_extend(0, start, end)?;
        copied = end;
    }
    rows.try_extend_nulls(data.len() - copied)?;
    Ok(Some(make_array(rows.freeze().into_builder().nulls(None).build()?)))
}
