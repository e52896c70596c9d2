//! Which vectors meet which, and what is known about them beforehand?
//!
//! Some techniques do a task only as a whole. Others do it in *stripes* of [`STRIPE`] probes with all that these
//! meet, so CPU cores and devices can share a task stripe by stripe.

mod images;
mod joined;
mod lengths;
mod rotation;
mod sample;

pub use images::{Fit, LIMITED, Limits, Transform, draw, radii};
pub use lengths::{check_directions, no_direction, squared_lengths};
pub(crate) use sample::estimate_pairs;

use crate::kind::{Direction, Entries, Kind, Order, Task, Work, cut_probes};
use simjoin_core::{VectorCollection, VectorPair, VectorPredicate};
use std::ops::Range;
use std::sync::Arc;

/// Rows of a stripe: those of the tiles that a device compares together.
pub const STRIPE: usize = 2048;

/// Vectors of numbers.
#[derive(Clone, Copy, Debug)]
pub enum Vectors {}

/// Which vectors meet which.
pub type VectorTask<'a> = Task<'a, Vectors>;

impl<'a> VectorTask<'a> {
    /// Returns the join of a collection with itself, or of two.
    pub fn new(
        left: &'a VectorCollection,
        right: Option<&'a VectorCollection>,
        predicate: VectorPredicate,
    ) -> Self {
        let order = if right.is_some() { Order::NotLarger } else { Order::Before };
        Task { probe: left, build: right.unwrap_or(left), predicate, order }
    }

    /// Returns the number of pairs to decide about.
    pub fn pairs(&self) -> f64 {
        self.pairs_of(&(0..self.probe.len() as u32))
    }

    /// Returns the number of pairs of some probes.
    pub(crate) fn pairs_of(&self, probes: &Range<u32>) -> f64 {
        let (rows, builds) = (probes.len() as f64, self.build.len() as f64);
        match self.is_self_join() {
            // Each meets those after it.
            true => rows * (builds - f64::from(probes.start) - (rows + 1.0) / 2.0).max(0.0),
            false => rows * builds,
        }
    }

    /// Returns the dimension of both sides.
    pub fn dimension(&self) -> usize {
        self.probe.dimension()
    }
}

impl Kind for Vectors {
    type Collection = VectorCollection;
    type Wanted = VectorPredicate;
    type Predicate = VectorPredicate;
    type Pair = VectorPair;
    /// Some of the probes: a whole number of stripes, or all.
    type Range = Range<u32>;
    type Survey<'a> = VectorSurvey;

    fn directions<'a>(
        left: &'a VectorCollection,
        right: Option<&'a VectorCollection>,
        _: bool,
        predicate: VectorPredicate,
    ) -> Vec<(VectorTask<'a>, Direction)> {
        let direction = if right.is_some() { Direction::LeftProbes } else { Direction::LeftItself };
        vec![(VectorTask::new(left, right, predicate), direction)]
    }

    fn whole(task: &VectorTask<'_>) -> Range<u32> {
        0..task.probe.len() as u32
    }

    const STEP: u32 = STRIPE as u32;

    fn sections(task: &VectorTask<'_>) -> Vec<(Range<u32>, [u64; 2])> {
        let stripes = Self::cut(task, &Self::whole(task), usize::MAX).into_iter();
        let work = |probes: &Range<u32>| {
            let Work { pairs, tokens, .. } = Self::work(task, probes);
            [pairs, tokens]
        };
        stripes.map(|probes| (probes.clone(), work(&probes))).collect()
    }

    fn range_of(_: &VectorTask<'_>, probes: Range<u32>) -> Option<Range<u32>> {
        Some(probes)
    }

    fn probes(probes: &Range<u32>) -> Range<u32> {
        probes.clone()
    }

    fn work(task: &VectorTask<'_>, probes: &Range<u32>) -> Work {
        let dimension = task.dimension() as u32;
        Work {
            probes: probes.clone(),
            probe_sizes: (dimension, dimension),
            build_sizes: (dimension, dimension),
            pairs: task.pairs_of(probes) as u64,
            tokens: probes.len() as u64 * u64::from(dimension),
        }
    }

    fn cut(_: &VectorTask<'_>, probes: &Range<u32>, parts: usize) -> Vec<Range<u32>> {
        cut_probes(probes, STRIPE, parts)
    }

    fn ends(pair: &VectorPair) -> (u32, u32) {
        (pair.probe, pair.build)
    }

    fn can_count(task: &VectorTask<'_>) -> bool {
        !task.probe.has_repeats() && !task.build.has_repeats()
    }

    #[inline]
    fn value(_: &VectorTask<'_>, pair: &VectorPair) -> (u32, f64) {
        (0, pair.distance)
    }

    /// Returns a pair: every predicate accepts the distance 0.
    fn self_pair(_: &VectorCollection, _: &VectorPredicate, entry: u32) -> Option<VectorPair> {
        Some(VectorPair { probe: entry, build: entry, distance: 0.0 })
    }
}

impl Entries for VectorCollection {
    fn sizes(&self) -> (usize, usize) {
        (self.len(), self.records())
    }

    fn has_repeats(&self) -> bool {
        self.has_repeats()
    }

    #[inline]
    fn rows<'r>(&'r self, entry: &'r u32) -> &'r [u32] {
        self.rows(entry)
    }
}

/// What a first look at the vectors has shown; nothing where none was needed.
#[derive(Clone, Default)]
pub(crate) struct VectorKnown {
    pub(crate) survey: Option<VectorSurvey>,
    pub(crate) fit: Option<Arc<Fit>>,
}

/// What a sample shows about a join.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VectorSurvey {
    /// Rows of both sides.
    pub rows: (f64, f64),
    /// Pairs to decide about.
    pub pairs: f64,
    /// The dimension.
    pub dimension: usize,
    /// Coordinates of an image; fewer than the dimension where a rotation leaves little in the rest.
    pub coordinates: usize,
    /// The number of them that are compared first.
    pub head: usize,
    /// Whether images are rotated.
    pub rotated: bool,
    /// The share of pairs in panels whose boxes are near each other.
    pub boxes: f64,
    /// The share of pairs that are near by the head of their images.
    pub near_by_head: f64,
    /// The share of pairs that are near by their images.
    pub near_by_image: f64,
    /// The share of pairs in neighbouring cells of a grid, where there can be one.
    pub cells: Option<f64>,
}
