//! When is an event complete?
//!
//! Each recording of an event has a number. A stream that waits for an event waits for the last recording
//! before the call. An event that was never recorded is complete.

use super::report::misuse;
use super::stream::{self, Op};
use super::{Driver, Outcome, call, call_in_context, put};
use crate::settings::settings;
use cudarc::driver::sys::{CUevent, CUresult, CUstream};
use std::time::Instant;

/// An event.
pub(super) struct Event {
    device: usize,
    /// The number of the last recording.
    ticket: Option<u64>,
    /// The time at which a stream reached it.
    reached: Option<Instant>,
}

/// Notes that a stream has reached a recording.
pub(super) fn reached(driver: &mut Driver, event: usize, ticket: u64) {
    if let Some(event) = driver.events.get_mut(&event)
        && event.ticket == Some(ticket)
    {
        event.reached = Some(Instant::now());
    }
}

/// Returns the event of a handle; its device must not have failed.
fn find<'a>(driver: &'a Driver, name: &str, event: CUevent) -> Outcome<&'a Event> {
    match driver.events.get(&event.addr()) {
        Some(found) => {
            driver.devices[found.device].healthy()?;
            Ok(found)
        }
        None if driver.was_handle(event.addr()) => {
            misuse(&format!("{name}: the event {event:?} was destroyed before"))
        }
        None => Err(CUresult::CUDA_ERROR_INVALID_HANDLE),
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuEventCreate(event: *mut CUevent, _flags: u32) -> CUresult {
    call_in_context("cuEventCreate", |driver, device| {
        let handle = driver.handle();
        driver.events.insert(handle, Event { device, ticket: None, reached: None });
        // SAFETY: the caller passes space for a handle.
        unsafe { put(event, std::ptr::without_provenance_mut(handle)) }
    })
}

/// Destroys an event. Streams that wait for it, or have not reached it, are not affected.
#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: CUevent) -> CUresult {
    call("cuEventDestroy_v2", |driver| {
        find(driver, "cuEventDestroy", event)?;
        driver.events.remove(&event.addr());
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: CUevent, stream: CUstream) -> CUresult {
    call_in_context("cuEventRecord", |driver, device| {
        let own = find(driver, "cuEventRecord", event)?.device;
        let stream = stream::find(driver, "cuEventRecord", stream, device)?;
        if own != device {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        driver.last_ticket += 1;
        let ticket = driver.last_ticket;
        driver.pending.insert(ticket);
        if let Some(found) = driver.events.get_mut(&event.addr()) {
            (found.ticket, found.reached) = (Some(ticket), None);
        }
        stream::push(driver, stream, Op::Record { event: event.addr(), ticket })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(stream: CUstream, event: CUevent, _flags: u32) -> CUresult {
    call_in_context("cuStreamWaitEvent", |driver, device| {
        let ticket = find(driver, "cuStreamWaitEvent", event)?.ticket;
        let stream = stream::find(driver, "cuStreamWaitEvent", stream, device)?;
        match ticket {
            Some(ticket) if !settings().ignore_waits => {
                stream::push(driver, stream, Op::Wait(ticket))
            }
            _ => Ok(()),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(event: CUevent) -> CUresult {
    call("cuEventQuery", |driver| {
        let found = find(driver, "cuEventQuery", event)?;
        let (ticket, device) = (found.ticket, found.device);
        let is_pending = |driver: &Driver| ticket.is_some_and(|t| driver.pending.contains(&t));
        if is_pending(driver) {
            // Streams advance with each query, so that a loop of queries ends.
            stream::step_any(driver, None);
        }
        driver.devices[device].healthy()?;
        if is_pending(driver) { Err(CUresult::CUDA_ERROR_NOT_READY) } else { Ok(()) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(event: CUevent) -> CUresult {
    call("cuEventSynchronize", |driver| {
        let found = find(driver, "cuEventSynchronize", event)?;
        let (ticket, device) = (found.ticket, found.device);
        while ticket.is_some_and(|ticket| driver.pending.contains(&ticket)) {
            if !stream::step_any(driver, None) {
                misuse("cuEventSynchronize: no stream will reach the event");
            }
        }
        driver.devices[device].healthy()
    })
}

fn elapsed(name: &'static str, to: *mut f32, begin: CUevent, end: CUevent) -> CUresult {
    call(name, |driver| {
        let (begin, end) = (find(driver, name, begin)?, find(driver, name, end)?);
        if begin.ticket.is_none() || end.ticket.is_none() {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        let (Some(from), Some(until)) = (begin.reached, end.reached) else {
            return Err(CUresult::CUDA_ERROR_NOT_READY);
        };
        let seconds = until.saturating_duration_since(from).as_secs_f64();
        // SAFETY: the caller passes a pointer to a number.
        unsafe { put(to, (1e3 * seconds) as f32) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime(to: *mut f32, begin: CUevent, end: CUevent) -> CUresult {
    elapsed("cuEventElapsedTime", to, begin, end)
}

#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime_v2(to: *mut f32, begin: CUevent, end: CUevent) -> CUresult {
    elapsed("cuEventElapsedTime_v2", to, begin, end)
}
