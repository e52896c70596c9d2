//! What happens when the system refuses memory?
//!
//! The program prints one line and ends with status 1, instead of being killed by a signal. Callers that handle the
//! refusal (`simjoin_core::refusal`) receive it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// The system's allocator, which ends the program when memory is refused.
pub struct OrExit;

// SAFETY: every call is passed to the system's allocator with the same arguments; its result is returned, and nothing
// unwinds.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for OrExit {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the promises of `alloc`.
        granted(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the promises of `alloc_zeroed`.
        granted(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the promises of `realloc`.
        granted(unsafe { System.realloc(memory, layout, size) }, size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[inline]
fn granted(memory: *mut u8, size: usize) -> *mut u8 {
    if memory.is_null() && !simjoin::engine::refusal::is_handled() {
        refused(size);
    }
    memory
}

/// Ends the program without allocating.
#[cold]
fn refused(size: usize) -> ! {
    static ENDING: AtomicBool = AtomicBool::new(false);
    // Several threads may be refused at the same time; only one prints the message.
    while ENDING.swap(true, Ordering::Relaxed) {
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    let mut line = [0; 200];
    let capacity = line.len();
    let mut rest = &mut line[..];
    let _ = writeln!(
        rest,
        "simjoin: not enough memory: the system refused {size} bytes; --memory limits what a join uses in addition \
         to its input"
    );
    let written = capacity - rest.len();
    let _ = std::io::stderr().write_all(&line[..written]);
    std::process::exit(1)
}
