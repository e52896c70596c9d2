// How are sets laid out on the device, and how are answers written?

#define BEFORE 0
#define NOT_LARGER 1
#define SMALLER 2
// A self-join whose build sets all come before the probes.
#define ALL_BEFORE 3

// Returns the number of a warp in its grid. There may be more than 2^32 threads, but not warps.
__device__ __forceinline__ u32 warp_number(u32 block, u32 threads, u32 thread) {
    return block * (threads / 32) + thread / 32;
}

__device__ __forceinline__ u32 warp_of_grid() {
    return warp_number(blockIdx.x, blockDim.x, threadIdx.x);
}

struct Sets {
    // The start of each set in tokens, and the end of the last.
    const u64* offsets;
    const u32* tokens;
    // The weight of each set; null if all weights are 1.
    const u32* weights;
};

__device__ __forceinline__ u32 size_of(const Sets& sets, u32 set) {
    return (u32)(sets.offsets[set + 1] - sets.offsets[set]);
}

__device__ __forceinline__ const u32* tokens_of(const Sets& sets, u32 set) {
    return sets.tokens + sets.offsets[set];
}

__device__ __forceinline__ u64 weight_of(const Sets& sets, u32 set) {
    return sets.weights == 0 ? 1 : sets.weights[set];
}

// The state that a worker and its kernels share.
struct State {
    // The number of survivors that requested space, and the position of the first request that was
    // refused.
    u32 reserved;
    u32 refused;
    u32 answered;
    // The number of survivors that warps have taken for verification.
    u32 taken;
    // The number of pairs of rows, if only that is wanted.
    u64 rows;
    // The number of list entries that were read.
    u64 walked;
    // The number of survivors whose long merge was deferred, and of those that warps have taken
    // since.
    u32 deferred;
    u32 deferred_taken;
};

// The number of steps after which an unfinished merge is deferred. A warp does it again, after the
// others.
#define STEPS 256

struct Answer {
    u32 probe;
    u32 build;
    u32 overlap;
};

// Reserves space for survivors. Returns the position of the first, or ~0 if they do not all fit.
__device__ __forceinline__ u32 reserve(State* state, u32 count, u32 capacity) {
    u32 base = atomicAdd(&state->reserved, count);
    // Positions only rise: after the first request that does not fit, no other fits.
    if (base > capacity || count > capacity - base) {
        atomicMin(&state->refused, base);
        return ~0u;
    }
    return base;
}

// Returns the number of survivors: all that requested space before the first refused request.
__device__ __forceinline__ u32 survivors_of(const State* state) {
    return min(state->reserved, state->refused);
}

// Takes the next 32 survivors for a warp to verify. Returns the first, or ~0 if all have been
// taken. The filter must have ended.
__device__ __forceinline__ u32 take_survivors(State* state) {
    u32 from = 0;
    if (threadIdx.x % 32 == 0) from = atomicAdd(&state->taken, 32);
    from = __shfl_sync(~0u, from, 0);
    return from < survivors_of(state) ? from : ~0u;
}

// Records the deferred survivors of a warp. All threads of the warp must call it.
__device__ __forceinline__ void defer_by_warp(bool deferred, u32 survivor, u32* later, State* state) {
    u32 lane = threadIdx.x % 32;
    u32 mask = __ballot_sync(~0u, deferred);
    if (mask == 0) return;
    u32 base = 0;
    if (lane == 0) base = atomicAdd(&state->deferred, __popc(mask));
    base = __shfl_sync(~0u, base, 0);
    if (deferred) later[base + __popc(mask & ((1u << lane) - 1))] = survivor;
}

// Takes the next deferred survivor for a warp. Returns ~0 if all have been taken. No more may be
// deferred.
__device__ __forceinline__ u32 take_deferred(const u32* later, State* state) {
    u32 at = 0;
    if (threadIdx.x % 32 == 0) at = atomicAdd(&state->deferred_taken, 1);
    at = __shfl_sync(~0u, at, 0);
    return at < state->deferred ? later[at] : ~0u;
}

// Writes the answers of a warp with one reservation, or counts rows if `answers` is null. All
// threads of the warp must call it.
__device__ __forceinline__ void answer_by_warp(
    bool found, Answer answer, const Sets& probes, const Sets& builds, Answer* answers, State* state
) {
    u32 lane = threadIdx.x % 32;
    u32 mask = __ballot_sync(~0u, found);
    if (mask == 0) return;
    if (answers == 0) {
        u64 rows = found ? weight_of(probes, answer.probe) * weight_of(builds, answer.build) : 0;
        for (int step = 16; step > 0; step /= 2) rows += __shfl_xor_sync(~0u, rows, step);
        if (lane == 0) atomicAdd(&state->rows, rows);
        return;
    }
    u32 base = 0;
    if (lane == 0) base = atomicAdd(&state->answered, __popc(mask));
    base = __shfl_sync(~0u, base, 0);
    if (found) answers[base + __popc(mask & ((1u << lane) - 1))] = answer;
}

struct Merged {
    u32 overlap;
    // The position of the first common token in xs.
    u32 first;
    // Whether the merge stopped before its end.
    bool unfinished;
};

#define ANYWHERE (~0u)

// Returns the overlap of two ascending lists, or 0 as soon as the overlap cannot reach `needed` or
// the first common token is not at `where`. Stops after `steps` steps.
__device__ __forceinline__ Merged merge(
    const u32* xs, u32 n, const u32* ys, u32 m, int needed, u32 where = ANYWHERE, u32 steps = ~0u
) {
    Merged merged = {0, 0, false};
    // The number of tokens of each list that may still lack a partner.
    int slack_n = (int)n - needed, slack_m = (int)m - needed;
    if ((slack_n | slack_m) < 0) return merged;
    u32 i = 0, j = 0;
    u32 x = xs[0], y = ys[0];
    for (u32 step = 0; step < steps; step++) {
        bool x_on = x <= y, y_on = y <= x;
        bool elsewhere = false;
        if (x_on && y_on) {
            if (merged.overlap == 0) {
                merged.first = i;
                elsewhere = where != ANYWHERE && where != i;
            }
            merged.overlap++;
        }
        slack_n -= x_on && !y_on;
        slack_m -= y_on && !x_on;
        if ((slack_n | slack_m) < 0 || elsewhere) {
            merged.overlap = 0;
            return merged;
        }
        if (x_on) {
            if (++i == n) return merged;
            x = xs[i];
        }
        if (y_on) {
            if (++j == m) return merged;
            y = ys[j];
        }
    }
    merged.unfinished = true;
    return merged;
}

// Returns where the path of a merge crosses the diagonal i + j = at: the number of xs before it. Of
// two equal tokens the x comes first.
__device__ __forceinline__ u32 crossing(const u32* xs, u32 n, const u32* ys, u32 m, u32 at) {
    u32 low = at > m ? at - m : 0, high = min(at, n);
    while (low < high) {
        u32 i = (low + high) / 2;
        if (xs[i] <= ys[at - 1 - i]) low = i + 1; else high = i;
    }
    return low;
}

// Returns the result of a merge between two diagonals.
__device__ __forceinline__ Merged merge_between(
    const u32* xs, u32 n, const u32* ys, u32 m, u32 from, u32 to
) {
    Merged merged = {0, 0, false};
    u32 i = crossing(xs, n, ys, m, from), i_end = crossing(xs, n, ys, m, to);
    u32 j = from - i, j_end = to - i_end;
    // Two equal tokens are counted when the path reaches the y; the x came just before.
    while (i < i_end || j < j_end) {
        if (j == j_end || (i < i_end && xs[i] <= ys[j])) {
            i++;
        } else {
            if (i > 0 && xs[i - 1] == ys[j]) {
                if (merged.overlap == 0) merged.first = i - 1;
                merged.overlap++;
            }
            j++;
        }
    }
    return merged;
}

// The number of merge steps of each thread of a warp at a time: odd, so that threads rarely read
// the same bank of shared memory. And the number of tokens of each list in shared memory.
#define STRIDE 15
#define HELD_BY_WARP (32 * STRIDE)

// The number of warps in a block that verifies.
#define VERIFYING_WARPS 4

// Returns the overlap of two ascending lists that are not empty, computed by a warp; 0 as soon as
// it cannot reach `needed`. The warp repeatedly copies the tokens that the next steps may meet to
// shared memory, and each thread does an equal part of the steps.
__device__ __forceinline__ Merged merge_by_warp(
    const u32* xs, u32 n, const u32* ys, u32 m, int needed
) {
    // The tokens: with one more before and after those of xs, and one more after those of ys.
    __shared__ u32 held[VERIFYING_WARPS][2][HELD_BY_WARP + 2];
    u32* hxs = held[threadIdx.x / 32][0] + 1;
    u32* hys = held[threadIdx.x / 32][1];
    u32 lane = threadIdx.x % 32;
    u32 first = ~0u, overlap = 0;
    u32 i = 0, j = 0;
    while (i < n && j < m) {
        u32 x_count = min(n - i, HELD_BY_WARP), y_count = min(m - j, HELD_BY_WARP);
        for (u32 at = lane; at < x_count; at += 32) hxs[at] = xs[i + at];
        for (u32 at = lane; at < y_count; at += 32) hys[at] = ys[j + at];
        // No token is this large. Past the end of one list the path follows the other.
        if (lane == 0) {
            hxs[-1] = i > 0 ? xs[i - 1] : ~0u;
            hxs[x_count] = ~0u;
            hys[y_count] = ~0u;
        }
        __syncwarp();
        // No path of this many steps leaves the tokens in shared memory.
        u32 steps = min(x_count + y_count, HELD_BY_WARP);
        u32 from = min(lane * STRIDE, steps), to = min(from + STRIDE, steps);
        u32 a = crossing(hxs, x_count, hys, y_count, from), b = from - a;
        u32 before = hxs[(int)a - 1], x = hxs[a], y = hys[b];
        u32 common = 0;
        for (u32 step = from; step < to; step++) {
            // Two equal tokens are counted when the path reaches the y; the x came just before.
            if (x <= y) {
                before = x;
                x = hxs[++a];
            } else {
                if (before == y) {
                    if (first == ~0u) first = i + a - 1;
                    common++;
                }
                y = hys[++b];
            }
        }
        for (int step = 16; step > 0; step /= 2) common += __shfl_xor_sync(~0u, common, step);
        overlap += common;
        u32 taken = __shfl_sync(~0u, a, 31);
        i += taken;
        j += steps - taken;
        // Wait before the next tokens are copied, for this pair or the next.
        __syncwarp();
        // The y of the last x may still come.
        if ((int)(overlap + min(n - i + 1, m - j)) < needed) return {0, 0, false};
    }
    if (i == n && j < m && xs[n - 1] == ys[j]) {
        first = min(first, n - 1);
        overlap++;
    }
    for (int step = 16; step > 0; step /= 2) first = min(first, __shfl_xor_sync(~0u, first, step));
    return {overlap, first, false};
}
