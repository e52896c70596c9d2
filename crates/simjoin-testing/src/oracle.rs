//! Which pairs are similar, by definition?

use crate::Rows;
use simjoin_core::{Measure, Predicate};
use std::collections::BTreeSet;

/// Pairs as left row, right row and overlap.
pub type Found = BTreeSet<(u32, u32, u32)>;

/// Returns the overlap of two sets if they are similar: the definition, in 128-bit integers.
pub fn similar(predicate: Predicate, a: &BTreeSet<u32>, b: &BTreeSet<u32>) -> Option<u32> {
    let common = a.intersection(b).count() as u32;
    let (p, q) = (predicate.threshold().numerator(), predicate.threshold().denominator());
    let (n, m, o) = (a.len() as u128, b.len() as u128, u128::from(common));
    let reaches = match predicate.measure() {
        Measure::Jaccard => o * q >= p * (n + m - o),
        Measure::Dice => 2 * o * q >= p * (n + m),
        Measure::Overlap => o * q >= p,
        Measure::Containment => o * q >= p * n.min(m),
        // With 18 decimals the squares need more than 128 bits.
        Measure::Cosine => fraction_at_least((o * o, n * m), (p, q)),
    };
    (common > 0 && reaches).then_some(common)
}

/// Returns whether `num/den ≥ (p/q)²`, that is `num·q² ≥ den·p²`, multiplied digit by digit in base 2⁶⁴.
fn fraction_at_least((num, den): (u128, u128), (p, q): (u128, u128)) -> bool {
    fn product(factors: [u128; 3]) -> [u64; 6] {
        let mut limbs = [0u64; 6];
        limbs[0] = 1;
        for factor in factors {
            let parts = [factor as u64, (factor >> 64) as u64];
            let mut next = [0u64; 6];
            for (i, &limb) in limbs.iter().enumerate() {
                let mut carry = 0u128;
                for j in 0..6 - i {
                    let part = *parts.get(j).unwrap_or(&0);
                    let sum = u128::from(next[i + j]) + u128::from(limb) * u128::from(part) + carry;
                    next[i + j] = sum as u64;
                    carry = sum >> 64;
                }
            }
            limbs = next;
        }
        limbs
    }
    product([num, q, q]).iter().rev().ge(product([den, p, p]).iter().rev())
}

/// Returns the similar pairs of rows of two inputs, or of one with itself.
pub fn brute_force(predicate: Predicate, left: &Rows, right: Option<&Rows>) -> Found {
    let mut found = Found::new();
    for (l, a) in (0..).zip(left) {
        for (r, b) in (0..).zip(right.unwrap_or(left)) {
            if right.is_some() || l < r {
                found.extend(similar(predicate, a, b).map(|common| (l, r, common)));
            }
        }
    }
    found
}
