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
use crate::kind::{Direction, Entries, Kind, Order, Task, Work, cut_probes};
use simjoin_core::{Bounds, Predicate, SetCollection, SetId, SetPair};
use std::ops::Range;

/// Sets of tokens.
#[derive(Clone, Copy, Debug)]
pub enum Sets {}

/// Which sets meet which.
pub type SetTask<'a> = Task<'a, Sets>;

impl SetTask<'_> {
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

    const BY_SIZE: bool = true;

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
        // Both ends of the partners' range rise with the probe.
        let first = task.partners(probes.start).start;
        let end = task.partners(probes.end.checked_sub(1)?).end;
        (first < end).then_some(Tile { probes, builds: first..end })
    }

    fn probes(tile: &Tile) -> Range<SetId> {
        tile.probes.clone()
    }

    fn work(task: &SetTask<'_>, tile: &Tile) -> Work {
        Work {
            probes: tile.probes.clone(),
            probe_sizes: size_range(task.probe, &tile.probes),
            build_sizes: size_range(task.build, &tile.builds),
            pairs: reaches(task, tile).iter().map(|reach| reach.pairs).sum(),
            tokens: task.probe.tokens_in(&tile.probes) as u64,
        }
    }

    fn cut(task: &SetTask<'_>, tile: &Tile, parts: usize) -> Vec<Tile> {
        let Tile { probes, builds } = tile;
        if probes.len() <= 1 {
            return vec![tile.clone()];
        }
        let tiles = cut_probes(probes, 1, parts.max(2)).into_iter().flat_map(|probes| {
            // One tile, with the build sets that the probes may meet.
            cut(task, &Tile { probes, builds: builds.clone() }, usize::MAX)
        });
        tiles.collect()
    }

    fn ends(pair: &SetPair) -> (u32, u32) {
        (pair.probe, pair.build)
    }

    #[inline]
    fn value(task: &SetTask<'_>, pair: &SetPair) -> (u32, f64) {
        let (a, b) = (task.probe.size(pair.probe), task.build.size(pair.build));
        (pair.overlap, task.predicate.parts().0.similarity(a, b, pair.overlap))
    }

    fn on_threshold(task: &SetTask<'_>, pair: &SetPair) -> bool {
        let (a, b) = (task.probe.size(pair.probe), task.build.size(pair.build));
        task.predicate.compare(a, b, pair.overlap).is_eq()
    }

    fn self_pair(sets: &SetCollection, bounds: &Bounds, set: SetId) -> Option<SetPair> {
        let size = sets.size(set);
        let pair = SetPair { probe: set, build: set, overlap: size };
        bounds.accepts(size, size, size).then_some(pair)
    }

    // Counted by class, which is quicker than by set.
    fn unsearched(task: &SetTask<'_>, _: Direction) -> u64 {
        if !task.is_self_join() {
            return 0;
        }
        let SetTask { probe, predicate: bounds, .. } = task;
        let classes = probe.classes().iter().zip(probe.repeats());
        let accepted = classes.filter(|(one, _)| bounds.accepts(one.size, one.size, one.size));
        accepted.map(|(_, pairs)| pairs).sum()
    }
}

impl Entries for SetCollection {
    fn sizes(&self) -> (usize, usize) {
        (self.len(), self.records())
    }

    fn has_repeats(&self) -> bool {
        self.has_repeats()
    }

    #[inline]
    fn weight(&self, set: SetId) -> u64 {
        self.weight(set).into()
    }

    #[inline]
    fn rows<'r>(&'r self, entry: &'r u32) -> &'r [u32] {
        self.rows(*entry)
    }
}

/// Returns the smallest and the largest size in a range of sets.
pub(crate) fn size_range(sets: &SetCollection, range: &Range<SetId>) -> (u32, u32) {
    if range.is_empty() { (0, 0) } else { (sets.size(range.start), sets.size(range.end - 1)) }
}
