//! Which numbers look random, and are the same on every machine and in every version?
//!
//! SplitMix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators). Samples, the placement of records
//! in a cluster and test data depend on its numbers, so they never change.

/// A sequence of numbers that look random.
#[derive(Clone, Debug, Default)]
pub struct Random(u64);

impl Random {
    /// Starts the sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Returns the next number.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix64(self.0)
    }

    /// Returns a number below a limit; 0 if the limit is 0.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// Returns a multiple of 2⁻⁵³ in [0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Mixes the bits of a number: a one-to-one function whose values look random (the finalizer of SplitMix64).
#[inline]
pub fn mix64(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_reference_implementation() {
        let mut random = Random::new(1_234_567);
        let first = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(first.map(|_| random.bits()), first);
    }

    #[test]
    fn numbers_stay_below_their_limit() {
        let mut random = Random::default();
        assert!((0..1000).all(|limit| random.below(limit) < limit.max(1)));
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.unit())));
    }
}
