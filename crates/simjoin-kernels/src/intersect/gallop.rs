//! Searches each token of a short slice in a long one.
//!
//! A search begins at the place of the previous token. Its steps double until they have passed the token;
//! then it bisects the last step. This takes twice the logarithm of the distance, whatever the length.

use super::Found;

/// Finds the common tokens of two ascending slices. The first slice should be much shorter.
pub fn gallop<F: Found>(short: &[u32], long: &[u32], found: &mut F) {
    let mut rest = long;
    for &token in short {
        let mut step = 1;
        while step < rest.len() && rest[step] < token {
            step *= 2;
        }
        // Everything up to half the step is smaller, unless that is the start.
        let (from, to) = (step / 2, rest.len().min(step + 1));
        let at = from + rest[from..to].partition_point(|&other| other < token);
        rest = &rest[at..];
        match rest.first() {
            None => return,
            Some(&other) if other == token => found.one(token),
            Some(_) => {}
        }
    }
}
