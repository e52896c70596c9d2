//! Do devices, drivers, compilers and faults follow the settings?

use crate::common::{grid, kernel, machine_code, ptx, run};
use crate::{Case, holds};
use cudarc::driver::sys::{CUdevice_attribute as Attribute, CUresult};
use cudarc::driver::{CudaContext, CudaSlice, PushKernelArg, result};
use cudarc::nvrtc::Ptx;
use libtest_mimic::Failed;

pub const CASES: &[Case] = &[
    holds("devices_match_the_settings", devices)
        .with(&[("EMULATOR_DEVICES", "7.5:3:512M,8.6:5:1G,12.0:7:2G")]),
    holds("closed_device_has_no_context", closed)
        .with(&[("EMULATOR_DEVICES", "8.0:4:1G,8.0:4:1G"), ("EMULATOR_CLOSED", "1")]),
    holds("memory_is_allocated_without_pools", no_pools).with(&[("EMULATOR_NO_POOLS", "1")]),
    holds("memory_runs_out_at_the_size_of_the_device", small_memory)
        .with(&[("EMULATOR_DEVICES", "8.0:4:4M")]),
    holds("pools_keep_memory_up_to_their_threshold", pools),
    holds("allocation_fails_once", out_of_memory).with(&[("EMULATOR_FAULT", "out-of-memory@2")]),
    holds("failed_launch_fails_its_context_permanently", launch_failed)
        .with(&[("EMULATOR_FAULT", "launch-failed@2"), ("EMULATOR_DEVICES", "8.0:4:1G,8.0:4:1G")]),
    holds("lost_device_returns_only_errors", lost).with(&[("EMULATOR_FAULT", "lost@40")]),
    holds("mutation_is_applied", mutated).with(&[("EMULATOR_MUTATION", "{mutation}")]),
    holds("architectures_are_rejected_by_name_and_by_version", refused)
        .with(&[("EMULATOR_NVRTC", "12.4"), ("EMULATOR_NVRTC_REFUSES", "sm_86")]),
    holds("ptx_runs_on_a_later_device", finished).with(&[("EMULATOR_DEVICES", "12.0:4:1G")]),
    holds("unsuitable_images_are_rejected", misfits),
    holds("older_driver_rejects_newer_code", old_driver)
        .with(&[("EMULATOR_DRIVER", "12.4"), ("EMULATOR_NVRTC", "13.0")]),
    holds("compiler_errors_name_file_and_line", compile_errors),
    holds("the_log_counts_kernels_forms_and_calls", logged).with(&[("EMULATOR_LOG", "{log}")]),
];

const ADD: &str = r#"
extern "C" __global__ void kernel(const u32* a, u32* out) {
    const u32* b = a + 32; u32 i = threadIdx.x;
    out[i] = a[i] + b[i];
}"#;

fn devices() {
    assert_eq!(CudaContext::device_count(), Ok(3));
    let found: Vec<_> = (0..3)
        .map(|ordinal| {
            let device = CudaContext::new(ordinal).unwrap();
            let attribute = |which| device.attribute(which).unwrap();
            (
                device.compute_capability().unwrap(),
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
                device.total_mem().unwrap() >> 20,
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) >> 10,
                device.has_async_alloc(),
            )
        })
        .collect();
    let expected =
        [((7, 5), 3, 512, 64, true), ((8, 6), 5, 1024, 99, true), ((12, 0), 7, 2048, 99, true)];
    assert_eq!(found, expected);
    assert_eq!(CudaContext::new(3).unwrap_err().0, CUresult::CUDA_ERROR_INVALID_DEVICE);
}

fn closed() {
    assert!(CudaContext::new(0).is_ok());
    assert_eq!(CudaContext::new(1).unwrap_err().0, CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE);
}

fn no_pools() {
    let context = CudaContext::new(0).unwrap();
    assert!(!context.has_async_alloc());
    let stream = context.new_stream().unwrap();
    let before = context.mem_get_info().unwrap().0;
    let numbers: CudaSlice<u32> = stream.alloc_zeros(1 << 20).unwrap();
    assert_eq!(before - context.mem_get_info().unwrap().0, 4 << 20);
    drop(numbers);
    assert_eq!(context.mem_get_info().unwrap().0, before);
    // SAFETY: the memory is not used.
    let pooled = unsafe { result::malloc_async(stream.cu_stream(), 16) };
    assert_eq!(pooled.unwrap_err().0, CUresult::CUDA_ERROR_NOT_SUPPORTED);
}

fn small_memory() {
    let stream = CudaContext::new(0).unwrap().new_stream().unwrap();
    let most: CudaSlice<u32> = stream.alloc_zeros(3 << 18).unwrap();
    let more = stream.alloc_zeros::<u32>(1 << 19);
    assert_eq!(more.unwrap_err().0, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    drop(most);
    assert!(stream.alloc_zeros::<u32>(1 << 19).is_ok());
}

fn pools() {
    use cudarc::driver::sys::CUmemPool_attribute as Of;
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    // SAFETY: the pool belongs to the device, and its attributes are 64-bit numbers.
    unsafe {
        let pool = result::device::get_default_mem_pool(context.cu_device()).unwrap();
        let ask = |attribute| {
            let mut value = 0u64;
            result::mem_pool::get_attribute(pool, attribute, (&raw mut value).cast()).unwrap();
            value
        };
        let held = || {
            [Of::CU_MEMPOOL_ATTR_USED_MEM_CURRENT, Of::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT]
                .map(ask)
        };
        let free = || context.mem_get_info().unwrap().0;
        let before = free();
        let allocate = || stream.alloc_zeros::<u8>(1 << 20).unwrap();
        let one = allocate();
        assert_eq!((held(), before - free()), ([1 << 20; 2], 1 << 20));
        // Without a threshold, nothing is kept after a wait.
        drop(one);
        stream.synchronize().unwrap();
        assert_eq!((held(), before - free()), ([0; 2], 0));
        let mut all = u64::MAX;
        let threshold = Of::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        result::mem_pool::set_attribute(pool, threshold, (&raw mut all).cast()).unwrap();
        drop(allocate());
        stream.synchronize().unwrap();
        assert_eq!((held(), before - free()), ([0, 1 << 20], 1 << 20));
    }
}

fn out_of_memory() {
    let stream = CudaContext::new(0).unwrap().new_stream().unwrap();
    assert!(stream.alloc_zeros::<u32>(1).is_ok());
    assert_eq!(stream.alloc_zeros::<u32>(1).unwrap_err().0, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    assert!(stream.alloc_zeros::<u32>(1).is_ok());
}

fn launch_failed() {
    let context = CudaContext::new(0).unwrap();
    // No events that fail instead of the tested calls.
    // SAFETY: there is one stream.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().unwrap();
    let function = kernel(&context, ADD);
    let input = stream.clone_htod(&[1u32; 64]).unwrap();
    let mut output: CudaSlice<u32> = stream.alloc_zeros(32).unwrap();
    let failed = CUresult::CUDA_ERROR_LAUNCH_FAILED;
    // SAFETY: the arguments have the types of the kernel's parameters.
    let mut launch = || unsafe {
        stream
            .launch_builder(&function)
            .arg(&input)
            .arg(&mut output)
            .launch(grid(1, 32, 0))
            .map(|_| ())
    };
    launch().unwrap();
    // The call returns before the launch is executed.
    launch().unwrap();
    // SAFETY: the stream is alive.
    let waited = unsafe { result::stream::synchronize(stream.cu_stream()) };
    assert_eq!(waited.unwrap_err().0, failed);
    assert_eq!(launch().unwrap_err().0, failed);
    assert_eq!(stream.alloc_zeros::<u32>(1).unwrap_err().0, failed);
    assert_eq!(CudaContext::new(0).unwrap_err().0, failed);
    // Another device has another context.
    let other = CudaContext::new(1).unwrap().new_stream().unwrap();
    assert_eq!(other.clone_dtoh(&other.clone_htod(&[5u32]).unwrap()).unwrap(), [5]);
}

fn lost() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let failure = (0..100).find_map(|_| stream.clone_htod(&[5u32]).err());
    assert_eq!(failure.unwrap().0, CUresult::CUDA_ERROR_UNKNOWN);
    assert_eq!(stream.clone_htod(&[5u32]).unwrap_err().0, CUresult::CUDA_ERROR_UNKNOWN);
}

fn mutated() {
    let input: Vec<u32> = (0..64).map(|i| if i < 32 { 3 * i } else { i - 32 }).collect();
    let found = run(ADD, grid(1, 32, 0), &input, 32);
    assert_eq!(found, (0..32).map(|i| 2 * i).collect::<Vec<u32>>());
}

fn refused() {
    for known in ["sm_80", "sm_75", "compute_90", "sm_90a", "sm_70"] {
        assert!(machine_code(ADD, known).is_ok(), "{known}");
    }
    // Refused by name; newer than the version; unknown; exact architectures that do not exist.
    for unknown in ["sm_86", "compute_86", "sm_120", "sm_100", "sm_33", "sm_80a", "gfx90"] {
        let log = machine_code(ADD, unknown).unwrap_err();
        assert!(log.contains("invalid value for --gpu-architecture"), "{unknown}: {log}");
    }
}

fn finished() {
    let context = CudaContext::new(0).unwrap();
    let load = |ptx| context.load_module(ptx).map(|_| ()).map_err(|error| error.0);
    assert_eq!(load(ptx(ADD, "compute_90")), Ok(()));
    assert_eq!(load(Ptx::from_binary(machine_code(ADD, "sm_120").unwrap())), Ok(()));
    let other = CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU;
    assert_eq!(load(Ptx::from_binary(machine_code(ADD, "sm_90").unwrap())), Err(other));
    assert_eq!(load(ptx(ADD, "compute_90a")), Err(other));
}

fn misfits() {
    let context = CudaContext::new(0).unwrap();
    let load = |bytes: Vec<u8>| {
        context.load_module(Ptx::from_binary(bytes)).map(|_| ()).map_err(|error| error.0)
    };
    let whole = machine_code(ADD, "sm_90").unwrap();
    let invalid = Err(CUresult::CUDA_ERROR_INVALID_IMAGE);
    for part in [16, 100, whole.len() / 2, whole.len() - 1] {
        // Of full length, but not completely written.
        let mut cut = whole[..part].to_vec();
        cut.resize(whole.len(), 0xee);
        assert_eq!(load(cut), invalid, "{part} bytes");
    }
    assert_eq!(load(vec![7; 4096]), invalid);
    assert_eq!(
        load(machine_code(ADD, "sm_80").unwrap()),
        Err(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU)
    );
    let module = context.load_module(Ptx::from_binary(whole)).unwrap();
    assert_eq!(module.load_function("other").unwrap_err().0, CUresult::CUDA_ERROR_NOT_FOUND);
}

fn old_driver() {
    let context = CudaContext::new(0).unwrap();
    let load = |ptx| context.load_module(ptx).map(|_| ()).map_err(|error| error.0);
    let code = Ptx::from_binary(machine_code(ADD, "sm_90").unwrap());
    assert_eq!(load(code), Err(CUresult::CUDA_ERROR_INVALID_IMAGE));
    assert_eq!(load(ptx(ADD, "compute_80")), Err(CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION));
}

fn compile_errors() {
    let log = |source: &str| machine_code(source, "sm_80").unwrap_err();
    let unknown =
        log("\nextern \"C\" __global__ void kernel() {\n    asm(\"nanosleep.u32 5;\");\n}");
    assert!(
        unknown
            .contains("test.cu(4): error: the PTX instruction `nanosleep.u32 5` is not emulated"),
        "{unknown}"
    );
    let plain = log("\nextern \"C\" __global__ void kernel() {\n    no_such_function();\n}");
    assert!(plain.contains("test.cu:4") && plain.contains("no_such_function"), "{plain}");
    let early = log("__device__ void f() { asm(\"wgmma.fence.sync.aligned;\"); }");
    assert!(early.contains("requires .target sm_90a, not sm_80"), "{early}");
}

fn logged() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    u16 half;
    if (threadIdx.x < 5) asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(1.0f));
    out[threadIdx.x] = half;
}"#;
    run(source, grid(3, 32, 0), &[], 32);
    run(source, grid(1, 32, 0), &[], 32);
}

/// Checks the log that [`logged`] has written.
pub fn check_log(text: &str) -> Result<(), Failed> {
    let line = |begin: &str| {
        let found = text.lines().find(|line| line.starts_with(begin));
        found.map(str::to_string).ok_or_else(|| Failed::from(format!("no `{begin}` in {text}")))
    };
    let kernel = line("kernel kernel@")?;
    if !kernel.ends_with(" sm_90a 2 128") {
        return Err(kernel.into());
    }
    if line("ptx ")? != "ptx cvt.rn.f16.f32 20"
        || line("call cuLaunchKernel")? != "call cuLaunchKernel 2"
    {
        return Err(text.into());
    }
    Ok(())
}
