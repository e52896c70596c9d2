//! How does kernel source become code for the device at hand?
//!
//! NVRTC, NVIDIA's run-time compiler, is a library of the CUDA toolkit and also of the Python package
//! `nvidia-cuda-nvrtc`; it is looked for in both. It compiles for the exact architecture, so what it
//! makes is loaded as it is, and is kept in the cache folder under a hash of everything it depends on.

use libloading::Library;
use sha2::{Digest, Sha256};
use simjoin_core::{Error, Result};
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

/// Where a person gets it.
const HOW: &str = "install the CUDA toolkit, or `pip install nvidia-cuda-nvrtc`, or set \
                   SIMJOIN_NVRTC to the path of libnvrtc.so";

impl Nvrtc {
    /// What every kernel is compiled with.
    #[doc(hidden)]
    pub const OPTIONS: [&str; 3] = ["--std=c++17", "--restrict", "--extra-device-vectorization"];

    /// The compiler of this machine; looked for once.
    pub fn get() -> Result<&'static Nvrtc> {
        static FOUND: OnceLock<std::result::Result<Nvrtc, String>> = OnceLock::new();
        let found = FOUND.get_or_init(Nvrtc::find);
        found.as_ref().map_err(|why| Error::Unavailable(why.clone()))
    }

    fn find() -> std::result::Result<Self, String> {
        let mut tried = Vec::new();
        for candidate in candidates() {
            if candidate.is_absolute() && !candidate.exists() {
                continue;
            }
            match Self::open(&candidate) {
                Ok(nvrtc) => return Ok(nvrtc),
                Err(why) => tried.push(why),
            }
        }
        // What a person named is what they want to hear about.
        let why = if std::env::var_os("SIMJOIN_NVRTC").is_some() { tried.first() } else { None };
        let why = why.map_or_else(String::new, |why| format!(" ({why})"));
        Err(format!("NVRTC, which compiles for the GPU, was not found{why}; {HOW}"))
    }

    fn open(path: &Path) -> std::result::Result<Self, String> {
        // The library asks for its built-in functions by name alone, so they must be there already.
        if let Some(folder) = path.parent().filter(|_| path.is_absolute()) {
            for builtins in files(folder, "libnvrtc-builtins.so") {
                // SAFETY: NVIDIA's libraries run nothing of consequence when they are loaded.
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

    /// Its version.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Compiles a kernel for an architecture such as `sm_90`, or takes it from the cache.
    pub fn compile(
        &self,
        source: &str,
        architecture: &str,
        defines: &[(&str, u32)],
    ) -> Result<Vec<u8>> {
        let mut options = vec![format!("--gpu-architecture={architecture}")];
        options.extend(Self::OPTIONS.map(String::from));
        options.extend(defines.iter().map(|(name, value)| format!("-D{name}={value}")));
        let kept = cache_file(&[
            env!("CARGO_PKG_VERSION"),
            &format!("{:?}", self.version),
            &options.join(" "),
            source,
        ]);
        if let Some(code) = kept.as_ref().and_then(|file| std::fs::read(file).ok()) {
            return Ok(code);
        }
        let code = self.compile_anew(source, &options)?;
        if let Some(file) = kept {
            keep(&file, &code);
        }
        Ok(code)
    }

    fn compile_anew(&self, source: &str, options: &[String]) -> Result<Vec<u8>> {
        let bug = |what: &str| Error::Internal(format!("NVRTC: {what}"));
        let source = CString::new(source).map_err(|_| bug("source with a zero byte"))?;
        let options: Vec<CString> =
            options.iter().filter_map(|option| CString::new(option.as_str()).ok()).collect();
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program: Program = null_mut();
        // SAFETY: the functions have these signatures in every version; buffers have the sizes that
        // the library asked for, and the program is destroyed once, at the end.
        unsafe {
            let create = self.function::<unsafe extern "C" fn(
                *mut Program,
                *const c_char,
                *const c_char,
                c_int,
                *const *const c_char,
                *const *const c_char,
            ) -> c_int>(b"nvrtcCreateProgram\0")?;
            let compile = self.function::<unsafe extern "C" fn(
                Program,
                c_int,
                *const *const c_char,
            ) -> c_int>(b"nvrtcCompileProgram\0")?;
            let destroy = self.function::<unsafe extern "C" fn(*mut Program) -> c_int>(
                b"nvrtcDestroyProgram\0",
            )?;
            let name = c"simjoin.cu";
            let nothing = std::ptr::null();
            if create(&raw mut program, source.as_ptr(), name.as_ptr(), 0, nothing, nothing) != 0 {
                return Err(bug("no program"));
            }
            let compiled = compile(program, pointers.len() as c_int, pointers.as_ptr());
            let result = if compiled == 0 {
                self.bytes(program, b"nvrtcGetCUBINSize\0", b"nvrtcGetCUBIN\0")
            } else {
                let log = self.bytes(program, b"nvrtcGetProgramLogSize\0", b"nvrtcGetProgramLog\0");
                let log = log.unwrap_or_default();
                let text = CStr::from_bytes_until_nul(&log).unwrap_or_default().to_string_lossy();
                Err(bug(&text))
            };
            destroy(&raw mut program);
            result
        }
    }

    /// # Safety
    ///
    /// The function must have this type.
    unsafe fn function<F: Copy>(&self, name: &[u8]) -> Result<F> {
        // SAFETY: the caller's.
        let symbol = unsafe { self.library.get::<F>(name) };
        symbol
            .map(|symbol| *symbol)
            .map_err(|why| Error::Unavailable(format!("NVRTC: {why}; {HOW}")))
    }

    /// What a pair of functions has to say about a program: how long it is, and what.
    ///
    /// # Safety
    ///
    /// The program must be alive.
    unsafe fn bytes(&self, program: Program, size: &[u8], content: &[u8]) -> Result<Vec<u8>> {
        // SAFETY: these functions have these types; the buffer is as long as asked for.
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
            if code == 0 { Ok(bytes) } else { Err(Error::Internal(format!("NVRTC: error {code}"))) }
        }
    }
}

/// Where the library may be, the most wanted place first.
fn candidates() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os("SIMJOIN_NVRTC") {
        return vec![named.into()];
    }
    let mut places: Vec<PathBuf> =
        ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"].map(PathBuf::from).to_vec();
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(std::env::var_os);
    let toolkits = toolkits.map(PathBuf::from).chain([PathBuf::from("/usr/local/cuda")]);
    for toolkit in toolkits {
        places.extend(files(&toolkit.join("lib64"), "libnvrtc.so"));
    }
    for packages in python_packages() {
        for folder in ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"] {
            places.extend(files(&packages.join(folder), "libnvrtc.so"));
        }
    }
    places
}

/// The folders in which Python keeps packages.
fn python_packages() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let roots = ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(std::env::var_os);
    let roots = roots.map(PathBuf::from).chain(home.map(|home| home.join(".local")));
    let mut found = Vec::new();
    for root in roots.chain([PathBuf::from("/usr/local"), PathBuf::from("/usr")]) {
        for version in files(&root.join("lib"), "python3") {
            found.push(version.join("site-packages"));
            found.push(version.join("dist-packages"));
        }
    }
    found
}

/// What is in a folder and begins like this, the last in the alphabet first.
fn files(folder: &Path, prefix: &str) -> Vec<PathBuf> {
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

fn cache_file(depends_on: &[&str]) -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty());
    let cache = folder("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| folder("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    let mut hash = Sha256::new();
    for part in depends_on {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let name: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Some(cache.join("simjoin").join("kernels").join(name + ".cubin"))
}

/// A kernel that cannot be kept is compiled again next time; that is no error.
fn keep(file: &Path, code: &[u8]) {
    let Some(folder) = file.parent() else { return };
    let part = file.with_extension(format!("{}.part", std::process::id()));
    let kept = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&part, code))
        .and_then(|()| std::fs::rename(&part, file));
    if kept.is_err() {
        let _ = std::fs::remove_file(&part);
    }
}
