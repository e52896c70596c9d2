//! Block against block.

use super::{Elements, Found, Size, merge};

/// A block of tokens in a register.
///
/// # Safety
///
/// The methods may only be called where the tier's instructions are available; pointers are to `TOKENS`
/// elements.
#[allow(clippy::missing_safety_doc)]
pub(super) trait Block: Copy {
    const TOKENS: usize;
    unsafe fn load(from: *const u32) -> Self;
    /// A bit for each token that is also in the other block.
    unsafe fn common(self, other: *const u32) -> u32;
    /// Writes the tokens of which there is a bit one after the other; what comes after them up to
    /// `TOKENS` is anything.
    unsafe fn write(self, bits: u32, to: *mut u32);
}

/// Something that takes the common tokens of two blocks.
pub(super) trait FoundInBlocks: Found {
    /// # Safety
    ///
    /// The tier's instructions are available.
    unsafe fn some<B: Block>(&mut self, block: B, tokens: &[u32], bits: u32);
}

impl FoundInBlocks for Size {
    #[inline(always)]
    unsafe fn some<B: Block>(&mut self, _: B, _: &[u32], bits: u32) {
        self.0 += u64::from(bits.count_ones());
    }
}

impl FoundInBlocks for Elements<'_> {
    #[inline(always)]
    unsafe fn some<B: Block>(&mut self, block: B, tokens: &[u32], bits: u32) {
        if bits == 0 {
            return;
        }
        if let Some(room) = self.out[self.len..].get_mut(..B::TOKENS) {
            // SAFETY: there is room for a whole block.
            unsafe { block.write(bits, room.as_mut_ptr()) };
            self.len += bits.count_ones() as usize;
            return;
        }
        let mut bits = bits;
        while bits != 0 {
            self.one(tokens[bits.trailing_zeros() as usize]);
            bits &= bits - 1;
        }
    }
}

/// [`Block::write`] for tiers without an instruction for it.
///
/// # Safety
///
/// There is room for all tokens.
#[inline(always)]
pub(super) unsafe fn write_one_by_one(tokens: &[u32], mut bits: u32, mut to: *mut u32) {
    while bits != 0 {
        // SAFETY: no more are written than there are tokens.
        unsafe {
            *to = tokens[bits.trailing_zeros() as usize];
            to = to.add(1);
        }
        bits &= bits - 1;
    }
}

/// The common tokens of two ascending slices.
///
/// # Safety
///
/// The tier's instructions are available.
#[inline(always)]
pub(super) unsafe fn intersect<B: Block, F: FoundInBlocks>(a: &[u32], b: &[u32], found: &mut F) {
    let (mut at_a, mut at_b) = (0, 0);
    while at_a + B::TOKENS <= a.len() && at_b + B::TOKENS <= b.len() {
        let of_a = &a[at_a..at_a + B::TOKENS];
        let of_b = &b[at_b..at_b + B::TOKENS];
        // SAFETY: both have as many tokens as a block.
        unsafe {
            let block = B::load(of_a.as_ptr());
            found.some(block, of_a, block.common(of_b.as_ptr()));
        }
        let (x, y) = (of_a[B::TOKENS - 1], of_b[B::TOKENS - 1]);
        at_a += if x <= y { B::TOKENS } else { 0 };
        at_b += if y <= x { B::TOKENS } else { 0 };
    }
    // One of the two has less than a block left. What was found in the other's block at hand was found
    // in blocks that have made way.
    merge(&a[at_a..], &b[at_b..], found);
}
