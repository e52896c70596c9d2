//! Compares eight pairs at a time; `vpopcntq` counts the bits of all lanes in one instruction.

use super::loops::Lanes;
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
struct Zmm(__m512i);

impl Lanes for Zmm {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn splat(value: u64) -> Self {
        // SAFETY: the caller's.
        Zmm(unsafe { _mm512_set1_epi64(value as i64) })
    }

    #[inline(always)]
    unsafe fn load(from: *const u64) -> Self {
        // SAFETY: the caller's.
        Zmm(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u64, count: usize) -> Self {
        // SAFETY: the caller's; lanes outside the mask are not read.
        Zmm(unsafe { _mm512_maskz_loadu_epi64(((1u32 << count) - 1) as __mmask8, from.cast()) })
    }

    #[inline(always)]
    unsafe fn load_weights(from: *const i32) -> Self {
        // SAFETY: the caller's.
        Zmm(unsafe { _mm512_cvtepi32_epi64(_mm256_loadu_si256(from.cast())) })
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller's.
        Zmm(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the caller's.
        Zmm(unsafe { _mm512_add_epi64(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn popcount(self) -> Self {
        // SAFETY: the caller's.
        Zmm(unsafe { _mm512_popcnt_epi64(self.0) })
    }

    #[inline(always)]
    unsafe fn times_unit(self) -> Self {
        // SAFETY: the caller's. The unit is 16.
        Zmm(unsafe { _mm512_slli_epi64::<4>(self.0) })
    }

    #[inline(always)]
    unsafe fn at_most(self, other: Self) -> u32 {
        // SAFETY: the caller's.
        u32::from(unsafe { _mm512_cmple_epi64_mask(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn store_places(mask: u32, base: u32, to: *mut u32) {
        // SAFETY: the caller's.
        unsafe {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let places = _mm256_add_epi32(_mm256_set1_epi32(base as i32), lanes);
            let packed = _mm256_maskz_compress_epi32(mask as __mmask8, places);
            _mm256_storeu_si256(to.cast(), packed);
        }
    }

    #[inline(always)]
    unsafe fn load_ranks(from: *const u32, top: u32) -> Self {
        // SAFETY: the caller's.
        unsafe {
            let tokens = _mm256_loadu_si256(from.cast());
            Zmm(_mm512_cvtepu32_epi64(_mm256_sub_epi32(_mm256_set1_epi32(top as i32), tokens)))
        }
    }

    #[inline(always)]
    unsafe fn load_ranks_part(from: *const u32, top: u32, count: usize) -> Self {
        // SAFETY: the caller's; lanes outside the mask are not read.
        unsafe {
            let tokens = _mm256_maskz_loadu_epi32(((1u32 << count) - 1) as __mmask8, from.cast());
            Zmm(_mm512_cvtepu32_epi64(_mm256_sub_epi32(_mm256_set1_epi32(top as i32), tokens)))
        }
    }

    #[inline(always)]
    unsafe fn first(self, count: usize) -> Self {
        // SAFETY: the caller's.
        Zmm(unsafe { _mm512_maskz_mov_epi64(((1u32 << count) - 1) as __mmask8, self.0) })
    }

    #[inline(always)]
    unsafe fn bits(self, word: usize, words: usize) -> Self {
        // SAFETY: the caller's.
        unsafe {
            let low = _mm512_and_si512(self.0, _mm512_set1_epi64(63));
            let one = _mm512_set1_epi64(1);
            if words == 1 {
                return Zmm(_mm512_sllv_epi64(one, low));
            }
            // The bits of the rank above the lowest six choose the word.
            let mask = _mm512_set1_epi64((64 * words - 64) as i64);
            let chosen = _mm512_set1_epi64((64 * word) as i64);
            let here = _mm512_cmpeq_epi64_mask(_mm512_and_si512(self.0, mask), chosen);
            Zmm(_mm512_maskz_sllv_epi64(here, one, low))
        }
    }

    #[inline(always)]
    unsafe fn fold(self) -> u64 {
        // SAFETY: the caller's.
        unsafe {
            let half = _mm256_xor_si256(
                _mm512_castsi512_si256(self.0),
                _mm512_extracti64x4_epi64::<1>(self.0),
            );
            let quarter =
                _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
            (_mm_extract_epi64::<0>(quarter) ^ _mm_extract_epi64::<1>(quarter)) as u64
        }
    }

    #[inline(always)]
    unsafe fn sum(self) -> u64 {
        // SAFETY: the caller's.
        unsafe { _mm512_reduce_add_epi64(self.0) as u64 }
    }
}

entry_points!(Zmm, "avx512f,avx512bw,avx512vl,avx512vpopcntdq,popcnt,avx2");
