//! How does a device copy from and to host memory without the CPU?
//!
//! The memory is pinned. Pinning takes far longer than a copy, so memory that is no longer used is kept with
//! its device for the next array of the same size.

use crate::device::{Device, failed};
use crate::send::BUFFER;
use cudarc::driver::{DeviceRepr, result};
use parking_lot::Mutex;
use simjoin_core::Result;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A pinned array. Copies from and to it do not occupy the CPU.
pub(crate) struct Pinned<T> {
    start: *mut T,
    len: usize,
    device: Arc<Device>,
}

// SAFETY: it owns its memory, as a box does.
unsafe impl<T: Send> Send for Pinned<T> {}

impl<T: DeviceRepr> Pinned<T> {
    /// Returns an array of zeros. Zero bytes must be a valid value of `T`.
    pub(crate) fn zeros(device: &Arc<Device>, len: usize) -> Result<Self> {
        let bytes = len * size_of::<T>();
        let (start, used) = device.pinned_bytes(bytes)?;
        if used {
            // SAFETY: the memory has `bytes` bytes and no other owner.
            unsafe { start.write_bytes(0, bytes) };
        }
        Ok(Pinned { start: start.cast(), len, device: device.clone() })
    }
}

impl Pinned<u8> {
    /// Returns bytes with arbitrary values.
    pub(crate) fn any(device: &Arc<Device>, len: usize) -> Result<Self> {
        let (start, _) = device.pinned_bytes(len)?;
        Ok(Pinned { start, len, device: device.clone() })
    }
}

impl Device {
    /// Returns pinned memory, and whether it was used before; otherwise it holds zeros.
    fn pinned_bytes(&self, bytes: usize) -> Result<(*mut u8, bool)> {
        let at = failed("allocating pinned memory");
        self.context.bind_to_thread().map_err(&at)?;
        if let Some(start) = self.pinned.take(bytes) {
            return Ok((start, true));
        }
        // SAFETY: the memory is written before anyone reads it.
        let start = unsafe { result::malloc_host(bytes.max(1), 0) }.map_err(&at)?.cast::<u8>();
        // SAFETY: the memory has `bytes` bytes and no other owner.
        unsafe { start.write_bytes(0, bytes) };
        Ok((start, false))
    }
}

impl<T> Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the memory is owned and initialized.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl<T> DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        self.device.make_current();
        self.device.pinned.put(self.start.cast(), self.len * size_of::<T>());
    }
}

/// The largest number of bytes that a pool keeps.
const MAX_POOL_BYTES: usize = 256 << 20;

/// Pinned memory that is not in use.
#[derive(Debug, Default)]
pub(crate) struct PinnedPool(Mutex<Vec<Spare>>);

#[derive(Debug)]
struct Spare {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: it owns its memory.
unsafe impl Send for Spare {}

impl PinnedPool {
    /// Takes spare memory of this size. If there is none, frees spare memory of other sizes, except the
    /// buffers that arrays are sent through. The context of the device must be current.
    fn take(&self, bytes: usize) -> Option<*mut u8> {
        let mut spares = self.0.lock();
        if let Some(at) = spares.iter().position(|spare| spare.bytes == bytes) {
            return Some(spares.swap_remove(at).start);
        }
        if bytes != BUFFER {
            spares.retain(|spare| {
                let keep = spare.bytes == BUFFER;
                if !keep {
                    free(spare.start);
                }
                keep
            });
        }
        None
    }

    /// Keeps memory for later, or frees it. The context of the device must be current.
    fn put(&self, start: *mut u8, bytes: usize) {
        let mut spares = self.0.lock();
        let kept: usize = spares.iter().map(|spare| spare.bytes).sum();
        let spare = Spare { start, bytes };
        if kept + bytes <= MAX_POOL_BYTES { spares.push(spare) } else { free(start) }
    }
}

fn free(start: *mut u8) {
    // SAFETY: the memory was allocated by `malloc_host` and nobody uses it any more. Freeing fails only if
    // the device has failed. Then the memory stays pinned until the process ends.
    let _ = unsafe { result::free_host(start.cast()) };
}
