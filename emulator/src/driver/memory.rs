//! How does a program allocate device memory and copy to and from it?
//!
//! Copies behave as CUDA documents them. A copy from memory that is not pinned reads the bytes during the
//! call, and a copy to such memory returns when they have arrived. With pinned memory a copy reads and writes
//! when its stream reaches it.

use super::report::misuse;
use super::space::Owner;
use super::stream::{self, Op, Source};
use super::{Driver, Outcome, call_in_context, put};
use crate::settings::settings;
use cudarc::driver::sys::{
    CUdeviceptr, CUmemPool_attribute as PoolAttribute, CUmemoryPool, CUresult, CUstream,
};
use std::ffi::c_void;

impl Driver {
    /// Allocates memory of a device.
    fn allocate(&mut self, device: usize, bytes: usize, pooled: bool) -> Outcome<usize> {
        if bytes == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        if self.faults.allocation_fails() {
            return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        }
        let fits = |driver: &Driver| {
            let device = &driver.devices[device];
            device.used + device.outside + bytes as u64 <= device.memory
        };
        if !fits(self) {
            // Wait for memory that streams are about to free.
            stream::drain_device(self, device);
            self.devices[device].healthy()?;
            if !fits(self) {
                return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
            }
        }
        let at = self.space.allocate(Owner::Device(device), bytes, pooled);
        let at = at.ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        let is_active = self.active.is_none_or(|active| active == device);
        self.space.open_one(at, is_active);
        let device = &mut self.devices[device];
        if pooled {
            device.used += bytes as u64;
            device.reserved = device.reserved.max(device.used);
        } else {
            device.outside += bytes as u64;
        }
        Ok(at)
    }

    /// Releases memory immediately.
    pub(super) fn release(&mut self, at: usize) {
        match self.space.free(at) {
            Ok(allocation) => {
                if let Owner::Device(device) = allocation.owner {
                    let device = &mut self.devices[device];
                    let of = if allocation.pooled { &mut device.used } else { &mut device.outside };
                    *of -= allocation.bytes as u64;
                }
            }
            Err(why) => misuse(&format!("memory is freed: {why}")),
        }
    }

    /// Reduces a pool to its threshold, as happens at a wait.
    pub(super) fn trim_pool(&mut self, device: usize) {
        let device = &mut self.devices[device];
        device.reserved = device.reserved.min(device.used.max(device.threshold));
    }

    /// Marks an allocation as one that will be freed.
    fn begin_free(&mut self, name: &str, at: usize, owner: Owner) {
        let described = self.space.describe(at);
        match self.space.get_mut(at) {
            Some(allocation) if !allocation.freeing && allocation.owner == owner => {
                allocation.freeing = true;
            }
            Some(allocation) if allocation.freeing => {
                misuse(&format!("{name}: {at:#x} is freed twice ({described})"))
            }
            _ => misuse(&format!("{name}: {at:#x} was not allocated this way; it is {described}")),
        }
    }

    /// Ends the process unless the device may use the bytes.
    fn check(&self, name: &str, device: usize, at: usize, bytes: usize) {
        let wrong = |why: &str| -> ! {
            let what = self.space.describe(at);
            misuse(&format!("{name} of {bytes} bytes at {at:#x} {why}: this is {what}"))
        };
        match self.space.find(at) {
            None => wrong("is not in device memory"),
            Some((_, allocation)) if allocation.freeing => {
                wrong("comes after the memory was freed")
            }
            Some((_, allocation)) if allocation.owner != Owner::Device(device) => {
                wrong(&format!("is for device {device}"))
            }
            Some((begin, allocation)) if at + bytes > begin + allocation.bytes => {
                wrong("goes beyond the end of the allocation")
            }
            Some(_) => {}
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocAsync(to: *mut CUdeviceptr, bytes: usize, stream: CUstream) -> CUresult {
    call_in_context("cuMemAllocAsync", |driver, device| {
        if settings().no_pools {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let stream = stream::find(driver, "cuMemAllocAsync", stream, device)?;
        let at = driver.allocate(device, bytes, true)?;
        if settings().order.is_some() {
            // Nobody can use it before its stream has reached it.
            driver.space.open_one(at, false);
            if let Some(allocation) = driver.space.get_mut(at) {
                allocation.ready = false;
            }
            stream::push(driver, stream, Op::Allocate(at))?;
        }
        // SAFETY: the caller passes space for an address.
        unsafe { put(to, at as CUdeviceptr) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeAsync(at: CUdeviceptr, stream: CUstream) -> CUresult {
    call_in_context("cuMemFreeAsync", |driver, device| {
        let stream = stream::find(driver, "cuMemFreeAsync", stream, device)?;
        driver.begin_free("cuMemFreeAsync", at as usize, Owner::Device(device));
        stream::push(driver, stream, Op::Free(at as usize))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAlloc_v2(to: *mut CUdeviceptr, bytes: usize) -> CUresult {
    call_in_context("cuMemAlloc_v2", |driver, device| {
        let at = driver.allocate(device, bytes, false)?;
        // SAFETY: the caller passes space for an address.
        unsafe { put(to, at as CUdeviceptr) }
    })
}

/// Frees memory. Waits for the whole device, as CUDA documents.
#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(at: CUdeviceptr) -> CUresult {
    call_in_context("cuMemFree_v2", |driver, device| {
        driver.begin_free("cuMemFree", at as usize, Owner::Device(device));
        stream::drain_device(driver, device);
        driver.devices[device].healthy()?;
        driver.release(at as usize);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> CUresult {
    call_in_context("cuMemGetInfo_v2", |driver, device| {
        let device = &driver.devices[device];
        let taken = device.reserved + device.outside;
        // SAFETY: the caller passes pointers to numbers.
        unsafe {
            put(free, device.memory.saturating_sub(taken) as usize)?;
            put(total, device.memory as usize)
        }
    })
}

/// Returns the device of a pool.
fn pool_device(driver: &Driver, pool: CUmemoryPool) -> Outcome<usize> {
    let device = pool.addr().wrapping_sub(1);
    if device < driver.devices.len() { Ok(device) } else { Err(CUresult::CUDA_ERROR_INVALID_VALUE) }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolSetAttribute(
    pool: CUmemoryPool,
    attribute: PoolAttribute,
    value: *mut c_void,
) -> CUresult {
    call_in_context("cuMemPoolSetAttribute", |driver, _| {
        let device = pool_device(driver, pool)?;
        if value.is_null() || attribute != PoolAttribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the caller passes a pointer to a 64-bit number, the type of this attribute.
        driver.devices[device].threshold = unsafe { value.cast::<u64>().read_unaligned() };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolGetAttribute(
    pool: CUmemoryPool,
    attribute: PoolAttribute,
    value: *mut c_void,
) -> CUresult {
    call_in_context("cuMemPoolGetAttribute", |driver, _| {
        let device = pool_device(driver, pool)?;
        let device = &driver.devices[device];
        let found = match attribute {
            PoolAttribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD => device.threshold,
            PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT => device.used,
            PoolAttribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT => device.reserved,
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        };
        // SAFETY: the caller passes a pointer to a 64-bit number, the type of these attributes.
        unsafe { put(value.cast::<u64>(), found) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolTrimTo(pool: CUmemoryPool, keep: usize) -> CUresult {
    call_in_context("cuMemPoolTrimTo", |driver, _| {
        let device = pool_device(driver, pool)?;
        let device = &mut driver.devices[device];
        device.reserved = device.reserved.min(device.used.max(keep as u64));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostAlloc(to: *mut *mut c_void, bytes: usize, _flags: u32) -> CUresult {
    call_in_context("cuMemHostAlloc", |driver, _| {
        if bytes == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        if driver.faults.allocation_fails() {
            return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        }
        // Whole pages, so that it begins at a page, as with CUDA.
        let whole = bytes.next_multiple_of(4096);
        let at = driver.space.allocate(Owner::Host, whole, false);
        let at = at.ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        // SAFETY: the caller passes space for an address.
        unsafe { put(to, std::ptr::with_exposed_provenance_mut(at)) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeHost(at: *mut c_void) -> CUresult {
    call_in_context("cuMemFreeHost", |driver, _| {
        let at = at.expose_provenance();
        driver.begin_free("cuMemFreeHost", at, Owner::Host);
        driver.release(at);
        Ok(())
    })
}

/// Returns the source of a copy from the host: its bytes, or its address if the memory is pinned.
fn source(driver: &Driver, from: *const c_void, bytes: usize) -> Outcome<Source> {
    if from.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let at = from.expose_provenance();
    if driver.space.is_pinned(at) {
        return Ok(Source::Pinned(at));
    }
    // SAFETY: the caller passes this number of bytes.
    Ok(Source::Taken(unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) }.into()))
}

fn host_to_device(
    name: &'static str,
    to: CUdeviceptr,
    from: *const c_void,
    bytes: usize,
    stream: Option<CUstream>,
) -> CUresult {
    call_in_context(name, |driver, device| {
        let handle = stream.unwrap_or(std::ptr::null_mut());
        let stream_handle = stream::find(driver, name, handle, device)?;
        if bytes == 0 {
            return Ok(());
        }
        driver.check(name, device, to as usize, bytes);
        let from = source(driver, from, bytes)?;
        stream::push(driver, stream_handle, Op::ToDevice { to: to as usize, from, bytes })?;
        if stream.is_none() {
            stream::drain(driver, stream_handle);
            driver.devices[device].healthy()?;
        }
        Ok(())
    })
}

fn device_to_host(
    name: &'static str,
    to: *mut c_void,
    from: CUdeviceptr,
    bytes: usize,
    stream: Option<CUstream>,
) -> CUresult {
    call_in_context(name, |driver, device| {
        let handle = stream.unwrap_or(std::ptr::null_mut());
        let stream_handle = stream::find(driver, name, handle, device)?;
        if bytes == 0 {
            return Ok(());
        }
        if to.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        driver.check(name, device, from as usize, bytes);
        let to = to.expose_provenance();
        stream::push(driver, stream_handle, Op::ToHost { to, from: from as usize, bytes })?;
        if stream.is_none() || !driver.space.is_pinned(to) {
            stream::drain(driver, stream_handle);
            driver.devices[device].healthy()?;
        }
        Ok(())
    })
}

fn on_device(
    name: &'static str,
    to: CUdeviceptr,
    from: CUdeviceptr,
    bytes: usize,
    stream: Option<CUstream>,
) -> CUresult {
    call_in_context(name, |driver, device| {
        let handle = stream.unwrap_or(std::ptr::null_mut());
        let stream_handle = stream::find(driver, name, handle, device)?;
        if bytes == 0 {
            return Ok(());
        }
        driver.check(name, device, to as usize, bytes);
        driver.check(name, device, from as usize, bytes);
        let op = Op::OnDevice { to: to as usize, from: from as usize, bytes };
        stream::push(driver, stream_handle, op)
    })
}

fn set(
    name: &'static str,
    to: CUdeviceptr,
    value: Vec<u8>,
    count: usize,
    stream: Option<CUstream>,
) -> CUresult {
    call_in_context(name, |driver, device| {
        let handle = stream.unwrap_or(std::ptr::null_mut());
        let stream_handle = stream::find(driver, name, handle, device)?;
        if count == 0 {
            return Ok(());
        }
        driver.check(name, device, to as usize, count * value.len());
        stream::push(driver, stream_handle, Op::Set { to: to as usize, value, count })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoDAsync_v2(
    to: CUdeviceptr,
    from: *const c_void,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    host_to_device("cuMemcpyHtoDAsync_v2", to, from, bytes, Some(stream))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize) -> CUresult {
    host_to_device("cuMemcpyHtoD_v2", to, from, bytes, None)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    device_to_host("cuMemcpyDtoHAsync_v2", to, from, bytes, Some(stream))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize) -> CUresult {
    device_to_host("cuMemcpyDtoH_v2", to, from, bytes, None)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoDAsync_v2(
    to: CUdeviceptr,
    from: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    on_device("cuMemcpyDtoDAsync_v2", to, from, bytes, Some(stream))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoD_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) -> CUresult {
    on_device("cuMemcpyDtoD_v2", to, from, bytes, None)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(
    to: CUdeviceptr,
    value: u8,
    count: usize,
    stream: CUstream,
) -> CUresult {
    set("cuMemsetD8Async", to, vec![value], count, Some(stream))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8_v2(to: CUdeviceptr, value: u8, count: usize) -> CUresult {
    set("cuMemsetD8_v2", to, vec![value], count, None)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD32Async(
    to: CUdeviceptr,
    value: u32,
    count: usize,
    stream: CUstream,
) -> CUresult {
    set("cuMemsetD32Async", to, value.to_le_bytes().into(), count, Some(stream))
}
