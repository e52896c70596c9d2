//! How are vectors read and shown?

use crate::flags::VectorsFlags;
use crate::report::{
    Groups, Histogram, Inputs, Keys, PredicateShown, Sample, Shape, Shown, Stage, all_pairs,
    beginning, vector_lengths,
};
use crate::run::{Input, JoinCommand};
use crate::settings::{CommonFlags, JoinSettings};
use serde_json::{Map, Value, json};
use simjoin::engine::{
    Elements, Error, Glimpse, Report, Result, VectorCollection, VectorMeasure, VectorPredicate,
    Vectors, grouped,
};
use simjoin_io::{Ids, PairWriter, ReadVectors, VectorFormat, VectorOptions, read_vectors};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

pub fn of(flags: VectorsFlags) -> Result<JoinSettings<Vectors>> {
    let VectorsFlags { left, right, predicate, answer, column, id, format, how, technique } = flags;
    let predicate = predicate
        .within
        .or(predicate.cosine)
        .ok_or_else(|| Error::Config("no threshold was given, such as --within 0.25".into()))?;
    let join = simjoin::engine::vector_join(predicate);
    let files = (left, right);
    let paths = files.clone();
    let (command, with_itself) = ("vectors", false);
    let flags = CommonFlags { command, files, with_itself, answer, how, technique };
    JoinSettings::resolve(flags, join, |_| {
        if format.is_none() {
            for path in [Some(&paths.0), paths.1.as_ref()].into_iter().flatten() {
                VectorFormat::of_path(path)?;
            }
        }
        Ok(VectorOptions { format, column, id })
    })
}

impl JoinCommand for Vectors {
    type Read = VectorOptions;
    type Raw = (ReadVectors, Option<ReadVectors>);
    type Kept = ();

    fn read(settings: &JoinSettings<Self>, bytes: &AtomicU64) -> Result<Self::Raw> {
        let read = |path: &PathBuf| read_vectors(path, &settings.read, bytes);
        Ok((read(&settings.left)?, settings.right.as_ref().map(read).transpose()?))
    }

    fn keep(_: &mut Self::Raw) -> Option<()> {
        Some(())
    }

    /// Brings both sides to one precision.
    fn prepare((left, right): Self::Raw) -> Result<Input<Self>> {
        let (mut left, left_ids) = (left.vectors, left.ids);
        let (mut right, right_ids) =
            right.map_or((None, None), |right| (Some(right.vectors), right.ids));
        let is_wide = |side: &VectorCollection| matches!(side.elements(), Elements::F64(_));
        if let Some(other) = right.take_if(|other| is_wide(other) != is_wide(&left)) {
            left = left.widened();
            right = Some(other.widened());
        }
        let count = |side: &VectorCollection| side.records() * side.dimension();
        let tokens = count(&left) + right.as_ref().map_or(0, count);
        Ok(Input { left, right, left_ids, right_ids, tokens })
    }

    fn glimpse((): &(), predicate: VectorPredicate, input: &Input<Self>) -> Glimpse {
        Glimpse::of_vectors(predicate, &input.left, input.right.as_ref())
    }

    fn writer<'a>(
        settings: &JoinSettings<Self>,
        left: Option<&'a Ids>,
        right: Option<&'a Ids>,
    ) -> Result<PairWriter<'a>> {
        PairWriter::create_distances(settings.output.as_deref(), left, right)
    }

    fn facts(input: &Input<Self>) -> Map<String, Value> {
        let right = input.right.as_ref().map(VectorCollection::records);
        let mut facts = Map::new();
        facts.insert("records".into(), json!({ "left": input.left.records(), "right": right }));
        facts.insert("dimension".into(), input.left.dimension().into());
        facts.insert("tokens".into(), input.tokens.into());
        facts
    }

    fn page(
        settings: &JoinSettings<Self>,
        input: &Input<Self>,
        (): &(),
        report: &Report,
        glimpse: &Glimpse,
    ) -> Shown {
        let (left, right) = (&input.left, input.right.as_ref());
        let keys = Keys::of(input);
        let predicate = settings.join.predicate();
        let (name, sense, of) = match predicate.measure() {
            VectorMeasure::Euclidean => ("Euclidean distance", '≤', "distance"),
            VectorMeasure::Cosine => ("cosine", '≥', "distance (1 − cosine)"),
        };
        let all = all_pairs(left.records(), right.map(VectorCollection::records), false);
        let verified =
            "each was verified in double precision; filters in single precision ruled out the rest";
        let inputs = Inputs::of(settings, left, right);
        Shown {
            tokens: None,
            predicate: PredicateShown { name, sense, threshold: predicate.threshold().to_string() },
            inputs: inputs.describe(VectorCollection::records, facts),
            funnel: vec![
                Stage::new("pairs of vectors", all, ""),
                Stage::new("candidates", report.candidates, verified),
                Stage::new("results", report.pairs, "pairs of vectors"),
            ],
            histogram: Histogram {
                of,
                whole: false,
                bins: Histogram::bars(glimpse),
                on_threshold: None,
            },
            sizes: inputs.shapes(|title, vectors| Shape {
                title: format!("Lengths of vectors{title}"),
                of: "length of a vector",
                counts: "vectors",
                whole: false,
                bins: vector_lengths(vectors),
            }),
            frequencies: None,
            groups: glimpse
                .groups::<Vectors>(left, predicate)
                .map(|labels| Groups::new(&labels, &keys, |row| beginning(left, row))),
            sample: Sample::of_vectors(glimpse, left, right, &keys),
        }
    }
}

/// Returns further facts about an input for the report.
fn facts(vectors: &VectorCollection) -> Vec<(&'static str, String)> {
    let precision = match vectors.elements() {
        Elements::F32(_) => "single",
        Elements::F64(_) => "double",
    };
    vec![("dimension", grouped(vectors.dimension() as u64)), ("precision", precision.to_string())]
}
