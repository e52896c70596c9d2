//! How are sets and texts read and shown?

use crate::flags::{InputFlags, JoinFlags, SetsFlags, TextFlags};
use crate::report::{
    Groups, Histogram, Inputs, Kept, Keys, PredicateShown, Sample, Shape, Shown, Stage, all_pairs,
    set_sizes,
};
use crate::run::{Input, JoinCommand};
use crate::settings::{CommonFlags, JoinSettings};
use serde_json::{Map, Value, json};
use simjoin::engine::{
    Glimpse, Measure, Predicate, RawSets, Report, Result, SetCollection, Sets, grouped, prepare,
};
use simjoin_io::{
    Ids, PairWriter, ReadOptions, ReadSets, TokenTexts, Tokenizer, read_sets, read_sets_with_texts,
};
use std::fmt::Write as _;
use std::sync::atomic::AtomicU64;

pub fn of_sets(flags: SetsFlags) -> Result<JoinSettings<Sets>> {
    resolve("sets", flags.join, Tokenizer::Whitespace)
}

pub fn of_text(flags: TextFlags) -> Result<JoinSettings<Sets>> {
    resolve("text", flags.join, flags.tokens)
}

fn resolve(
    command: &'static str,
    flags: JoinFlags,
    tokenizer: Tokenizer,
) -> Result<JoinSettings<Sets>> {
    let JoinFlags { left, right, predicate: which, answer, with_itself, input, id, how, technique } =
        flags;
    let join = simjoin::engine::join(which.value()?);
    let files = (left, right);
    let flags = CommonFlags { command, files, with_itself, answer, how, technique };
    JoinSettings::resolve(flags, join, |threads| {
        let InputFlags { column, format, multiset } = input;
        Ok(ReadOptions { tokenizer, multiset, format, column, id, threads })
    })
}

impl JoinCommand for Sets {
    type Read = ReadOptions;
    type Raw = (ReadSets, Option<TokenTexts>);
    type Kept = Kept;

    fn read(settings: &JoinSettings<Self>, bytes: &AtomicU64) -> Result<Self::Raw> {
        let (left, right) = (settings.left.as_path(), settings.right.as_deref());
        if settings.report.is_some() {
            let (sets, texts) = read_sets_with_texts(left, right, &settings.read, bytes)?;
            return Ok((sets, Some(texts)));
        }
        Ok((read_sets(left, right, &settings.read, bytes)?, None))
    }

    fn keep((sets, texts): &mut Self::Raw) -> Option<Kept> {
        let left = sets.left.sets.clone();
        let right = sets.right.as_ref().map(|right| right.sets.clone());
        Some(Kept { left, right, texts: texts.take()? })
    }

    fn prepare((read, _): Self::Raw) -> Result<Input<Self>> {
        prepared(read)
    }

    fn glimpse(_: &Kept, predicate: Predicate, input: &Input<Self>) -> Glimpse {
        Glimpse::of_sets(predicate, &input.left, input.right.as_ref())
    }

    fn writer<'a>(
        settings: &JoinSettings<Self>,
        left: Option<&'a Ids>,
        right: Option<&'a Ids>,
    ) -> Result<PairWriter<'a>> {
        let create =
            if settings.with_itself { PairWriter::create_with_itself } else { PairWriter::create };
        create(settings.output.as_deref(), left, right)
    }

    fn facts(input: &Input<Self>) -> Map<String, Value> {
        facts_of(input)
    }

    fn page(
        settings: &JoinSettings<Self>,
        input: &Input<Self>,
        kept: &Kept,
        report: &Report,
        glimpse: &Glimpse,
    ) -> Shown {
        let (left, right) = (&input.left, input.right.as_ref());
        let keys = Keys::of(input);
        let predicate = settings.join.predicate();
        let named = named(predicate);
        let inputs = Inputs::of(settings, left, right);
        Shown {
            tokens: Some(match settings.read.tokenizer {
                Tokenizer::Whitespace => "white space".into(),
                Tokenizer::Words => "words".into(),
                Tokenizer::Qgrams(q) => format!("qgrams:{q}"),
                other => format!("{other:?}"),
            }),
            inputs: inputs.describe(SetCollection::records, facts),
            funnel: funnel(settings, input, report, glimpse),
            histogram: Histogram {
                of: named.name,
                whole: predicate.measure() == Measure::Overlap,
                bins: Histogram::bars(glimpse),
                on_threshold: glimpse.on_threshold(),
            },
            predicate: named,
            sizes: inputs.shapes(|title, sets| Shape {
                title: format!("Set sizes{title}"),
                of: "tokens in a record",
                counts: "records",
                whole: true,
                bins: set_sizes(sets),
            }),
            frequencies: Some(kept.frequencies()),
            groups: glimpse
                .groups::<Sets>(left, predicate)
                .map(|labels| Groups::new(&labels, &keys, |row| kept.beginning(row))),
            sample: Sample::of_sets(glimpse, kept, &keys, right.is_some()),
        }
    }
}

/// Prepares sets for any join.
pub fn prepared<K: JoinCommand<Collection = SetCollection>>(read: ReadSets) -> Result<Input<K>> {
    let left_ids = read.left.ids;
    let (right, right_ids) = read.right.map_or((None, None), |table| (Some(table.sets), table.ids));
    let count = |sets: &RawSets| sets.tokens.len();
    let tokens = count(&read.left.sets) + right.as_ref().map_or(0, count);
    let (left, right) = prepare(read.left.sets, right, read.universe)?;
    Ok(Input { left, right, left_ids, right_ids, tokens })
}

/// Describes sets for `--stats`.
pub fn facts_of<K: JoinCommand<Collection = SetCollection>>(
    input: &Input<K>,
) -> Map<String, Value> {
    let right = input.right.as_ref();
    let of = |count: fn(&SetCollection) -> usize| json!({ "left": count(&input.left), "right": right.map(count) });
    let mut facts = Map::new();
    facts.insert("records".into(), of(SetCollection::records));
    facts.insert("distinct".into(), of(SetCollection::len));
    facts.insert("tokens".into(), input.tokens.into());
    facts.insert("universe".into(), input.left.universe().into());
    facts
}

fn named(predicate: Predicate) -> PredicateShown {
    let name = match predicate.measure() {
        Measure::Jaccard => "Jaccard similarity",
        Measure::Cosine => "cosine similarity",
        Measure::Dice => "Dice similarity",
        Measure::Overlap => "overlap",
        Measure::Containment => "containment",
    };
    PredicateShown { name, sense: '≥', threshold: predicate.threshold().to_string() }
}

/// Returns further facts about an input for the report.
fn facts(sets: &SetCollection) -> Vec<(&'static str, String)> {
    let rows: usize = (0..sets.len() as u32).map(|set| sets.weight(set) as usize).sum();
    let classes = sets.classes();
    let sizes = match (classes.first(), classes.last()) {
        (Some(first), Some(last)) if first.size < last.size => {
            format!("{} to {} tokens", grouped(first.size.into()), grouped(last.size.into()))
        }
        (Some(first), _) => format!("{} tokens", grouped(first.size.into())),
        _ => "none".into(),
    };
    let average = sets.total_tokens() as f64 / sets.len().max(1) as f64;
    vec![
        ("distinct sets", grouped(sets.len() as u64)),
        ("empty records", grouped((sets.records() - rows) as u64)),
        ("set sizes", sizes),
        ("average size of a distinct set", format!("{average:.1} tokens")),
    ]
}

fn funnel(
    settings: &JoinSettings<Sets>,
    input: &Input<Sets>,
    report: &Report,
    glimpse: &Glimpse,
) -> Vec<Stage> {
    let right = input.right.as_ref();
    let all = |count: fn(&SetCollection) -> usize| {
        all_pairs(count(&input.left), right.map(count), settings.with_itself)
    };
    let by_length: u64 = report.steps.iter().map(|step| step.pairs).sum();
    let compared = report.device_times().compared;
    let accepted = glimpse.distinct().saturating_sub(report.candidates);
    let mut verified = match (report.candidates, accepted) {
        (0, 0) => String::new(),
        (0, _) => "the technique needs no verification".to_string(),
        (_, 0) => "each was verified, exactly".to_string(),
        (_, more) => format!(
            "each was verified, exactly; at least {} similar pairs needed no verification",
            grouped(more)
        ),
    };
    if report.candidates > by_length {
        verified.push_str("; some of them more than once");
    }
    if compared > 0 {
        let _ = write!(verified, "; devices compared {} pairs", grouped(compared));
    }
    vec![
        Stage::new("pairs of records", all(SetCollection::records), ""),
        Stage::new(
            "pairs of distinct sets",
            all(SetCollection::len),
            "records that hold the same set are joined once",
        ),
        Stage::new("left by length", by_length, "sets whose sizes alone do not rule them out"),
        Stage::new("candidates", report.candidates, verified),
        Stage::new("similar pairs of distinct sets", glimpse.distinct(), ""),
        Stage::new(
            "results",
            report.pairs,
            "pairs of records: a pair of sets counts for all records that hold them, and records that hold \
             the same set are pairs as well",
        ),
    ]
}
