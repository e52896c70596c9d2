//! Compares two pairs at a time; `cnt` counts the bits of bytes, pairwise additions widen the sums.

use super::loops::Lanes;
use std::arch::aarch64::*;

#[derive(Clone, Copy)]
struct Quad(uint64x2_t);

impl Lanes for Quad {
    const LANES: usize = 2;

    #[inline(always)]
    unsafe fn splat(value: u64) -> Self {
        // SAFETY: the caller's.
        Quad(unsafe { vdupq_n_u64(value) })
    }

    #[inline(always)]
    unsafe fn load(from: *const u64) -> Self {
        // SAFETY: the caller's.
        Quad(unsafe { vld1q_u64(from) })
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u64, _: usize) -> Self {
        // SAFETY: the caller's; a part is one lane.
        Quad(unsafe { vsetq_lane_u64::<0>(*from, vdupq_n_u64(0)) })
    }

    #[inline(always)]
    unsafe fn load_weights(from: *const i32) -> Self {
        // SAFETY: the caller's.
        Quad(unsafe { vreinterpretq_u64_s64(vmovl_s32(vld1_s32(from))) })
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller's.
        Quad(unsafe { veorq_u64(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the caller's.
        Quad(unsafe { vaddq_u64(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn popcount(self) -> Self {
        // SAFETY: the caller's.
        unsafe {
            let bytes = vcntq_u8(vreinterpretq_u8_u64(self.0));
            Quad(vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(bytes))))
        }
    }

    #[inline(always)]
    unsafe fn times_unit(self) -> Self {
        // SAFETY: the caller's. The unit is 16.
        Quad(unsafe { vshlq_n_u64::<4>(self.0) })
    }

    #[inline(always)]
    unsafe fn at_most(self, other: Self) -> u32 {
        // SAFETY: the caller's.
        unsafe {
            let mask = vcleq_s64(vreinterpretq_s64_u64(self.0), vreinterpretq_s64_u64(other.0));
            (vgetq_lane_u64::<0>(mask) as u32 & 1) | (vgetq_lane_u64::<1>(mask) as u32 & 2)
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
        Quad(unsafe { vmovl_u32(vsub_u32(vdup_n_u32(top), vld1_u32(from))) })
    }

    #[inline(always)]
    unsafe fn load_ranks_part(from: *const u32, top: u32, _: usize) -> Self {
        // SAFETY: the caller's; a part is one lane.
        Quad(unsafe { vmovl_u32(vsub_u32(vdup_n_u32(top), vdup_n_u32(*from))) })
    }

    #[inline(always)]
    unsafe fn first(self, _: usize) -> Self {
        // SAFETY: the caller's; a part is one lane.
        Quad(unsafe { vsetq_lane_u64::<1>(0, self.0) })
    }

    #[inline(always)]
    unsafe fn bits(self, word: usize, words: usize) -> Self {
        // SAFETY: the caller's.
        unsafe {
            // The bits of the rank above the lowest six choose the word.
            let mask = vdupq_n_u64((64 * words - 64) as u64);
            let here = vceqq_u64(vandq_u64(self.0, mask), vdupq_n_u64((64 * word) as u64));
            let one = vandq_u64(here, vdupq_n_u64(1));
            let by = vreinterpretq_s64_u64(vandq_u64(self.0, vdupq_n_u64(63)));
            Quad(vshlq_u64(one, by))
        }
    }

    #[inline(always)]
    unsafe fn fold(self) -> u64 {
        // SAFETY: the caller's.
        unsafe { vgetq_lane_u64::<0>(self.0) ^ vgetq_lane_u64::<1>(self.0) }
    }

    #[inline(always)]
    unsafe fn sum(self) -> u64 {
        // SAFETY: the caller's.
        unsafe { vaddvq_u64(self.0) }
    }
}

entry_points!(Quad, "neon");
