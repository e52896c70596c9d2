//! How does a large array get large pages?
//!
//! The system provides memory page by page, on first access, and providing a page of 4 KiB takes about as long
//! as filling it. For an array that is filled once and read once, this is a large share of the time. Linux
//! provides pages of 2 MiB on request. Arrays smaller than [`LARGE`] are usually reused by the allocator, so
//! they do not need this.

use std::mem::MaybeUninit;

/// The bytes of a large page.
#[cfg(target_os = "linux")]
const PAGE: usize = 2 << 20;

/// The smallest size that the GNU allocator always requests from the system.
pub const LARGE: usize = 32 << 20;

/// Requests large pages for [`LARGE`] memory that has not been accessed yet. Has no effect if there are none.
pub fn ask_for_large<T>(room: &mut [MaybeUninit<T>]) {
    if size_of_val(room) >= LARGE {
        ask_for_large_anyway(room);
    }
}

/// Does the same for memory of any size: for arrays that are allocated once.
#[cfg(target_os = "linux")]
pub fn ask_for_large_anyway<T>(room: &mut [MaybeUninit<T>]) {
    let start = room.as_mut_ptr().cast::<u8>();
    let skipped = start.align_offset(PAGE);
    let Some(bytes) = size_of_val(room).checked_sub(skipped) else { return };
    let whole = bytes - bytes % PAGE;
    if whole > 0 {
        // SAFETY: the pages lie within the slice, which is borrowed exclusively, and the advice does not change their
        // content.
        unsafe { libc::madvise(start.add(skipped).cast(), whole, libc::MADV_HUGEPAGE) };
    }
}

/// Does nothing: this system has no large pages on request.
#[cfg(not(target_os = "linux"))]
pub fn ask_for_large_anyway<T>(_: &mut [MaybeUninit<T>]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pages_keep_the_contents() {
        for len in [0, 1, 1000, 300_000, 10_000_000] {
            let mut numbers: Vec<u64> = Vec::with_capacity(len);
            ask_for_large_anyway(numbers.spare_capacity_mut());
            let pointer = numbers.as_ptr();
            numbers.extend(0..len as u64 / 2);
            ask_for_large(numbers.spare_capacity_mut());
            numbers.extend(len as u64 / 2..len as u64);
            assert!(numbers.iter().copied().eq(0..len as u64));
            assert_eq!(numbers.as_ptr(), pointer);
        }
    }
}
