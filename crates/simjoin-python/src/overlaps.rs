//! How are overlaps of all pairs counted, and two single sets intersected?

use crate::errors::OrRaise;
use crate::input::SideData;
use crate::job::{Job, Message, Outcome, Outlet, Phase, Shared, Value};
use crate::join::{Collections, JoinKind, JoinSettings, Limits, Options, begin, finish, watched};
use crate::sets::collect;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use pyo3::prelude::*;
use simjoin::engine::{
    Engine, Error, Intersect, IntersectReport, Overlaps, Parameter, Result, SetCollection, Sets,
    WantedOverlaps, ascending,
};
use simjoin_io::{Batches, ElementSets, PairBatches, ReadOptions, Tokenizer, Vocabulary};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

/// The options that only overlaps have.
#[derive(FromPyObject)]
struct OverlapOptions {
    #[pyo3(item)]
    tokens: Option<String>,
    #[pyo3(item)]
    multiset: bool,
    #[pyo3(item)]
    positive: bool,
    #[pyo3(item)]
    top: Option<usize>,
}

impl OverlapOptions {
    fn resolve(&self, options: &Options) -> Result<(JoinSettings<Overlaps>, ReadOptions)> {
        let wanted = match self.top {
            Some(0) => {
                let message = "0 does not fit; expected a whole number from 1";
                return Err(Error::parameter(Parameter::Top, message));
            }
            Some(top) => WantedOverlaps::Top(top),
            None if self.positive => WantedOverlaps::Positive,
            None => WantedOverlaps::All,
        };
        let settings = JoinSettings::resolve(simjoin::engine::overlaps(wanted), false, options)?;
        let tokenizer = self.tokens.as_deref().map_or(Ok(Tokenizer::Whitespace), str::parse)?;
        let (multiset, threads) = (self.multiset, options.limits.threads()?);
        Ok((settings, ReadOptions { tokenizer, multiset, threads, ..ReadOptions::default() }))
    }
}

/// Counts the common tokens of all pairs of sets.
#[pyfunction]
pub fn overlaps<'py>(
    py: Python<'py>,
    left: SideData<'py>,
    right: Option<SideData<'py>>,
    options: &Bound<'py, PyAny>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (own, options): (OverlapOptions, Options) = (options.extract()?, options.extract()?);
    let (settings, read) = own.resolve(&options).or_raise(py)?;
    let left = left.batches(py)?;
    let right = right.map(|right| right.batches(py)).transpose()?;
    begin(py, settings, move |_, shared| collect(&read, left, right, shared), progress)
}

impl JoinKind for Overlaps {
    fn facts(collections: &Collections<SetCollection>) -> Vec<(&'static str, Value)> {
        Sets::facts(collections)
    }

    fn columns<'a>(
        _: &JoinSettings<Self>,
        collections: &'a Collections<SetCollection>,
    ) -> Result<PairBatches<'a>> {
        Ok(PairBatches::overlaps(collections.left_ids(), collections.right_ids()))
    }
}

/// The options of an intersection.
#[derive(FromPyObject)]
pub struct IntersectOptions {
    #[pyo3(item)]
    engine: String,
    #[pyo3(item)]
    technique: String,
    #[pyo3(item)]
    answer: String,
    #[pyo3(item)]
    limits: Limits,
}

/// Intersects two single sets.
#[pyfunction]
pub fn intersect<'py>(
    py: Python<'py>,
    left: SideData<'py>,
    right: SideData<'py>,
    options: IntersectOptions,
) -> PyResult<Bound<'py, PyAny>> {
    let engine: Engine = options.engine.parse::<Engine>().or_raise(py)?;
    let intersect = simjoin::engine::intersect().engine(engine).technique(&options.technique);
    intersect.check().or_raise(py)?;
    let threads = options.limits.threads().or_raise(py)?;
    let (left, right) = (left.elements(py)?, right.elements(py)?);
    let elements = options.answer == "elements";
    let job = Job::start(move |shared, outlet| {
        run(&intersect, threads, (left, right), elements, shared, outlet)
    });
    finish(py, job.or_raise(py)?, &options.answer, None)
}

fn run(
    intersect: &Intersect,
    threads: usize,
    (left, right): (Batches<'_>, Batches<'_>),
    elements: bool,
    shared: &Shared,
    outlet: &Outlet,
) -> Result<Outcome> {
    let begin = Instant::now();
    shared.enter(Phase::Reading)?;
    let ElementSets { sets, words, integers } =
        ElementSets::collect(watched(left, shared), watched(right, shared))?;
    let read = begin.elapsed();
    shared.enter(Phase::Preparing)?;
    let phase = Instant::now();
    let pool = simjoin::engine::pool(threads)?;
    let [a, b] = pool.install(|| sets.map(ascending));
    let prepared = phase.elapsed();
    shared.enter(Phase::Joining)?;
    let phase = Instant::now();
    let report = pool.install(|| {
        if elements {
            let words = words.as_ref();
            let kind = if integers { DataType::Int64 } else { DataType::Utf8 };
            let schema = Arc::new(Schema::new(vec![Field::new("element", kind, false)]));
            send_elements(intersect, (&a, &b), words, &schema, outlet)
        } else {
            intersect.size(&a, &b)
        }
    })?;
    Ok(Outcome {
        count: report.size,
        facts: vec![
            ("size", Value::Count(report.size)),
            ("containment", Value::Number(report.containment())),
            ("left_size", Value::Count(report.sets.0)),
            ("right_size", Value::Count(report.sets.1)),
            ("engine", Value::Text(report.engine.name().into())),
            ("technique", Value::Text(report.technique)),
            ("threads", Value::Count(report.threads as u64)),
            ("warnings", Value::Texts(report.warnings)),
        ],
        seconds: vec![
            ("read", read.as_secs_f64()),
            ("prepare", prepared.as_secs_f64()),
            ("join", phase.elapsed().as_secs_f64()),
            ("total", begin.elapsed().as_secs_f64()),
        ],
    })
}

fn send_elements(
    intersect: &Intersect,
    (a, b): (&[u32], &[u32]),
    words: Option<&Vocabulary>,
    schema: &SchemaRef,
    outlet: &Outlet,
) -> Result<IntersectReport> {
    outlet.send(Message::Schema(schema.clone()));
    let integers = *schema.field(0).data_type() == DataType::Int64;
    let text = |words: &Vocabulary, number: u32| -> String {
        String::from_utf8_lossy(words.token(number)).into_owned()
    };
    let mut failure = None;
    let report = intersect.elements(a, b, |numbers| {
        let numbers = numbers.iter();
        let column: ArrayRef = match words {
            None => Arc::new(Int64Array::from_iter_values(numbers.map(|&one| i64::from(one)))),
            Some(words) if integers => {
                let parsed = numbers.map(|&one| text(words, one).parse().unwrap_or_default());
                Arc::new(Int64Array::from_iter_values(parsed))
            }
            Some(words) => {
                Arc::new(StringArray::from_iter_values(numbers.map(|&one| text(words, one))))
            }
        };
        match RecordBatch::try_new(schema.clone(), vec![column]) {
            Ok(batch) if batch.num_rows() == 0 => ControlFlow::Continue(()),
            Ok(batch) => match outlet.send(Message::Batch(batch)) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            },
            Err(error) => {
                failure = Some(Error::Internal(error.to_string()));
                ControlFlow::Break(())
            }
        }
    })?;
    failure.map_or(Ok(report), Err)
}
