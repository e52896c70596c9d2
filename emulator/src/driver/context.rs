//! Which context does a thread use?
//!
//! Devices have only their primary context. Each thread has a current context.

use super::{Outcome, call, call_in_context, devices, put, stream};
use crate::settings::settings;
use cudarc::driver::sys::{CUcontext, CUdevice, CUresult};
use std::cell::Cell;

thread_local! {
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Returns the device of the calling thread's context.
pub(super) fn current() -> Option<usize> {
    CURRENT.get()
}

/// Returns the handle of a device's context, which is a number too.
fn handle(device: usize) -> CUcontext {
    std::ptr::without_provenance_mut(0xc000 + 16 * device)
}

fn device_of(driver: &super::Driver, context: CUcontext) -> Outcome<usize> {
    (0..driver.devices.len())
        .find(|&device| handle(device) == context)
        .ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) -> CUresult {
    call("cuDevicePrimaryCtxRetain", |driver| {
        let at = devices::ordinal(driver, device)?;
        if settings().closed.contains(&at) {
            return Err(CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE);
        }
        driver.devices[at].healthy()?;
        // SAFETY: the caller passes space for a handle.
        unsafe { put(context, handle(at)) }
    })
}

/// Releases a context. Its objects stay, since no program retains it again and relies on their end.
#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) -> CUresult {
    call("cuDevicePrimaryCtxRelease_v2", |driver| {
        devices::ordinal(driver, device)?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetCurrent(context: *mut CUcontext) -> CUresult {
    call("cuCtxGetCurrent", |_| {
        let current = CURRENT.get().map_or(std::ptr::null_mut(), handle);
        // SAFETY: the caller passes space for a handle.
        unsafe { put(context, current) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: CUcontext) -> CUresult {
    call("cuCtxSetCurrent", |driver| {
        if context.is_null() {
            CURRENT.set(None);
            return Ok(());
        }
        CURRENT.set(Some(device_of(driver, context)?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetDevice(device: *mut CUdevice) -> CUresult {
    call_in_context("cuCtxGetDevice", |_, at| {
        // SAFETY: the caller passes space for a device.
        unsafe { put(device, at as CUdevice) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> CUresult {
    call_in_context("cuCtxSynchronize", |driver, device| {
        stream::drain_device(driver, device);
        driver.trim_pool(device);
        driver.devices[device].healthy()
    })
}
