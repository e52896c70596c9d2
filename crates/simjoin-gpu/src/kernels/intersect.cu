// Which elements do two ascending arrays share?
//
// Each kernel has two forms. The first counts: each block stores the number of its common elements
// and adds it to the total. The second gets the position of each block's elements and writes them
// in ascending order. No element is found twice, since a block owns its elements of `a`, or a range
// of values.
//
// `path` and `path_hash` cut the merge of the two arrays into equal parts (merge path: Green and
// others). Of two equal elements that of `a` comes first. A block takes some tiles of the merge,
// with `each` elements per thread. An element of `a` is common if its partner comes next in `b`; at
// the end of a tile the partner is the next element after the tile.
//
// Totals are added to one of two numbers; the other one is set to zero for the next kernel.
//
// No element is LAST, the largest number; the host handles it. So there are fewer than 2^32
// elements.

#define THREADS 256
#define WARPS (THREADS / 32)
#define LAST 0xffffffffu
// The largest number of merge elements per thread, odd so that threads begin their search in
// different banks, and the largest number of tiles in a block.
#define EACH 27
#define TILE (THREADS * EACH)
#define TILES 7
// The elements of a tile in shared memory, with up to three more before each side, three and one
// after it, and the end marks.
#define HELD (TILE + 24)
// The slots of the hash table: the shorter side of a tile has at most half a tile plus one element.
#define SLOTS 8192
#define SLOT_BITS 13
// The number of elements of the shorter array in a block of the binary search, and of cached
// elements of the longer one.
#define PART 2048
#define CACHE 4096
// The number of groups of four elements that a thread of the bitmap loads at once.
#define AHEAD 3
#define CHUNK (4 * THREADS * AHEAD)

struct Array {
    const u32* at;
    u32 size;
};

// Returns one of two arrays.
__device__ __forceinline__ Array pick(bool first, const Array& a, const Array& b) {
    return {first ? a.at : b.at, first ? a.size : b.size};
}

// The destination of common elements.
struct Found {
    u64* total;
    u64* next_total;
    // The count of each block, or the position of its first element.
    u64* blocks;
    u32* out;
};

__device__ __forceinline__ u32 lane_of() {
    return threadIdx.x % 32;
}

// Returns the sum of the values of the threads before this one in the block, and sets `all` to the
// sum of all. All threads of the block must call it.
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

// Stores the count of a block.
__device__ __forceinline__ void leave_count(u32 count, u32* sums, const Found& found) {
    u32 all;
    sum_before(count, sums, all);
    if (threadIdx.x == 0) {
        found.blocks[blockIdx.x] = all;
        if (blockIdx.x == 0) *found.next_total = 0;
        if (all > 0) atomicAdd(found.total, (u64)all);
    }
}

// Returns the first place from `low` to `high` that does not satisfy `before`, which holds for all
// places before it. A warp tests 32 places at once: first some around `hint`, `width` apart, then
// equal parts of the rest.
template <class Before>
__device__ __forceinline__ u32 partition_point(
    u32 low, u32 high, u32 hint, u32 width, Before before
) {
    u32 around = 16 * width;
    u32 first = hint > around && hint - around > low ? hint - around : low;
    u32 each = width;
    bool hinted = true;
    while (low < high) {
        if (!hinted) {
            each = (high - low) / 33 + 1;
            first = low + each - 1;
        }
        hinted = false;
        u32 tried = first + lane_of() * each;
        // Places past the largest number wrap around.
        bool holds = tried >= first && tried < high && before(tried);
        u32 count = __popc(__ballot_sync(~0u, holds));
        if (count < 32) {
            u32 end = first + count * each;
            high = end >= first ? min(high, end) : high;
        }
        if (count > 0) low = first + (count - 1) * each + 1;
    }
    return low;
}

// Returns about size * part / whole.
__device__ __forceinline__ u32 share(u32 size, float part, float whole) {
    return (u32)((float)size * __fdividef(part, whole));
}

// Returns the first place of an array whose element is at least `value`.
__device__ __forceinline__ u32 first_at_least(const Array& array, u64 value) {
    u32 first = array.at[0], last = array.at[array.size - 1];
    if (value <= first) return 0;
    if (value > last) return array.size;
    u32 hint = share(array.size, (float)(value - first), (float)(last - first + 1));
    return partition_point(0, array.size, hint, 256, [&](u32 i) { return array.at[i] < value; });
}

// The work of a block of `path`.
struct Work {
    // The number of merge elements per thread in a tile, and of tiles in a block.
    u32 each;
    u32 tiles;
};

// Finds where the tiles of a block begin and end in `a`.
__device__ __forceinline__ void split(
    const Array& a, const Array& b, const Work& work, u32 (&splits)[TILES + 1]
) {
    u64 all = (u64)a.size + b.size, tile = (u64)work.each * THREADS;
    for (u32 at = threadIdx.x / 32; at <= work.tiles; at += WARPS) {
        u64 diagonal = min(((u64)blockIdx.x * work.tiles + at) * tile, all);
        u32 low = diagonal > b.size ? (u32)(diagonal - b.size) : 0;
        u32 high = (u32)min(diagonal, (u64)a.size);
        u32 hint = share(a.size, (float)diagonal, (float)all);
        u32 place = partition_point(low, high, hint, 256, [&](u32 i) {
            return a.at[i] <= b.at[diagonal - 1 - i];
        });
        if (lane_of() == 0) splits[at] = place;
    }
    __syncthreads();
}

// Starts copying groups of four elements to shared memory; fewer elements if the array ends.
__device__ __forceinline__ void copy_fours(u32* to, const Array& from, u32 first, u32 fours) {
    const u32* at = from.at + first;
    u32 whole = min(fours, (from.size - first) / 4);
    for (u32 four = threadIdx.x; four < whole; four += THREADS) {
#if __CUDA_ARCH__ >= 800
        u32 there = (u32)__cvta_generic_to_shared(to + 4 * four);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(there), "l"(at + 4 * four)
                     : "memory");
#else
        *(uint4*)(to + 4 * four) = *(const uint4*)(at + 4 * four);
#endif
    }
    if (whole < fours && threadIdx.x < (from.size - first) % 4) {
        to[4 * whole + threadIdx.x] = at[4 * whole + threadIdx.x];
    }
}

__device__ __forceinline__ void await_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
#endif
    __syncthreads();
}

// Counts the elements of an array from `begin` to `end` that satisfy `hit`, or writes them in
// order. Each thread takes four neighbours.
template <bool WRITE, class Hit>
__device__ __forceinline__ u32 test_all(
    const Array& array, u32 begin, u32 end, Hit hit, u32* sums, u32* out, u64& base
) {
    u32 count = 0;
    for (u64 chunk = begin / 4 * 4; chunk < end; chunk += 4 * THREADS) {
        u64 first = chunk + 4 * threadIdx.x;
        __align__(16) u32 values[4] = {0, 0, 0, 0};
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

__device__ __forceinline__ u32 address_of(const u32* shared) {
    return (u32)__cvta_generic_to_shared(shared);
}

__device__ __forceinline__ u32 load_shared(u32 address) {
    u32 value;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}

// Returns how many of the first `diagonal` elements of the merge belong to the first side: `n`
// elements at the address `xs`; the other side has `m` at `ys`. The search begins around the usual
// value.
__device__ __forceinline__ u32 cross(u32 xs, u32 n, u32 ys, u32 m, u32 diagonal, float usual) {
    u32 low = diagonal > m ? diagonal - m : 0, high = min(diagonal, n);
    u32 partners = ys + 4 * (diagonal - 1);
    // Whether element i of the first side is one of them.
    auto within = [&](u32 i) { return load_shared(xs + 4 * i) <= load_shared(partners - 4 * i); };
    const u32 AROUND = 48;
    u32 guess = (u32)((float)diagonal * usual);
    u32 below = guess > AROUND ? guess - AROUND : 0, above = guess + AROUND;
    if (below >= low && below < high) {
        bool on = within(below);
        low = on ? below + 1 : low;
        high = on ? high : below;
    }
    if (above >= low && above < high) {
        bool on = within(above);
        low = on ? above + 1 : low;
        high = on ? high : above;
    }
    while (low < high) {
        u32 half = (low + high) / 2;
        bool on = within(half);
        low = on ? half + 1 : low;
        high = on ? high : half;
    }
    return low;
}

// Does `steps` steps of the merge of the elements at the addresses `i` and `j`. Returns how many
// elements were followed by their partner. LAST ends both sides.
template <bool PUT>
__device__ __forceinline__ u32 merge_steps(u32 i, u32 j, u32 steps, u32* out) {
    u32 common = 0, sum = i + j;
    u32 x = load_shared(i), y = load_shared(j);
    auto step = [&]() {
        bool same = x == y, on = x <= y;
        if (PUT && same) out[common] = x;
        common += same;
        sum += 4;
        i += on ? 4 : 0;
        u32 next = load_shared(on ? i : sum - i);
        x = on ? next : x;
        y = on ? y : next;
    };
    u32 fives = steps / 5, rest = steps % 5;
    #pragma unroll 1
    for (; fives > 0; fives--) {
        step();
        step();
        step();
        step();
        step();
    }
    #pragma unroll 1
    for (; rest > 0; rest--) step();
    return common;
}

// `ip`: each thread merges some elements of a tile.
template <bool WRITE>
__device__ __forceinline__ void path(
    const Array& a, const Array& b, const Work& work, const Found& found
) {
    __shared__ __align__(16) u32 held[HELD];
    __shared__ u32 splits[TILES + 1];
    __shared__ u32 sums[WARPS];
    split(a, b, work, splits);
    u32 size_of_tile = work.each * THREADS;
    u64 first = (u64)blockIdx.x * work.tiles * size_of_tile;
    u64 last = min(first + work.tiles * size_of_tile, (u64)a.size + b.size);
    u32 count = 0;
    u64 base = WRITE ? found.blocks[blockIdx.x] : 0;
    for (u32 tile = 0; first + tile * size_of_tile < last; tile++) {
        u64 from = first + tile * size_of_tile, to = min(from + size_of_tile, last);
        u32 a_from = splits[tile], a_to = splits[tile + 1];
        u32 b_from = (u32)(from - a_from), b_to = (u32)(to - a_to);
        u32 n = a_to - a_from, own = b_to - b_from;
        // One more element, which may be the partner of the last.
        u32 m = own + (b_to < b.size ? 1 : 0);
        u32 a_begin = a_from % 4, a_fours = (a_begin + n + 3) / 4;
        // Space for the end mark of the first side.
        u32 b_at = 4 * a_fours + 4, b_begin = b_at + b_from % 4;
        copy_fours(held, a, a_from - a_begin, a_fours);
        copy_fours(held + b_at, b, b_from / 4 * 4, (b_from % 4 + m + 3) / 4);
        await_copies();
        // The end mark of each side: elements past it may have been copied too.
        if (threadIdx.x == 0) {
            held[a_begin + n] = LAST;
            held[b_begin + m] = LAST;
        }
        __syncthreads();

        u32 all = n + own;
        u32 diagonal = min(threadIdx.x * work.each, all);
        u32 xs = address_of(held + a_begin), ys = address_of(held + b_begin);
        u32 low = cross(xs, n, ys, own, diagonal, __fdividef((float)n, (float)all));
        u32 steps = min(work.each, all - diagonal);
        u32 i = xs + 4 * low, j = ys + 4 * (diagonal - low);
        u32 common = merge_steps<false>(i, j, steps, 0);
        if (WRITE) {
            u32 in_tile;
            u64 place = base + sum_before(common, sums, in_tile);
            if (common > 0) merge_steps<true>(i, j, steps, found.out + place);
            base += in_tile;
        } else {
            count += common;
        }
        __syncthreads();
    }
    if (!WRITE) leave_count(count, sums, found);
}

// `ip-hash`: the shorter side of a tile goes into a table, in which the elements of the other side
// are looked up.
template <bool WRITE>
__device__ __forceinline__ void path_hash(
    const Array& a, const Array& b, const Work& work, const Found& found
) {
    __shared__ __align__(16) u32 table[SLOTS];
    __shared__ u32 splits[TILES + 1];
    __shared__ u32 sums[WARPS];
    split(a, b, work, splits);
    u32 size_of_tile = work.each * THREADS;
    u64 first = (u64)blockIdx.x * work.tiles * size_of_tile;
    u64 last = min(first + work.tiles * size_of_tile, (u64)a.size + b.size);
    u32 count = 0;
    u64 base = WRITE ? found.blocks[blockIdx.x] : 0;
    for (u32 tile = 0; first + tile * size_of_tile < last; tile++) {
        u64 from = first + tile * size_of_tile, to = min(from + size_of_tile, last);
        u32 a_from = splits[tile], a_to = splits[tile + 1];
        u32 b_from = (u32)(from - a_from), b_to = (u32)(to - a_to);
        if (b_to < b.size) b_to++;
        if (a_from == a_to || b_from == b_to) continue;
        bool a_shorter = a_to - a_from <= b_to - b_from;
        const u32* hashed = a_shorter ? a.at + a_from : b.at + b_from;
        u32 size = a_shorter ? a_to - a_from : b_to - b_from;
        for (u32 slot = threadIdx.x; slot < SLOTS / 4; slot += THREADS) {
            ((uint4*)table)[slot] = make_uint4(LAST, LAST, LAST, LAST);
        }
        __syncthreads();
        auto slot_of = [](u32 value) { return value * 2654435769u >> (32 - SLOT_BITS); };
        for (u32 at = threadIdx.x; at < size; at += THREADS) {
            u32 value = hashed[at], slot = slot_of(value);
            while (atomicCAS(&table[slot], LAST, value) != LAST) slot = (slot + 1) % SLOTS;
        }
        __syncthreads();
        auto hit = [&](u32 value) {
            u32 slot = slot_of(value), held = table[slot];
            while (held != value && held != LAST) {
                slot = (slot + 1) % SLOTS;
                held = table[slot];
            }
            return held == value;
        };
        count += test_all<WRITE>(pick(a_shorter, b, a), a_shorter ? b_from : a_from,
                                 a_shorter ? b_to : a_to, hit, sums, found.out, base);
        __syncthreads();
    }
    if (!WRITE) leave_count(count, sums, found);
}

// `ip-obs`: the elements of the shorter array `a` are looked up by binary search in the part of `b`
// between the first and the last of them. The upper levels of the search, or all of them, are in
// shared memory.
template <bool WRITE>
__device__ __forceinline__ void path_search(const Array& a, const Array& b, const Found& found) {
    __shared__ u32 cache[CACHE];
    __shared__ u32 bounds[2];
    __shared__ u32 sums[WARPS];
    u32 first = blockIdx.x * PART, last = a.size - first > PART ? first + PART : a.size;
    u32 warp = threadIdx.x / 32;
    if (warp < 2) {
        u64 value = warp == 0 ? a.at[first] : (u64)a.at[last - 1] + 1;
        u32 at = first_at_least(b, value);
        if (lane_of() == 0) bounds[warp] = at;
    }
    __syncthreads();
    u32 begin = bounds[0], size = bounds[1] - begin;
    const u32* within = b.at + begin;
    // Every stride-th element is cached.
    u32 stride = size == 0 ? 1 : (size - 1) / CACHE + 1;
    u32 cached = size == 0 ? 0 : (size - 1) / stride + 1;
    for (u32 at = threadIdx.x; at < cached; at += THREADS) cache[at] = within[(u64)at * stride];
    __syncthreads();
    auto hit = [&](u32 value) {
        // Find the last cached element that is not larger.
        u32 low = 0, high = cached;
        while (low < high) {
            u32 half = (low + high) / 2;
            if (cache[half] <= value) low = half + 1;
            else high = half;
        }
        if (low == 0) return false;
        if (cache[low - 1] == value) return true;
        u64 from = (u64)(low - 1) * stride + 1, to = min((u64)low * stride, (u64)size);
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

// Groups of four neighbouring elements for each thread, THREADS groups apart. Past the end of the
// array there is LAST.
template <u32 COUNT>
struct Fours {
    __align__(16) u32 values[COUNT][4];

    __device__ __forceinline__ void load(const Array& array, u32 chunk, u32 end) {
        #pragma unroll
        for (u32 i = 0; i < COUNT; i++) {
            u64 at = (u64)chunk + 4 * (i * THREADS + threadIdx.x);
            #pragma unroll
            for (u32 k = 0; k < 4; k++) values[i][k] = LAST;
            if (at + 4 <= array.size) {
                if (at < end) *(uint4*)values[i] = *(const uint4*)(array.at + at);
            } else {
                #pragma unroll
                for (u32 k = 0; k < 4; k++) {
                    if (at + k < array.size) values[i][k] = array.at[at + k];
                }
            }
        }
    }

    template <class Visit>
    __device__ __forceinline__ void each(Visit visit) {
        #pragma unroll
        for (u32 i = 0; i < COUNT; i++) visit(values[i]);
    }
};

// `bitmap`: a block makes a bitmap of the elements of `a` in a range of values and looks the
// elements of `b` up in it. Elements are loaded four at a time, some from outside the range.
template <bool WRITE>
__device__ __forceinline__ void bitmap(
    const Array& a, const Array& b, u32 low, u32 high, u32 range_bits, const Found& found
) {
    extern __shared__ __align__(16) u32 bits[];
    __shared__ u32 bounds[4];
    __shared__ u32 sums[WARPS];
    u32 from = low + (blockIdx.x << range_bits);
    u32 range = min((1u << range_bits) - 1, high - from) + 1;
    u32 warp = threadIdx.x / 32;
    if (warp < 4) {
        u64 value = (u64)from + (warp % 2 == 0 ? 0 : range);
        u32 at = first_at_least(pick(warp < 2, a, b), value);
        if (lane_of() == 0) bounds[warp] = at;
    }
    for (u32 four = threadIdx.x; four < 1u << (range_bits - 7); four += THREADS) {
        ((uint4*)bits)[four] = make_uint4(0, 0, 0, 0);
    }
    __syncthreads();
    u32 a_from = bounds[0] / 4 * 4, a_to = bounds[1], b_from = bounds[2], b_to = bounds[3];
    u32 b_first = b_from / 4 * 4;
    // Both sides are being loaded before the first element is used.
    Fours<AHEAD> as, bs;
    as.load(a, a_from, a_to);
    if (!WRITE) bs.load(b, b_first, b_to);
    auto set = [&](const u32 (&values)[4]) {
        // Neighbours are often in one word.
        u32 word = 0, mask = 0;
        #pragma unroll
        for (u32 i = 0; i < 4; i++) {
            u32 bit = values[i] - from;
            if (bit >= range) continue;
            if (bit / 32 != word && mask != 0) {
                atomicOr(&bits[word], mask);
                mask = 0;
            }
            word = bit / 32;
            mask |= 1u << (bit % 32);
        }
        if (mask != 0) atomicOr(&bits[word], mask);
    };
    as.each(set);
    for (u64 chunk = (u64)a_from + CHUNK; chunk < a_to; chunk += CHUNK) {
        as.load(a, (u32)chunk, a_to);
        as.each(set);
    }
    __syncthreads();
    auto hit = [&](u32 value) {
        u32 bit = value - from;
        return bit < range && (bits[bit / 32] >> (bit % 32) & 1) != 0;
    };
    if (WRITE) {
        u64 base = found.blocks[blockIdx.x];
        test_all<true>(b, b_from, b_to, hit, sums, found.out, base);
        return;
    }
    u32 count = 0;
    auto test = [&](const u32 (&values)[4]) {
        #pragma unroll
        for (u32 i = 0; i < 4; i++) count += hit(values[i]);
    };
    bs.each(test);
    for (u64 chunk = (u64)b_first + CHUNK; chunk < b_to; chunk += CHUNK) {
        bs.load(b, (u32)chunk, b_to);
        bs.each(test);
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
PATH(ip_hash_count, path_hash, false, 6)
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

// Computes the position of the elements of each block, the sum of the counts before it, in one
// block.
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

// Finds a place where an array does not ascend, if there is one.
extern "C" __global__ void ascends(const u32* array, u64 size, u64* where) {
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at + 1 < size; at += step) {
        if (array[at] >= array[at + 1]) atomicMin(where, at);
    }
}
