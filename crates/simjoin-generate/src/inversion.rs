//! How are tokens drawn by Zipf's law from a universe that is too large for a table?
//!
//! Tokens are drawn by rejection-inversion (Hörmann and Derflinger 1996): the inverse of the integral of
//! 1/x^s maps a uniform number to a rank, which is rounded and, rarely, drawn again. This takes a few
//! logarithms and powers, which this file computes from `+ * /` (see the crate's documentation for the
//! reason) with about 15 correct digits. It needs no memory.

use crate::random::Random;

/// The law for one universe and exponent.
#[derive(Clone, Copy)]
pub(crate) struct Inversion {
    exponent: f64,
    universe: f64,
    /// The integral up to half a rank beyond the last, and the lower end of the draw.
    last: f64,
    first: f64,
    /// The distance from the drawn number within which a rank is always accepted.
    near: f64,
}

impl Inversion {
    pub(crate) fn new(universe: u32, exponent: f64) -> Self {
        let mut law =
            Inversion { exponent, universe: f64::from(universe), last: 0.0, first: 0.0, near: 0.0 };
        law.last = law.integral(law.universe + 0.5);
        law.first = law.integral(1.5) - 1.0;
        law.near = 2.0 - law.inverse(law.integral(2.5) - law.weight(2.0));
        law
    }

    /// Draws a token: one less than its rank.
    #[inline]
    pub(crate) fn draw(&self, random: &mut Random) -> u32 {
        loop {
            let share = (random.bits() >> 11) as f64 / (1u64 << 53) as f64;
            let place = self.last + share * (self.first - self.last);
            let x = self.inverse(place);
            let rank = (x + 0.5).floor().clamp(1.0, self.universe);
            if rank - x <= self.near || place >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u32 - 1;
            }
        }
    }

    /// Returns 1/x^s.
    fn weight(&self, x: f64) -> f64 {
        exp(-self.exponent * ln(x))
    }

    /// Returns the integral of 1/x^s from 1.
    fn integral(&self, x: f64) -> f64 {
        let log = ln(x);
        let t = (1.0 - self.exponent) * log;
        log * exp_minus_1_over(t)
    }

    /// Returns the x at which the integral has a value.
    fn inverse(&self, value: f64) -> f64 {
        let t = (value * (1.0 - self.exponent)).max(-1.0);
        exp(value * ln_plus_1_over(t))
    }
}

const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// Returns 2 · (t + t³/3 + t⁵/5 + …), which is ln((1+t)/(1-t)).
fn twice_artanh_over(t: f64) -> f64 {
    let square = t * t;
    let mut sum = 0.0;
    for place in (0..13).rev() {
        sum = sum * square + 1.0 / f64::from(2 * place + 1);
    }
    2.0 * sum
}

/// Returns the natural logarithm of a positive, normal number.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023;
    let mut mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let exponent = f64::from(exponent);
    exponent * LN_2_HIGH + (t * twice_artanh_over(t) + exponent * LN_2_LOW)
}

/// Returns e^x if it is a normal number; 0 for an x far below.
fn exp(x: f64) -> f64 {
    if x < -700.0 {
        return 0.0;
    }
    let power = (x * std::f64::consts::LOG2_E + 0.5).floor();
    let rest = (x - power * LN_2_HIGH) - power * LN_2_LOW;
    let mut sum = 1.0;
    for place in (1..=14).rev() {
        sum = sum * rest / f64::from(place) + 1.0;
    }
    sum * f64::from_bits(((1023.0 + power.min(1023.0)) as u64) << 52)
}

/// Returns (e^t - 1) / t.
fn exp_minus_1_over(t: f64) -> f64 {
    if t.abs() > 0.5 {
        return (exp(t) - 1.0) / t;
    }
    let mut sum = 1.0;
    for place in (2..=16).rev() {
        sum = sum * t / f64::from(place) + 1.0;
    }
    sum
}

/// Returns ln(1 + t) / t.
fn ln_plus_1_over(t: f64) -> f64 {
    if t.abs() > 0.3 {
        return ln((1.0 + t).max(f64::MIN_POSITIVE)) / t;
    }
    twice_artanh_over(t / (2.0 + t)) / (2.0 + t)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_and_powers_are_right_to_fourteen_digits() {
        let mut random = Random::new(1);
        for _ in 0..20_000 {
            let x = (random.below(1 << 40) + 1) as f64 / 1000.0;
            assert!((ln(x) - x.ln()).abs() <= 1e-14 * x.ln().abs().max(1.0), "{x}");
            let y = (random.below(1 << 20) as f64 / 1_048_576.0 - 0.5) * 80.0;
            assert!((exp(y) / y.exp() - 1.0).abs() < 1e-13, "{y}");
            let t = y / 100.0;
            assert!((exp_minus_1_over(t) * t - t.exp_m1()).abs() < 1e-15 + 1e-14 * t.abs(), "{t}");
            assert!((ln_plus_1_over(t) * t - t.ln_1p()).abs() < 1e-15 + 1e-14 * t.abs(), "{t}");
        }
    }

    #[test]
    fn ranks_have_their_expected_frequencies() {
        for exponent in [0.0, 0.5, 0.999_999, 1.0, 1.3, 3.0] {
            let law = Inversion::new(50, exponent);
            let mut counts = [0.0f64; 50];
            let mut random = Random::new(9);
            for _ in 0..200_000 {
                counts[law.draw(&mut random) as usize] += 1.0;
            }
            let weights: Vec<f64> = (1..=50).map(|rank| f64::from(rank).powf(-exponent)).collect();
            let total: f64 = weights.iter().sum();
            for (rank, (&count, weight)) in (1..).zip(counts.iter().zip(&weights)) {
                let expected = 200_000.0 * weight / total;
                let off = (count - expected).abs();
                assert!(off < 5.0 * expected.sqrt() + 1.0, "{exponent} {rank}: {count} {expected}");
            }
        }
    }

    #[test]
    fn far_end_of_a_large_universe_has_its_expected_frequency() {
        for exponent in [0.8, 1.0, 1.000_1] {
            let law = Inversion::new(1_000_000_000, exponent);
            let mut random = Random::new(2);
            let beyond = (0..100_000).filter(|_| law.draw(&mut random) >= 100_000_000).count();
            // The integral from 10⁸ to 10⁹ over that from 1/2, about.
            let integral = |x: f64| law.integral(x);
            let expected = 1e5 * (integral(1e9) - integral(1e8)) / (law.last - law.first);
            assert!(
                (beyond as f64 / expected - 1.0).abs() < 0.05,
                "{exponent}: {beyond} {expected}"
            );
        }
    }
}
