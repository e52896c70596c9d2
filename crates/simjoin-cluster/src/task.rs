//! What does a machine do with the records of one task?
//!
//! It joins them by the engine, with any technique, and keeps the pairs that the task owns.
//!
//! # Flow
//!
//! ```text
//! blocks ─► distinct tokens renumbered ─► SetCollection(s) ─► Join ─► pairs ─┬─ owned ─► Arrow batches
//!                                                                            └─ another task's: dropped
//! ```
//!
//! A task owns a pair if the first common token of the pair, in the global order, belongs to the task's
//! group. A merge of the two sets finds this token after a few steps. If all tokens belong to one group,
//! the task owns every pair and no token is looked for.
//!
//! # Memory
//!
//! A task needs 4 bytes a token in addition to the collections, and 4 more bytes a token if there are
//! several groups. Pairs are passed on in batches as they are found.

use crate::block::{self, Id};
use crate::layout::Layout;
use crate::order::Place;
use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use simjoin::engine::{Control, Engine, RowPair, prepare};
use simjoin_core::{Error, RawSets, Result, Side};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The options of a task's join.
#[derive(Clone, Debug)]
pub struct TaskOptions {
    /// The engine.
    pub engine: Engine,
    /// The technique, or `auto`.
    pub technique: String,
    /// The number of threads; at least 1.
    pub threads: usize,
    /// The bytes that the join may use in addition to the records.
    pub memory: Option<u64>,
}

/// The ids of the records of one side.
enum RecordIds {
    Rows,
    Integers(Vec<i64>),
    Texts { text: String, ends: Vec<usize> },
}

/// The records of one side.
struct SideRecords {
    rows: Vec<u64>,
    names: Option<RecordIds>,
    sets: RawSets,
}

impl SideRecords {
    fn new() -> Self {
        SideRecords { rows: Vec::new(), names: None, sets: RawSets::default() }
    }

    fn name(&mut self, id: Id<'_>) -> Result<()> {
        let names = self.names.get_or_insert_with(|| match id {
            Id::Row => RecordIds::Rows,
            Id::Integer(_) => RecordIds::Integers(Vec::new()),
            Id::Text(_) => RecordIds::Texts { text: String::new(), ends: Vec::new() },
        });
        match (names, id) {
            (RecordIds::Rows, Id::Row) => {}
            (RecordIds::Integers(all), Id::Integer(id)) => all.push(id),
            (RecordIds::Texts { text, ends }, Id::Text(id)) => {
                text.push_str(id);
                ends.push(text.len());
            }
            _ => return Err(Error::Internal("ids of two kinds in one task".into())),
        }
        Ok(())
    }
}

/// Returns the ids of some records, as a column.
fn column<'a>(of: impl ExactSizeIterator<Item = (&'a SideRecords, u32)> + Clone) -> ArrayRef {
    let texts = of
        .clone()
        .next()
        .is_some_and(|(side, _)| matches!(side.names, Some(RecordIds::Texts { .. })));
    if texts {
        let mut builder = StringBuilder::with_capacity(of.len(), 16 * of.len());
        for (side, at) in of {
            let at = at as usize;
            if let Some(RecordIds::Texts { text, ends }) = &side.names {
                let start = if at == 0 { 0 } else { ends[at - 1] };
                builder.append_value(&text[start..ends[at]]);
            }
        }
        return Arc::new(builder.finish());
    }
    Arc::new(Int64Array::from_iter_values(of.map(|(side, at)| match &side.names {
        Some(RecordIds::Integers(ids)) => ids[at as usize],
        _ => i64::try_from(side.rows[at as usize]).unwrap_or(i64::MAX),
    })))
}

/// The records that were sent to a task.
pub struct Task {
    layout: Arc<Layout>,
    task: u32,
    sides: [SideRecords; 2],
    numbers: HashMap<Place, u32, foldhash::fast::FixedState>,
    /// The place of each token that is not unique. Unique tokens have numbers from `u32::MAX` down.
    places: Vec<Place>,
    unique: u32,
    scratch: Vec<Place>,
}

impl Task {
    /// Makes the task at a place among the tasks for CPUs or among those for GPUs.
    pub fn new(layout: Arc<Layout>, place: u32, gpu: bool) -> Result<Self> {
        let task = layout.tasks_for(gpu).nth(place as usize).ok_or_else(|| {
            Error::Internal(format!("there is no task at place {place} of the layout"))
        })?;
        Ok(Task {
            layout,
            task,
            sides: [SideRecords::new(), SideRecords::new()],
            numbers: HashMap::default(),
            places: Vec::new(),
            unique: 0,
            scratch: Vec::new(),
        })
    }

    /// Adds a block of records.
    pub fn add(&mut self, bytes: &[u8]) -> Result<()> {
        let Task { sides, numbers, places, unique, scratch, .. } = self;
        let full = || Error::Config("a task has too many tokens; use more tasks".into());
        block::read(bytes, scratch, |side, record| {
            let side = &mut sides[usize::from(side == Side::Right)];
            side.rows.push(record.row);
            side.name(record.id)?;
            for &place in record.places {
                let next = places.len() as u32;
                let number = *numbers.entry(place).or_insert(next);
                if number == next {
                    places.push(place);
                }
                side.sets.tokens.push(number);
            }
            *unique = unique.checked_add(record.unique).ok_or_else(full)?;
            if places.len() as u64 + u64::from(*unique) > u64::from(u32::MAX / 2) {
                return Err(full());
            }
            // Unique tokens are counted down from the largest number. `renumber` puts them behind all others.
            side.sets.tokens.extend((0..record.unique).map(|at| u32::MAX - (*unique - 1 - at)));
            side.sets.offsets.push(side.sets.tokens.len());
            Ok(())
        })
    }

    /// Returns the number of records that have arrived, on the left and on the right.
    pub fn records(&self) -> (usize, usize) {
        (self.sides[0].rows.len(), self.sides[1].rows.len())
    }

    /// Returns the columns of the answer.
    pub fn schema(&self) -> SchemaRef {
        let spec = self.layout.tasks()[self.task as usize];
        let alone = self.layout.is_self_join() && spec.left == spec.right;
        let kind = |side: &SideRecords| match side.names {
            Some(RecordIds::Texts { .. }) => DataType::Utf8,
            _ => DataType::Int64,
        };
        let [left, right] = &self.sides;
        pairs_schema(kind(left), kind(if alone { left } else { right }))
    }

    /// Joins, and passes the pairs that the task owns to `receive`, in batches of the columns `left`,
    /// `right`, `overlap` and `similarity`. `receive` may return `Break` to end the join early.
    pub fn run(
        mut self,
        options: &TaskOptions,
        control: &Control,
        receive: impl FnMut(RecordBatch) -> ControlFlow<()> + Send,
    ) -> Result<()> {
        let spec = self.layout.tasks()[self.task as usize];
        let alone = self.layout.is_self_join() && spec.left == spec.right;
        let empty = |side: &SideRecords| side.rows.is_empty();
        if empty(&self.sides[0]) || (!alone && empty(&self.sides[1])) {
            return Ok(());
        }
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(options.threads.max(1))
            .build()
            .map_err(|error| Error::Internal(format!("threads: {error}")))?;
        self.renumber();
        let owns = (!self.layout.has_one_group()).then(|| self.owned(spec.group));
        let [left, right] = &mut self.sides;
        // Ownership needs the tokens in the global order, which a collection does not keep.
        let copies = owns.as_ref().map(|_| [left.sets.clone(), right.sets.clone()]);
        let universe = self.places.len() + self.unique as usize;
        let sets = std::mem::take(&mut left.sets);
        let other = (!alone).then(|| std::mem::take(&mut right.sets));
        let join = simjoin::engine::join(self.layout.predicate())
            .engine(options.engine)
            .technique(&options.technique)
            .memory(options.memory.unwrap_or(u64::MAX));
        let output = Output {
            left,
            right: if alone { left } else { right },
            swap: self.layout.is_self_join(),
            alone,
            owns: owns.zip(copies),
        };
        pool.install(|| {
            let (sets, other) = prepare(sets, other, universe)?;
            let mut output = PairBatcher { output, receive, failure: None };
            let result = join.pairs(&sets, other.as_ref(), control, |pairs| output.push(pairs));
            match output.failure {
                Some(failure) => Err(failure),
                None => result.map(drop),
            }
        })
    }

    /// Numbers tokens in the order of their places. Unique tokens follow.
    fn renumber(&mut self) {
        let mut order: Vec<u32> = (0..self.places.len() as u32).collect();
        order.sort_unstable_by_key(|&number| self.places[number as usize]);
        let mut rank = vec![0u32; order.len()];
        for (new, &old) in (0u32..).zip(&order) {
            rank[old as usize] = new;
        }
        let known = rank.len() as u32;
        for side in &mut self.sides {
            for token in &mut side.sets.tokens {
                *token = match rank.get(*token as usize) {
                    Some(&rank) => rank,
                    None => known + (u32::MAX - *token),
                };
            }
        }
        self.places.sort_unstable();
        self.numbers = HashMap::default();
    }

    /// Returns, for each token that is not unique, whether it belongs to a group.
    fn owned(&self, group: u32) -> Vec<bool> {
        self.places.iter().map(|&place| self.layout.group_of(place) == group).collect()
    }
}

fn pairs_schema(left: DataType, right: DataType) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("left", left, false),
        Field::new("right", right, false),
        Field::new("overlap", DataType::Int64, false),
        Field::new("similarity", DataType::Float64, false),
    ]))
}

/// Converts pairs of rows to batches.
struct Output<'a> {
    left: &'a SideRecords,
    right: &'a SideRecords,
    /// Whether the row with the smaller number must be on the left.
    swap: bool,
    alone: bool,
    owns: Option<(Vec<bool>, [RawSets; 2])>,
}

impl Output<'_> {
    /// Returns whether the task owns a pair.
    fn owned(&self, pair: &RowPair) -> bool {
        let Some((owned, [left, right])) = &self.owns else {
            return true;
        };
        let right = if self.alone { left } else { right };
        let row =
            |sets: &RawSets, row: u32| sets.offsets[row as usize]..sets.offsets[row as usize + 1];
        let a = &left.tokens[row(left, pair.left)];
        let b = &right.tokens[row(right, pair.right)];
        let (mut at, mut other) = (0, 0);
        while let (Some(x), Some(y)) = (a.get(at), b.get(other)) {
            match x.cmp(y) {
                std::cmp::Ordering::Less => at += 1,
                std::cmp::Ordering::Greater => other += 1,
                std::cmp::Ordering::Equal => return owned.get(*x as usize).is_some_and(|&own| own),
            }
        }
        false
    }

    fn batch(&self, pairs: &[RowPair]) -> Result<Option<RecordBatch>> {
        let mut kept: Vec<&RowPair> = Vec::with_capacity(pairs.len());
        kept.extend(pairs.iter().filter(|pair| self.owned(pair)));
        if kept.is_empty() {
            return Ok(None);
        }
        let ends = |pair: &RowPair| {
            let (l, r) = ((self.left, pair.left), (self.right, pair.right));
            let turned = self.swap && l.0.rows[l.1 as usize] > r.0.rows[r.1 as usize];
            if turned { (r, l) } else { (l, r) }
        };
        let left = column(kept.iter().map(|pair| ends(pair).0));
        let right = column(kept.iter().map(|pair| ends(pair).1));
        let overlap = kept.iter().map(|pair| i64::from(pair.overlap));
        let similarity = kept.iter().map(|pair| pair.similarity);
        let columns: Vec<ArrayRef> = vec![
            left,
            right,
            Arc::new(Int64Array::from_iter_values(overlap)),
            Arc::new(Float64Array::from_iter_values(similarity)),
        ];
        let schema = pairs_schema(columns[0].data_type().clone(), columns[1].data_type().clone());
        RecordBatch::try_new(schema, columns)
            .map(Some)
            .map_err(|error| Error::Internal(error.to_string()))
    }
}

struct PairBatcher<'a, T> {
    output: Output<'a>,
    receive: T,
    failure: Option<Error>,
}

impl<T: FnMut(RecordBatch) -> ControlFlow<()>> PairBatcher<'_, T> {
    fn push(&mut self, pairs: &[RowPair]) -> ControlFlow<()> {
        match self.output.batch(pairs) {
            Ok(Some(batch)) => (self.receive)(batch),
            Ok(None) => ControlFlow::Continue(()),
            Err(failure) => {
                self.failure = Some(failure);
                ControlFlow::Break(())
            }
        }
    }
}
