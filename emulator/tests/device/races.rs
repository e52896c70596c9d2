//! Does the race detector find all unordered accesses, and only those?

use crate::common::{grid, randoms, run};
use crate::{Case, aborts, holds};

const RACES: &[(&str, &str)] = &[("EMULATOR_RACES", "1")];

pub const CASES: &[Case] = &[
    holds("correct_kernels_have_no_races", || {
        sums("__syncthreads();", "__syncthreads();", "__syncwarp();");
    })
    .with(RACES),
    aborts(
        "removed_barrier_is_a_race",
        &["a race in shared memory", "of `held`", "line 8", "line 10"],
        || {
            sums("", "__syncthreads();", "__syncwarp();");
        },
    )
    .with(RACES),
    aborts(
        "removed_barrier_before_a_write_is_a_race",
        &["a race in shared memory", "of `held`", "line 8", "line 10"],
        || {
            sums("__syncthreads();", "", "__syncwarp();");
        },
    )
    .with(RACES),
    aborts("removed_syncwarp_is_a_race", &["a race in shared memory", "of `parts`"], || {
        sums("__syncthreads();", "__syncthreads();", "");
    })
    .with(RACES),
    holds("races_are_not_reported_without_the_check", || {
        sums("", "__syncthreads();", "__syncwarp();");
    }),
    holds("atomics_do_not_race_with_atomics", || {
        tickets("atomicAdd(&count, 1)", "__syncthreads();");
    })
    .with(RACES),
    aborts(
        "atomic_races_with_a_read",
        &["a race in shared memory", "`count`", "line 7", "line 9"],
        || {
            tickets("atomicAdd(&count, 1)", "");
        },
    )
    .with(RACES),
    aborts(
        "two_plain_writes_race",
        &["writes byte 0 of `count` at line 7", "wrote it at line 7"],
        || {
            tickets("count = 1", "__syncthreads();");
        },
    )
    .with(RACES),
    holds("copies_that_are_waited_for_by_all_have_no_races", || {
        copies("__syncthreads();");
    })
    .with(RACES),
    aborts(
        "copy_that_only_its_own_thread_waited_for_is_a_race",
        &["a race in shared memory", "dynamic shared memory"],
        || {
            copies("");
        },
    )
    .with(RACES),
    aborts(
        "read_outside_shared_variables_is_reported",
        &["4 bytes are read outside the shared variables", "at line 7"],
        outside,
    )
    .with(RACES),
];

/// Computes sums of each warp and of the block, with the given synchronization.
fn sums(first: &str, second: &str, within: &str) {
    let source = format!(
        r#"extern "C" __global__ void kernel(const u32* in, u32* out) {{
    __shared__ u32 held[128], parts[4];
    u32 i = threadIdx.x, sum = 0;

    for (u32 round = 0; round < 2; round++) {{

        held[i] = in[128 * round + i];
        {first}
        sum += held[127 - i];
        {second}
        if (i % 32 == 0) parts[i / 32] = sum;
        {within}
        if (i % 32 == 1) out[2 * (i / 32) + round] = parts[i / 32];
        {within}
    }}
}}"#
    );
    let input = randoms(1, 256);
    let found = run(&source, grid(1, 128, 0), &input, 8);
    if !(first.is_empty() || second.is_empty() || within.is_empty()) {
        for warp in 0..4 {
            let first = input[127 - 32 * warp];
            assert_eq!(found[2 * warp], first);
            assert_eq!(found[2 * warp + 1], first.wrapping_add(input[255 - 32 * warp]));
        }
    }
}

fn tickets(take: &str, order: &str) {
    let source = format!(
        r#"extern "C" __global__ void kernel(const u32* in, u32* out) {{
    __shared__ u32 count;
    u32 i = threadIdx.x;
    if (i == 0) count = 0;
    __syncthreads();
    {take};
    {order}
    out[i] = count;
}}"#
    );
    let found = run(&source, grid(1, 64, 0), &[], 64);
    assert!(take == "count = 1" || found == [64; 64], "{found:?}");
}

fn copies(order: &str) {
    let source = format!(
        r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {{
    extern __shared__ __align__(16) u32 memory[];
    u32 i = threadIdx.x, to = (u32)__cvta_generic_to_shared(memory) + 16 * i;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + 4 * i) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    {order}
    out[i] = memory[4 * (63 - i)];
}}"#
    );
    let input = randoms(2, 256);
    let found = run(&source, grid(1, 64, 1024), &input, 64);
    for (i, &found) in found.iter().enumerate() {
        assert_eq!(found, input[4 * (63 - i)]);
    }
}

fn outside() {
    let source = r#"extern "C" __global__ void kernel(const u32* in, u32* out) {
    __shared__ u32 held[16];
    u32 i = threadIdx.x;
    if (i < 16) held[i] = i;
    __syncthreads();
    const u32* at = held; out[i] = at[i];
}"#;
    run(source, grid(1, 17, 0), &[], 17);
}
