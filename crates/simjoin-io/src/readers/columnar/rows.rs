//! How are the rows of a block of columns read?

use super::Wanted;
use crate::block::{BlockBuilder, BlockIds};
use crate::memory::Element;
use crate::pipeline::Block;
use crate::readers::vectors::VectorRows;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, LargeStringArray, RecordBatch, StringArray, StringViewArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use simjoin_core::Result;
use std::sync::Arc;

/// The rows of a block.
pub(super) struct ColumnBlock(pub(super) Vec<BatchSlice>);

/// Rows of one batch.
pub(super) struct BatchSlice {
    pub(super) batch: RecordBatch,
    pub(super) first_row: u64,
    pub(super) wanted: Arc<Wanted>,
}

impl Block for ColumnBlock {
    fn tokenize(&self, builder: &mut BlockBuilder) -> Result<()> {
        self.0.iter().try_for_each(|slice| slice.tokenize(builder))
    }
}

impl BatchSlice {
    /// Calls `visit` with each value of a column of elements.
    pub(super) fn elements(&self, visit: &mut dyn FnMut(Element<'_>) -> Result<()>) -> Result<()> {
        let wanted = &self.wanted;
        let (column, name) = (self.batch.column(wanted.column.0), &wanted.column.1);
        let nulls = column.logical_nulls();
        let values =
            ColumnValues::of(column).ok_or_else(|| wanted.corrupt("a column changes its type"))?;
        let mut digits = itoa::Buffer::new();
        for row in 0..self.batch.num_rows() {
            if is_null(nulls.as_ref(), row) {
                let message = format!("null in column `{name}`; a string or integer was expected");
                return Err(wanted.error(self.first_row + row as u64, message));
            }
            visit(match &values {
                ColumnValues::Signed { values, .. } => Element::Signed(values[row]),
                ColumnValues::Unsigned { values, .. } => Element::Unsigned(values[row]),
                text => Element::Text(text.get(row, &mut digits)),
            })?;
        }
        Ok(())
    }

    /// Adds the vectors to `rows`, and their ids, if there are any, to `ids`.
    pub(super) fn vectors(&self, rows: &mut VectorRows, ids: &mut BlockIds) -> Result<()> {
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
        let (values, nulls) =
            (ColumnValues::of(column).ok_or_else(changes)?, column.logical_nulls());
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

/// Returns the approximate number of bytes of text in a column, including the texts in lists.
pub(super) fn text_bytes(column: &ArrayRef) -> usize {
    let span =
        |ends: Option<(usize, usize)>| ends.map_or(0, |(first, last)| last.saturating_sub(first));
    match column.data_type() {
        DataType::Utf8 => {
            let ends = column.as_string::<i32>().value_offsets();
            span(ends.first().zip(ends.last()).map(|(&a, &b)| (a as usize, b as usize)))
        }
        DataType::LargeUtf8 => {
            let ends = column.as_string::<i64>().value_offsets();
            span(ends.first().zip(ends.last()).map(|(&a, &b)| (a as usize, b as usize)))
        }
        DataType::Utf8View => column.as_string_view().lengths().map(|length| length as usize).sum(),
        DataType::Dictionary(_, _) => {
            // The keys are not read: every value counts with the average length.
            let values = column.as_any_dictionary().values();
            text_bytes(values) / values.len().max(1) * column.len()
        }
        _ => match list_parts(column) {
            Some((ends, elements)) => match (ends.first(), ends.last()) {
                (Some(&first), Some(&last)) if first <= last && last <= elements.len() => {
                    text_bytes(&elements.slice(first, last - first))
                }
                _ => 0,
            },
            None => size_of::<u64>() * column.len(),
        },
    }
}

/// Returns the start of the first list followed by the ends of all lists, and the elements of all lists.
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

impl BatchSlice {
    fn tokenize(&self, builder: &mut BlockBuilder) -> Result<()> {
        let wanted = &self.wanted;
        let (column, name) = (self.batch.column(wanted.column.0), &wanted.column.1);
        let nulls = column.logical_nulls();
        let records = RecordColumn::of(column)
            .ok_or_else(|| wanted.corrupt("a column changes its type within the file"))?;
        let ids = match &wanted.id {
            None => None,
            Some((at, name)) => {
                let column = self.batch.column(*at);
                let values = ColumnValues::of(column)
                    .ok_or_else(|| wanted.corrupt("a column changes its type within the file"))?;
                Some((values, column.logical_nulls(), name))
            }
        };
        let mut digits = itoa::Buffer::new();
        for row in 0..self.batch.num_rows() {
            let place = self.first_row + row as u64;
            match &records {
                // A row that is null has no tokens.
                _ if is_null(nulls.as_ref(), row) => {}
                RecordColumn::Text(values) => builder.record(values.get(row, &mut digits)),
                RecordColumn::Lists { ends, values, nulls } => {
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
                            ColumnValues::Signed { start, values } => {
                                let value = values[element - start];
                                builder.integer(value as u64, value);
                            }
                            ColumnValues::Unsigned { start, values } => {
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

/// The column of records of a block.
enum RecordColumn<'a> {
    Text(ColumnValues<'a>),
    /// Row `r` holds the elements `ends[r]..ends[r + 1]`; `nulls` begins at element `ends[0]`.
    Lists {
        ends: Vec<usize>,
        values: ColumnValues<'a>,
        nulls: Option<NullBuffer>,
    },
}

impl<'a> RecordColumn<'a> {
    fn of(column: &'a ArrayRef) -> Option<Self> {
        let Some((ends, elements)) = list_parts(column) else {
            return ColumnValues::of(column).map(RecordColumn::Text);
        };
        // A slice shares the elements of its whole batch, so only its own ones are read.
        let (first, last) = (*ends.first()?, *ends.last()?);
        let nulls = (first <= last && last <= elements.len())
            .then(|| elements.slice(first, last - first).logical_nulls())?;
        let values = ColumnValues::of_range(elements, first, last)?;
        Some(RecordColumn::Lists { ends, values, nulls })
    }
}

/// Strings or integers by position.
enum ColumnValues<'a> {
    Utf8(&'a StringArray),
    LargeUtf8(&'a LargeStringArray),
    Utf8View(&'a StringViewArray),
    Dictionary {
        start: usize,
        keys: Vec<usize>,
        values: Box<ColumnValues<'a>>,
    },
    Signed {
        start: usize,
        values: Vec<i64>,
    },
    Unsigned {
        start: usize,
        values: Vec<u64>,
    },
    /// Only nulls, whose values are never read.
    Nulls,
}

impl<'a> ColumnValues<'a> {
    fn of(column: &'a ArrayRef) -> Option<Self> {
        Self::of_range(column, 0, column.len())
    }

    /// Makes the values of a column. Only `first..last` will be read.
    fn of_range(column: &'a ArrayRef, first: usize, last: usize) -> Option<Self> {
        fn signed<'a, T>(column: &ArrayRef, first: usize, last: usize) -> Option<ColumnValues<'a>>
        where
            T: ArrowPrimitiveType,
            T::Native: Into<i64>,
        {
            let values = column.as_primitive::<T>().values().get(first..last)?;
            Some(ColumnValues::Signed {
                start: first,
                values: values.iter().map(|&v| v.into()).collect(),
            })
        }
        fn unsigned<'a, T>(column: &ArrayRef, first: usize, last: usize) -> Option<ColumnValues<'a>>
        where
            T: ArrowPrimitiveType,
            T::Native: Into<u64>,
        {
            let values = column.as_primitive::<T>().values().get(first..last)?;
            Some(ColumnValues::Unsigned {
                start: first,
                values: values.iter().map(|&v| v.into()).collect(),
            })
        }
        match column.data_type() {
            DataType::Null => Some(ColumnValues::Nulls),
            DataType::Utf8 => Some(ColumnValues::Utf8(column.as_string())),
            DataType::LargeUtf8 => Some(ColumnValues::LargeUtf8(column.as_string())),
            DataType::Utf8View => Some(ColumnValues::Utf8View(column.as_string_view())),
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
                // A row with a null value is null itself, so its key is never read.
                let keys = match values.is_empty() {
                    true => Vec::new(),
                    false => {
                        let slice = column.slice(first, last - first);
                        slice.as_any_dictionary().normalized_keys()
                    }
                };
                let values = Box::new(ColumnValues::of(values)?);
                Some(ColumnValues::Dictionary { start: first, keys, values })
            }
            _ => None,
        }
    }

    /// Returns whether the values have an integer type.
    fn are_integers(&self) -> bool {
        matches!(self, ColumnValues::Signed { .. } | ColumnValues::Unsigned { .. })
    }

    /// Returns a value as text. The value must not be null.
    #[inline]
    fn get<'b>(&'b self, at: usize, digits: &'b mut itoa::Buffer) -> &'b str {
        match self {
            ColumnValues::Utf8(array) => array.value(at),
            ColumnValues::LargeUtf8(array) => array.value(at),
            ColumnValues::Utf8View(array) => array.value(at),
            ColumnValues::Dictionary { start, keys, values } => {
                values.get(keys[at - start], digits)
            }
            ColumnValues::Signed { start, values } => digits.format(values[at - start]),
            ColumnValues::Unsigned { start, values } => digits.format(values[at - start]),
            ColumnValues::Nulls => "",
        }
    }
}
