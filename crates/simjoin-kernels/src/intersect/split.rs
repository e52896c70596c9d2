//! Where can two ascending slices be cut so that each part is intersected by itself?
//!
//! A merge of the two slices is a path through the grid of their elements (Green, McColl and Bader's merge
//! path). The path crosses each diagonal of the grid after a known number of steps, and bisection finds the
//! crossing. So the parts between equidistant diagonals have equal lengths, whatever the elements are.

/// Returns the lengths of the first parts of both slices, so that no token is in the first part of one
/// slice and in the rest of the other. The lengths add up to `steps`, or to one more if the cut would
/// separate two equal tokens.
pub fn split(a: &[u32], b: &[u32], steps: usize) -> (usize, usize) {
    let steps = steps.min(a.len() + b.len());
    // The path crosses the diagonal where the tokens of a before the cut are not larger than those of b after it.
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
