//! Blocks of eight tokens.

use super::blocks::{self, Block};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
struct Ymm(__m256i);

impl Block for Ymm {
    const TOKENS: usize = 8;

    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: the caller's.
        Ymm(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u32, count: usize) -> Self {
        // SAFETY: the caller's; `count` is below 8, and lanes outside the mask are not read. By way of the stack
        // it would wait for all stores before it.
        unsafe {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let kept = _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lanes);
            let part = _mm256_maskload_epi32(from.cast(), kept);
            Ymm(_mm256_blendv_epi8(_mm256_set1_epi32(*from as i32), part, kept))
        }
    }

    #[inline(always)]
    unsafe fn contains(self, token: u32) -> bool {
        // SAFETY: the caller's.
        unsafe {
            let equal = _mm256_cmpeq_epi32(self.0, _mm256_set1_epi32(token as i32));
            _mm256_movemask_epi8(equal) != 0
        }
    }

    #[inline(always)]
    unsafe fn equals(self, other: Self) -> bool {
        // SAFETY: the caller's.
        unsafe { _mm256_movemask_epi8(_mm256_cmpeq_epi32(self.0, other.0)) == -1 }
    }
}

/// # Safety
///
/// The processor has the tier's instructions.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn verify(a: &[u32], b: &[u32], found: u32, required: u32) -> Option<u32> {
    // SAFETY: the caller's.
    unsafe { blocks::verify::<Ymm>(a, b, found, required) }
}
