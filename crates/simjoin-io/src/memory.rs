//! How do tables in memory become sets, and pairs tables in memory?
//!
//! For callers that hold Arrow already, such as a language binding: nothing goes through a file, and columns
//! are looked at where they lie. [`collect_sets`](crate::collect_sets) and
//! [`collect_vectors`](crate::collect_vectors) take [`Batches`]; [`PairBatches`] makes batches of answers,
//! with the columns that [`PairWriter`](crate::PairWriter) writes.

use crate::dictionary::Vocabulary;
use crate::ids::Ids;
use crate::options::Cut;
use crate::read::on_one_line;
use crate::readers::columnar;
use crate::writers::{Layout, Measures};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use simjoin_core::{Error, Result, RowPair, Side};

/// A table in memory, or one that comes batch by batch.
pub struct Batches<'a> {
    /// What messages call it.
    pub name: String,
    /// The columns of every batch.
    pub schema: SchemaRef,
    /// The column with the records. May be left out when the table has only one beside `id`.
    pub column: Option<String>,
    /// The column with the rows' ids; by default rows go by their number.
    pub id: Option<String>,
    /// The rows, or why there are no more.
    pub batches: Box<dyn Iterator<Item = std::result::Result<RecordBatch, String>> + Send + 'a>,
}

/// Makes tables of answers.
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
    layout: Layout<'a>,
    schema: SchemaRef,
}

impl<'a> PairBatches<'a> {
    fn new(layout: Layout<'a>) -> Self {
        PairBatches { schema: layout.schema(), layout }
    }

    /// Rows of `left, right, overlap, similarity`. A self-join passes the same ids twice.
    pub fn sets(left: Option<&'a Ids>, right: Option<&'a Ids>) -> Self {
        Self::new(Layout::pairs(Measures::Sets, left, right))
    }

    /// The same with a column `left_input`, for pairs between two inputs and within the right one. Either
    /// both inputs have ids or neither.
    pub fn with_itself(left: Option<&'a Ids>, right: Option<&'a Ids>) -> Result<Self> {
        Layout::with_itself(left, right).map(Self::new)
    }

    /// Rows of `left, right, overlap`.
    pub fn overlaps(left: Option<&'a Ids>, right: Option<&'a Ids>) -> Self {
        Self::new(Layout::pairs(Measures::Overlap, left, right))
    }

    /// Rows of `left, right, distance`, which is what [`RowPair::similarity`] holds.
    pub fn distances(left: Option<&'a Ids>, right: Option<&'a Ids>) -> Self {
        Self::new(Layout::pairs(Measures::Distance, left, right))
    }

    /// Rows of `row, group`; see [`groups`](Self::groups).
    pub fn of_groups(ids: Option<&'a Ids>) -> Self {
        Self::new(Layout::groups(ids))
    }

    /// The columns of every batch.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Some pairs as columns.
    pub fn batch(&self, rows: &[RowPair]) -> Result<RecordBatch> {
        let batch = self.layout.batch(&self.schema, rows);
        batch.map_err(|error| Error::Unavailable(error.to_string()))
    }

    /// Rows from `first` on, each with the smallest row of its group.
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

/// Two single sets in one numbering.
///
/// Elements are compared as text, numbers in decimal; where all of both sets are numbers below 2³² they stand
/// for themselves, and otherwise for words of a vocabulary.
#[derive(Default)]
pub struct ElementSets {
    /// The elements, in the order in which they came, repeated ones included.
    pub sets: [Vec<u32>; 2],
    /// What numbers stand for, where they do not stand for themselves.
    pub words: Option<Vocabulary>,
    /// Whether all are integers by their type, and fit 64 bits with a sign.
    pub integers: bool,
}

impl ElementSets {
    /// Takes two columns of strings or integers.
    pub fn collect(left: Batches<'_>, right: Batches<'_>) -> Result<Self> {
        let mut all = ElementSets { integers: true, ..ElementSets::default() };
        for (side, table) in [left, right].into_iter().enumerate() {
            let mut take = |table| {
                let mut reader = columnar::memory(table, columnar::Kind::Elements, Cut::NUMBERS)?;
                while reader.next_elements(&mut |element| all.push(side, element))? {}
                Ok(())
            };
            take(table).map_err(on_one_line)?;
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
            // What was a number so far becomes a word.
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

    /// A table of one column, in batches of so many rows.
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

        /// Whether rows come from a file or from memory, in whatever batches, changes nothing.
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
            // A slice looks at its own rows alone.
            let column: ArrayRef = Arc::new(StringArray::from_iter_values(&records));
            let column = column.slice(skip, records_left.len());
            let memory = collect_sets(table(&column, rows), None, &options).unwrap();
            match file {
                Ok(file) => prop_assert_eq!(&memory, &file),
                // What is empty is an error in a file alone.
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
    fn what_is_empty_or_of_another_type() {
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
    fn what_goes_wrong_on_the_way_is_said() {
        let mut broken = table(&strings(&["a"]), 1);
        let first = broken.batches.next().unwrap();
        broken.batches = Box::new([first, Err("the well\nis dry".to_owned())].into_iter());
        let said = error(collect_sets(broken, None, &ReadOptions::default()));
        assert_eq!(said, "data: the well is dry");
    }

    #[test]
    fn vectors_in_memory() {
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
