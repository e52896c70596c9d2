//! How does a join run, from Python objects to a Python answer?
//!
//! collect → prepare → plan → join, on a separate thread. Sets and vectors differ in how they are collected and
//! in the columns of their pairs: `sets.rs` and `vectors.rs`.

use crate::errors::{OrRaise, raise};
use crate::job::{Job, Message, Outcome, Outlet, Phase, QUEUE, Shared, Value};
use crate::output::{Stream, Table};
use arrow_array::RecordBatch;
use pyo3::prelude::*;
use simjoin::engine::{
    Error, Join, Joinable, Parameter, Plan, Purpose, Report, Result, RowPair, StepPlan, parse_bytes,
};
use simjoin_io::{Batches, Ids, PairBatches};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The largest number of rows of a batch.
const ROWS: usize = 1 << 16;

/// The bytes that must remain free for the process while an answer is collected.
const HEADROOM: usize = 64 << 20;

/// The number of rows that are read between two checks for Ctrl-C.
const ROWS_PER_CHECK: usize = 8192;

/// Limits on the resources of any join.
#[derive(FromPyObject)]
pub struct Limits {
    #[pyo3(item)]
    threads: Option<usize>,
    #[pyo3(item)]
    memory: Option<String>,
}

impl Limits {
    /// Returns the number of threads.
    pub fn threads(&self) -> Result<usize> {
        simjoin::engine::threads(self.threads)
    }

    /// Returns the bytes that the join may use.
    pub fn memory(&self) -> Result<Option<u64>> {
        self.memory.as_deref().map(|text| bytes(Parameter::Memory, text)).transpose()
    }
}

/// Reads a size such as `512M`.
pub fn bytes(parameter: Parameter, text: &str) -> Result<u64> {
    parse_bytes(text).ok_or_else(|| {
        let message = format!(
            "{text:?} is not a size; expected a number of bytes, or text such as 512M or 4G"
        );
        Error::parameter(parameter, message)
    })
}

/// Options that joins of sets and of vectors share.
#[derive(FromPyObject)]
pub struct Options {
    #[pyo3(item)]
    engine: String,
    #[pyo3(item)]
    technique: String,
    #[pyo3(item)]
    device_memory: Option<String>,
    #[pyo3(item)]
    pub answer: String,
    #[pyo3(item)]
    pub limits: Limits,
}

/// The checked options of a join.
pub struct JoinSettings<K: Joinable> {
    join: Join<K>,
    pub with_itself: bool,
    pub threads: usize,
    batch_rows: usize,
    answer: String,
}

impl<K: Joinable> JoinSettings<K> {
    pub fn resolve(join: Join<K>, with_itself: bool, options: &Options) -> Result<Self> {
        let join = join.engine(options.engine.parse()?).technique(&options.technique);
        let mut join = join.with_itself(with_itself);
        let memory = options.limits.memory()?;
        if let Some(bytes) = memory {
            join = join.memory(bytes);
        }
        if let Some(text) = &options.device_memory {
            join = join.device_memory(bytes(Parameter::DeviceMemory, text)?);
        }
        join.check()?;
        Ok(JoinSettings {
            join,
            with_itself,
            threads: options.limits.threads()?,
            batch_rows: batch_rows(memory),
            answer: options.answer.clone(),
        })
    }
}

/// One collection or two, with the ids of their rows.
pub struct Collections<C> {
    pub left: C,
    pub right: Option<C>,
    pub left_ids: Option<Ids>,
    pub right_ids: Option<Ids>,
}

impl<C> Collections<C> {
    /// Returns the ids of rows on the left.
    pub fn left_ids(&self) -> Option<&Ids> {
        self.left_ids.as_ref()
    }

    /// Returns the ids of rows on the right, which are those on the left in a self-join.
    pub fn right_ids(&self) -> Option<&Ids> {
        if self.right.is_some() { self.right_ids.as_ref() } else { self.left_ids() }
    }
}

/// The collections to join, and the threads that join them.
pub struct Input<C> {
    pub collections: Collections<C>,
    pub pool: rayon::ThreadPool,
    begin: Instant,
    seconds: Vec<(&'static str, f64)>,
}

impl<C: Send> Input<C> {
    /// Reads rows, and makes collections of them.
    pub fn collect<R: Send>(
        threads: usize,
        shared: &Shared,
        read: impl FnOnce() -> Result<R> + Send,
        prepare: impl FnOnce(R) -> Result<Collections<C>> + Send,
    ) -> Result<Self> {
        let begin = Instant::now();
        shared.enter(Phase::Reading)?;
        let pool = simjoin::engine::pool(threads)?;
        let raw = pool.install(read)?;
        let reading = begin.elapsed();
        shared.enter(Phase::Preparing)?;
        let phase = Instant::now();
        let collections = pool.install(|| prepare(raw))?;
        let seconds =
            vec![("read", reading.as_secs_f64()), ("prepare", phase.elapsed().as_secs_f64())];
        Ok(Input { collections, pool, begin, seconds })
    }

    /// Returns the outcome of a join that began at `phase`.
    pub fn outcome(
        &self,
        count: u64,
        facts: Vec<(&'static str, Value)>,
        phase: Instant,
    ) -> Outcome {
        let mut seconds = self.seconds.clone();
        seconds.push(("join", phase.elapsed().as_secs_f64()));
        seconds.push(("total", self.begin.elapsed().as_secs_f64()));
        Outcome { count, facts, seconds }
    }
}

/// A kind of join that Python can run.
pub trait JoinKind: Joinable<Collection: Send> {
    /// Returns statistics of the input.
    fn facts(collections: &Collections<Self::Collection>) -> Vec<(&'static str, Value)>;

    /// Returns the columns of the pairs.
    fn columns<'a>(
        settings: &JoinSettings<Self>,
        collections: &'a Collections<Self::Collection>,
    ) -> Result<PairBatches<'a>>;
}

/// Plans and runs a join of collections.
fn run<K: JoinKind>(
    settings: &JoinSettings<K>,
    input: &Input<K::Collection>,
    shared: &Shared,
    outlet: &Outlet,
) -> Result<Outcome> {
    let collections = &input.collections;
    shared.enter(Phase::Joining)?;
    let phase = Instant::now();
    let purpose = match settings.answer.as_str() {
        "count" | "plan" => Purpose::Count,
        "groups" => Purpose::Groups,
        _ => Purpose::Pairs,
    };
    let report = input.pool.install(|| {
        let plan = settings.join.plan(&collections.left, collections.right.as_ref(), purpose)?;
        if settings.answer == "plan" {
            return Ok(Err(explained(&plan)));
        }
        answer(settings, &plan, collections, shared, outlet).map(Ok)
    })?;
    let report = match report {
        Ok(report) => report,
        Err(explained) => return Ok(explained),
    };
    let mut facts = K::facts(collections);
    facts.extend([
        ("pairs", Value::Count(report.pairs)),
        ("candidates", Value::Count(report.candidates)),
        ("engine", Value::Text(report.engine.name().into())),
        ("technique", Value::Text(report.technique)),
        ("threads", Value::Count(report.threads as u64)),
        ("warnings", Value::Texts(report.warnings)),
    ]);
    Ok(input.outcome(report.pairs, facts, phase))
}

fn answer<K: JoinKind>(
    settings: &JoinSettings<K>,
    plan: &Plan<'_, K>,
    collections: &Collections<K::Collection>,
    shared: &Shared,
    outlet: &Outlet,
) -> Result<Report> {
    let control = &shared.control;
    match settings.answer.as_str() {
        "count" => plan.count(control),
        "groups" => {
            let columns = PairBatches::of_groups(collections.left_ids());
            outlet.send(Message::Schema(columns.schema()));
            let (labels, report) = plan.groups(control)?;
            send_groups(&columns, &labels, shared, outlet)?;
            Ok(report)
        }
        _ => {
            let columns = K::columns(settings, collections)?;
            send_pairs(&columns, settings.batch_rows, outlet, |receive| {
                plan.pairs(control, receive)
            })
        }
    }
}

/// Describes the plan of a join.
fn explained<K: Joinable>(plan: &Plan<'_, K>) -> Outcome {
    let found = plan.explain();
    let named = |(name, variant): (&str, &str)| format!("{name} {variant}").trim_end().to_owned();
    let chosen = |step: &StepPlan| named((step.technique.0, step.technique.1.as_str()));
    let estimates = |step: &StepPlan| {
        let one = |(name, variant, seconds): &(&str, String, Option<f64>)| {
            (named((name, variant.as_str())), *seconds)
        };
        step.considered.iter().map(one).collect()
    };
    Outcome {
        facts: vec![
            ("text", Value::Text(found.to_string())),
            ("techniques", Value::Texts(found.steps.iter().map(chosen).collect())),
            ("pairs", found.pairs.map_or(Value::None, Value::Number)),
            ("seconds", found.seconds.map_or(Value::None, Value::Number)),
            ("considered", Value::Estimates(found.steps.iter().map(estimates).collect())),
        ],
        ..Outcome::default()
    }
}

/// Returns the number of rows of a batch, so that waiting batches take a small part of the memory.
pub fn batch_rows(memory: Option<u64>) -> usize {
    memory.map_or(ROWS, |bytes| ((bytes / 16 / 32 / 8) as usize).clamp(256, ROWS))
}

/// An answer that is being collected in memory.
#[derive(Default)]
struct Collected {
    batches: Vec<RecordBatch>,
    rows: u64,
    bytes: u64,
    /// The bytes of the largest batch.
    largest: usize,
}

impl Collected {
    /// Adds a batch. Returns false if little memory is left. The join needs some for the batches that it
    /// makes in the meantime, and a failed allocation ends the process.
    fn push(&mut self, batch: RecordBatch) -> bool {
        let bytes = batch.get_array_memory_size();
        self.rows += batch.num_rows() as u64;
        self.bytes += bytes as u64;
        self.largest = self.largest.max(bytes);
        let mut rest: Vec<u8> = Vec::new();
        let left = rest.try_reserve_exact(HEADROOM.max(2 * QUEUE * self.largest)).is_ok();
        std::hint::black_box(&mut rest);
        let fits = left && self.batches.try_reserve(1).is_ok();
        if fits {
            self.batches.push(batch);
        }
        fits
    }

    fn too_large(&self, pairs: bool) -> String {
        let advice = if pairs {
            "; `stream=True` returns it in parts, `count=True` only counts it"
        } else {
            ""
        };
        let (rows, megabytes) = (self.rows, self.bytes.div_ceil(1 << 20));
        format!(
            "the answer is larger than the memory: {rows} rows took {megabytes} MiB so far{advice}"
        )
    }
}

/// Starts a join, and waits for its answer.
pub fn begin<'py, K: JoinKind>(
    py: Python<'py>,
    settings: JoinSettings<K>,
    collect: impl FnOnce(&JoinSettings<K>, &Shared) -> Result<Input<K::Collection>> + Send + 'static,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let answer = settings.answer.clone();
    let job = Job::start(move |shared, outlet| {
        let input = collect(&settings, shared)?;
        run(&settings, &input, shared, outlet)
    });
    finish(py, job.or_raise(py)?, &answer, progress)
}

/// Waits for the answer, and returns it in the requested form.
pub fn finish<'py>(
    py: Python<'py>,
    mut job: Job,
    answer: &str,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    if answer == "stream" {
        return Ok(Bound::new(py, Stream::start(py, job)?)?.into_any());
    }
    let (mut schema, mut collected) = (None, Collected::default());
    let outcome = loop {
        match job.next(py, progress)? {
            Message::Schema(columns) => schema = Some(columns),
            Message::Batch(batch) => {
                if !collected.push(batch) {
                    job.stop(py);
                    let message = collected.too_large(answer == "pairs");
                    drop(collected);
                    return Err(raise(py, "MemoryLimitError", &message));
                }
            }
            Message::End(outcome) => break outcome,
        }
    };
    outcome.warn(py)?;
    if matches!(answer, "plan" | "size") {
        return Ok(outcome.stats(py)?.into_any());
    }
    match schema {
        Some(schema) => {
            let stats = outcome.stats(py)?.unbind();
            Ok(Bound::new(py, Table::new(schema, collected.batches, Some(stats)))?.into_any())
        }
        None => Ok(outcome.count.into_pyobject(py)?.into_any()),
    }
}

/// Counts rows as they are read, and ends when the join is told to end. Splits
/// batches, because a column may be a single batch.
pub fn watched<'a>(table: Batches<'a>, shared: &'a Shared) -> Batches<'a> {
    let slices = table.batches.flat_map(|batch| {
        let rows = batch.as_ref().map_or(1, RecordBatch::num_rows);
        (0..rows).step_by(ROWS_PER_CHECK).map(move |first| match &batch {
            Ok(batch) => Ok(batch.slice(first, ROWS_PER_CHECK.min(rows - first))),
            Err(error) => Err(error.clone()),
        })
    });
    let batches = slices.map(move |batch| {
        if shared.stopped() {
            return Err("interrupted".into());
        }
        if let Ok(batch) = &batch {
            shared.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        }
        batch
    });
    Batches { batches: Box::new(batches), ..table }
}

/// Sends each row with its group.
pub fn send_groups(
    columns: &PairBatches<'_>,
    labels: &[u32],
    shared: &Shared,
    outlet: &Outlet,
) -> Result<()> {
    if shared.stopped() {
        return Err(Error::Interrupted);
    }
    for (at, labels) in labels.chunks(ROWS).enumerate() {
        let batch = columns.groups((at * ROWS) as u32, labels)?;
        if !outlet.send(Message::Batch(batch)) {
            return Err(Error::Interrupted);
        }
    }
    Ok(())
}

/// Sends pairs as they are found, in batches.
pub fn send_pairs<R>(
    columns: &PairBatches<'_>,
    batch_rows: usize,
    outlet: &Outlet,
    find: impl FnOnce(&mut (dyn FnMut(&[RowPair]) -> ControlFlow<()> + Send)) -> Result<R>,
) -> Result<R> {
    outlet.send(Message::Schema(columns.schema()));
    let mut failure = None;
    let mut waiting: Vec<RowPair> = Vec::with_capacity(batch_rows);
    let mut send = |rows: &mut Vec<RowPair>| -> ControlFlow<()> {
        let batch = columns.batch(rows);
        rows.clear();
        match batch.map(|batch| outlet.send(Message::Batch(batch))) {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    };
    let report = find(&mut |mut rows| {
        while waiting.len() + rows.len() >= batch_rows {
            let (now, later) = rows.split_at(batch_rows - waiting.len());
            waiting.extend_from_slice(now);
            send(&mut waiting)?;
            rows = later;
        }
        waiting.extend_from_slice(rows);
        ControlFlow::Continue(())
    })?;
    if !waiting.is_empty() {
        let _ = send(&mut waiting);
    }
    failure.map_or(Ok(report), Err)
}
