//! Are errors of kernels reported with their position?

use crate::common::{grid, kernel, ptx, run};
use crate::{Case, aborts, ptx as forms};
use cudarc::driver::{CudaContext, CudaSlice, PushKernelArg, result};

const ON_9: &[(&str, &str)] = &[("EMULATOR_DEVICES", "9.0:4:1G")];

pub const CASES: &[Case] = &[
    aborts(
        "lanes_at_different_warp_operations_are_reported",
        &[
            "different warp operations",
            "__ballot_sync (line 4)",
            "__shfl_sync (line 5)",
            "kernel `kernel`, block 0 of 2",
        ],
        divergent_operations,
    ),
    aborts(
        "lane_that_has_left_is_reported",
        &["names lanes that have left the kernel", "00000080", "__shfl_sync"],
        left_lane,
    ),
    aborts(
        "lane_that_leaves_others_waiting_is_reported",
        &["leaves the kernel while others of its warp wait for it at __syncwarp"],
        leaving_lane,
    ),
    aborts(
        "barrier_that_not_all_threads_reach_is_reported",
        &[
            "threads wait for each other",
            "threads 0 to 31: waits for the block at line 4",
            "threads 32 to 62: waits for its warp at line 5",
            "thread",
        ],
        deadlock,
    ),
    aborts(
        "different_barriers_are_reported",
        &["different barriers: __syncthreads (line 4) and __syncthreads_or (line 5)"],
        different_barriers,
    ),
    aborts(
        "mask_without_the_caller_is_reported",
        &["does not name the calling lane 1"],
        wrong_mask,
    ),
    aborts(
        "shuffle_from_outside_the_mask_is_reported",
        &["which the mask 0000ffff does not name"],
        outside_mask,
    ),
    aborts(
        "misaligned_copy_is_reported",
        &["is not a multiple of 16", "cp.async.cg.shared.global", "thread 1 of 32"],
        misaligned_copy,
    ),
    aborts(
        "misaligned_ldmatrix_is_reported",
        &["is not a multiple of 16", "ldmatrix"],
        misaligned_matrix,
    ),
    aborts(
        "misaligned_vector_is_reported",
        &["is not a multiple of 16", "uint4", "at line 3"],
        misaligned_vector,
    ),
    aborts("misaligned_atomic_is_reported", &["atomicAdd", "is not aligned"], misaligned_atomic),
    aborts(
        "copy_outside_of_shared_memory_is_reported",
        &["is neither in a variable nor in the 64 bytes of dynamic memory"],
        copy_outside,
    ),
    aborts("division_by_zero_is_reported", &["divided by zero", "kernel `kernel`"], division),
    aborts(
        "too_much_dynamic_shared_memory_is_reported",
        &["kernel `kernel`", "50000 bytes of shared memory; it may have 49152"],
        too_much_dynamic,
    ),
    aborts(
        "too_many_shared_variables_are_reported",
        &["needs more shared memory than it may have", "`held`"],
        too_many_variables,
    ),
    aborts("block_beyond_the_launch_bounds_is_reported", &["it may have 64"], launch_bounds),
    aborts("empty_grid_is_reported", &["a grid of [0, 1, 1] blocks is not possible"], || {
        run(NOTHING, grid(0, 32, 0), &[], 1);
    }),
    aborts(
        "memory_that_is_freed_twice_is_reported",
        &["cuMemFree", "was not allocated this way", "has been freed"],
        freed_twice,
    ),
    aborts(
        "copy_beyond_an_allocation_is_reported",
        &["cuMemcpyHtoDAsync", "goes beyond the end of the allocation"],
        copy_beyond,
    ),
    aborts(
        "copy_to_freed_memory_is_reported",
        &["cuMemcpyHtoDAsync", "has been freed"],
        copy_to_freed,
    ),
    aborts(
        "destroyed_event_is_reported",
        &["cuEventRecord", "was destroyed before"],
        destroyed_event,
    ),
    aborts(
        "destroyed_stream_is_reported",
        &["cuStreamSynchronize", "was destroyed before"],
        destroyed_stream,
    ),
    aborts("wgmma_without_a_fence_is_reported", &["wgmma without a wgmma.fence"], || {
        group(&forms::without_fence());
    })
    .with(ON_9),
    aborts(
        "wgmma_without_a_wait_is_reported",
        &["before its wgmma products were waited for"],
        || {
            group(&forms::without_wait());
        },
    )
    .with(ON_9),
    aborts(
        "wgmma_whose_operands_change_is_reported",
        &["was changed before it was waited for"],
        || {
            group(&forms::overwritten());
        },
    )
    .with(ON_9),
    aborts(
        "wgmma_without_a_proxy_fence_is_reported",
        &["without a fence.proxy.async since"],
        || {
            group(&forms::without_proxy_fence());
        },
    )
    .with(ON_9),
    aborts("endless_recursion_is_reported", &["the stack of a thread is at its end"], recursion),
];

const NOTHING: &str = r#"extern "C" __global__ void kernel(const u32* in, u32* out) {}"#;

/// Sources begin in line 2, since line 1 has types.
fn divergent_operations() {
    let source = r#"extern "C" __global__ void kernel(const u32* in, u32* out) {
    u32 value = threadIdx.x;
    if (value % 32 == 5) value = __ballot_sync(~0u, true);
    else value = __shfl_sync(~0u, value, 0);
    out[0] = value;
}"#;
    run(source, grid(2, 64, 0), &[], 1);
}

fn left_lane() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    if (threadIdx.x == 7) return;
    __syncwarp(0xffffff7fu);
    out[0] = __shfl_sync(~0u, threadIdx.x, 0);
}"#;
    run(source, grid(1, 32, 0), &[], 1);
}

fn leaving_lane() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    if (threadIdx.x != 7) __syncwarp();
}"#;
    run(source, grid(1, 32, 0), &[], 1);
}

fn deadlock() {
    let source = r#"extern "C" __global__ void kernel(const u32* in, u32* out) {
    // The last lane of the second warp never arrives.
    if (threadIdx.x < 32 || threadIdx.x == 63) __syncthreads();
    else __syncwarp();
}"#;
    run(source, grid(1, 64, 0), &[], 1);
}

fn different_barriers() {
    let source = r#"extern "C" __global__ void kernel(const u32* in, u32* out) {
    u32 i = threadIdx.x;
    if (i < 32) __syncthreads();
    else out[0] = __syncthreads_or(i);
}"#;
    run(source, grid(1, 64, 0), &[], 1);
}

fn wrong_mask() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) { out[0] = __ballot_sync(1, true); }"#;
    run(source, grid(1, 32, 0), &[], 1);
}

fn outside_mask() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    if (threadIdx.x < 16) out[0] = __shfl_sync(0xffffu, threadIdx.x, 20);
}"#;
    run(source, grid(1, 32, 0), &[], 1);
}

fn misaligned_copy() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    extern __shared__ __align__(16) u32 memory[];
    u32 to = (u32)__cvta_generic_to_shared(memory) + 16 * threadIdx.x;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + threadIdx.x) : "memory");
}"#;
    run(source, grid(1, 32, 512), &[0; 64], 1);
}

fn misaligned_matrix() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    extern __shared__ __align__(16) u32 memory[];
    u32 at = (u32)__cvta_generic_to_shared(memory) + 8 * threadIdx.x, a, b, c, d;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(at));
    out[0] = a + b + c + d;
}"#;
    run(source, grid(1, 32, 512), &[], 1);
}

fn misaligned_vector() {
    let source = r#"extern "C" __global__ void kernel(const u32* in, u32* out) {
    uint4 four = *(const uint4*)(in + threadIdx.x);
    out[threadIdx.x] = four.x;
}"#;
    run(source, grid(1, 2, 0), &[0; 16], 2);
}

fn misaligned_atomic() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) { atomicAdd((u64*)(out + 1), 1); }"#;
    run(source, grid(1, 1, 0), &[], 4);
}

fn copy_outside() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    extern __shared__ __align__(16) u32 memory[];
    u32 to = (u32)__cvta_generic_to_shared(memory) + 16 * threadIdx.x;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in) : "memory");
}"#;
    run(source, grid(1, 32, 64), &[0; 64], 1);
}

fn division() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) { out[0] = 5 / in[0]; }"#;
    run(source, grid(1, 1, 0), &[0], 1);
}

fn too_much_dynamic() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let function = kernel(&context, NOTHING);
    let numbers: CudaSlice<u32> = stream.alloc_zeros(1).unwrap();
    // SAFETY: the arguments have the types of the kernel's parameters.
    unsafe {
        stream.launch_builder(&function).arg(&numbers).arg(&numbers).launch(grid(1, 32, 50_000))
    }
    .unwrap();
}

fn too_many_variables() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    __shared__ u32 held[12200];
    extern __shared__ u32 memory[];
    held[threadIdx.x] = 1;
    memory[threadIdx.x] = 1;
}"#;
    run(source, grid(1, 32, 1024), &[], 1);
}

fn launch_bounds() {
    let source = r#"
extern "C" __global__ void __launch_bounds__(64) kernel(const u32* in, u32* out) {}"#;
    run(source, grid(1, 96, 0), &[], 1);
}

fn freed_twice() {
    let _context = CudaContext::new(0).unwrap();
    // SAFETY: this is wrong on purpose, and the test checks the report.
    unsafe {
        let at = result::malloc_sync(64).unwrap();
        result::free_sync(at).unwrap();
        let _ = result::free_sync(at);
    }
}

fn copy_beyond() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    // SAFETY: this is wrong on purpose, and the test checks the report.
    unsafe {
        let at = result::malloc_sync(64).unwrap();
        let _ = result::memcpy_htod_async(at + 4, &[0u32; 16], stream.cu_stream());
    }
}

fn copy_to_freed() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    // SAFETY: this is wrong on purpose, and the test checks the report.
    unsafe {
        let at = result::malloc_sync(64).unwrap();
        result::free_sync(at).unwrap();
        let _ = result::memcpy_htod_async(at, &[0u32; 16], stream.cu_stream());
    }
}

fn destroyed_event() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let event = context.new_event(None).unwrap();
    let handle = event.cu_event();
    drop(event);
    // SAFETY: this is wrong on purpose, and the test checks the report.
    let _ = unsafe { result::event::record(handle, stream.cu_stream()) };
}

fn destroyed_stream() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let handle = stream.cu_stream();
    drop(stream);
    // SAFETY: this is wrong on purpose, and the test checks the report.
    let _ = unsafe { result::stream::synchronize(handle) };
}

fn group(source: &str) {
    run(source, grid(1, 128, 42 << 10), &[0x0101_0101; 320 * 32], 128);
}

fn recursion() {
    let source = r#"
__device__ __noinline__ u32 deeper(volatile u32* at, u32 n) {
    volatile u32 held[64];
    held[n % 64] = *at;
    return n == 0 ? held[0] : deeper(at, n - 1) + held[n % 64];
}
extern "C" __global__ void kernel(const u32* in, u32* out) { out[0] = deeper(out, 1 << 20); }"#;
    // Compiled to PTX, so that PTX is tested too.
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let function =
        context.load_module(ptx(source, "compute_80")).unwrap().load_function("kernel").unwrap();
    let mut output: CudaSlice<u32> = stream.alloc_zeros(1).unwrap();
    // SAFETY: the arguments have the types of the kernel's parameters.
    unsafe { stream.launch_builder(&function).arg(&0u64).arg(&mut output).launch(grid(1, 1, 0)) }
        .unwrap();
}
