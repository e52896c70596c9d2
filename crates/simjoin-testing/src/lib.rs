//! What do tests of joins share?
//!
//! * `generators.rs`: random rows and predicates.
//! * `oracle.rs`: the similar pairs by definition. It shares no code with the engine.
//! * `run.rs`: runs one technique on one tile, without a plan.
//!
//! Crates depend on it for their tests only.

#![forbid(unsafe_code)]

mod generators;
mod oracle;
mod run;

pub use generators::{edited, near_duplicates, predicate, rows};
pub use oracle::{Found, brute_force, similar};
pub use run::{count, run, run_on};

use simjoin_core::{RawSets, SetCollection, prepare};
use std::collections::BTreeSet;

/// The rows of an input, each a set of tokens.
pub type Rows = Vec<BTreeSet<u32>>;

/// Makes a collection of each input.
pub fn collections(left: &Rows, right: Option<&Rows>) -> (SetCollection, Option<SetCollection>) {
    let raw = |rows: &Rows| {
        let mut raw = RawSets::default();
        for row in rows {
            raw.push(&row.iter().copied().collect::<Vec<_>>());
        }
        raw
    };
    let tokens = left.iter().chain(right.into_iter().flatten()).flatten();
    let universe = tokens.max().map_or(0, |&token| token as usize + 1);
    prepare(raw(left), right.map(raw), universe).unwrap()
}
