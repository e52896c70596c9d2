//! How are large arrays sent to a device?
//!
//! A copy from ordinary memory goes through a pinned buffer of the driver, which one thread fills, and
//! reaches a tenth of the speed of the bus. Here several threads fill pinned buffers. They are kept with the
//! device, and each has a stream and two buffers, so that it fills one while the other is copied. Values that
//! are computed from the sets, rather than copied, are written straight into these buffers.
//!
//! The buffers take up to 32 MB of host memory and are kept for the next array. If host memory is limited, or
//! cannot be pinned, arrays are copied in the ordinary way.

use crate::device::{Device, failed};
use crate::pinned::Pinned;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut, DeviceRepr, result};
use parking_lot::Mutex;
use simjoin_core::Result;
use simjoin_engine::Budget;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of threads that fill buffers, and the bytes of a buffer.
pub(crate) const THREADS: usize = 8;
pub(crate) const BUFFER: usize = 2 << 20;

/// The smallest part of an array that a thread copies, in bytes.
const MIN_PART: usize = 256 << 10;

/// The smallest array that several threads send, in bytes. Tests set another limit, to send small arrays that
/// way.
pub(crate) const LARGE: usize = 1 << 20;
pub(crate) static LARGE_FROM: AtomicUsize = AtomicUsize::new(LARGE);

/// Sets the size in bytes from which several threads send an array.
#[doc(hidden)]
pub fn send_by_threads_from(bytes: usize) {
    LARGE_FROM.store(bytes, Ordering::Relaxed);
}

/// Returns the size of the parts in which an array is sent, small enough that every thread has work. With a
/// quarter of this size, joins of 40 MB took a fifth longer (H200, 2026-11-16).
fn part_bytes(all: usize) -> usize {
    (all / (2 * THREADS)).clamp(MIN_PART, BUFFER)
}

/// A type for which every bit pattern is a valid value.
///
/// # Safety
///
/// Every bit pattern must be a valid value.
pub(crate) unsafe trait Plain: DeviceRepr + Copy + Default + Sync {}

// SAFETY: numbers.
unsafe impl Plain for u32 {}
// SAFETY: numbers.
unsafe impl Plain for i32 {}
// SAFETY: numbers.
unsafe impl Plain for u64 {}
// SAFETY: numbers.
unsafe impl Plain for u8 {}
// SAFETY: numbers.
unsafe impl Plain for f32 {}
// SAFETY: numbers.
unsafe impl Plain for f64 {}

/// Sends arrays to a device.
pub(crate) struct Sender {
    pub(crate) device: Arc<Device>,
    pub(crate) stream: Arc<CudaStream>,
    unlimited: bool,
    /// The number of threads of the join.
    threads: usize,
}

impl Sender {
    pub(crate) fn new(device: &Arc<Device>, budget: &Budget) -> Result<Self> {
        let stream = device.stream()?;
        let (unlimited, threads) = (budget.bytes == u64::MAX, budget.threads.max(1));
        Ok(Sender { device: device.clone(), stream, unlimited, threads })
    }

    /// Sends an array. The copy is complete once the stream has been waited for.
    pub(crate) fn send<T: Plain>(&self, data: &[T]) -> Result<CudaSlice<T>> {
        self.send_followed(data, 0, |_, _| {})
    }

    /// Sends an array followed by `more` further elements. `fill(start, out)` writes the further elements
    /// from `start` on.
    pub(crate) fn send_followed<T: Plain>(
        &self,
        data: &[T],
        more: usize,
        fill: impl Fn(usize, &mut [T]) + Sync,
    ) -> Result<CudaSlice<T>> {
        let len = data.len() + more;
        let bytes = len * size_of::<T>();
        if self.unlimited
            && bytes >= LARGE_FROM.load(Ordering::Relaxed)
            && let Some(buffers) = self.buffers(bytes)
        {
            return self.send_parts(len, buffers, |start, out| write_part(data, &fill, start, out));
        }
        let at = failed("sending sets to the device");
        // SAFETY: every element is written below.
        let mut array = unsafe { self.stream.alloc::<T>(len) }.map_err(&at)?;
        self.stream.memcpy_htod(data, &mut array.slice_mut(..data.len())).map_err(&at)?;
        if more > 0 {
            let mut rest = vec![T::default(); more];
            fill(0, &mut rest);
            let mut after = array.slice_mut(data.len()..);
            self.stream.memcpy_htod(&rest, &mut after).map_err(&at)?;
        }
        Ok(array)
    }

    /// Returns two buffers for each thread that is useful for an array of this size; `None` if the host
    /// cannot pin that much memory.
    fn buffers(&self, bytes: usize) -> Option<Vec<[Pinned<u8>; 2]>> {
        let buffer = || Pinned::<u8>::any(&self.device, BUFFER).ok();
        let threads = THREADS.min(self.threads + 1).min(bytes.div_ceil(part_bytes(bytes)));
        (0..threads.max(1)).map(|_| Some([buffer()?, buffer()?])).collect()
    }

    fn send_parts<T: Plain>(
        &self,
        len: usize,
        buffers: Vec<[Pinned<u8>; 2]>,
        fill: impl Fn(usize, &mut [T]) + Sync,
    ) -> Result<CudaSlice<T>> {
        let at = failed("sending sets to the device");
        // SAFETY: every element is written below.
        let mut array = unsafe { self.stream.alloc::<T>(len) }.map_err(&at)?;
        // Other streams write to the array.
        self.stream.synchronize().map_err(&at)?;
        let part = part_bytes(len * size_of::<T>()) / size_of::<T>();
        let (start, _guard) = array.device_ptr_mut(&self.stream);
        let next = AtomicUsize::new(0);
        let work = |mut buffers: [Pinned<u8>; 2]| -> Result<()> {
            let at = failed("sending sets to the device");
            self.device.context.bind_to_thread().map_err(&at)?;
            let stream = WaitOnDrop(&self.device, self.device.stream()?);
            let sent = || self.device.context.new_event(None).map_err(&at);
            let sent = [sent()?, sent()?];
            for turn in 0.. {
                let begin = part * next.fetch_add(1, Ordering::Relaxed);
                if begin >= len {
                    break;
                }
                let which = turn % 2;
                // The last copy from this buffer must have ended. An event that was never recorded counts as
                // complete.
                sent[which].synchronize().map_err(&at)?;
                let count = part.min(len - begin);
                let bytes = buffers[which].as_mut_ptr();
                // SAFETY: the buffer holds `count` elements, aligned to a page, and every bit pattern is a
                // value.
                let out = unsafe { std::slice::from_raw_parts_mut(bytes.cast::<T>(), count) };
                fill(begin, out);
                let to = start + (begin * size_of::<T>()) as u64;
                // SAFETY: the part lies within the array, and the buffer is not touched until the event.
                unsafe { result::memcpy_htod_async(to, out, stream.1.cu_stream()) }.map_err(&at)?;
                sent[which].record(&stream.1).map_err(&at)?;
            }
            stream.1.synchronize().map_err(&at)
        };
        let work = &work;
        let mut buffers = buffers.into_iter();
        let mine = buffers.next();
        let failure = Mutex::new(Ok(()));
        let keep = |ended: Result<()>| {
            if ended.is_err() {
                *failure.lock() = ended;
            }
        };
        let keep = &keep;
        match self.device.senders() {
            Some(threads) => threads.in_place_scope(|scope| {
                for pair in buffers {
                    scope.spawn(move |_| keep(work(pair)));
                }
                keep(mine.map_or(Ok(()), work));
            }),
            None => keep(mine.map_or(Ok(()), work)),
        }
        failure.into_inner()?;
        drop(_guard);
        Ok(array)
    }
}

/// Writes the part of an array that begins at `start`. The array consists of `data` followed by the values
/// that `fill` writes.
fn write_part<T: Copy>(data: &[T], fill: impl Fn(usize, &mut [T]), start: usize, out: &mut [T]) {
    let rest = data.get(start..).unwrap_or(&[]);
    let (copied, filled) = out.split_at_mut(out.len().min(rest.len()));
    copied.copy_from_slice(&rest[..copied.len()]);
    if !filled.is_empty() {
        fill(start + copied.len() - data.len(), filled);
    }
}

/// A stream that is waited for when it is dropped, even after a failure, so that buffers and the array
/// outlive the device's use of them. It is declared after the buffers, and so dropped before them.
struct WaitOnDrop<'a>(&'a Device, Arc<CudaStream>);

impl Drop for WaitOnDrop<'_> {
    fn drop(&mut self) {
        self.0.drain(&self.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_data_and_the_filled_values() {
        let whole: Vec<u32> = (0..50).collect();
        let fill = |start: usize, out: &mut [u32]| {
            for (value, at) in out.iter_mut().zip(start..) {
                *value = 20 + at as u32;
            }
        };
        for size in [1, 7, 20, 30, 50] {
            let mut parts = vec![0; 50];
            for (at, out) in parts.chunks_mut(size).enumerate() {
                write_part(&whole[..20], fill, size * at, out);
            }
            assert_eq!(parts, whole, "parts of {size}");
        }
        let mut none = [7u32; 3];
        write_part(&[], |start, out| out.fill(start as u32), 5, &mut none);
        assert_eq!(none, [5; 3]);
    }
}
