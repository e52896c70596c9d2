//! How do tables in memory become sets, and pairs tables in memory?
//!
//! For callers that hold Arrow already, such as a language binding: nothing goes through a file, and columns
//! are looked at where they lie. [`collect_sets`](crate::collect_sets) and
//! [`collect_vectors`](crate::collect_vectors) take [`Batches`]; [`PairBatches`] makes batches of answers,
//! with the columns that [`PairWriter`](crate::PairWriter) writes.

use crate::dictionary::Vocabulary;
use crate::ids::Ids;
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
                let mut reader = columnar::memory(table, columnar::Kind::Elements, 8192)?;
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
