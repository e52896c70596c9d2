//! Which classes do the workers of a cluster call?
//!
//! `simjoin.spark` (in `python/simjoin/spark`) plans the join; these classes wrap the types of
//! `simjoin-cluster`, which do the work. Workers pass Arrow columns and receive tables or streams. The
//! interpreter is released during the work.

use crate::errors::{OrRaise, raise};
use crate::input::array;
use crate::job::{Job, Message, Outcome};
use crate::join::bytes;
use crate::output::{Stream, Table};
use crate::sets::tokenizer;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use simjoin::engine::{Engine, Error, Parameter};
use simjoin_cluster::{Keys, TaskOptions, TokenCounter, TokenOrder, count, route};
use std::ops::ControlFlow;
use std::str::FromStr;
use std::sync::Arc;

/// Returns a column without copying.
fn column(object: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let (_, array) = array(object)?;
    array.map_err(|error| Error::Internal(error.to_string())).or_raise(object.py())
}

/// Returns the content of a cell that has not been finished.
fn open<'a, T>(py: Python<'_>, cell: &'a mut Option<T>) -> PyResult<&'a mut T> {
    cell.as_mut().ok_or_else(|| raise(py, "InternalError", "the object has already been finished"))
}

fn finished<T>(py: Python<'_>, cell: &Mutex<Option<T>>) -> PyResult<T> {
    let value = cell.lock().take();
    value.ok_or_else(|| raise(py, "InternalError", "the object has already been finished"))
}

fn table(schema: SchemaRef, batches: Vec<RecordBatch>) -> Table {
    Table::new(schema, batches, None)
}

/// Counts tokens and sizes in a partition, and draws a sample.
#[pyclass(module = "simjoin._native", frozen)]
pub struct ClusterCounter(Mutex<Option<TokenCounter>>);

#[pymethods]
impl ClusterCounter {
    #[new]
    #[pyo3(signature = (keys, tokens, multiset, partition, sample))]
    fn new(
        py: Python<'_>,
        keys: (u64, u32),
        tokens: Option<&str>,
        multiset: bool,
        partition: u32,
        sample: usize,
    ) -> PyResult<Self> {
        let keys = Keys::new(keys.0, keys.1).or_raise(py)?;
        let tokenizer = tokenizer(tokens).or_raise(py)?;
        let counter = TokenCounter::new(keys, tokenizer, multiset, partition, sample);
        Ok(ClusterCounter(Mutex::new(Some(counter))))
    }

    /// Counts a column, and returns the counts that are complete.
    fn add(&self, py: Python<'_>, name: &str, array: &Bound<'_, PyAny>) -> PyResult<Table> {
        let array = column(array)?;
        let mut cell = self.0.lock();
        let counter = open(py, &mut cell)?;
        let batches = py.detach(|| counter.add(name, &array)).or_raise(py)?;
        Ok(table(count::schema(), batches))
    }

    /// Returns the remaining counts.
    fn finish(&self, py: Python<'_>) -> PyResult<Table> {
        let counter = finished(py, &self.0)?;
        let batches = py.detach(|| counter.finish()).or_raise(py)?;
        Ok(table(count::schema(), batches))
    }
}

/// The global order of tokens.
#[pyclass(module = "simjoin._native", frozen)]
pub struct ClusterOrder(Arc<TokenOrder>);

#[pymethods]
impl ClusterOrder {
    #[new]
    #[pyo3(signature = (keys, table, complete))]
    fn new(
        py: Python<'_>,
        keys: (u64, u32),
        table: &Bound<'_, PyBytes>,
        complete: bool,
    ) -> PyResult<Self> {
        let keys = Keys::new(keys.0, keys.1).or_raise(py)?;
        let bytes = table.as_bytes();
        let order = TokenOrder::from_bytes(keys, bytes, complete).or_raise(py)?;
        Ok(ClusterOrder(Arc::new(order)))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }
}

/// The tasks of a join, and the assignment of records to them.
#[pyclass(module = "simjoin._native", frozen)]
pub struct ClusterLayout(Arc<simjoin_cluster::Layout>);

#[pymethods]
impl ClusterLayout {
    /// Reads a layout from JSON.
    #[new]
    fn new(py: Python<'_>, text: &str) -> PyResult<Self> {
        let layout = py.detach(|| simjoin_cluster::Layout::parse(text)).or_raise(py)?;
        Ok(ClusterLayout(Arc::new(layout)))
    }

    /// Returns each task as (group, left range, right range).
    fn tasks(&self) -> Vec<(u32, u32, u32)> {
        self.0.tasks().iter().map(|task| (task.group, task.left, task.right)).collect()
    }

    /// Returns the tasks for CPUs or for GPUs.
    fn tasks_for(&self, gpu: bool) -> Vec<u32> {
        self.0.tasks_for(gpu).collect()
    }

    /// Returns the group of a token, by its place in the order.
    fn group_of(&self, place: u64) -> u32 {
        self.0.group_of(place)
    }
}

/// A sample of records, on which layouts are evaluated.
#[pyclass(module = "simjoin._native", frozen)]
pub struct ClusterSample(Mutex<simjoin_cluster::Sample>);

impl ClusterSample {
    fn with<T>(&self, ask: impl FnOnce(&simjoin_cluster::Sample) -> T) -> T {
        ask(&self.0.lock())
    }
}

#[pymethods]
impl ClusterSample {
    #[new]
    fn new() -> Self {
        ClusterSample(Mutex::default())
    }

    /// Adds the records of one side, each as the bytes of its keys.
    fn add(
        &self,
        py: Python<'_>,
        order: &ClusterOrder,
        side: usize,
        records: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let records = column(records)?;
        let mut sample = self.0.lock();
        for record in binaries(py, &records)? {
            sample.push(&order.0, side, record).or_raise(py)?;
        }
        Ok(())
    }

    fn __len__(&self) -> usize {
        self.with(simjoin_cluster::Sample::len)
    }

    /// Returns the bytes of all records in the form in which they are sent.
    fn bytes(&self) -> u64 {
        self.with(simjoin_cluster::Sample::bytes)
    }

    /// Returns the number of prefixes that hold each token, as (place, count) by rising place.
    fn prefix_counts(&self, layout: &ClusterLayout) -> Vec<(u64, u64)> {
        self.with(|sample| sample.prefix_counts(&layout.0))
    }

    /// Returns (size, hash) of each record of a group, ascending, from which ranges are cut.
    fn cuts(&self, layout: &ClusterLayout, group: Option<u32>) -> Vec<(u32, u32)> {
        self.with(|sample| sample.cuts(&layout.0, group))
    }

    /// Returns (left, right, bytes, tokens, lookups, reach, postings) of each task.
    fn loads(
        &self,
        py: Python<'_>,
        layout: &ClusterLayout,
    ) -> Vec<(u64, u64, u64, u64, u64, f64, f64)> {
        let loads = py.detach(|| self.with(|sample| sample.loads(&layout.0)));
        let row = |one: simjoin_cluster::Load| {
            (one.left, one.right, one.bytes, one.tokens, one.lookups, one.reach, one.postings)
        };
        loads.into_iter().map(row).collect()
    }
}

fn binaries<'a>(
    py: Python<'_>,
    array: &'a ArrayRef,
) -> PyResult<Box<dyn Iterator<Item = &'a [u8]> + 'a>> {
    match array.data_type() {
        DataType::Binary => Ok(Box::new(array.as_binary::<i32>().iter().flatten())),
        DataType::LargeBinary => Ok(Box::new(array.as_binary::<i64>().iter().flatten())),
        other => Err(raise(py, "InternalError", &format!("a column of {other} instead of bytes"))),
    }
}

/// Sends the records of a partition to tasks.
#[pyclass(module = "simjoin._native", frozen)]
pub struct ClusterRouter(Mutex<Option<simjoin_cluster::Router>>);

#[pymethods]
impl ClusterRouter {
    #[new]
    #[pyo3(signature = (order, layout, tokens, multiset, start, gpu))]
    fn new(
        py: Python<'_>,
        order: &ClusterOrder,
        layout: &ClusterLayout,
        tokens: Option<&str>,
        multiset: bool,
        start: (usize, u64),
        gpu: bool,
    ) -> PyResult<Self> {
        let kind = (tokenizer(tokens).or_raise(py)?, multiset);
        let router = simjoin_cluster::Router::new(
            order.0.clone(),
            layout.0.clone(),
            kind,
            start.0.min(1),
            start.1,
            gpu,
        );
        Ok(ClusterRouter(Mutex::new(Some(router))))
    }

    /// Sends records: the name and the values of their column, and of their ids.
    #[pyo3(signature = (name, array, id, ids))]
    fn add(
        &self,
        py: Python<'_>,
        name: &str,
        array: &Bound<'_, PyAny>,
        id: &str,
        ids: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Table> {
        let array = column(array)?;
        let ids = ids.map(column).transpose()?;
        let mut cell = self.0.lock();
        let router = open(py, &mut cell)?;
        let batches = py
            .detach(|| {
                let ids = ids.as_ref().map(|ids| (id, ids.as_ref() as &dyn Array));
                router.add(name, &array, ids)
            })
            .or_raise(py)?;
        Ok(table(route::schema(), batches))
    }

    /// Returns the remaining records, and the number of the row after the last one.
    fn finish(&self, py: Python<'_>) -> PyResult<(Table, u64)> {
        let router = finished(py, &self.0)?;
        let next = router.next_row();
        let batches = py.detach(|| router.finish()).or_raise(py)?;
        Ok((table(route::schema(), batches), next))
    }
}

/// Joins the records of a task.
#[pyclass(module = "simjoin._native", frozen)]
pub struct ClusterTask(Mutex<Option<simjoin_cluster::Task>>);

#[pymethods]
impl ClusterTask {
    #[new]
    fn new(py: Python<'_>, layout: &ClusterLayout, place: u32, gpu: bool) -> PyResult<Self> {
        let task = simjoin_cluster::Task::new(layout.0.clone(), place, gpu).or_raise(py)?;
        Ok(ClusterTask(Mutex::new(Some(task))))
    }

    /// Adds blocks of records.
    fn add(&self, py: Python<'_>, blocks: &Bound<'_, PyAny>) -> PyResult<()> {
        let blocks = column(blocks)?;
        let mut cell = self.0.lock();
        let task = open(py, &mut cell)?;
        let mut blocks = binaries(py, &blocks)?;
        blocks.try_for_each(|block| task.add(block)).or_raise(py)
    }

    /// Joins, and returns the pairs as a stream.
    fn run(
        &self,
        py: Python<'_>,
        engine: &str,
        technique: &str,
        threads: usize,
        memory: Option<&str>,
    ) -> PyResult<Stream> {
        let task = finished(py, &self.0)?;
        let engine = Engine::from_str(engine).or_raise(py)?;
        let memory = memory.map(|text| bytes(Parameter::Memory, text)).transpose().or_raise(py)?;
        let options = TaskOptions { engine, technique: technique.into(), threads, memory };
        let job = Job::start(move |shared, outlet| {
            outlet.send(Message::Schema(task.schema()));
            let mut count = 0;
            task.run(&options, &shared.control, |batch| {
                count += batch.num_rows() as u64;
                match outlet.send(Message::Batch(batch)) {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            })?;
            Ok(Outcome { count, ..Outcome::default() })
        })
        .or_raise(py)?;
        Stream::start(py, job)
    }
}
