//! How is a kernel run?
//!
//! The call of a launch copies the parameters. The launch runs when its stream reaches it, with the code of
//! `device/runtime.cc` that is linked to each module. All launches use the same stacks and shared memory in
//! turn.

use super::report::{self, misuse};
use super::stream::{self, Op};
use super::{Driver, Outcome, call_in_context, module, put};
use cudarc::driver::sys::{CUfunction, CUfunction_attribute as Attribute, CUresult, CUstream};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

// The structures of device/machine.h.

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Dim {
    x: u32,
    y: u32,
    z: u32,
}

#[repr(C)]
struct Machine {
    stacks: *mut u8,
    stack_stride: u64,
    stack_bytes: u64,
    shared: *mut u8,
    shared_bytes: u64,
    dynamic_end: *mut u8,
    statics: *mut u8,
    static_bytes: u64,
    halves: *const f32,
    fail: extern "C" fn(*const c_char, u32),
    line_of: extern "C" fn(*const c_void) -> u32,
}

#[repr(C)]
pub(super) struct KernelEntry {
    pub(super) name: *const c_char,
    run: *const c_void,
    parameters: u32,
    sizes: *const u32,
    most_threads: u32,
}

#[repr(C)]
struct LaunchEntry {
    machine: *const Machine,
    kernel: *const KernelEntry,
    arguments: *mut *mut c_void,
    grid: Dim,
    block: Dim,
    dynamic_bytes: u32,
    shared_limit: u32,
    number: u64,
    seed: u64,
}

/// The position of a thread, for messages.
#[repr(C)]
#[derive(Default)]
pub(super) struct Place {
    pub(super) block: u32,
    pub(super) thread: u32,
    pub(super) line: u32,
    pub(super) inside: u32,
    pub(super) what: Option<std::ptr::NonNull<c_char>>,
}

#[repr(C)]
pub(super) struct ModuleTable {
    version: u32,
    pub(super) kernel_count: u32,
    pub(super) kernels: *const KernelEntry,
    pub(super) form_count: u32,
    pub(super) form_names: *const *const c_char,
    pub(super) form_counts: *const u64,
    run: extern "C" fn(*const LaunchEntry),
    pub(super) place: extern "C" fn(*mut Place),
}

/// The bytes of shared memory that a block may use without a request.
const DEFAULT_SHARED_BYTES: u32 = 48 << 10;
const MAX_THREADS: usize = 1024;
const STACK: usize = 128 << 10;
const PAGE: usize = 4096;
const STATIC_BYTES: usize = 4 << 20;
const DYNAMIC_BYTES: usize = 256 << 10;

/// The stacks, shared memory and tables that launches use.
pub(super) struct MachineMemory {
    machine: Machine,
    /// The number of threads whose stacks have guard pages: that of the largest block so far.
    guarded: usize,
    _halves: Vec<f32>,
}

// SAFETY: it is only used under the driver's lock.
unsafe impl Send for MachineMemory {}

impl MachineMemory {
    fn new() -> Self {
        let pages = |bytes: usize| -> *mut u8 {
            let both = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: this maps new memory.
            let at = unsafe { libc::mmap(null_mut(), bytes, both, flags, -1, 0) };
            if at == libc::MAP_FAILED {
                misuse("not enough memory for the stacks of a block");
            }
            at.cast()
        };
        let stride = STACK + PAGE;
        let stacks = pages(MAX_THREADS * stride);
        // Guard pages before, between and after the two parts.
        let all = pages(STATIC_BYTES + DYNAMIC_BYTES + 3 * PAGE);
        let shared = all.wrapping_add(PAGE);
        let dynamic_end = shared.wrapping_add(DYNAMIC_BYTES);
        let statics = dynamic_end.wrapping_add(PAGE);
        for page in [all, dynamic_end, statics.wrapping_add(STATIC_BYTES)] {
            guard(page);
        }
        let halves: Vec<f32> = (0..=u16::MAX).map(half).collect();
        let machine = Machine {
            stacks,
            stack_stride: stride as u64,
            stack_bytes: STACK as u64,
            shared,
            shared_bytes: (DYNAMIC_BYTES + PAGE + STATIC_BYTES) as u64,
            dynamic_end,
            statics,
            static_bytes: STATIC_BYTES as u64,
            halves: halves.as_ptr(),
            fail: report::fail,
            line_of: report::line_of,
        };
        MachineMemory { machine, guarded: 0, _halves: halves }
    }

    /// Puts a guard page below the stack of each thread of a block.
    fn guard_stacks(&mut self, threads: usize) {
        for thread in self.guarded..threads {
            guard(self.machine.stacks.wrapping_add(thread * (STACK + PAGE)));
        }
        self.guarded = self.guarded.max(threads);
    }

    /// Returns whether an address is in the stacks.
    pub(super) fn is_stack(&self, address: usize) -> bool {
        let begin = self.machine.stacks.addr();
        (begin..begin + MAX_THREADS * (STACK + PAGE)).contains(&address)
    }

    /// Returns whether an address is in shared memory or in its guard pages.
    pub(super) fn is_shared(&self, address: usize) -> bool {
        let begin = self.machine.shared.addr() - PAGE;
        let end = self.machine.statics.addr() + STATIC_BYTES + PAGE;
        (begin..end).contains(&address)
    }
}

/// Makes a page of `MachineMemory` inaccessible.
fn guard(at: *mut u8) {
    // SAFETY: the page belongs to that mapping, and nobody uses it.
    unsafe { libc::mprotect(at.cast(), PAGE, libc::PROT_NONE) };
}

/// Returns the value of a half-precision number.
fn half(bits: u16) -> f32 {
    let (exponent, mantissa) = (bits >> 10 & 31, f32::from(bits & 1023));
    let size = match exponent {
        0 => mantissa * 2f32.powi(-24),
        31 if mantissa == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (mantissa + 1024.0) * 2f32.powi(i32::from(exponent) - 25),
    };
    if bits >> 15 == 0 { size } else { -size }
}

/// A kernel of a module.
pub(super) struct Function {
    pub(super) module: Arc<module::Module>,
    kernel: &'static KernelEntry,
    name: String,
    device: usize,
    /// The largest number of bytes of dynamic shared memory.
    dynamic_limit: u32,
}

// SAFETY: it is only used under the driver's lock.
unsafe impl Send for Function {}

impl Function {
    pub(super) fn new(
        module: Arc<module::Module>,
        kernel: &'static KernelEntry,
        name: &CStr,
        device: usize,
    ) -> Self {
        let name = name.to_string_lossy().into_owned();
        Function { module, kernel, name, device, dynamic_limit: DEFAULT_SHARED_BYTES }
    }
}

/// A launch that waits for its stream.
pub(super) struct Launch {
    module: Arc<module::Module>,
    kernel: &'static KernelEntry,
    name: String,
    /// The parameters, each at a multiple of 16 bytes, and the start of each.
    parameters: Vec<u128>,
    begins: Vec<usize>,
    grid: Dim,
    block: Dim,
    dynamic_bytes: u32,
    /// The largest number of bytes of shared memory in a block.
    shared_limit: u32,
}

// SAFETY: it is only used under the driver's lock.
unsafe impl Send for Launch {}

/// Runs a launch to its end.
pub(super) fn execute(driver: &mut Driver, device: usize, launch: &Launch) {
    if driver.faults.launch_fails() {
        driver.devices[device].error = Some(CUresult::CUDA_ERROR_LAUNCH_FAILED);
        return;
    }
    driver.last_launch += 1;
    let threads = [launch.grid, launch.block]
        .map(|dim| u64::from(dim.x) * u64::from(dim.y) * u64::from(dim.z));
    let name = format!("{}@{}", launch.name, launch.module.source_name);
    driver.log.launched(&name, &launch.module.architecture, threads[0] * threads[1]);
    let machine = driver.machine.get_or_insert_with(|| Box::new(MachineMemory::new()));
    machine.guard_stacks(threads[1] as usize);
    let begin = launch.parameters.as_ptr().cast::<u8>();
    let mut arguments: Vec<*mut c_void> =
        launch.begins.iter().map(|&at| begin.wrapping_add(at).cast_mut().cast()).collect();
    let entry = LaunchEntry {
        machine: &raw const machine.machine,
        kernel: launch.kernel,
        arguments: arguments.as_mut_ptr(),
        grid: launch.grid,
        block: launch.block,
        dynamic_bytes: launch.dynamic_bytes,
        shared_limit: launch.shared_limit,
        number: driver.last_launch,
        seed: driver.random.below(1 << 30) as u64,
    };
    let running = report::RunningKernel {
        name: &launch.name,
        grid: (launch.grid.x, launch.grid.y, launch.grid.z),
        block: threads[1],
        source: &launch.module.source,
        place: launch.module.table.place,
        library: launch.module.descriptor(),
        machine,
    };
    report::guarded_kernel(&driver.space, device, running, || {
        (launch.module.table.run)(&raw const entry);
    });
}

fn function(driver: &mut Driver, handle: CUfunction) -> Outcome<&mut Function> {
    driver.functions.get_mut(&handle.addr()).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncSetAttribute(
    handle: CUfunction,
    attribute: Attribute,
    value: c_int,
) -> CUresult {
    call_in_context("cuFuncSetAttribute", |driver, device| {
        let limit = driver.devices[device].shared_limit();
        let function = function(driver, handle)?;
        match attribute {
            Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                let bytes = u32::try_from(value).ok().filter(|&bytes| bytes <= limit);
                function.dynamic_limit = bytes.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
                Ok(())
            }
            Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => Ok(()),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncGetAttribute(
    value: *mut c_int,
    attribute: Attribute,
    handle: CUfunction,
) -> CUresult {
    call_in_context("cuFuncGetAttribute", |driver, _| {
        let function = function(driver, handle)?;
        let found = match attribute {
            Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => function.kernel.most_threads,
            Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => function.dynamic_limit,
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        };
        // SAFETY: the caller passes a pointer to a number.
        unsafe { put(value, found as c_int) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuLaunchKernel(
    handle: CUfunction,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    dynamic_bytes: c_uint,
    stream: CUstream,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult {
    call_in_context("cuLaunchKernel", |driver, device| {
        let stream = stream::find(driver, "cuLaunchKernel", stream, device)?;
        let device_limit = driver.devices[device].shared_limit();
        let function = function(driver, handle)?;
        let name = function.name.clone();
        let wrong = |why: &str| -> ! { misuse(&format!("the launch of kernel `{name}`: {why}")) };
        if function.device != device {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        if grid.contains(&0) || grid_x > i32::MAX as u32 || grid_y.max(grid_z) > 65_535 {
            wrong(&format!("a grid of {grid:?} blocks is not possible"));
        }
        let threads = block.iter().map(|&side| u64::from(side)).product::<u64>();
        let most = function.kernel.most_threads;
        if threads == 0 || threads > u64::from(most) {
            wrong(&format!("a block of {block:?} threads is not possible: it may have {most}"));
        }
        if dynamic_bytes > function.dynamic_limit {
            let limit = function.dynamic_limit;
            wrong(&format!("{dynamic_bytes} bytes of shared memory; it may have {limit}"));
        }
        let count = function.kernel.parameters as usize;
        if (count > 0 && parameters.is_null()) || !extra.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let (mut bytes, mut begins) = (Vec::new(), Vec::new());
        for at in 0..count {
            // SAFETY: the kernel has this number of parameters of these sizes, and the caller passes a
            // pointer to each.
            let one = unsafe {
                let size = *function.kernel.sizes.add(at) as usize;
                std::slice::from_raw_parts((*parameters.add(at)).cast::<u8>(), size)
            };
            begins.push(bytes.len());
            bytes.extend_from_slice(one);
            bytes.resize(bytes.len().next_multiple_of(16), 0);
        }
        let chunk = |chunk: &[u8]| chunk.try_into().map(u128::from_ne_bytes).unwrap_or_default();
        let launch = Launch {
            module: function.module.clone(),
            kernel: function.kernel,
            name,
            parameters: bytes.chunks(16).map(chunk).collect(),
            begins,
            grid: Dim { x: grid_x, y: grid_y, z: grid_z },
            block: Dim { x: block_x, y: block_y, z: block_z },
            dynamic_bytes,
            // A function that made no request has the default limit.
            shared_limit: if function.dynamic_limit > DEFAULT_SHARED_BYTES {
                device_limit
            } else {
                DEFAULT_SHARED_BYTES
            },
        };
        stream::push(driver, stream, Op::Launch(Box::new(launch)))
    })
}

#[cfg(test)]
mod tests {
    use super::half;

    #[test]
    fn halves_follow_ieee_754() {
        let known = [
            (0, 0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65_504.0),
            (1, 2f32.powi(-24)),
            (0x0400, 2f32.powi(-14)),
            (0x7c00, f32::INFINITY),
            (0x3555, 0.333_251_95),
        ];
        for (bits, value) in known {
            assert_eq!(half(bits), value, "{bits:#x}");
        }
        assert!(half(0x7c01).is_nan());
    }
}
