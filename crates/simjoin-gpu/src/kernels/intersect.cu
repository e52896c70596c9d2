// Which elements do two ascending arrays share?
//
// Each kernel comes in two forms. The first counts: each block leaves the number of its common elements,
// and adds it to the total. The second, given where the elements of each block begin, writes them down,
// ascending. No element is found twice: a block owns its elements of `a`, or a range of values.
//
// `path` and `path_hash` cut the merge of the two arrays into equal parts (merge path: Green and others);
// of two equal elements that of `a` comes first. A block takes some tiles of the merge, each of `each`
// elements for a thread. An element of `a` is common if its partner comes next in `b`: at the end of a tile
// that is one beyond it.
//
// Totals are added to one of two numbers; the other one is made zero for the kernel that follows.

#define THREADS 256
#define WARPS (THREADS / 32)
// Elements of the merge for each thread at most; odd, so that threads begin their search in different
// banks. And tiles of a block at most.
#define EACH 23
#define TILE (THREADS * EACH)
#define TILES 7
// What a tile may hold beside its elements: up to three before each side, and three and one beyond.
#define HELD (TILE + 20)
// Slots of the hash table: the shorter side of a tile has at most half a tile and one.
#define SLOTS 8192
#define SLOT_BITS 13
// Elements of the shorter array in a block of the binary search, and of the longer one that are cached.
#define PART 2048
#define CACHE 4096
// Fours of elements that a thread of the bitmap loads at once.
#define AHEAD 2

struct Array {
    const u32* at;
    u64 size;
};

// One of two arrays.
__device__ __forceinline__ Array pick(bool first, const Array& a, const Array& b) {
    return {first ? a.at : b.at, first ? a.size : b.size};
}

// What becomes of common elements.
struct Found {
    u64* total;
    u64* next_total;
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
        if (blockIdx.x == 0) *found.next_total = 0;
        if (all > 0) atomicAdd(found.total, (u64)all);
    }
}

// The first place from `low` to `high` that does not satisfy `before`, which holds for all places before
// it. A warp tries 32 places at once: first some around `hint`, `width` apart, then equal parts of what is
// left.
template <class Before>
__device__ __forceinline__ u64 partition_point(
    u64 low, u64 high, u64 hint, u32 width, Before before
) {
    u64 around = (u64)16 * width;
    u64 first = hint > low + around ? hint - around : low;
    u64 tried = first + (u64)lane_of() * width;
    u32 count = __popc(__ballot_sync(~0u, tried < high && before(tried)));
    u64 end = first + (u64)count * width;
    if (count < 32) high = min(high, end);
    if (count > 0) low = end - width + 1;
    while (low < high) {
        u64 step = (high - low + 32) / 33;
        tried = low + (lane_of() + 1) * step - 1;
        count = __popc(__ballot_sync(~0u, tried < high && before(tried)));
        end = low + (count + 1) * step - 1;
        low += count * step;
        if (count < 32) high = min(high, end);
    }
    return low;
}

// The part of `size` that `part` is of `whole`.
__device__ __forceinline__ u64 share(u64 size, u64 part, u64 whole) {
    return (u64)((double)size * ((double)part / (double)whole));
}

// The first place of an array from which on elements are at least `value`.
__device__ __forceinline__ u64 first_at_least(const Array& array, u64 value) {
    u32 first = array.at[0], last = array.at[array.size - 1];
    if (value <= first) return 0;
    if (value > last) return array.size;
    u64 hint = share(array.size, value - first, (u64)last - first + 1);
    return partition_point(0, array.size, hint, 256, [&](u64 i) { return array.at[i] < value; });
}

// What a block of `path` does: some tiles.
struct Work {
    // Elements of the merge for each thread in a tile, and tiles of a block.
    u32 each;
    u32 tiles;
};

// Where the tiles of a block begin and end in `a`.
__device__ __forceinline__ void split(
    const Array& a, const Array& b, const Work& work, u64 (&splits)[TILES + 1]
) {
    u64 all = a.size + b.size, tile = (u64)work.each * THREADS;
    for (u32 at = threadIdx.x / 32; at <= work.tiles; at += WARPS) {
        u64 diagonal = min(((u64)blockIdx.x * work.tiles + at) * tile, all);
        u64 low = diagonal > b.size ? diagonal - b.size : 0, high = min(diagonal, a.size);
        u64 place = partition_point(low, high, share(a.size, diagonal, all), 256, [&](u64 i) {
            return a.at[i] <= b.at[diagonal - 1 - i];
        });
        if (lane_of() == 0) splits[at] = place;
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

// Goes `steps` steps along the merge of `held[i..n]` and `held[j..m]`: how many of the elements of the
// first on the way are common.
template <bool PUT>
__device__ __forceinline__ u32 merge_steps(
    const u32* held, u32 i, u32 n, u32 j, u32 m, u32 steps, u32* out
) {
    u32 common = 0;
    // Beyond the end of a side something else is read, and not used.
    u32 x = held[i], y = held[j];
    #pragma unroll 4
    for (u32 step = 0; step < steps; step++) {
        bool with_a = i < n, with_b = j < m;
        bool on = !with_b || (with_a && x <= y);
        bool same = with_a && with_b && x == y;
        if (PUT && same) out[common] = x;
        common += same;
        i += on;
        j += !on;
        u32 next = held[on ? i : j];
        x = on ? next : x;
        y = on ? y : next;
    }
    return common;
}

// `ip`: each thread merges some elements of a tile.
template <bool WRITE>
__device__ __forceinline__ void path(
    const Array& a, const Array& b, const Work& work, const Found& found
) {
    __shared__ __align__(16) u32 held[HELD];
    __shared__ u64 splits[TILES + 1];
    __shared__ u32 sums[WARPS];
    split(a, b, work, splits);
    u32 size_of_tile = work.each * THREADS;
    u64 first = (u64)blockIdx.x * work.tiles * size_of_tile;
    u64 last = min(first + work.tiles * size_of_tile, a.size + b.size);
    u32 count = 0;
    u64 base = WRITE ? found.blocks[blockIdx.x] : 0;
    for (u32 tile = 0; first + tile * size_of_tile < last; tile++) {
        u64 from = first + tile * size_of_tile, to = min(from + size_of_tile, last);
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
        u32 a_begin = (u32)(a_from - a_at), b_begin = 4 * a_fours + (u32)(b_from - b_at);
        await_copies();

        u32 all = n + own;
        u32 diagonal = min(threadIdx.x * work.each, all);
        u32 low = diagonal > own ? diagonal - own : 0, high = min(diagonal, n);
        const u32* xs = held + a_begin;
        const u32* ys = held + b_begin + diagonal - 1;
        while (low < high) {
            u32 half = (low + high) / 2;
            bool on = xs[half] <= ys[-(int)half];
            low = on ? half + 1 : low;
            high = on ? high : half;
        }
        u32 steps = min(work.each, all - diagonal);
        u32 i = a_begin + low, j = b_begin + diagonal - low;
        u32 a_end = a_begin + n, b_end = b_begin + m;
        u32 common = merge_steps<false>(held, i, a_end, j, b_end, steps, 0);
        if (WRITE) {
            u32 in_tile;
            u64 place = base + sum_before(common, sums, in_tile);
            if (common > 0) {
                merge_steps<true>(held, i, a_end, j, b_end, steps, found.out + place);
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
__device__ __forceinline__ void path_hash(
    const Array& a, const Array& b, const Work& work, const Found& found
) {
    __shared__ __align__(16) u32 table[SLOTS];
    __shared__ u64 splits[TILES + 1];
    __shared__ u32 sums[WARPS];
    __shared__ u32 gap;
    split(a, b, work, splits);
    u32 size_of_tile = work.each * THREADS;
    u64 first = (u64)blockIdx.x * work.tiles * size_of_tile;
    u64 last = min(first + work.tiles * size_of_tile, a.size + b.size);
    u32 count = 0;
    u64 base = WRITE ? found.blocks[blockIdx.x] : 0;
    for (u32 tile = 0; first + tile * size_of_tile < last; tile++) {
        u64 from = first + tile * size_of_tile, to = min(from + size_of_tile, last);
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
        count += test_all<WRITE>(pick(a_shorter, b, a), a_shorter ? b_from : a_from,
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

// Four neighbouring elements for each thread, several times THREADS fours apart.
template <u32 COUNT>
struct Fours {
    u32 values[COUNT][4];

    __device__ __forceinline__ void load(const Array& array, u64 chunk) {
        #pragma unroll
        for (u32 i = 0; i < COUNT; i++) {
            u64 at = chunk + 4 * (i * THREADS + threadIdx.x);
            if (at + 4 <= array.size) {
                *(uint4*)values[i] = *(const uint4*)(array.at + at);
            } else {
                #pragma unroll
                for (u32 k = 0; k < 4; k++) {
                    values[i][k] = at + k < array.size ? array.at[at + k] : 0;
                }
            }
        }
    }

    template <class Visit>
    __device__ __forceinline__ void each(u64 chunk, Visit visit) {
        #pragma unroll
        for (u32 i = 0; i < COUNT; i++) visit(values[i], chunk + 4 * (i * THREADS + threadIdx.x));
    }
};

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
        u64 at = first_at_least(pick(warp < 2, a, b), warp % 2 == 0 ? from : to);
        if (lane_of() == 0) bounds[warp] = at;
    }
    for (u32 four = threadIdx.x; four < 1u << (range_bits - 7); four += THREADS) {
        ((uint4*)bits)[four] = make_uint4(0, 0, 0, 0);
    }
    __syncthreads();
    u64 a_from = bounds[0], a_to = bounds[1], b_from = bounds[2], b_to = bounds[3];
    // Both sides are on their way before the first element is used.
    Fours<AHEAD> as, bs;
    as.load(a, a_from / 4 * 4);
    if (!WRITE) bs.load(b, b_from / 4 * 4);
    auto set = [&](const u32 (&values)[4], u64 at) {
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
    };
    for (u64 chunk = a_from / 4 * 4; chunk < a_to; chunk += 4 * THREADS * AHEAD) {
        if (chunk != a_from / 4 * 4) as.load(a, chunk);
        as.each(chunk, set);
    }
    __syncthreads();
    auto hit = [&](u32 value) {
        u32 bit = (u32)(value - from);
        return (bits[bit / 32] >> (bit % 32) & 1) != 0;
    };
    u64 base = WRITE ? found.blocks[blockIdx.x] : 0;
    if (WRITE) {
        test_all<true>(b, b_from, b_to, hit, sums, found.out, base);
        return;
    }
    u32 count = 0;
    auto test = [&](const u32 (&values)[4], u64 at) {
        #pragma unroll
        for (u32 i = 0; i < 4; i++) {
            if (at + i >= b_from && at + i < b_to) count += hit(values[i]);
        }
    };
    for (u64 chunk = b_from / 4 * 4; chunk < b_to; chunk += 4 * THREADS * AHEAD) {
        if (chunk != b_from / 4 * 4) bs.load(b, chunk);
        bs.each(chunk, test);
    }
    leave_count(count, sums, found);
}

#define PATH(name, path, WRITE, BLOCKS)                                            \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) name(               \
        Array a, Array b, Work work, Found found                                      \
    ) {                                                                               \
        path<WRITE>(a, b, work, found);                                               \
    }

PATH(ip_count, path, false, 6)
PATH(ip_write, path, true, 4)
PATH(ip_hash_count, path_hash, false, 5)
PATH(ip_hash_write, path_hash, true, 4)

extern "C" __global__ void __launch_bounds__(THREADS, 5) ip_obs_count(
    Array a, Array b, Found found
) {
    path_search<false>(a, b, found);
}
extern "C" __global__ void __launch_bounds__(THREADS, 4) ip_obs_write(
    Array a, Array b, Found found
) {
    path_search<true>(a, b, found);
}
extern "C" __global__ void __launch_bounds__(THREADS, 6) bitmap_count(
    Array a, Array b, u32 low, u32 high, u32 range_bits, Found found
) {
    bitmap<false>(a, b, low, high, range_bits, found);
}
extern "C" __global__ void __launch_bounds__(THREADS, 4) bitmap_write(
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
