// Which candidates of a CPU filter are in the answer?
//
// A chunk holds probes, and for each probe the candidates starts[p] .. starts[p + 1]. There are
// three ways to divide the work: one thread per probe (A); one block per probe, which keeps the
// probe in shared memory, and one thread per candidate (B); one block per probe and all its threads
// for each candidate, which cut the merge of the two sets along its path (C, intersect path).

#define HELD 2048

struct Chunk {
    const u32* probes;
    const u32* starts;
    const u32* candidates;
    u32 count;
};

struct Output {
    // Null if only the number of rows is wanted.
    Answer* answers;
    State* state;
};

// Writes a pair if it is in the answer or, if only rows are wanted, adds them to the sum of the
// thread.
__device__ __forceinline__ void check(
    const Output& out, u64& rows, const Sets& probes, const Sets& builds,
    const Predicate& predicate, Answer answer, u32 n, u32 m
) {
    if (answer.overlap == 0 || !accepts(predicate, n, m, answer.overlap)) return;
    if (out.answers == 0) {
        rows += weight_of(probes, answer.probe) * weight_of(builds, answer.build);
    } else {
        out.answers[atomicAdd(&out.state->answered, 1)] = answer;
    }
}

// Adds the rows that a thread has counted.
__device__ __forceinline__ void finish(const Output& out, u64 rows) {
    if (rows != 0) atomicAdd(&out.state->rows, rows);
}

extern "C" __global__ void thread_per_probe(
    Chunk chunk, Sets probes, Sets builds, Predicate predicate, Output out
) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= chunk.count) return;
    u64 rows = 0;
    u32 probe = chunk.probes[at];
    u32 n = size_of(probes, probe);
    const u32* xs = tokens_of(probes, probe);
    for (u32 c = chunk.starts[at]; c < chunk.starts[at + 1]; c++) {
        u32 build = chunk.candidates[c];
        u32 m = size_of(builds, build);
        int needed = least_overlap(predicate, n, m);
        u32 overlap = merge(xs, n, tokens_of(builds, build), m, needed).overlap;
        check(out, rows, probes, builds, predicate, {probe, build, overlap}, n, m);
    }
    finish(out, rows);
}

// Copies a set to shared memory, unless it is too large.
__device__ __forceinline__ const u32* hold(const u32* xs, u32 n, u32* held) {
    if (n > HELD) return xs;
    for (u32 i = threadIdx.x; i < n; i += blockDim.x) held[i] = xs[i];
    __syncthreads();
    return held;
}

extern "C" __global__ void block_per_probe(
    Chunk chunk, Sets probes, Sets builds, Predicate predicate, Output out
) {
    __shared__ u32 held[HELD];
    u64 rows = 0;
    u32 probe = chunk.probes[blockIdx.x];
    u32 n = size_of(probes, probe);
    const u32* xs = hold(tokens_of(probes, probe), n, held);
    u32 end = chunk.starts[blockIdx.x + 1];
    for (u32 c = chunk.starts[blockIdx.x] + threadIdx.x; c < end; c += blockDim.x) {
        u32 build = chunk.candidates[c];
        u32 m = size_of(builds, build);
        int needed = least_overlap(predicate, n, m);
        u32 overlap = merge(xs, n, tokens_of(builds, build), m, needed).overlap;
        check(out, rows, probes, builds, predicate, {probe, build, overlap}, n, m);
    }
    finish(out, rows);
}

extern "C" __global__ void block_per_candidate(
    Chunk chunk, Sets probes, Sets builds, Predicate predicate, Output out
) {
    __shared__ u32 held[HELD];
    __shared__ u32 held_candidate[HELD];
    __shared__ u32 sums[32];
    u64 rows = 0;
    u32 probe = chunk.probes[blockIdx.x];
    u32 n = size_of(probes, probe);
    const u32* xs = hold(tokens_of(probes, probe), n, held);
    for (u32 c = chunk.starts[blockIdx.x]; c < chunk.starts[blockIdx.x + 1]; c++) {
        u32 build = chunk.candidates[c];
        u32 m = size_of(builds, build);
        // No thread reads the previous candidate any more: its sums have been added.
        const u32* ys = hold(tokens_of(builds, build), m, held_candidate);
        u32 share = (n + m + blockDim.x - 1) / blockDim.x;
        u32 from = min(threadIdx.x * share, n + m), to = min(from + share, n + m);
        u32 common = merge_between(xs, n, ys, m, from, to).overlap;
        for (int step = 16; step > 0; step /= 2) common += __shfl_xor_sync(~0u, common, step);
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = common;
        __syncthreads();
        if (threadIdx.x == 0) {
            u32 overlap = 0;
            for (u32 w = 0; w < blockDim.x / 32; w++) overlap += sums[w];
            check(out, rows, probes, builds, predicate, {probe, build, overlap}, n, m);
        }
        __syncthreads();
    }
    finish(out, rows);
}
