//! Compares four pairs at a time; a table of 16 nibbles counts the bits (Muła, Kurz, Lemire 2018).

use super::loops::Lanes;
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
struct Ymm(__m256i);

/// Returns a mask of the first lanes, for loads of less than a vector. A copy on the stack would be slower:
/// it could be loaded only after every earlier store has reached the cache, and while lists are filled this
/// takes as long as an access to memory.
#[inline(always)]
unsafe fn first_lanes(count: usize) -> __m128i {
    // SAFETY: the caller's.
    unsafe { _mm_cmpgt_epi32(_mm_set1_epi32(count as i32), _mm_setr_epi32(0, 1, 2, 3)) }
}

impl Lanes for Ymm {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn splat(value: u64) -> Self {
        // SAFETY: the caller's.
        Ymm(unsafe { _mm256_set1_epi64x(value as i64) })
    }

    #[inline(always)]
    unsafe fn load(from: *const u64) -> Self {
        // SAFETY: the caller's.
        Ymm(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u64, count: usize) -> Self {
        // SAFETY: the caller's; `count` is below 4, and lanes outside the mask are not read.
        unsafe {
            let kept = _mm256_cvtepi32_epi64(first_lanes(count));
            Ymm(_mm256_maskload_epi64(from.cast(), kept))
        }
    }

    #[inline(always)]
    unsafe fn load_weights(from: *const i32) -> Self {
        // SAFETY: the caller's.
        Ymm(unsafe { _mm256_cvtepi32_epi64(_mm_loadu_si128(from.cast())) })
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller's.
        Ymm(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the caller's.
        Ymm(unsafe { _mm256_add_epi64(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn popcount(self) -> Self {
        // SAFETY: the caller's.
        unsafe {
            let table = _mm256_setr_epi8(
                0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3,
                2, 3, 3, 4,
            );
            let nibble = _mm256_set1_epi8(0x0f);
            let low = _mm256_and_si256(self.0, nibble);
            let high = _mm256_and_si256(_mm256_srli_epi16::<4>(self.0), nibble);
            let counts =
                _mm256_add_epi8(_mm256_shuffle_epi8(table, low), _mm256_shuffle_epi8(table, high));
            Ymm(_mm256_sad_epu8(counts, _mm256_setzero_si256()))
        }
    }

    #[inline(always)]
    unsafe fn times_unit(self) -> Self {
        // SAFETY: the caller's. The unit is 16.
        Ymm(unsafe { _mm256_slli_epi64::<4>(self.0) })
    }

    #[inline(always)]
    unsafe fn at_most(self, other: Self) -> u32 {
        // SAFETY: the caller's.
        unsafe {
            let greater = _mm256_cmpgt_epi64(self.0, other.0);
            !_mm256_movemask_pd(_mm256_castsi256_pd(greater)) as u32 & 0xf
        }
    }

    #[inline(always)]
    unsafe fn store_places(mut mask: u32, base: u32, mut to: *mut u32) {
        while mask != 0 {
            // SAFETY: the caller's.
            unsafe {
                *to = base + mask.trailing_zeros();
                to = to.add(1);
            }
            mask &= mask - 1;
        }
    }

    #[inline(always)]
    unsafe fn load_ranks(from: *const u32, top: u32) -> Self {
        // SAFETY: the caller's.
        unsafe {
            let tokens = _mm_loadu_si128(from.cast());
            Ymm(_mm256_cvtepu32_epi64(_mm_sub_epi32(_mm_set1_epi32(top as i32), tokens)))
        }
    }

    #[inline(always)]
    unsafe fn load_ranks_part(from: *const u32, top: u32, count: usize) -> Self {
        // SAFETY: the caller's; `count` is below 4, and lanes outside the mask are not read.
        unsafe {
            let tokens = _mm_maskload_epi32(from.cast(), first_lanes(count));
            Ymm(_mm256_cvtepu32_epi64(_mm_sub_epi32(_mm_set1_epi32(top as i32), tokens)))
        }
    }

    #[inline(always)]
    unsafe fn first(self, count: usize) -> Self {
        // SAFETY: the caller's.
        unsafe {
            let lanes = _mm256_setr_epi64x(0, 1, 2, 3);
            let keep = _mm256_cmpgt_epi64(_mm256_set1_epi64x(count as i64), lanes);
            Ymm(_mm256_and_si256(self.0, keep))
        }
    }

    #[inline(always)]
    unsafe fn bits(self, word: usize, words: usize) -> Self {
        // SAFETY: the caller's.
        unsafe {
            // The bits of the rank above the lowest six choose the word.
            let mask = _mm256_set1_epi64x((64 * words - 64) as i64);
            let chosen = _mm256_set1_epi64x((64 * word) as i64);
            let here = _mm256_cmpeq_epi64(_mm256_and_si256(self.0, mask), chosen);
            let one = _mm256_and_si256(here, _mm256_set1_epi64x(1));
            Ymm(_mm256_sllv_epi64(one, _mm256_and_si256(self.0, _mm256_set1_epi64x(63))))
        }
    }

    #[inline(always)]
    unsafe fn fold(self) -> u64 {
        // SAFETY: the caller's.
        unsafe {
            let half = _mm_xor_si128(
                _mm256_castsi256_si128(self.0),
                _mm256_extracti128_si256::<1>(self.0),
            );
            (_mm_extract_epi64::<0>(half) ^ _mm_extract_epi64::<1>(half)) as u64
        }
    }

    #[inline(always)]
    unsafe fn sum(self) -> u64 {
        // SAFETY: the caller's.
        unsafe {
            let half = _mm_add_epi64(
                _mm256_castsi256_si128(self.0),
                _mm256_extracti128_si256::<1>(self.0),
            );
            (_mm_extract_epi64::<0>(half) + _mm_extract_epi64::<1>(half)) as u64
        }
    }
}

entry_points!(Ymm, "avx2,popcnt");
