//! Which vectors meet which, and what is known about them beforehand?
//!
//! Some techniques do a task only as a whole. Others do it in *stripes* of [`STRIPE`] probes with all that these
//! meet, so CPU cores and devices can share a task stripe by stripe.

mod images;
mod joined;
mod lengths;
mod rotation;
mod sample;
mod stripes;

pub use images::{Fit, LIMITED, Limits, Recipe, Transform, draw, radii};
pub use lengths::{check_directions, no_direction, squared_lengths};
pub(crate) use sample::estimate_pairs;
pub(crate) use stripes::Striped;

use crate::kind::{Direction, Kind, Order, Task, Work};
use simjoin_core::{RowPair, Side, VectorCollection, VectorPair, VectorPredicate};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Rows of a stripe: as many as a device has tiles of next to each other.
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

    fn predicate(wanted: VectorPredicate) -> VectorPredicate {
        wanted
    }

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
        let stripes = probes.len().div_ceil(STRIPE);
        let each = stripes.div_ceil(parts.clamp(1, stripes.max(1))).max(1) * STRIPE;
        let starts = probes.clone().step_by(each);
        starts.map(|start| start..probes.end.min(start.saturating_add(each as u32))).collect()
    }

    fn ends(pair: &VectorPair) -> (u32, u32) {
        (pair.probe, pair.build)
    }

    fn can_count(task: &VectorTask<'_>) -> bool {
        !task.probe.has_repeats() && !task.build.has_repeats()
    }

    fn rows(task: &VectorTask<'_>, pairs: &[VectorPair]) -> u64 {
        if Self::can_count(task) {
            return pairs.len() as u64;
        }
        let rows = |pair: &VectorPair| {
            u64::from(task.probe.weight(pair.probe)) * u64::from(task.build.weight(pair.build))
        };
        pairs.iter().map(rows).sum()
    }

    #[inline]
    fn expand(
        task: &VectorTask<'_>,
        direction: Direction,
        pairs: &[VectorPair],
        mut push: impl FnMut(RowPair) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for &VectorPair { probe, build, distance } in pairs {
            task.probe.try_rows(probe, |a| {
                task.build.try_rows(build, |b| {
                    let (left, right) = direction.left_and_right(a, b);
                    push(row_pair(left, right, distance, Side::Left))
                })
            })?;
        }
        ControlFlow::Continue(())
    }

    #[inline]
    fn shown(task: &VectorTask<'_>, direction: Direction, pair: &VectorPair) -> (RowPair, bool) {
        let (probe, build) = (task.probe.first_row(pair.probe), task.build.first_row(pair.build));
        let (left, right) = direction.left_and_right(probe, build);
        (row_pair(left, right, pair.distance, Side::Left), false)
    }

    fn sizes(vectors: &VectorCollection) -> (usize, usize) {
        (vectors.len(), vectors.records())
    }

    // A vector is at distance 0 from itself, which every predicate accepts.
    fn unsearched(task: &VectorTask<'_>, direction: Direction) -> u64 {
        repeated(task, direction).map(|rows| pairs_among(rows.len())).sum()
    }

    fn visit_unsearched(
        task: &VectorTask<'_>,
        direction: Direction,
        mut visit: impl FnMut(RowPair, u64, bool),
    ) {
        let side = direction.input_of_left();
        for rows in repeated(task, direction) {
            visit(row_pair(rows[0], rows[1], 0.0, side), pairs_among(rows.len()), false);
        }
    }

    fn expand_unsearched(
        task: &VectorTask<'_>,
        direction: Direction,
        mut push: impl FnMut(RowPair) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let side = direction.input_of_left();
        for rows in repeated(task, direction) {
            for (at, &left) in rows.iter().enumerate() {
                for &right in &rows[at + 1..] {
                    push(row_pair(left, right, 0.0, side))?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn label_rows(
        vectors: &VectorCollection,
        _: &VectorPredicate,
        mut component: impl FnMut(u32) -> u32,
    ) -> Vec<u32> {
        // Entries are in the order of their first rows, so the smallest entry has the smallest row.
        let label = |row| vectors.first_row(component(vectors.entry_of(row)));
        (0..vectors.records() as u32).map(label).collect()
    }
}

fn row_pair(left: u32, right: u32, distance: f64, left_input: Side) -> RowPair {
    RowPair { left, right, overlap: 0, similarity: distance, left_input }
}

/// Returns the rows of each entry that stands in several rows, if a direction joins a collection with itself.
fn repeated<'a>(
    task: &VectorTask<'a>,
    direction: Direction,
) -> impl Iterator<Item = &'a [u32]> + use<'a> {
    let itself = direction.is_itself().then_some(task.probe);
    itself.into_iter().flat_map(VectorCollection::repeated)
}

/// Counts the pairs among some rows.
fn pairs_among(rows: usize) -> u64 {
    rows as u64 * (rows as u64 - 1) / 2
}

/// What a first look at the vectors has shown; nothing where none was needed.
#[derive(Clone, Default)]
pub(crate) struct VectorKnown {
    pub(crate) survey: Option<VectorSurvey>,
    pub(crate) fit: Option<Arc<Fit>>,
}

/// What a sample says about a join.
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
    /// How many of them are compared first.
    pub head: usize,
    /// Whether images are rotated.
    pub rotated: bool,
    /// The part of pairs in panels whose boxes are near each other.
    pub boxes: f64,
    /// The part of pairs near by the head of their images.
    pub near_by_head: f64,
    /// The part of pairs near by their images.
    pub near_by_image: f64,
    /// The part of pairs in neighbouring cells of a grid, where one can be laid.
    pub cells: Option<f64>,
}
