//! How are tokens drawn by the normal law, no token twice in a set?
//!
//! The middle of the law is the middle of the universe. A deviate is drawn exactly, only by comparisons of
//! uniform numbers (Karney, Sampling exactly from the normal distribution, 2016, algorithm N), so the
//! result does not depend on logarithms of a system library. One multiplication turns its distance from the
//! middle, in whole and 2⁻⁶⁴ deviations, into a token. A token outside the universe, or one that the set
//! already has, is drawn again, which is the same as drawing from the remaining tokens.
//!
//! The size of a set may be up to [`MOST`] times the deviation. Such a set has all tokens within about
//! two deviations, and a token takes a few draws. Only the current set is in memory.

use crate::random::Random;
use crate::synthetic::Drawn;

/// The largest average size of sets, in deviations.
pub(crate) const MOST: u64 = 4;

/// Draws tokens until the set has `size`, which is at most the universe.
pub(crate) fn draw(universe: u32, deviation: u32, size: u32, random: &mut Random, set: &mut Drawn) {
    let middle = i64::from(universe / 2);
    while set.len() < size {
        let (whole, part) = half(random);
        let deviates = u128::from(whole) << 64 | u128::from(part);
        // At most a few dozen deviations of 32 bits.
        let away = (deviates.saturating_mul(u128::from(deviation)) >> 64) as i64;
        let token = if random.bits() >> 63 == 0 { middle + away } else { middle - 1 - away };
        if (0..i64::from(universe)).contains(&token) {
            set.insert(token as u32);
        }
    }
}

/// Returns the distance of a normal deviate from the middle: its whole part and its fraction.
fn half(random: &mut Random) -> (u64, u64) {
    'again: loop {
        // Draw k with the probability e^(-k/2); keep it with the probability e^(-k(k-1)/2).
        let mut whole = 0u64;
        while half_exponential(random) {
            whole += 1;
        }
        for _ in 0..whole * whole.saturating_sub(1) {
            if !half_exponential(random) {
                continue 'again;
            }
        }
        // Draw a fraction x; keep it with the probability e^(-x(2k+x)/2).
        let part = random.bits();
        for _ in 0..=whole {
            if !kept(whole, part, random) {
                continue 'again;
            }
        }
        return (whole, part);
    }
}

/// Returns true with the probability e^(-1/2): that of an even length of the falling run of uniform
/// numbers below a half (von Neumann 1951).
fn half_exponential(random: &mut Random) -> bool {
    let (mut last, mut even) = (1 << 63, true);
    loop {
        let next = random.bits();
        if next >= last {
            return even;
        }
        (last, even) = (next, !even);
    }
}

/// Returns true with the probability e^(-x(2k+x)/(2k+2)).
fn kept(whole: u64, part: u64, random: &mut Random) -> bool {
    let (mut last, mut even) = (part, true);
    // (2k + x) / (2k + 2), in 2⁻⁶⁴.
    let (above, below) = (u128::from(2 * whole) << 64 | u128::from(part), 2 * whole + 2);
    let share = (above / u128::from(below)) as u64;
    loop {
        let next = random.bits();
        if next >= last || random.bits() >= share {
            return even;
        }
        (last, even) = (next, !even);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviates_have_the_moments_and_tails_of_the_normal_law() {
        let mut random = Random::new(3);
        let count = 400_000;
        let (mut first, mut second, mut fourth) = (0.0, 0.0, 0.0);
        let mut beyond = [0.0; 4];
        for _ in 0..count {
            let (whole, part) = half(&mut random);
            let y = whole as f64 + part as f64 / 2f64.powi(64);
            first += y;
            second += y * y;
            fourth += y * y * y * y;
            for (at, tail) in beyond.iter_mut().enumerate() {
                *tail += f64::from(u8::from(y > at as f64));
            }
        }
        let mean = |sum: f64| sum / f64::from(count);
        assert!((mean(first) - (2.0 / std::f64::consts::PI).sqrt()).abs() < 0.004);
        assert!((mean(second) - 1.0).abs() < 0.01);
        assert!((mean(fourth) - 3.0).abs() < 0.08);
        for (tail, expected) in beyond.iter().zip([1.0, 0.31731, 0.04550, 0.002_70]) {
            let off = mean(*tail) - expected;
            assert!(off.abs() < 5.0 * (expected / f64::from(count)).sqrt(), "{off} {expected}");
        }
    }

    #[test]
    fn set_can_hold_every_token() {
        let mut set = Drawn::new(1000).unwrap();
        draw(1000, 250, 1000, &mut Random::new(1), &mut set);
        assert_eq!(set.len(), 1000);
    }
}
