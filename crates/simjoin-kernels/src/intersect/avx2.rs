//! Blocks of eight tokens.

use super::blocks::{self, Block};
use super::{Elements, Size};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(super) struct Ymm(pub(super) __m256i);

impl Block for Ymm {
    const TOKENS: usize = 8;
    type Counts = __m256i;

    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: the caller's.
        Ymm(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn equal(self, other: *const u32) -> Self {
        // SAFETY: the caller's.
        unsafe {
            let mut equal = [_mm256_setzero_si256(); 2];
            for at in 0..Self::TOKENS {
                let token = _mm256_set1_epi32(*other.add(at) as i32);
                equal[at % 2] = _mm256_or_si256(equal[at % 2], _mm256_cmpeq_epi32(self.0, token));
            }
            Ymm(_mm256_or_si256(equal[0], equal[1]))
        }
    }

    #[inline(always)]
    unsafe fn bits(self) -> u32 {
        // SAFETY: the caller's.
        unsafe { _mm256_movemask_ps(_mm256_castsi256_ps(self.0)) as u32 }
    }

    #[inline(always)]
    unsafe fn no_counts() -> __m256i {
        // SAFETY: the caller's.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn add(self, counts: __m256i) -> __m256i {
        // SAFETY: the caller's. All ones are -1.
        unsafe { _mm256_sub_epi32(counts, self.0) }
    }

    #[inline(always)]
    unsafe fn sum(counts: __m256i) -> u64 {
        let mut places = [0u32; Self::TOKENS];
        // SAFETY: the caller's; there is room for all places.
        unsafe { _mm256_storeu_si256(places.as_mut_ptr().cast(), counts) };
        places.iter().copied().map(u64::from).sum()
    }

    #[inline(always)]
    unsafe fn write(self, bits: u32, to: *mut u32) {
        // SAFETY: the caller's; eight bits are a place of the table.
        unsafe {
            let order = _mm256_loadu_si256(PACK[bits as usize].as_ptr().cast());
            _mm256_storeu_si256(to.cast(), _mm256_permutevar8x32_epi32(self.0, order));
        }
    }
}

/// The permutation that moves each subset of the places to the front.
static PACK: [[u32; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut bits = 0;
    while bits < 256 {
        let (mut place, mut count) = (0, 0);
        while place < 8 {
            if bits >> place & 1 == 1 {
                table[bits][count] = place as u32;
                count += 1;
            }
            place += 1;
        }
        bits += 1;
    }
    table
};

/// # Safety
///
/// The processor has the tier's instructions.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn size(a: &[u32], b: &[u32], found: &mut Size) {
    // SAFETY: the caller's.
    unsafe { blocks::size::<Ymm>(a, b, found) }
}

/// # Safety
///
/// The processor has the tier's instructions.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn elements(a: &[u32], b: &[u32], found: &mut Elements<'_>) {
    // SAFETY: the caller's.
    unsafe { blocks::elements::<Ymm, _>(a, b, found) }
}
