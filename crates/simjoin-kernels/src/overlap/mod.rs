//! How many tokens do two sets share, and is it enough?
//!
//! [`verify`] is the kernel that decides about the candidates of the published techniques. A filter
//! has already compared the first parts of two ascending sets. The arguments are the rests of both
//! sets, the number of common tokens in the first parts, and the overlap that the predicate requires.
//!
//! [`Verify`] does the same by vector instructions, always with the full overlap.

mod blocks;
mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

pub use scalar::{overlap, verify};

use crate::tier::Tier;

/// The verification of one tier.
#[derive(Clone, Copy, Debug)]
pub struct Verify {
    tier: Tier,
    verify: unsafe fn(&[u32], &[u32], u32, u32) -> Option<u32>,
}

impl Verify {
    /// Returns the functions of the best tier.
    pub fn best() -> Self {
        Self::of(Tier::best())
    }

    /// Returns the functions of a tier; the scalar ones if the processor lacks it.
    pub fn of(tier: Tier) -> Self {
        match tier {
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 if tier.is_available() => Verify { tier, verify: avx512::verify },
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 if tier.is_available() => Verify { tier, verify: avx2::verify },
            #[cfg(target_arch = "aarch64")]
            Tier::Neon if tier.is_available() => Verify { tier, verify: neon::verify },
            _ => Verify { tier: Tier::Scalar, verify: verify::<true> },
        }
    }

    /// Returns the tier that runs.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Returns the overlap of two sets if it reaches `required`. `found` common tokens are known; `a` and
    /// `b` are the ascending rests of the sets.
    #[inline(always)]
    pub fn overlap(&self, a: &[u32], b: &[u32], found: u32, required: u32) -> Option<u32> {
        // SAFETY: the processor has the tier's instructions.
        unsafe { (self.verify)(a, b, found, required) }
    }
}
