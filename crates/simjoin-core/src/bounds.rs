//! Which integers decide whether two sets satisfy a predicate?
//!
//! For sets of sizes `a` and `b` with `o` common tokens and the threshold `p/q`:
//!
//! | measure | the pair is in the result iff |
//! | --- | --- |
//! | Jaccard | `(p+q)·o ≥ p·(a+b)` |
//! | cosine | `q²·o² ≥ p²·a·b` |
//! | Dice | `2q·o ≥ p·(a+b)` |
//! | overlap | `q·o ≥ p` (q is 1) |
//! | containment | `q·o ≥ p·min(a,b)` |
//!
//! [`Bounds::compare`] is that table. All other bounds are the smallest or largest integers for which
//! it holds, so no floating-point comparison ever decides about a pair.
//!
//! # Exactness
//!
//! Sizes are at most 2³¹ and `p ≤ q < 2⁶⁰`. The linear forms stay below 2⁹⁴ and are computed in
//! 128 bits (in 64 when `q` is small enough). The squares of cosine stay below 2¹⁸² and are
//! compared as 256-bit products.
//!
//! A threshold with a larger denominator is replaced by a fraction that decides alike. Every
//! similarity but cosine is a fraction `x/y` with `y ≤ 2³²`, so no pair lies between the two
//! neighbours of the threshold among these fractions, and every number between the neighbours is
//! as good a threshold. [`between_neighbours`] is the simplest one. For cosine, whose similarities
//! are square roots, [`Predicate::parse`] accepts denominators up to 10¹⁸ only.

use crate::{Measure, Predicate};
use std::cmp::Ordering;

/// The largest set size that the arithmetic supports.
pub(crate) const MAX_SIZE: u32 = 1 << 31;

/// The largest denominator that the arithmetic takes as it is.
pub(crate) const LARGEST_EXACT: u128 = 10u128.pow(18);

/// The largest denominator with which every linear product fits 64 bits and every square 128.
const SMALL: u64 = 1 << 30;

/// A predicate turned into integer bounds on overlap, size and prefix length.
///
/// In every join the probing set is at least as large as the set that it finds. The prefix lengths
/// rely on this: `probe_prefix` is for the larger set, `index_prefix` for the smaller one.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    measure: Measure,
    p: u64,
    q: u64,
}

impl From<Predicate> for Bounds {
    fn from(predicate: Predicate) -> Self {
        Bounds::new(predicate)
    }
}

impl Bounds {
    /// A token in common: the bounds that any pair with an overlap satisfies.
    pub const ANY_TOKEN: Bounds = Bounds { measure: Measure::Overlap, p: 1, q: 1 };

    /// Makes the bounds of a predicate.
    pub fn new(predicate: Predicate) -> Self {
        let threshold = predicate.threshold();
        let (p, q) = match (threshold.numerator(), threshold.denominator()) {
            (p, q) if q <= LARGEST_EXACT => (p, q),
            (p, q) => between_neighbours(p, q),
        };
        Bounds { measure: predicate.measure(), p: p as u64, q: q as u64 }
    }

    /// Returns the measure, and the threshold as numerator and denominator, both below 2⁶⁰.
    pub fn parts(&self) -> (Measure, u64, u64) {
        (self.measure, self.p, self.q)
    }

    /// Returns whether two non-empty sets of these sizes with this overlap are in the result.
    pub fn accepts(&self, a: u32, b: u32, overlap: u32) -> bool {
        self.compare(a, b, overlap).is_ge()
    }

    /// Compares the similarity of two non-empty sets of these sizes with this overlap with the
    /// threshold.
    #[inline]
    pub fn compare(&self, a: u32, b: u32, overlap: u32) -> Ordering {
        let (p, q) = (u128::from(self.p), u128::from(self.q));
        let (a, b, o) = (u128::from(a), u128::from(b), u128::from(overlap));
        match self.measure {
            Measure::Jaccard => ((p + q) * o).cmp(&(p * (a + b))),
            Measure::Dice => (2 * q * o).cmp(&(p * (a + b))),
            Measure::Overlap => (q * o).cmp(&p),
            Measure::Containment => (q * o).cmp(&(p * a.min(b))),
            Measure::Cosine if self.q <= SMALL => ((q * o) * (q * o)).cmp(&((p * p) * (a * b))),
            Measure::Cosine => wide_product(q * o, q * o).cmp(&wide_product(p * p, a * b)),
        }
    }

    /// Returns `p · size / divisor`, rounded up.
    fn part(&self, size: u64, divisor: u64) -> u64 {
        if self.q <= SMALL {
            (self.p * size).div_ceil(divisor)
        } else {
            (u128::from(self.p) * u128::from(size)).div_ceil(u128::from(divisor)) as u64
        }
    }

    /// Returns the smallest overlap, at least 1, with which sets of these sizes are in the result.
    /// It may exceed the smaller size; then no such pair exists.
    pub fn required_overlap(&self, a: u32, b: u32) -> u32 {
        let (a64, b64) = (u64::from(a), u64::from(b));
        let required = match self.measure {
            Measure::Jaccard => self.part(a64 + b64, self.p + self.q),
            Measure::Dice => self.part(a64 + b64, 2 * self.q),
            Measure::Overlap => self.p.div_ceil(self.q),
            Measure::Containment => self.part(a64.min(b64), self.q),
            Measure::Cosine => {
                // Start from a floating-point guess; step until the integer predicate decides.
                let ratio = self.p as f64 / self.q as f64;
                let mut o = (ratio * (a64 as f64 * b64 as f64).sqrt()) as u32;
                while !self.accepts(a, b, o) {
                    o += 1;
                }
                while o > 1 && self.accepts(a, b, o - 1) {
                    o -= 1;
                }
                u64::from(o)
            }
        };
        required.max(1) as u32
    }

    /// Returns the size of the smallest set that can be in a pair with a set of size `n`, at least
    /// 1. It may exceed `n`; then a set of size `n` is in no pair.
    pub fn min_size(&self, n: u32) -> u32 {
        // A set of size m ≤ n reaches at most the overlap m. `accepts(n, m, m)`, divided by m where
        // m appears on both sides, bounds m from below.
        if !self.accepts(n, n, n) {
            return n.saturating_add(1);
        }
        let smallest = match self.measure {
            Measure::Jaccard => self.part(n.into(), self.q),
            Measure::Dice => self.part(n.into(), 2 * self.q - self.p),
            Measure::Overlap => self.p.div_ceil(self.q),
            Measure::Containment => 1,
            Measure::Cosine if self.q <= SMALL => {
                let (p, q) = (u128::from(self.p), u128::from(self.q));
                (p * p * u128::from(n)).div_ceil(q * q) as u64
            }
            Measure::Cosine => {
                return bisect(1, n.max(1), |m| self.accepts(n, m, m));
            }
        };
        (smallest as u32).max(1)
    }

    /// Returns the size of the largest set that can be in a pair with a set of size `n`; `u32::MAX`
    /// when the measure sets no limit.
    pub fn max_size(&self, n: u32) -> u32 {
        match self.measure {
            Measure::Overlap | Measure::Containment => u32::MAX,
            // A set of size m ≥ n reaches at most the overlap n, and `accepts(n, m, n)` can only
            // turn from true to false as m grows.
            _ => bisect(n, MAX_SIZE, |m| !self.accepts(n, m + 1, n)),
        }
    }

    /// Returns the number of its rarest tokens that a set of size `n` must look up to meet every
    /// partner of size at most `n`; 0 if it has no partner.
    ///
    /// Exact: the required overlap grows with the partner's size, so with any such partner it is at
    /// least `α = required_overlap(n, min_size(n))`. At least one of the first `n-α+1` tokens is
    /// common: otherwise only the other `α-1` tokens could be common.
    pub fn probe_prefix(&self, n: u32) -> u32 {
        self.prefix(n, self.required_overlap(n, self.min_size(n)))
    }

    /// Returns the number of its rarest tokens that a set of size `m` must put into the index to be
    /// found by every partner of size at least `m`; 0 if it has no partner.
    ///
    /// Exact: the required overlap grows with the partner's size, so it is at least `α =
    /// required_overlap(m, m)`. If sets of sizes `m` and `n` share `α` tokens, the first common one in
    /// the global order is among the first `m-α+1` tokens of one and the first `n-α+1` of the other.
    pub fn index_prefix(&self, m: u32) -> u32 {
        self.prefix(m, self.required_overlap(m, m))
    }

    /// Returns the largest number of tokens that only one set of a matching pair of sizes `n` and `m`
    /// may have: `n + m - 2·required`; negative if no such pair exists.
    pub fn budget(&self, n: u32, m: u32) -> i64 {
        i64::from(n) + i64::from(m) - 2 * i64::from(self.required_overlap(n, m))
    }

    /// Returns the probe's share of the budget, in `1 / unit`.
    ///
    /// The budget is split into a share of the probe and a share of the build set, so that each can be
    /// computed once: `unit · budget(n, m) ≤ probe_share(n) + build_share(m)` whenever
    /// `min_size(n) ≤ m ≤ n`.
    ///
    /// With `t = p/q`, the budget `n + m - 2·required` is at most
    ///
    /// | measure | probe share | build share |
    /// | --- | --- | --- |
    /// | Jaccard | `n(1-t)/(1+t)` | `m(1-t)/(1+t)` |
    /// | Dice | `n(1-t)` | `m(1-t)` |
    /// | overlap | `n - 2t` | `m` |
    /// | containment | `n` | `m(1-2t)` |
    /// | cosine | `n(1-t)(1+2t)/(1+t)` | `m(1-t)/(1+t)` |
    ///
    /// Cosine's budget `n + m - 2t√(nm)` is convex in `m`, so between `m = t²n` and `m = n` it is at
    /// most the straight line through its values there, `n(1-t²)` and `2n(1-t)`, whose slope
    /// happens not to depend on `n`. The others are linear. Shares are rounded up by more than the
    /// floating-point error, so they may be too large, never too small.
    pub fn probe_share(&self, n: u32, unit: i32) -> i64 {
        let t = self.p as f64 / self.q as f64;
        let n = f64::from(n);
        round_up(
            f64::from(unit)
                * match self.measure {
                    Measure::Jaccard => n * (1.0 - t) / (1.0 + t),
                    Measure::Dice => n * (1.0 - t),
                    Measure::Overlap => n - 2.0 * t,
                    Measure::Containment => n,
                    Measure::Cosine => n * (1.0 - t) * (1.0 + 2.0 * t) / (1.0 + t),
                },
        )
    }

    /// Returns the build set's share of the budget; see [`probe_share`](Self::probe_share).
    pub fn build_share(&self, m: u32, unit: i32) -> i64 {
        let t = self.p as f64 / self.q as f64;
        let m = f64::from(m);
        round_up(
            f64::from(unit)
                * match self.measure {
                    Measure::Jaccard | Measure::Cosine => m * (1.0 - t) / (1.0 + t),
                    Measure::Dice => m * (1.0 - t),
                    Measure::Overlap => m,
                    Measure::Containment => m * (1.0 - 2.0 * t),
                },
        )
    }

    fn prefix(&self, size: u32, required: u32) -> u32 {
        if required > size { 0 } else { size - required + 1 }
    }
}

/// Rounds up by more than the error that a few roundings of a value below 2⁴⁰ can cause.
fn round_up(value: f64) -> i64 {
    (value + value.abs() * 1e-12 + 0.001).ceil() as i64
}

/// Returns the first value in `low..=high` for which a monotone condition holds; `high` if none
/// earlier.
fn bisect(mut low: u32, mut high: u32, holds: impl Fn(u32) -> bool) -> u32 {
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Returns the simplest fraction between the neighbours of `p/q` among the fractions with
/// denominators up to 2³². `p/q` is below 1 and, in lowest terms, has a larger denominator.
///
/// The convergents of the continued fraction of `p/q` come closer from alternating sides. The last
/// one whose denominator fits is one neighbour; the other is the last intermediate fraction that fits,
/// and their mediant is the next one.
fn between_neighbours(p: u128, q: u128) -> (u128, u128) {
    const LARGEST: u128 = 1 << 32;
    // The last two convergents, beginning with 1/0 and 0/1, and the rest to expand.
    let (mut before, mut last) = ((1, 0), (0, 1));
    let (mut dividend, mut divisor) = (q, p);
    loop {
        let (fits, quotient) = ((LARGEST - before.1) / last.1, dividend / divisor);
        let times = quotient.min(fits + 1);
        let next = (times * last.0 + before.0, times * last.1 + before.1);
        if quotient > fits {
            return next;
        }
        (before, last) = (last, next);
        (dividend, divisor) = (divisor, dividend % divisor);
    }
}

/// Returns `a · b` in 256 bits, as (high, low).
pub(crate) fn wide_product(a: u128, b: u128) -> (u128, u128) {
    const MASK: u128 = (1 << 64) - 1;
    let (a1, a0, b1, b0) = (a >> 64, a & MASK, b >> 64, b & MASK);
    let low = a0 * b0;
    let middle = a1 * b0 + (low >> 64);
    let middle_low = a0 * b1 + (middle & MASK);
    let high = a1 * b1 + (middle >> 64) + (middle_low >> 64);
    (high, (middle_low << 64) | (low & MASK))
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigUint;
    use proptest::prelude::*;

    const RATIOS: [&str; 16] = [
        "0.8",
        "0.7",
        "0.95",
        "0.333333",
        "1.0",
        "0.5",
        "0.9",
        "0.000001",
        "0.999999999999999999",
        "0.6666666666666666",
        "2/3",
        "0.707106781186547524",
        // Just above and just below 1/792, far above, and very small.
        "0.0012626262626262627",
        "0.00126262626262626262626262626262626262",
        "0.99999999999999999999999999999999999999",
        "1e-30",
    ];

    fn predicates() -> Vec<Predicate> {
        let mut all = Vec::new();
        for measure in Measure::ALL {
            if measure == Measure::Overlap {
                for count in ["1", "2", "5", "10", "150"] {
                    all.push(Predicate::parse(measure, count).unwrap());
                }
            } else {
                // For cosine the last four are too long.
                let ratios = &RATIOS[..if measure == Measure::Cosine { 12 } else { 16 }];
                all.extend(ratios.iter().map(|t| Predicate::parse(measure, t).unwrap()));
            }
        }
        all
    }

    /// Decides by the definition of each measure in arbitrary precision, independent of `compare`.
    fn exact_order(predicate: Predicate, a: u32, b: u32, o: u32) -> Ordering {
        let big = |n: u128| BigUint::from(n);
        let (p, q) =
            (big(predicate.threshold().numerator()), big(predicate.threshold().denominator()));
        let (a, b, o) = (big(a.into()), big(b.into()), big(o.into()));
        match predicate.measure() {
            // o / (a+b-o) compared with p/q
            Measure::Jaccard => (&o * &q).cmp(&(&p * (&a + &b - &o))),
            // o / √(ab) compared with p/q, squared
            Measure::Cosine => (&o * &o * &q * &q).cmp(&(&p * &p * &a * &b)),
            // 2o / (a+b) compared with p/q
            Measure::Dice => (big(2) * &o * &q).cmp(&(&p * (&a + &b))),
            Measure::Overlap => (&o * &q).cmp(&p),
            Measure::Containment => (&o * &q).cmp(&(&p * a.min(b))),
        }
    }

    fn exact(predicate: Predicate, a: u32, b: u32, o: u32) -> bool {
        exact_order(predicate, a, b, o).is_ge()
    }

    #[test]
    fn shares_never_fall_short_of_the_budget() {
        let mut rng = 1u64;
        for predicate in predicates() {
            let bounds = Bounds::new(predicate);
            let check = |n: u32, m: u32| {
                if bounds.min_size(n) <= m && m <= n {
                    let shares = bounds.probe_share(n, 16) + bounds.build_share(m, 16);
                    let budget = 16 * bounds.budget(n, m);
                    assert!(budget <= shares, "{predicate:?} {n} {m}: {budget} {shares}");
                }
            };
            for n in 1..=150 {
                (1..=n).for_each(|m| check(n, m));
            }
            for _ in 0..300 {
                rng = rng.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let n = (rng >> 33) as u32 >> (rng % 20);
                let low = bounds.min_size(n.max(1));
                if low <= n {
                    check(n, low);
                    check(n, n);
                    check(n, low + ((rng >> 20) as u32) % (n - low + 1));
                }
            }
        }
    }

    #[test]
    fn all_small_sizes_agree_with_big_integers() {
        for predicate in predicates() {
            let bounds = Bounds::new(predicate);
            for a in 1..=220u32 {
                let mut min_size = None;
                let mut max_size = 0;
                for b in 1..=220u32 {
                    let possible = (1..=a.min(b)).find(|&o| exact(predicate, a, b, o));
                    let required = bounds.required_overlap(a, b);
                    match possible {
                        Some(o) => assert_eq!(required, o, "{predicate} a={a} b={b}"),
                        None => assert!(required > a.min(b), "{predicate} a={a} b={b}"),
                    }
                    if possible.is_some() {
                        min_size = min_size.or(Some(b));
                        max_size = b;
                    }
                    for o in 1..=a.min(b) {
                        let order = exact_order(predicate, a, b, o);
                        assert_eq!(bounds.compare(a, b, o), order);
                        assert_eq!(bounds.accepts(a, b, o), order.is_ge());
                    }
                }
                match min_size {
                    Some(m) => assert_eq!(bounds.min_size(a), m, "{predicate} n={a}"),
                    None => assert!(bounds.min_size(a) > a, "{predicate} n={a}"),
                }
                if max_size > 0 && max_size < 220 {
                    assert_eq!(bounds.max_size(a), max_size, "{predicate} n={a}");
                } else if max_size == 220 {
                    assert!(bounds.max_size(a) >= 220, "{predicate} n={a}");
                }
            }
        }
    }

    #[test]
    fn prefixes_meet_for_every_pair_of_sizes() {
        for predicate in predicates() {
            let bounds = Bounds::new(predicate);
            for n in 1..=150u32 {
                for m in bounds.min_size(n)..=n {
                    let required = bounds.required_overlap(n, m);
                    assert!(required <= m, "{predicate} {n} {m}");
                    // The tokens outside each prefix are fewer than the required overlap.
                    assert!(n - bounds.probe_prefix(n) < required, "{predicate} {n} {m}");
                    assert!(m - bounds.index_prefix(m) < required, "{predicate} {n} {m}");
                }
            }
        }
    }

    #[test]
    fn prefixes_are_as_short_as_published() {
        let jaccard = Bounds::new(Predicate::parse(Measure::Jaccard, "0.8").unwrap());
        // Two sets of 10 tokens must share 9; the smallest partner of 10 has 8 and shares all.
        assert_eq!(jaccard.required_overlap(10, 10), 9);
        assert_eq!(jaccard.min_size(10), 8);
        assert_eq!(jaccard.max_size(10), 12);
        assert_eq!(jaccard.probe_prefix(10), 3);
        assert_eq!(jaccard.index_prefix(10), 2);
        let overlap = Bounds::new(Predicate::parse(Measure::Overlap, "5").unwrap());
        assert_eq!(overlap.probe_prefix(4), 0);
        assert_eq!(overlap.index_prefix(5), 1);
        assert_eq!(overlap.min_size(4), 5);
        let subset = Bounds::new(Predicate::parse(Measure::Containment, "1").unwrap());
        assert_eq!(subset.probe_prefix(100), 100);
        assert_eq!(subset.index_prefix(100), 1);
    }

    /// Whether `a/b < c/d`.
    fn less((a, b): (u128, u128), (c, d): (u128, u128)) -> bool {
        BigUint::from(a) * BigUint::from(d) < BigUint::from(c) * BigUint::from(b)
    }

    #[test]
    fn long_thresholds_lie_between_neighbours_that_are_too_far_apart_for_a_pair() {
        let denominators = [1u128, 2, 3, 5, 792, 1 << 16, (1 << 32) - 1, 1 << 32];
        for text in &RATIOS[12..] {
            let predicate = Predicate::parse(Measure::Jaccard, text).unwrap();
            let exact = (predicate.threshold().numerator(), predicate.threshold().denominator());
            let (p, q) = between_neighbours(exact.0, exact.1);
            assert!(q > 1 << 32 && q <= 1 << 33, "{text}: {p}/{q}");
            for y in denominators {
                // The fractions with this denominator that come next to the threshold.
                let below = (BigUint::from(exact.0) * y / exact.1).iter_u64_digits().next();
                let below = u128::from(below.unwrap_or(0));
                assert!(less((below, y), exact) && less((below, y), (p, q)), "{text}: {below}/{y}");
                assert!(less(exact, (below + 1, y)) && less((p, q), (below + 1, y)), "{text}: {y}");
            }
        }
    }

    #[test]
    fn cosine_takes_eighteen_decimals() {
        let parse = |text| Predicate::parse(Measure::Cosine, text).map(|_| ());
        assert!(parse("0.999999999999999999").is_ok() && parse("0.80000000000000000000").is_ok());
        for text in ["0.0012626262626262627", "1/1000000000000000001", "1e-19"] {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains("too long for cosine; expected at most 18"), "{message}");
        }
    }

    #[test]
    fn wide_product_agrees_with_big_integers() {
        for (a, b) in [
            (0, u128::MAX),
            (u128::MAX, u128::MAX),
            (u128::from(u64::MAX), u128::MAX - 1),
            (1 << 127, 3),
        ] {
            let (high, low) = wide_product(a, b);
            assert_eq!(
                (BigUint::from(high) << 128) + BigUint::from(low),
                BigUint::from(a) * BigUint::from(b)
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn large_sizes_agree_with_big_integers(
            which in 0..1000usize,
            a in prop_oneof![1..=MAX_SIZE, 1..=1000u32, (MAX_SIZE - 1000)..=MAX_SIZE],
            b in prop_oneof![1..=MAX_SIZE, 1..=1000u32, (MAX_SIZE - 1000)..=MAX_SIZE],
        ) {
            let all = predicates();
            let predicate = all[which % all.len()];
            let bounds = Bounds::new(predicate);
            let required = bounds.required_overlap(a, b);
            let smaller = a.min(b);
            if required <= smaller {
                prop_assert!(exact(predicate, a, b, required));
            } else {
                prop_assert!(!exact(predicate, a, b, smaller));
            }
            if required > 1 && required - 1 <= smaller {
                prop_assert!(!exact(predicate, a, b, required - 1));
            }
            let least = bounds.min_size(a);
            if least <= a {
                prop_assert!(exact(predicate, a, least, least));
                if least > 1 {
                    prop_assert!(!exact(predicate, a, least - 1, least - 1));
                }
                let most = bounds.max_size(a);
                if most < MAX_SIZE {
                    prop_assert!(exact(predicate, a, most, a));
                    prop_assert!(!exact(predicate, a, most + 1, a));
                }
            }
            let (n, m) = (a.max(b), smaller);
            if m >= bounds.min_size(n) {
                let required = bounds.required_overlap(n, m);
                prop_assert!(n - bounds.probe_prefix(n) < required);
                prop_assert!(m - bounds.index_prefix(m) < required);
            }
        }
    }
}
