//! How are sets and texts collected for a join?

use crate::errors::OrRaise;
use crate::input::SideData;
use crate::job::{Shared, Value};
use crate::join::{Collections, Input, JoinKind, JoinSettings, Options, begin, watched};
use pyo3::prelude::*;
use simjoin::engine::{Error, Measure, Predicate, Result, SetCollection, Sets, prepare};
use simjoin_io::{Batches, PairBatches, ReadOptions, Tokenizer, collect_sets};

/// Options that only joins of sets have.
#[derive(FromPyObject)]
struct SetOptions {
    #[pyo3(item)]
    measure: String,
    #[pyo3(item)]
    threshold: String,
    #[pyo3(item)]
    tokens: Option<String>,
    #[pyo3(item)]
    multiset: bool,
    #[pyo3(item)]
    with_itself: bool,
}

impl SetOptions {
    fn resolve(&self, options: &Options) -> Result<(JoinSettings<Sets>, ReadOptions)> {
        let measure = Measure::ALL.into_iter().find(|measure| measure.name() == self.measure);
        let measure = measure.ok_or_else(|| Error::Internal("no such measure".into()))?;
        let join = simjoin::engine::join(Predicate::parse(measure, &self.threshold)?);
        let settings = JoinSettings::resolve(join, self.with_itself, options)?;
        let tokenizer = tokenizer(self.tokens.as_deref())?;
        let (multiset, threads) = (self.multiset, options.limits.threads()?);
        Ok((settings, ReadOptions { tokenizer, multiset, threads, ..ReadOptions::default() }))
    }
}

/// Reads the tokenizer. By default, texts are split at white space.
pub fn tokenizer(tokens: Option<&str>) -> Result<Tokenizer> {
    tokens.map_or(Ok(Tokenizer::Whitespace), str::parse)
}

/// Joins one collection with itself or with another one.
#[pyfunction]
pub fn join<'py>(
    py: Python<'py>,
    left: SideData<'py>,
    right: Option<SideData<'py>>,
    options: &Bound<'py, PyAny>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (own, options): (SetOptions, Options) = (options.extract()?, options.extract()?);
    let (settings, read) = own.resolve(&options).or_raise(py)?;
    let left = left.batches(py)?;
    let right = right.map(|right| right.batches(py)).transpose()?;
    begin(py, settings, move |_, shared| collect(&read, left, right, shared), progress)
}

/// Tokenizes texts, and makes collections of sets.
pub fn collect(
    read: &ReadOptions,
    left: Batches<'_>,
    right: Option<Batches<'_>>,
    shared: &Shared,
) -> Result<Input<SetCollection>> {
    let collect = || {
        let right = right.map(|right| watched(right, shared));
        collect_sets(watched(left, shared), right, read)
    };
    Input::collect(read.threads, shared, collect, |input| {
        let left_ids = input.left.ids;
        let (right, right_ids) =
            input.right.map_or((None, None), |table| (Some(table.sets), table.ids));
        let (left, right) = prepare(input.left.sets, right, input.universe)?;
        Ok(Collections { left, right, left_ids, right_ids })
    })
}

impl JoinKind for Sets {
    fn facts(collections: &Collections<SetCollection>) -> Vec<(&'static str, Value)> {
        let records = |sets: &SetCollection| Value::Count(sets.records() as u64);
        vec![
            ("records", records(&collections.left)),
            ("right_records", collections.right.as_ref().map_or(Value::None, records)),
            ("universe", Value::Count(collections.left.universe().into())),
        ]
    }

    fn columns<'a>(
        settings: &JoinSettings<Self>,
        collections: &'a Collections<SetCollection>,
    ) -> Result<PairBatches<'a>> {
        let (left, right) = (collections.left_ids(), collections.right_ids());
        if settings.with_itself {
            return PairBatches::with_itself(left, right);
        }
        Ok(PairBatches::sets(left, right))
    }
}
