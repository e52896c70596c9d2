//! Which tasks does a join on a cluster have, and which of them does a record go to?
//!
//! A layout divides the pairs of sets twice:
//!
//! 1. by their *first common token*: every token belongs to one **group**. A *zone* is a stretch of the
//!    global order; its tokens are spread over the zone's groups. A *heavy* token may have a group of
//!    its own.
//! 2. by their *sizes*: every group cuts sets into **ranges** by (size, a hash of the tokens). A task
//!    is a pair of ranges of one group that the length filter does not exclude.
//!
//! Paper 3 is the case of many groups with one range each: a set goes to the groups of its prefix
//! tokens. The distribution by tiles is the case of one group with many ranges: a set goes to each
//! task of its range, and not once for each token. Heavy tokens are in between: one token has several
//! ranges.
//!
//! # Exactness
//!
//! Every token has one group, and every set has one range in each group. So every pair of sets with a
//! common token has one task, unless the length filter proves that no such pair is similar.
//!
//! The first common token of a similar pair is among the first [`probe_prefix`](Bounds::probe_prefix)
//! tokens of both sets: this length suffices for partners that are not larger, and for larger partners
//! too, because it is at least [`index_prefix`](Bounds::index_prefix). Both sets use it, so both are sent
//! to the group.

use crate::order::Place;
use serde::{Deserialize, Serialize};
use simjoin_core::{Bounds, Error, Measure, Predicate, Result, Side, mix64};
use std::collections::HashMap;

/// A cut between two ranges. Sets are above it if their (size, hash) is not less.
pub type Cut = (u32, u32);

/// The description of a layout, as the planner writes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// `jaccard`, `cosine`, `dice`, `overlap` or `containment`.
    pub measure: String,
    /// The threshold as text.
    pub threshold: String,
    /// Whether one collection is joined with itself.
    pub itself: bool,
    /// Stretches of the global order, by rising places: the end of each (`None`: no end), its first
    /// group, and the number of its groups.
    pub zones: Vec<(Option<Place>, u32, u32)>,
    /// The heavy tokens and their groups.
    #[serde(default)]
    pub heavy: Vec<(Place, u32)>,
    /// For each group, the cuts between its ranges, ascending.
    pub groups: Vec<Vec<Cut>>,
    /// The tasks for GPUs, ascending.
    #[serde(default)]
    pub gpu: Vec<u32>,
}

/// A group and two of its ranges; in a self-join the first is not above the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TaskSpec {
    /// The group.
    pub group: u32,
    /// The range of sets on the left.
    pub left: u32,
    /// The range of sets on the right; in a self-join, the same range for a task that joins it with
    /// itself.
    pub right: u32,
}

/// A layout that can route records.
#[derive(Clone, Debug)]
pub struct Layout {
    predicate: Predicate,
    bounds: Bounds,
    itself: bool,
    zones: Vec<(Option<Place>, u32, u32)>,
    heavy: HashMap<Place, u32, foldhash::fast::FixedState>,
    groups: Vec<Vec<Cut>>,
    tasks: Vec<TaskSpec>,
    gpu: Vec<bool>,
    /// For each group and range: the tasks of a record from the left and from the right input.
    routes: Vec<Vec<[Targets; 2]>>,
}

/// Tasks, and the side of a record there.
type Targets = Vec<(u32, Side)>;

impl Layout {
    /// Reads a layout from a [`Spec`] in JSON.
    pub fn parse(text: &str) -> Result<Self> {
        let spec: Spec = serde_json::from_str(text)
            .map_err(|error| Error::Internal(format!("layout: {error}")))?;
        Self::new(spec)
    }

    /// Makes a layout from its parts.
    pub fn new(spec: Spec) -> Result<Self> {
        let broken = |what: &str| Err(Error::Internal(format!("layout: {what}")));
        let measure = Measure::ALL.into_iter().find(|one| one.name() == spec.measure);
        let Some(measure) = measure else {
            return broken(&format!("unknown measure {:?}", spec.measure));
        };
        let predicate = Predicate::parse(measure, &spec.threshold)?;
        let bounds = Bounds::new(predicate);
        let groups = spec.groups.len() as u64;
        let within = |&(_, first, count): &(Option<Place>, u32, u32)| {
            count > 0 && u64::from(first) + u64::from(count) <= groups
        };
        let ends: Vec<Place> =
            spec.zones.iter().map(|&(end, _, _)| end.unwrap_or(Place::MAX)).collect();
        if !spec.zones.iter().all(within)
            || !ends.is_sorted()
            || spec.zones.last().is_none_or(|&(end, _, _)| end.is_some())
        {
            return broken("zones do not span the order, or name groups that are not there");
        }
        if spec.heavy.iter().any(|&(_, group)| u64::from(group) >= groups) {
            return broken("a heavy token's group is not there");
        }
        if !spec.groups.iter().all(|cuts| cuts.is_sorted_by(|a, b| a < b)) {
            return broken("cuts do not ascend");
        }
        let mut layout = Layout {
            predicate,
            bounds,
            itself: spec.itself,
            zones: spec.zones,
            heavy: spec.heavy.into_iter().collect(),
            groups: spec.groups,
            tasks: Vec::new(),
            gpu: Vec::new(),
            routes: Vec::new(),
        };
        layout.enumerate();
        if layout.tasks.len() > i32::MAX as usize {
            return broken("too many tasks");
        }
        layout.gpu = vec![false; layout.tasks.len()];
        for task in spec.gpu {
            match layout.gpu.get_mut(task as usize) {
                Some(gpu) => *gpu = true,
                None => return broken("a task for a GPU is not there"),
            }
        }
        Ok(layout)
    }

    /// Lists a task for every pair of ranges that the length filter leaves.
    fn enumerate(&mut self) {
        for (group, cuts) in (0u32..).zip(&self.groups) {
            let ranges = cuts.len() as u32 + 1;
            let mut routes = vec![[Targets::new(), Targets::new()]; ranges as usize];
            // The smallest and the largest size in a range.
            let low = |range: u32| if range == 0 { 1 } else { cuts[range as usize - 1].0.max(1) };
            let high = |range: u32| match cuts.get(range as usize) {
                Some(&(size, 0)) => size.saturating_sub(1),
                Some(&(size, _)) => size,
                None => u32::MAX,
            };
            for left in 0..ranges {
                for right in if self.itself { left..ranges } else { 0..ranges } {
                    let (below, above) = (left.min(right), left.max(right));
                    let largest = match high(below) {
                        u32::MAX => u32::MAX,
                        size => self.bounds.max_size(size.max(1)),
                    };
                    if largest < low(above) {
                        continue;
                    }
                    let task = self.tasks.len() as u32;
                    self.tasks.push(TaskSpec { group, left, right });
                    if self.itself {
                        routes[left as usize][0].push((task, Side::Left));
                        if left != right {
                            routes[right as usize][0].push((task, Side::Right));
                        }
                    } else {
                        routes[left as usize][0].push((task, Side::Left));
                        routes[right as usize][1].push((task, Side::Right));
                    }
                }
            }
            self.routes.push(routes);
        }
    }

    /// Returns the predicate.
    pub fn predicate(&self) -> Predicate {
        self.predicate
    }

    /// Its bounds.
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Returns whether one collection is joined with itself.
    pub fn is_self_join(&self) -> bool {
        self.itself
    }

    /// Returns all tasks.
    pub fn tasks(&self) -> &[TaskSpec] {
        &self.tasks
    }

    /// Returns the tasks for CPUs or for GPUs, by rising number.
    pub fn tasks_for(&self, gpu: bool) -> impl Iterator<Item = u32> {
        (0u32..).zip(&self.gpu).filter(move |&(_, own)| *own == gpu).map(|(task, _)| task)
    }

    /// Returns whether all tokens belong to one group. Its tasks then own every pair that they find.
    pub fn has_one_group(&self) -> bool {
        self.groups.len() == 1
    }

    /// Returns the group of a token.
    #[inline]
    pub fn group_of(&self, place: Place) -> u32 {
        if let Some(&group) = self.heavy.get(&place) {
            return group;
        }
        let zone = self.zones.iter().find(|&&(end, _, _)| end.is_none_or(|end| place < end));
        // The last zone has no end.
        zone.map_or(0, |&(_, first, count)| {
            if count == 1 { first } else { first + (mix64(place) % u64::from(count)) as u32 }
        })
    }

    /// Returns the number of a record's tokens that can lead to a partner: the prefix without the unique
    /// tokens, which come first; 0 if the record has no partner.
    #[inline]
    pub fn prefix(&self, size: u32, unique: u32) -> usize {
        if size == 0 {
            return 0;
        }
        self.bounds.probe_prefix(size).saturating_sub(unique) as usize
    }

    /// Calls `receive` with each task of the record and its side in that task. `side` is the
    /// input of the record: 0 for the left or only one, 1 for the right one.
    #[inline]
    pub fn route(
        &self,
        (size, unique, places): (u32, u32, &[Place]),
        side: usize,
        groups: &mut Vec<u32>,
        mut receive: impl FnMut(u32, Side),
    ) {
        let prefix = self.prefix(size, unique);
        if prefix == 0 {
            return;
        }
        groups.clear();
        if self.has_one_group() {
            groups.push(0);
        } else {
            groups.extend(places.iter().take(prefix).map(|&place| self.group_of(place)));
            groups.sort_unstable();
            groups.dedup();
        }
        let cut = (size, tie(places));
        for &group in &*groups {
            let range = self.groups[group as usize].partition_point(|&other| other <= cut);
            for &(task, place) in &self.routes[group as usize][range][side] {
                receive(task, place);
            }
        }
    }
}

/// Returns a hash of the tokens, which divides sets of one size. Equal sets have equal ones, so
/// they stay together, and a task joins them once.
#[inline]
pub fn tie(places: &[Place]) -> u32 {
    let hash = places.iter().fold(0u64, |hash, &place| mix64(hash.rotate_left(5) ^ place));
    // At least 1: a cut with hash 0 lies between two sizes.
    ((hash >> 32) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn spec(groups: Vec<Vec<Cut>>) -> Spec {
        let count = groups.len() as u32;
        Spec {
            measure: "jaccard".into(),
            threshold: "0.8".into(),
            itself: true,
            zones: vec![(None, 0, count)],
            heavy: Vec::new(),
            groups,
            gpu: Vec::new(),
        }
    }

    #[test]
    fn tasks_are_the_range_pairs_that_the_length_filter_leaves() {
        let layout =
            Layout::new(spec(vec![vec![(10, 0), (12, 0), (12, 1 << 31), (20, 0)]])).unwrap();
        let tasks: Vec<_> = layout.tasks().iter().map(|task| (task.left, task.right)).collect();
        // Sizes 1–9, 10–11, 12, 12, 12–19, 20–: 9 reaches 11, 11 reaches 13, 12 reaches 15, 19 all.
        assert_eq!(
            tasks,
            [(0, 0), (0, 1), (1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3), (3, 4), (4, 4)]
        );
        let two =
            Layout::new(Spec { itself: false, ..spec(vec![vec![(10, 0), (20, 0)]]) }).unwrap();
        assert_eq!(two.tasks().len(), 7);
    }

    #[test]
    fn errors_name_the_broken_part_of_a_layout() {
        let said = |spec: Spec| Layout::new(spec).unwrap_err().to_string();
        assert!(said(Spec { measure: "hamming".into(), ..spec(vec![vec![]]) }).contains("hamming"));
        assert!(said(Spec { threshold: "2".into(), ..spec(vec![vec![]]) }).contains("above 1"));
        assert!(said(Spec { zones: vec![], ..spec(vec![vec![]]) }).contains("zones"));
        assert!(said(Spec { zones: vec![(None, 0, 2)], ..spec(vec![vec![]]) }).contains("zones"));
        assert!(said(Spec { heavy: vec![(3, 9)], ..spec(vec![vec![]]) }).contains("heavy"));
        assert!(said(spec(vec![vec![(3, 0), (3, 0)]])).contains("ascend"));
        assert!(said(Spec { gpu: vec![5], ..spec(vec![vec![]]) }).contains("GPU"));
        assert!(Layout::parse("{").unwrap_err().to_string().contains("layout"));
    }
}
