//! Which sets are to be compared with which?
//!
//! Every join is made of the same shape: each *probe* set meets a contiguous range of *build*
//! sets, none of them larger than itself. Both ends of that range rise with the probe.
//!
//! * A self-join is one such task of a collection with itself, [`Order::Before`]: each set meets
//!   the sets before it, which are no larger.
//! * A join of R with S is two: R probes S for sets up to its own size ([`Order::NotLarger`]), then
//!   S probes R for sets that are smaller ([`Order::Smaller`]). Each pair is met exactly once, and
//!   the smaller set is always the indexed one, which allows the shorter index prefix.
//! * New records against old ones are these two and the self-join of the new ones; old records
//!   never meet old ones.

use super::survey::Survey;
use super::{Tile, cut, reaches};
use crate::kind::{Direction, Kind, Order, Task, Work};
use simjoin_core::{Bounds, Predicate, RowPair, SetCollection, SetId, SetPair};
use std::ops::{ControlFlow, Range};

/// Sets of tokens.
#[derive(Clone, Copy, Debug)]
pub enum Sets {}

/// Which sets meet which.
pub type SetTask<'a> = Task<'a, Sets>;

impl<'a> SetTask<'a> {
    /// Returns the tasks that make up a self-join (one) or a join of two collections (two, and a third for
    /// the right one `with_itself`).
    pub fn directions(
        left: &'a SetCollection,
        right: Option<&'a SetCollection>,
        with_itself: bool,
        bounds: Bounds,
    ) -> Vec<(SetTask<'a>, Direction)> {
        let task = |probe, build, order| SetTask { probe, build, predicate: bounds, order };
        let Some(right) = right else {
            return vec![(task(left, left, Order::Before), Direction::LeftItself)];
        };
        let mut directions = vec![
            (task(left, right, Order::NotLarger), Direction::LeftProbes),
            (task(right, left, Order::Smaller), Direction::RightProbes),
        ];
        if with_itself {
            directions.push((task(right, right, Order::Before), Direction::RightItself));
        }
        directions
    }

    /// Returns the build sets that a probe set has to meet: those that the order and the length filter
    /// leave. The length filter loses nothing: a smaller set cannot reach the required overlap
    /// even if it is wholly contained.
    pub fn partners(&self, probe: SetId) -> Range<SetId> {
        let size = self.probe.size(probe);
        let end = match self.order {
            Order::Before => probe,
            Order::NotLarger => self.build.first_of_size(size + 1),
            Order::Smaller => self.build.first_of_size(size),
        };
        let start = self.build.first_of_size(self.predicate.min_size(size));
        start.min(end)..end
    }
}

impl Kind for Sets {
    type Collection = SetCollection;
    type Wanted = Predicate;
    type Predicate = Bounds;
    type Pair = SetPair;
    type Range = Tile;
    type Survey<'a> = Survey<'a>;

    fn predicate(wanted: Predicate) -> Bounds {
        Bounds::new(wanted)
    }

    fn directions<'a>(
        left: &'a SetCollection,
        right: Option<&'a SetCollection>,
        with_itself: bool,
        bounds: Bounds,
    ) -> Vec<(SetTask<'a>, Direction)> {
        SetTask::directions(left, right, with_itself, bounds)
    }

    fn whole(task: &SetTask<'_>) -> Tile {
        Tile::whole(task)
    }

    fn sections(task: &SetTask<'_>) -> Vec<(Range<SetId>, [u64; 2])> {
        let reaches = reaches(task, &Tile::whole(task)).into_iter();
        let reaches = reaches.filter(|reach| reach.pairs > 0);
        let tokens = |probes: &Range<SetId>| task.probe.tokens_in(probes) as u64;
        reaches.map(|reach| (reach.probes.clone(), [reach.pairs, tokens(&reach.probes)])).collect()
    }

    fn range_of(task: &SetTask<'_>, probes: Range<SetId>) -> Option<Tile> {
        cut(task, &Tile { probes, ..Tile::whole(task) }, usize::MAX).pop()
    }

    fn probes(tile: &Tile) -> Range<SetId> {
        tile.probes.clone()
    }

    fn work(task: &SetTask<'_>, tile: &Tile) -> Work {
        let sizes = |sets: &SetCollection, range: &Range<SetId>| match range.is_empty() {
            true => (0, 0),
            false => (sets.size(range.start), sets.size(range.end - 1)),
        };
        Work {
            probes: tile.probes.clone(),
            probe_sizes: sizes(task.probe, &tile.probes),
            build_sizes: sizes(task.build, &tile.builds),
            pairs: reaches(task, tile).iter().map(|reach| reach.pairs).sum(),
            tokens: task.probe.tokens_in(&tile.probes) as u64,
        }
    }

    fn cut(task: &SetTask<'_>, tile: &Tile, parts: usize) -> Vec<Tile> {
        let Tile { probes, builds } = tile;
        if probes.len() <= 1 {
            return vec![tile.clone()];
        }
        let each = probes.len().div_ceil(parts.clamp(2, probes.len()));
        let starts = probes.clone().step_by(each);
        let tiles = starts.flat_map(|start| {
            let probes = start..probes.end.min(start.saturating_add(each as SetId));
            // One tile, with the build sets that the probes may meet.
            cut(task, &Tile { probes, builds: builds.clone() }, usize::MAX)
        });
        tiles.collect()
    }

    fn ends(pair: &SetPair) -> (u32, u32) {
        (pair.probe, pair.build)
    }

    fn rows(task: &SetTask<'_>, pairs: &[SetPair]) -> u64 {
        count_rows(task.probe, task.build, pairs)
    }

    #[inline]
    fn expand(
        task: &SetTask<'_>,
        direction: Direction,
        pairs: &[SetPair],
        mut push: impl FnMut(RowPair) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let SetTask { probe: probes, build: builds, predicate, .. } = task;
        let (measure, left_input) = (predicate.parts().0, direction.input_of_left());
        for &SetPair { probe, build, overlap } in pairs {
            let similarity = measure.similarity(probes.size(probe), builds.size(build), overlap);
            for &a in probes.rows(probe) {
                for &b in builds.rows(build) {
                    let (left, right) = direction.left_and_right(a, b);
                    push(RowPair { left, right, overlap, similarity, left_input })?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn shown(task: &SetTask<'_>, direction: Direction, pair: &SetPair) -> (RowPair, bool) {
        let SetTask { probe: probes, build: builds, predicate, .. } = task;
        let &SetPair { probe, build, overlap } = pair;
        let (a, b) = (probes.size(probe), builds.size(build));
        let (left, right) = direction.left_and_right(probes.rows(probe)[0], builds.rows(build)[0]);
        let row = RowPair {
            left,
            right,
            overlap,
            similarity: predicate.parts().0.similarity(a, b, overlap),
            left_input: direction.input_of_left(),
        };
        (row, predicate.compare(a, b, overlap).is_eq())
    }

    fn sizes(sets: &SetCollection) -> (usize, usize) {
        (sets.len(), sets.records())
    }

    fn unsearched(task: &SetTask<'_>, direction: Direction) -> u64 {
        if direction.is_itself() { repeats(task.probe, &task.predicate) } else { 0 }
    }

    fn visit_unsearched(
        task: &SetTask<'_>,
        direction: Direction,
        mut visit: impl FnMut(RowPair, u64, bool),
    ) {
        if !direction.is_itself() {
            return;
        }
        let (sets, bounds) = (task.probe, &task.predicate);
        for set in repeated_sets(sets, bounds) {
            let (size, rows) = (sets.size(set), sets.rows(set));
            let pair = RowPair {
                left: rows[0],
                right: rows[1],
                overlap: size,
                similarity: bounds.parts().0.similarity(size, size, size),
                left_input: direction.input_of_left(),
            };
            let weight = rows.len() as u64;
            visit(pair, weight * (weight - 1) / 2, bounds.compare(size, size, size).is_eq());
        }
    }

    fn expand_unsearched(
        task: &SetTask<'_>,
        direction: Direction,
        push: impl FnMut(RowPair) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if !direction.is_itself() {
            return ControlFlow::Continue(());
        }
        expand_repeats(task.probe, &task.predicate, direction, push)
    }

    fn label_rows(
        sets: &SetCollection,
        bounds: &Bounds,
        mut component: impl FnMut(u32) -> u32,
    ) -> Vec<u32> {
        let mut smallest: Vec<u32> =
            (0..sets.len() as SetId).map(|set| sets.rows(set)[0]).collect();
        for set in 0..sets.len() as SetId {
            let root = component(set) as usize;
            smallest[root] = smallest[root].min(sets.rows(set)[0]);
        }
        let mut labels: Vec<u32> = (0..sets.records() as u32).collect();
        for set in 0..sets.len() as SetId {
            // Rows of one set belong together if the set satisfies the bounds with itself; if it does
            // not, neither does it with any other set, and each of its rows stays alone.
            let size = sets.size(set);
            if bounds.accepts(size, size, size) {
                let label = smallest[component(set) as usize];
                for &row in sets.rows(set) {
                    labels[row as usize] = label;
                }
            }
        }
        labels
    }
}

/// Counts the pairs of rows that pairs of sets stand for.
pub(crate) fn count_rows(probe: &SetCollection, build: &SetCollection, pairs: &[SetPair]) -> u64 {
    if !probe.has_repeats() && !build.has_repeats() {
        return pairs.len() as u64;
    }
    let rows =
        |pair: &SetPair| u64::from(probe.weight(pair.probe)) * u64::from(build.weight(pair.build));
    pairs.iter().map(rows).sum()
}

/// Returns the number of pairs of rows that hold the same set, as far as it satisfies the bounds with itself.
pub(crate) fn repeats(sets: &SetCollection, bounds: &Bounds) -> u64 {
    let classes = sets.classes().iter().zip(sets.repeats());
    let accepted = classes.filter(|(class, _)| bounds.accepts(class.size, class.size, class.size));
    accepted.map(|(_, pairs)| pairs).sum()
}

/// Calls `push` with every pair of rows that hold the same set.
pub(crate) fn expand_repeats(
    sets: &SetCollection,
    bounds: &Bounds,
    direction: Direction,
    mut push: impl FnMut(RowPair) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let left_input = direction.input_of_left();
    for set in repeated_sets(sets, bounds) {
        let size = sets.size(set);
        let similarity = bounds.parts().0.similarity(size, size, size);
        for (at, &left) in sets.rows(set).iter().enumerate() {
            for &right in &sets.rows(set)[at + 1..] {
                push(RowPair { left, right, overlap: size, similarity, left_input })?;
            }
        }
    }
    ControlFlow::Continue(())
}

/// Returns the sets that stand in several rows and satisfy the bounds with themselves.
fn repeated_sets<'s>(
    sets: &'s SetCollection,
    bounds: &'s Bounds,
) -> impl Iterator<Item = SetId> + 's {
    (0..sets.len() as SetId).filter(move |&set| {
        let size = sets.size(set);
        sets.weight(set) > 1 && bounds.accepts(size, size, size)
    })
}
