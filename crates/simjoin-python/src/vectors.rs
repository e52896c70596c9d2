//! How does a join of vectors go?

use crate::errors::OrRaise;
use crate::input::{Side, Vectors};
use crate::job::{Job, Message, Outcome, Outlet, Phase, Shared, Value};
use crate::sets::{Limits, batch_rows, bytes, finish, send_groups, send_pairs, watched};
use pyo3::prelude::*;
use simjoin::{
    Elements, PreparedVectorJoin, Result, VectorCollection, VectorJoin, VectorPredicate,
    VectorReport,
};
use simjoin_io::{Ids, PairBatches, ReadVectors, collect_vectors};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// What a join of vectors can be told.
#[derive(FromPyObject)]
pub struct Options {
    #[pyo3(item)]
    measure: String,
    #[pyo3(item)]
    threshold: String,
    #[pyo3(item)]
    engine: String,
    #[pyo3(item)]
    technique: String,
    #[pyo3(item)]
    device_memory: Option<String>,
    #[pyo3(item)]
    answer: String,
    #[pyo3(item)]
    limits: Limits,
}

struct Settings {
    join: VectorJoin,
    threads: usize,
    batch_rows: usize,
    answer: String,
}

impl Options {
    fn resolve(&self) -> Result<Settings> {
        let predicate = match self.measure.as_str() {
            "within" => VectorPredicate::within(&self.threshold)?,
            _ => VectorPredicate::cosine(&self.threshold)?,
        };
        let engine = self.engine.parse()?;
        let mut join = simjoin::vector_join(predicate).technique(&self.technique).engine(engine);
        let memory = self.limits.memory()?;
        if let Some(memory) = memory {
            join = join.memory(memory);
        }
        if let Some(text) = &self.device_memory {
            join = join.device_memory(bytes("device_memory", text)?);
        }
        join.check()?;
        Ok(Settings {
            join,
            threads: self.limits.threads()?,
            batch_rows: batch_rows(memory),
            answer: self.answer.clone(),
        })
    }
}

/// Joins vectors with themselves or with others.
#[pyfunction]
pub fn vector_join<'py>(
    py: Python<'py>,
    left: Side<'py>,
    right: Option<Side<'py>>,
    options: Options,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let settings = options.resolve().or_raise(py)?;
    let left = left.vectors(py)?;
    let right = right.map(|right| right.vectors(py)).transpose()?;
    let job = Job::start(move |shared, outlet| run(&settings, left, right, shared, outlet));
    finish(py, job.or_raise(py)?, &options.answer, progress)
}

struct Sides {
    left: VectorCollection,
    right: Option<VectorCollection>,
    left_ids: Option<Ids>,
    right_ids: Option<Ids>,
}

impl Sides {
    fn read(left: Vectors, right: Option<Vectors>, shared: &Shared) -> Result<Self> {
        let read = |vectors: Vectors| match vectors {
            Vectors::Table(table) => collect_vectors(watched(table, shared)),
            Vectors::Ready(vectors) => {
                shared.rows.fetch_add(vectors.len() as u64, Ordering::Relaxed);
                Ok(ReadVectors { vectors, ids: None })
            }
        };
        let ReadVectors { vectors: mut left, ids: left_ids } = read(left)?;
        let (mut right, right_ids) = match right.map(read).transpose()? {
            None => (None, None),
            Some(right) => (Some(right.vectors), right.ids),
        };
        // Both sides are brought to one precision.
        let is_wide = |side: &VectorCollection| matches!(side.elements(), Elements::F64(_));
        if right.as_ref().is_some_and(|right| is_wide(right) != is_wide(&left)) {
            left = left.widened();
            right = right.map(VectorCollection::widened);
        }
        Ok(Sides { left, right, left_ids, right_ids })
    }
}

fn run(
    settings: &Settings,
    left: Vectors,
    right: Option<Vectors>,
    shared: &Shared,
    outlet: &Outlet,
) -> Result<Outcome> {
    let begin = Instant::now();
    shared.enter(Phase::Reading)?;
    let sides = Sides::read(left, right, shared)?;
    let read = begin.elapsed();

    shared.enter(Phase::Preparing)?;
    let phase = Instant::now();
    let pool = simjoin::pool(settings.threads)?;
    let prepared = pool.install(|| settings.join.prepare(&sides.left, sides.right.as_ref()))?;
    let preparing = phase.elapsed();
    if settings.answer == "plan" {
        let estimate = pool.install(|| prepared.estimate_pairs());
        let right = sides.right.as_ref();
        let text = prepared.text(&settings.join, &sides.left, right, estimate);
        return Ok(plan(&prepared, estimate, text));
    }

    shared.enter(Phase::Joining)?;
    let phase = Instant::now();
    let report = pool.install(|| answer(settings, &sides, &prepared, shared, outlet))?;
    let records = |vectors: &VectorCollection| Value::Count(vectors.len() as u64);
    Ok(Outcome {
        count: report.pairs,
        facts: vec![
            ("records", records(&sides.left)),
            ("right_records", sides.right.as_ref().map_or(Value::None, records)),
            ("dimension", Value::Count(sides.left.dimension() as u64)),
            ("pairs", Value::Count(report.pairs)),
            ("candidates", Value::Count(report.candidates)),
            ("engine", Value::Text(report.engine.name().into())),
            ("technique", Value::Text(report.technique.into())),
            ("threads", Value::Count(report.threads as u64)),
            ("warnings", Value::Texts(report.warnings)),
        ],
        seconds: vec![
            ("read", read.as_secs_f64()),
            ("prepare", preparing.as_secs_f64()),
            ("join", phase.elapsed().as_secs_f64()),
            ("total", begin.elapsed().as_secs_f64()),
        ],
    })
}

fn plan(prepared: &PreparedVectorJoin<'_>, estimate: Option<f64>, text: String) -> Outcome {
    let plan = prepared.plan();
    let considered = plan.considered.iter().map(|(name, seconds)| (name.to_string(), *seconds));
    let considered: Vec<_> = considered.collect();
    let chosen = considered.iter().find(|(name, _)| name == plan.technique);
    Outcome {
        facts: vec![
            ("text", Value::Text(text)),
            ("techniques", Value::Texts(vec![plan.technique.into()])),
            ("pairs", estimate.map_or(Value::None, Value::Number)),
            ("seconds", chosen.and_then(|one| one.1).map_or(Value::None, Value::Number)),
            ("considered", Value::Estimates(vec![considered.clone()])),
        ],
        ..Outcome::default()
    }
}

fn answer(
    settings: &Settings,
    sides: &Sides,
    prepared: &PreparedVectorJoin<'_>,
    shared: &Shared,
    outlet: &Outlet,
) -> Result<VectorReport> {
    let left_ids = sides.left_ids.as_ref();
    match settings.answer.as_str() {
        "count" => prepared.count(&shared.control),
        "groups" => {
            let columns = PairBatches::of_groups(left_ids);
            outlet.send(Message::Schema(columns.schema()));
            let (labels, report) = prepared.groups(&shared.control)?;
            send_groups(&columns, &labels, shared, outlet)?;
            Ok(report)
        }
        _ => {
            let right_ids = if sides.right.is_some() { sides.right_ids.as_ref() } else { left_ids };
            let columns = PairBatches::distances(left_ids, right_ids);
            send_pairs(&columns, settings.batch_rows, outlet, |take| {
                prepared.pairs(&shared.control, take)
            })
        }
    }
}
