//! What does a technique for vectors promise?
//!
//! The same as one for sets, in smaller words: a [`VectorTechnique`] prepares a join once (an index,
//! say) and cuts it into pieces; each thread makes a [`VectorWorker`] and takes pieces in rising order.
//! The pieces together push every pair that satisfies the predicate, once, and no other. A device is a
//! technique like any other: its pieces are the tiles that it is sent.
//!
//! [`VectorSurvey`] is what techniques estimate their [cost](VectorTechnique::cost) from: parts of all
//! pairs that get past each filter, in a sample.

use simjoin_core::{Result, VectorCollection, VectorPredicate, VectorSink};
use std::ops::ControlFlow;

/// Which vectors meet which.
#[derive(Clone, Copy, Debug)]
pub struct VectorJoin<'a> {
    /// The vectors that look for partners.
    pub probe: &'a VectorCollection,
    /// Those that are found. In a self-join the same collection.
    pub build: &'a VectorCollection,
    /// Whether it is a self-join: each unordered pair of rows counts once, and no row meets itself.
    pub itself: bool,
    /// Which pairs are wanted.
    pub predicate: VectorPredicate,
}

impl VectorJoin<'_> {
    /// How many pairs there are to decide about.
    pub fn pairs(&self) -> f64 {
        let (probes, builds) = (self.probe.len() as f64, self.build.len() as f64);
        if self.itself { probes * (probes - 1.0).max(0.0) / 2.0 } else { probes * builds }
    }

    /// The dimension of both sides.
    pub fn dimension(&self) -> usize {
        self.probe.dimension()
    }
}

/// How large things may become, and for how many workers.
#[derive(Clone, Copy, Debug)]
pub struct VectorRoom {
    /// Bytes for what is prepared and for all workers.
    pub bytes: u64,
    /// How many workers there will be.
    pub threads: usize,
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

/// A way to join vectors.
pub trait VectorTechnique: Send + Sync {
    /// The name used on the command line and in statistics.
    fn name(&self) -> &'static str;

    /// Whether it runs on devices.
    fn on_device(&self) -> bool {
        false
    }

    /// Seconds on one core of the machine that the constants were measured on, or on the devices; `None`
    /// where the technique cannot do it.
    fn cost(&self, survey: &VectorSurvey) -> Option<f64>;

    /// Bytes that [`prepare`](Self::prepare) and `threads` workers take.
    fn memory_bytes(&self, join: &VectorJoin<'_>, threads: usize) -> u64;

    /// Prepares a join, on the current rayon pool. The order of the pairs of all pieces together does
    /// not depend on the number of threads.
    fn prepare<'a>(
        &self,
        join: &VectorJoin<'a>,
        room: &VectorRoom,
    ) -> Result<Box<dyn PreparedVectors + 'a>>;
}

/// A join prepared for probing.
pub trait PreparedVectors: Send + Sync {
    /// What was decided in preparing it, in a few words.
    fn details(&self) -> String {
        String::new()
    }

    /// How many pieces there are.
    fn pieces(&self) -> usize;

    /// How many workers are of use.
    fn workers(&self) -> usize {
        usize::MAX
    }

    /// A worker for one thread.
    fn worker<'a>(&'a self) -> Box<dyn VectorWorker + 'a>;

    /// The number of pairs, estimated from some of the pieces; `None` where that takes as long as
    /// finding them.
    fn estimate(&self) -> Option<f64> {
        None
    }
}

/// One thread's working space.
pub trait VectorWorker {
    /// Pushes every pair of the piece that satisfies the predicate. `Break` when the sink had enough.
    fn run(&mut self, piece: usize, sink: &mut dyn VectorSink) -> Result<ControlFlow<()>>;

    /// How many pairs this worker has handed to the predicate so far.
    fn candidates(&self) -> u64;
}
