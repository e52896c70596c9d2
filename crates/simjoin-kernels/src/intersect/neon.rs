//! Blocks of four tokens.

use super::blocks::{self, Block};
use super::{Elements, Size};
use std::arch::aarch64::*;

#[derive(Clone, Copy)]
struct Quad(uint32x4_t);

impl Block for Quad {
    const TOKENS: usize = 4;
    type Counts = uint32x4_t;

    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: the caller's.
        Quad(unsafe { vld1q_u32(from) })
    }

    #[inline(always)]
    unsafe fn equal(self, other: *const u32) -> Self {
        // SAFETY: the caller's.
        unsafe {
            let mut equal = vdupq_n_u32(0);
            for at in 0..Self::TOKENS {
                equal = vorrq_u32(equal, vceqq_u32(self.0, vdupq_n_u32(*other.add(at))));
            }
            Quad(equal)
        }
    }

    #[inline(always)]
    unsafe fn bits(self) -> u32 {
        // SAFETY: the caller's. Each lane its own bit.
        unsafe { vaddvq_u32(vandq_u32(self.0, vld1q_u32([1, 2, 4, 8].as_ptr()))) }
    }

    #[inline(always)]
    unsafe fn no_counts() -> uint32x4_t {
        // SAFETY: the caller's.
        unsafe { vdupq_n_u32(0) }
    }

    #[inline(always)]
    unsafe fn add(self, counts: uint32x4_t) -> uint32x4_t {
        // SAFETY: the caller's. All ones are -1.
        unsafe { vsubq_u32(counts, self.0) }
    }

    #[inline(always)]
    unsafe fn sum(counts: uint32x4_t) -> u64 {
        // SAFETY: the caller's.
        unsafe { vaddlvq_u32(counts) }
    }

    #[inline(always)]
    unsafe fn write(self, bits: u32, to: *mut u32) {
        let mut tokens = [0; Self::TOKENS];
        // SAFETY: the caller's.
        unsafe {
            vst1q_u32(tokens.as_mut_ptr(), self.0);
            blocks::write_one_by_one(&tokens, bits, to);
        }
    }
}

/// # Safety
///
/// The processor has the tier's instructions.
#[target_feature(enable = "neon")]
pub(super) unsafe fn size(a: &[u32], b: &[u32], found: &mut Size) {
    // SAFETY: the caller's.
    unsafe { blocks::size::<Quad>(a, b, found) }
}

/// # Safety
///
/// The processor has the tier's instructions.
#[target_feature(enable = "neon")]
pub(super) unsafe fn elements(a: &[u32], b: &[u32], found: &mut Elements<'_>) {
    // SAFETY: the caller's.
    unsafe { blocks::elements::<Quad, _>(a, b, found) }
}
