//! What did a run do, on one page?
//!
//! `--report FILE.html` writes a page that needs no network and no other files. The page contains a [`Document`] as
//! JSON, in a script element of `page.html`; another script draws it, and computes nothing.
//!
//! # Memory
//!
//! In addition to the memory of [`Glimpse`], a report of sets keeps their tokens in the order of the input (4 bytes a
//! token, 8 a row) and the text of each different token. The size of the page is bounded: it shows [`SAMPLE`] pairs
//! with the first tokens of their records, bins, and at most a few thousand spans of the timeline. No part of it grows
//! with the number of results.

mod sample;
mod shapes;
mod timeline;

use crate::run::JoinCommand;
use crate::settings::{Answer, JoinSettings};
use crate::stats::Seconds;
pub use sample::{Kept, Keys, Sample, beginning};
use serde::Serialize;
use shapes::Bar;
pub use shapes::{Frequencies, Groups, lengths as vector_lengths, sizes as set_sizes};
use simjoin::engine::{Engine, Explanation, Glimpse, Processor, Report, StepReport, grouped};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use timeline::Timeline;

/// The page, without its data.
const PAGE: &str = include_str!("page.html");

/// The text in the page that is replaced by its data.
const PLACE: &str = "{{data}}";

/// The number of pairs that are shown.
const SAMPLE: usize = 500;

/// The number of parts of a plan that are shown.
const PARTS: usize = 40;

/// Everything on the page.
#[derive(Serialize)]
pub struct Document {
    /// `sets`, `text` or `vectors`.
    pub kind: &'static str,
    pub command: String,
    pub version: &'static str,
    /// The end of the run, in seconds of Unix time.
    pub ended: u64,
    /// `pairs`, `count` or `groups`.
    pub answer: &'static str,
    pub pairs: u64,
    pub engine: &'static str,
    pub technique: String,
    pub threads: usize,
    pub devices: Vec<String>,
    pub warnings: Vec<String>,
    pub seconds: PhaseSeconds,
    pub plan: PlanShown,
    pub timeline: Timeline,
    #[serde(flatten)]
    pub shown: Shown,
}

/// The parts of the page that differ between kinds of rows.
#[derive(Serialize)]
pub struct Shown {
    pub predicate: PredicateShown,
    /// The tokens of a record: `words`, `qgrams:3` or `white space`.
    pub tokens: Option<String>,
    pub inputs: Vec<InputShown>,
    pub funnel: Vec<Stage>,
    pub histogram: Histogram,
    pub sizes: Vec<Shape>,
    pub frequencies: Option<Frequencies>,
    pub groups: Option<Groups>,
    pub sample: Sample,
}

/// The predicate.
#[derive(Serialize)]
pub struct PredicateShown {
    /// Such as `Jaccard similarity`.
    pub name: &'static str,
    /// `≥` or `≤`.
    pub sense: char,
    /// The threshold, without rounding.
    pub threshold: String,
}

/// An input.
#[derive(Serialize)]
pub struct InputShown {
    pub name: &'static str,
    pub path: String,
    pub records: usize,
    /// Label and value of further facts.
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

/// The number of pairs that a filter left.
#[derive(Serialize)]
pub struct Stage {
    pub name: &'static str,
    pub pairs: u64,
    /// The number with all digits, because scripts compute with 53 bits.
    pub shown: String,
    pub note: String,
}

impl Stage {
    pub fn new(name: &'static str, pairs: u64, note: impl Into<String>) -> Self {
        Stage { name, pairs, shown: grouped(pairs), note: note.into() }
    }
}

/// The plan, and the real figures.
#[derive(Serialize)]
pub struct PlanShown {
    pub parts: Vec<PartShown>,
    /// The number of parts that are not shown.
    pub more_parts: usize,
    pub estimated_pairs: Option<f64>,
    pub estimated_seconds: Option<f64>,
    /// The planned device share, if CPU and devices shared the work.
    pub planned_device_share: Option<f64>,
    /// The real device share, if CPU and devices shared the work.
    pub device_share: Option<f64>,
    /// The details that the techniques report.
    pub details: String,
    pub ran: Vec<Ran>,
}

/// A part of the join, and the techniques that were considered for it.
#[derive(Serialize)]
pub struct PartShown {
    pub on_device: bool,
    /// A description of its probes and builds.
    pub what: String,
    pub technique: String,
    /// The techniques by rising estimate. Those without an estimate cannot do the part, or need too much memory.
    pub considered: Vec<Considered>,
}

#[derive(Serialize)]
pub struct Considered {
    pub technique: String,
    pub seconds: Option<f64>,
    pub chosen: bool,
}

/// The figures of a technique, over all parts that it did.
#[derive(Default, Serialize)]
pub struct Ran {
    pub technique: String,
    pub on_device: bool,
    pub parts: usize,
    pub pairs: u64,
    pub estimated: Option<f64>,
    pub seconds: f64,
    /// The seconds of filtering, verifying and copying, if a device did the work.
    pub device: Option<[f64; 3]>,
}

/// The number of pairs by similarity.
#[derive(Serialize)]
pub struct Histogram {
    /// The label of the axis, such as `Jaccard similarity` or `distance`.
    pub of: &'static str,
    /// Whether the values are whole numbers.
    pub whole: bool,
    pub bins: Vec<Bar>,
    /// The number of pairs whose similarity is exactly the threshold.
    pub on_threshold: Option<u64>,
}

/// A distribution.
#[derive(Serialize)]
pub struct Shape {
    pub title: String,
    /// The label of the axis.
    pub of: &'static str,
    /// The unit of the counts.
    pub counts: &'static str,
    pub whole: bool,
    pub bins: Vec<Bar>,
}

impl Histogram {
    pub fn bars(glimpse: &Glimpse) -> Vec<Bar> {
        glimpse.bins().into_iter().map(Bar::from).collect()
    }
}

/// One input, or two, with their names and paths.
pub struct Inputs<'a, C>(Vec<(&'static str, &'a Path, &'a C)>);

impl<'a, C> Inputs<'a, C> {
    pub fn of<K: JoinCommand>(
        settings: &'a JoinSettings<K>,
        left: &'a C,
        right: Option<&'a C>,
    ) -> Self {
        let (one, other) = (settings.left.as_path(), settings.right.as_deref());
        Inputs(match (right, other) {
            (Some(right), Some(other)) => vec![("left", one, left), ("right", other, right)],
            _ => vec![("input", one, left)],
        })
    }

    pub fn describe(
        &self,
        records: fn(&C) -> usize,
        facts: fn(&C) -> Vec<(&'static str, String)>,
    ) -> Vec<InputShown> {
        let shown = |&(name, path, rows): &(&'static str, &Path, &C)| InputShown {
            name,
            path: path.display().to_string(),
            records: records(rows),
            facts: facts(rows),
        };
        self.0.iter().map(shown).collect()
    }

    /// Returns a distribution of each input; `shape` receives the end of its title.
    pub fn shapes(&self, shape: impl Fn(String, &C) -> Shape) -> Vec<Shape> {
        let several = self.0.len() > 1;
        let title = |name| if several { format!(", {name} input") } else { String::new() };
        self.0.iter().map(|&(name, _, rows)| shape(title(name), rows)).collect()
    }
}

impl Document {
    pub fn new<K: JoinCommand>(
        settings: &JoinSettings<K>,
        shown: Shown,
        planned: &Explanation,
        report: &Report,
        seconds: &Seconds,
        devices: Vec<String>,
    ) -> Self {
        let joined = report.virtual_seconds.unwrap_or(report.seconds);
        Document {
            kind: settings.command,
            command: command(),
            version: env!("CARGO_PKG_VERSION"),
            ended: now(),
            answer: settings.answer.name(),
            pairs: report.pairs,
            engine: report.engine.name(),
            technique: report.technique.clone(),
            threads: report.threads,
            devices,
            warnings: report.warnings.clone(),
            seconds: PhaseSeconds::new(seconds),
            plan: plan(planned, report),
            timeline: Timeline::new(&report.timeline, joined),
            shown,
        }
    }

    /// Returns the page.
    pub fn page(&self) -> Result<String, simjoin::engine::Error> {
        let data = serde_json::to_string(self)
            .map_err(|error| simjoin::engine::Error::Internal(format!("the report: {error}")))?;
        let (before, after) = PAGE.split_once(PLACE).ok_or_else(|| {
            simjoin::engine::Error::Internal("the page does not contain {{data}}".into())
        })?;
        Ok([before, &embedded(&data), after].concat())
    }
}

/// Escapes JSON so that nothing in it ends the script element. The escaped characters occur in strings only, where
/// their escapes mean the same.
fn embedded(json: &str) -> String {
    let mut text = String::with_capacity(json.len() + json.len() / 16);
    for character in json.chars() {
        match character {
            '<' | '>' | '&' => text.push_str(&format!("\\u{:04x}", character as u32)),
            // Control characters, line ends, and characters that change the direction of writing.
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

/// Returns the command line, quoted for a shell.
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

/// Returns the current time in seconds of Unix time.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

impl Answer {
    /// Returns the name in a report.
    pub fn name(&self) -> &'static str {
        match self {
            Answer::Pairs => "pairs",
            Answer::Count => "count",
            Answer::Groups => "groups",
        }
    }
}

/// Returns the number of pairs in one collection, or between two.
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

fn label(name: &str, variant: &str) -> String {
    if variant.is_empty() { name.into() } else { format!("{name}, {variant}") }
}

fn plan(planned: &Explanation, report: &Report) -> PlanShown {
    let parts = planned.steps.iter().zip(&planned.compared).take(PARTS).map(|(step, what)| {
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
        PartShown {
            on_device: step.processor == Processor::Device,
            what: what.clone(),
            technique: label(step.technique.0, &step.technique.1),
            considered,
        }
    });
    let hybrid = report.engine == Engine::Hybrid;
    PlanShown {
        parts: parts.collect(),
        more_parts: planned.steps.len().saturating_sub(PARTS),
        estimated_pairs: planned.pairs,
        estimated_seconds: planned.seconds,
        planned_device_share: report.planned_device_share.filter(|_| hybrid),
        device_share: report.device_share().filter(|_| hybrid),
        details: report.details(),
        ran: ran(&report.steps),
    }
}

/// Puts the chosen technique first, and sorts the others by rising estimate.
pub fn sort(considered: &mut [Considered]) {
    considered.sort_by(|a, b| {
        let key = |one: &Considered| one.seconds.unwrap_or(f64::INFINITY);
        b.chosen.cmp(&a.chosen).then(key(a).total_cmp(&key(b)))
    });
}

fn ran(steps: &[StepReport]) -> Vec<Ran> {
    let mut all: BTreeMap<(bool, &str, &str), Ran> = BTreeMap::new();
    for step in steps {
        let on_device = step.processor == Processor::Device;
        let key = (on_device, step.technique, step.variant.as_str());
        let ran = all.entry(key).or_insert_with(|| Ran {
            technique: label(step.technique, &step.variant),
            on_device,
            estimated: Some(0.0),
            ..Ran::default()
        });
        ran.parts += 1;
        ran.pairs += step.pairs;
        ran.estimated = ran.estimated.zip(step.estimated).map(|(sum, more)| sum + more);
        ran.seconds += step.seconds;
        if step.device_times.device() > 0.0 {
            let [filter, verify, copies] = ran.device.unwrap_or_default();
            let more = &step.device_times;
            ran.device = Some([filter + more.filter, verify + more.verify, copies + more.copies]);
        }
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_end_the_script() {
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
    fn page_has_one_place_for_data_and_loads_nothing() {
        assert_eq!(PAGE.matches(PLACE).count(), 1);
        for word in ["http://", "https://", "src=", "@import", "url(", "innerHTML", "fetch("] {
            let known = word == "http://" && PAGE.matches(word).count() == 1;
            assert!(!PAGE.contains(word) || known, "{word}");
        }
    }

    #[test]
    fn all_pairs_of_one_and_two_collections() {
        assert_eq!(all_pairs(0, None, false), 0);
        assert_eq!(all_pairs(4, None, false), 6);
        assert_eq!(all_pairs(4, Some(3), false), 12);
        assert_eq!(all_pairs(4, Some(3), true), 15);
    }
}
