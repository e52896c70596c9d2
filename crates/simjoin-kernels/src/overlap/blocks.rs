//! Compares each token of one set with a block of tokens of the other.
//!
//! The longer set is divided into blocks of the size of a register. Each token of the shorter set
//! is compared with the whole block that could hold it; blocks that end before it are skipped. So a
//! token needs one comparison instead of an unpredictable step of a merge.
//!
//! *Equal blocks.* If both sets continue with the same tokens, as near-duplicates do for long
//! stretches, one comparison counts a whole block.
//!
//! *Early reject.* After each block, the pair can still reach the tokens found so far plus the
//! shorter of the two rests; if that is below the required overlap, the pair is dropped.

/// A block of tokens in a register.
///
/// # Safety
///
/// The methods may only be called where the tier's instructions are available; `load` needs
/// `TOKENS` readable elements, `load_part` at least one and `count < TOKENS`.
#[allow(clippy::missing_safety_doc)]
pub(super) trait Block: Copy {
    const TOKENS: usize;
    unsafe fn load(from: *const u32) -> Self;
    /// Returns the first `count` tokens; the other lanes repeat one of them.
    unsafe fn load_part(from: *const u32, count: usize) -> Self;
    unsafe fn contains(self, token: u32) -> bool;
    unsafe fn equals(self, other: Self) -> bool;
}

/// See [`super::verify`].
///
/// # Safety
///
/// The tier's instructions are available.
#[inline(always)]
pub(super) unsafe fn verify<B: Block>(
    a: &[u32],
    b: &[u32],
    found: u32,
    required: u32,
) -> Option<u32> {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let reaches = |count: u32, at: usize, block: usize| {
        u64::from(count) + (short.len() - at).min(long.len().saturating_sub(block)) as u64
            >= u64::from(required)
    };
    if !reaches(found, 0, 0) {
        return None;
    }
    if short.is_empty() {
        return Some(found);
    }
    let mut count = found;
    let mut start = 0;
    let mut at = 0;
    loop {
        // The block at `start`; every token of `short` before `at` is below all that follows.
        let rest = long.len() - start;
        // SAFETY: the loads stay within `long`, of which `rest > 0` tokens are left.
        let (block, last) = unsafe {
            if rest >= B::TOKENS {
                (B::load(long.as_ptr().add(start)), long[start + B::TOKENS - 1])
            } else {
                (B::load_part(long.as_ptr().add(start), rest), long[long.len() - 1])
            }
        };
        let equal = rest >= B::TOKENS && short.len() - at >= B::TOKENS && {
            // SAFETY: as many tokens are left in `short`.
            unsafe { block.equals(B::load(short.as_ptr().add(at))) }
        };
        if equal {
            count += B::TOKENS as u32;
            at += B::TOKENS;
        }
        while at < short.len() && short[at] <= last {
            // SAFETY: the caller's.
            count += u32::from(unsafe { block.contains(short[at]) });
            at += 1;
        }
        start += B::TOKENS;
        if at == short.len() || start >= long.len() {
            return (count >= required).then_some(count);
        }
        if !reaches(count, at, start) {
            return None;
        }
    }
}
