//! How do large arrays come to a device?
//!
//! A copy from ordinary memory goes through a pinned buffer of the driver, filled by one thread, at a
//! tenth of what the bus carries. Here several threads fill pinned buffers of their own, each with a
//! stream and two buffers, so that one is filled while the other is on its way. What is computed from the
//! sets, rather than copied, is written into these buffers at once.
//!
//! They take 24 MB of the host; where its memory is limited, arrays go the ordinary way.

use crate::device::{Device, failed};
use crate::pinned::Pinned;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut, DeviceRepr, result};
use simjoin_core::Result;
use simjoin_plan::Room;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that fill buffers, and bytes of a buffer.
const THREADS: usize = 6;
const BUFFER: usize = 2 << 20;

/// Arrays of fewer bytes go the ordinary way.
const LARGE: usize = 4 << 20;

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

/// Sends arrays to a device.
pub(crate) struct Sender {
    device: Arc<Device>,
    pub(crate) stream: Arc<CudaStream>,
    roomy: bool,
}

impl Sender {
    pub(crate) fn new(device: &Arc<Device>, room: &Room) -> Result<Self> {
        let stream = device.context.new_stream().map_err(failed("making a stream"))?;
        Ok(Sender { device: device.clone(), stream, roomy: room.bytes == u64::MAX })
    }

    /// Sends an array; complete when the stream has been waited for.
    pub(crate) fn send<T: Plain>(&self, data: &[T]) -> Result<CudaSlice<T>> {
        if self.is_small::<T>(data.len()) {
            return self.stream.clone_htod(data).map_err(failed("sending sets to the device"));
        }
        self.send_parts(data.len(), |start, out| {
            out.copy_from_slice(&data[start..start + out.len()]);
        })
    }

    /// Sends an array of this length. `fill` writes the part of it that begins at a place.
    pub(crate) fn send_with<T: Plain>(
        &self,
        len: usize,
        fill: impl Fn(usize, &mut [T]) + Sync,
    ) -> Result<CudaSlice<T>> {
        if self.is_small::<T>(len) {
            let mut data = vec![T::default(); len];
            fill(0, &mut data);
            return self.stream.clone_htod(&data).map_err(failed("sending sets to the device"));
        }
        self.send_parts(len, fill)
    }

    fn is_small<T>(&self, len: usize) -> bool {
        !self.roomy || len * size_of::<T>() < LARGE
    }

    fn send_parts<T: Plain>(
        &self,
        len: usize,
        fill: impl Fn(usize, &mut [T]) + Sync,
    ) -> Result<CudaSlice<T>> {
        let at = failed("sending sets to the device");
        // SAFETY: every element is written below.
        let mut array = unsafe { self.stream.alloc::<T>(len) }.map_err(&at)?;
        // Other streams write to it.
        self.stream.synchronize().map_err(&at)?;
        let part = BUFFER / size_of::<T>();
        let (start, _guard) = array.device_ptr_mut(&self.stream);
        let next = AtomicUsize::new(0);
        let work = || -> Result<()> {
            let at = failed("sending sets to the device");
            self.device.context.bind_to_thread().map_err(&at)?;
            let stream = self.device.context.new_stream().map_err(&at)?;
            let buffer = || Pinned::<u8>::any(&self.device, BUFFER);
            let mut buffers = [buffer()?, buffer()?];
            let sent = || self.device.context.new_event(None).map_err(&at);
            let sent = [sent()?, sent()?];
            let outcome = (|| {
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
                    unsafe { result::memcpy_htod_async(to, out, stream.cu_stream()) }
                        .map_err(&at)?;
                    sent[which].record(&stream).map_err(&at)?;
                }
                Ok(())
            })();
            // Buffers outlive what the device does with them, whatever happened.
            let ended = stream.synchronize().map_err(&at);
            outcome.and(ended)
        };
        let threads = THREADS.min(len.div_ceil(part));
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let ended = threads.into_iter().map(|thread| match thread.join() {
                Ok(ended) => ended,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ended.collect::<Result<Vec<()>>>()
        })?;
        drop(_guard);
        Ok(array)
    }
}
