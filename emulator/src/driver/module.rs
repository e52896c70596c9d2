//! How does an image become functions?

use super::launch::{Function, KernelEntry, ModuleTable};
use super::log::Log;
use super::{Driver, Outcome, call_in_context, put};
use crate::image::Image;
use crate::settings::settings;
use crate::toolchain;
use cudarc::driver::sys::{CUfunction, CUmodule, CUresult};
use sha2::{Digest, Sha256};
use std::ffi::{CStr, CString, c_char, c_uint, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// A loaded module: a shared library.
pub(super) struct Module {
    device: usize,
    /// Such as `sm_90a`.
    pub(super) architecture: String,
    pub(super) source: String,
    /// Some digits of a hash that distinguish sources.
    pub(super) source_name: String,
    pub(super) table: ModuleTable,
    library: *mut c_void,
    /// The file of the library, open as long as it is loaded.
    file: OwnedFd,
}

// SAFETY: the library's code only runs under the driver's lock.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    fn load(image: Image, device: usize) -> Result<Self, String> {
        let last_error = || std::io::Error::last_os_error().to_string();
        let digits = |bytes: &[u8]| -> String {
            Sha256::digest(bytes).iter().take(3).map(|byte| format!("{byte:02x}")).collect()
        };
        let source_name = digits(image.source.as_bytes());
        // The name is for debuggers.
        let name = format!("kernels-{source_name}-{}\0", digits(&image.object));
        // SAFETY: the name is a text with a zero.
        let file = unsafe { libc::memfd_create(name.as_ptr().cast(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(last_error());
        }
        // SAFETY: it was opened above, and nobody else has it.
        let mut file = unsafe { std::fs::File::from_raw_fd(file) };
        std::io::Write::write_all(&mut file, &image.object).map_err(|error| error.to_string())?;
        let file = OwnedFd::from(file);
        let name = format!("/proc/self/fd/{}\0", file.as_raw_fd());
        // SAFETY: the library was made by this emulator's compiler; loading it runs nothing.
        let library =
            unsafe { libc::dlopen(name.as_ptr().cast(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            // SAFETY: there was an error; its text is valid until the next one.
            let why = unsafe { CStr::from_ptr(libc::dlerror()) };
            return Err(why.to_string_lossy().into_owned());
        }
        // SAFETY: the library is loaded.
        let symbol = unsafe { libc::dlsym(library, c"emulated_module".as_ptr()) };
        if symbol.is_null() {
            return Err("the library has no table of kernels".into());
        }
        // SAFETY: in every library of this build, this is a function that fills in a table.
        let table = unsafe {
            let fill = std::mem::transmute::<*mut c_void, extern "C" fn(*mut ModuleTable)>(symbol);
            let mut table = std::mem::MaybeUninit::zeroed();
            fill(table.as_mut_ptr());
            table.assume_init()
        };
        Ok(Module {
            device,
            architecture: format!("sm_{}", image.architecture.suffix()),
            source_name,
            source: image.source,
            table,
            library,
            file,
        })
    }

    fn kernel(&self, name: &CStr) -> Option<&'static KernelEntry> {
        // SAFETY: the table has this number of entries and lives as long as the library, which functions keep
        // alive.
        let kernels = unsafe {
            std::slice::from_raw_parts(self.table.kernels, self.table.kernel_count as usize)
        };
        // SAFETY: names end with a zero byte.
        kernels.iter().find(|kernel| unsafe { CStr::from_ptr(kernel.name) } == name)
    }

    /// Returns the file descriptor of its library.
    pub(super) fn descriptor(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Adds the forms of PTX that it has executed to a log.
    pub(super) fn count(&self, log: &mut Log) {
        for at in 0..self.table.form_count as usize {
            // SAFETY: there is this number of names and counters.
            let (name, times) = unsafe {
                (CStr::from_ptr(*self.table.form_names.add(at)), *self.table.form_counts.add(at))
            };
            log.executed(&name.to_string_lossy(), times);
        }
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: it was opened once, and nothing of it is used any more.
        unsafe { libc::dlclose(self.library) };
    }
}

/// Reads memory of this process; returns fewer bytes if it ends earlier.
fn read(base: usize, from: usize, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Piece by piece, until a piece cannot be read.
    while bytes.len() < count {
        let at = base + from + bytes.len();
        let piece = (count - bytes.len()).min(4096 - at % 4096);
        let mut buffer = [0u8; 4096];
        let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: piece };
        let remote =
            libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(at), iov_len: piece };
        // SAFETY: the buffer has this length, and the operating system checks the other side.
        let read = unsafe {
            libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
        };
        if read != piece as isize {
            break;
        }
        bytes.extend(&buffer[..piece]);
    }
    bytes
}

fn load(driver: &mut Driver, device: usize, image: *const c_void) -> Outcome<usize> {
    if image.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let base = image.expose_provenance();
    let image = Image::read(&|from, count| read(base, from, count))
        .map_err(|_| CUresult::CUDA_ERROR_INVALID_IMAGE)?;
    let driver_version = settings().driver;
    if image.is_virtual && image.nvrtc > driver_version {
        return Err(CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    }
    // Machine code of a later minor version is compatible, that of a later major version is not.
    if image.nvrtc.0 > driver_version.0 {
        return Err(CUresult::CUDA_ERROR_INVALID_IMAGE);
    }
    if !image.runs_on(driver.devices[device].capability) {
        return Err(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
    }
    if image.variant != toolchain::variant() {
        eprintln!(
            "emulated device: a module was compiled by another build of the emulator, or with another \
             EMULATOR_RACES or EMULATOR_MUTATION; use another XDG_CACHE_HOME"
        );
        return Err(CUresult::CUDA_ERROR_INVALID_IMAGE);
    }
    let module = Module::load(image, device).map_err(|why| {
        eprintln!("emulated device: a module cannot be loaded: {why}");
        CUresult::CUDA_ERROR_INVALID_IMAGE
    })?;
    let handle = driver.handle();
    driver.modules.insert(handle, Arc::new(module));
    Ok(handle)
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) -> CUresult {
    call_in_context("cuModuleLoadData", |driver, device| {
        let handle = load(driver, device, image)?;
        // SAFETY: the caller passes space for a handle.
        unsafe { put(module, std::ptr::without_provenance_mut(handle)) }
    })
}

/// Loads a module. The options concern logs and the finishing of PTX, which is complete here.
#[unsafe(no_mangle)]
extern "C" fn cuModuleLoadDataEx(
    module: *mut CUmodule,
    image: *const c_void,
    _count: c_uint,
    _options: *const c_void,
    _values: *const *mut c_void,
) -> CUresult {
    cuModuleLoadData(module, image)
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(module: CUmodule) -> CUresult {
    call_in_context("cuModuleUnload", |driver, _| {
        let found = driver.modules.remove(&module.addr());
        let found = found.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        // Pending launches keep it alive.
        found.count(&mut driver.log);
        driver.functions.retain(|_, function| !Arc::ptr_eq(&function.module, &found));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleGetFunction(
    function: *mut CUfunction,
    module: CUmodule,
    name: *const c_char,
) -> CUresult {
    call_in_context("cuModuleGetFunction", |driver, _| {
        if name.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let found = driver.modules.get(&module.addr()).cloned();
        let module = found.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        // SAFETY: the caller passes a text that ends with a zero byte.
        let name = CString::from(unsafe { CStr::from_ptr(name) });
        let kernel = module.kernel(&name).ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        let device = module.device;
        let made = Function::new(module, kernel, &name, device);
        let handle = driver.handle();
        driver.functions.insert(handle, made);
        // SAFETY: the caller passes space for a handle.
        unsafe { put(function, std::ptr::without_provenance_mut(handle)) }
    })
}
