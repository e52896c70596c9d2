//! How are Arrow tables in memory read, and made of answers?
//!
//! This is for callers that already hold Arrow data, such as a language binding: nothing goes through a file, and
//! columns are not copied. [`collect_sets`](crate::collect_sets) and [`collect_vectors`](crate::collect_vectors) read
//! [`Batches`]; [`PairBatches`] makes batches of answers, with the columns that [`PairWriter`](crate::PairWriter)
//! writes.

use crate::dictionary::Vocabulary;
use crate::ids::Ids;
use crate::options::BlockSize;
use crate::read::on_one_line;
use crate::readers::columnar;
use crate::writers::{OutputColumns, ValueColumns};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use simjoin_core::{Error, Result, RowPair, Side};

/// A table in memory, or one that arrives batch by batch.
pub struct Batches<'a> {
    /// The name of the table in messages.
    pub name: String,
    /// The columns of every batch.
    pub schema: SchemaRef,
    /// The column with the records. Optional if the table has only one column other than `id`.
    pub column: Option<String>,
    /// The column with the ids of the rows; by default a row is named by its number.
    pub id: Option<String>,
    /// The batches of rows, or the reason why one could not be produced.
    pub batches: Box<dyn Iterator<Item = std::result::Result<RecordBatch, String>> + Send + 'a>,
}

/// Makes Arrow tables of answers.
///
/// ```
/// use simjoin_core::{RowPair, Side};
///
/// let columns = simjoin_io::PairBatches::sets(None, None);
/// let pair = RowPair { left: 0, right: 7, overlap: 4, similarity: 0.8, left_input: Side::Left };
/// let batch = columns.batch(&[pair])?;
/// assert_eq!(batch.schema(), columns.schema());
/// assert_eq!((batch.num_rows(), batch.num_columns()), (1, 4));
/// # Ok::<(), simjoin_core::Error>(())
/// ```
pub struct PairBatches<'a> {
    columns: OutputColumns<'a>,
    schema: SchemaRef,
}

impl<'a> PairBatches<'a> {
    fn new(columns: OutputColumns<'a>) -> Self {
        PairBatches { schema: columns.schema(), columns }
    }

    /// Makes tables of `left, right, overlap, similarity`. A self-join passes the same ids twice.
    pub fn sets(left: Option<&'a Ids>, right: Option<&'a Ids>) -> Self {
        Self::new(OutputColumns::pairs(ValueColumns::Sets, left, right))
    }

    /// Makes tables with an additional column `left_input`, for pairs between two inputs and within the right one.
    /// Either both inputs have ids or neither.
    pub fn with_itself(left: Option<&'a Ids>, right: Option<&'a Ids>) -> Result<Self> {
        OutputColumns::with_itself(left, right).map(Self::new)
    }

    /// Makes tables of `left, right, overlap`.
    pub fn overlaps(left: Option<&'a Ids>, right: Option<&'a Ids>) -> Self {
        Self::new(OutputColumns::pairs(ValueColumns::Overlap, left, right))
    }

    /// Makes tables of `left, right, distance`. [`RowPair::similarity`] holds the distance.
    pub fn distances(left: Option<&'a Ids>, right: Option<&'a Ids>) -> Self {
        Self::new(OutputColumns::pairs(ValueColumns::Distance, left, right))
    }

    /// Makes tables of `row, group`; see [`groups`](Self::groups).
    pub fn of_groups(ids: Option<&'a Ids>) -> Self {
        Self::new(OutputColumns::groups(ids))
    }

    /// Returns the columns of every batch.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Makes a batch of pairs.
    pub fn batch(&self, rows: &[RowPair]) -> Result<RecordBatch> {
        let batch = self.columns.batch(&self.schema, rows);
        batch.map_err(|error| Error::Unavailable(error.to_string()))
    }

    /// Makes a batch of the rows from `first` on. `groups` holds the smallest row of the group of each.
    pub fn groups(&self, first: u32, groups: &[u32]) -> Result<RecordBatch> {
        let row = |(left, &right)| RowPair {
            left,
            right,
            overlap: 0,
            similarity: 0.0,
            left_input: Side::Left,
        };
        self.batch(&(first..).zip(groups).map(row).collect::<Vec<_>>())
    }
}

/// Two single sets whose elements are numbered together.
///
/// Elements are compared as text, numbers in decimal. If all elements are numbers below 2³², they are their own
/// numbers; otherwise they are numbered by a vocabulary.
#[derive(Default)]
pub struct ElementSets {
    /// The elements of both sets in their original order, with repetitions.
    pub sets: [Vec<u32>; 2],
    /// The texts of the elements, unless all elements are their own numbers.
    pub words: Option<Vocabulary>,
    /// Whether all elements have an integer type and fit signed 64-bit integers.
    pub integers: bool,
}

impl ElementSets {
    /// Reads two columns of strings or integers.
    pub fn collect(left: Batches<'_>, right: Batches<'_>) -> Result<Self> {
        let mut all = ElementSets { integers: true, ..ElementSets::default() };
        for (side, table) in [left, right].into_iter().enumerate() {
            let mut read = |table| {
                let mut reader =
                    columnar::memory(table, columnar::ColumnKind::Elements, BlockSize::NUMBERS)?;
                while reader.next_elements(&mut |element| all.push(side, element))? {}
                Ok(())
            };
            read(table).map_err(on_one_line)?;
        }
        Ok(all)
    }

    fn push(&mut self, side: usize, element: Element<'_>) -> Result<()> {
        let mut digits = itoa::Buffer::new();
        let text = match element {
            Element::Text(text) => text,
            Element::Signed(number) => match u32::try_from(number) {
                Ok(number) if self.words.is_none() => return self.number(side, number),
                _ => digits.format(number),
            },
            Element::Unsigned(number) => match u32::try_from(number) {
                Ok(number) if self.words.is_none() => return self.number(side, number),
                _ => digits.format(number),
            },
        };
        self.integers &= match element {
            Element::Text(_) => false,
            Element::Signed(_) => true,
            Element::Unsigned(number) => i64::try_from(number).is_ok(),
        };
        if self.words.is_none() {
            // The elements that were numbers so far become words.
            let mut words = Vocabulary::default();
            let mut digits = itoa::Buffer::new();
            for number in self.sets.iter_mut().flatten() {
                *number = words.number(digits.format(*number))?;
            }
            self.words = Some(words);
        }
        if let Some(words) = &mut self.words {
            let number = words.number(text)?;
            self.sets[side].push(number);
        }
        Ok(())
    }

    fn number(&mut self, side: usize, number: u32) -> Result<()> {
        self.sets[side].push(number);
        Ok(())
    }
}

/// An element of a single set.
#[derive(Clone, Copy)]
pub(crate) enum Element<'a> {
    Text(&'a str),
    Signed(i64),
    Unsigned(u64),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReadOptions, Tokenizer, collect_sets, collect_vectors, read_sets};
    use arrow_array::builder::{ListBuilder, StringDictionaryBuilder};
    use arrow_array::types::{Float32Type, Int32Type};
    use arrow_array::{ArrayRef, Int64Array, ListArray, NullArray, StringArray, UInt64Array};
    use arrow_schema::{DataType, Field, Schema};
    use proptest::prelude::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    /// Returns a table of one column, in batches of `rows` rows.
    fn table(column: &ArrayRef, rows: usize) -> Batches<'static> {
        let field = Field::new("c", column.data_type().clone(), true);
        let schema = Arc::new(Schema::new(vec![field]));
        let whole = RecordBatch::try_new(schema.clone(), vec![column.clone()]).unwrap();
        let batches = (0..whole.num_rows())
            .step_by(rows)
            .map(move |first| Ok(whole.slice(first, rows.min(whole.num_rows() - first))));
        Batches {
            name: "data".into(),
            schema,
            column: None,
            id: None,
            batches: Box::new(batches.collect::<Vec<_>>().into_iter()),
        }
    }

    fn error<T>(result: Result<T>) -> String {
        result.err().unwrap().to_string()
    }

    fn strings(values: &[&str]) -> ArrayRef {
        Arc::new(StringArray::from_iter_values(values))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Rows in memory are read like those of a file, however they are divided into batches.
        #[test]
        fn tables_in_memory_are_read_like_files(
            records in prop::collection::vec("[abAB é]{0,9}", 1..30),
            rows in 1usize..12,
            skip in 0usize..5,
            kind in 0usize..3,
            multiset in any::<bool>(),
        ) {
            let tokenizer = [Tokenizer::Whitespace, Tokenizer::Words, Tokenizer::Qgrams(2)][kind];
            let options = ReadOptions { tokenizer, multiset, threads: 2, ..ReadOptions::default() };
            let skip = skip.min(records.len() - 1);
            let records_left = &records[skip..];
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.txt");
            std::fs::write(&path, records_left.join("\n") + "\n").unwrap();
            let file = read_sets(path.to_str().unwrap(), None, &options, &AtomicU64::new(0));
            // Only the rows of a slice are read.
            let column: ArrayRef = Arc::new(StringArray::from_iter_values(&records));
            let column = column.slice(skip, records_left.len());
            let memory = collect_sets(table(&column, rows), None, &options).unwrap();
            match file {
                Ok(file) => prop_assert_eq!(&memory, &file),
                // Empty input is an error only in a file.
                Err(_) => prop_assert!(memory.left.sets.tokens.is_empty()),
            }
            if tokenizer == Tokenizer::Whitespace {
                let mut lists = ListBuilder::new(StringDictionaryBuilder::<Int32Type>::new());
                for record in &records {
                    record.split_whitespace().for_each(|token| {
                        lists.values().append_value(token);
                    });
                    lists.append(true);
                }
                let column: ArrayRef = Arc::new(lists.finish());
                let column = column.slice(skip, records_left.len());
                prop_assert_eq!(&collect_sets(table(&column, rows), None, &options).unwrap(), &memory);
            }
        }

        #[test]
        fn single_sets_are_compared_as_text(
            left in prop::collection::vec(prop_oneof![0i64..9, Just(-1), Just(1 << 40)], 0..20),
            right in prop::collection::vec(0u64..9, 0..20),
            words in any::<bool>(),
        ) {
            let one: ArrayRef = Arc::new(Int64Array::from(left.clone()));
            let other: ArrayRef = match words {
                true => Arc::new(StringArray::from_iter_values(right.iter().map(u64::to_string))),
                false => Arc::new(UInt64Array::from(right.clone())),
            };
            let found = ElementSets::collect(table(&one, 7), table(&other, 3)).unwrap();
            let text = |number: &u32| match &found.words {
                Some(words) => String::from_utf8(words.token(*number).to_vec()).unwrap(),
                None => number.to_string(),
            };
            let texts = |side: usize| found.sets[side].iter().map(text).collect::<Vec<_>>();
            prop_assert_eq!(texts(0), left.iter().map(i64::to_string).collect::<Vec<_>>());
            prop_assert_eq!(texts(1), right.iter().map(u64::to_string).collect::<Vec<_>>());
            let large = left.iter().any(|&number| u32::try_from(number).is_err());
            prop_assert_eq!(found.words.is_some(), large || (words && !right.is_empty()));
            prop_assert_eq!(found.integers, !words || right.is_empty());
        }
    }

    #[test]
    fn null_elements_are_named_by_row() {
        let options = ReadOptions::default();
        let lists = vec![Some(vec![Some(1)]), Some(vec![Some(2), None])];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
        assert_eq!(
            error(collect_sets(table(&lists.slice(1, 1), 1), None, &options)),
            "data: row 0 (counting from 0): element 1 of the list in column `c` is null; a value was expected"
        );
        let nulls: ArrayRef = Arc::new(NullArray::new(1));
        let said = error(ElementSets::collect(table(&nulls, 1), table(&strings(&["a"]), 1)));
        assert!(said.contains("row 0 (counting from 0): null in column `c`"), "{said}");
    }

    #[test]
    fn empty_tables_are_read_and_wrong_types_refused() {
        let options = ReadOptions::default();
        let nothing: ArrayRef = Arc::new(NullArray::new(2));
        let read =
            collect_sets(table(&nothing, 1), Some(table(&strings(&[""]), 1)), &options).unwrap();
        assert_eq!(
            (read.left.sets.rows(), read.right.unwrap().sets.rows(), read.universe),
            (2, 1, 0)
        );
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        assert_eq!(
            error(collect_sets(table(&numbers, 1), None, &options)),
            "data: column `c` is of type Int64; strings, or lists of strings or integers were expected"
        );
        assert!(
            error(collect_vectors(table(&numbers, 1)))
                .contains("floating-point numbers were expected")
        );
        assert_eq!(numbers.data_type(), &DataType::Int64);
    }

    #[test]
    fn errors_of_the_producer_are_reported() {
        let mut broken = table(&strings(&["a"]), 1);
        let first = broken.batches.next().unwrap();
        broken.batches = Box::new([first, Err("the well\nis dry".to_owned())].into_iter());
        let said = error(collect_sets(broken, None, &ReadOptions::default()));
        assert_eq!(said, "data: the well is dry");
    }

    #[test]
    fn vectors_in_memory_are_collected() {
        let rows = vec![Some(vec![Some(1.0), Some(2.0)]), Some(vec![Some(3.0), Some(4.0)])];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(rows));
        let read = collect_vectors(table(&lists, 1)).unwrap();
        assert_eq!((read.vectors.len(), read.vectors.dimension()), (2, 2));
        let mut row = Vec::new();
        collect_vectors(table(&lists.slice(1, 1), 1)).unwrap().vectors.row(0, &mut row);
        assert_eq!(row, [3.0, 4.0]);
    }

    #[test]
    fn groups_are_numbered_from_their_first_row() {
        let columns = PairBatches::of_groups(None);
        let batch = columns.groups(5, &[5, 5, 7]).unwrap();
        let rows = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
        assert_eq!(rows.values(), &[5, 6, 7]);
        let names: Vec<_> =
            batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, ["row", "group"]);
    }
}
