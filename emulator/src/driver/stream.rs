//! When does a stream execute its operations?
//!
//! It executes them at once or, with `EMULATOR_ORDER`, as late as CUDA allows. Then a stream keeps its
//! operations in a queue and executes one from time to time, in a random order of streams, or when the
//! program waits for it. So a program that relies on an order without an event fails.

use super::report::misuse;
use super::{Driver, Outcome, call, call_in_context, context, launch, put, report};
use crate::settings::settings;
use cudarc::driver::sys::{CUresult, CUstream};
use std::collections::VecDeque;

/// A stream of a device.
pub(super) struct Stream {
    pub(super) device: usize,
    queue: VecDeque<Op>,
    /// Whether it was destroyed; it is removed once its queue is empty.
    destroyed: bool,
}

/// The bytes of a copy from the host.
pub(super) enum Source {
    /// They were read during the call.
    Taken(Box<[u8]>),
    /// They are read when the copy is executed.
    Pinned(usize),
}

/// An operation of a stream.
pub(super) enum Op {
    /// From now on the memory can be used.
    Allocate(usize),
    Free(usize),
    ToDevice {
        to: usize,
        from: Source,
        bytes: usize,
    },
    ToHost {
        to: usize,
        from: usize,
        bytes: usize,
    },
    OnDevice {
        to: usize,
        from: usize,
        bytes: usize,
    },
    Set {
        to: usize,
        value: Vec<u8>,
        count: usize,
    },
    Launch(Box<launch::Launch>),
    /// An event, and the number of this recording.
    Record {
        event: usize,
        ticket: u64,
    },
    /// Waits for a recording.
    Wait(u64),
}

/// Returns the stream of a handle, which must belong to the device of the current context; null is the
/// default stream.
pub(super) fn find(
    driver: &mut Driver,
    name: &str,
    handle: CUstream,
    device: usize,
) -> Outcome<usize> {
    let mut number = handle.addr();
    // The default streams: null, the legacy stream, and that of each thread.
    if number <= 2 {
        number = 0x1000 + 16 * device;
        driver.streams.entry(number).or_insert_with(|| Stream {
            device,
            queue: VecDeque::new(),
            destroyed: false,
        });
    }
    let stream = existing(driver, name, number)?;
    if stream.device != device {
        return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
    Ok(number)
}

fn existing<'a>(driver: &'a Driver, name: &str, number: usize) -> Outcome<&'a Stream> {
    match driver.streams.get(&number) {
        Some(stream) if !stream.destroyed => Ok(stream),
        None if !driver.was_handle(number) => Err(CUresult::CUDA_ERROR_INVALID_HANDLE),
        _ => misuse(&format!("{name}: the stream {number:#x} was destroyed before")),
    }
}

/// Adds an operation to a stream.
pub(super) fn push(driver: &mut Driver, stream: usize, op: Op) -> Outcome {
    if let Some(stream) = driver.streams.get_mut(&stream) {
        stream.queue.push_back(op);
    }
    if settings().order.is_none() {
        drain(driver, stream);
    } else {
        step_randomly(driver);
    }
    Ok(())
}

/// Executes operations of random streams.
pub(super) fn step_randomly(driver: &mut Driver) {
    if settings().order.is_none() {
        return;
    }
    for _ in 0..driver.random.below(3) {
        step_any(driver, None);
    }
}

/// Executes an operation of a random stream of a device, or of any device. Returns whether there was one.
pub(super) fn step_any(driver: &mut Driver, device: Option<usize>) -> bool {
    let wanted = |stream: &Stream| {
        device.is_none_or(|device| stream.device == device) && !stream.queue.is_empty()
    };
    let busy: Vec<usize> = driver
        .streams
        .iter()
        .filter(|(_, stream)| wanted(stream))
        .map(|(&number, _)| number)
        .collect();
    let first = driver.random.below(busy.len());
    (0..busy.len()).any(|at| step(driver, busy[(first + at) % busy.len()]))
}

/// Executes all operations of a stream.
pub(super) fn drain(driver: &mut Driver, stream: usize) {
    let is_busy = |driver: &Driver| {
        driver.streams.get(&stream).is_some_and(|stream| !stream.queue.is_empty())
    };
    while is_busy(driver) {
        // Other streams advance meanwhile, or when this one waits for them.
        if settings().order.is_some() && driver.random.below(4) == 0 {
            step_any(driver, None);
        }
        if is_busy(driver) && !step(driver, stream) && !step_any(driver, None) {
            misuse("streams wait for events that no stream will reach");
        }
    }
}

/// Executes all operations of all streams of a device.
pub(super) fn drain_device(driver: &mut Driver, device: usize) {
    let is_busy = |driver: &Driver| {
        let mut streams = driver.streams.values();
        streams.any(|stream| stream.device == device && !stream.queue.is_empty())
    };
    while is_busy(driver) {
        if !step_any(driver, Some(device)) && !step_any(driver, None) {
            misuse("streams wait for events that no stream will reach");
        }
    }
}

/// Executes the next operation of a stream, unless it waits. Returns whether it did.
fn step(driver: &mut Driver, number: usize) -> bool {
    let Some(stream) = driver.streams.get_mut(&number) else { return false };
    let device = stream.device;
    match stream.queue.front() {
        None => return false,
        Some(Op::Wait(ticket)) if driver.pending.contains(ticket) => return false,
        Some(_) => {}
    }
    if let Some(op) = stream.queue.pop_front() {
        perform(driver, device, op);
    }
    let stream = driver.streams.get(&number);
    if stream.is_some_and(|stream| stream.destroyed && stream.queue.is_empty()) {
        driver.streams.remove(&number);
    }
    true
}

fn perform(driver: &mut Driver, device: usize, op: Op) {
    // A failed context does nothing any more, but its events complete for those that wait.
    if driver.devices[device].error.is_some() {
        if let Op::Record { ticket, .. } = op {
            driver.pending.remove(&ticket);
        }
        return;
    }
    activate(driver, device);
    match op {
        Op::Allocate(at) => {
            driver.space.open_one(at, true);
            if let Some(allocation) = driver.space.get_mut(at) {
                allocation.ready = true;
            }
        }
        Op::Free(at) => driver.release(at),
        Op::ToDevice { to, from: Source::Taken(bytes), .. } => {
            copy(driver, device, to, bytes.as_ptr().expose_provenance(), bytes.len());
        }
        Op::ToDevice { to, from: Source::Pinned(from), bytes } => {
            copy(driver, device, to, from, bytes);
        }
        Op::ToHost { to, from, bytes } | Op::OnDevice { to, from, bytes } => {
            copy(driver, device, to, from, bytes);
        }
        Op::Set { to, value, count } => {
            let what = || format!("a memset of {} bytes at {to:#x}", count * value.len());
            let whole = to..to + count * value.len();
            let parts = match value[..] {
                [0] => driver.space.zero_pages(to, count),
                _ => [whole, 0..0],
            };
            report::guarded(&driver.space, device, &what, || {
                for part in parts {
                    let start = std::ptr::with_exposed_provenance_mut::<u8>(part.start);
                    if let [byte] = value[..] {
                        // SAFETY: the call was checked to be within an allocation. If that has been freed
                        // since, or is not allocated yet, the signal handler reports it.
                        unsafe { start.write_bytes(byte, part.len()) };
                        continue;
                    }
                    for at in (0..part.len()).step_by(value.len()) {
                        // SAFETY: as above.
                        unsafe {
                            std::ptr::copy_nonoverlapping(
                                value.as_ptr(),
                                start.add(at),
                                value.len(),
                            );
                        }
                    }
                }
            });
        }
        Op::Launch(launch) => launch::execute(driver, device, &launch),
        Op::Record { event, ticket } => {
            driver.pending.remove(&ticket);
            super::event::reached(driver, event, ticket);
        }
        Op::Wait(_) => {}
    }
}

fn copy(driver: &Driver, device: usize, to: usize, from: usize, bytes: usize) {
    let what = || format!("a copy of {bytes} bytes from {from:#x} to {to:#x}");
    report::guarded(&driver.space, device, &what, || {
        let to = std::ptr::with_exposed_provenance_mut::<u8>(to);
        let from = std::ptr::with_exposed_provenance::<u8>(from);
        // SAFETY: the call was checked to be within allocations, and the caller guarantees the host's part.
        // If memory has been freed since, or is not allocated yet, the signal handler reports it.
        unsafe { std::ptr::copy(from, to, bytes) };
    });
}

/// Makes the memory of one device accessible, and that of the others inaccessible.
pub(super) fn activate(driver: &mut Driver, device: usize) {
    if driver.devices.len() < 2 || driver.active == Some(device) {
        return;
    }
    driver.active = Some(device);
    driver.space.open(|allocation| match allocation.owner {
        super::space::Owner::Device(owner) => owner == device && allocation.ready,
        super::space::Owner::Host => true,
    });
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreate(stream: *mut CUstream, _flags: u32) -> CUresult {
    call_in_context("cuStreamCreate", |driver, device| {
        let handle = driver.handle();
        let made = Stream { device, queue: VecDeque::new(), destroyed: false };
        driver.streams.insert(handle, made);
        // SAFETY: the caller passes space for a handle.
        unsafe { put(stream, std::ptr::without_provenance_mut(handle)) }
    })
}

/// Destroys a stream. Its pending operations are still executed.
#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: CUstream) -> CUresult {
    call_in_context("cuStreamDestroy_v2", |driver, _| {
        existing(driver, "cuStreamDestroy", stream.addr())?;
        if let Some(found) = driver.streams.get_mut(&stream.addr()) {
            found.destroyed = true;
            if found.queue.is_empty() {
                driver.streams.remove(&stream.addr());
            }
        }
        Ok(())
    })
}

/// Returns the stream of a handle for any current context; its device must not have failed.
fn find_in_any_context(
    driver: &mut Driver,
    name: &str,
    stream: CUstream,
) -> Outcome<(usize, usize)> {
    if stream.addr() <= 2 {
        let device = context::current().ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        return Ok((find(driver, name, stream, device)?, device));
    }
    let device = existing(driver, name, stream.addr())?.device;
    driver.devices[device].healthy()?;
    Ok((stream.addr(), device))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: CUstream) -> CUresult {
    call("cuStreamSynchronize", |driver| {
        let (number, device) = find_in_any_context(driver, "cuStreamSynchronize", stream)?;
        drain(driver, number);
        driver.trim_pool(device);
        driver.devices[device].healthy()
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamQuery(stream: CUstream) -> CUresult {
    call("cuStreamQuery", |driver| {
        let (number, device) = find_in_any_context(driver, "cuStreamQuery", stream)?;
        step_any(driver, None);
        driver.devices[device].healthy()?;
        let is_busy = driver.streams.get(&number).is_some_and(|stream| !stream.queue.is_empty());
        if is_busy { Err(CUresult::CUDA_ERROR_NOT_READY) } else { Ok(()) }
    })
}
