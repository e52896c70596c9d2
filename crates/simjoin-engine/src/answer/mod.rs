//! What becomes of the pairs: a number, rows in order, groups, or a glimpse?
//!
//! An [`Answer`] makes a sink for each thread and each task, and is complete when the executor has run. What a device
//! finds waits until its range is complete (`run/staging.rs`), so a sink may be asked to
//! [absorb](AnswerSink::absorb) pairs that will be found again.

mod count;
mod glimpse;
mod groups;
mod ordered;

pub(crate) use count::Counter;
pub(crate) use glimpse::Watched;
pub use glimpse::{Glimpse, GlimpseBin, GlimpsePair};
pub(crate) use groups::Components;
pub(crate) use ordered::{Ordered, OutputBuffers};

use crate::kind::{Direction, Kind, Task};
use simjoin_core::Sink;
use std::ops::ControlFlow;

/// What the user wants out of a join.
pub trait Answer<K: Kind>: Sync {
    /// Takes the pairs of one thread.
    type Sink<'s>: AnswerSink<K::Pair>
    where
        Self: 's;

    /// Makes the sink of one thread for one task.
    fn sink<'s>(&'s self, task: &Task<'s, K>, direction: Direction) -> Self::Sink<'s>;
}

/// A sink for one thread that is told where pieces begin and end. Pieces are numbered from 0 over the whole join.
pub trait AnswerSink<P>: Sink<P> {
    /// Begins a piece.
    fn begin(&mut self, _piece: usize) {}

    /// Ends it.
    fn end(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Applies the part of a batch that may safely be applied twice, and returns how many pairs of rows to
    /// [count](Sink::count) once the range is complete; `None` if this sink needs the pairs themselves.
    fn absorb(&mut self, pairs: &[P]) -> Option<u64>;
}
