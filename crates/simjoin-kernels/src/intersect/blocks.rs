//! Compares blocks of two ascending slices.

use super::{Elements, Found, Size, merge, split};

/// A block of tokens in a register.
///
/// # Safety
///
/// The methods may only be called where the tier's instructions are available; pointers are to `TOKENS`
/// elements. Counts have 32 bits, which suffices for every slice.
#[allow(clippy::missing_safety_doc)]
pub(super) trait Block: Copy {
    const TOKENS: usize;
    /// The number of common tokens at each place.
    type Counts: Copy;
    unsafe fn load(from: *const u32) -> Self;
    /// Prefetches the tokens of some later step.
    #[inline(always)]
    fn soon(_from: *const u32) {}
    /// Returns all ones for each token that is also in the other block.
    unsafe fn equal(self, other: *const u32) -> Self;
    /// Returns a bit for each place that is all ones.
    unsafe fn bits(self) -> u32;
    unsafe fn no_counts() -> Self::Counts;
    /// Adds one for each place that is all ones.
    unsafe fn add(self, counts: Self::Counts) -> Self::Counts;
    unsafe fn sum(counts: Self::Counts) -> u64;
    /// Writes the tokens whose bits are set, one after the other. The elements behind them, up to
    /// `TOKENS`, are unspecified.
    unsafe fn write(self, bits: u32, to: *mut u32);
}

/// A receiver of the common tokens of two blocks.
pub(super) trait FoundInBlocks: Found {
    /// # Safety
    ///
    /// The tier's instructions are available.
    unsafe fn some<B: Block>(&mut self, block: B, tokens: &[u32], bits: u32);
}

impl FoundInBlocks for Elements<'_> {
    #[inline(always)]
    unsafe fn some<B: Block>(&mut self, block: B, tokens: &[u32], bits: u32) {
        // No branch for blocks without common tokens: it would be mispredicted too often.
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
#[cfg(target_arch = "aarch64")]
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

/// Two slices and the places up to which they have been compared.
struct Stream<'t> {
    a: &'t [u32],
    b: &'t [u32],
    at_a: usize,
    at_b: usize,
}

impl<'t> Stream<'t> {
    #[inline(always)]
    fn new(a: &'t [u32], b: &'t [u32]) -> Self {
        Stream { a, b, at_a: 0, at_b: 0 }
    }

    /// Returns whether both have a whole block left.
    #[inline(always)]
    fn goes_on<B: Block>(&self) -> bool {
        self.at_a + B::TOKENS <= self.a.len() && self.at_b + B::TOKENS <= self.b.len()
    }

    /// Returns the number of steps that surely fit: each advances by at most one block in both slices.
    #[inline(always)]
    fn certain<B: Block>(&self) -> usize {
        (self.a.len() - self.at_a).min(self.b.len() - self.at_b) / B::TOKENS
    }

    /// Compares the current blocks and advances past the one that ends first, or past both if they end with
    /// the same token. Arithmetic chooses the block, not a branch.
    ///
    /// # Safety
    ///
    /// The tier's instructions are available, and the stream goes on.
    #[inline(always)]
    unsafe fn step<B: Block>(&mut self) -> (B, B) {
        // SAFETY: both have a whole block left.
        unsafe {
            let (of_a, of_b) = (self.a.as_ptr().add(self.at_a), self.b.as_ptr().add(self.at_b));
            let (x, y) = (*of_a.add(B::TOKENS - 1), *of_b.add(B::TOKENS - 1));
            self.at_a += if x <= y { B::TOKENS } else { 0 };
            self.at_b += if y <= x { B::TOKENS } else { 0 };
            B::soon(of_a);
            B::soon(of_b);
            let block = B::load(of_a);
            (block, block.equal(of_b))
        }
    }

    /// Returns the rests, when one of the slices has less than a block left. The common tokens that were found
    /// in the current block of the other slice were found in blocks that have been passed.
    #[inline(always)]
    fn rest<F: Found>(&self, found: &mut F) {
        merge(&self.a[self.at_a..], &self.b[self.at_b..], found);
    }
}

/// Finds the common tokens of two ascending slices.
///
/// # Safety
///
/// The tier's instructions are available.
#[inline(always)]
pub(super) unsafe fn elements<B: Block, F: FoundInBlocks>(a: &[u32], b: &[u32], found: &mut F) {
    let mut stream = Stream::new(a, b);
    while stream.goes_on::<B>() {
        let at = stream.at_a;
        // SAFETY: the caller's; the stream goes on.
        unsafe {
            let (block, equal) = stream.step::<B>();
            found.some(block, &a[at..at + B::TOKENS], equal.bits());
        }
    }
    stream.rest(found);
}

/// The smallest number of tokens of both slices for which two streams are faster.
const TWO: usize = 1024;

/// Counts the common tokens of two ascending slices. A step depends on the loads of the step before, so long
/// slices are cut in two, and steps alternate between both halves. If one half ends early, the rest of the other
/// one is cut in two again.
///
/// # Safety
///
/// The tier's instructions are available.
#[inline(always)]
pub(super) unsafe fn size<B: Block>(a: &[u32], b: &[u32], found: &mut Size) {
    let mut left = Stream::new(a, b);
    loop {
        let (a, b) = (&left.a[left.at_a..], &left.b[left.at_b..]);
        let tokens = a.len() + b.len();
        if tokens < TWO {
            break;
        }
        let middle = split(a, b, tokens / 2);
        let mut first = Stream::new(&a[..middle.0], &b[..middle.1]);
        let mut second = Stream::new(&a[middle.0..], &b[middle.1..]);
        // SAFETY: the caller's; steps are taken only by streams that go on.
        unsafe {
            let (mut one, mut two) = (B::no_counts(), B::no_counts());
            loop {
                let steps = first.certain::<B>().min(second.certain::<B>());
                if steps == 0 {
                    break;
                }
                for _ in 0..steps {
                    one = first.step::<B>().1.add(one);
                    two = second.step::<B>().1.add(two);
                }
            }
            found.0 += B::sum(one) + B::sum(two);
        }
        // One of the halves has less than a block left in one slice.
        let (ended, other) =
            if first.certain::<B>() == 0 { (first, second) } else { (second, first) };
        ended.rest(found);
        left = other;
        if left.certain::<B>() == 0 {
            break;
        }
    }
    // SAFETY: the caller's; steps are taken only by streams that go on.
    unsafe {
        let mut counts = B::no_counts();
        while left.goes_on::<B>() {
            counts = left.step::<B>().1.add(counts);
        }
        found.0 += B::sum(counts);
    }
    left.rest(found);
}
