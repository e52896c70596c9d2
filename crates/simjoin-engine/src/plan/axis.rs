//! Where does each probe lie on the axis of a join's work?
//!
//! The probes of all directions of a join follow one another on an axis from 0 to 1, those of a direction in rising
//! order of size. The position of a point is the share of the work before it: the mean of the shares of pairs that
//! pass the length filter and of tokens. (By pairs alone, half of the tokens of a collection with a few large sets
//! could lie within a thousandth of the axis.) Positions are known before any set is read.
//!
//! No pair is lost: every probe lies in exactly one interval between neighbouring points, and meets there all sets that
//! it reaches.

use crate::CostTable;
use crate::kind::{Direction, Order, work_share};
use crate::run::{Axis, Part};
use crate::sets::{Reach, SetTask, Sets, Survey, Tile, reaches};
use simjoin_core::SetId;
use std::ops::Range;
use std::sync::OnceLock;

/// The probes of a size class.
#[derive(Clone, Debug)]
struct OfClass {
    /// Its place among all classes.
    class: usize,
    /// The build sets that they reach.
    reach: Reach,
    /// Its share of the work.
    work: f64,
}

/// The probes of all directions of a join on an axis.
#[derive(Clone, Debug)]
pub(crate) struct ProbeAxis<'a> {
    /// The directions that have pairs, by size class.
    directions: Vec<(SetTask<'a>, Direction, Vec<OfClass>)>,
    /// The share of the work before each direction, and all of it.
    before: Vec<f64>,
    /// Surveys of all of it without samples, once they are needed.
    surveys: OnceLock<Vec<(Direction, Survey<'a>)>>,
}

impl<'a> ProbeAxis<'a> {
    /// Puts the probes of these directions on an axis.
    pub(crate) fn new(directions: &[(SetTask<'a>, Direction)]) -> Self {
        let mut with_pairs: Vec<(SetTask<'a>, Direction, Vec<OfClass>)> = Vec::new();
        for &(join, direction) in directions {
            let reaches = reaches(&join, &Tile::whole(&join)).into_iter().enumerate();
            let reaches = reaches.filter(|(_, reach)| reach.pairs > 0);
            let reaches: Vec<_> =
                reaches.map(|(class, reach)| OfClass { class, reach, work: 0.0 }).collect();
            if !reaches.is_empty() {
                with_pairs.push((join, direction, reaches));
            }
        }
        let of_class = |join: &SetTask<'_>, reach: &Reach| {
            [reach.pairs, join.probe.tokens_in(&reach.probes) as u64]
        };
        let mut whole = [0; 2];
        for (join, _, reaches) in &with_pairs {
            for one in reaches {
                let [pairs, tokens] = of_class(join, &one.reach);
                whole = [whole[0] + pairs, whole[1] + tokens];
            }
        }
        let (mut before, mut end) = (vec![0.0], 0.0);
        for (join, _, reaches) in &mut with_pairs {
            for one in reaches {
                one.work = work_share(of_class(join, &one.reach), whole).unwrap_or(0.0);
                end += one.work;
            }
            before.push(end);
        }
        ProbeAxis { directions: with_pairs, before, surveys: OnceLock::new() }
    }

    /// Returns surveys of all of it without samples.
    pub(super) fn whole(&self) -> &[(Direction, Survey<'a>)] {
        self.surveys.get_or_init(|| self.surveys(0.0, 1.0).collect())
    }

    /// Returns the points where the directions except the first begin.
    pub(super) fn bounds(&self) -> impl Iterator<Item = f64> {
        let all = self.before[self.before.len() - 1];
        let inner = self.before.iter().take(self.before.len() - 1).skip(1);
        inner.map(move |before| before / all)
    }

    /// Returns the seconds that all of it takes one core at least, as far as exact counts tell.
    pub(super) fn least_core_seconds(&self, costs: &CostTable) -> f64 {
        self.whole().iter().map(|(_, survey)| survey.least_seconds(costs)).sum()
    }

    /// Returns surveys of what lies between two points, without samples.
    pub(super) fn surveys(
        &self,
        from: f64,
        to: f64,
    ) -> impl Iterator<Item = (Direction, Survey<'a>)> {
        self.tiles(from, to).map(|(join, direction, tile, reaches)| {
            let mut by_class = vec![Reach::default(); join.probe.classes().len()];
            for OfClass { class, reach, .. } in reaches {
                by_class[*class] = reach.within(join.order, &tile).unwrap_or_default();
            }
            (direction, Survey::with(&join, &tile, by_class))
        })
    }

    /// Returns what lies between two points: a tile of each direction that has some of it, no larger than need be.
    fn tiles(
        &self,
        from: f64,
        to: f64,
    ) -> impl Iterator<Item = (SetTask<'a>, Direction, Tile, &[OfClass])> {
        let all = self.before[self.before.len() - 1];
        self.directions.iter().enumerate().filter_map(move |(at, (join, direction, reaches))| {
            let (start, end) = (self.before[at], self.before[at + 1]);
            let local = |point: f64| match end - start {
                // A direction too small to count lies where it begins.
                0.0 => f64::from(point * all > start || point >= 1.0),
                work => (point * all - start) / work,
            };
            let probes = split_at(reaches, local(from))..split_at(reaches, local(to));
            let tile = tile_of(join.order, reaches, &probes)?;
            Some((*join, *direction, tile, &reaches[..]))
        })
    }
}

/// Returns the probe before which this share of the work lies.
fn split_at(reaches: &[OfClass], share: f64) -> SetId {
    let end = reaches.last().map_or(0, |last| last.reach.probes.end);
    if share >= 1.0 {
        return end;
    }
    if share <= 0.0 {
        return 0;
    }
    let mut left = share * reaches.iter().map(|one| one.work).sum::<f64>();
    for OfClass { reach, work, .. } in reaches {
        if left < *work {
            return reach.probes.start + (reach.probes.len() as f64 * left / work) as SetId;
        }
        left -= work;
    }
    end
}

/// Returns the probes that reach something, and what they reach.
fn tile_of(order: Order, reaches: &[OfClass], within: &Range<SetId>) -> Option<Tile> {
    let first = reaches.partition_point(|one| one.reach.probes.end <= within.start);
    let mut tile: Option<Tile> = None;
    for OfClass { reach, .. } in &reaches[first..] {
        let probes = reach.probes.start.max(within.start)..reach.probes.end.min(within.end);
        if probes.is_empty() {
            break;
        }
        // The last one meets all that any of them does.
        let builds = reach.of(order, probes.end - 1);
        match &mut tile {
            _ if builds.is_empty() => {}
            None => tile = Some(Tile { probes, builds }),
            Some(tile) => {
                tile.probes.end = probes.end;
                tile.builds.start = tile.builds.start.min(builds.start);
                tile.builds.end = tile.builds.end.max(builds.end);
            }
        }
    }
    tile
}

impl<'a> Axis<'a, Sets> for ProbeAxis<'a> {
    fn between(&self, from: f64, to: f64) -> Vec<Part<'a, Sets>> {
        let tiles = self.tiles(from, to);
        tiles.map(|(task, direction, range, _)| Part { task, direction, range }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::tile::tests::collections;
    use simjoin_core::{Bounds, Measure, Predicate};

    #[test]
    fn neighbouring_points_share_nothing_and_leave_nothing_out() {
        let (left, right) = collections(&[3, 3, 3, 4, 4, 5, 9, 9], Some(&[3, 4, 4, 5, 9, 10, 10]));
        let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.5").unwrap());
        let directions = SetTask::directions(&left, right.as_ref(), true, bounds);
        let axis = ProbeAxis::new(&directions);
        for (from, to) in [(0.0, 1.0), (0.0, 0.3), (0.3, 0.8), (0.75, 1.0)] {
            for (_, survey) in axis.surveys(from, to) {
                let same = Survey::new(&survey.join, &survey.tile);
                assert_eq!((&survey.reaches, survey.pairs), (&same.reaches, same.pairs));
                assert_eq!(survey.prefixes, same.prefixes);
            }
        }
        for count in [1u32, 2, 3, 10, 100] {
            let mut met = vec![0u64; directions.len()];
            for at in 0..count {
                let point = |at: u32| f64::from(at) / f64::from(count);
                for Part { task, direction, range } in axis.between(point(at), point(at + 1)) {
                    let place = directions.iter().position(|(_, one)| *one == direction).unwrap();
                    met[place] += Survey::new(&task, &range).pairs;
                }
            }
            for ((task, _), met) in directions.iter().zip(met) {
                assert_eq!(met, Survey::new(task, &Tile::whole(task)).pairs, "{count}");
            }
        }
    }
}
