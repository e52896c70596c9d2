//! How do tables in memory become sets, and pairs tables in memory?
//!
//! For callers that hold Arrow already, such as a language binding: nothing goes through a file, and columns
//! are looked at where they lie. [`collect_sets`](crate::collect_sets) and
//! [`collect_vectors`](crate::collect_vectors) take [`Batches`]; [`PairBatches`] makes batches of answers,
//! with the columns that [`PairWriter`](crate::PairWriter) writes.

use crate::ids::Ids;
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
