//! Merges two slices. Each step advances the slice with the smaller token. Arithmetic chooses the slice,
//! not a branch, so there are no mispredictions.

use super::Found;

/// Finds the common tokens of two ascending slices.
#[inline]
pub fn merge<F: Found>(a: &[u32], b: &[u32], found: &mut F) {
    let (mut at_a, mut at_b) = (0, 0);
    while at_a < a.len() && at_b < b.len() {
        let (x, y) = (a[at_a], b[at_b]);
        if x == y {
            found.one(x);
        }
        at_a += usize::from(x <= y);
        at_b += usize::from(y <= x);
    }
}
