//! Are the results of intrinsics, warp operations, barriers and atomics correct?

use crate::common::{grid, random, randoms, run};
use crate::{Case, holds};

pub const CASES: &[Case] = &[
    holds("integer_intrinsics_match_their_definitions", integers),
    holds("floating_point_intrinsics_match_their_definitions", floats),
    holds("plain_products_may_be_fused_but_intrinsics_are_not", fused),
    holds("warp_operations_match_their_definitions", warp),
    holds("warp_operations_with_partial_masks_work", partial_masks),
    holds("barriers_order_memory_and_combine_votes", barriers),
    holds("barriers_do_not_wait_for_threads_that_left", left_threads),
    holds("atomics_match_their_definitions", atomics),
    holds("built_in_variables_have_three_dimensions", dimensions),
    holds("lambdas_and_templates_share_their_shared_variables", shared_variables),
];

/// Computes a row of results from three numbers in each thread.
fn integers() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    u32 a = in[3 * i], b = in[3 * i + 1], c = in[3 * i + 2];
    u64 wide = (u64)a << 32 | b, other = (u64)c << 32 | a;
    u32* to = out + 16 * i;
    to[0] = __popc(a); to[1] = __popcll(wide); to[2] = __clz(a); to[3] = __clzll(wide);
    to[4] = __ffs(a); to[5] = __ffsll(wide); to[6] = __umulhi(a, b);
    u64 high = __umul64hi(wide, other); to[7] = high >> 32; to[8] = high;
    to[9] = __viaddmax_s32((int)a, (int)b, (int)c);
    to[10] = min(a, b); to[11] = max(a, b);
    to[12] = min((int)a, (int)b); to[13] = max((int)a, (int)b);
    to[14] = min(a, 7); to[15] = max((u64)a, wide) >> 32;
}"#;
    let mut input = randoms(1, 3 * 256);
    // Zero, one bit, all bits, and the largest number of each sign.
    let edges = [0, 1, 2, 3, u32::MAX, 1 << 31, (1 << 31) - 1, 1 << 16];
    let mut next = random(2);
    for number in &mut input[..600] {
        *number = edges[next() as usize % edges.len()];
    }
    let found = run(source, grid(2, 128, 0), &input, 16 * 256);
    for (numbers, found) in input.chunks(3).zip(found.chunks(16)) {
        let [a, b, c] = [numbers[0], numbers[1], numbers[2]];
        let wide = u64::from(a) << 32 | u64::from(b);
        let other = u64::from(c) << 32 | u64::from(a);
        let high = ((u128::from(wide) * u128::from(other)) >> 64) as u64;
        let first_bit = |x: u64| if x == 0 { 0 } else { x.trailing_zeros() + 1 };
        let (sa, sb, sc) = (a as i32, b as i32, c as i32);
        let expected = [
            a.count_ones(),
            wide.count_ones(),
            a.leading_zeros(),
            wide.leading_zeros(),
            first_bit(a.into()),
            first_bit(wide),
            ((u64::from(a) * u64::from(b)) >> 32) as u32,
            (high >> 32) as u32,
            high as u32,
            sa.wrapping_add(sb).max(sc) as u32,
            a.min(b),
            a.max(b),
            sa.min(sb) as u32,
            sa.max(sb) as u32,
            a.min(7),
            (u64::from(a).max(wide) >> 32) as u32,
        ];
        assert_eq!(found, expected, "{a} {b} {c}");
    }
}

fn floats() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    u32 i = threadIdx.x;
    const double* x = (const double*)in + 2 * i;
    double* to = (double*)out + 8 * i;
    to[0] = __dadd_rn(x[0], x[1]); to[1] = __dsub_rn(x[0], x[1]); to[2] = __dmul_rn(x[0], x[1]);
    to[3] = __ddiv_rn(x[0], x[1]); to[4] = __dsqrt_rn(x[0]);
    to[5] = __double2float_rd(x[0]); to[6] = __double2float_ru(x[0]);
    to[7] = __longlong_as_double(__double_as_longlong(x[1]) ^ 1ll << 63);
    float f = (float)x[0];
    float* more = (float*)((double*)out + 8 * 64) + 4 * i;
    more[0] = __fdividef(f, 3.0f); more[1] = __int_as_float(__float_as_int(f));
    more[2] = __uint_as_float(__float_as_uint(f) | 1u << 31); more[3] = sqrtf(f);
}"#;
    let mut next = random(3);
    let mut number = || {
        let unit = f64::from(next()) + f64::from(next()) / 4_294_967_296.0;
        unit * 2f64.powi((next() % 60) as i32 - 50)
    };
    let numbers: Vec<f64> = (0..128).map(|_| number()).collect();
    let words: Vec<u32> =
        numbers.iter().flat_map(|x| [x.to_bits() as u32, (x.to_bits() >> 32) as u32]).collect();
    let found = run(source, grid(1, 64, 0), &words, 64 * 16 + 64 * 4);
    let double =
        |at: usize| f64::from_bits(u64::from(found[2 * at]) | u64::from(found[2 * at + 1]) << 32);
    for i in 0..64 {
        let (a, b) = (numbers[2 * i], numbers[2 * i + 1]);
        let nearest = a as f32;
        let down = if f64::from(nearest) > a { nearest.next_down() } else { nearest };
        let up = if f64::from(nearest) < a { nearest.next_up() } else { nearest };
        let expected = [a + b, a - b, a * b, a / b, a.sqrt(), f64::from(down), f64::from(up), -b];
        for (at, expected) in expected.into_iter().enumerate() {
            assert_eq!(double(8 * i + at).to_bits(), expected.to_bits(), "{at}: {a} {b}");
        }
        let more: Vec<f32> = (0..4).map(|at| f32::from_bits(found[64 * 16 + 4 * i + at])).collect();
        let third = nearest / 3.0;
        assert!((more[0] - third).abs() <= 2.0 * (third.next_up() - third), "{nearest} / 3");
        assert_eq!(more[1..], [nearest, -nearest, nearest.sqrt()]);
    }
}

/// Checks that products and sums may be fused, except in intrinsics.
fn fused() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    const double* x = (const double*)in;
    ((double*)out)[0] = __dadd_rn(__dmul_rn(x[0], x[1]), x[2]);
    ((double*)out)[1] = __dmul_rn(x[0], x[1]) + x[2];
    ((double*)out)[2] = x[0] * x[1] + x[2];
}"#;
    let (a, b) = (1.0 + 2f64.powi(-30), 1.0 - 2f64.powi(-30));
    let words: Vec<u32> = [a, b, -1.0]
        .iter()
        .flat_map(|x: &f64| [x.to_bits() as u32, (x.to_bits() >> 32) as u32])
        .collect();
    let found = run(source, grid(1, 1, 0), &words, 6);
    let double =
        |at: usize| f64::from_bits(u64::from(found[2 * at]) | u64::from(found[2 * at + 1]) << 32);
    assert_eq!([double(0), double(1)], [a * b - 1.0; 2]);
    assert!([a * b - 1.0, a.mul_add(b, -1.0)].contains(&double(2)));
}

fn warp() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    u32 i = threadIdx.x, value = in[i];
    u32* to = out + 16 * i;
    to[0] = __shfl_sync(~0u, value, i * 7 % 32);
    to[1] = __shfl_sync(~0u, value, i, 8);
    to[2] = __shfl_up_sync(~0u, value, 5);
    to[3] = __shfl_up_sync(~0u, value, 3, 8);
    to[4] = __shfl_down_sync(~0u, value, 5);
    to[5] = __shfl_down_sync(~0u, value, 3, 8);
    to[6] = __shfl_xor_sync(~0u, value, 17);
    to[7] = __shfl_xor_sync(~0u, value, 9, 8);
    to[8] = __ballot_sync(~0u, value & 1);
    to[9] = __any_sync(~0u, value == in[31]);
    to[10] = __all_sync(~0u, value != 12345);
    to[11] = __match_any_sync(~0u, value % 5);
    u64 wide = (u64)value << 20;
    wide = __shfl_sync(~0u, wide, 3);
    to[12] = wide; to[13] = wide >> 32;
    to[14] = __float_as_uint(__shfl_xor_sync(~0u, (float)value, 1));
    __syncwarp();
    to[15] = __any_sync(~0u, false);
}"#;
    let input = randoms(4, 64);
    let found = run(source, grid(1, 64, 0), &input, 16 * 64);
    for (i, found) in found.chunks(16).enumerate() {
        let (first, lane) = (i / 32 * 32, i % 32);
        let at = |lane: usize| input[first + lane];
        let every = |test: &dyn Fn(u32) -> bool| {
            (0..32).map(|lane| u32::from(test(at(lane))) << lane).sum::<u32>()
        };
        let eight = lane / 8 * 8;
        let wide = u64::from(at(3)) << 20;
        let expected = [
            at(i * 7 % 32),
            at(eight + i % 8),
            at(if lane >= 5 { lane - 5 } else { lane }),
            at(if lane % 8 >= 3 { lane - 3 } else { lane }),
            at(if lane + 5 < 32 { lane + 5 } else { lane }),
            at(if lane % 8 + 3 < 8 { lane + 3 } else { lane }),
            at(lane ^ 17),
            // A lane of a later part of the warp is not read; a lane of an earlier part is.
            at(if lane ^ 9 < eight + 8 { lane ^ 9 } else { lane }),
            every(&|value| value & 1 == 1),
            u32::from(every(&|value| value == input[31]) != 0),
            1,
            every(&|value| value % 5 == at(lane) % 5),
            wide as u32,
            (wide >> 32) as u32,
            (at(lane ^ 1) as f32).to_bits(),
            0,
        ];
        assert_eq!(found, expected, "thread {i}");
    }
}

fn partial_masks() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    u32 i = threadIdx.x, value = in[i];
    u32 result;
    if (i % 2) {
        result = __shfl_xor_sync(0xaaaaaaaau, value, 2);
        result += __ballot_sync(0xaaaaaaaau, i > 15);
    } else {
        result = __ballot_sync(0x55555555u, i > 15);
    }
    out[i] = result;
}"#;
    let input = randoms(5, 32);
    let found = run(source, grid(1, 32, 0), &input, 32);
    for (i, &found) in found.iter().enumerate() {
        let expected =
            if i % 2 == 1 { input[i ^ 2].wrapping_add(0xaaaa_0000) } else { 0x5555_0000 };
        assert_eq!(found, expected, "lane {i}");
    }
}

fn barriers() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    __shared__ u32 sums[256], total;
    extern __shared__ __align__(16) u32 copies[];
    u32 i = threadIdx.x;
    sums[i] = in[blockIdx.x * 256 + i];
    copies[255 - i] = sums[i];
    __syncthreads();
    u32 across = copies[i];
    for (u32 step = 128; step > 0; step /= 2) {
        if (i < step) sums[i] += sums[i + step];
        __syncthreads();
    }
    if (i == 0) total = sums[0];
    int any = __syncthreads_or(i == 77), none = __syncthreads_or(false);
    int all = __syncthreads_and(i < 256), not_all = __syncthreads_and(i != 3);
    int count = __syncthreads_count(i % 4 == 0);
    out[blockIdx.x * 256 + i] = total + across + 1000 * ((any != 0) + 2 * none + 4 * (all != 0) + 8 * not_all) + count;
}"#;
    let input: Vec<u32> = randoms(6, 512).iter().map(|x| x % 1000).collect();
    let found = run(source, grid(2, 256, 1024), &input, 512);
    for (input, found) in input.chunks(256).zip(found.chunks(256)) {
        let sum: u32 = input.iter().sum();
        for i in 0..256 {
            assert_eq!(found[i], sum + input[255 - i] + 5000 + 64);
        }
    }
}

fn left_threads() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    if (threadIdx.x >= 64) return;
    out[threadIdx.x] = __syncthreads_count(true);
}"#;
    assert_eq!(run(source, grid(1, 128, 0), &[], 64), [64; 64]);
}

fn atomics() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    __shared__ u32 cells[7];
    __shared__ u64 wide[2];
    u32 i = threadIdx.x, value = in[i];
    if (i < 7) cells[i] = i == 1 ? ~0u : i == 3 ? ~0u : 0;
    if (i < 2) wide[i] = i == 1 ? ~0ull : 0;
    __syncthreads();
    out[64 + i] = atomicAdd(&cells[0], 1);
    atomicMin(&cells[1], value);
    atomicMax(&cells[2], value);
    atomicAnd(&cells[3], value | 0xff);
    atomicOr(&cells[4], value & 0xff00);
    atomicXor(&cells[5], value);
    atomicCAS(&cells[6], 0, i + 1);
    atomicAdd(&wide[0], (u64)value << 16);
    atomicMin(&wide[1], (u64)value << 16);
    __syncthreads();
    if (i < 7) out[i] = cells[i];
    if (i < 2) { out[7 + 2 * i] = wide[i]; out[8 + 2 * i] = wide[i] >> 32; }
    // Atomics in global memory too.
    if (i == 0) atomicExch(&out[11], 5);
}"#;
    let input = randoms(7, 256);
    let found = run(source, grid(1, 256, 0), &input, 64 + 256);
    let sum: u64 = input.iter().map(|&x| u64::from(x) << 16).sum();
    let least = u64::from(*input.iter().min().unwrap()) << 16;
    let expected = [
        256,
        *input.iter().min().unwrap(),
        *input.iter().max().unwrap(),
        input.iter().fold(u32::MAX, |all, x| all & (x | 0xff)),
        input.iter().fold(0, |all, x| all | (x & 0xff00)),
        input.iter().fold(0, |all, x| all ^ x),
        found[6],
        sum as u32,
        (sum >> 32) as u32,
        least as u32,
        (least >> 32) as u32,
        5,
    ];
    assert_eq!(found[..12], expected);
    assert!((1..=256).contains(&found[6]), "the first of all threads: {}", found[6]);
    let mut tickets = found[64..].to_vec();
    tickets.sort_unstable();
    assert_eq!(tickets, (0..256).collect::<Vec<u32>>());
}

fn dimensions() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    u32 thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    u32 block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    u32 threads = blockDim.x * blockDim.y * blockDim.z;
    out[block * threads + thread] = block * 100 + thread;
}"#;
    let mut config = grid(1, 1, 0);
    config.grid_dim = (2, 3, 2);
    config.block_dim = (3, 2, 4);
    let expected: Vec<u32> =
        (0..12).flat_map(|block| (0..24).map(move |t| block * 100 + t)).collect();
    assert_eq!(run(source, config, &[], 12 * 24), expected);
}

fn shared_variables() {
    let source = r#"
template <int N>
__device__ u32 rotate(u32 value) {
    __shared__ u32 held[N];
    held[threadIdx.x % N] = value;
    __syncthreads();
    u32 other = held[(threadIdx.x + 1) % N];
    __syncthreads();
    return other;
}
extern "C" __global__ void kernel(const u32* in, u32* out) {
    __shared__ u32 count, held[32];
    if (threadIdx.x == 0) count = 10;
    held[threadIdx.x] = threadIdx.x;
    __syncthreads();
    // Captured by value, but shared variables exist only once.
    auto add = [=](u32 more) { return atomicAdd(&count, more); };
    add(1);
    __syncthreads();
    auto read = [=](u32 at) { return held[at] + count; };
    out[threadIdx.x] = read(31 - threadIdx.x) + 100 * rotate<32>(threadIdx.x) + 10000 * rotate<64>(threadIdx.x);
}"#;
    let found = run(source, grid(1, 32, 0), &[], 32);
    // The last thread reads an element of the larger array that nobody wrote.
    for (i, &found) in found.iter().enumerate().take(31) {
        let i = i as u32;
        assert_eq!(found, 31 - i + 42 + 100 * ((i + 1) % 32) + 10000 * (i + 1));
    }
}
