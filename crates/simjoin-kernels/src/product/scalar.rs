//! The product, word by word.

use super::{Lanes, ROWS};

#[derive(Clone, Copy)]
pub(super) struct Words([u64; ROWS]);

impl Lanes for Words {
    type Sums = [u32; ROWS];

    #[inline(always)]
    unsafe fn load(from: *const u64) -> Self {
        // SAFETY: the caller's.
        Words(unsafe { from.cast::<[u64; ROWS]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn zero() -> [u32; ROWS] {
        [0; ROWS]
    }

    #[inline(always)]
    unsafe fn add(self, probe: u64, mut sums: [u32; ROWS]) -> [u32; ROWS] {
        for (sum, word) in sums.iter_mut().zip(self.0) {
            *sum += (word & probe).count_ones();
        }
        sums
    }

    #[inline(always)]
    unsafe fn store(sums: [u32; ROWS], to: &mut [u32; ROWS]) {
        *to = sums;
    }
}

entry_point!(Words);
