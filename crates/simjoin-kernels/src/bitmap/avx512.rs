//! Eight pairs at a time: `vpopcntq` counts all lanes in one instruction.

use super::{Lanes, PROBES};
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
    unsafe fn load_weights_part(from: *const i32, count: usize) -> Self {
        let mask = ((1u32 << count) - 1) as __mmask8;
        // SAFETY: the caller's; lanes outside the mask are not read.
        Zmm(unsafe { _mm512_cvtepi32_epi64(_mm256_maskz_loadu_epi32(mask, from)) })
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
}

/// # Safety
///
/// As [`super::run`], with the tier's instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vpopcntdq,popcnt,avx2")]
pub(super) unsafe fn run<const W: usize>(
    planes: &[&[u64]; W],
    probes: &[[u64; W]; PROBES],
    limits: &[u64; PROBES],
    out: &mut [u32],
) -> usize {
    // SAFETY: the caller's.
    unsafe { super::run::<Zmm, W>(planes, probes, limits, out) }
}

/// # Safety
///
/// As [`super::list`], with the tier's instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vpopcntdq,popcnt,avx2")]
pub(super) unsafe fn list<const W: usize>(
    planes: &[&[u64]; W],
    weights: &[i32],
    probe: &[u64; W],
    limit: i32,
    out: &mut [u32],
) -> usize {
    // SAFETY: the caller's.
    unsafe { super::list::<Zmm, W>(planes, weights, probe, limit, out) }
}
