// Which survivors are in the answer? One thread a pair compares the signatures in full precision,
// merges the two sets, stops as soon as the pair cannot reach what it needs, and decides in whole
// numbers.

struct Answer {
    u32 probe;
    u32 build;
    u32 overlap;
};

extern "C" __global__ void verify(
    const u64* probe_offsets, const u32* probe_tokens, u64 probe_base,
    const u64* build_offsets, const u32* build_tokens, u64 build_base,
    const u32* probe_signatures, const int* probe_rooms,
    const u32* build_signatures, const int* build_rooms,
    const u64* survivors, u32 count, Predicate predicate, u32 order,
    Answer* answers, u32* answered
) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    bool found = false;
    Answer answer;
    if (at < count) {
        u64 pair = survivors[at];
        answer.probe = (u32)(pair >> 32);
        answer.build = (u32)pair;
        u64 i_begin = probe_offsets[answer.probe] - probe_base;
        u64 j_begin = build_offsets[answer.build] - build_base;
        u32 n = (u32)(probe_offsets[answer.probe + 1] - probe_base - i_begin);
        u32 m = (u32)(build_offsets[answer.build + 1] - build_base - j_begin);
        const u32* xs = probe_tokens + i_begin;
        const u32* ys = build_tokens + j_begin;
        u32 i = 0, j = 0;
        const uint4* r = (const uint4*)(probe_signatures + (u64)answer.probe * WORDS);
        const uint4* s = (const uint4*)(build_signatures + (u64)answer.build * WORDS);
        int common = 0;
        #pragma unroll
        for (u32 w = 0; w < WORDS / 4; w++) {
            uint4 a = r[w], b = s[w];
            common += __popc(a.x & b.x) + __popc(a.y & b.y) + __popc(a.z & b.z) + __popc(a.w & b.w);
        }
        bool close = 32 * common + probe_rooms[answer.probe] + build_rooms[answer.build] >= 0;
        // In a join of two, a set meets no larger one, or only smaller ones.
        close = close && (order == BEFORE || m < n || (order == NOT_LARGER && m == n));
        int missing = least_overlap(predicate, n, m);
        // How many tokens of each may still go without a partner.
        int slack_n = (int)n - missing, slack_m = (int)m - missing;
        u32 overlap = 0;
        if (close && (slack_n | slack_m) >= 0) {
            u32 x = xs[0], y = ys[0];
            while (true) {
                bool x_on = x <= y, y_on = y <= x;
                overlap += x_on && y_on;
                slack_n -= x_on && !y_on;
                slack_m -= y_on && !x_on;
                if ((slack_n | slack_m) < 0) break;
                if (x_on) {
                    if (++i == n) break;
                    x = xs[i];
                }
                if (y_on) {
                    if (++j == m) break;
                    y = ys[j];
                }
            }
        }
        found = close && (slack_n | slack_m) >= 0 && accepts(predicate, n, m, overlap);
        answer.overlap = overlap;
    }
    // One reservation a warp.
    u32 lane = threadIdx.x % 32;
    u32 mask = __ballot_sync(~0u, found);
    u32 base = 0;
    if (lane == 0 && mask != 0) base = atomicAdd(answered, __popc(mask));
    base = __shfl_sync(~0u, base, 0);
    if (found) answers[base + __popc(mask & ((1u << lane) - 1))] = answer;
}
