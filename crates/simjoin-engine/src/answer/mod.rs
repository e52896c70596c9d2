//! What becomes of the pairs: a number, rows in order, groups, or a glimpse?

mod count;
mod glimpse;
mod groups;
mod ordered;

pub(crate) use count::Counter;
pub use count::repeats;
pub use glimpse::{Glimpse, GlimpseBin, GlimpsePair};
pub(crate) use glimpse::{Look, Seen};
pub(crate) use groups::Components;
pub(crate) use ordered::RowSink;
pub use ordered::{Ordered, OrderedSink, OutputBuffers};
