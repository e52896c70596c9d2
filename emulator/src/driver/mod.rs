//! How is the driver emulated?
//!
//! This folder implements each function of `libcuda` that cudarc calls, with a file for each subject. All functions take
//! one lock, so that one call, copy or launch runs at a time. Handles are numbers that are never reused, so destroyed
//! objects are recognized.
//!
//! Errors that a program can handle return the error code of CUDA. Errors that no correct program makes (using a freed
//! address or a destroyed event, a copy beyond an allocation) end the process with a message.

mod context;
mod devices;
mod event;
mod fault;
mod launch;
mod log;
mod memory;
mod module;
mod report;
mod space;
mod stream;

use crate::settings::settings;
use cudarc::driver::sys::CUresult;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{c_char, c_int};

/// The result of a call: a value, or the error code.
type Outcome<T = ()> = Result<T, CUresult>;

/// The state of the driver.
struct Driver {
    devices: Vec<devices::Device>,
    streams: BTreeMap<usize, stream::Stream>,
    events: HashMap<usize, event::Event>,
    modules: HashMap<usize, std::sync::Arc<module::Module>>,
    functions: HashMap<usize, launch::Function>,
    space: space::Space,
    machine: Option<Box<launch::MachineMemory>>,
    faults: fault::Faults,
    log: log::Log,
    random: Random,
    /// The numbers of recordings that streams have not reached.
    pending: HashSet<u64>,
    /// The device whose memory is accessible, if there are several devices.
    active: Option<usize>,
    last_handle: usize,
    last_ticket: u64,
    last_launch: u64,
}

/// Pseudo-random numbers, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

static DRIVER: Mutex<Option<Box<Driver>>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Box<Driver>>> {
    DRIVER.lock()
}

/// Runs a function of the driver that needs no context.
fn call(name: &'static str, run: impl FnOnce(&mut Driver) -> Outcome) -> CUresult {
    let mut driver = lock();
    let Some(driver) = driver.as_mut() else { return CUresult::CUDA_ERROR_NOT_INITIALIZED };
    driver.log.called(name);
    driver.faults.called(&mut driver.devices, context::current());
    match run(driver) {
        Ok(()) => CUresult::CUDA_SUCCESS,
        Err(code) => code,
    }
}

/// Runs a function in the context of the calling thread, with the number of its device.
fn call_in_context(
    name: &'static str,
    run: impl FnOnce(&mut Driver, usize) -> Outcome,
) -> CUresult {
    call(name, |driver| {
        let device = context::current().ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        driver.devices[device].healthy()?;
        run(driver, device)
    })
}

impl Driver {
    fn new() -> Self {
        let settings = settings();
        let devices = settings.devices.iter().map(devices::Device::new).collect();
        let seed = settings.order.unwrap_or(0);
        Driver {
            devices,
            streams: BTreeMap::new(),
            events: HashMap::new(),
            modules: HashMap::new(),
            functions: HashMap::new(),
            space: space::Space::default(),
            machine: None,
            faults: fault::Faults::default(),
            log: log::Log::default(),
            random: Random(2 * seed + 1),
            pending: HashSet::new(),
            active: None,
            last_handle: 0xe000,
            last_ticket: 0,
            last_launch: 0,
        }
    }

    /// Returns the number of a new handle. Handles look like addresses.
    fn handle(&mut self) -> usize {
        self.last_handle += 16;
        self.last_handle
    }

    /// Returns whether a number was ever a handle. The object may have been destroyed since.
    fn was_handle(&self, handle: usize) -> bool {
        handle > 0xe000 && handle <= self.last_handle && handle.is_multiple_of(16)
    }
}

/// Writes a result to the caller's memory.
///
/// # Safety
///
/// The pointer is null or points to space for the value.
unsafe fn put<T>(to: *mut T, value: T) -> Outcome {
    if to.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: guaranteed by the caller.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: u32) -> CUresult {
    if flags != 0 {
        return CUresult::CUDA_ERROR_INVALID_VALUE;
    }
    let mut driver = lock();
    if driver.is_none() {
        *driver = Some(Box::new(Driver::new()));
        report::install();
        log::at_exit();
    }
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuDriverGetVersion(version: *mut c_int) -> CUresult {
    let (major, minor) = settings().driver;
    // SAFETY: the caller passes a pointer to a number.
    match unsafe { put(version, 1000 * major + 10 * minor) } {
        Ok(()) => CUresult::CUDA_SUCCESS,
        Err(code) => code,
    }
}

/// The error codes that calls return, with their descriptions.
const ERRORS: &[(CUresult, &std::ffi::CStr, &std::ffi::CStr)] = &[
    (CUresult::CUDA_SUCCESS, c"CUDA_SUCCESS", c"no error"),
    (CUresult::CUDA_ERROR_INVALID_VALUE, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (CUresult::CUDA_ERROR_OUT_OF_MEMORY, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    (CUresult::CUDA_ERROR_NOT_INITIALIZED, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
    (
        CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE,
        c"CUDA_ERROR_DEVICE_UNAVAILABLE",
        c"CUDA-capable device(s) is/are busy or unavailable",
    ),
    (CUresult::CUDA_ERROR_INVALID_DEVICE, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
    (
        CUresult::CUDA_ERROR_INVALID_IMAGE,
        c"CUDA_ERROR_INVALID_IMAGE",
        c"device kernel image is invalid",
    ),
    (
        CUresult::CUDA_ERROR_INVALID_CONTEXT,
        c"CUDA_ERROR_INVALID_CONTEXT",
        c"invalid device context",
    ),
    (
        CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
        c"CUDA_ERROR_NO_BINARY_FOR_GPU",
        c"no kernel image is available for execution on the device",
    ),
    (CUresult::CUDA_ERROR_INVALID_PTX, c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed"),
    (
        CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
        c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        c"the provided PTX was compiled with an unsupported toolchain.",
    ),
    (CUresult::CUDA_ERROR_INVALID_HANDLE, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
    (CUresult::CUDA_ERROR_NOT_FOUND, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
    (CUresult::CUDA_ERROR_NOT_READY, c"CUDA_ERROR_NOT_READY", c"device not ready"),
    (
        CUresult::CUDA_ERROR_LAUNCH_FAILED,
        c"CUDA_ERROR_LAUNCH_FAILED",
        c"unspecified launch failure",
    ),
    (CUresult::CUDA_ERROR_NOT_SUPPORTED, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
    (CUresult::CUDA_ERROR_UNKNOWN, c"CUDA_ERROR_UNKNOWN", c"unknown error"),
];

fn error_text(
    error: CUresult,
    to: *mut *const c_char,
    of: impl Fn(&(CUresult, &'static std::ffi::CStr, &'static std::ffi::CStr)) -> *const c_char,
) -> CUresult {
    let found = ERRORS.iter().find(|(code, ..)| *code == error);
    let text = found.map_or(std::ptr::null(), of);
    // SAFETY: the caller passes space for a pointer.
    match unsafe { put(to, text) } {
        Ok(()) if found.is_some() => CUresult::CUDA_SUCCESS,
        _ => CUresult::CUDA_ERROR_INVALID_VALUE,
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorString(error: CUresult, text: *mut *const c_char) -> CUresult {
    error_text(error, text, |(_, _, description)| description.as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(error: CUresult, text: *mut *const c_char) -> CUresult {
    error_text(error, text, |(_, name, _)| name.as_ptr())
}
