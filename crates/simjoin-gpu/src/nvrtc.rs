//! How does kernel source become code for the device at hand?
//!
//! NVRTC, NVIDIA's run-time compiler, is a library of the CUDA toolkit and of the Python packages
//! `nvidia-cuda-nvrtc` (CUDA 13) and `nvidia-cuda-nvrtc-cu12`. Both places are searched.
//!
//! # Which code for which device?
//!
//! * A driver loads no machine code of a later major version of CUDA than its own. So an NVRTC of the
//!   driver's major version, or of an earlier one, is preferred. If there is only a later one, GPUs cannot be
//!   used.
//! * NVRTC makes machine code for the device's own architecture if it knows that architecture. For a device
//!   that is newer than NVRTC, it makes PTX, the portable form, for the newest architecture that NVRTC knows
//!   and the device can run. The driver turns PTX into machine code when it is loaded.
//!
//! # The cache
//!
//! Code is kept in the cache folder once a driver has loaded it. The name of the file is a hash of everything
//! that the code depends on. The file begins with the hash of its code. A file that was cut short, or that no
//! longer loads, is removed and made again.

use libloading::Library;
use sha2::{Digest, Sha256};
use simjoin_core::{Error, Result};
use simjoin_engine::{cache_file, keep};
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::OnceLock;

type Program = *mut std::ffi::c_void;

/// The compiler.
#[derive(Debug)]
pub struct Nvrtc {
    library: Library,
    version: (c_int, c_int),
}

/// The advice for users who do not have it.
const HOW_TO_INSTALL: &str = "install the CUDA toolkit, or `pip install nvidia-cuda-nvrtc` (CUDA 13) or \
                   `nvidia-cuda-nvrtc-cu12` (CUDA 12), or set SIMJOIN_NVRTC to the path of libnvrtc.so";

/// Compute capabilities and the version of CUDA that introduced each, the newest first. PTX is made for one
/// of them.
const CAPABILITIES: [((i32, i32), (i32, i32)); 13] = [
    ((12, 1), (12, 9)),
    ((12, 0), (12, 8)),
    ((11, 0), (13, 0)),
    ((10, 3), (12, 9)),
    ((10, 1), (12, 8)),
    ((10, 0), (12, 8)),
    ((9, 0), (11, 8)),
    ((8, 9), (11, 8)),
    ((8, 8), (13, 0)),
    ((8, 7), (11, 4)),
    ((8, 6), (11, 1)),
    ((8, 0), (11, 0)),
    ((7, 5), (10, 0)),
];

/// The device and the driver that code is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The device's compute capability.
    pub(crate) capability: (i32, i32),
    /// Whether the code uses instructions that only this exact architecture has.
    pub(crate) exact_architecture: bool,
    /// The driver's CUDA version.
    pub(crate) driver: (i32, i32),
}

/// Machine code, or PTX with a zero at its end.
pub(crate) struct Code {
    pub(crate) bytes: Vec<u8>,
    /// The cache file, whether it exists or not.
    file: Option<PathBuf>,
    /// Whether the code was read from that file.
    pub(crate) from_cache: bool,
}

impl Code {
    /// Writes code that a driver has loaded to the cache. If that fails, the code is compiled again next
    /// time.
    pub(crate) fn keep(&self) {
        if let Some(file) = self.file.as_ref().filter(|_| !self.from_cache) {
            keep(file, &cache_entry(&self.bytes));
        }
    }

    /// Removes cached code that the driver does not load.
    pub(crate) fn forget(&self) {
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// The reason why a source was not compiled.
enum CompileError {
    /// NVRTC does not know the architecture.
    Architecture,
    /// The source has errors: the log.
    Source(String),
    /// NVRTC does not work.
    Broken(Error),
}

impl Nvrtc {
    /// The options that every kernel is compiled with.
    #[doc(hidden)]
    pub const OPTIONS: [&str; 3] = ["--std=c++17", "--restrict", "--extra-device-vectorization"];

    /// Returns the compiler of this machine. It is searched for once.
    pub fn get() -> Result<&'static Nvrtc> {
        static FOUND: OnceLock<std::result::Result<Nvrtc, String>> = OnceLock::new();
        let found = FOUND.get_or_init(Nvrtc::find);
        found.as_ref().map_err(|why| Error::Unavailable(why.clone()))
    }

    fn find() -> std::result::Result<Self, String> {
        let driver = crate::device::driver_version();
        let mut tried = Vec::new();
        let mut later: Option<Self> = None;
        for candidate in library_paths() {
            if candidate.is_absolute() && !candidate.exists() {
                tried.push(format!("{}: no such file", candidate.display()));
                continue;
            }
            match Self::open(&candidate) {
                Ok(nvrtc) if driver.is_some_and(|driver| nvrtc.version.0 > driver.0) => {
                    later.get_or_insert(nvrtc);
                }
                Ok(nvrtc) => return Ok(nvrtc),
                Err(why) => tried.push(why),
            }
        }
        if let (Some(Nvrtc { version, .. }), Some(driver)) = (later, driver) {
            return Err(format!(
                "NVRTC {}.{} makes code that the NVIDIA driver of CUDA {}.{} does not load; install NVRTC {} \
                 (`pip install nvidia-cuda-nvrtc-cu{}`), or a newer driver",
                version.0, version.1, driver.0, driver.1, driver.0, driver.0
            ));
        }
        // A path that the user gave is the one to report.
        let why = if std::env::var_os("SIMJOIN_NVRTC").is_some() { tried.first() } else { None };
        let why = why.map_or_else(String::new, |why| format!(" ({why})"));
        Err(format!("NVRTC, the compiler for GPUs, was not found{why}; {HOW_TO_INSTALL}"))
    }

    fn open(path: &Path) -> std::result::Result<Self, String> {
        // The library loads its built-in functions by name only, so they must be loaded before it.
        if let Some(folder) = path.parent().filter(|_| path.is_absolute()) {
            for builtins in files_with_prefix(folder, "libnvrtc-builtins.so") {
                // SAFETY: NVIDIA's libraries do nothing harmful when they are loaded.
                if let Ok(library) = unsafe { Library::new(&builtins) } {
                    std::mem::forget(library);
                }
            }
        }
        // SAFETY: as above.
        let library = unsafe { Library::new(path) }.map_err(|why| why.to_string())?;
        let mut version = (0, 0);
        // SAFETY: the function has this signature in every version.
        let code = unsafe {
            let ask = library
                .get::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>(b"nvrtcVersion\0")
                .map_err(|why| why.to_string())?;
            ask(&raw mut version.0, &raw mut version.1)
        };
        if code == 0 {
            Ok(Nvrtc { library, version })
        } else {
            Err(format!("{}: error {code}", path.display()))
        }
    }

    /// Returns the version of the compiler.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Compiles a kernel for an architecture such as `sm_90`.
    pub fn compile(
        &self,
        source: &str,
        architecture: &str,
        defines: &[(&str, u32)],
    ) -> Result<Vec<u8>> {
        self.compile_anew(source, &options(architecture, defines)).map_err(|error| match error {
            CompileError::Architecture => Error::Unavailable(format!(
                "NVRTC {}.{} does not know the architecture {architecture}",
                self.version.0, self.version.1
            )),
            CompileError::Source(log) => Error::Internal(format!("NVRTC: {log}")),
            CompileError::Broken(why) => why,
        })
    }

    /// Returns code for a device, from the cache or compiled; always compiled if `anew`.
    pub(crate) fn code(
        &self,
        source: &str,
        target: &Target,
        defines: &[(&str, u32)],
        anew: bool,
    ) -> Result<Code> {
        let (major, minor) = target.capability;
        let exact_architecture = if target.exact_architecture { "a" } else { "" };
        let own = options(&format!("sm_{major}{minor}{exact_architecture}"), defines);
        let file = code_file(&[
            env!("CARGO_PKG_VERSION"),
            &format!("{:?} {:?}", self.version, target.driver),
            &own.join(" "),
            source,
        ]);
        if !anew && let Some(bytes) = file.as_deref().and_then(read_cached) {
            return Ok(Code { bytes, file, from_cache: true });
        }
        let code = |bytes| Code { bytes, file: file.clone(), from_cache: false };
        match self.compile_anew(source, &own) {
            Err(CompileError::Architecture) => {}
            made => return made.map(code).map_err(|error| self.explain(target, error)),
        }
        // A driver loads no PTX newer than itself, and no architecture has the exact instructions of another.
        if self.version <= target.driver && !target.exact_architecture {
            for (capability, since) in CAPABILITIES {
                if capability > target.capability || since > self.version {
                    continue;
                }
                let portable = format!("compute_{}{}", capability.0, capability.1);
                match self.compile_anew(source, &options(&portable, defines)) {
                    Err(CompileError::Architecture) => {}
                    made => return made.map(code).map_err(|error| self.explain(target, error)),
                }
            }
        }
        Err(self.explain(target, CompileError::Architecture))
    }

    /// Returns an error that says why there is no code for a device, and which NVRTC would compile it.
    fn explain(&self, target: &Target, error: CompileError) -> Error {
        let ((major, minor), (a, b)) = (self.version, target.capability);
        let log = match error {
            CompileError::Broken(why) => return why,
            CompileError::Source(log) => log,
            CompileError::Architecture => {
                let since = CAPABILITIES.iter().find(|(capability, _)| *capability == (a, b));
                let which = match since {
                    Some((_, since)) if *since > self.version => {
                        format!("NVRTC {}.{} or newer does", since.0, since.1)
                    }
                    Some((_, since)) => format!("NVRTC {} does", since.0.max(12)),
                    None => "a newer one may".into(),
                };
                return Error::Unavailable(format!(
                    "NVRTC {major}.{minor} does not compile for GPUs of compute capability {a}.{b}; {which}"
                ));
            }
        };
        let line = log.lines().find(|line| line.contains("error")).unwrap_or("no reason given");
        Error::Unavailable(format!(
            "NVRTC {major}.{minor} does not compile a kernel for compute capability {a}.{b} ({}); NVRTC 12.4 to 13 are \
             known to work",
            line.trim()
        ))
    }

    fn compile_anew(
        &self,
        source: &str,
        options: &[String],
    ) -> std::result::Result<Vec<u8>, CompileError> {
        let portable = options.iter().any(|option| option.contains("=compute_"));
        let bug = |what: &str| {
            CompileError::Broken(Error::Unavailable(format!("NVRTC: {what}; {HOW_TO_INSTALL}")))
        };
        let source = CString::new(source).map_err(|_| bug("the source contains a zero byte"))?;
        let options: Vec<CString> =
            options.iter().filter_map(|option| CString::new(option.as_str()).ok()).collect();
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program: Program = null_mut();
        // SAFETY: the functions have these signatures in every version. Buffers have the sizes that the
        // library reports, and the program is destroyed once, at the end.
        unsafe {
            let create = self
                .function::<unsafe extern "C" fn(
                    *mut Program,
                    *const c_char,
                    *const c_char,
                    c_int,
                    *const *const c_char,
                    *const *const c_char,
                ) -> c_int>(b"nvrtcCreateProgram\0")
                .map_err(CompileError::Broken)?;
            let compile = self
                .function::<unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int>(
                    b"nvrtcCompileProgram\0",
                )
                .map_err(CompileError::Broken)?;
            let destroy = self
                .function::<unsafe extern "C" fn(*mut Program) -> c_int>(b"nvrtcDestroyProgram\0")
                .map_err(CompileError::Broken)?;
            let name = c"simjoin.cu";
            let nothing = std::ptr::null();
            if create(&raw mut program, source.as_ptr(), name.as_ptr(), 0, nothing, nothing) != 0 {
                return Err(bug("it created no program"));
            }
            let compiled = compile(program, pointers.len() as c_int, pointers.as_ptr());
            let result = if compiled == 0 {
                match portable {
                    true => self.bytes(program, b"nvrtcGetPTXSize\0", b"nvrtcGetPTX\0"),
                    false => self.bytes(program, b"nvrtcGetCUBINSize\0", b"nvrtcGetCUBIN\0"),
                }
                .map_err(CompileError::Broken)
            } else {
                let log = self.bytes(program, b"nvrtcGetProgramLogSize\0", b"nvrtcGetProgramLog\0");
                let log = log.unwrap_or_default();
                let text = CStr::from_bytes_until_nul(&log).unwrap_or_default().to_string_lossy();
                // Every version knows all options except the architecture.
                let unknown = compiled == INVALID_OPTION || text.contains("--gpu-architecture");
                Err(if unknown {
                    CompileError::Architecture
                } else {
                    CompileError::Source(text.into_owned())
                })
            };
            destroy(&raw mut program);
            result
        }
    }

    /// Returns a function of the library.
    ///
    /// # Safety
    ///
    /// The function must have this type.
    unsafe fn function<F: Copy>(&self, name: &[u8]) -> Result<F> {
        // SAFETY: the caller guarantees the type.
        let symbol = unsafe { self.library.get::<F>(name) };
        symbol
            .map(|symbol| *symbol)
            .map_err(|why| Error::Unavailable(format!("NVRTC: {why}; {HOW_TO_INSTALL}")))
    }

    /// Returns the output of a program, from a function for its size and one for its content.
    ///
    /// # Safety
    ///
    /// The program must be alive.
    unsafe fn bytes(&self, program: Program, size: &[u8], content: &[u8]) -> Result<Vec<u8>> {
        // SAFETY: these functions have these types, and the buffer has the reported size.
        unsafe {
            let size_of =
                self.function::<unsafe extern "C" fn(Program, *mut usize) -> c_int>(size)?;
            let get =
                self.function::<unsafe extern "C" fn(Program, *mut c_char) -> c_int>(content)?;
            let mut length = 0;
            let mut code = size_of(program, &raw mut length);
            let mut bytes = vec![0u8; length];
            if code == 0 {
                code = get(program, bytes.as_mut_ptr().cast());
            }
            if code == 0 {
                Ok(bytes)
            } else {
                Err(Error::Unavailable(format!("NVRTC: error {code}; {HOW_TO_INSTALL}")))
            }
        }
    }
}

/// The result of NVRTC for an unknown option.
const INVALID_OPTION: c_int = 5;

/// Returns the options that a kernel is compiled with.
fn options(architecture: &str, defines: &[(&str, u32)]) -> Vec<String> {
    let mut options = vec![format!("--gpu-architecture={architecture}")];
    options.extend(Nvrtc::OPTIONS.map(String::from));
    options.extend(defines.iter().map(|(name, value)| format!("-D{name}={value}")));
    options
}

/// Returns the places where the library may be, in the order of preference.
fn library_paths() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os("SIMJOIN_NVRTC") {
        return std::env::split_paths(&named).collect();
    }
    let mut places: Vec<PathBuf> =
        ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"].map(PathBuf::from).to_vec();
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(std::env::var_os);
    let toolkits = toolkits.map(PathBuf::from).chain([PathBuf::from("/usr/local/cuda")]);
    for toolkit in toolkits {
        places.extend(files_with_prefix(&toolkit.join("lib64"), "libnvrtc.so"));
    }
    for packages in python_packages() {
        for folder in ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"] {
            places.extend(files_with_prefix(&packages.join(folder), "libnvrtc.so"));
        }
    }
    places
}

/// Returns the folders in which Python keeps packages.
fn python_packages() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let roots = ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(std::env::var_os);
    let roots = roots.map(PathBuf::from).chain(home.map(|home| home.join(".local")));
    let mut found = Vec::new();
    for root in roots.chain([PathBuf::from("/usr/local"), PathBuf::from("/usr")]) {
        for version in files_with_prefix(&root.join("lib"), "python3") {
            found.push(version.join("site-packages"));
            found.push(version.join("dist-packages"));
        }
    }
    found
}

/// Returns the entries of a folder whose names begin with a prefix, in descending order.
fn files_with_prefix(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let begins = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(prefix);
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| begins(&entry.file_name()))
        .map(|entry| entry.path())
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found
}

/// Returns the file for code that depends on these texts.
fn code_file(depends_on: &[&str]) -> Option<PathBuf> {
    let mut hash = Sha256::new();
    for part in depends_on {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let name: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    cache_file(Path::new("kernels").join(name + ".code"))
}

/// The length of the hash that a cache file begins with, in bytes.
const HASH_BYTES: usize = 32;

/// Returns the content of the cache file for this code.
#[doc(hidden)]
pub fn cache_entry(code: &[u8]) -> Vec<u8> {
    [&Sha256::digest(code)[..], code].concat()
}

/// Returns the code in a cache file. Removes the file if it is damaged.
fn read_cached(file: &Path) -> Option<Vec<u8>> {
    let mut bytes = std::fs::read(file).ok()?;
    let whole =
        bytes.len() > HASH_BYTES && Sha256::digest(&bytes[HASH_BYTES..])[..] == bytes[..HASH_BYTES];
    if !whole {
        let _ = std::fs::remove_file(file);
        return None;
    }
    Some(bytes.split_off(HASH_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_cache_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kernel.code");
        keep(&file, &cache_entry(b"machine code"));
        assert_eq!(read_cached(&file).as_deref(), Some(&b"machine code"[..]));
        let whole = std::fs::read(&file).unwrap();
        for length in [0, 5, HASH_BYTES, HASH_BYTES + 1, whole.len() - 1] {
            std::fs::write(&file, &whole[..length]).unwrap();
            assert_eq!(read_cached(&file), None, "{length} bytes");
            assert!(!file.exists(), "{length} bytes");
        }
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn capabilities_are_sorted_from_newest_to_oldest() {
        assert!(CAPABILITIES.windows(2).all(|two| two[0].0 > two[1].0));
    }
}
