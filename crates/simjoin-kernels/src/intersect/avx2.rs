//! Eight tokens a block.

use super::blocks::{self, Block};
use super::{Elements, Size};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(super) struct Ymm(pub(super) __m256i);

impl Block for Ymm {
    const TOKENS: usize = 8;

    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: the caller's.
        Ymm(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn common(self, other: *const u32) -> u32 {
        // SAFETY: the caller's.
        unsafe {
            let mut equal = [_mm256_setzero_si256(); 2];
            for at in 0..Self::TOKENS {
                let token = _mm256_set1_epi32(*other.add(at) as i32);
                equal[at % 2] = _mm256_or_si256(equal[at % 2], _mm256_cmpeq_epi32(self.0, token));
            }
            let equal = _mm256_or_si256(equal[0], equal[1]);
            _mm256_movemask_ps(_mm256_castsi256_ps(equal)) as u32
        }
    }

    #[inline(always)]
    unsafe fn write(self, bits: u32, to: *mut u32) {
        let mut tokens = [0; Self::TOKENS];
        // SAFETY: the caller's.
        unsafe {
            _mm256_storeu_si256(tokens.as_mut_ptr().cast(), self.0);
            blocks::write_one_by_one(&tokens, bits, to);
        }
    }
}

/// # Safety
///
/// The processor has the tier's instructions.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn size(a: &[u32], b: &[u32], found: &mut Size) {
    // SAFETY: the caller's.
    unsafe { blocks::intersect::<Ymm, _>(a, b, found) }
}

/// # Safety
///
/// The processor has the tier's instructions.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn elements(a: &[u32], b: &[u32], found: &mut Elements<'_>) {
    // SAFETY: the caller's.
    unsafe { blocks::intersect::<Ymm, _>(a, b, found) }
}
