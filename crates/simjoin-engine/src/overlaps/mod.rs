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

use crate::kind::{Direction, Kind, Order, Task, Work};
use crate::sets::{Sets, count_rows, expand_repeats, repeats};
use simjoin_core::{Bounds, RowPair, SetCollection, SetId, SetPair};
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

    fn predicate(wanted: WantedOverlaps) -> WantedOverlaps {
        wanted
    }

    fn directions<'a>(
        left: &'a SetCollection,
        right: Option<&'a SetCollection>,
        with_itself: bool,
        predicate: WantedOverlaps,
    ) -> Vec<(OverlapTask<'a>, Direction)> {
        let task = |probe, build, order| Task { probe, build, predicate, order };
        let Some(right) = right else {
            return vec![(task(left, left, Order::Before), Direction::LeftItself)];
        };
        let mut directions = vec![(task(left, right, Order::NotLarger), Direction::LeftProbes)];
        if with_itself {
            directions.push((task(right, right, Order::Before), Direction::RightItself));
        }
        directions
    }

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
        let sizes = |sets: &SetCollection, range: &Range<SetId>| match range.is_empty() {
            true => (0, 0),
            false => (sets.size(range.start), sets.size(range.end - 1)),
        };
        Work {
            probes: probes.clone(),
            probe_sizes: sizes(task.probe, probes),
            build_sizes: sizes(task.build, &task.met_by(probes)),
            pairs: task.pairs_of(probes),
            tokens: task.probe.tokens_in(probes) as u64,
        }
    }

    fn cut(_: &OverlapTask<'_>, probes: &Range<SetId>, parts: usize) -> Vec<Range<SetId>> {
        let each = probes.len().div_ceil(parts.clamp(1, probes.len().max(1))).max(1);
        let starts = probes.clone().step_by(each);
        starts.map(|start| start..probes.end.min(start.saturating_add(each as SetId))).collect()
    }

    fn ends(pair: &SetPair) -> (u32, u32) {
        (pair.probe, pair.build)
    }

    fn rows(task: &OverlapTask<'_>, pairs: &[SetPair]) -> u64 {
        match task.predicate {
            WantedOverlaps::Top(_) => pairs.len() as u64,
            WantedOverlaps::All | WantedOverlaps::Positive => {
                count_rows(task.probe, task.build, pairs)
            }
        }
    }

    #[inline]
    fn expand(
        task: &OverlapTask<'_>,
        direction: Direction,
        pairs: &[SetPair],
        mut push: impl FnMut(RowPair) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let left_input = direction.input_of_left();
        let row = |(left, right), overlap| {
            let similarity = f64::from(overlap);
            RowPair { left, right, overlap, similarity, left_input }
        };
        if task.at_once() {
            return pairs
                .iter()
                .try_for_each(|pair| push(row((pair.probe, pair.build), pair.overlap)));
        }
        for &SetPair { probe, build, overlap } in pairs {
            for &a in task.probe.rows(probe) {
                for &b in task.build.rows(build) {
                    push(row(direction.left_and_right(a, b), overlap))?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn shown(task: &OverlapTask<'_>, direction: Direction, pair: &SetPair) -> (RowPair, bool) {
        let rows = match task.at_once() {
            true => (pair.probe, pair.build),
            false => direction
                .left_and_right(task.probe.rows(pair.probe)[0], task.build.rows(pair.build)[0]),
        };
        let row = RowPair {
            left: rows.0,
            right: rows.1,
            overlap: pair.overlap,
            similarity: f64::from(pair.overlap),
            left_input: direction.input_of_left(),
        };
        (row, false)
    }

    fn sizes(sets: &SetCollection) -> (usize, usize) {
        (sets.len(), sets.records())
    }

    fn unsearched(task: &OverlapTask<'_>, direction: Direction) -> u64 {
        let equal = || match direction.is_itself() {
            true => repeats(task.probe, &Bounds::ANY_TOKEN),
            false => 0,
        };
        match task.predicate {
            WantedOverlaps::All => equal() + empty::count(task),
            WantedOverlaps::Positive => equal(),
            WantedOverlaps::Top(_) => 0,
        }
    }

    /// Visits nothing: without a threshold there is no glimpse.
    fn visit_unsearched(_: &OverlapTask<'_>, _: Direction, _: impl FnMut(RowPair, u64, bool)) {}

    fn expand_unsearched(
        task: &OverlapTask<'_>,
        direction: Direction,
        mut push: impl FnMut(RowPair) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if task.at_once() {
            return ControlFlow::Continue(());
        }
        if direction.is_itself() {
            expand_repeats(task.probe, &Bounds::ANY_TOKEN, direction, &mut push)?;
        }
        match task.predicate {
            WantedOverlaps::All => empty::expand(task, direction, push),
            WantedOverlaps::Positive | WantedOverlaps::Top(_) => ControlFlow::Continue(()),
        }
    }

    fn known_number(task: &OverlapTask<'_>, _: Direction) -> Option<u64> {
        (task.predicate == WantedOverlaps::All).then(|| all_pairs(task))
    }

    fn label_rows(
        sets: &SetCollection,
        _: &WantedOverlaps,
        component: impl FnMut(u32) -> u32,
    ) -> Vec<u32> {
        Sets::label_rows(sets, &Bounds::ANY_TOKEN, component)
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
        let OverlapTask { probe, build, .. } = *task;
        let of_both = |count: fn(&SetCollection) -> usize| {
            (count(build) + if task.is_self_join() { 0 } else { count(probe) }) as f64
        };
        OverlapSurvey {
            pairs: task.pairs_of(&Overlaps::whole(task)) as f64,
            sets: of_both(SetCollection::len),
            tokens: of_both(SetCollection::total_tokens),
            universe: build.universe(),
            unique: build.unique_tokens(),
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
