//! How are vectors collected for a join?

use crate::errors::OrRaise;
use crate::input::{SideData, VectorData};
use crate::job::{Shared, Value};
use crate::join::{Collections, Input, JoinKind, JoinSettings, Options, begin, watched};
use pyo3::prelude::*;
use simjoin::engine::{Elements, Result, VectorCollection, VectorPredicate, Vectors};
use simjoin_io::{PairBatches, ReadVectors, collect_vectors};
use std::sync::atomic::Ordering;

/// Options that only joins of vectors have.
#[derive(FromPyObject)]
struct VectorOptions {
    #[pyo3(item)]
    measure: String,
    #[pyo3(item)]
    threshold: String,
}

impl VectorOptions {
    fn resolve(&self, options: &Options) -> Result<JoinSettings<Vectors>> {
        let predicate = match self.measure.as_str() {
            "within" => VectorPredicate::within(&self.threshold)?,
            _ => VectorPredicate::cosine(&self.threshold)?,
        };
        JoinSettings::resolve(simjoin::engine::vector_join(predicate), false, options)
    }
}

/// Joins vectors with themselves or with others.
#[pyfunction]
pub fn vector_join<'py>(
    py: Python<'py>,
    left: SideData<'py>,
    right: Option<SideData<'py>>,
    options: &Bound<'py, PyAny>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (own, options): (VectorOptions, Options) = (options.extract()?, options.extract()?);
    let settings = own.resolve(&options).or_raise(py)?;
    let left = left.vectors(py)?;
    let right = right.map(|right| right.vectors(py)).transpose()?;
    begin(
        py,
        settings,
        move |settings, shared| collect(settings.threads, left, right, shared),
        progress,
    )
}

fn collect(
    threads: usize,
    left: VectorData,
    right: Option<VectorData>,
    shared: &Shared,
) -> Result<Input<VectorCollection>> {
    let read = |vectors: VectorData| match vectors {
        VectorData::Table(table) => collect_vectors(watched(table, shared)),
        VectorData::Ready(vectors) => {
            shared.rows.fetch_add(vectors.records() as u64, Ordering::Relaxed);
            Ok(ReadVectors { vectors, ids: None })
        }
    };
    let both = || Ok((read(left)?, right.map(read).transpose()?));
    Input::collect(threads, shared, both, |(left, right)| {
        let ReadVectors { vectors: mut left, ids: left_ids } = left;
        let (mut right, right_ids) =
            right.map_or((None, None), |right| (Some(right.vectors), right.ids));
        // Both collections are brought to one precision.
        let is_wide = |side: &VectorCollection| matches!(side.elements(), Elements::F64(_));
        if let Some(other) = right.take_if(|other| is_wide(other) != is_wide(&left)) {
            left = left.widened();
            right = Some(other.widened());
        }
        Ok(Collections { left, right, left_ids, right_ids })
    })
}

impl JoinKind for Vectors {
    fn facts(collections: &Collections<VectorCollection>) -> Vec<(&'static str, Value)> {
        let records = |vectors: &VectorCollection| Value::Count(vectors.records() as u64);
        vec![
            ("records", records(&collections.left)),
            ("right_records", collections.right.as_ref().map_or(Value::None, records)),
            ("dimension", Value::Count(collections.left.dimension() as u64)),
        ]
    }

    fn columns<'a>(
        _: &JoinSettings<Self>,
        collections: &'a Collections<VectorCollection>,
    ) -> Result<PairBatches<'a>> {
        Ok(PairBatches::distances(collections.left_ids(), collections.right_ids()))
    }
}
