//! How is NVRTC emulated?
//!
//! This file implements the functions of NVRTC: a program is created from a source, compiled for an architecture, and
//! returns machine code, PTX or a log. Compiling plants a fault if the settings request one, runs the preprocessor,
//! translates ([`crate::translate`]) and builds a shared library ([`crate::toolchain`]). The known architectures are
//! those of the NVRTC version in `EMULATOR_NVRTC`, without those in `EMULATOR_NVRTC_REFUSES`.

use crate::image::Image;
use crate::ptx::Architecture;
use crate::settings::settings;
use crate::{toolchain, translate};
use cudarc::nvrtc::sys::nvrtcResult as Status;
use std::cell::OnceCell;
use std::ffi::{CStr, c_char, c_int};
use std::fmt::Write as _;

/// A source, and the results of compiling it.
#[derive(Default)]
struct Program {
    source: String,
    name: String,
    log: String,
    machine_code: Vec<u8>,
    image: Option<Image>,
    /// Made when it is first requested.
    ptx: OnceCell<Vec<u8>>,
}

/// A version, major and minor.
type Version = (i32, i32);

/// Returns the compute capabilities that an NVRTC of a version compiles for.
fn known_capabilities(version: Version) -> impl Iterator<Item = u32> {
    // A capability, the first version that knows it, and the first that no longer does.
    let all: [(u32, Version, Version); 14] = [
        (50, (6, 0), (13, 0)),
        (52, (6, 0), (13, 0)),
        (60, (8, 0), (13, 0)),
        (61, (8, 0), (13, 0)),
        (70, (9, 0), (13, 0)),
        (75, (10, 0), (99, 0)),
        (80, (11, 0), (99, 0)),
        (86, (11, 1), (99, 0)),
        (87, (11, 4), (99, 0)),
        (89, (11, 8), (99, 0)),
        (90, (11, 8), (99, 0)),
        (100, (12, 8), (99, 0)),
        (103, (12, 9), (99, 0)),
        (120, (12, 8), (99, 0)),
    ];
    all.into_iter()
        .filter(move |(_, since, until)| (*since..*until).contains(&version))
        .map(|(number, ..)| number)
        .filter(|number| !settings().refused.contains(number))
}

/// The parsed options.
#[derive(Debug)]
struct Options {
    architecture: Architecture,
    is_virtual: bool,
    defines: Vec<String>,
}

fn options(list: &[String]) -> Result<Options, String> {
    let mut found = Options {
        architecture: Architecture { number: 52, specific: false },
        is_virtual: true,
        defines: Vec::new(),
    };
    let mut list = list.iter().map(String::as_str);
    while let Some(option) = list.next() {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) if !option.starts_with("-D") => (name, Some(value)),
            _ => (option, None),
        };
        match name {
            "--gpu-architecture" | "-arch" => {
                let value = value.or_else(|| list.next()).unwrap_or_default();
                let wrong = || "nvrtc: error: invalid value for --gpu-architecture (-arch)\n";
                let (architecture, is_virtual) = Architecture::parse(value).ok_or_else(wrong)?;
                let is_known = known_capabilities(settings().nvrtc)
                    .any(|number| number == architecture.number);
                // Code for an exact architecture exists from 9.0 on.
                if !is_known || (architecture.specific && architecture.number < 90) {
                    return Err(wrong().into());
                }
                (found.architecture, found.is_virtual) = (architecture, is_virtual);
            }
            _ if option.starts_with("-D") => {
                let definition = match &option[2..] {
                    "" => list.next().unwrap_or_default().to_string(),
                    rest => rest.trim_start().to_string(),
                };
                found.defines.push(format!("-D{definition}"));
            }
            // Their effect is not modelled.
            "--std"
            | "-std"
            | "--restrict"
            | "-restrict"
            | "--extra-device-vectorization"
            | "-extra-device-vectorization"
            | "--generate-line-info"
            | "-lineinfo"
            | "--maxrregcount"
            | "--device-debug"
            | "-G" => {}
            _ => return Err(format!("nvrtc: error: unrecognized option {option} found\n")),
        }
    }
    Ok(found)
}

impl Program {
    fn compile(&mut self, list: &[String]) -> Status {
        self.log.clear();
        self.machine_code.clear();
        self.image = None;
        self.ptx.take();
        let options = match options(list) {
            Ok(options) => options,
            Err(why) => {
                self.log = why;
                return Status::NVRTC_ERROR_INVALID_OPTION;
            }
        };
        match self.build(&options) {
            Ok(image) => {
                // There is no machine code for a virtual architecture.
                if !options.is_virtual {
                    self.machine_code = image.to_bytes();
                }
                self.image = Some(Image { is_virtual: true, ..image });
                Status::NVRTC_SUCCESS
            }
            Err(why) => {
                self.log = why;
                Status::NVRTC_ERROR_COMPILATION
            }
        }
    }

    fn ptx(&self) -> &[u8] {
        self.ptx.get_or_init(|| self.image.as_ref().map(Image::to_ptx).unwrap_or_default())
    }

    fn build(&self, options: &Options) -> Result<Image, String> {
        let mut source = self.source.clone();
        if let Some((find, replacement)) = &settings().mutation {
            source = source.replacen(find, replacement, 1);
        }
        let number = options.architecture.number;
        let mut defines: Vec<String> =
            ["-D__CUDACC__", "-D__CUDACC_RTC__", "-D__NVCC__"].map(String::from).into();
        defines.push(format!("-D__CUDA_ARCH__={}", 10 * number));
        defines.push(format!("-D__CUDACC_VER_MAJOR__={}", settings().nvrtc.0));
        defines.push(format!("-D__CUDACC_VER_MINOR__={}", settings().nvrtc.1));
        if options.architecture.specific {
            defines.push(format!("-D__CUDA_ARCH_FEAT_SM{number}_ALL"));
        }
        defines.extend(options.defines.iter().cloned());
        let text = toolchain::preprocess(&source, &self.name, &defines)?;
        let translated = translate::translate(&text, options.architecture)?;
        let object = toolchain::library(&module(&translated))?;
        Ok(Image {
            architecture: options.architecture,
            is_virtual: options.is_virtual,
            nvrtc: settings().nvrtc,
            variant: toolchain::variant(),
            source,
            object,
        })
    }
}

/// Returns a translated source with its prelude and the table of its kernels.
fn module(translated: &translate::Translated) -> String {
    let mut code = toolchain::prelude();
    code.push_str(
        "namespace emulator { extern EMULATOR_HIDDEN uint64_t form_counts[]; }\nnamespace {\n",
    );
    code.push_str(&translated.code);
    code.push_str("\n# 1 \"module.cc\"\n");
    // In the anonymous namespace of the kernels.
    code.push_str("const emulator::Kernel table[] = {");
    for kernel in &translated.kernels {
        let _ = write!(code, "EMULATOR_KERNEL({}, {}), ", kernel.name, kernel.max_threads);
    }
    code.push_str("{nullptr, nullptr, 0, nullptr, 0}};\n}\nnamespace emulator {\n");
    let forms: Vec<String> = translated.forms.iter().map(|form| format!("\"{form}\"")).collect();
    let _ = write!(
        code,
        "EMULATOR_HIDDEN extern const Kernel* const kernels = ::table;\n\
         EMULATOR_HIDDEN extern const uint32_t kernel_count = {};\n\
         EMULATOR_HIDDEN extern const uint32_t form_count = {};\n\
         EMULATOR_HIDDEN extern const char* const form_names[] = {{{}, nullptr}};\n\
         uint64_t form_counts[{} + 1];\n}}\n",
        translated.kernels.len(),
        forms.len(),
        if forms.is_empty() { "nullptr".into() } else { forms.join(", ") },
        forms.len()
    );
    code
}

/// Returns the program of a handle.
///
/// # Safety
///
/// The handle is null, or belongs to a program that has not been destroyed and that no other thread uses.
unsafe fn program<'a>(handle: *mut Program) -> Option<&'a mut Program> {
    // SAFETY: guaranteed by the caller.
    unsafe { handle.as_mut() }
}

/// Returns a C string.
///
/// # Safety
///
/// The pointer is null, or points to a text that ends with a zero byte.
unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: guaranteed by the caller.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// Writes a length to `size`.
///
/// # Safety
///
/// As for [`program`]; `size` is null or points to a number.
unsafe fn length(handle: *mut Program, size: *mut usize, of: impl Fn(&Program) -> usize) -> Status {
    // SAFETY: guaranteed by the caller.
    match unsafe { program(handle) } {
        Some(program) if !size.is_null() => {
            // SAFETY: guaranteed by the caller.
            unsafe { *size = of(program) };
            Status::NVRTC_SUCCESS
        }
        _ => Status::NVRTC_ERROR_INVALID_PROGRAM,
    }
}

/// Copies bytes to `to`.
///
/// # Safety
///
/// As for [`program`]; `to` is null or has space for all bytes.
unsafe fn bytes(handle: *mut Program, to: *mut c_char, of: impl Fn(&Program) -> &[u8]) -> Status {
    // SAFETY: guaranteed by the caller.
    match unsafe { program(handle) } {
        Some(program) if !to.is_null() => {
            let bytes = of(program);
            // SAFETY: guaranteed by the caller; the program's bytes are elsewhere.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), bytes.len()) };
            Status::NVRTC_SUCCESS
        }
        _ => Status::NVRTC_ERROR_INVALID_PROGRAM,
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> Status {
    if major.is_null() || minor.is_null() {
        return Status::NVRTC_ERROR_INVALID_INPUT;
    }
    // SAFETY: the caller passes pointers to numbers.
    unsafe { (*major, *minor) = settings().nvrtc };
    Status::NVRTC_SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcGetNumSupportedArchs(count: *mut c_int) -> Status {
    if count.is_null() {
        return Status::NVRTC_ERROR_INVALID_INPUT;
    }
    // SAFETY: the caller passes a pointer to a number.
    unsafe { *count = known_capabilities(settings().nvrtc).count() as c_int };
    Status::NVRTC_SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcGetSupportedArchs(list: *mut c_int) -> Status {
    if list.is_null() {
        return Status::NVRTC_ERROR_INVALID_INPUT;
    }
    for (at, number) in known_capabilities(settings().nvrtc).enumerate() {
        // SAFETY: the caller passes space for all of them.
        unsafe { *list.add(at) = number as c_int };
    }
    Status::NVRTC_SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcGetErrorString(status: Status) -> *const c_char {
    let text = match status {
        Status::NVRTC_SUCCESS => c"NVRTC_SUCCESS",
        Status::NVRTC_ERROR_INVALID_INPUT => c"NVRTC_ERROR_INVALID_INPUT",
        Status::NVRTC_ERROR_INVALID_PROGRAM => c"NVRTC_ERROR_INVALID_PROGRAM",
        Status::NVRTC_ERROR_INVALID_OPTION => c"NVRTC_ERROR_INVALID_OPTION",
        Status::NVRTC_ERROR_COMPILATION => c"NVRTC_ERROR_COMPILATION",
        _ => c"NVRTC_ERROR unknown",
    };
    text.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcCreateProgram(
    handle: *mut *mut Program,
    source: *const c_char,
    name: *const c_char,
    headers: c_int,
    _contents: *const *const c_char,
    _names: *const *const c_char,
) -> Status {
    if handle.is_null() || source.is_null() || headers != 0 {
        return Status::NVRTC_ERROR_INVALID_INPUT;
    }
    // SAFETY: the caller passes texts.
    let (source, mut name) = unsafe { (text(source), text(name)) };
    if name.is_empty() {
        name = "default_program".into();
    }
    let program = Box::new(Program { source, name, ..Program::default() });
    // SAFETY: the caller passes space for a handle.
    unsafe { *handle = Box::into_raw(program) };
    Status::NVRTC_SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcDestroyProgram(handle: *mut *mut Program) -> Status {
    if handle.is_null() {
        return Status::NVRTC_ERROR_INVALID_PROGRAM;
    }
    // SAFETY: the caller passes a handle that was created above, once.
    unsafe {
        if (*handle).is_null() {
            return Status::NVRTC_ERROR_INVALID_PROGRAM;
        }
        drop(Box::from_raw(*handle));
        *handle = std::ptr::null_mut();
    }
    Status::NVRTC_SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcCompileProgram(
    handle: *mut Program,
    count: c_int,
    list: *const *const c_char,
) -> Status {
    // SAFETY: the caller's handle.
    let Some(program) = (unsafe { program(handle) }) else {
        return Status::NVRTC_ERROR_INVALID_PROGRAM;
    };
    // SAFETY: the caller passes this number of texts.
    let list: Vec<String> =
        (0..count.max(0) as usize).map(|at| unsafe { text(*list.add(at)) }).collect();
    program.compile(&list)
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcGetCUBINSize(handle: *mut Program, size: *mut usize) -> Status {
    // SAFETY: the caller's handle and pointer.
    unsafe { length(handle, size, |program| program.machine_code.len()) }
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcGetCUBIN(handle: *mut Program, to: *mut c_char) -> Status {
    // SAFETY: the caller's handle, and space for all of it.
    unsafe { bytes(handle, to, |program| &program.machine_code) }
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcGetPTXSize(handle: *mut Program, size: *mut usize) -> Status {
    // SAFETY: the caller's handle and pointer.
    unsafe { length(handle, size, |program| program.ptx().len()) }
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcGetPTX(handle: *mut Program, to: *mut c_char) -> Status {
    // SAFETY: the caller's handle, and space for all of it.
    unsafe { bytes(handle, to, Program::ptx) }
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcGetProgramLogSize(handle: *mut Program, size: *mut usize) -> Status {
    // SAFETY: the caller's handle and pointer.
    unsafe { length(handle, size, |program| program.log.len() + 1) }
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcGetProgramLog(handle: *mut Program, to: *mut c_char) -> Status {
    // SAFETY: the caller's handle, and space for the log and a zero byte.
    unsafe {
        let status = bytes(handle, to, |program| program.log.as_bytes());
        if let (Status::NVRTC_SUCCESS, Some(program)) = (status, program(handle)) {
            *to.add(program.log.len()) = 0;
        }
        status
    }
}
