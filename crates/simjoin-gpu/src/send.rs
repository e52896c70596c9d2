//! How do large arrays come to a device?
//!
//! A copy from ordinary memory goes through a pinned buffer of the driver, filled by one thread, at a
//! tenth of what the bus carries. Here several threads, which are kept with the device, fill pinned
//! buffers, each with a stream and two buffers of its own, so that one is filled while the other is on its
//! way. What is computed from the sets, rather than copied, is written into these buffers at once.
//!
//! They take up to 32 MB of the host, which are kept for the next array; where its memory is limited, or
//! cannot be pinned, arrays go the ordinary way.

use crate::device::{Device, failed};
use crate::pinned::Pinned;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut, DeviceRepr, result};
use parking_lot::Mutex;
use simjoin_core::Result;
use simjoin_engine::Budget;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that fill buffers, and bytes of a buffer.
pub(crate) const THREADS: usize = 8;
pub(crate) const BUFFER: usize = 2 << 20;

/// Bytes that are worth a thread's turn.
const SMALL_PART: usize = 256 << 10;

/// Arrays of fewer bytes go the ordinary way. Tests set another limit, so that small ones do not.
pub(crate) const LARGE: usize = 1 << 20;
pub(crate) static LARGE_FROM: AtomicUsize = AtomicUsize::new(LARGE);

/// Lets arrays of so many bytes and more be sent by several threads.
#[doc(hidden)]
pub fn send_by_threads_from(bytes: usize) {
    LARGE_FROM.store(bytes, Ordering::Relaxed);
}

/// The parts that an array is sent in: small enough that every thread has something to do. Smaller ones do
/// not pay: with a quarter of this, joins of 40 MB took a fifth longer (H200, 2026-11-16).
fn part_bytes(all: usize) -> usize {
    (all / (2 * THREADS)).clamp(SMALL_PART, BUFFER)
}

/// A type of which every pattern of bits is a value.
///
/// # Safety
///
/// It must be so.
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
    roomy: bool,
    /// Threads of the join.
    threads: usize,
}

impl Sender {
    pub(crate) fn new(device: &Arc<Device>, room: &Budget) -> Result<Self> {
        let stream = device.stream()?;
        let (roomy, threads) = (room.bytes == u64::MAX, room.threads.max(1));
        Ok(Sender { device: device.clone(), stream, roomy, threads })
    }

    /// Sends an array; complete when the stream has been waited for.
    pub(crate) fn send<T: Plain>(&self, data: &[T]) -> Result<CudaSlice<T>> {
        self.send_followed(data, 0, |_, _| {})
    }

    /// Sends an array, and after it so many elements more. `fill` writes those from a place on, counted from
    /// the first of them.
    pub(crate) fn send_followed<T: Plain>(
        &self,
        data: &[T],
        more: usize,
        fill: impl Fn(usize, &mut [T]) + Sync,
    ) -> Result<CudaSlice<T>> {
        let len = data.len() + more;
        let bytes = len * size_of::<T>();
        if self.roomy
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

    /// Two buffers for each thread that an array of so many bytes is worth; `None` where the host cannot pin
    /// so much.
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
        // Other streams write to it.
        self.stream.synchronize().map_err(&at)?;
        let part = part_bytes(len * size_of::<T>()) / size_of::<T>();
        let (start, _guard) = array.device_ptr_mut(&self.stream);
        let next = AtomicUsize::new(0);
        let work = |mut buffers: [Pinned<u8>; 2]| -> Result<()> {
            let at = failed("sending sets to the device");
            self.device.context.bind_to_thread().map_err(&at)?;
            let stream = Drained(&self.device, self.device.stream()?);
            let sent = || self.device.context.new_event(None).map_err(&at);
            let sent = [sent()?, sent()?];
            for turn in 0.. {
                let begin = part * next.fetch_add(1, Ordering::Relaxed);
                if begin >= len {
                    break;
                }
                let which = turn % 2;
                // Its last copy has left it; an event that was never recorded is over.
                sent[which].synchronize().map_err(&at)?;
                let count = part.min(len - begin);
                let bytes = buffers[which].as_mut_ptr();
                // SAFETY: there are so many bytes, aligned to a page, and any of them make a value.
                let out = unsafe { std::slice::from_raw_parts_mut(bytes.cast::<T>(), count) };
                fill(begin, out);
                let to = start + (begin * size_of::<T>()) as u64;
                // SAFETY: the array is so long, and the buffer is left alone until the event.
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
                for two in buffers {
                    scope.spawn(move |_| keep(work(two)));
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

/// Writes the part of an array that begins at a place: of `data`, and then of what `fill` writes.
fn write_part<T: Copy>(data: &[T], fill: impl Fn(usize, &mut [T]), start: usize, out: &mut [T]) {
    let rest = data.get(start..).unwrap_or(&[]);
    let (copied, filled) = out.split_at_mut(out.len().min(rest.len()));
    copied.copy_from_slice(&rest[..copied.len()]);
    if !filled.is_empty() {
        fill(start + copied.len() - data.len(), filled);
    }
}

/// A stream that is waited for when it goes, whatever happened: buffers and the array outlive what the
/// device does with them. It is declared after the buffers, and goes before them.
struct Drained<'a>(&'a Device, Arc<CudaStream>);

impl Drop for Drained<'_> {
    fn drop(&mut self) {
        self.0.drain(&self.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_up_an_array_and_what_follows_it() {
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
