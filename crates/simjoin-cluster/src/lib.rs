//! How is a join divided over machines that share nothing?
//!
//! Everything here is about one machine's part of a join that no machine sees as a whole. It knows
//! neither Spark nor Python: it takes Arrow columns and gives blocks of bytes and Arrow batches.
//!
//! ```text
//!  every partition of the input                      one place                  every task
//!  ──────────────────────────────────────────────────────────────────────────────────────────────
//!  TokenCounter: tokens, sizes, a sample  ─sum by token─►  TokenOrder, Layout
//!  Router: each record to the tasks where it may have a partner ──── blocks ────►  Task: join, keep
//! ```
//!
//! * [`keys`]: a token is known by a hash that was checked to be one of a kind ([`count`]).
//! * [`order`]: the global order of tokens by rising frequency.
//! * [`layout`]: which tasks there are, and to which of them a record goes. The papers' distribution
//!   by prefix tokens and the one by ranges of sizes are two settings of it.
//! * [`route`], [`block`]: records on their way to tasks.
//! * [`task`]: the join of what has arrived, by the engine.
//! * [`sample`]: what a layout would cost, measured on a sample of the records.
//!
//! # Exactness
//!
//! Two similar sets have a first common token in the global order, and it stands in the prefix of
//! both. A token belongs to one group, and a pair of sizes to one task of that group. So exactly one
//! task owns the pair; both records go there, because a record goes to the tasks of all groups of its
//! prefix tokens that its size belongs to; and every task reports only the pairs that it owns. So
//! no pair is lost and none is found twice, whatever the layout.

#![forbid(unsafe_code)]

pub mod block;
pub mod count;
pub mod keys;
pub mod layout;
pub mod order;
pub mod records;
pub mod route;
pub mod sample;
pub mod task;

pub use count::TokenCounter;
pub use keys::Keys;
pub use layout::{Layout, Spec};
pub use order::TokenOrder;
pub use records::Records;
pub use route::Router;
pub use sample::{Load, Sample};
pub use task::{Options, Task};
