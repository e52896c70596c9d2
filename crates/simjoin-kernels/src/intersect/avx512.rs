//! Blocks of eight tokens, as with AVX2, by fewer instructions.
//!
//! One of eight differences is zero exactly if their minimum is zero, and an exclusive or can broadcast a token
//! from memory. Blocks of sixteen tokens would need four times the comparisons, and comparisons into masks take
//! longer. AVX2 writes the tokens: the instruction that packs them takes far longer than a table.

use super::Size;
use super::avx2::Ymm;
use super::blocks::{self, Block};
use std::arch::x86_64::*;

/// The number of tokens to prefetch ahead. Processors prefetch by themselves, but not beyond a page.
const AHEAD: usize = 96;

#[derive(Clone, Copy)]
struct Differences(Ymm);

impl Block for Differences {
    const TOKENS: usize = Ymm::TOKENS;
    type Counts = <Ymm as Block>::Counts;

    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: the caller's.
        Differences(unsafe { Ymm::load(from) })
    }

    #[inline(always)]
    fn soon(from: *const u32) {
        // SAFETY: a prefetch never faults and changes nothing, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(AHEAD).cast()) };
    }

    #[inline(always)]
    unsafe fn equal(self, other: *const u32) -> Self {
        // SAFETY: the caller's.
        unsafe {
            let tokens = self.0.0;
            let least = |at: usize| {
                let [one, two] = [at, at + 1]
                    .map(|at| _mm256_xor_si256(tokens, _mm256_set1_epi32(*other.add(at) as i32)));
                _mm256_min_epu32(one, two)
            };
            let halves = [0, 4].map(|at| _mm256_min_epu32(least(at), least(at + 2)));
            let least = _mm256_min_epu32(halves[0], halves[1]);
            Differences(Ymm(_mm256_cmpeq_epi32(least, _mm256_setzero_si256())))
        }
    }

    #[inline(always)]
    unsafe fn bits(self) -> u32 {
        // SAFETY: the caller's.
        unsafe { self.0.bits() }
    }

    #[inline(always)]
    unsafe fn no_counts() -> Self::Counts {
        // SAFETY: the caller's.
        unsafe { Ymm::no_counts() }
    }

    #[inline(always)]
    unsafe fn add(self, counts: Self::Counts) -> Self::Counts {
        // SAFETY: the caller's.
        unsafe { self.0.add(counts) }
    }

    #[inline(always)]
    unsafe fn sum(counts: Self::Counts) -> u64 {
        // SAFETY: the caller's.
        unsafe { Ymm::sum(counts) }
    }

    #[inline(always)]
    unsafe fn write(self, bits: u32, to: *mut u32) {
        // SAFETY: the caller's.
        unsafe { self.0.write(bits, to) }
    }
}

/// # Safety
///
/// The processor has the tier's instructions.
#[target_feature(enable = "avx512f,avx512vl,avx2,popcnt")]
pub(super) unsafe fn size(a: &[u32], b: &[u32], found: &mut Size) {
    // SAFETY: the caller's.
    unsafe { blocks::size::<Differences>(a, b, found) }
}
