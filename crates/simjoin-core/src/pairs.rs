//! How do pairs leave a technique?
//!
//! A technique *pushes* batches of [`SetPair`]s into a [`Sink`] and never formats, stores or
//! counts them itself. Pairs are between distinct sets; the owner of the sink expands them to the
//! rows that hold those sets. The sink may return `Break`, and the technique stops.

use crate::SetId;
use std::ops::ControlFlow;

/// Two sets that satisfy the predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetPair {
    /// The probing set: the larger of the two, or equal in size.
    pub probe: SetId,
    /// The set that was found.
    pub build: SetId,
    /// `|probe ∩ build|`, exact when the sink wants overlaps; otherwise a lower bound that
    /// satisfies the predicate.
    pub overlap: u32,
}

/// One of the two inputs of a join.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The first input, and the only one of a self-join.
    #[default]
    Left,
    /// The second input.
    Right,
}

impl Side {
    /// Returns the name used in outputs.
    pub fn name(self) -> &'static str {
        match self {
            Side::Left => "left",
            Side::Right => "right",
        }
    }
}

/// A pair of rows of the input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowPair {
    /// The row in the left input; in a self-join, the smaller of the two row numbers.
    pub left: u32,
    /// The row in the right input; in a self-join, the larger of the two row numbers.
    pub right: u32,
    /// The number of tokens that the two rows share.
    pub overlap: u32,
    /// Their similarity, for display only: the decision was made in integers. For vectors, their distance.
    pub similarity: f64,
    /// The input that holds the row `left`: the right one for a pair within the right input.
    pub left_input: Side,
}

/// Two vectors that satisfy the predicate. Devices write this layout.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct VectorPair {
    /// The row of the probing vector.
    pub probe: u32,
    /// The row of the vector that was found. In a self-join a pair comes once, in either order.
    pub build: u32,
    /// Their distance if the sink wants distances; otherwise unspecified.
    pub distance: f64,
}

/// Takes the pairs that a technique finds: [`SetPair`]s or [`VectorPair`]s.
pub trait Sink<P> {
    /// Returns whether the overlap or the distance of each pair must be exact. A sink that only counts returns
    /// false; verification may then stop as soon as the decision is certain.
    fn wants_value(&self) -> bool;

    /// Returns whether the technique should stop. Techniques ask regularly, even if they find no pairs.
    fn stopped(&self) -> bool {
        false
    }

    /// Returns whether [`count`](Self::count) suffices, so that a device need not send the pairs.
    fn only_counts(&self) -> bool {
        false
    }

    /// Adds a number of pairs of rows, instead of the pairs themselves. Called only if
    /// [`only_counts`](Self::only_counts) returns true.
    fn count(&mut self, _rows: u64) {}

    /// Takes a batch of pairs. `Break` asks the technique to stop.
    fn push(&mut self, pairs: &[P]) -> ControlFlow<()>;
}

/// A sink that only counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct VectorCount(pub u64);

impl Sink<VectorPair> for VectorCount {
    fn wants_value(&self) -> bool {
        false
    }

    fn only_counts(&self) -> bool {
        true
    }

    fn count(&mut self, pairs: u64) {
        self.0 += pairs;
    }

    fn push(&mut self, pairs: &[VectorPair]) -> ControlFlow<()> {
        self.0 += pairs.len() as u64;
        ControlFlow::Continue(())
    }
}
