//! Where does each probe lie on the axis of a join's work?
//!
//! The probes of all directions of a join follow one another on an axis from 0 to 1, each direction in rising order.
//! The position of a point is the share of the work before it: the mean of the shares of pairs that may meet and of
//! tokens. (By pairs alone, half of the tokens of a collection with a few large sets could lie within a thousandth of
//! the axis.) Positions follow from sizes alone; no row is read.
//!
//! No pair is lost: every probe lies in exactly one interval between neighbouring points, and meets there all builds
//! that it reaches.

use crate::kind::{Direction, Kind, Task, work_share};

/// A part of a join.
#[derive(Clone)]
pub(crate) struct Part<'a, K: Kind> {
    pub(crate) task: Task<'a, K>,
    pub(crate) direction: Direction,
    pub(crate) range: K::Range,
}

/// Neighbouring probes of one direction with about the same work each.
#[derive(Clone, Copy, Debug)]
struct Section {
    /// Its direction, by its place.
    direction: usize,
    first: u32,
    end: u32,
    /// The share of the work before it, and in it.
    before: f64,
    work: f64,
}

/// The probes of all directions of a join on an axis.
#[derive(Clone)]
pub(crate) struct Axis<'a, K: Kind> {
    directions: Vec<(Task<'a, K>, Direction)>,
    sections: Vec<Section>,
}

impl<'a, K: Kind> Axis<'a, K> {
    /// Puts the probes of these directions on an axis.
    pub(crate) fn new(directions: &[(Task<'a, K>, Direction)]) -> Self {
        let all = directions.iter().enumerate();
        let all: Vec<_> = all
            .flat_map(|(at, (task, _))| {
                K::sections(task).into_iter().map(move |(probes, work)| (at, probes, work))
            })
            .collect();
        let whole =
            all.iter().fold([0; 2], |sum, (_, _, work)| [sum[0] + work[0], sum[1] + work[1]]);
        let mut before = 0.0;
        let sections = all.into_iter().map(|(direction, probes, work)| {
            let work = work_share(work, whole).unwrap_or(0.0);
            let section = Section { direction, first: probes.start, end: probes.end, before, work };
            before += work;
            section
        });
        Axis { sections: sections.collect(), directions: directions.to_vec() }
    }

    /// Returns the probes between two points, as one part for each direction that has some. Neighbouring intervals
    /// neither overlap nor leave gaps.
    pub(crate) fn between(&self, from: f64, to: f64) -> Vec<Part<'a, K>> {
        let (from, to) = (self.at(from), self.at(to));
        let part = |(at, &(task, direction)): (usize, &(Task<'a, K>, Direction))| {
            let mut own = self.sections.iter().filter(|section| section.direction == at);
            let first = own.next()?;
            let end = own.next_back().unwrap_or(first).end;
            // Where another direction has the point, all of this one lies before or after it.
            let clip = |(direction, probe): (usize, u32)| match direction.cmp(&at) {
                std::cmp::Ordering::Less => first.first,
                std::cmp::Ordering::Equal => probe.clamp(first.first, end),
                std::cmp::Ordering::Greater => end,
            };
            let probes = clip(from)..clip(to);
            let range = if probes.is_empty() { None } else { K::range_of(&task, probes) };
            range.map(|range| Part { task, direction, range })
        };
        self.directions.iter().enumerate().filter_map(part).collect()
    }

    /// Returns the place of a point: a direction and the probe of it before which the point lies.
    fn at(&self, point: f64) -> (usize, u32) {
        let next = self.sections.partition_point(|section| section.before <= point);
        let Some(section) = self.sections.get(next.saturating_sub(1)) else { return (0, 0) };
        if point <= 0.0 {
            return (0, 0);
        }
        if point >= 1.0 {
            return (usize::MAX, 0);
        }
        let inside = ((point - section.before) / section.work.max(f64::MIN_POSITIVE)).min(1.0);
        let probes = section.end - section.first;
        let steps = (f64::from(probes) * inside / f64::from(K::STEP)).round() as u32;
        (section.direction, section.first + steps.saturating_mul(K::STEP).min(probes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::tile::tests::collections;
    use crate::sets::{SetTask, Survey, Tile};
    use simjoin_core::{Bounds, Measure, Predicate};

    #[test]
    fn neighbouring_points_share_nothing_and_leave_nothing_out() {
        let (left, right) = collections(&[3, 3, 3, 4, 4, 5, 9, 9], Some(&[3, 4, 4, 5, 9, 10, 10]));
        let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.5").unwrap());
        let directions = SetTask::directions(&left, right.as_ref(), true, bounds);
        let axis = Axis::new(&directions);
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
