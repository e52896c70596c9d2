//! How do cases compile and run kernels?

use cudarc::driver::{CudaContext, CudaFunction, CudaModule, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::{Ptx, result, sys};
use simjoin_core::Random;
use std::ffi::CString;
use std::sync::Arc;

/// The common beginning of kernels.
const TYPES: &str = "typedef unsigned int u32; typedef unsigned long long u64; \
                     typedef unsigned short u16; typedef unsigned char u8;\n";

/// Compiles to machine code, or returns the compiler's log.
pub fn machine_code(source: &str, architecture: &str) -> Result<Vec<u8>, String> {
    let source = CString::new(format!("{TYPES}{source}")).unwrap();
    let program = result::create_program(&source, Some(c"test.cu")).unwrap();
    let options = [format!("--gpu-architecture={architecture}"), "--std=c++17".into()];
    // SAFETY: the program is alive, and the buffer has the reported length.
    unsafe {
        if result::compile_program(program, &options).is_err() {
            let log = result::get_program_log(program).unwrap();
            let log: Vec<u8> = log.iter().map(|&byte| byte as u8).collect();
            return Err(String::from_utf8_lossy(&log).into_owned());
        }
        let mut size = 0;
        sys::nvrtcGetCUBINSize(program, &raw mut size).result().unwrap();
        let mut code = vec![0u8; size];
        sys::nvrtcGetCUBIN(program, code.as_mut_ptr().cast()).result().unwrap();
        result::destroy_program(program).unwrap();
        Ok(code)
    }
}

/// Compiles to PTX.
pub fn ptx(source: &str, architecture: &str) -> Ptx {
    let source = CString::new(format!("{TYPES}{source}")).unwrap();
    let program = result::create_program(&source, None).unwrap();
    // SAFETY: the program is alive.
    let text = unsafe {
        result::compile_program(program, &[format!("--gpu-architecture={architecture}")]).unwrap();
        result::get_ptx(program).unwrap()
    };
    let text: Vec<u8> = text.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
    Ptx::from_src(String::from_utf8(text).unwrap())
}

/// Returns the architecture of the first device, with the suffix `a` if there is such code.
pub fn architecture(context: &CudaContext) -> String {
    let (major, minor) = context.compute_capability().unwrap();
    format!("sm_{major}{minor}{}", if major >= 9 { "a" } else { "" })
}

/// Returns a module, compiled for the first device.
pub fn module(context: &Arc<CudaContext>, source: &str) -> Arc<CudaModule> {
    let code = machine_code(source, &architecture(context)).unwrap_or_else(|log| panic!("{log}"));
    context.load_module(Ptx::from_binary(code)).unwrap()
}

/// Compiles `kernel(const u32* in, u32* out)` of a source, for the first device.
pub fn kernel(context: &Arc<CudaContext>, source: &str) -> CudaFunction {
    module(context, source).load_function("kernel").unwrap()
}

/// Returns a launch of one dimension.
pub fn grid(blocks: u32, threads: u32, shared: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: shared }
}

/// Runs `kernel(const u32* in, u32* out)` of a source, and returns its output.
pub fn run(source: &str, config: LaunchConfig, input: &[u32], outputs: usize) -> Vec<u32> {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let function = kernel(&context, source);
    if config.shared_mem_bytes > 48 << 10 {
        use cudarc::driver::sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let bytes = config.shared_mem_bytes as i32;
        function.set_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes).unwrap();
    }
    let input: &[u32] = if input.is_empty() { &[0] } else { input };
    let input = stream.clone_htod(input).unwrap();
    // SAFETY: any number is a value.
    let mut output = unsafe { stream.alloc::<u32>(outputs).unwrap() };
    // SAFETY: the kernel has these parameters.
    unsafe {
        stream.launch_builder(&function).arg(&input).arg(&mut output).launch(config).unwrap()
    };
    stream.clone_dtoh(&output).unwrap()
}

/// Returns a sequence of numbers that look random.
pub fn random(seed: u64) -> impl FnMut() -> u32 {
    let mut random = Random::new(seed);
    move || random.bits() as u32
}

/// Returns the first numbers of such a sequence.
pub fn randoms(seed: u64, count: usize) -> Vec<u32> {
    let mut next = random(seed);
    (0..count).map(|_| next()).collect()
}

/// The contents of memory that has not been written.
pub const POISON: u32 = 0xffc3_ffc3;
