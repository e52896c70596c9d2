//! A merge of two ascending slices that stops as early as it can.
//!
//! *Early reject.* With `found` common tokens so far, the slices can reach at most `found` plus
//! the shorter rest. The `slack` of a slice is the number of its tokens that may still be unmatched
//! before that sum falls below the required overlap: a match leaves it unchanged, a skipped token
//! costs one.
//!
//! *Early accept.* If only the decision matters, the merge ends with the last match that it needs.
//!
//! The step has no unpredictable branches: arithmetic chooses the side that advances.

/// Counts the tokens that two ascending slices have in common.
pub fn overlap(a: &[u32], b: &[u32]) -> u32 {
    count(a, b)
}

/// Decides whether two sets share at least `required` tokens, given that `found` are known to be
/// common and `a` and `b` are the ascending rests in which further ones may be found.
///
/// Returns the overlap, or `None` when it is below `required`. With `EXACT` the overlap is the
/// full one; without, it is a lower bound that suffices.
#[inline]
pub fn verify<const EXACT: bool>(a: &[u32], b: &[u32], found: u32, required: u32) -> Option<u32> {
    let missing = i64::from(required) - i64::from(found);
    if missing <= 0 {
        return Some(if EXACT { found + count(a, b) } else { found });
    }
    // Invariant: slack + missing = tokens left, in each slice. While `missing > 0` and no slack is
    // negative, both slices therefore have a token left.
    let mut missing = missing;
    let mut slack_a = a.len() as i64 - missing;
    let mut slack_b = b.len() as i64 - missing;
    let (mut at_a, mut at_b) = (0, 0);
    while (slack_a | slack_b) >= 0 {
        let (x, y) = (a[at_a], b[at_b]);
        at_a += usize::from(x <= y);
        at_b += usize::from(y <= x);
        slack_a -= i64::from(x < y);
        slack_b -= i64::from(y < x);
        missing -= i64::from(x == y);
        if missing == 0 {
            let rest = if EXACT { count(&a[at_a..], &b[at_b..]) } else { 0 };
            return Some(required + rest);
        }
    }
    None
}

#[inline]
fn count(a: &[u32], b: &[u32]) -> u32 {
    let (mut at_a, mut at_b, mut common) = (0, 0, 0);
    while at_a < a.len() && at_b < b.len() {
        let (x, y) = (a[at_a], b[at_b]);
        at_a += usize::from(x <= y);
        at_b += usize::from(y <= x);
        common += u32::from(x == y);
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlap::Verify;
    use crate::tier::Tier;
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    #[test]
    fn empty_equal_and_disjoint_slices_are_decided() {
        assert_eq!(overlap(&[], &[]), 0);
        assert_eq!(overlap(&[1, 2, 3], &[]), 0);
        assert_eq!(overlap(&[1, 2, 3], &[1, 2, 3]), 3);
        assert_eq!(verify::<true>(&[], &[], 0, 1), None);
        assert_eq!(verify::<true>(&[], &[], 1, 1), Some(1));
        assert_eq!(verify::<false>(&[7], &[7], 0, 1), Some(1));
        assert_eq!(verify::<true>(&[7, 8], &[7, 8], 2, 1), Some(4));
        assert_eq!(verify::<false>(&[u32::MAX], &[0, u32::MAX], 0, 1), Some(1));
        assert_eq!(verify::<true>(&[1, 2], &[3, 4], 0, u32::MAX), None);
    }

    proptest! {
        #[test]
        fn near_duplicates_are_decided_exactly(
            a in btree_set(0..5000u32, 0..300),
            lost in btree_set(0..300usize, 0..5),
            gained in btree_set(0..5000u32, 0..5),
            required in 1..300u32,
        ) {
            let mut b: std::collections::BTreeSet<u32> =
                a.iter().enumerate().filter(|(at, _)| !lost.contains(at)).map(|(_, &x)| x).collect();
            b.extend(gained);
            let common = a.intersection(&b).count() as u32;
            let (a, b): (Vec<u32>, Vec<u32>) = (a.into_iter().collect(), b.into_iter().collect());
            for tier in Tier::available() {
                let found = Verify::of(tier).overlap(&a, &b, 0, required);
                prop_assert_eq!(found, (common >= required).then_some(common), "{}", tier);
            }
        }

        #[test]
        fn decision_agrees_with_the_full_overlap(
            a in btree_set(0..200u32, 0..80),
            b in btree_set(0..200u32, 0..80),
            found in 0..10u32,
            required in 1..60u32,
        ) {
            let common = a.intersection(&b).count() as u32;
            let (a, b): (Vec<u32>, Vec<u32>) = (a.into_iter().collect(), b.into_iter().collect());
            prop_assert_eq!(overlap(&a, &b), common);
            let total = found + common;
            let enough = total >= required;
            prop_assert_eq!(verify::<true>(&a, &b, found, required), enough.then_some(total));
            let decided = verify::<false>(&a, &b, found, required);
            prop_assert_eq!(decided.is_some(), enough);
            prop_assert!(decided.is_none_or(|o| required <= o && o <= total));
            for tier in Tier::available() {
                let verify = Verify::of(tier);
                prop_assert_eq!(verify.tier(), tier);
                prop_assert_eq!(verify.overlap(&a, &b, found, required), enough.then_some(total));
            }
        }
    }
}
