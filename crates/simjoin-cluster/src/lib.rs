//! How is a join divided over machines that share nothing?
//!
//! This crate does one machine's part of a join whose input no machine holds alone. It knows
//! neither Spark nor Python: it takes Arrow columns and returns blocks of bytes and Arrow batches.
//!
//! ```text
//!  every partition of the input                      one place                  every task
//!  ──────────────────────────────────────────────────────────────────────────────────────────────
//!  TokenCounter: tokens, sizes, a sample  ─sum by token─►  TokenOrder, Layout
//!  Router: each record to the tasks where it may have a partner ──── blocks ────►  Task: join, keep
//! ```
//!
//! * [`keys`]: a hash identifies a token. [`count`] checks that no two tokens have the same hash.
//! * [`order`]: the global order of tokens by rising frequency.
//! * [`layout`]: the list of tasks, and the tasks that a record goes to. The papers' distribution
//!   by prefix tokens and their distribution by ranges of sizes are two settings of a layout.
//! * [`route`], [`block`]: records on their way to tasks.
//! * [`task`]: the engine joins the records that have arrived at a task.
//! * [`sample`]: the cost of a layout, measured on a sample of the records.
//!
//! # Exactness
//!
//! Two similar sets have a first common token in the global order, and this token is in the prefix of
//! both. A token belongs to one group, and a pair of sizes belongs to one task of that group. So
//! exactly one task owns the pair. Both records go to that task, because a record goes to those tasks
//! of the groups of its prefix tokens that its size belongs to. Every task reports only the pairs that
//! it owns. So every layout finds every pair exactly once.

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
pub use task::{Task, TaskOptions};
