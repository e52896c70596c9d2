//! How does a join of sets or texts go?
//!
//! collect → prepare → join, on a thread beside the interpreter.

use crate::errors::OrRaise;
use crate::input::Side;
use crate::job::{Job, Message, Outcome, Outlet, Phase, Shared, Value};
use crate::output::{Stream, Table};
use arrow_array::RecordBatch;
use pyo3::prelude::*;
use simjoin::{
    Engine, Error, Join, Measure, Predicate, Result, RowPair, SetCollection, StepPlan, parse_bytes,
    prepare,
};
use simjoin_io::{Batches, Ids, PairBatches, ReadOptions, Tokenizer, collect_sets};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Rows of a batch at most.
const ROWS: usize = 1 << 16;

/// Rows that are read before anybody looks whether to go on.
const PIECE: usize = 8192;

/// What all joins can be told.
#[derive(FromPyObject)]
pub struct Limits {
    #[pyo3(item)]
    threads: Option<usize>,
    #[pyo3(item)]
    memory: Option<String>,
}

impl Limits {
    /// The number of threads.
    pub fn threads(&self) -> Result<usize> {
        simjoin::threads(self.threads)
    }

    /// Bytes that the join may take.
    pub fn memory(&self) -> Result<Option<u64>> {
        self.memory.as_deref().map(|text| bytes("memory", text)).transpose()
    }
}

/// Reads a size such as `512M`.
pub fn bytes(name: &str, text: &str) -> Result<u64> {
    parse_bytes(text).ok_or_else(|| {
        Error::Config(format!(
            "{name} {text:?} is not a size; expected a number of bytes, or text such as 512M or 4G"
        ))
    })
}

/// What a join of sets can be told.
#[derive(FromPyObject)]
pub struct Options {
    #[pyo3(item)]
    measure: String,
    #[pyo3(item)]
    threshold: String,
    #[pyo3(item)]
    tokens: Option<String>,
    #[pyo3(item)]
    multiset: bool,
    #[pyo3(item)]
    engine: String,
    #[pyo3(item)]
    technique: String,
    #[pyo3(item)]
    device_memory: Option<String>,
    #[pyo3(item)]
    with_itself: bool,
    #[pyo3(item)]
    answer: String,
    #[pyo3(item)]
    limits: Limits,
}

/// A join, resolved.
struct Settings {
    join: Join,
    read: ReadOptions,
    batch_rows: usize,
    with_itself: bool,
    answer: Answer,
}

#[derive(Clone, Copy, PartialEq)]
enum Answer {
    Pairs,
    Count,
    Groups,
    Plan,
}

impl Options {
    fn resolve(&self) -> Result<Settings> {
        let measure = Measure::ALL.into_iter().find(|measure| measure.name() == self.measure);
        let measure = measure.ok_or_else(|| Error::Internal("no such measure".into()))?;
        let predicate = Predicate::parse(measure, &self.threshold)?;
        let engine: Engine = self.engine.parse()?;
        let mut join = simjoin::join(predicate)
            .engine(engine)
            .technique(&self.technique)
            .with_itself(self.with_itself);
        let memory = self.limits.memory()?;
        if let Some(bytes) = memory {
            join = join.memory(bytes);
        }
        if let Some(text) = &self.device_memory {
            join = join.device_memory(bytes("device_memory", text)?);
        }
        join.check()?;
        let threads = self.limits.threads()?;
        let tokenizer = match &self.tokens {
            Some(name) => name.parse()?,
            None => Tokenizer::Whitespace,
        };
        let answer = match self.answer.as_str() {
            "count" => Answer::Count,
            "groups" => Answer::Groups,
            "plan" => Answer::Plan,
            _ => Answer::Pairs,
        };
        let multiset = self.multiset;
        Ok(Settings {
            join,
            read: ReadOptions { tokenizer, multiset, threads, ..ReadOptions::default() },
            batch_rows: batch_rows(memory),
            with_itself: self.with_itself,
            answer,
        })
    }
}

/// Rows of a batch, so that all that wait for a reader take a small part of the memory.
pub fn batch_rows(memory: Option<u64>) -> usize {
    memory.map_or(ROWS, |bytes| ((bytes / 16 / 32 / 8) as usize).clamp(256, ROWS))
}

/// Joins one collection with itself or with another one.
#[pyfunction]
pub fn join<'py>(
    py: Python<'py>,
    left: Side<'py>,
    right: Option<Side<'py>>,
    options: Options,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let settings = options.resolve().or_raise(py)?;
    let left = left.batches(py)?;
    let right = right.map(|right| right.batches(py)).transpose()?;
    let job = Job::start(move |shared, outlet| run(&settings, left, right, shared, outlet));
    finish(py, job.or_raise(py)?, &options.answer, progress)
}

/// Waits for the answer in the form that was asked for.
pub fn finish<'py>(
    py: Python<'py>,
    mut job: Job,
    answer: &str,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    if answer == "stream" {
        return Ok(Bound::new(py, Stream::start(py, job)?)?.into_any());
    }
    let (mut schema, mut batches) = (None, Vec::new());
    let outcome = loop {
        match job.next(py, progress)? {
            Message::Schema(columns) => schema = Some(columns),
            Message::Batch(batch) => batches.push(batch),
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
            Ok(Bound::new(py, Table::new(schema, batches, Some(stats)))?.into_any())
        }
        None => Ok(outcome.count.into_pyobject(py)?.into_any()),
    }
}

/// Counts rows as they are read, and ends when asked to. A column may come as one batch, so batches are cut.
pub fn watched<'a>(table: Batches<'a>, shared: &'a Shared) -> Batches<'a> {
    let pieces = table.batches.flat_map(|batch| {
        let rows = batch.as_ref().map_or(1, RecordBatch::num_rows);
        (0..rows).step_by(PIECE).map(move |first| match &batch {
            Ok(batch) => Ok(batch.slice(first, PIECE.min(rows - first))),
            Err(error) => Err(error.clone()),
        })
    });
    let batches = pieces.map(move |batch| {
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

/// Two collections, or one, with what their rows are called, and the threads to join them on.
pub struct Input {
    pub left: SetCollection,
    pub right: Option<SetCollection>,
    left_ids: Option<Ids>,
    right_ids: Option<Ids>,
    pub pool: rayon::ThreadPool,
    begin: Instant,
    seconds: Vec<(&'static str, f64)>,
}

impl Input {
    /// Tokenizes and prepares.
    pub fn collect(
        read: &ReadOptions,
        left: Batches<'_>,
        right: Option<Batches<'_>>,
        shared: &Shared,
    ) -> Result<Self> {
        let begin = Instant::now();
        shared.enter(Phase::Reading)?;
        let left = watched(left, shared);
        let right = right.map(|right| watched(right, shared));
        let input = collect_sets(left, right, read)?;
        let reading = begin.elapsed();
        shared.enter(Phase::Preparing)?;
        let phase = Instant::now();
        let (right_sets, right_ids) =
            input.right.map_or((None, None), |table| (Some(table.sets), table.ids));
        let left_ids = input.left.ids;
        let pool = simjoin::pool(read.threads)?;
        let (left, right) =
            pool.install(|| prepare(input.left.sets, right_sets, input.universe))?;
        let seconds =
            vec![("read", reading.as_secs_f64()), ("prepare", phase.elapsed().as_secs_f64())];
        Ok(Input { left, right, left_ids, right_ids, pool, begin, seconds })
    }

    /// The ids of rows on the left.
    pub fn left_ids(&self) -> Option<&Ids> {
        self.left_ids.as_ref()
    }

    /// The ids of rows on the right, which are the same in a self-join.
    pub fn right_ids(&self) -> Option<&Ids> {
        if self.right.is_some() { self.right_ids.as_ref() } else { self.left_ids() }
    }

    /// What came of it.
    pub fn outcome(&self, count: u64, more: Vec<(&'static str, Value)>, phase: Instant) -> Outcome {
        let records = |sets: &SetCollection| Value::Count(sets.records() as u64);
        let mut facts = vec![
            ("records", records(&self.left)),
            ("right_records", self.right.as_ref().map_or(Value::None, records)),
            ("universe", Value::Count(self.left.universe().into())),
        ];
        facts.extend(more);
        let mut seconds = self.seconds.clone();
        seconds.push(("join", phase.elapsed().as_secs_f64()));
        seconds.push(("total", self.begin.elapsed().as_secs_f64()));
        Outcome { count, facts, seconds }
    }
}

fn run(
    settings: &Settings,
    left: Batches<'_>,
    right: Option<Batches<'_>>,
    shared: &Shared,
    outlet: &Outlet,
) -> Result<Outcome> {
    let input = Input::collect(&settings.read, left, right, shared)?;
    shared.enter(Phase::Joining)?;
    if settings.answer == Answer::Plan {
        return input.pool.install(|| plan(settings, &input));
    }
    let phase = Instant::now();
    let report = input.pool.install(|| answer(settings, &input, shared, outlet))?;
    let facts = vec![
        ("pairs", Value::Count(report.pairs)),
        ("candidates", Value::Count(report.candidates)),
        ("engine", Value::Text(report.engine.name().into())),
        ("technique", Value::Text(report.technique)),
        ("threads", Value::Count(report.threads as u64)),
        ("warnings", Value::Texts(report.warnings)),
    ];
    Ok(input.outcome(report.pairs, facts, phase))
}

fn plan(settings: &Settings, input: &Input) -> Result<Outcome> {
    let (left, right) = (&input.left, input.right.as_ref());
    let found = settings.join.explanation(left, right)?;
    let named = |(name, variant): (&str, &str)| format!("{name} {variant}").trim_end().to_owned();
    let chosen = |step: &StepPlan| named((step.technique.0, step.technique.1.as_str()));
    let estimates = |step: &StepPlan| {
        let one = |(name, variant, seconds): &(&str, String, Option<f64>)| {
            (named((name, variant.as_str())), *seconds)
        };
        step.considered.iter().map(one).collect()
    };
    Ok(Outcome {
        facts: vec![
            ("text", Value::Text(found.text(left, right, settings.read.threads))),
            ("techniques", Value::Texts(found.steps.iter().map(chosen).collect())),
            ("pairs", found.pairs.map_or(Value::None, Value::Number)),
            ("seconds", found.seconds.map_or(Value::None, Value::Number)),
            ("considered", Value::Estimates(found.steps.iter().map(estimates).collect())),
        ],
        ..Outcome::default()
    })
}

fn answer(
    settings: &Settings,
    input: &Input,
    shared: &Shared,
    outlet: &Outlet,
) -> Result<simjoin::Report> {
    let (join, control) = (&settings.join, &shared.control);
    if settings.answer == Answer::Count {
        return join.count(&input.left, input.right.as_ref(), control);
    }
    if settings.answer == Answer::Groups {
        let columns = PairBatches::of_groups(input.left_ids());
        outlet.send(Message::Schema(columns.schema()));
        let (labels, report) = join.groups(&input.left, control)?;
        send_groups(&columns, &labels, shared, outlet)?;
        return Ok(report);
    }
    let (left_ids, right_ids) = (input.left_ids(), input.right_ids());
    let columns = if settings.with_itself {
        PairBatches::with_itself(left_ids, right_ids)?
    } else {
        PairBatches::sets(left_ids, right_ids)
    };
    send_pairs(&columns, settings.batch_rows, outlet, |take| {
        join.pairs(&input.left, input.right.as_ref(), control, take)
    })
}

/// Hands on each row with its group.
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

/// Hands pairs on as they are found, in batches.
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
