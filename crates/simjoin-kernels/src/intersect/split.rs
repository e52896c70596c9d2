//! Where can two ascending slices be cut so that each part is intersected by itself?
//!
//! A merge of the two walks a path through the grid of their elements (Green, McColl and Bader's merge
//! path). A diagonal of the grid is met by the path after a known number of steps, and where, is found by
//! halving; so the parts between several diagonals are of equal length, whatever the elements are.

/// How many tokens of each slice come first, so that no token of the rest of one is among the first of the
/// other, and that the two are about `steps` together: one more where the two that would be parted are
/// equal.
pub fn split(a: &[u32], b: &[u32], steps: usize) -> (usize, usize) {
    let steps = steps.min(a.len() + b.len());
    // The path meets the diagonal where a's tokens up to here are no larger than b's from there on.
    let (mut low, mut high) = (steps.saturating_sub(b.len()), steps.min(a.len()));
    while low < high {
        let middle = low + (high - low) / 2;
        if a[middle] <= b[steps - 1 - middle] { low = middle + 1 } else { high = middle }
    }
    let (of_a, mut of_b) = (low, steps - low);
    if of_a > 0 && of_b < b.len() && a[of_a - 1] == b[of_b] {
        of_b += 1;
    }
    (of_a, of_b)
}
