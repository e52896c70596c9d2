//! Each token of a short slice is looked for in a long one, from where the one before was found: in
//! steps that double until they have gone too far, then by halving what lies between. That takes twice
//! the logarithm of the distance, whatever the length.

use super::Found;

/// The common tokens of two ascending slices, the first of which is far shorter.
pub fn gallop<F: Found>(short: &[u32], long: &[u32], found: &mut F) {
    let mut rest = long;
    for &token in short {
        let mut step = 1;
        while step < rest.len() && rest[step] < token {
            step *= 2;
        }
        // What lies up to half the step is smaller, unless that is the start.
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
