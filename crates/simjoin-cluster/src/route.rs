//! Which blocks go to which tasks?
//!
//! A [`Router`] takes the records of one partition of the input, in order, and returns rows
//! `partition, block`. `partition` is the place of a task among the tasks for the same kind of
//! processor, and `block` holds records for that task (see [`block`]). A record is written once for
//! each task that it goes to.
//!
//! # Memory
//!
//! A block is passed on at 256 KiB. All blocks are passed on when they hold 32 MiB together.

use crate::block::{self, Block, Id, Record};
use crate::layout::Layout;
use crate::order::TokenOrder;
use crate::records::Records;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, BinaryArray, Int32Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use simjoin_core::{Error, Result, Side};
use simjoin_io::Tokenizer;
use std::sync::Arc;

/// The bytes of a block, and of all blocks together, at which they are passed on.
const BLOCK: usize = 256 << 10;
const BLOCKS: usize = 32 << 20;
/// The bytes of a batch.
const BATCH: usize = 4 << 20;

/// Sends the records of a partition to tasks.
pub struct Router {
    order: Arc<TokenOrder>,
    layout: Arc<Layout>,
    records: Records,
    /// For each task, its place among the tasks that this router sends records to, if it is one of them.
    places: Vec<Option<u32>>,
    /// Two blocks for each place: the left side and the right side.
    blocks: Vec<Block>,
    held: usize,
    side: usize,
    next: u64,
    full: Vec<(i32, Vec<u8>)>,
}

impl Router {
    /// Makes a router for one partition of a side (0 for the left or only input, 1 for the right one) and
    /// for the tasks of CPUs or of GPUs. `first` is the number of the partition's first row.
    pub fn new(
        order: Arc<TokenOrder>,
        layout: Arc<Layout>,
        (tokenizer, multiset): (Tokenizer, bool),
        side: usize,
        first: u64,
        gpu: bool,
    ) -> Self {
        let mut places = vec![None; layout.tasks().len()];
        let mut count = 0;
        for task in layout.tasks_for(gpu) {
            places[task as usize] = Some(count);
            count += 1;
        }
        let blocks = (0..2 * count).map(|_| Block::default()).collect();
        let records = Records::new(order.keys(), tokenizer, multiset);
        let full = Vec::new();
        Router { order, layout, records, places, blocks, held: 0, side, next: first, full }
    }

    /// Routes the records of a column, with their ids if they have any, and returns the full blocks.
    pub fn add(
        &mut self,
        name: &str,
        column: &dyn Array,
        ids: Option<(&str, &dyn Array)>,
    ) -> Result<Vec<RecordBatch>> {
        let ids = ids.map(|(name, array)| Ids::of(name, array)).transpose()?;
        let Router { order, layout, records, places, blocks, held, side, next, full } = self;
        let (mut found, mut groups, mut body) = (Vec::new(), Vec::new(), Vec::new());
        let first = *next;
        records.keys_of(column, (name, first), |keys| {
            let row = *next;
            *next += 1;
            let id = match &ids {
                Some(ids) => ids.get((row - first) as usize, row)?,
                None => Id::Row,
            };
            let unique = order.places(keys, &mut found);
            let record = Record { row, id, unique, places: &found };
            body.clear();
            layout.route((keys.len() as u32, unique, &found), *side, &mut groups, |task, of| {
                let Some(place) = places[task as usize] else {
                    return;
                };
                if body.is_empty() {
                    block::body(&record, &mut body);
                }
                let block = &mut blocks[2 * place as usize + usize::from(of == Side::Right)];
                *held -= block.len();
                block.push(of, id, row, &body);
                *held += block.len();
                if block.len() >= BLOCK {
                    *held -= block.len();
                    full.push((place as i32, block.take()));
                }
            });
            if *held >= BLOCKS {
                hand_on(blocks, full);
                *held = 0;
            }
            Ok(())
        })?;
        batches(&std::mem::take(&mut self.full))
    }

    /// Returns the number of the next row.
    pub fn next_row(&self) -> u64 {
        self.next
    }

    /// Returns the rest of the blocks.
    pub fn finish(mut self) -> Result<Vec<RecordBatch>> {
        hand_on(&mut self.blocks, &mut self.full);
        batches(&self.full)
    }
}

fn hand_on(blocks: &mut [Block], full: &mut Vec<(i32, Vec<u8>)>) {
    for (at, block) in blocks.iter_mut().enumerate().filter(|(_, block)| !block.is_empty()) {
        full.push(((at / 2) as i32, block.take()));
    }
}

/// Returns the schema of the batches.
pub fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![
        Field::new("partition", DataType::Int32, false),
        Field::new("block", DataType::Binary, false),
    ]))
}

fn batches(blocks: &[(i32, Vec<u8>)]) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    let mut rest = blocks;
    while !rest.is_empty() {
        let mut bytes = 0;
        let mut exceeds = |(_, block): &(i32, Vec<u8>)| {
            bytes += block.len();
            bytes > BATCH
        };
        let count = rest.iter().position(&mut exceeds).unwrap_or(rest.len());
        let (now, later) = rest.split_at(count.max(1));
        rest = later;
        let places = Int32Array::from_iter_values(now.iter().map(|(place, _)| *place));
        let bytes = BinaryArray::from_iter_values(now.iter().map(|(_, block)| block));
        let batch = RecordBatch::try_new(schema(), vec![Arc::new(places), Arc::new(bytes)]);
        batches.push(batch.map_err(|error| Error::Internal(error.to_string()))?);
    }
    Ok(batches)
}

/// The ids of some rows.
struct Ids<'a> {
    name: &'a str,
    array: &'a dyn Array,
}

impl<'a> Ids<'a> {
    fn of(name: &'a str, array: &'a dyn Array) -> Result<Self> {
        match array.data_type() {
            DataType::Int64 | DataType::Utf8 | DataType::LargeUtf8 => Ok(Ids { name, array }),
            other => Err(Error::input(
                format!("id column `{name}`"),
                "",
                format!("is of type {other}; strings or 64-bit integers were expected"),
            )),
        }
    }

    fn get(&self, at: usize, row: u64) -> Result<Id<'a>> {
        if self.array.is_null(at) {
            return Err(Error::input(
                format!("id column `{}`", self.name),
                format!("row {row} (counting from 0)"),
                "null; a value was expected",
            ));
        }
        Ok(match self.array.data_type() {
            DataType::Int64 => Id::Integer(self.array.as_primitive::<Int64Type>().value(at)),
            DataType::Utf8 => Id::Text(self.array.as_string::<i32>().value(at)),
            _ => Id::Text(self.array.as_string::<i64>().value(at)),
        })
    }
}
