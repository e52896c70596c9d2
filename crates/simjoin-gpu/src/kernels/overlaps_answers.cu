// ---- How are the counts of a tile used?

// Sixteen bytes of counts: those of a row from `first` on, a multiple of VECTOR.
#define VECTOR (16 / WIDTH)

struct Vector {
    Count counts[VECTOR];
};

__device__ __forceinline__ Vector load(const Count* from) {
    Vector vector;
    *(uint4*)vector.counts = *(const uint4*)from;
    return vector;
}

// Finds the pairs of a tile that are in the answer: those whose overlap is positive and satisfies the predicate. One
// block per row. Without `answers` it counts them for each row, and the pairs of input rows that they represent.
// Otherwise it writes them from `places` on, by column.
extern "C" __global__ void __launch_bounds__(THREADS) select(
    Sets rows, Sets columns, Tile tile, u32 first_row, Predicate predicate, u64* places,
    Answer* answers, u64* stand_for
) {
    __shared__ u32 sums[WARPS];
    u32 row = first_row + blockIdx.x;
    const Count* counts = tile.counts + row * tile.stride;
    u32 n = size_of(rows, tile.first + row);
    u32 limit = columns_of(tile, row), self = itself(tile, row);
    bool positive = predicate.measure == OVERLAP && predicate.p <= predicate.q;
    u64 place = answers != 0 ? places[row] - places[first_row] : 0;
    u64 total = 0, weight = 0;
    for (u32 chunk = 0; chunk < limit; chunk += THREADS * VECTOR) {
        u32 first = chunk + threadIdx.x * VECTOR;
        u32 hits = 0;
        Vector vector;
        if (first < limit) {
            vector = load(counts + first);
            #pragma unroll
            for (u32 i = 0; i < VECTOR; i++) {
                u32 overlap = vector.counts[i];
                if (overlap == 0 || first + i >= limit || first + i == self) continue;
                bool good = positive;
                if (!positive) {
                    u32 m = size_of(columns, first + i);
                    good = (int)overlap >= least_overlap(predicate, n, m) &&
                        accepts(predicate, n, m, overlap);
                }
                hits |= (u32)good << i;
                if (good && answers == 0) weight += weight_of(columns, first + i);
            }
        }
        if (answers == 0) {
            total += __popc(hits);
        } else {
            u32 all;
            u64 at = place + sum_before(__popc(hits), sums, all);
            #pragma unroll
            for (u32 i = 0; i < VECTOR; i++) {
                if (hits >> i & 1) {
                    answers[at++] = {tile.first + row, first + i, (u32)vector.counts[i]};
                }
            }
            place += all;
        }
    }
    if (answers == 0) {
        u32 all;
        sum_before((u32)total, sums, all);
        if (threadIdx.x == 0) places[row] = all;
        #pragma unroll
        for (int step = 16; step > 0; step /= 2) weight += __shfl_xor_sync(~0u, weight, step);
        if (lane_of() == 0 && weight > 0) {
            atomicAdd(stand_for, weight * weight_of(rows, tile.first + row));
        }
    }
}

// Finds the `most` best columns of each row: those of the largest positive overlap, and of equal ones those of the
// smallest rank. One block per row, which examines one byte of (overlap, rank) after the other, the highest first.
// Writes columns in ascending order, and their number to `found`.
extern "C" __global__ void __launch_bounds__(THREADS) top(
    Tile tile, const u32* ranks, u32 most, Answer* answers, u32* found
) {
    __shared__ u32 bins[256];
    __shared__ u32 sums[WARPS];
    __shared__ u32 chosen, left;
    u32 row = blockIdx.x;
    const Count* counts = tile.counts + row * tile.stride;
    u32 limit = columns_of(tile, row), self = itself(tile, row);
    // Larger is better.
    auto key_of = [&](u32 overlap, u32 column) {
        return (u64)overlap << 32 | (u32)~(ranks == 0 ? column : ranks[column]);
    };
    // All selected keys are at least this one.
    u64 least = 0;
    u32 wanted = most;
    // The bits below this are not yet known of the smallest selected key.
    int shift = 32 + 8 * WIDTH;
    bool all_taken = false;
    while (shift > 0) {
        shift -= 8;
        for (u32 bin = threadIdx.x; bin < 256; bin += THREADS) bins[bin] = 0;
        __syncthreads();
        for (u32 first = threadIdx.x * VECTOR; first < limit; first += THREADS * VECTOR) {
            Vector vector = load(counts + first);
            #pragma unroll
            for (u32 i = 0; i < VECTOR; i++) {
                u32 overlap = vector.counts[i];
                if (overlap == 0 || first + i >= limit || first + i == self) continue;
                u64 key = key_of(overlap, first + i);
                bool same = shift + 8 >= 64 || key >> (shift + 8) == least >> (shift + 8);
                if (same) atomicAdd(&bins[key >> shift & 255], 1);
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            u32 bin = 256, sum = 0;
            while (bin > 0 && sum < wanted) sum += bins[--bin];
            chosen = bin;
            // Keys above the chosen bin are selected, and `left` keys of the bin itself.
            left = wanted - (sum - bins[bin]);
            // If there are at most as many as wanted, the whole bin is selected.
            if (sum <= wanted) left = ~0u;
        }
        __syncthreads();
        least |= (u64)chosen << shift;
        all_taken = left == ~0u;
        wanted = left;
        __syncthreads();
        if (all_taken) break;
    }
    u64 place = (u64)row * most;
    u32 total = 0;
    for (u32 chunk = 0; chunk < limit; chunk += THREADS * VECTOR) {
        u32 first = chunk + threadIdx.x * VECTOR;
        u32 hits = 0;
        Vector vector;
        if (first < limit) {
            vector = load(counts + first);
            #pragma unroll
            for (u32 i = 0; i < VECTOR; i++) {
                u32 overlap = vector.counts[i];
                if (overlap == 0 || first + i >= limit || first + i == self) continue;
                hits |= (u32)(key_of(overlap, first + i) >= least) << i;
            }
        }
        u32 all;
        u64 at = place + total + sum_before(__popc(hits), sums, all);
        #pragma unroll
        for (u32 i = 0; i < VECTOR; i++) {
            // Ranks that are not all different may select too many.
            if ((hits >> i & 1) && at < place + most) {
                answers[at++] = {tile.first + row, first + i, (u32)vector.counts[i]};
            }
        }
        total += all;
    }
    if (threadIdx.x == 0) found[row] = min(total, most);
}
