//! Which sets are to be compared with which?
//!
//! Every join is made of the same shape: each *probe* set meets a contiguous range of *build*
//! sets, none of them larger than itself. Both ends of that range rise with the probe.
//!
//! * A self-join is one such join of a collection with itself, [`Order::Before`]: each set meets
//!   the sets before it, which are no larger.
//! * A join of R with S is two: R probes S for sets up to its own size ([`Order::NotLarger`]), then
//!   S probes R for sets that are smaller ([`Order::Smaller`]). Each pair is met exactly once, and
//!   the smaller set is always the indexed one, which allows the shorter index prefix.
//! * New records against old ones are these two and the self-join of the new ones; old records
//!   never meet old ones.

use simjoin_core::{Bounds, SetCollection, SetId};
use std::ops::Range;

/// Which build sets a probe meets, apart from the length filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The sets before the probe, in the same collection.
    Before,
    /// The sets no larger than the probe.
    NotLarger,
    /// The sets smaller than the probe.
    Smaller,
}

/// Which side of what the user asked for probes which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The left side with itself.
    LeftItself,
    /// The left side looks for partners on the right.
    LeftProbes,
    /// The right side looks for partners on the left.
    RightProbes,
    /// The right side with itself.
    RightItself,
}

impl Part {
    /// Whether this is a self-join.
    pub fn is_itself(self) -> bool {
        matches!(self, Part::LeftItself | Part::RightItself)
    }
}

/// Probe sets, build sets, and the bounds that a pair must satisfy.
#[derive(Clone, Copy, Debug)]
pub struct Join<'a> {
    /// The sets that look for partners.
    pub probe: &'a SetCollection,
    /// The sets that are found. The same collection as `probe` in a self-join.
    pub build: &'a SetCollection,
    /// What a pair must satisfy.
    pub bounds: Bounds,
    /// Which build sets a probe meets.
    pub order: Order,
}

impl<'a> Join<'a> {
    /// The joins that make up a self-join (one) or a join of two collections (two, and a third for
    /// the right one `with_itself`).
    pub fn parts(
        left: &'a SetCollection,
        right: Option<&'a SetCollection>,
        with_itself: bool,
        bounds: Bounds,
    ) -> Vec<(Join<'a>, Part)> {
        let join = |probe, build, order| Join { probe, build, bounds, order };
        let Some(right) = right else {
            return vec![(join(left, left, Order::Before), Part::LeftItself)];
        };
        let mut parts = vec![
            (join(left, right, Order::NotLarger), Part::LeftProbes),
            (join(right, left, Order::Smaller), Part::RightProbes),
        ];
        if with_itself {
            parts.push((join(right, right, Order::Before), Part::RightItself));
        }
        parts
    }

    /// The build sets that a probe set has to meet: those that the order and the length filter
    /// leave. The length filter loses nothing: a smaller set cannot reach the required overlap
    /// even if it is wholly contained.
    pub fn partners(&self, probe: SetId) -> Range<SetId> {
        let size = self.probe.size(probe);
        let end = match self.order {
            Order::Before => probe,
            Order::NotLarger => self.build.first_of_size(size + 1),
            Order::Smaller => self.build.first_of_size(size),
        };
        let start = self.build.first_of_size(self.bounds.min_size(size));
        start.min(end)..end
    }
}
