//! Blocks of four tokens.

use super::blocks::{self, Block};
use std::arch::aarch64::*;

#[derive(Clone, Copy)]
struct Quad(uint32x4_t);

impl Block for Quad {
    const TOKENS: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: the caller's.
        Quad(unsafe { vld1q_u32(from) })
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u32, count: usize) -> Self {
        // SAFETY: the caller's; `count` is below 4.
        unsafe {
            let mut lanes = [*from; 4];
            std::ptr::copy_nonoverlapping(from, lanes.as_mut_ptr(), count);
            Self::load(lanes.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn contains(self, token: u32) -> bool {
        // SAFETY: the caller's.
        unsafe { vmaxvq_u32(vceqq_u32(self.0, vdupq_n_u32(token))) != 0 }
    }

    #[inline(always)]
    unsafe fn equals(self, other: Self) -> bool {
        // SAFETY: the caller's.
        unsafe { vminvq_u32(vceqq_u32(self.0, other.0)) != 0 }
    }
}

/// # Safety
///
/// The processor has the tier's instructions.
#[target_feature(enable = "neon")]
pub(super) unsafe fn verify(a: &[u32], b: &[u32], found: u32, required: u32) -> Option<u32> {
    // SAFETY: the caller's.
    unsafe { blocks::verify::<Quad>(a, b, found, required) }
}
