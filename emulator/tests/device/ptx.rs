//! Does every form of PTX behave as documented?

use crate::common::{POISON, grid, random, randoms, run};
use crate::{Case, holds};

const ON_9: &[(&str, &str)] = &[("EMULATOR_DEVICES", "9.0:4:1G")];

pub const CASES: &[Case] = &[
    holds("cp_async_arrives_at_its_wait_and_not_before", copies),
    holds("shared_loads_stores_and_64_bit_sums_work", plain_forms),
    holds("halves_are_converted_to_nearest_even", conversions),
    holds("ldmatrix_gives_each_lane_its_parts", matrices),
    holds("mma_of_bits_matches_a_plain_loop", || multiply(0)),
    holds("mma_of_bytes_matches_a_plain_loop", || multiply(1)),
    holds("mma_of_halves_matches_a_plain_loop", || multiply(2)),
    holds("sums_of_halves_are_truncated_below_24_bits", truncated_sums),
    holds("wgmma_of_halves_matches_a_plain_loop", || multiply_groups(false)).with(ON_9),
    holds("wgmma_of_bytes_matches_a_plain_loop", || multiply_groups(true)).with(ON_9),
    holds("sums_of_wgmma_are_poisoned_until_their_wait", poisoned_sums).with(ON_9),
];

fn copies() {
    let source = r#"
__device__ void copy(u32 to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
extern "C" __global__ void kernel(const u32* in, u32* out) {
    extern __shared__ __align__(16) u32 memory[];
    u32 i = threadIdx.x, at = (u32)__cvta_generic_to_shared(memory) + 16 * i;
    memory[4 * i] = 7;
    copy(at, in + 4 * i);
    asm volatile("cp.async.commit_group;" ::: "memory");
    copy(at + 16 * 32, in + 4 * (32 + i));
    asm volatile("cp.async.commit_group;" ::: "memory");
    out[i] = memory[4 * i];
    asm volatile("cp.async.wait_group %0;" ::"n"(1) : "memory");
    out[32 + i] = memory[4 * i];
    out[64 + i] = memory[4 * (32 + i) + 3];
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    out[96 + i] = memory[4 * (32 + 31 - i) + 3];
}"#;
    let input = randoms(1, 256);
    let found = run(source, grid(1, 32, 1024), &input, 128);
    for i in 0..32 {
        assert_eq!(found[i], POISON, "before its wait");
        assert_eq!(found[32 + i], input[4 * i]);
        assert_eq!(found[64 + i], POISON, "before its wait");
        assert_eq!(found[96 + i], input[4 * (32 + 31 - i) + 3]);
    }
}

fn plain_forms() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    extern __shared__ __align__(16) u32 memory[];
    u32 i = threadIdx.x, base = (u32)__cvta_generic_to_shared(memory);
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(base + 16 * i), "r"(in[i]), "r"(i), "r"(2 * i), "r"(3 * i) : "memory");
    __syncthreads();
    u32 value;
    asm volatile("ld.shared.u32 %0, [%1+4];" : "=r"(value) : "r"(base + 16 * (31 - i)) : "memory");
    const u32* from = in;
    asm volatile("add.u64 %0, %0, %1;" : "+l"(from) : "l"((u64)(4 * i)));
    asm volatile("" : "+r"(value) :: "memory");
    out[i] = value; out[32 + i] = *from + memory[4 * i + 3] - memory[4 * i];
}"#;
    let input = randoms(2, 32);
    let found = run(source, grid(1, 32, 512), &input, 64);
    for i in 0..32u32 {
        assert_eq!((found[i as usize], found[32 + i as usize]), (31 - i, 3 * i));
    }
}

/// Returns the nearest half-precision number, by comparing both neighbours.
fn nearest_half(x: f32) -> u16 {
    let size = f64::from(x.abs());
    let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
    // Halves of one sign are in the order of their bits; infinity counts as 2^16.
    let value = |bits: u16| if bits == 0x7c00 { 65_536.0 } else { f64::from(half(bits)) };
    let (mut low, mut high) = (0u16, 0x7c00u16);
    while high - low > 1 {
        let middle = u16::midpoint(low, high);
        if value(middle) <= size { low = middle } else { high = middle }
    }
    let (below, above) = (size - value(low), value(high) - size);
    let up = above < below || (above == below && high.is_multiple_of(2)) || size >= 65_536.0;
    sign | if up { high } else { low }
}

fn half(bits: u16) -> f32 {
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    let size = match exponent {
        0 => mantissa * 2f32.powi(-24),
        31 => f32::INFINITY,
        _ => (mantissa + 1024.0) * 2f32.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

fn conversions() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    u16 half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(__uint_as_float(in[i])));
    float back;
    asm("cvt.f32.f16 %0, %1;" : "=f"(back) : "h"(half));
    out[2 * i] = half; out[2 * i + 1] = __float_as_uint(back);
}"#;
    let mut next = random(3);
    let mut input: Vec<u32> = Vec::new();
    for _ in 0..3000 {
        // Between two halves, exactly or nearly.
        let bits = (next() % 0x7c00) as u16;
        let middle =
            f32::midpoint(half(bits), if bits == 0x7bff { 65_536.0 } else { half(bits + 1) });
        let x = [middle, middle.next_up(), middle.next_down(), half(bits)][next() as usize % 4];
        input.push(if next().is_multiple_of(2) { x } else { -x }.to_bits());
    }
    let more = [0.0, -0.0, 1e9, f32::INFINITY, 1e-9, 65_519.9, 65_520.0].map(f32::to_bits);
    input.extend(more);
    input.resize(3072, 0);
    let found = run(source, grid(12, 256, 0), &input, 2 * 3072);
    for (&x, found) in input.iter().zip(found.chunks(2)) {
        let expected = nearest_half(f32::from_bits(x));
        assert_eq!(found[0], u32::from(expected), "{}", f32::from_bits(x));
        assert_eq!(found[1], half(expected).to_bits());
    }
}

fn matrices() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    __shared__ __align__(16) u32 rows[32][4];
    u32 i = threadIdx.x;
    for (u32 k = 0; k < 4; k++) rows[i][k] = in[4 * i + k];
    __syncwarp();
    u32 to[4];
    // The rows of the matrices, in reverse order.
    u32 at = (u32)__cvta_generic_to_shared(rows[31 - i]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at));
    for (u32 k = 0; k < 4; k++) out[4 * i + k] = to[k];
}"#;
    let input = randoms(4, 128);
    let found = run(source, grid(1, 32, 0), &input, 128);
    for lane in 0..32 {
        for matrix in 0..4 {
            // Lane / 4 is the row of a matrix, and lane % 4 the pair of its elements.
            let row = 31 - (8 * matrix + lane / 4);
            assert_eq!(found[4 * lane + matrix], input[4 * row + lane % 4]);
        }
    }
}

/// Checks one product of 16 rows and 8 columns of 32 bytes each, with the layout of PTX.
fn multiply(kind: usize) {
    let form = [
        "m16n8k256.row.col.s32.b1.b1.s32.and.popc",
        "m16n8k32.row.col.s32.u8.u8.s32",
        "m16n8k16.row.col.f32.f16.f16.f32",
    ][kind];
    let (sum, register) = if kind == 2 { ("float", "f") } else { ("int", "r") };
    let source = format!(
        r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {{
    u32 i = threadIdx.x;
    const u32* mine = in + 10 * i;
    {sum} s[4];
    for (u32 k = 0; k < 4; k++) s[k] = *({sum}*)&mine[6 + k];
    asm volatile("mma.sync.aligned.{form} {{%0,%1,%2,%3}}, {{%4,%5,%6,%7}}, {{%8,%9}}, {{%0,%1,%2,%3}};"
        : "+{register}"(s[0]), "+{register}"(s[1]), "+{register}"(s[2]), "+{register}"(s[3])
        : "r"(mine[0]), "r"(mine[1]), "r"(mine[2]), "r"(mine[3]), "r"(mine[4]), "r"(mine[5]));
    for (u32 k = 0; k < 4; k++) out[4 * i + k] = *(u32*)&s[k];
}}"#
    );
    let mut next = random(5);
    let mut bytes = |count: usize| -> Vec<u8> {
        if kind < 2 {
            return (0..count).map(|_| next() as u8).collect();
        }
        // Small whole numbers as halves: their sums are exact.
        let small = |x: u32| nearest_half((x % 64) as f32 - 32.0);
        (0..count / 2).flat_map(|_| small(next()).to_le_bytes()).collect()
    };
    let (a, b) = (bytes(16 * 32), bytes(8 * 32));
    let c: Vec<i32> = (0..128).map(|k| k * 7 - 300).collect();
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut input = Vec::new();
    for lane in 0..32 {
        let (group, quad) = (lane / 4, lane % 4);
        for (row, part) in
            [(group, quad), (group + 8, quad), (group, quad + 4), (group + 8, quad + 4)]
        {
            input.push(word(&a, 32 * row + 4 * part));
        }
        for part in [quad, quad + 4] {
            input.push(word(&b, 32 * group + 4 * part));
        }
        for k in 0..4 {
            let value = c[8 * (group + k / 2 * 8) + 2 * quad + k % 2];
            input.push(if kind == 2 { (value as f32).to_bits() } else { value as u32 });
        }
    }
    let found = run(&source, grid(1, 32, 0), &input, 128);
    let product = |row: &[u8], column: &[u8]| -> i32 {
        match kind {
            0 => row.iter().zip(column).map(|(x, y)| (x & y).count_ones() as i32).sum(),
            1 => row.iter().zip(column).map(|(&x, &y)| i32::from(x) * i32::from(y)).sum(),
            _ => halves(row).zip(halves(column)).map(|(x, y)| (x * y) as i32).sum(),
        }
    };
    for lane in 0..32 {
        for k in 0..4 {
            let (row, column) = (lane / 4 + k / 2 * 8, 2 * (lane % 4) + k % 2);
            let whole =
                c[8 * row + column] + product(&a[32 * row..][..32], &b[32 * column..][..32]);
            let expected = if kind == 2 { (whole as f32).to_bits() } else { whole as u32 };
            assert_eq!(found[4 * lane + k], expected, "row {row}, column {column}");
        }
    }
}

fn halves(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.chunks(2).map(|two| half(u16::from_le_bytes([two[0], two[1]])))
}

/// Checks the sum of a large product and many small ones. Each small one is below the last of 24 bits and
/// lost, while an exact sum would keep their total. The error stays within the known bound of tensor cores.
fn truncated_sums() {
    let source = r#"
extern "C" __global__ void kernel(const u32* in, u32* out) {
    float s[4] = {0, 0, 0, 0};
    u32 one = threadIdx.x % 4 == 0 ? in[0] : in[1], rest = in[1];
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
        : "r"(one), "r"(one), "r"(rest), "r"(rest), "r"(in[2]), "r"(in[2]));
    out[threadIdx.x] = __float_as_uint(s[0]);
}"#;
    // 1,024 once, and otherwise slightly less than the last of 24 bits of it, 2^-13, times one.
    let small = nearest_half(2f32.powi(-14));
    let two = |low: u16, high: u16| u32::from(low) | u32::from(high) << 16;
    let input = [two(nearest_half(1024.0), small), two(small, small), two(0x3c00, 0x3c00)];
    let found = run(source, grid(1, 32, 0), &input, 32);
    let sum = f32::from_bits(found[0]);
    assert_eq!(sum, 1024.0, "15 times 2^-14 would be {}", 15.0 * 2f32.powi(-14));
}

/// The common beginning of the kernels of a warpgroup: two swizzled matrices of bytes in shared memory.
const GROUPS: &str = r#"
__device__ u32 place(u32 row, u32 piece) { return row * 128 + (piece ^ row % 8) * 16; }
__device__ u64 descriptor(u32 address) {
    return (u64)(address >> 4 & 0x3fff) | 1ull << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}
#define FOUR(j) REGISTER(s[j][0]), REGISTER(s[j][1]), REGISTER(s[j][2]), REGISTER(s[j][3])
#define SIXTEEN(j) FOUR(j), FOUR(j + 1), FOUR(j + 2), FOUR(j + 3)
__device__ void multiply(Sum (&s)[32][4], u64 a, u64 b, u32 more) {
    asm volatile(
        "{ .reg .pred more; setp.ne.b32 more, %130, 0; "
        FORM
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
        "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"
        "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"
        "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,"
        "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, "
        TAIL
        : SIXTEEN(0), SIXTEEN(4), SIXTEEN(8), SIXTEEN(12), SIXTEEN(16), SIXTEEN(20), SIXTEEN(24), SIXTEEN(28)
        : "l"(a), "l"(b), "r"(more));
}
// Copies rows of 128 bytes to shared memory, from a multiple of 1,024 on.
__device__ u32 fill(const u32* in) {
    extern __shared__ __align__(128) u8 unaligned[];
    u32 base = (u32)__cvta_generic_to_shared(unaligned);
    u8* memory = unaligned + (1024 - base % 1024) % 1024;
    for (u32 at = threadIdx.x; at < (64 + 256) * 8; at += blockDim.x) {
        for (u32 k = 0; k < 4; k++) ((u32*)(memory + place(at / 8, at % 8)))[k] = in[4 * at + k];
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    return (u32)__cvta_generic_to_shared(memory);
}
"#;

fn group_source(bytes: bool, body: &str) -> String {
    let head = if bytes {
        "typedef int Sum;\n#define REGISTER \"+r\"\n\
         #define FORM \"wgmma.mma_async.sync.aligned.m64n256k32.s32.u8.u8 \"\n\
         #define TAIL \"%128, %129, more; }\"\n"
    } else {
        "typedef float Sum;\n#define REGISTER \"+f\"\n\
         #define FORM \"wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 \"\n\
         #define TAIL \"%128, %129, more, 1, 1, 0, 0; }\"\n"
    };
    format!("{head}{GROUPS}{body}")
}

/// Checks all 128 bytes of 64 rows and 256 columns, in four steps of two groups.
fn multiply_groups(bytes: bool) {
    let body = r#"
extern "C" __global__ void __launch_bounds__(128) kernel(const u32* in, u32* out) {
    u32 base = fill(in);
    u64 a = descriptor(base), b = descriptor(base + 64 * 128);
    Sum s[32][4];
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    multiply(s, a, b, 0);
    multiply(s, a + 2, b + 2, 1);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    multiply(s, a + 4, b + 4, 1);
    multiply(s, a + 6, b + 6, 1);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(0) : "memory");
    u32 t = threadIdx.x, lane = t % 32;
    for (u32 j = 0; j < 32; j++) {
        for (u32 k = 0; k < 4; k++) {
            u32 row = t / 32 * 16 + lane / 4 + k / 2 * 8, column = 8 * j + 2 * (lane % 4) + k % 2;
            out[256 * row + column] = *(u32*)&s[j][k];
        }
    }
}"#;
    let mut next = random(6);
    let rows: Vec<u8> = if bytes {
        (0..320 * 128).map(|_| next() as u8).collect()
    } else {
        let small = |x: u32| nearest_half((x % 64) as f32 - 32.0);
        (0..320 * 64).flat_map(|_| small(next()).to_le_bytes()).collect()
    };
    let input: Vec<u32> =
        rows.chunks(4).map(|four| u32::from_le_bytes(four.try_into().unwrap())).collect();
    let found = run(&group_source(bytes, body), grid(1, 128, 42 << 10), &input, 64 * 256);
    let (a, b) = rows.split_at(64 * 128);
    for (row, x) in a.chunks(128).enumerate() {
        for (column, y) in b.chunks(128).enumerate() {
            let expected = if bytes {
                x.iter().zip(y).map(|(&x, &y)| u32::from(x) * u32::from(y)).sum()
            } else {
                halves(x).zip(halves(y)).map(|(x, y)| x * y).sum::<f32>().to_bits()
            };
            assert_eq!(found[256 * row + column], expected, "row {row}, column {column}");
        }
    }
}

fn poisoned_sums() {
    let body = r#"
extern "C" __global__ void __launch_bounds__(128) kernel(const u32* in, u32* out) {
    u32 base = fill(in);
    u64 a = descriptor(base), b = descriptor(base + 64 * 128);
    Sum s[32][4];
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    multiply(s, a, b, 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    out[threadIdx.x] = s[0][0];
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(0) : "memory");
    out[128 + threadIdx.x] = s[0][0];
}"#;
    let input = vec![0x0101_0101; 320 * 32];
    let found = run(&group_source(true, body), grid(1, 128, 42 << 10), &input, 256);
    assert_eq!(found[..128], [POISON; 128]);
    assert_eq!(found[128..], [32; 128]);
}

pub use group::*;

/// Sources of a warpgroup's product with one error each, for the reports.
mod group {
    use super::group_source;

    fn wrong(before: &str, after: &str) -> String {
        group_source(
            true,
            &format!(
                r#"
extern "C" __global__ void __launch_bounds__(128) kernel(const u32* in, u32* out) {{
    extern __shared__ __align__(128) u8 unaligned[];
    u32 base = fill(in);
    u64 a = descriptor(base), b = descriptor(base + 64 * 128);
    Sum s[32][4];
    {before}
    multiply(s, a, b, 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    {after}
    out[threadIdx.x] = s[0][0];
}}"#
            ),
        )
    }

    const FENCE: &str = r#"asm volatile("wgmma.fence.sync.aligned;" ::: "memory");"#;
    const WAIT: &str = r#"asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(0) : "memory");"#;

    pub fn without_fence() -> String {
        wrong("", WAIT)
    }

    pub fn without_wait() -> String {
        wrong(FENCE, "")
    }

    pub fn overwritten() -> String {
        wrong(FENCE, &format!("unaligned[5120] += 1; {WAIT}"))
    }

    pub fn without_proxy_fence() -> String {
        let copy = r#"
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(base + 16 * threadIdx.x), "l"(in) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();"#;
        wrong(&format!("{copy}{FENCE}"), WAIT)
    }
}
