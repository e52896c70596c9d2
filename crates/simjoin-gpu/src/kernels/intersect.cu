// Which elements do two ascending arrays share?
//
// Each kernel comes in two forms. The first counts: each block leaves the number of its common elements,
// and adds it to the total. The second, given where the elements of each block begin, writes them down,
// ascending. No element is found twice: a block owns its elements of `a`, or a range of values.
//
// `path` and `path_hash` cut the merge of the two arrays into equal parts (merge path: Green and others);
// of two equal elements that of `a` comes first. A block takes SPAN elements of the merge, TILE at a time.
// An element of `a` is common if its partner comes next in `b`: at the end of a tile that is one beyond it.

#define THREADS 256
#define WARPS (THREADS / 32)
// Elements of the merge for each thread; odd, so that threads begin their search in different banks.
#define EACH 15
#define TILE (THREADS * EACH)
#define TILES 8
#define SPAN (TILES * TILE)
// What a tile may hold beside its elements: up to three before each side, and three and one beyond.
#define HELD (TILE + 20)
// Slots of the hash table: the shorter side of a tile has at most half a tile and one.
#define SLOTS 4096
#define SLOT_BITS 12
// Elements of the shorter array in a block of the binary search, and of the longer one that are cached.
#define PART 2048
#define CACHE 4096

struct Array {
    const u32* at;
    u64 size;
};

// What becomes of common elements.
struct Found {
    u64* total;
    // Of each block: how many there are, or where the first of them is to be.
    u64* blocks;
    u32* out;
};

__device__ __forceinline__ u32 lane_of() {
    return threadIdx.x % 32;
}

// The sum of the values of the threads before this one in the block, and of all. All threads come here.
__device__ __forceinline__ u32 sum_before(u32 value, u32* sums, u32& all) {
    u32 sum = value;
    #pragma unroll
    for (u32 distance = 1; distance < 32; distance *= 2) {
        u32 lower = __shfl_up_sync(~0u, sum, distance);
        if (lane_of() >= distance) sum += lower;
    }
    __syncthreads();
    if (lane_of() == 31) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    u32 before = 0;
    all = 0;
    #pragma unroll
    for (u32 warp = 0; warp < WARPS; warp++) {
        if (warp < threadIdx.x / 32) before += sums[warp];
        all += sums[warp];
    }
    return before + sum - value;
}

// Leaves what a block has counted.
__device__ __forceinline__ void leave_count(u32 count, u32* sums, const Found& found) {
    u32 all;
    sum_before(count, sums, all);
    if (threadIdx.x == 0) {
        found.blocks[blockIdx.x] = all;
        if (all > 0) atomicAdd(found.total, (u64)all);
    }
}

// How many places from `low` on satisfy `before`, which holds for the first ones up to `high` and for no
// other. A warp tries 32 of them at once.
template <class Before>
__device__ __forceinline__ u64 partition_point(u64 low, u64 high, Before before) {
    while (low < high) {
        u64 step = (high - low + 32) / 33;
        u64 tried = low + (lane_of() + 1) * step - 1;
        u32 mask = __ballot_sync(~0u, tried < high && before(tried));
        u32 count = __popc(mask);
        u64 upper = low + (count + 1) * step - 1;
        low += count * step;
        if (count < 32 && upper < high) high = upper;
    }
    return low;
}

// The elements of `a` among the first `diagonal` of the merge; at least `low` and at most `high`.
__device__ __forceinline__ u64 cross(
    const Array& a, const Array& b, u64 diagonal, u64 low, u64 high
) {
    return partition_point(low, high, [&](u64 i) { return a.at[i] <= b.at[diagonal - 1 - i]; });
}

// The first place of an array from which on elements are at least `value`.
__device__ __forceinline__ u64 first_at_least(const Array& array, u64 value) {
    return partition_point(0, array.size, [&](u64 i) { return array.at[i] < value; });
}

// Where the tiles of a block begin and end in `a`.
__device__ __forceinline__ void split(const Array& a, const Array& b, u64 (&splits)[TILES + 1]) {
    u32 warp = threadIdx.x / 32;
    u64 all = a.size + b.size;
    u64 first = (u64)blockIdx.x * SPAN, last = min(first + SPAN, all);
    if (warp < 2) {
        u64 diagonal = warp == 0 ? first : last;
        u64 low = diagonal > b.size ? diagonal - b.size : 0, high = min(diagonal, a.size);
        u64 at = cross(a, b, diagonal, low, high);
        if (lane_of() == 0) splits[warp * TILES] = at;
    }
    __syncthreads();
    u64 begin = splits[0], end = splits[TILES];
    for (u32 tile = 1 + warp; tile < TILES; tile += WARPS) {
        u64 diagonal = min(first + tile * TILE, last);
        u64 before = first - begin, after = last - end;
        u64 low = max(begin, diagonal > after ? diagonal - after : 0);
        u64 high = min(end, diagonal - before);
        u64 at = cross(a, b, diagonal, low, high);
        if (lane_of() == 0) splits[tile] = at;
    }
    __syncthreads();
}

// Copies four elements to shared memory; fewer where the array ends.
__device__ __forceinline__ void copy_four(u32* to, const Array& from, u64 at) {
    if (at + 4 <= from.size) {
#if __CUDA_ARCH__ >= 800
        u32 there = (u32)__cvta_generic_to_shared(to);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(there), "l"(from.at + at)
                     : "memory");
#else
        *(uint4*)to = *(const uint4*)(from.at + at);
#endif
    } else {
        for (u32 i = 0; at + i < from.size; i++) to[i] = from.at[at + i];
    }
}

__device__ __forceinline__ void await_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
#endif
    __syncthreads();
}

// The elements of an array from `begin` to `end` that `hit`: counted, or written in order. Four
// neighbours for each thread.
template <bool WRITE, class Hit>
__device__ __forceinline__ u32 test_all(
    const Array& array, u64 begin, u64 end, Hit hit, u32* sums, u32* out, u64& base
) {
    u32 count = 0;
    for (u64 chunk = begin / 4 * 4; chunk < end; chunk += 4 * THREADS) {
        u64 first = chunk + 4 * threadIdx.x;
        u32 values[4] = {0, 0, 0, 0};
        if (first + 4 <= array.size) {
            *(uint4*)values = *(const uint4*)(array.at + first);
        } else {
            #pragma unroll
            for (u32 i = 0; i < 4; i++) {
                if (first + i < array.size) values[i] = array.at[first + i];
            }
        }
        u32 hits = 0;
        #pragma unroll
        for (u32 i = 0; i < 4; i++) {
            bool inside = first + i >= begin && first + i < end;
            hits |= (u32)(inside && hit(values[i])) << i;
        }
        if (WRITE) {
            u32 all;
            u64 place = base + sum_before(__popc(hits), sums, all);
            #pragma unroll
            for (u32 i = 0; i < 4; i++) {
                if (hits >> i & 1) out[place++] = values[i];
            }
            base += all;
        } else {
            count += __popc(hits);
        }
    }
    return count;
}

// Goes `steps` steps along the merge of `xs` and `ys`, from `i` and `j` on: how many of the elements of
// `xs` on the way are common. `n` of xs and `m` of ys are at hand.
template <bool PUT>
__device__ __forceinline__ u32 merge_steps(
    const u32* xs, u32 n, const u32* ys, u32 m, u32 i, u32 j, u32 steps, u32* out
) {
    u32 common = 0;
    u32 x = i < n ? xs[i] : 0, y = j < m ? ys[j] : 0;
    #pragma unroll
    for (u32 step = 0; step < EACH; step++) {
        if (step < steps) {
            bool with_b = j < m;
            if (!with_b || (i < n && x <= y)) {
                if (with_b && x == y) {
                    if (PUT) out[common] = x;
                    common++;
                }
                i++;
                if (i < n) x = xs[i];
            } else {
                j++;
                if (j < m) y = ys[j];
            }
        }
    }
    return common;
}

// `ip`: each thread merges EACH elements of a tile.
template <bool WRITE>
__device__ __forceinline__ void path(const Array& a, const Array& b, const Found& found) {
    __shared__ __align__(16) u32 held[HELD];
    __shared__ u64 splits[TILES + 1];
    __shared__ u32 sums[WARPS];
    split(a, b, splits);
    u64 first = (u64)blockIdx.x * SPAN, last = min(first + SPAN, a.size + b.size);
    u32 count = 0;
    u64 base = WRITE ? found.blocks[blockIdx.x] : 0;
    for (u32 tile = 0; first + tile * TILE < last; tile++) {
        u64 from = first + tile * TILE, to = min(from + TILE, last);
        u64 a_from = splits[tile], a_to = splits[tile + 1];
        u64 b_from = from - a_from, b_to = to - a_to;
        u32 n = (u32)(a_to - a_from), own = (u32)(b_to - b_from);
        // One beyond, which may be the partner of the last.
        u32 m = own + (b_to < b.size ? 1 : 0);
        u64 a_at = a_from / 4 * 4, b_at = b_from / 4 * 4;
        u32 a_fours = n == 0 ? 0 : (u32)((a_to - a_at + 3) / 4);
        u32 b_fours = m == 0 ? 0 : (u32)((b_from + m - b_at + 3) / 4);
        for (u32 four = threadIdx.x; four < a_fours + b_fours; four += THREADS) {
            if (four < a_fours) copy_four(held + 4 * four, a, a_at + 4 * four);
            else copy_four(held + 4 * four, b, b_at + 4 * (four - a_fours));
        }
        const u32* xs = held + (a_from - a_at);
        const u32* ys = held + 4 * a_fours + (b_from - b_at);
        await_copies();

        u32 all = n + own;
        u32 diagonal = min(threadIdx.x * EACH, all);
        u32 low = diagonal > own ? diagonal - own : 0, high = min(diagonal, n);
        while (low < high) {
            u32 half = (low + high) / 2;
            if (xs[half] <= ys[diagonal - 1 - half]) low = half + 1;
            else high = half;
        }
        u32 steps = min((u32)EACH, all - diagonal);
        u32 common = merge_steps<false>(xs, n, ys, m, low, diagonal - low, steps, 0);
        if (WRITE) {
            u32 in_tile;
            u64 place = base + sum_before(common, sums, in_tile);
            if (common > 0) {
                merge_steps<true>(xs, n, ys, m, low, diagonal - low, steps, found.out + place);
            }
            base += in_tile;
        } else {
            count += common;
        }
        __syncthreads();
    }
    if (!WRITE) leave_count(count, sums, found);
}

// A number that is not among `count` ascending ones, of which there are fewer than numbers.
__device__ __forceinline__ u32 absent(const u32* values, u32 count, u32* shared) {
    u32 first = values[0], last = values[count - 1];
    if (first > 0) return first - 1;
    if (last < ~0u) return last + 1;
    // The first and the last number are there, so there is a gap.
    for (u32 at = threadIdx.x; at + 1 < count; at += THREADS) {
        if (values[at + 1] - values[at] > 1) *shared = values[at] + 1;
    }
    __syncthreads();
    u32 gap = *shared;
    __syncthreads();
    return gap;
}

// `ip-hash`: the shorter side of a tile goes into a table, the elements of the other are looked up.
template <bool WRITE>
__device__ __forceinline__ void path_hash(const Array& a, const Array& b, const Found& found) {
    __shared__ __align__(16) u32 table[SLOTS];
    __shared__ u64 splits[TILES + 1];
    __shared__ u32 sums[WARPS];
    __shared__ u32 gap;
    split(a, b, splits);
    u64 first = (u64)blockIdx.x * SPAN, last = min(first + SPAN, a.size + b.size);
    u32 count = 0;
    u64 base = WRITE ? found.blocks[blockIdx.x] : 0;
    for (u32 tile = 0; first + tile * TILE < last; tile++) {
        u64 from = first + tile * TILE, to = min(from + TILE, last);
        u64 a_from = splits[tile], a_to = splits[tile + 1];
        u64 b_from = from - a_from, b_to = to - a_to;
        if (b_to < b.size) b_to++;
        if (a_from == a_to || b_from == b_to) continue;
        bool a_shorter = a_to - a_from <= b_to - b_from;
        const u32* hashed = a_shorter ? a.at + a_from : b.at + b_from;
        u32 size = (u32)(a_shorter ? a_to - a_from : b_to - b_from);
        u32 empty = absent(hashed, size, &gap);
        for (u32 slot = threadIdx.x; slot < SLOTS / 4; slot += THREADS) {
            ((uint4*)table)[slot] = make_uint4(empty, empty, empty, empty);
        }
        __syncthreads();
        auto slot_of = [](u32 value) { return value * 2654435769u >> (32 - SLOT_BITS); };
        for (u32 at = threadIdx.x; at < size; at += THREADS) {
            u32 value = hashed[at], slot = slot_of(value);
            while (atomicCAS(&table[slot], empty, value) != empty) slot = (slot + 1) % SLOTS;
        }
        __syncthreads();
        auto hit = [&](u32 value) {
            u32 slot = slot_of(value);
            while (true) {
                u32 held = table[slot];
                if (held == empty) return false;
                if (held == value) return true;
                slot = (slot + 1) % SLOTS;
            }
        };
        count += test_all<WRITE>(a_shorter ? b : a, a_shorter ? b_from : a_from,
                                 a_shorter ? b_to : a_to, hit, sums, found.out, base);
        __syncthreads();
    }
    if (!WRITE) leave_count(count, sums, found);
}

// `ip-obs`: elements of the shorter array `a` are looked up in the part of `b` between the first and the
// last of them by binary search, whose upper levels, or all of them, are in shared memory.
template <bool WRITE>
__device__ __forceinline__ void path_search(const Array& a, const Array& b, const Found& found) {
    __shared__ u32 cache[CACHE];
    __shared__ u64 bounds[2];
    __shared__ u32 sums[WARPS];
    u64 first = (u64)blockIdx.x * PART, last = min(first + PART, a.size);
    u32 warp = threadIdx.x / 32;
    if (warp < 2) {
        u64 value = warp == 0 ? a.at[first] : (u64)a.at[last - 1] + 1;
        u64 at = first_at_least(b, value);
        if (lane_of() == 0) bounds[warp] = at;
    }
    __syncthreads();
    u64 begin = bounds[0], size = bounds[1] - begin;
    const u32* within = b.at + begin;
    // Every stride-th element is cached.
    u64 stride = (size + CACHE - 1) / CACHE;
    u32 cached = size == 0 ? 0 : (u32)((size + stride - 1) / stride);
    for (u32 at = threadIdx.x; at < cached; at += THREADS) cache[at] = within[at * stride];
    __syncthreads();
    auto hit = [&](u32 value) {
        // The last of the cached that is not larger.
        u32 low = 0, high = cached;
        while (low < high) {
            u32 half = (low + high) / 2;
            if (cache[half] <= value) low = half + 1;
            else high = half;
        }
        if (low == 0) return false;
        if (cache[low - 1] == value) return true;
        u64 from = (low - 1) * stride + 1, to = min(low * stride, size);
        while (from < to) {
            u64 half = (from + to) / 2;
            u32 there = within[half];
            if (there == value) return true;
            if (there < value) from = half + 1;
            else to = half;
        }
        return false;
    };
    u64 base = WRITE ? found.blocks[blockIdx.x] : 0;
    u32 count = test_all<WRITE>(a, first, last, hit, sums, found.out, base);
    if (!WRITE) leave_count(count, sums, found);
}

// `bitmap`: a block takes a range of values, makes a bitmap of the elements of `a` there and looks the
// elements of `b` up in it.
template <bool WRITE>
__device__ __forceinline__ void bitmap(
    const Array& a, const Array& b, u32 low, u32 high, u32 range_bits, const Found& found
) {
    extern __shared__ __align__(16) u32 bits[];
    __shared__ u64 bounds[4];
    __shared__ u32 sums[WARPS];
    u64 from = low + ((u64)blockIdx.x << range_bits);
    u64 to = min(from + (1ull << range_bits), (u64)high + 1);
    u32 warp = threadIdx.x / 32;
    if (warp < 4) {
        u64 at = first_at_least(warp < 2 ? a : b, warp % 2 == 0 ? from : to);
        if (lane_of() == 0) bounds[warp] = at;
    }
    for (u32 four = threadIdx.x; four < 1u << (range_bits - 7); four += THREADS) {
        ((uint4*)bits)[four] = make_uint4(0, 0, 0, 0);
    }
    __syncthreads();
    u64 a_from = bounds[0], a_to = bounds[1];
    for (u64 at = a_from / 4 * 4 + 4 * threadIdx.x; at < a_to; at += 4 * THREADS) {
        u32 values[4];
        if (at + 4 <= a.size) {
            *(uint4*)values = *(const uint4*)(a.at + at);
        } else {
            #pragma unroll
            for (u32 i = 0; i < 4; i++) values[i] = at + i < a.size ? a.at[at + i] : 0;
        }
        // Neighbours are often in one word.
        u32 word = 0, mask = 0;
        #pragma unroll
        for (u32 i = 0; i < 4; i++) {
            if (at + i < a_from || at + i >= a_to) continue;
            u32 bit = (u32)(values[i] - from);
            if (bit / 32 != word && mask != 0) {
                atomicOr(&bits[word], mask);
                mask = 0;
            }
            word = bit / 32;
            mask |= 1u << (bit % 32);
        }
        if (mask != 0) atomicOr(&bits[word], mask);
    }
    __syncthreads();
    auto hit = [&](u32 value) {
        u32 bit = (u32)(value - from);
        return (bits[bit / 32] >> (bit % 32) & 1) != 0;
    };
    u64 base = WRITE ? found.blocks[blockIdx.x] : 0;
    u32 count = test_all<WRITE>(b, bounds[2], bounds[3], hit, sums, found.out, base);
    if (!WRITE) leave_count(count, sums, found);
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) ip_count(Array a, Array b, Found found) {
    path<false>(a, b, found);
}
extern "C" __global__ void __launch_bounds__(THREADS, 4) ip_write(Array a, Array b, Found found) {
    path<true>(a, b, found);
}
extern "C" __global__ void __launch_bounds__(THREADS, 4) ip_hash_count(
    Array a, Array b, Found found
) {
    path_hash<false>(a, b, found);
}
extern "C" __global__ void __launch_bounds__(THREADS, 4) ip_hash_write(
    Array a, Array b, Found found
) {
    path_hash<true>(a, b, found);
}
extern "C" __global__ void __launch_bounds__(THREADS, 4) ip_obs_count(
    Array a, Array b, Found found
) {
    path_search<false>(a, b, found);
}
extern "C" __global__ void __launch_bounds__(THREADS, 4) ip_obs_write(
    Array a, Array b, Found found
) {
    path_search<true>(a, b, found);
}
extern "C" __global__ void __launch_bounds__(THREADS, 3) bitmap_count(
    Array a, Array b, u32 low, u32 high, u32 range_bits, Found found
) {
    bitmap<false>(a, b, low, high, range_bits, found);
}
extern "C" __global__ void __launch_bounds__(THREADS, 3) bitmap_write(
    Array a, Array b, u32 low, u32 high, u32 range_bits, Found found
) {
    bitmap<true>(a, b, low, high, range_bits, found);
}

// Where the elements of each block are to be: the sums of the counts before, by one block.
extern "C" __global__ void __launch_bounds__(THREADS) place_blocks(u64* blocks, u64 count) {
    __shared__ u64 sums[WARPS];
    u64 base = 0;
    for (u64 chunk = 0; chunk < count; chunk += THREADS) {
        u64 at = chunk + threadIdx.x;
        u64 value = at < count ? blocks[at] : 0, sum = value;
        #pragma unroll
        for (u32 distance = 1; distance < 32; distance *= 2) {
            u64 lower = __shfl_up_sync(~0u, sum, distance);
            if (lane_of() >= distance) sum += lower;
        }
        __syncthreads();
        if (lane_of() == 31) sums[threadIdx.x / 32] = sum;
        __syncthreads();
        u64 before = base;
        for (u32 warp = 0; warp < WARPS; warp++) {
            if (warp < threadIdx.x / 32) before += sums[warp];
            base += sums[warp];
        }
        if (at < count) blocks[at] = before + sum - value;
    }
}

// Whether an array ascends: otherwise a place where it does not is left.
extern "C" __global__ void ascends(Array array, u64* where) {
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at + 1 < array.size; at += step) {
        if (array.at[at] >= array.at[at + 1]) atomicMin(where, at);
    }
}
