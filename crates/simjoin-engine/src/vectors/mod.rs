//! Which vectors meet which, and what is known about them beforehand?

use crate::kind::{Order, Task, Vectors};
use simjoin_core::{VectorCollection, VectorPredicate};

/// Rows of a stripe, which is what CPU cores and devices share: as many as a device has tiles of next to each other.
pub const STRIPE: usize = 2048;

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

    /// How many pairs there are to decide about.
    pub fn pairs(&self) -> f64 {
        let (probes, builds) = (self.probe.len() as f64, self.build.len() as f64);
        if self.is_self_join() { probes * (probes - 1.0).max(0.0) / 2.0 } else { probes * builds }
    }

    /// The dimension of both sides.
    pub fn dimension(&self) -> usize {
        self.probe.dimension()
    }
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
    /// Whether f32 tells anything about distances as small as the threshold.
    pub telling: bool,
}
