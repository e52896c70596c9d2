//! Compares one pair at a time.

use super::WEIGHT_UNIT;
use super::loops::Lanes;

#[derive(Clone, Copy)]
struct Word(u64);

impl Lanes for Word {
    const LANES: usize = 1;

    #[inline(always)]
    unsafe fn splat(value: u64) -> Self {
        Word(value)
    }

    #[inline(always)]
    unsafe fn load(from: *const u64) -> Self {
        // SAFETY: the caller's.
        Word(unsafe { *from })
    }

    #[inline(always)]
    unsafe fn load_part(_: *const u64, _: usize) -> Self {
        Word(0)
    }

    #[inline(always)]
    unsafe fn load_weights(from: *const i32) -> Self {
        // SAFETY: the caller's.
        Word(i64::from(unsafe { *from }) as u64)
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        Word(self.0 ^ other.0)
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Word(self.0.wrapping_add(other.0))
    }

    #[inline(always)]
    unsafe fn popcount(self) -> Self {
        Word(u64::from(self.0.count_ones()))
    }

    #[inline(always)]
    unsafe fn times_unit(self) -> Self {
        Word(self.0 * WEIGHT_UNIT as u64)
    }

    #[inline(always)]
    unsafe fn at_most(self, other: Self) -> u32 {
        u32::from(self.0 as i64 <= other.0 as i64)
    }

    #[inline(always)]
    unsafe fn store_places(_: u32, base: u32, to: *mut u32) {
        // SAFETY: the caller's.
        unsafe { *to = base };
    }

    #[inline(always)]
    unsafe fn load_ranks(from: *const u32, top: u32) -> Self {
        // SAFETY: the caller's.
        Word(u64::from(top.wrapping_sub(unsafe { *from })))
    }

    #[inline(always)]
    unsafe fn load_ranks_part(_: *const u32, _: u32, _: usize) -> Self {
        Word(0)
    }

    #[inline(always)]
    unsafe fn first(self, _: usize) -> Self {
        Word(0)
    }

    #[inline(always)]
    unsafe fn bits(self, word: usize, words: usize) -> Self {
        let here = (self.0 / 64) as usize % words == word;
        Word(u64::from(here) << (self.0 % 64))
    }

    #[inline(always)]
    unsafe fn fold(self) -> u64 {
        self.0
    }

    #[inline(always)]
    unsafe fn sum(self) -> u64 {
        self.0
    }
}

entry_points!(Word);
