// Which signatures are close? Compares all pairs of a tile on binary tensor cores.
//
// A signature has BITS bits, and every token of a set toggles one. Let ham be the number of bits in
// which two signatures differ. Then |r n s| <= (|r| + |s| - ham) / 2, and ham = pop(r) + pop(s) - 2
// pop(r & s). A pair in the answer has ham <= probe_share(r) + build_share(s) (see Bounds), hence
//
//     32 pop(r & s) + room(r) + room(s) >= 0    with    room(x) = 16 share(x) - 16 pop(x)
//
// in units of 1/16 bit. pop(r & s) of a whole tile is a product of bit matrices. The filter adds
// floor((room(r) + turn) / 32) + ceil((room(s) - turn) / 32). No pair of the answer has a negative
// sum, whatever the turn. pop(s) is even or odd as the size of s is, so room(s) modulo 32 depends
// on the size alone. The turn is that of the first set of a range: then rounding loses nothing as
// long as the sizes are equal, which is usual. `verify` compares the signatures of survivors again,
// in full precision.
//
// A block takes ROWS probes, an equal part for each warp, which keeps them in registers. It goes
// through ranges of COLUMNS build sets, shared by all warps, in steps of STEP. Survivors are
// written to a buffer. If they do not fit, each warp notes the step at which it stopped, and is
// started again from there once the buffer has been emptied.
//
// If tensor cores do not multiply bits, TENSOR is 0: each thread takes one probe and counts common
// bits word by word.

#define WORDS (BITS / 32)
#define CHUNKS (BITS / 256)
#define WARPS (THREADS / 32)
#define WARP_ROWS (ROWS / WARPS)
#define STAGES 2
#define NEVER (-(1 << 30))
#define DONE 0xfffffffeu

struct Item {
    // The first probe, and the range of build ranges, in units of COLUMNS.
    u32 row;
    u32 from;
    u32 to;
};

// Makes the signature of each set, and its room as a probe and as a build set. One warp per set.
// Shares are given for each size class.
extern "C" __global__ void sign(
    Sets of, const u32* classes, u32 sets, u32 padded, u32 top, const int* probe_shares,
    const int* build_shares,
    u32* signatures, int* probe_rooms, int* build_rooms, int* rough_rooms
) {
    __shared__ u32 shared[WARPS][WORDS];
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u32 set = blockIdx.x * WARPS + warp;
    if (set >= padded) return;
    u32* bits = shared[warp];
    for (u32 w = lane; w < WORDS; w += 32) bits[w] = 0;
    __syncwarp();
    if (set < sets) {
        const u32* tokens = tokens_of(of, set);
        u32 size = size_of(of, set);
        for (u32 at = lane; at < size; at += 32) {
            u32 bit = (top - tokens[at]) % BITS;
            atomicXor(&bits[bit / 32], 1u << (bit % 32));
        }
    }
    __syncwarp();
    int pop = 0;
    for (u32 w = lane; w < WORDS; w += 32) {
        u32 word = bits[w];
        signatures[(u64)set * WORDS + w] = word;
        pop += __popc(word);
    }
    for (int step = 16; step > 0; step /= 2) pop += __shfl_xor_sync(~0u, pop, step);
    if (lane == 0) {
        bool real = set < sets;
        int room = real ? build_shares[classes[set]] - 16 * pop : NEVER;
        u32 first = set / COLUMNS * COLUMNS;
        int turn = 0;
        if (first < sets) turn = (build_shares[classes[first]] - 16 * (int)size_of(of, first)) & 31;
        probe_rooms[set] = real ? probe_shares[classes[set]] - 16 * pop : NEVER;
        build_rooms[set] = room;
        rough_rooms[set] = -((turn - room) >> 5);
    }
}

#if TENSOR
// Adds the number of common bits of 16 rows and 8 columns.
__device__ __forceinline__ void multiply(int (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif

// Returns the place of the 16-byte `piece` of a row in shared memory. A row has 2 * CHUNKS pieces.
// They are permuted so that the same piece of eight consecutive rows lies in different banks.
__device__ __forceinline__ u32 place(u32 row, u32 piece) {
    const u32 pieces = 2 * CHUNKS;
    // 8 / pieces rows fill all 32 banks; the next rows share their banks.
    u32 turn = pieces >= 8 ? row % 8 : (row / (8 / pieces)) % pieces;
    return (row * pieces + (piece ^ turn)) * 16;
}

// Starts copying ROWS_TO_COPY signatures to shared memory.
template <u32 ROWS_TO_COPY>
__device__ __forceinline__ void fetch(u32 to, const u32* signatures, u64 first) {
    const u32 pieces = 2 * CHUNKS;
    const char* from = (const char*)(signatures + first * WORDS);
    for (u32 at = threadIdx.x; at < ROWS_TO_COPY * pieces; at += THREADS) {
        copy_16(to + place(at / pieces, at % pieces), from + (u64)at * 16);
    }
}

// Starts copying the range's signatures and rooms to a stage.
__device__ __forceinline__ void fetch_range(
    u32 to, const u32* builds, const int* rough_rooms, u32 range
) {
    fetch<COLUMNS>(to, builds, (u64)range * COLUMNS);
    u32 rooms = to + COLUMNS * (BITS / 8);
    for (u32 at = threadIdx.x; at < COLUMNS / 4; at += THREADS) {
        copy_16(rooms + at * 16, rough_rooms + range * COLUMNS + at * 4);
    }
}

#define STAGE_BYTES (COLUMNS * (BITS / 8) + COLUMNS * 4)

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) filter(
    const u32* probes, const int* probe_rooms,
    const u32* builds, const int* build_rooms, const int* rough_rooms,
    const Item* items, u32* progress, u32 order, u32 row_end, u32 column_begin, u32 column_end,
    u64* survivors, u32 capacity, State* state
) {
    extern __shared__ __align__(128) char memory[];
    // Blocks extend past the wanted sets. In a self-join only sets before the probe are wanted.
    auto wanted = [=](u32 row, u32 column) {
        bool inside = row < row_end && column >= column_begin && column < column_end;
        return inside && (order != BEFORE || column < row);
    };
#if TENSOR
    const u32 TALL = WARP_ROWS / 16, BROAD = STEP / 8;
    // The number of words for the close pairs of a thread in a step, one bit each.
    const u32 CLOSE = TALL * BROAD / 8;
#else
    const u32 CLOSE = STEP / 32;
#endif
    u32 stages_at = shared_address(memory);
    Item item = items[blockIdx.x];
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#if TENSOR
    u32 group = lane / 4, quad = lane % 4;
#endif
    u32 warp_row = warp * WARP_ROWS;
    u32* mine = &progress[blockIdx.x * WARPS + warp];
    u32 resume = *mine;
    bool stopped = false;
    // The first unfinished step of any warp of this block.
    u32 first = DONE;
    for (u32 w = 0; w < WARPS; w++) first = min(first, progress[blockIdx.x * WARPS + w]);
    u32 from = max(item.from, first / (COLUMNS / STEP));
    if (from >= item.to) return;

    // The probes pass through the memory of the ranges.
    fetch<ROWS>(stages_at, probes, item.row);
    end_group();
    await_groups<0>();
    __syncthreads();
#if TENSOR
    u32 a[CHUNKS][TALL][4];
    #pragma unroll
    for (u32 chunk = 0; chunk < CHUNKS; chunk++) {
        #pragma unroll
        for (u32 i = 0; i < TALL; i++) {
            // Rows 0-7 and 8-15 of the first half of the chunk, then of the second.
            u32 row = warp_row + i * 16 + lane % 16;
            load_matrices(stages_at + place(row, 2 * chunk + lane / 16), a[chunk][i]);
        }
    }
#else
    u32 a[WORDS];
    #pragma unroll
    for (u32 piece = 0; piece < WORDS / 4; piece++) {
        *(uint4*)&a[4 * piece] = *(const uint4*)(memory + place(warp_row + lane, piece));
    }
#endif
    __syncthreads();

    for (u32 ahead = 0; ahead < STAGES - 1; ahead++) {
        if (from + ahead < item.to) {
            fetch_range(stages_at + ahead * STAGE_BYTES, builds, rough_rooms, from + ahead);
        }
        end_group();
    }
    for (u32 range = from; range < item.to; range++) {
        // The turn of the first set, as in `sign`.
        int turn = build_rooms[range * COLUMNS] & 31;
#if TENSOR
        int row_room[2 * TALL];
        #pragma unroll
        for (u32 i = 0; i < 2 * TALL; i++) {
            row_room[i] = (probe_rooms[item.row + warp_row + i * 8 + group] + turn) >> 5;
        }
#else
        int row_room = (probe_rooms[item.row + warp_row + lane] + turn) >> 5;
#endif
        await_groups<STAGES - 2>();
        // All warps stop together if one of them found no space.
        if (__syncthreads_or(stopped)) {
            u32 here = range * (COLUMNS / STEP);
            if (lane == 0 && resume < here) *mine = here;
            await_groups<0>();
            return;
        }
        u32 next = range + STAGES - 1;
        if (next < item.to) {
            fetch_range(stages_at + (next - from) % STAGES * STAGE_BYTES, builds, rough_rooms, next);
        }
        end_group();

        u32 stage = (range - from) % STAGES * STAGE_BYTES;
#if TENSOR
        u32 columns = stages_at + stage;
#endif
        const int* rooms = (const int*)(memory + stage + COLUMNS * (BITS / 8));
        for (u32 step = 0; step < COLUMNS; step += STEP) {
#if TENSOR
            int sums[TALL][BROAD][4] = {};
            // The largest sum of each row, without the row's room.
            int best[2 * TALL];
            #pragma unroll
            for (u32 i = 0; i < 2 * TALL; i++) best[i] = NEVER;
            #pragma unroll
            for (u32 j = 0; j < BROAD; j += 2) {
                #pragma unroll
                for (u32 chunk = 0; chunk < CHUNKS; chunk++) {
                    // Both halves of eight columns, then of the next eight.
                    u32 b[4];
                    u32 column = step + j * 8 + lane / 16 * 8 + lane % 8;
                    load_matrices(columns + place(column, 2 * chunk + lane / 8 % 2), b);
                    #pragma unroll
                    for (u32 i = 0; i < TALL; i++) {
                        multiply(sums[i][j], a[chunk][i], b[0], b[1]);
                        multiply(sums[i][j + 1], a[chunk][i], b[2], b[3]);
                    }
                }
                #pragma unroll
                for (u32 k = j; k < j + 2; k++) {
                    int2 room = *(const int2*)&rooms[step + k * 8 + quad * 2];
                    #pragma unroll
                    for (u32 i = 0; i < TALL; i++) {
                        best[2 * i] = __viaddmax_s32(sums[i][k][0], room.x, best[2 * i]);
                        best[2 * i] = __viaddmax_s32(sums[i][k][1], room.y, best[2 * i]);
                        best[2 * i + 1] = __viaddmax_s32(sums[i][k][2], room.x, best[2 * i + 1]);
                        best[2 * i + 1] = __viaddmax_s32(sums[i][k][3], room.y, best[2 * i + 1]);
                    }
                }
            }
            // The sign bit of this is 0 if any sum with both rooms is not negative.
            int all_signs = -1;
            #pragma unroll
            for (u32 i = 0; i < 2 * TALL; i++) all_signs &= best[i] + row_room[i];
#else
            u32 close[CLOSE] = {0};
            for (u32 j = 0; j < STEP; j++) {
                u32 column = step + j;
                int sum = row_room + rooms[column];
                #pragma unroll
                for (u32 piece = 0; piece < WORDS / 4; piece++) {
                    // The same address for all threads of the warp.
                    uint4 b = *(const uint4*)(memory + stage + place(column, piece));
                    sum += __popc(a[4 * piece] & b.x) + __popc(a[4 * piece + 1] & b.y);
                    sum += __popc(a[4 * piece + 2] & b.z) + __popc(a[4 * piece + 3] & b.w);
                }
                bool survives = sum >= 0 &&
                    wanted(item.row + warp_row + lane, range * COLUMNS + column);
                close[j / 32] |= (u32)survives << (j % 32);
            }
            u32 any = 0;
            #pragma unroll
            for (u32 word = 0; word < CLOSE; word++) any |= close[word];
            int all_signs = any != 0 ? 0 : -1;
#endif
            u32 place_of = range * (COLUMNS / STEP) + step / STEP;
            if (!__any_sync(~0u, all_signs >= 0) || place_of < resume) continue;

            // Which pairs are close? One bit a sum.
#if TENSOR
            u32 first_row = item.row + warp_row + group;
            u32 first_column = range * COLUMNS + step + quad * 2;
#endif
            u32 count = 0;
#if TENSOR
            u32 close[CLOSE];
            #pragma unroll
            for (u32 word = 0; word < CLOSE; word++) {
                close[word] = 0;
                #pragma unroll
                for (u32 tile = 0; tile < 8; tile++) {
                    u32 i = (word * 8 + tile) / BROAD, j = (word * 8 + tile) % BROAD;
                    int2 room = *(const int2*)&rooms[step + j * 8 + quad * 2];
                    #pragma unroll
                    for (u32 k = 0; k < 4; k++) {
                        u32 row = first_row + i * 16 + k / 2 * 8;
                        u32 column = first_column + j * 8 + k % 2;
                        int both = row_room[2 * i + k / 2] + (k % 2 == 0 ? room.x : room.y);
                        bool survives = sums[i][j][k] + both >= 0 && wanted(row, column);
                        close[word] |= (u32)survives << (tile * 4 + k);
                    }
                }
            }
#endif
            #pragma unroll
            for (u32 word = 0; word < CLOSE; word++) count += __popc(close[word]);
            u32 rank = count;
            #pragma unroll
            for (u32 distance = 1; distance < 32; distance *= 2) {
                u32 lower = __shfl_up_sync(~0u, rank, distance);
                if (lane >= distance) rank += lower;
            }
            u32 all = __shfl_sync(~0u, rank, 31);
            if (all == 0) continue;
            u32 base = 0;
            if (lane == 31) base = reserve(state, all, capacity);
            base = __shfl_sync(~0u, base, 31);
            if (base == ~0u) {
                if (lane == 0) *mine = place_of;
                resume = ~0u;
                stopped = true;
                break;
            }
            u64* out = survivors + base + rank - count;
            #pragma unroll
            for (u32 word = 0; word < CLOSE; word++) {
                while (close[word] != 0) {
                    u32 bit = __ffs(close[word]) - 1;
                    close[word] &= close[word] - 1;
#if TENSOR
                    u32 tile = word * 8 + bit / 4, k = bit % 4;
                    u32 row = first_row + tile / BROAD * 16 + k / 2 * 8;
                    u32 column = first_column + tile % BROAD * 8 + k % 2;
#else
                    u32 row = item.row + warp_row + lane;
                    u32 column = range * COLUMNS + step + word * 32 + bit;
#endif
                    *out++ = (u64)row << 32 | column;
                }
            }
        }
    }
    if (lane == 0 && resume != ~0u) *mine = DONE;
}

// Which survivors are in the answer? Warps take 32 of them at a time. Each thread compares the
// signatures of a pair in full precision, merges the two sets, and decides in whole numbers. If
// every token has its own bit (exact), the common bits are the overlap and nothing is merged. Long
// merges are deferred.
extern "C" __global__ void verify(
    Sets probes, Sets builds, const u32* probe_signatures, const int* probe_rooms,
    const u32* build_signatures, const int* build_rooms, const u64* survivors, u32* later,
    Predicate predicate, u32 order, u32 exact, Answer* answers, State* state
) {
    u32 count = survivors_of(state);
    for (u32 from; (from = take_survivors(state)) != ~0u;) {
        u32 at = from + threadIdx.x % 32;
        bool found = false, deferred = false;
        Answer answer = {0, 0, 0};
        if (at < count) {
            u64 pair = survivors[at];
            answer.probe = (u32)(pair >> 32);
            answer.build = (u32)pair;
            u32 n = size_of(probes, answer.probe), m = size_of(builds, answer.build);
            const uint4* r = (const uint4*)(probe_signatures + (u64)answer.probe * WORDS);
            const uint4* s = (const uint4*)(build_signatures + (u64)answer.build * WORDS);
            u32 common = 0;
            #pragma unroll
            for (u32 w = 0; w < WORDS / 4; w++) {
                uint4 a = r[w], b = s[w];
                common += __popc(a.x & b.x) + __popc(a.y & b.y) + __popc(a.z & b.z) + __popc(a.w & b.w);
            }
            int room = probe_rooms[answer.probe] + build_rooms[answer.build];
            bool close = 32 * (int)common + room >= 0;
            // In a join of two collections, a probe meets no larger set, or only smaller ones.
            bool may_be_equal = order != SMALLER;
            bool may_be_larger = order == BEFORE || order == ALL_BEFORE;
            close = close && (m < n || (may_be_equal && m == n) || may_be_larger);
            if (close && exact) {
                answer.overlap = common;
            } else if (close) {
                int needed = least_overlap(predicate, n, m);
                const u32* xs = tokens_of(probes, answer.probe);
                const u32* ys = tokens_of(builds, answer.build);
                Merged merged = merge(xs, n, ys, m, needed, ANYWHERE, STEPS);
                answer.overlap = merged.overlap;
                deferred = merged.unfinished;
            }
            found = !deferred && answer.overlap > 0 && accepts(predicate, n, m, answer.overlap);
        }
        defer_by_warp(deferred, at, later, state);
        answer_by_warp(found, answer, probes, builds, answers, state);
    }
}

// Which deferred survivors are in the answer? One warp per pair.
extern "C" __global__ void verify_deferred(
    Sets probes, Sets builds, const u64* survivors, const u32* later, Predicate predicate,
    Answer* answers, State* state
) {
    for (u32 at; (at = take_deferred(later, state)) != ~0u;) {
        u64 pair = survivors[at];
        Answer answer = {(u32)(pair >> 32), (u32)pair, 0};
        u32 n = size_of(probes, answer.probe), m = size_of(builds, answer.build);
        const u32* xs = tokens_of(probes, answer.probe);
        const u32* ys = tokens_of(builds, answer.build);
        answer.overlap = merge_by_warp(xs, n, ys, m, least_overlap(predicate, n, m)).overlap;
        bool found = answer.overlap > 0 && accepts(predicate, n, m, answer.overlap);
        answer_by_warp(found && threadIdx.x % 32 == 0, answer, probes, builds, answers, state);
    }
}
