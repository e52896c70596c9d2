// How many tokens does every pair of sets share?
//
// The counts of a tile, some rows by all columns, are stored row by row in numbers of WIDTH bytes, wide enough for
// every count. In a self-join (`own`) a row meets the columns before it (`before`), or all but itself. In other joins
// it meets all columns, or those before its `limit`. The other places have no meaning.
//
// `product` multiplies the bits of frequent tokens. Then `walk_lists` adds one for each entry in the lists of a row's
// rare tokens. `look_up` uses neither. `select` and `top` use the counts of a tile.

#define THREADS 256
#define WARPS (THREADS / 32)
#define ROWS 128
#define COLUMNS 256
// A row of bits in a stage has 512 bits, in pieces of 16 bytes.
#define PIECES 4
#define STAGE_BYTES ((ROWS + COLUMNS) * PIECES * 16)
// The number of row blocks that run at the same time, so that the columns they read are loaded once.
#define GROUP 16
// The words of a warp's window when bits are made.
#define WINDOW 256

#define EMPTY 0xffffffffu

#if WIDTH == 1
typedef unsigned char Count;
#elif WIDTH == 2
typedef unsigned short Count;
#else
typedef u32 Count;
#endif

// A tile of counts.
struct Tile {
    Count* counts;
    // The number of counts from one row to the next.
    u64 stride;
    // The end of the columns that each row of all tiles meets, which rises; null if all rows meet all columns.
    const u32* limits;
    // The first row, and the numbers of rows and of columns.
    u32 first;
    u32 rows;
    u32 columns;
    // Whether rows and columns are the same sets, and whether only the columns before a row are wanted.
    u32 own;
    u32 before;
};

__device__ __forceinline__ u32 lane_of() {
    return threadIdx.x % 32;
}

// Returns the end of the columns that a row of a tile meets.
__device__ __forceinline__ u32 columns_of(const Tile& tile, u32 row) {
    u32 limit = tile.columns;
    if (tile.own && tile.before) limit = min(limit, tile.first + row);
    if (tile.limits != 0) limit = min(limit, tile.limits[tile.first + row]);
    return limit;
}

// Returns the column that is the row itself.
__device__ __forceinline__ u32 itself(const Tile& tile, u32 row) {
    return tile.own ? tile.first + row : ~0u;
}

__device__ __forceinline__ u32 sum_of_warp(u32 value) {
    #pragma unroll
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
}

__device__ __forceinline__ u32 sum_before_in_warp(u32 value) {
    u32 sum = value;
    #pragma unroll
    for (u32 distance = 1; distance < 32; distance *= 2) {
        u32 lower = __shfl_up_sync(~0u, sum, distance);
        if (lane_of() >= distance) sum += lower;
    }
    return sum - value;
}

// Returns the sum of the values of the threads before this one in the block, and sets `all` to the sum of all. All
// threads of the block must call it.
__device__ __forceinline__ u32 sum_before(u32 value, u32* sums, u32& all) {
    u32 before = sum_before_in_warp(value);
    __syncthreads();
    if (lane_of() == 31) sums[threadIdx.x / 32] = before + value;
    __syncthreads();
    all = 0;
    #pragma unroll
    for (u32 warp = 0; warp < WARPS; warp++) {
        if (warp < threadIdx.x / 32) before += sums[warp];
        all += sums[warp];
    }
    return before;
}

// Returns the first place in an ascending array whose value is not below a value.
__device__ __forceinline__ u32 first_at_least(const u32* tokens, u32 size, u32 value) {
    u32 low = 0, high = size;
    while (low < high) {
        u32 half = (low + high) / 2;
        if (tokens[half] < value) low = half + 1;
        else high = half;
    }
    return low;
}

// ---- In how many sets does each token occur, and what would lists cost?

// Counts the sets with each token from `unique` on, the first token that is not unique. One warp per set.
extern "C" __global__ void count_tokens(Sets sets, u32 count, u32 unique, u32* lengths) {
    u32 set = warp_of_grid();
    if (set >= count) return;
    const u32* tokens = tokens_of(sets, set);
    u32 size = size_of(sets, set);
    for (u32 at = lane_of(); at < size; at += 32) {
        if (tokens[at] >= unique) atomicAdd(&lengths[tokens[at] - unique], 1);
    }
}

// Counts the entries of lists, and the meetings of rows with them, by the distance of tokens from the most frequent
// one: below 512, below 1,024, below 2,048 and so on. 32 numbers each.
extern "C" __global__ void weigh(
    const u32* row_lengths, const u32* column_lengths, u32 tokens, u64* entries, u64* meetings
) {
    __shared__ u64 sums[2][32];
    if (threadIdx.x < 64) sums[threadIdx.x / 32][threadIdx.x % 32] = 0;
    __syncthreads();
    u32 step = gridDim.x * blockDim.x;
    for (u32 at = blockIdx.x * blockDim.x + threadIdx.x; at < tokens; at += step) {
        u32 distance = (tokens - 1 - at) / 512;
        u32 class_of = distance == 0 ? 0 : 32 - __clz(distance);
        u64 length = column_lengths[at];
        if (length > 0) {
            atomicAdd(&sums[0][class_of], length);
            atomicAdd(&sums[1][class_of], length * row_lengths[at]);
        }
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        atomicAdd(&entries[threadIdx.x], sums[0][threadIdx.x]);
        atomicAdd(&meetings[threadIdx.x], sums[1][threadIdx.x]);
    }
}

// ---- Lists of rare tokens

struct Lists {
    // Tokens from `unique` to `heavy` have lists.
    u32 unique;
    u32 heavy;
    u32* begins;
    u32* ends;
    u32* entries;
};

// Where does each list begin? One thread per token. Lists are in no particular order.
extern "C" __global__ void place_lists(Lists lists, u32* taken) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    u32 count = lists.heavy - lists.unique;
    u32 length = at < count ? lists.ends[at] : 0;
    u32 before = sum_before_in_warp(length);
    u32 base = 0;
    if (lane_of() == 31) base = atomicAdd(taken, before + length);
    base = __shfl_sync(~0u, base, 31) + before;
    if (at < count) {
        lists.begins[at] = base;
        // Rises while the list is filled.
        lists.ends[at] = base;
    }
}

// One warp per column.
extern "C" __global__ void fill_lists(Sets columns, u32 count, Lists lists) {
    u32 set = warp_of_grid();
    if (set >= count) return;
    const u32* tokens = tokens_of(columns, set);
    u32 size = size_of(columns, set);
    for (u32 at = lane_of(); at < size; at += 32) {
        u32 token = tokens[at];
        if (token >= lists.heavy) break;
        if (token >= lists.unique) {
            lists.entries[atomicAdd(&lists.ends[token - lists.unique], 1)] = set;
        }
    }
}

// Adds one to a count. Counts are wide enough that none overflows into its neighbour.
__device__ __forceinline__ void add_one(Count* row, u32 column) {
#if WIDTH == 4
    atomicAdd(&row[column], 1u);
#else
    u32 each = 4 / WIDTH;
    atomicAdd((u32*)row + column / each, 1u << (column % each * 8 * WIDTH));
#endif
}

// Adds one for each entry of the lists of a row's rare tokens. One block per row. A warp takes 32 lists, and its
// threads walk them as one.
extern "C" __global__ void __launch_bounds__(THREADS) walk_lists(
    Sets rows, Lists lists, Tile tile
) {
    u32 row = blockIdx.x;
    u32 limit = columns_of(tile, row), self = itself(tile, row);
    if (limit == 0) return;
    const u32* tokens = tokens_of(rows, tile.first + row);
    u32 size = size_of(rows, tile.first + row);
    u32 begin = first_at_least(tokens, size, lists.unique);
    u32 end = first_at_least(tokens, size, lists.heavy);
    Count* counts = tile.counts + row * tile.stride;
    for (u32 first = begin + threadIdx.x / 32 * 32; first < end; first += THREADS) {
        u32 at = first + lane_of();
        u32 list = 0, length = 0;
        if (at < end) {
            u32 token = tokens[at] - lists.unique;
            list = lists.begins[token];
            length = lists.ends[token] - list;
        }
        u32 before = sum_before_in_warp(length);
        u32 all = __shfl_sync(~0u, before + length, 31);
        for (u32 step = 0; step < all; step += 32) {
            u32 place = step + lane_of();
            // Find the list of this entry: the last that begins at or before it.
            u32 owner = 0;
            #pragma unroll
            for (u32 half = 16; half > 0; half /= 2) {
                u32 tried = __shfl_sync(~0u, before, owner + half);
                if (tried <= place) owner += half;
            }
            u32 its_list = __shfl_sync(~0u, list, owner);
            u32 its_before = __shfl_sync(~0u, before, owner);
            if (place < all) {
                u32 column = lists.entries[its_list + (place - its_before)];
                if (column < limit && column != self) add_one(counts, column);
            }
        }
    }
}

// ---- Bits of frequent tokens

// Makes the bits of each set: one for each token from `heavy` on, in `words` words per set. One warp per set. Sets from
// `count` to `padded` have no bits.
extern "C" __global__ void __launch_bounds__(THREADS) fill_bits(
    Sets sets, u32 count, u32 padded, u32 heavy, u32 words, u32* bits
) {
    __shared__ u32 windows[WARPS][WINDOW];
    u32 set = warp_of_grid();
    if (set >= padded) return;
    u32* window = windows[threadIdx.x / 32];
    const u32* tokens = 0;
    u32 size = 0, next = 0;
    if (set < count) {
        tokens = tokens_of(sets, set);
        size = size_of(sets, set);
        next = first_at_least(tokens, size, heavy);
    }
    u32* row = bits + (u64)set * words;
    for (u32 first = 0; first < words; first += WINDOW) {
        u32 here = min((u32)WINDOW, words - first);
        for (u32 w = lane_of(); w < here; w += 32) window[w] = 0;
        __syncwarp();
        // Tokens ascend, so those of a window are contiguous.
        while (next < size) {
            u32 at = next + lane_of();
            u32 bit = at < size ? tokens[at] - heavy - 32 * first : ~0u;
            bool inside = bit < 32 * here;
            if (inside) atomicOr(&window[bit / 32], 1u << (bit % 32));
            u32 taken = __popc(__ballot_sync(~0u, inside));
            next += taken;
            if (taken < 32) break;
        }
        __syncwarp();
        for (u32 w = lane_of(); w < here; w += 32) row[first + w] = window[w];
        __syncwarp();
    }
}

// Returns the place of the 16-byte `piece` of a row in a stage. Pieces are permuted so that the same piece of eight
// neighbouring rows, and also of rows {0, 1, 16, 17, 32, 33, 48, 49} from an even one on, lies in different banks.
__device__ __forceinline__ u32 place_of(u32 row, u32 piece) {
    return (row * PIECES + (piece ^ ((row / 2 + row / 16) % 4))) * 16;
}

// Starts copying a step of all rows and columns of a block to a stage, columns after rows.
__device__ __forceinline__ void fetch(
    u32 to, const u32* row_bits, const u32* column_bits, u32 words, u32 step
) {
    #pragma unroll
    for (u32 i = 0; i < (ROWS + COLUMNS) * PIECES / THREADS; i++) {
        u32 at = i * THREADS + threadIdx.x;
        u32 row = at / PIECES, piece = at % PIECES;
        bool is_row = row < ROWS;
        const u32* from = is_row ? row_bits + (u64)row * words
                                 : column_bits + (u64)(row - ROWS) * words;
        u32 base = is_row ? 0 : ROWS * PIECES * 16;
        u32 place = place_of(is_row ? row : row - ROWS, piece);
        copy_16(to + base + place, from + step * PIECES * 4 + piece * 4);
    }
}

// Writes sixteen neighbouring counts.
__device__ __forceinline__ void store_16(Count* to, const u32 (&counts)[16]) {
    u32 packed[4 * WIDTH];
    #pragma unroll
    for (u32 word = 0; word < 4 * WIDTH; word++) {
#if WIDTH == 1
        packed[word] = (counts[4 * word] & 255) | (counts[4 * word + 1] & 255) << 8 |
            (counts[4 * word + 2] & 255) << 16 | counts[4 * word + 3] << 24;
#elif WIDTH == 2
        packed[word] = (counts[2 * word] & 65535) | counts[2 * word + 1] << 16;
#else
        packed[word] = counts[word];
#endif
    }
    #pragma unroll
    for (u32 four = 0; four < WIDTH; four++) {
        ((uint4*)to)[four] = make_uint4(packed[4 * four], packed[4 * four + 1],
                                        packed[4 * four + 2], packed[4 * four + 3]);
    }
}

#if TENSOR
// Adds the number of common bits of 16 rows and 8 columns.
__device__ __forceinline__ void multiply(u32 (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

// Counts the common bits of all pairs of a tile. A block takes ROWS by COLUMNS of them. Bits exist for all of these,
// and the tile has space for their counts.
extern "C" __global__ void __launch_bounds__(THREADS, 1) product(
    const u32* row_bits, const u32* column_bits, u32 words, u32 row_blocks, u32 column_blocks,
    Tile tile
) {
    extern __shared__ __align__(128) char memory[];
    u32 group = blockIdx.x / (GROUP * column_blocks), rest = blockIdx.x % (GROUP * column_blocks);
    u32 in_group = min((u32)GROUP, row_blocks - group * GROUP);
    u32 block_row = (group * GROUP + rest % in_group) * ROWS;
    u32 block_column = rest / in_group * COLUMNS;
    // No row of the block, not even the last, meets a column of it.
    if (block_column >= columns_of(tile, min(block_row + ROWS, tile.rows) - 1)) return;
    row_bits += (u64)(tile.first + block_row) * words;
    column_bits += (u64)block_column * words;
    u32 stages = shared_address(memory);
    u32 steps = words / (PIECES * 4);
    u32 warp = threadIdx.x / 32;
#if TENSOR
    // A warp takes 64 rows by 64 columns.
    u32 warp_row = warp / 4 * 64, warp_column = warp % 4 * 64;
    u32 sums[4][8][4] = {};
#else
    // A thread takes 8 rows by 16 columns.
    u32 thread_row = threadIdx.x / 16 * 8, thread_column = threadIdx.x % 16 * 16;
    u32 sums[8][16] = {};
#endif
    #pragma unroll
    for (u32 ahead = 0; ahead < STAGES - 1; ahead++) {
        if (ahead < steps) {
            fetch(stages + ahead * STAGE_BYTES, row_bits, column_bits, words, ahead);
        }
        end_group();
    }
    for (u32 step = 0; step < steps; step++) {
        await_groups<STAGES - 2>();
        __syncthreads();
        u32 next = step + STAGES - 1;
        if (next < steps) {
            fetch(stages + next % STAGES * STAGE_BYTES, row_bits, column_bits, words, next);
        }
        end_group();
#if TENSOR
        u32 rows_at = stages + step % STAGES * STAGE_BYTES;
        u32 columns_at = rows_at + ROWS * PIECES * 16;
        #pragma unroll
        for (u32 chunk = 0; chunk < PIECES / 2; chunk++) {
            u32 a[4][4];
            #pragma unroll
            for (u32 i = 0; i < 4; i++) {
                // Rows 0-7 and 8-15 of the first half of the chunk, then of the second.
                u32 row = warp_row + i * 16 + lane_of() % 16;
                load_matrices(rows_at + place_of(row, 2 * chunk + lane_of() / 16), a[i]);
            }
            #pragma unroll
            for (u32 j = 0; j < 8; j += 2) {
                // Both halves of eight columns, then of the next eight. Columns are ordered such that a thread's sums
                // belong to sixteen neighbours.
                u32 slot = lane_of() % 8;
                u32 column = slot / 2 * 16 + (j + lane_of() / 16) * 2 + slot % 2;
                u32 b[4];
                u32 piece = 2 * chunk + lane_of() / 8 % 2;
                load_matrices(columns_at + place_of(warp_column + column, piece), b);
                #pragma unroll
                for (u32 i = 0; i < 4; i++) {
                    multiply(sums[i][j], a[i], b[0], b[1]);
                    multiply(sums[i][j + 1], a[i], b[2], b[3]);
                }
            }
        }
#else
        const char* rows_at = memory + step % STAGES * STAGE_BYTES;
        const char* columns_at = rows_at + ROWS * PIECES * 16;
        #pragma unroll 1
        for (u32 piece = 0; piece < PIECES; piece++) {
            uint4 a[8];
            #pragma unroll
            for (u32 i = 0; i < 8; i++) {
                a[i] = *(const uint4*)(rows_at + place_of(thread_row + i, piece));
            }
            #pragma unroll
            for (u32 j = 0; j < 16; j++) {
                uint4 b = *(const uint4*)(columns_at + place_of(thread_column + j, piece));
                #pragma unroll
                for (u32 i = 0; i < 8; i++) {
                    sums[i][j] += __popc(a[i].x & b.x) + __popc(a[i].y & b.y) +
                        __popc(a[i].z & b.z) + __popc(a[i].w & b.w);
                }
            }
        }
#endif
    }
    Count* corner = tile.counts + block_row * tile.stride + block_column;
#if TENSOR
    u32 quad = lane_of() % 4;
    #pragma unroll
    for (u32 i = 0; i < 4; i++) {
        #pragma unroll
        for (u32 half = 0; half < 2; half++) {
            u32 counts[16];
            #pragma unroll
            for (u32 j = 0; j < 8; j++) {
                counts[2 * j] = sums[i][j][2 * half];
                counts[2 * j + 1] = sums[i][j][2 * half + 1];
            }
            u32 row = warp_row + i * 16 + half * 8 + lane_of() / 4;
            store_16(corner + row * tile.stride + warp_column + quad * 16, counts);
        }
    }
#else
    #pragma unroll
    for (u32 i = 0; i < 8; i++) {
        store_16(corner + (thread_row + i) * tile.stride + thread_column, sums[i]);
    }
#endif
}

// ---- One row against all columns, token by token

#define BITMAP 0
#define BINARY_SEARCH 1
#define HASH 2

// Blocks take rows in turn. The tokens of a row become a bitmap, a search tree whose upper levels are in shared memory,
// or a hash table. Then warps look up the tokens of one column after the other. Data that does not fit in shared memory
// (`room` words) is in `spill`, global memory of `words` words per block.
template <int HOW>
__device__ __forceinline__ void look_up(
    const Sets& rows, const Sets& columns, Tile tile, u32 universe, u32 room, u32* spill,
    u64 words, u32* next
) {
    extern __shared__ __align__(16) u32 held[];
    __shared__ u32 taken;
    u32 warp = threadIdx.x / 32;
    while (true) {
        __syncthreads();
        // The last rows, which have the most work, come first.
        if (threadIdx.x == 0) taken = atomicAdd(next, 1);
        __syncthreads();
        if (taken >= tile.rows) return;
        u32 row = tile.rows - 1 - taken;
        const u32* tokens = tokens_of(rows, tile.first + row);
        u32 size = size_of(rows, tile.first + row);
        u32 slots = 1, slot_bits = 0, stride = 1, cached = 0;
        u32* ready = held;
        if (HOW == BITMAP) {
            slots = (universe + 31) / 32;
            if (slots > room) ready = spill + blockIdx.x * words;
        } else if (HOW == HASH) {
            slot_bits = 32 - __clz(2 * size - 1);
            slots = 1u << slot_bits;
            if (slots > room) ready = spill + blockIdx.x * words;
        } else {
            stride = (size + room - 1) / room;
            cached = (size + stride - 1) / stride;
        }
        if (HOW == BINARY_SEARCH) {
            for (u32 at = threadIdx.x; at < cached; at += THREADS) held[at] = tokens[at * stride];
        } else {
            u32 nothing = HOW == HASH ? EMPTY : 0;
            for (u32 slot = threadIdx.x; slot < slots; slot += THREADS) ready[slot] = nothing;
            __syncthreads();
            for (u32 at = threadIdx.x; at < size; at += THREADS) {
                u32 token = tokens[at];
                if (HOW == BITMAP) {
                    atomicOr(&ready[token / 32], 1u << (token % 32));
                } else {
                    u32 slot = token * 2654435769u >> (32 - slot_bits);
                    while (atomicCAS(&ready[slot], EMPTY, token) != EMPTY) {
                        slot = (slot + 1) & (slots - 1);
                    }
                }
            }
        }
        __syncthreads();
        auto holds = [&](u32 token) {
            if (HOW == BITMAP) return (ready[token / 32] >> (token % 32) & 1) != 0;
            if (HOW == HASH) {
                u32 slot = token * 2654435769u >> (32 - slot_bits);
                while (true) {
                    u32 there = ready[slot];
                    if (there == token) return true;
                    if (there == EMPTY) return false;
                    slot = (slot + 1) & (slots - 1);
                }
            }
            u32 low = 0, high = cached;
            while (low < high) {
                u32 half = (low + high) / 2;
                if (held[half] <= token) low = half + 1;
                else high = half;
            }
            if (low == 0) return false;
            if (held[low - 1] == token) return true;
            u32 from = (low - 1) * stride + 1, to = min(low * stride, size);
            while (from < to) {
                u32 half = (from + to) / 2;
                u32 there = tokens[half];
                if (there == token) return true;
                if (there < token) from = half + 1;
                else to = half;
            }
            return false;
        };
        Count* counts = tile.counts + row * tile.stride;
        u32 limit = columns_of(tile, row);
        for (u32 column = warp; column < limit; column += WARPS) {
            const u32* others = tokens_of(columns, column);
            u32 many = size_of(columns, column), count = 0;
            for (u32 at = lane_of(); at < many; at += 32) count += holds(others[at]) ? 1 : 0;
            count = sum_of_warp(count);
            if (lane_of() == 0) counts[column] = (Count)count;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) look_up_bitmap(
    Sets rows, Sets columns, Tile tile, u32 universe, u32 room, u32* spill, u64 words, u32* next
) {
    look_up<BITMAP>(rows, columns, tile, universe, room, spill, words, next);
}
extern "C" __global__ void __launch_bounds__(THREADS) look_up_search(
    Sets rows, Sets columns, Tile tile, u32 universe, u32 room, u32* spill, u64 words, u32* next
) {
    look_up<BINARY_SEARCH>(rows, columns, tile, universe, room, spill, words, next);
}
extern "C" __global__ void __launch_bounds__(THREADS) look_up_hash(
    Sets rows, Sets columns, Tile tile, u32 universe, u32 room, u32* spill, u64 words, u32* next
) {
    look_up<HASH>(rows, columns, tile, universe, room, spill, words, next);
}
