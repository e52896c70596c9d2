//! Where do collections of any size come from if there is no real one?
//!
//! * [`Synthetic`] draws sets from a universe of tokens that are uniform, or follow Zipf's law or the
//!   normal one: the collections that the literature calls `5M-500K-10` (sets, tokens, average size),
//!   and single sets of millions of tokens out of 10⁹.
//! * A [`Profile`] holds the published figures of a collection that is not available; sets are drawn by
//!   these figures.
//! * [`inflate()`] makes a real collection of sets larger: its join result grows by the same factor, and
//!   its tokens stay the same.
//! * [`Dirty`] adds copies with typing errors to the records of a text.
//! * [`Points`] draws vectors: uniform, in Gaussian clusters, or in correlated clusters.
//!
//! ```text
//!            seed ─► Synthetic ─┐
//!  file ─► FrequencyOrder ─┐    ├─► lines ─► the caller's output
//!  file ──────────► inflate ────┤
//!  file, seed ─────► Dirty ─────┘
//! ```
//!
//! Lines are pushed to the caller in blocks; nothing here writes files. The caller's function may
//! answer with an error, which ends the work.
//!
//! # The same bytes everywhere
//!
//! A seed determines the output, on every machine. All choices are made by one thread from one
//! stream of random numbers (xoshiro256++, whose numbers are defined by its authors), turned into
//! choices by integer arithmetic in this crate. Floating-point numbers occur only in the weights of
//! Zipf's law, and there only `+ * / √`, which IEEE 754 defines to the last bit; the logarithms and
//! powers of the system's mathematical library, which differ from system to system, are not used.
//! Ties are broken by first appearance, never by the order of a hash table.
//!
//! # Memory
//!
//! Memory depends on the number of different tokens, never on the number of records. A universe of over
//! 2²⁶ tokens takes one bit a token.

#![forbid(unsafe_code)]

mod alias;
mod dirty;
mod inflate;
mod inversion;
mod normal;
mod output;
mod points;
mod profiles;
mod random;
mod remaining;
mod sizes;
mod synthetic;
mod zipf;

use simjoin_core::{Error, Result};

pub use dirty::Dirty;
pub use inflate::{FrequencyOrder, inflate};
pub use points::{PointFormat, Points, Shape};
pub use profiles::{PROFILES, Profile};
pub use sizes::SizeLaw;
pub use synthetic::{Synthetic, Tokens};

/// Allocates a table that may be larger than the memory.
fn reserve<T>(len: usize) -> Result<Vec<T>> {
    let mut table = Vec::new();
    simjoin_core::refusal::handled(|| table.try_reserve_exact(len)).map_err(|_| {
        let bytes = len.saturating_mul(size_of::<T>());
        Error::Config(format!(
            "a table of {bytes} bytes does not fit into the memory; use a smaller universe"
        ))
    })?;
    Ok(table)
}
