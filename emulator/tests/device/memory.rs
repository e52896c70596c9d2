//! Is memory guarded and poisoned, and do streams reveal missing events?

use crate::common::{POISON, grid, kernel, run};
use crate::{Case, aborts, holds};
use cudarc::driver::{CudaContext, CudaSlice, DevicePtr, PushKernelArg, result};

const LATE: [&[(&str, &str)]; 4] = [
    &[("EMULATOR_ORDER", "1")],
    &[("EMULATOR_ORDER", "2")],
    &[("EMULATOR_ORDER", "3")],
    &[("EMULATOR_ORDER", "4")],
];
const TWO: &[(&str, &str)] = &[("EMULATOR_DEVICES", "8.0:4:64M,8.6:2:64M")];

pub const CASES: &[Case] = &[
    aborts(
        "read_one_past_the_end_is_reported",
        &[
            "0 bytes beyond the end of an allocation of 64 bytes",
            "kernel `kernel`",
            "thread 16 of 32",
        ],
        || reach(16, false),
    ),
    aborts(
        "write_past_the_end_is_reported",
        &["8 bytes beyond the end of an allocation of 64 bytes", "thread 18 of 32"],
        || reach(18, true),
    ),
    aborts(
        "write_within_the_last_16_bytes_is_reported_when_memory_is_freed",
        &["beyond the end of an allocation of 60 bytes"],
        write_into_the_gap,
    ),
    aborts(
        "read_of_freed_memory_is_reported",
        &["which has been freed", "kernel `kernel`"],
        freed_memory,
    ),
    aborts("read_of_null_is_reported", &["near null", "kernel `kernel`"], null_pointer),
    aborts(
        "access_beyond_dynamic_shared_memory_is_reported",
        &["outside the shared memory of the block"],
        beyond_dynamic,
    ),
    aborts(
        "write_after_a_shared_variable_is_reported",
        &["beyond the end of the shared variable `held` of 64 bytes"],
        after_variable,
    ),
    aborts(
        "index_out_of_bounds_is_reported",
        &["index 16 is out of bounds", "held[threadIdx.x]"],
        index_out_of_bounds,
    ),
    aborts(
        "memory_of_another_device_is_reported",
        &["(device 0); it is used by device 1", "kernel `kernel`"],
        other_device,
    )
    .with(TWO),
    holds("new_memory_is_poisoned", poisoned),
    holds("shared_memory_is_poisoned_for_each_block", poisoned_shared),
    holds("missing_wait_shows_in_random_order_1", missing_wait).with(LATE[0]),
    holds("missing_wait_shows_in_random_order_2", missing_wait).with(LATE[1]),
    holds("waits_are_respected_in_random_order_1", || streams(true, 40, true)).with(LATE[0]),
    holds("waits_are_respected_in_random_order_2", || streams(true, 40, true)).with(LATE[1]),
    holds("ignored_waits_show_in_random_order", ignored_waits)
        .with(&[("EMULATOR_ORDER", "3"), ("EMULATOR_IGNORE_WAITS", "1")]),
    holds("streams_execute_at_once_without_a_random_order", || streams(false, 40, true)),
    holds("pinned_memory_is_read_late_and_other_memory_at_once", late_reads).with(LATE[2]),
    aborts(
        "use_of_memory_before_its_stream_allocates_it_is_reported",
        &["which its stream has not reached"],
        early_use,
    )
    .with(LATE[3]),
    holds("late_streams_free_memory_late", late_free).with(LATE[0]),
];

const COPY: &str = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) { out[threadIdx.x] = in[threadIdx.x]; }"#;

/// Lets a thread access memory past 16 numbers.
fn reach(thread: u32, write: bool) {
    let (a, b) = if write { ("out", "in") } else { ("in", "out") };
    let source = format!(
        r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {{
    u32* {a}_ = (u32*){a}; u32* {b}_ = (u32*){b};
    u32 i = threadIdx.x;
    if (i < 16 || i == {thread}) {}
}}"#,
        if write { "out_[i] = in_[i % 16];" } else { "out_[i % 16] = in_[i];" }
    );
    run(&source, grid(1, 32, 0), &[1; 16], 16);
}

fn write_into_the_gap() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) { out[15] = 1; }"#;
    run(source, grid(1, 1, 0), &[1; 16], 15);
}

fn freed_memory() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let function = kernel(&context, COPY);
    let freed: CudaSlice<u32> = stream.alloc_zeros(32).unwrap();
    let mut output: CudaSlice<u32> = stream.alloc_zeros(32).unwrap();
    let at = freed.device_ptr(&stream).0;
    drop(freed);
    // SAFETY: the arguments have the types of the kernel's parameters.
    unsafe { stream.launch_builder(&function).arg(&at).arg(&mut output).launch(grid(1, 32, 0)) }
        .unwrap();
}

fn null_pointer() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let function = kernel(&context, COPY);
    let mut output: CudaSlice<u32> = stream.alloc_zeros(32).unwrap();
    // SAFETY: the arguments have the types of the kernel's parameters.
    unsafe { stream.launch_builder(&function).arg(&0u64).arg(&mut output).launch(grid(1, 32, 0)) }
        .unwrap();
}

fn beyond_dynamic() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    extern __shared__ u32 memory[];
    memory[threadIdx.x] = 1;
    out[0] = memory[0];
}"#;
    run(source, grid(1, 64, 128), &[], 1);
}

fn after_variable() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    __shared__ u32 held[16];
    u32* at = held;
    at[threadIdx.x] = 1;
    out[0] = at[0];
}"#;
    run(source, grid(1, 17, 0), &[], 1);
}

fn index_out_of_bounds() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    __shared__ u32 held[16];
    held[threadIdx.x] = 1;
    out[0] = held[0];
}"#;
    run(source, grid(1, 17, 0), &[], 1);
}

fn other_device() {
    let first = CudaContext::new(0).unwrap();
    let input: CudaSlice<u32> = first.new_stream().unwrap().alloc_zeros(32).unwrap();
    let at = input.device_ptr(input.stream()).0;
    let second = CudaContext::new(1).unwrap();
    let stream = second.new_stream().unwrap();
    let function = kernel(&second, COPY);
    let mut output: CudaSlice<u32> = stream.alloc_zeros(32).unwrap();
    // SAFETY: the arguments have the types of the kernel's parameters.
    unsafe { stream.launch_builder(&function).arg(&at).arg(&mut output).launch(grid(1, 32, 0)) }
        .unwrap();
}

fn poisoned() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    for count in [1, 33, 5_000, 300_000] {
        // SAFETY: any number is a value.
        let new: CudaSlice<u32> = unsafe { stream.alloc(count).unwrap() };
        let found = stream.clone_dtoh(&new).unwrap();
        assert!(found.iter().all(|&value| value == POISON), "{count} numbers");
        let zeros: CudaSlice<u32> = stream.alloc_zeros(count).unwrap();
        assert!(stream.clone_dtoh(&zeros).unwrap().iter().all(|&value| value == 0));
    }
    // SAFETY: the memory has this number of bytes until it is freed.
    unsafe {
        let pinned = result::malloc_host(4096, 0).unwrap();
        let found = std::slice::from_raw_parts(pinned.cast::<u32>(), 1024);
        assert!(found.iter().all(|&value| value == POISON));
        result::free_host(pinned).unwrap();
    }
}

fn poisoned_shared() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    __shared__ u32 held[32];
    extern __shared__ u32 memory[];
    out[64 * blockIdx.x + threadIdx.x] = held[threadIdx.x];
    out[64 * blockIdx.x + 32 + threadIdx.x] = memory[threadIdx.x];
    held[threadIdx.x] = memory[threadIdx.x] = 1;
}"#;
    assert_eq!(run(source, grid(3, 32, 128), &[], 192), [POISON; 192]);
}

/// Lets one stream write numbers and another one copy them, repeatedly; returns whether all arrive each time.
fn rounds(wait: bool, rounds: u32) -> bool {
    let source = r#"
extern "C" __global__ void fill(u32* to, u32 value) { to[threadIdx.x] = value; }
extern "C" __global__ void kernel(const u32* in, u32* out) { out[threadIdx.x] = in[threadIdx.x]; }"#;
    let context = CudaContext::new(0).unwrap();
    // Only this test's own events are used.
    // SAFETY: streams are waited for below.
    unsafe { context.disable_event_tracking() };
    let module = crate::common::module(&context, source);
    let (fill, copy) =
        (module.load_function("fill").unwrap(), module.load_function("kernel").unwrap());
    let (writer, reader) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let mut numbers: CudaSlice<u32> = writer.alloc_zeros(32).unwrap();
    writer.synchronize().unwrap();
    let mut whole = true;
    for round in 0..rounds {
        // SAFETY: the arguments have the types of the kernels' parameters.
        unsafe {
            writer
                .launch_builder(&fill)
                .arg(&mut numbers)
                .arg(&round)
                .launch(grid(1, 32, 0))
                .unwrap();
            if wait {
                reader.join(&writer).unwrap();
            }
            let mut output: CudaSlice<u32> = reader.alloc_zeros(32).unwrap();
            reader
                .launch_builder(&copy)
                .arg(&numbers)
                .arg(&mut output)
                .launch(grid(1, 32, 0))
                .unwrap();
            whole &= reader.clone_dtoh(&output).unwrap() == [round; 32];
        }
        // The next round writes after this one has read.
        writer.join(&reader).unwrap();
    }
    writer.synchronize().unwrap();
    whole
}

fn streams(wait: bool, count: u32, expected: bool) {
    assert_eq!(rounds(wait, count), expected);
}

fn missing_wait() {
    streams(false, 40, false);
}

fn ignored_waits() {
    streams(true, 40, false);
}

fn late_reads() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let (mut pinned_late, mut other_late) = (0, 0);
    for round in 0..40u32 {
        // SAFETY: memory is only used while it is allocated, and streams are waited for.
        unsafe {
            let pinned = result::malloc_host(64, 0).unwrap().cast::<u32>();
            let to = result::malloc_sync(128).unwrap();
            pinned.write(round);
            let mut other = vec![round; 16];
            let from_pinned = std::slice::from_raw_parts(pinned, 16);
            result::memcpy_htod_async(to, from_pinned, stream.cu_stream()).unwrap();
            result::memcpy_htod_async(to + 64, &other, stream.cu_stream()).unwrap();
            pinned.write_volatile(1000);
            other.fill(1000);
            let mut found = [0u32; 32];
            result::memcpy_dtoh_async(&mut found, to, stream.cu_stream()).unwrap();
            // Not pinned, so the copy is complete when the call returns.
            pinned_late += usize::from(found[0] == 1000);
            other_late += usize::from(found[16] != round);
            stream.synchronize().unwrap();
            result::free_sync(to).unwrap();
            result::free_host(pinned.cast()).unwrap();
        }
    }
    assert!(pinned_late > 0 && other_late == 0, "{pinned_late} and {other_late} late");
}

fn early_use() {
    let context = CudaContext::new(0).unwrap();
    // SAFETY: this test checks that nothing waits.
    unsafe { context.disable_event_tracking() };
    let function = kernel(&context, COPY);
    let (one, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    for _ in 0..100 {
        // SAFETY: any number is a value.
        let mut output: CudaSlice<u32> = unsafe { one.alloc(32).unwrap() };
        let input: CudaSlice<u32> = other.alloc_zeros(32).unwrap();
        // SAFETY: the arguments have the types of the kernel's parameters.
        unsafe {
            other.launch_builder(&function).arg(&input).arg(&mut output).launch(grid(1, 32, 0))
        }
        .unwrap();
        other.synchronize().unwrap();
    }
}

fn late_free() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let function = kernel(&context, COPY);
    let input = stream.clone_htod(&[7u32; 32]).unwrap();
    let mut output: CudaSlice<u32> = stream.alloc_zeros(32).unwrap();
    // SAFETY: the arguments have the types of the kernel's parameters.
    unsafe { stream.launch_builder(&function).arg(&input).arg(&mut output).launch(grid(1, 32, 0)) }
        .unwrap();
    // Freed in the order of its stream, after the kernel.
    drop(input);
    assert_eq!(stream.clone_dtoh(&output).unwrap(), [7; 32]);
}
