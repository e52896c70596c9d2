//! How are tiles joined on CPU cores?
//!
//! One file per technique; a published algorithm's file bears its name:
//!
//! | technique | filter | file |
//! | --- | --- | --- |
//! | `naive` | none: the oracle | `naive.rs` |
//! | `all-pairs` | prefix, length | `all_pairs.rs` |
//! | `ppjoin` | prefix, length, position | `ppjoin.rs` |
//! | `group-join` | the same over groups of sets with one prefix | `group_join.rs` |
//! | `skip-join` | the same, skipping blocks of lists and whole probes | `skip_join/` |
//! | `bitmap`, `dense` | signatures of all pairs | `bitmap.rs` |
//! | `prefix-bitmap` | signatures of the pairs in prefix lists | `prefix_bitmap/` |
//! | `mmjoin` | none: every overlap is counted, dense ones by a bit matrix | `mmjoin.rs` |
//! | `lcjoin` | lists intersected at once along a prefix tree; containment 1 | `lcjoin.rs` |
//!
//! `intersect.rs` intersects two single sets. `overlaps.rs` counts the overlaps of all pairs of sets,
//! without a threshold, by the bit matrix and the lists of `heavy.rs`; `overlap_join.rs` makes techniques of it.
//!
//! The techniques share these files: `prefix_index.rs` (inverted lists and the cursors into them),
//! `demands.rs` (the bounds for a probe and each size that it meets), `verify.rs` (from candidates to
//! pairs), `set_join.rs` (from a filter over single sets to a technique), and `few_tokens.rs` (the
//! tokens that matter if one side is much smaller). `block_index.rs` holds the lists of `skip-join`.
//!
//! Vectors are joined by the techniques in `vectors/`.

#![forbid(unsafe_code)]

mod all_pairs;
mod bitmap;
mod block_index;
mod calibrate;
mod demands;
mod few_tokens;
mod group_join;
mod heavy;
mod intersect;
mod lcjoin;
mod mmjoin;
mod naive;
mod overlap_join;
mod overlaps;
mod ppjoin;
mod prefix_bitmap;
mod prefix_index;
mod set_join;
mod skip_join;
mod vectors;
mod verify;

pub use all_pairs::AllPairs;
pub use bitmap::{Bitmap, Dense, estimate_rows};
pub use calibrate::calibrate;
pub use group_join::GroupJoin;
pub use intersect::{Intersection, ascending};
pub use lcjoin::LcJoin;
pub use mmjoin::MmJoin;
pub use naive::Naive;
pub use overlap_join::overlap_techniques;
pub use ppjoin::PpJoin;
pub use prefix_bitmap::PrefixBitmap;
pub use skip_join::SkipJoin;
pub use vectors::{
    Grid, NestedLoop, Quantile, StripedLoop, vector_techniques, vector_techniques_unseen,
};

use simjoin_engine::{CandidateFilter, Sets, Techniques};

/// Returns every CPU technique, in all its variants.
pub fn techniques() -> Techniques<Sets> {
    let mut techniques: Techniques<Sets> = vec![
        Box::new(Naive),
        Box::new(AllPairs),
        Box::new(PpJoin),
        Box::new(GroupJoin),
        Box::new(SkipJoin::default()),
        Box::new(Dense),
    ];
    for words in PrefixBitmap::WORDS {
        techniques.push(Box::new(PrefixBitmap { words }));
    }
    for words in Bitmap::WORDS {
        techniques.push(Box::new(Bitmap { words }));
    }
    techniques.push(Box::new(MmJoin));
    techniques.push(Box::new(LcJoin));
    techniques
}

/// Returns the techniques that can leave verification to others.
pub fn filters() -> [&'static dyn CandidateFilter; 3] {
    [&AllPairs, &PpJoin, &GroupJoin]
}
