//! Which devices are emulated, and what are their properties?

use super::{Outcome, call, put};
use crate::settings::{DeviceSettings, settings};
use cudarc::driver::sys::{
    CUdevice, CUdevice_attribute as Attribute, CUmemoryPool, CUresult, CUuuid,
};
use std::ffi::{c_char, c_int};

/// A device with its primary context.
pub(super) struct Device {
    pub(super) capability: (i32, i32),
    multiprocessors: i32,
    pub(super) memory: u64,
    /// The bytes of the pool that are in use, the bytes that it holds, the threshold up to which it keeps
    /// them, and the bytes outside of it.
    pub(super) used: u64,
    pub(super) reserved: u64,
    pub(super) threshold: u64,
    pub(super) outside: u64,
    /// The error that every call in its context returns from now on.
    pub(super) error: Option<CUresult>,
}

impl Device {
    pub(super) fn new(settings: &DeviceSettings) -> Self {
        Device {
            capability: settings.capability,
            multiprocessors: settings.multiprocessors,
            memory: settings.memory,
            used: 0,
            reserved: 0,
            threshold: 0,
            outside: 0,
            error: None,
        }
    }

    /// Returns the error of a context that has failed.
    pub(super) fn healthy(&self) -> Outcome {
        self.error.map_or(Ok(()), Err)
    }

    /// Returns the bytes of shared memory that a block may request.
    pub(super) fn shared_limit(&self) -> u32 {
        let kilobytes = match self.capability {
            (7, 0 | 2) => 96,
            (7, _) => 64,
            (8, 0 | 7) => 163,
            (8, _) => 99,
            (9 | 10, _) => 227,
            (12, _) => 99,
            _ => 48,
        };
        kilobytes << 10
    }

    /// Returns the bytes of shared memory of a multiprocessor.
    fn shared_of_multiprocessor(&self) -> i32 {
        // One kilobyte per block is reserved for the system; not on 7.5.
        let more = if self.capability < (8, 0) { 0 } else { 1 << 10 };
        self.shared_limit() as i32 + more
    }

    fn attribute(&self, ordinal: usize, attribute: Attribute) -> Option<i32> {
        let listed = |list: &[usize]| i32::from(list.contains(&ordinal));
        Some(match attribute {
            Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR => self.capability.0,
            Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR => self.capability.1,
            Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT => self.multiprocessors,
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK => 48 << 10,
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => {
                self.shared_limit() as i32
            }
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR => {
                self.shared_of_multiprocessor()
            }
            Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED => {
                i32::from(!settings().no_pools)
            }
            // In kilohertz and bits: 96 GB per second.
            Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE => 1_000_000,
            Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH => 384,
            Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE => 1_000_000,
            Attribute::CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT => listed(&settings().display),
            // CU_COMPUTEMODE_PROHIBITED
            Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE => 2 * listed(&settings().closed),
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK
            | Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X
            | Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y => 1024,
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z => 64,
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X => i32::MAX,
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y
            | Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z => 65_535,
            Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE => 32,
            Attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING
            | Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS => 1,
            Attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT => 2,
            Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED => 0,
            Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID => ordinal as i32 + 1,
            Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID
            | Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID => 0,
            _ => return None,
        })
    }
}

/// Returns the number of a device.
pub(super) fn ordinal(driver: &super::Driver, device: CUdevice) -> Outcome<usize> {
    let ordinal = usize::try_from(device).ok().filter(|&at| at < driver.devices.len());
    ordinal.ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetCount(count: *mut c_int) -> CUresult {
    call("cuDeviceGetCount", |driver| {
        // SAFETY: the caller passes a pointer to a number.
        unsafe { put(count, driver.devices.len() as c_int) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(device: *mut CUdevice, number: c_int) -> CUresult {
    call("cuDeviceGet", |driver| {
        ordinal(driver, number)?;
        // SAFETY: the caller passes space for a device.
        unsafe { put(device, number) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetName(name: *mut c_char, room: c_int, device: CUdevice) -> CUresult {
    call("cuDeviceGetName", |driver| {
        let (major, minor) = driver.devices[ordinal(driver, device)?].capability;
        let text = format!("Emulated device {major}.{minor}\0");
        if name.is_null() || room < 1 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let count = text.len().min(room as usize);
        // SAFETY: the caller passes this much space. A longer name is truncated, and the last byte is zero.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), name, count);
            *name.add(count - 1) = 0;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice) -> CUresult {
    call("cuDeviceGetUuid_v2", |driver| {
        let mut bytes = [0; 16];
        bytes[15] = ordinal(driver, device)? as c_char;
        // SAFETY: the caller passes space for it.
        unsafe { put(uuid, CUuuid { bytes }) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice) -> CUresult {
    call("cuDeviceTotalMem_v2", |driver| {
        let memory = driver.devices[ordinal(driver, device)?].memory;
        // SAFETY: the caller passes a pointer to a number.
        unsafe { put(bytes, memory as usize) }
    })
}

/// Returns an attribute. An attribute that is not emulated is an error rather than an arbitrary number.
#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    attribute: Attribute,
    device: CUdevice,
) -> CUresult {
    call("cuDeviceGetAttribute", |driver| {
        let at = ordinal(driver, device)?;
        let found = driver.devices[at].attribute(at, attribute);
        // SAFETY: the caller passes a pointer to a number.
        unsafe { put(value, found.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?) }
    })
}

/// Returns the default memory pool of a device. A pool has the number of its device.
#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: CUdevice) -> CUresult {
    call("cuDeviceGetDefaultMemPool", |driver| {
        let at = ordinal(driver, device)?;
        if settings().no_pools {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        // SAFETY: the caller passes space for a handle.
        unsafe { put(pool, std::ptr::without_provenance_mut(at + 1)) }
    })
}
