//! How does a loop ask for memory that it will need soon?

/// Asks the processor to load the start of a slice into its cache. Does nothing on processors without
/// such an instruction.
#[inline(always)]
pub fn prefetch<T>(slice: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults and changes nothing, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(slice.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = slice;
}
