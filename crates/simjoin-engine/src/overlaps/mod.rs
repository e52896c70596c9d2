//! Which sets are counted with which, and what is known about them beforehand?
//!
//! Overlaps are a join without a threshold: of all pairs, of those with any token in common, or of the best of each
//! row. A technique counts ranges of probes with all build sets that these meet: in a self-join those before each
//! probe. Where the best of each row are wanted, a probe meets all sets at once, and a pair consists of *rows*: only
//! some of the rows that hold a set may be among the best partners of a row.
//!
//! Pairs with an empty row have no token in common. No technique looks for them ([`Kind::unsearched`]).

mod best;
mod empty;
mod joined;

pub use best::best_partners;

use crate::kind::{Direction, Kind, Task, Work, cut_probes};
use crate::sets::size_range;
use simjoin_core::{RowPair, SetCollection, SetId, SetPair};
use std::ops::{ControlFlow, Range};

/// The overlaps of sets of tokens.
#[derive(Clone, Copy, Debug)]
pub enum Overlaps {}

/// Which sets are counted with which.
pub type OverlapTask<'a> = Task<'a, Overlaps>;

/// Which overlaps are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedOverlaps {
    /// Those of all pairs of rows, also where nothing is in common.
    All,
    /// Those of pairs with something in common.
    Positive,
    /// For each row (of the left collection, where there are two) those of this many partners: the largest ones, of
    /// equal ones those with the smallest row numbers, and none without anything in common. The row is the left one
    /// of its pairs, so a pair of one collection may come twice, once for each row. The largest overlap comes first.
    Top(usize),
}

impl OverlapTask<'_> {
    /// Returns whether a probe meets only the sets before it.
    pub fn only_before(&self) -> bool {
        self.is_self_join() && !self.at_once()
    }

    /// Returns whether a probe must meet all its build sets at once.
    pub fn at_once(&self) -> bool {
        matches!(self.predicate, WantedOverlaps::Top(_))
    }

    /// Returns the number of pairs of sets that are counted for some probes.
    pub fn pairs_of(&self, probes: &Range<SetId>) -> u64 {
        let (start, end) = (u64::from(probes.start), u64::from(probes.end));
        match self.only_before() {
            _ if probes.is_empty() => 0,
            true => (end - start) * (start + end - 1) / 2,
            false => (end - start) * self.build.len() as u64,
        }
    }

    /// Returns the build sets that some probes meet.
    pub fn met_by(&self, probes: &Range<SetId>) -> Range<SetId> {
        0..if self.only_before() { probes.end } else { self.build.len() as SetId }
    }
}

impl Kind for Overlaps {
    type Collection = SetCollection;
    type Wanted = WantedOverlaps;
    type Predicate = WantedOverlaps;
    /// Two sets; of the best of each row, two rows.
    type Pair = SetPair;
    /// Some of the probes.
    type Range = Range<SetId>;
    type Survey<'a> = OverlapSurvey;

    fn whole(task: &OverlapTask<'_>) -> Range<SetId> {
        0..task.probe.len() as SetId
    }

    fn sections(task: &OverlapTask<'_>) -> Vec<(Range<SetId>, [u64; 2])> {
        let whole = Self::whole(task);
        let Work { pairs, tokens, .. } = Self::work(task, &whole);
        if pairs == 0 { Vec::new() } else { vec![(whole, [pairs, tokens])] }
    }

    fn range_of(_: &OverlapTask<'_>, probes: Range<SetId>) -> Option<Range<SetId>> {
        Some(probes)
    }

    fn probes(probes: &Range<SetId>) -> Range<SetId> {
        probes.clone()
    }

    fn work(task: &OverlapTask<'_>, probes: &Range<SetId>) -> Work {
        Work {
            probes: probes.clone(),
            probe_sizes: size_range(task.probe, probes),
            build_sizes: size_range(task.build, &task.met_by(probes)),
            pairs: task.pairs_of(probes),
            tokens: task.probe.tokens_in(probes) as u64,
        }
    }

    fn cut(_: &OverlapTask<'_>, probes: &Range<SetId>, parts: usize) -> Vec<Range<SetId>> {
        cut_probes(probes, 1, parts)
    }

    fn ends(pair: &SetPair) -> (u32, u32) {
        (pair.probe, pair.build)
    }

    #[inline]
    fn value(_: &OverlapTask<'_>, pair: &SetPair) -> (u32, f64) {
        (pair.overlap, f64::from(pair.overlap))
    }

    /// Returns none where the best of each row are wanted: techniques find the repeats among them.
    fn self_pair(sets: &SetCollection, wanted: &WantedOverlaps, set: SetId) -> Option<SetPair> {
        let pair = SetPair { probe: set, build: set, overlap: sets.size(set) };
        (!matches!(wanted, WantedOverlaps::Top(_))).then_some(pair)
    }

    fn finds_rows(task: &OverlapTask<'_>) -> bool {
        task.at_once()
    }

    fn unsearched(task: &OverlapTask<'_>, _: Direction) -> u64 {
        let repeats = task.repeats().map(|pair| Self::count_rows(task, &[pair])).sum::<u64>();
        repeats + if task.predicate == WantedOverlaps::All { empty::count(task) } else { 0 }
    }

    fn expand_unsearched(
        task: &OverlapTask<'_>,
        direction: Direction,
        mut push: impl FnMut(RowPair) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        task.repeats().try_for_each(|pair| Self::expand(task, direction, &[pair], &mut push))?;
        match task.predicate {
            WantedOverlaps::All => empty::expand(task, direction, push),
            WantedOverlaps::Positive | WantedOverlaps::Top(_) => ControlFlow::Continue(()),
        }
    }

    fn known_number(task: &OverlapTask<'_>, _: Direction) -> Option<u64> {
        (task.predicate == WantedOverlaps::All).then(|| all_pairs(task))
    }
}

/// Returns the number of all pairs of rows.
fn all_pairs(task: &OverlapTask<'_>) -> u64 {
    let (left, right) = (task.probe.records() as u64, task.build.records() as u64);
    if task.is_self_join() { left * left.saturating_sub(1) / 2 } else { left * right }
}

/// What is known about a task, from which techniques estimate their cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OverlapSurvey {
    /// Pairs of sets to be counted.
    pub pairs: f64,
    /// Sets of both sides.
    pub sets: f64,
    /// Tokens of both sides.
    pub tokens: f64,
    /// The number of different tokens.
    pub universe: u32,
    /// The first token that stands in several rows.
    pub unique: u32,
    /// How often sets meet in the list of each token from that one on.
    pub meetings: Vec<f64>,
}

impl OverlapSurvey {
    /// Surveys a whole task.
    pub fn new(task: &OverlapTask<'_>) -> Self {
        let of_both =
            |count: fn(&SetCollection) -> usize| task.sides().map(count).sum::<usize>() as f64;
        OverlapSurvey {
            pairs: task.pairs_of(&Overlaps::whole(task)) as f64,
            sets: of_both(SetCollection::len),
            tokens: of_both(SetCollection::total_tokens),
            universe: task.build.universe(),
            unique: task.build.unique_tokens(),
            meetings: meetings(task),
        }
    }
}

/// Counts how often sets meet in the list of each token that more than one row has.
fn meetings(task: &OverlapTask<'_>) -> Vec<f64> {
    let unique = task.build.unique_tokens();
    let frequencies = |sets: &SetCollection| {
        let mut count = vec![0u32; sets.universe().saturating_sub(unique) as usize];
        for &token in sets.tokens() {
            if let Some(count) = token.checked_sub(unique).map(|at| &mut count[at as usize]) {
                *count += 1;
            }
        }
        count
    };
    let builds = frequencies(task.build);
    if task.is_self_join() {
        let half = if task.only_before() { 0.5 } else { 1.0 };
        return builds.iter().map(|&n| half * f64::from(n) * f64::from(n)).collect();
    }
    let probes = frequencies(task.probe);
    builds.iter().zip(probes).map(|(&b, p)| f64::from(b) * f64::from(p)).collect()
}
