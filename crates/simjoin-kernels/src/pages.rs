//! Large pages for large arrays.
//!
//! Memory comes from the system page by page, when it is first touched, and a page of 4 KiB takes about as
//! long to come as to be filled. Where an array is filled once and read once, that is a good part of the join.
//! Linux gives pages of 2 MiB to those who ask. Smaller arrays than [`LARGE`] have most often been used before:
//! the allocator keeps them.

use std::mem::MaybeUninit;

/// Bytes of a large page.
#[cfg(target_os = "linux")]
const PAGE: usize = 2 << 20;

/// Bytes from which on the GNU allocator asks the system every time.
pub const LARGE: usize = 32 << 20;

/// Asks for large pages under [`LARGE`] memory that has not been touched yet. Where there are none, small ones do.
#[cfg(target_os = "linux")]
pub fn ask_for_large<T>(room: &mut [MaybeUninit<T>]) {
    if size_of_val(room) < LARGE {
        return;
    }
    let start = room.as_mut_ptr().cast::<u8>();
    let skipped = start.align_offset(PAGE);
    let Some(bytes) = size_of_val(room).checked_sub(skipped) else { return };
    let whole = bytes - bytes % PAGE;
    if whole > 0 {
        // SAFETY: the pages lie within the slice, which is ours alone, and the advice leaves what is in them
        // as it is.
        unsafe { libc::madvise(start.add(skipped).cast(), whole, libc::MADV_HUGEPAGE) };
    }
}

/// Asks for large pages under memory that has not been touched yet; here there are none.
#[cfg(not(target_os = "linux"))]
pub fn ask_for_large<T>(_: &mut [MaybeUninit<T>]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_holds_what_is_written_after_and_before() {
        for len in [0, 1, 1000, 300_000, 10_000_000] {
            let mut numbers: Vec<u64> = Vec::with_capacity(len);
            ask_for_large(numbers.spare_capacity_mut());
            let pointer = numbers.as_ptr();
            numbers.extend(0..len as u64 / 2);
            ask_for_large(numbers.spare_capacity_mut());
            numbers.extend(len as u64 / 2..len as u64);
            assert!(numbers.iter().copied().eq(0..len as u64));
            assert_eq!(numbers.as_ptr(), pointer);
        }
    }
}
