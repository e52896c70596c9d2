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

use crate::kind::{Order, Sets, Task};
use simjoin_core::{Bounds, SetCollection, SetId};
use std::ops::Range;

/// Which side of what the user asked for probes which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The left side with itself.
    LeftItself,
    /// The left side looks for partners on the right.
    LeftProbes,
    /// The right side looks for partners on the left.
    RightProbes,
    /// The right side with itself.
    RightItself,
}

impl Direction {
    /// Whether this is a self-join.
    pub fn is_itself(self) -> bool {
        matches!(self, Direction::LeftItself | Direction::RightItself)
    }
}

/// Which sets meet which.
pub type SetTask<'a> = Task<'a, Sets>;

impl<'a> SetTask<'a> {
    /// The joins that make up a self-join (one) or a join of two collections (two, and a third for
    /// the right one `with_itself`).
    pub fn parts(
        left: &'a SetCollection,
        right: Option<&'a SetCollection>,
        with_itself: bool,
        bounds: Bounds,
    ) -> Vec<(SetTask<'a>, Direction)> {
        let join = |probe, build, order| SetTask { probe, build, predicate: bounds, order };
        let Some(right) = right else {
            return vec![(join(left, left, Order::Before), Direction::LeftItself)];
        };
        let mut parts = vec![
            (join(left, right, Order::NotLarger), Direction::LeftProbes),
            (join(right, left, Order::Smaller), Direction::RightProbes),
        ];
        if with_itself {
            parts.push((join(right, right, Order::Before), Direction::RightItself));
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
        let start = self.build.first_of_size(self.predicate.min_size(size));
        start.min(end)..end
    }
}
