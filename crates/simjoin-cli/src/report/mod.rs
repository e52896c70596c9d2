//! What did a run do, on one page?
//!
//! `--report FILE.html` writes a page that stands by itself: no network, no fonts or scripts from
//! elsewhere. A [`Document`] is what it shows, as JSON in a script element of `page.html`, whose own
//! script draws it. Numbers are gathered here, never there.
//!
//! # Memory
//!
//! Beside what [`Glimpse`] takes, a report of sets keeps their tokens in the order of the input (4
//! bytes a token, 8 a row) and what each distinct token is called. The page itself is bounded:
//! [`SAMPLE`] pairs, of which records show so many tokens; bins; at most a few thousand spans of the
//! timeline. Nothing follows the number of results.

mod sample;
mod shapes;
mod timeline;

use crate::settings::Answer;
use crate::stats::Seconds;
use sample::Sample;
pub use sample::{Kept, Keys};
use serde::Serialize;
use shapes::{Bar, Frequencies, Groups};
use simjoin::{
    Elements, Engine, Explanation, Glimpse, Report, SetCollection, StepReport, VectorCollection,
    VectorMeasure, VectorPlan, VectorPredicate, VectorReport, grouped,
};
use simjoin_io::Tokenizer;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};
use timeline::Timeline;

/// The page, without its data.
const PAGE: &str = include_str!("page.html");

/// Where the data goes.
const PLACE: &str = "{{data}}";

/// Pairs that are shown.
const SAMPLE: usize = 500;

/// Parts of a plan that are shown.
const PARTS: usize = 40;

/// Everything on the page.
#[derive(Serialize)]
pub struct Document {
    /// `sets`, `text` or `vectors`.
    pub kind: &'static str,
    pub command: String,
    pub version: &'static str,
    /// When the run ended, in seconds of Unix time.
    pub ended: u64,
    /// `pairs`, `count` or `groups`.
    pub answer: &'static str,
    pub predicate: Predicate,
    /// How records became tokens: `words`, `qgrams:3` or `white space`.
    pub tokens: Option<String>,
    pub inputs: Vec<Input>,
    pub pairs: u64,
    pub engine: &'static str,
    pub technique: String,
    pub threads: usize,
    pub devices: Vec<String>,
    pub warnings: Vec<String>,
    pub seconds: PhaseSeconds,
    pub funnel: Vec<Stage>,
    pub plan: Plan,
    pub timeline: Timeline,
    pub histogram: Histogram,
    pub sizes: Vec<Shape>,
    pub frequencies: Option<Frequencies>,
    pub groups: Option<Groups>,
    pub sample: Sample,
}

/// Which pairs were wanted.
#[derive(Serialize)]
pub struct Predicate {
    /// Such as `Jaccard similarity`.
    pub name: &'static str,
    /// `≥` or `≤`.
    pub sense: char,
    /// As exactly as it was given.
    pub threshold: String,
}

/// What was read.
#[derive(Serialize)]
pub struct Input {
    pub name: &'static str,
    pub path: String,
    pub records: usize,
    /// Label and value of what else is to be said.
    pub facts: Vec<(&'static str, String)>,
}

#[derive(Serialize)]
pub struct PhaseSeconds {
    pub read: f64,
    pub prepare: f64,
    pub join: f64,
    pub write: f64,
    pub total: f64,
}

impl PhaseSeconds {
    pub fn new(seconds: &Seconds) -> Self {
        PhaseSeconds {
            read: seconds.read.as_secs_f64(),
            prepare: seconds.prepare.as_secs_f64(),
            join: seconds.join.as_secs_f64(),
            write: seconds.write.as_secs_f64(),
            total: seconds.total.as_secs_f64(),
        }
    }
}

/// What was left after a filter.
#[derive(Serialize)]
pub struct Stage {
    pub name: &'static str,
    pub pairs: u64,
    /// Every digit of it: scripts compute with 53 bits.
    pub shown: String,
    pub note: String,
}

impl Stage {
    pub fn new(name: &'static str, pairs: u64, note: impl Into<String>) -> Self {
        Stage { name, pairs, shown: grouped(pairs), note: note.into() }
    }
}

/// What was planned, and what became of it.
#[derive(Serialize)]
pub struct Plan {
    pub parts: Vec<Part>,
    /// Parts beyond those that are shown.
    pub more_parts: usize,
    pub estimated_pairs: Option<f64>,
    pub estimated_seconds: Option<f64>,
    /// The devices' part of the work, planned and real, where CPU and devices share it.
    pub planned_share: Option<f64>,
    pub share: Option<f64>,
    /// In words of the technique.
    pub details: String,
    pub ran: Vec<Ran>,
}

/// A part of the join, and the techniques that were considered for it.
#[derive(Serialize)]
pub struct Part {
    pub on_device: bool,
    /// The smallest and the largest size of a probe; of vectors there is but one part, without sizes.
    pub probes: Option<(u32, u32)>,
    pub builds: Option<(u32, u32)>,
    pub pairs: u64,
    pub technique: String,
    /// By rising estimate; those without one cannot do it, or not within the memory.
    pub considered: Vec<Considered>,
}

#[derive(Serialize)]
pub struct Considered {
    pub technique: String,
    pub seconds: Option<f64>,
    pub chosen: bool,
}

/// What a technique did, in all parts that it ran for.
#[derive(Default, Serialize)]
pub struct Ran {
    pub technique: String,
    pub on_device: bool,
    pub parts: usize,
    pub pairs: u64,
    pub estimated: Option<f64>,
    pub seconds: f64,
    /// Filtering, verifying and copying, where a device did it.
    pub device: Option<[f64; 3]>,
}

/// How many pairs have which similarity.
#[derive(Serialize)]
pub struct Histogram {
    /// Such as `Jaccard similarity` or `distance`.
    pub of: &'static str,
    /// Whether it is of whole numbers.
    pub whole: bool,
    pub bins: Vec<Bar>,
    /// Pairs exactly on the threshold.
    pub on_threshold: Option<u64>,
}

/// A distribution.
#[derive(Serialize)]
pub struct Shape {
    pub title: String,
    /// What is along the axis, and what is counted.
    pub of: &'static str,
    pub counts: &'static str,
    pub whole: bool,
    pub bins: Vec<Bar>,
}

impl Document {
    /// The page.
    pub fn page(&self) -> Result<String, simjoin::Error> {
        let data = serde_json::to_string(self)
            .map_err(|error| simjoin::Error::Internal(format!("the report: {error}")))?;
        let (before, after) = PAGE
            .split_once(PLACE)
            .ok_or_else(|| simjoin::Error::Internal("the page has no place for data".into()))?;
        Ok([before, &embedded(&data), after].concat())
    }
}

/// JSON that no HTML ends early, and that an editor shows as it is: the characters stand in strings
/// only, where their escapes mean the same.
fn embedded(json: &str) -> String {
    let mut text = String::with_capacity(json.len() + json.len() / 16);
    for character in json.chars() {
        match character {
            '<' | '>' | '&' => text.push_str(&format!("\\u{:04x}", character as u32)),
            // Controls, line ends and what turns the direction of writing.
            '\u{7f}'..='\u{9f}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}' => {
                text.push_str(&format!("\\u{:04x}", character as u32));
            }
            _ => text.push(character),
        }
    }
    text
}

/// What was typed, for a shell.
pub fn command() -> String {
    let quoted = |argument: String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
        if !argument.is_empty() && argument.chars().all(plain) {
            argument
        } else {
            format!("'{}'", argument.replace('\'', "'\\''"))
        }
    };
    let typed = std::env::args_os().skip(1).map(|one| quoted(one.to_string_lossy().into_owned()));
    std::iter::once("simjoin".to_string()).chain(typed).collect::<Vec<_>>().join(" ")
}

/// Now, in seconds of Unix time.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

impl Answer {
    /// The name in a report.
    pub fn name(&self) -> &'static str {
        match self {
            Answer::Pairs => "pairs",
            Answer::Count => "count",
            Answer::Groups => "groups",
        }
    }
}

/// What a join of sets has to show.
pub struct SetsRun<'a> {
    pub kind: &'static str,
    pub answer: &'static str,
    pub paths: (&'a str, Option<&'a str>),
    pub predicate: simjoin::Predicate,
    pub tokenizer: Tokenizer,
    pub with_itself: bool,
    pub left: &'a SetCollection,
    pub right: Option<&'a SetCollection>,
    pub kept: &'a Kept,
    pub keys: Keys<'a>,
    pub planned: &'a Explanation,
    pub report: &'a Report,
    pub glimpse: &'a Glimpse,
    pub seconds: &'a Seconds,
    pub devices: Vec<String>,
}

impl SetsRun<'_> {
    /// The report of it.
    pub fn document(self) -> Document {
        let SetsRun { left, right, report, glimpse, kept, .. } = self;
        let frequencies = kept.frequencies();
        let predicate = named(self.predicate);
        let measure = self.predicate.measure();
        let inputs = [
            ("left", self.paths.0, Some(left)),
            ("right", self.paths.1.unwrap_or_default(), right),
        ];
        let inputs = inputs.into_iter().filter_map(|(name, path, sets)| {
            let name = if right.is_some() { name } else { "input" };
            sets.map(|sets| input(name, path, sets))
        });
        let sizes = [("left", Some(left)), ("right", right)];
        let sizes = sizes.into_iter().filter_map(|(name, sets)| {
            let name = if right.is_some() { format!(", {name} input") } else { String::new() };
            let title = format!("Set sizes{name}");
            let (of, counts, whole) = ("tokens in a record", "records", true);
            sets.map(|sets| Shape { title, of, counts, whole, bins: shapes::sizes(sets) })
        });
        Document {
            kind: self.kind,
            command: command(),
            version: env!("CARGO_PKG_VERSION"),
            ended: now(),
            answer: self.answer,
            tokens: Some(match self.tokenizer {
                Tokenizer::Whitespace => "white space".into(),
                Tokenizer::Words => "words".into(),
                Tokenizer::Qgrams(q) => format!("qgrams:{q}"),
            }),
            inputs: inputs.collect(),
            pairs: report.pairs,
            engine: report.engine.name(),
            technique: report.technique.clone(),
            threads: report.threads,
            devices: self.devices,
            warnings: report.warnings.clone(),
            seconds: PhaseSeconds::new(self.seconds),
            funnel: funnel(left, right, self.with_itself, report, glimpse),
            plan: plan(self.planned, report),
            timeline: Timeline::new(
                &report.timeline,
                report.virtual_seconds.unwrap_or(report.seconds),
            ),
            histogram: Histogram {
                of: predicate.name,
                whole: measure == simjoin::Measure::Overlap,
                bins: glimpse.bins().into_iter().map(Bar::from).collect(),
                on_threshold: glimpse.on_threshold(),
            },
            predicate,
            sizes: sizes.collect(),
            frequencies: Some(frequencies),
            groups: glimpse
                .groups(left)
                .map(|labels| Groups::new(&labels, &self.keys, |row| kept.beginning(row))),
            sample: Sample::of_sets(&glimpse.sample(SAMPLE), kept, &self.keys, right.is_some()),
        }
    }
}

/// What a join of vectors has to show.
pub struct VectorsRun<'a> {
    pub answer: &'static str,
    pub paths: (&'a str, Option<&'a str>),
    pub predicate: VectorPredicate,
    pub left: &'a VectorCollection,
    pub right: Option<&'a VectorCollection>,
    pub keys: Keys<'a>,
    pub plan: &'a VectorPlan,
    pub estimated_pairs: Option<f64>,
    pub report: &'a VectorReport,
    pub glimpse: &'a Glimpse,
    pub seconds: &'a Seconds,
}

impl VectorsRun<'_> {
    /// The report of it.
    pub fn document(self) -> Document {
        let VectorsRun { left, right, report, glimpse, .. } = self;
        let sides =
            [("left", self.paths.0, Some(left)), ("right", self.paths.1.unwrap_or(""), right)];
        let sides = || {
            let there = sides.iter().filter_map(|&(name, path, side)| Some((name, path, side?)));
            there.map(|(name, path, side)| {
                (if right.is_some() { name } else { "input" }, path, side)
            })
        };
        let inputs = sides().map(|(name, path, vectors)| {
            let precision = match vectors.elements() {
                Elements::F32(_) => "single",
                Elements::F64(_) => "double",
            };
            let facts = vec![
                ("dimension", grouped(vectors.dimension() as u64)),
                ("precision", precision.to_string()),
            ];
            Input { name, path: path.into(), records: vectors.len(), facts }
        });
        let sizes = sides().map(|(name, _, vectors)| Shape {
            title: match right {
                Some(_) => format!("Lengths of vectors, {name} input"),
                None => "Lengths of vectors".into(),
            },
            of: "length of a vector",
            counts: "vectors",
            whole: false,
            bins: shapes::lengths(vectors),
        });
        let (name, sense) = match self.predicate.measure() {
            VectorMeasure::Euclidean => ("Euclidean distance", '≤'),
            VectorMeasure::Cosine => ("cosine", '≥'),
        };
        let of = match self.predicate.measure() {
            VectorMeasure::Euclidean => "distance",
            VectorMeasure::Cosine => "distance (1 − cosine)",
        };
        let all = all_pairs(left.len(), right.map(VectorCollection::len), false);
        let funnel = vec![
            Stage::new("pairs of vectors", all, ""),
            Stage::new(
                "candidates",
                report.candidates,
                "each was verified in double precision; filters in single precision ruled out the rest",
            ),
            Stage::new("results", report.pairs, "pairs of vectors"),
        ];
        Document {
            kind: "vectors",
            command: command(),
            version: env!("CARGO_PKG_VERSION"),
            ended: now(),
            answer: self.answer,
            tokens: None,
            predicate: Predicate { name, sense, threshold: self.predicate.threshold().to_string() },
            inputs: inputs.collect(),
            pairs: report.pairs,
            engine: Engine::Cpu.name(),
            technique: report.technique.into(),
            threads: report.threads,
            devices: Vec::new(),
            warnings: Vec::new(),
            seconds: PhaseSeconds::new(self.seconds),
            funnel,
            plan: vector_plan(self.plan, self.estimated_pairs, report, all),
            timeline: Timeline::new(
                &report.timeline,
                report.virtual_seconds.unwrap_or(report.seconds),
            ),
            histogram: Histogram {
                of,
                whole: false,
                bins: glimpse.bins().into_iter().map(Bar::from).collect(),
                on_threshold: None,
            },
            sizes: sizes.collect(),
            frequencies: None,
            groups: glimpse
                .vector_groups()
                .map(|labels| Groups::new(&labels, &self.keys, |row| sample::beginning(left, row))),
            sample: Sample::of_vectors(&glimpse.sample(SAMPLE), left, right, &self.keys),
        }
    }
}

fn vector_plan(plan: &VectorPlan, pairs: Option<f64>, report: &VectorReport, all: u64) -> Plan {
    let mut considered: Vec<Considered> = plan
        .considered
        .iter()
        .map(|(name, seconds)| Considered {
            technique: (*name).into(),
            seconds: *seconds,
            chosen: *name == plan.technique,
        })
        .collect();
    let estimated = considered.iter().find(|one| one.chosen).and_then(|one| one.seconds);
    sort(&mut considered);
    let technique = plan.technique.to_string();
    let (probes, builds) = (None, None);
    Plan {
        parts: vec![Part {
            on_device: false,
            probes,
            builds,
            pairs: all,
            technique: technique.clone(),
            considered,
        }],
        more_parts: 0,
        estimated_pairs: pairs,
        estimated_seconds: estimated,
        planned_share: None,
        share: None,
        details: plan.details.clone(),
        ran: vec![Ran {
            technique,
            parts: 1,
            pairs: all,
            estimated,
            seconds: report.seconds,
            ..Ran::default()
        }],
    }
}

fn named(predicate: simjoin::Predicate) -> Predicate {
    use simjoin::Measure;
    let name = match predicate.measure() {
        Measure::Jaccard => "Jaccard similarity",
        Measure::Cosine => "cosine similarity",
        Measure::Dice => "Dice similarity",
        Measure::Overlap => "overlap",
        Measure::Containment => "containment",
    };
    Predicate { name, sense: '≥', threshold: predicate.threshold().to_string() }
}

fn input(name: &'static str, path: &str, sets: &SetCollection) -> Input {
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
    let facts = vec![
        ("distinct sets", grouped(sets.len() as u64)),
        ("empty records", grouped((sets.records() - rows) as u64)),
        ("set sizes", sizes),
        ("average size of a distinct set", format!("{average:.1} tokens")),
    ];
    Input { name, path: path.into(), records: sets.records(), facts }
}

/// How many pairs there are in one collection, or between two.
pub fn all_pairs(left: usize, right: Option<usize>, with_itself: bool) -> u64 {
    let itself = |count: usize| (count as u64) * (count as u64).saturating_sub(1) / 2;
    match right {
        None => itself(left),
        Some(right) => {
            let within = if with_itself { itself(right) } else { 0 };
            (left as u64 * right as u64).saturating_add(within)
        }
    }
}

fn funnel(
    left: &SetCollection,
    right: Option<&SetCollection>,
    with_itself: bool,
    report: &Report,
    glimpse: &Glimpse,
) -> Vec<Stage> {
    let all =
        |count: fn(&SetCollection) -> usize| all_pairs(count(left), right.map(count), with_itself);
    let by_length: u64 = report.steps.iter().map(|step| step.pairs).sum();
    let compared = report.trace().compared;
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

fn label(name: &str, variant: &str) -> String {
    if variant.is_empty() { name.into() } else { format!("{name}, {variant}") }
}

fn plan(planned: &Explanation, report: &Report) -> Plan {
    let parts = planned.steps.iter().take(PARTS).map(|step| {
        let mut considered: Vec<Considered> = step
            .considered
            .iter()
            .map(|(name, variant, seconds)| Considered {
                technique: label(name, variant),
                seconds: *seconds,
                chosen: (*name, variant) == (step.technique.0, &step.technique.1),
            })
            .collect();
        sort(&mut considered);
        Part {
            on_device: step.on_device,
            probes: Some(step.probes),
            builds: Some(step.builds),
            pairs: step.pairs,
            technique: label(step.technique.0, &step.technique.1),
            considered,
        }
    });
    let hybrid = report.engine == Engine::Hybrid;
    Plan {
        parts: parts.collect(),
        more_parts: planned.steps.len().saturating_sub(PARTS),
        estimated_pairs: planned.pairs,
        estimated_seconds: planned.seconds,
        planned_share: report.planned_share.filter(|_| hybrid),
        share: report.share().filter(|_| hybrid),
        details: String::new(),
        ran: ran(&report.steps),
    }
}

/// The chosen one first, then by rising estimate.
pub fn sort(considered: &mut [Considered]) {
    considered.sort_by(|a, b| {
        let key = |one: &Considered| one.seconds.unwrap_or(f64::INFINITY);
        b.chosen.cmp(&a.chosen).then(key(a).total_cmp(&key(b)))
    });
}

fn ran(steps: &[StepReport]) -> Vec<Ran> {
    let mut all: BTreeMap<(bool, &str, &str), Ran> = BTreeMap::new();
    for step in steps {
        let key = (step.on_device, step.technique, step.variant.as_str());
        let ran = all.entry(key).or_insert_with(|| Ran {
            technique: label(step.technique, &step.variant),
            on_device: step.on_device,
            estimated: Some(0.0),
            ..Ran::default()
        });
        ran.parts += 1;
        ran.pairs += step.pairs;
        ran.estimated = ran.estimated.zip(step.estimated).map(|(sum, more)| sum + more);
        ran.seconds += step.seconds;
        if step.trace.device() > 0.0 {
            let [filter, verify, copies] = ran.device.unwrap_or_default();
            let more = &step.trace;
            ran.device = Some([filter + more.filter, verify + more.verify, copies + more.copies]);
        }
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_the_data_ends_the_script() {
        let evil = [
            "</script><script>alert(1)</script>",
            "<!--",
            "]]>",
            "a\"b'\\&amp;",
            "\u{2028}\0\u{7f}🙂",
        ];
        let json = serde_json::to_string(&evil).unwrap();
        let text = embedded(&json);
        assert!(!text.contains(['<', '>', '&', '\u{2028}', '\0', '\u{7f}']), "{text}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), evil);
    }

    #[test]
    fn the_page_has_one_place_for_data_and_asks_for_nothing() {
        assert_eq!(PAGE.matches(PLACE).count(), 1);
        for word in ["http://", "https://", "src=", "@import", "url(", "innerHTML", "fetch("] {
            let known = word == "http://" && PAGE.matches(word).count() == 1;
            assert!(!PAGE.contains(word) || known, "{word}");
        }
    }

    #[test]
    fn pairs_of_everything() {
        assert_eq!(all_pairs(0, None, false), 0);
        assert_eq!(all_pairs(4, None, false), 6);
        assert_eq!(all_pairs(4, Some(3), false), 12);
        assert_eq!(all_pairs(4, Some(3), true), 15);
    }
}
