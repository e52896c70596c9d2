// How do vectors become images, in which order are they compared, and which candidates are in the
// answer?
//
// Rows are on the device as they were read: n x d elements, f64 if WIDE is 1, f32 otherwise. The
// data for filters is made from them here: f32 coordinates along axes or principal directions
// (`images`), f16 rows for tensor cores (`halves`), or bytes if all elements are small whole
// numbers (`bytes`). Every error of this is accounted for on the host, or measured here.
//
// `verify` decides. It adds in the order of simjoin_kernels::distance and rounds every operation
// separately: sixteen threads hold the sixteen sums of a pair.

#if WIDE
typedef double Element;
#else
typedef float Element;
#endif

#define FULL 0xffffffffu
#define BLOCK 128

__device__ __forceinline__ double warp_sum(double value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(FULL, value, step);
    return value;
}

// The centring, scaling and folding of rows.
struct Frame {
    const double* centre;
    double scale;
    // A power of two: larger elements are limited to 2^26 times as much, and then folded.
    double fold;
    u32 d;
    // Whether rows are divided by their lengths first.
    u32 unit;
};

// Returns the factor for a row's elements.
__device__ __forceinline__ double factor(const Frame& frame, const Element* row, u32 lane) {
    if (!frame.unit) return frame.scale;
    double square = 0;
    for (u32 i = lane; i < frame.d; i += 32) square += (double)row[i] * (double)row[i];
    return frame.scale / sqrt(warp_sum(square));
}

__device__ __forceinline__ double scaled(const Frame& frame, const Element* row, u32 i, double by) {
    double x = row[i], c = frame.centre[i];
    double t = frame.unit ? x * by - c * frame.scale : (x - c) * by;
    if (fabs(t) <= frame.fold) return t;
    double most = 67108864.0 * frame.fold, period = 2 * frame.fold;
    t = t > most ? most : t < -most ? -most : t;
    long long turns = (long long)(t / period + (t < 0 ? -0.5 : 0.5));
    double rest = t - period * (double)turns;
    return turns % 2 == 0 ? rest : -rest;
}

// Computes the squared length of the longest row, as bits of an f64. One warp per row.
extern "C" __global__ void lengths(const Element* raw, u32 n, Frame frame, u64* longest) {
    u32 lane = threadIdx.x % 32;
    double most = 0;
    for (u64 at = (blockIdx.x * (u64)blockDim.x + threadIdx.x) / 32; at < n;
         at += (u64)gridDim.x * blockDim.x / 32) {
        const Element* row = raw + at * frame.d;
        double by = factor(frame, row, lane), square = 0;
        for (u32 i = lane; i < frame.d; i += 32) {
            double t = scaled(frame, row, i, by);
            square += t * t;
        }
        square = warp_sum(square);
        most = longer(most, square);
    }
    if (lane == 0) atomicMax(longest, (u64)__double_as_longlong(most));
}

// Computes the products of rows with themselves, in the order of the predicate. Sixteen threads per
// row.
extern "C" __global__ void squares(const Element* raw, u32 n, u32 d, double* out) {
    u32 lane = threadIdx.x % 16;
    u64 count = ((u64)n + 1) / 2 * 2;
    for (u64 at = (blockIdx.x * (u64)blockDim.x + threadIdx.x) / 16; at < count;
         at += (u64)gridDim.x * blockDim.x / 16) {
        const Element* row = raw + (at < n ? at : 0) * d;
        double sum = 0;
        for (u32 i = lane; i < d; i += 16) sum = __dadd_rn(sum, __dmul_rn((double)row[i], (double)row[i]));
        for (u32 h = 8; h > 0; h /= 2) sum = __dadd_rn(sum, __shfl_down_sync(FULL, sum, h, 16));
        if (lane == 0 && at < n) out[at] = sum;
    }
}

// Makes images in f32, with m = columns + left_over coordinates per row. With an order, coordinate
// c is the element order[c]. With a basis, it is the product with column c of the basis, and the
// last coordinate is the length of the rest. One warp per row.
extern "C" __global__ void images(
    const Element* raw, u32 n, Frame frame, const u32* order, const double* basis, u32 columns,
    u32 stride, u32 left_over, float* out
) {
    u32 lane = threadIdx.x % 32, m = columns + left_over;
    for (u64 at = (blockIdx.x * (u64)blockDim.x + threadIdx.x) / 32; at < n;
         at += (u64)gridDim.x * blockDim.x / 32) {
        const Element* row = raw + at * frame.d;
        double by = factor(frame, row, lane), along = 0;
        float* image = out + at * m;
        for (u32 c = lane; c < columns; c += 32) {
            if (basis == 0) {
                image[c] = (float)scaled(frame, row, order[c], by);
                continue;
            }
            double seen = 0;
            for (u32 i = 0; i < frame.d; i++) seen += scaled(frame, row, i, by) * basis[(u64)i * stride + c];
            image[c] = (float)seen;
            along += seen * seen;
        }
        if (left_over) {
            double square = 0;
            for (u32 i = lane; i < frame.d; i += 32) {
                double t = scaled(frame, row, i, by);
                square += t * t;
            }
            double rest = warp_sum(square) - warp_sum(along);
            if (lane == 0) image[columns] = (float)sqrt(rest > 0 ? rest : 0.0);
        }
    }
}

// Returns floats as whole numbers in the same order.
__device__ __forceinline__ u32 ordered(float x) {
    u32 bits = __float_as_uint(x);
    return bits ^ (bits >> 31 ? ~0u : 0x80000000u);
}

// Computes the lowest and the highest value of each coordinate, as ordered numbers. Each thread
// reads one coordinate.
extern "C" __global__ void extents(const float* images, u64 numbers, u32 m, u32* low, u32* high) {
    u64 threads = (u64)gridDim.x * blockDim.x / m * m;
    u64 at = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    if (at >= threads || at >= numbers) return;
    u32 least = ~0u, most = 0, i = at % m;
    for (; at < numbers; at += threads) {
        u32 x = ordered(images[at]);
        least = min(least, x);
        most = max(most, x);
    }
    atomicMin(&low[i], least);
    atomicMax(&high[i], most);
}

// The layout of cells in up to eight coordinates.
struct Lay {
    double low[8];
    double width[8];
    u32 bits[8];
    u32 cells[8];
    u32 laid;
};

// Computes the cell of each row, and writes the row. The order of cells alternates its direction in
// each row of cells (boustrophedon), so that successive cells are neighbours.
extern "C" __global__ void cells(const float* images, u32 n, u32 m, Lay lay, u64* keys, u32* rows) {
    for (u64 at = blockIdx.x * (u64)blockDim.x + threadIdx.x; at < n; at += (u64)gridDim.x * blockDim.x) {
        u64 key = 0;
        bool back = false;
        for (u32 i = 0; i < lay.laid; i++) {
            double place = ((double)images[at * m + i] - lay.low[i]) / lay.width[i];
            u64 last = lay.cells[i] - 1, cell = place > 0 ? (u64)place : 0;
            cell = cell < last ? cell : last;
            key = key << lay.bits[i] | (back ? last - cell : cell);
            back ^= cell & 1;
        }
        keys[at] = key;
        rows[at] = (u32)at;
    }
}

extern "C" __global__ void count_up(u32* rows, u32 n) {
    for (u64 at = blockIdx.x * (u64)blockDim.x + threadIdx.x; at < n; at += (u64)gridDim.x * blockDim.x) {
        rows[at] = (u32)at;
    }
}

// Finds the coordinate with the largest extent in each part, from up to 2,048 of its rows. One
// block per part.
extern "C" __global__ void farthest(
    const float* images, const u32* rows, u32 n, u32 m, u64 size, u32* split
) {
    __shared__ u32 low[64], high[64];
    u64 begin = blockIdx.x * size, end = begin + size < n ? begin + size : n;
    for (u32 i = threadIdx.x; i < m; i += blockDim.x) low[i] = ~0u, high[i] = 0;
    __syncthreads();
    u64 step = (end - begin + 2047) / 2048;
    for (u64 at = begin + threadIdx.x * step; at < end; at += blockDim.x * step) {
        const float* image = images + (u64)rows[at] * m;
        for (u32 i = 0; i < m; i++) {
            u32 x = ordered(image[i]);
            atomicMin(&low[i], x);
            atomicMax(&high[i], x);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        float widest = -1;
        u32 which = 0;
        for (u32 i = 0; i < m; i++) {
            auto back = [](u32 x) { return __uint_as_float(x >> 31 ? x ^ 0x80000000u : ~x); };
            float width = back(high[i]) - back(low[i]);
            if (high[i] >= low[i] && width > widest) widest = width, which = i;
        }
        split[blockIdx.x] = which;
    }
}

// Makes keys from the part of each place and the coordinate that divides it.
extern "C" __global__ void part_keys(
    const float* images, const u32* rows, u32 n, u32 m, u64 size, const u32* split, u64* keys
) {
    for (u64 at = blockIdx.x * (u64)blockDim.x + threadIdx.x; at < n; at += (u64)gridDim.x * blockDim.x) {
        u64 part = at / size;
        keys[at] = part << 32 | ordered(images[(u64)rows[at] * m + split[part]]);
    }
}

// ---- Sorting: stable, by one digit of eight bits after the other.

#define SORT_THREADS 256
#define SORT_ITEMS 16
#define SORT_TILE (SORT_THREADS * SORT_ITEMS)

// Counts each digit in each tile: counts[digit * tiles + tile].
extern "C" __global__ void digit_counts(const u64* keys, u32 n, u32 shift, u32 tiles, u32* counts) {
    __shared__ u32 here[256];
    here[threadIdx.x] = 0;
    __syncthreads();
    u64 first = (u64)blockIdx.x * SORT_TILE;
    for (u32 k = 0; k < SORT_ITEMS; k++) {
        u64 at = first + k * SORT_THREADS + threadIdx.x;
        if (at < n) atomicAdd(&here[keys[at] >> shift & 255], 1);
    }
    __syncthreads();
    counts[(u64)threadIdx.x * tiles + blockIdx.x] = here[threadIdx.x];
}

// Replaces numbers by the sums before them, in pieces of 2,048, and writes the sum of each piece.
// 256 threads.
extern "C" __global__ void sums_before(u32* numbers, u32 count, u32* sums) {
    __shared__ u32 warps[8];
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u64 first = (u64)blockIdx.x * 2048 + threadIdx.x * 8;
    u32 mine[8], all = 0;
    #pragma unroll
    for (u32 k = 0; k < 8; k++) {
        mine[k] = all;
        if (first + k < count) all += numbers[first + k];
    }
    u32 rank = all;
    for (u32 distance = 1; distance < 32; distance *= 2) {
        u32 lower = __shfl_up_sync(FULL, rank, distance);
        if (lane >= distance) rank += lower;
    }
    if (lane == 31) warps[warp] = rank;
    __syncthreads();
    u32 before = rank - all, total = 0;
    for (u32 w = 0; w < 8; w++) {
        if (w < warp) before += warps[w];
        total += warps[w];
    }
    #pragma unroll
    for (u32 k = 0; k < 8; k++) {
        if (first + k < count) numbers[first + k] = mine[k] + before;
    }
    if (threadIdx.x == 0 && sums != 0) sums[blockIdx.x] = total;
}

extern "C" __global__ void add_sums(u32* numbers, u32 count, const u32* sums) {
    u64 at = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    if (at < count) numbers[at] += sums[at / 2048];
}

// Moves every item to its place. Warp w of a tile holds the items from w * 512 on, in order.
extern "C" __global__ void __launch_bounds__(SORT_THREADS) move_items(
    const u64* keys, const u32* rows, u32 n, u32 shift, u32 tiles, const u32* places,
    u64* keys_out, u32* rows_out
) {
    __shared__ u32 here[8][256];
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (u32 w = 0; w < 8; w++) here[w][threadIdx.x] = 0;
    __syncthreads();
    u64 first = (u64)blockIdx.x * SORT_TILE + warp * (SORT_TILE / 8);
    u64 key[SORT_ITEMS];
    u32 row[SORT_ITEMS], rank[SORT_ITEMS];
    #pragma unroll
    for (u32 k = 0; k < SORT_ITEMS; k++) {
        u64 at = first + k * 32 + lane;
        bool there = at < n;
        key[k] = there ? keys[at] : 0;
        row[k] = there ? rows[at] : 0;
        u32 digit = there ? (u32)(key[k] >> shift & 255) : 256;
        // The items with the same digit among these 32, and the number of them that come before.
        u32 same = __match_any_sync(FULL, digit);
        u32 before = __popc(same & ((1u << lane) - 1));
        if (there) rank[k] = here[warp][digit] + before;
        __syncwarp();
        if (there && before == 0) here[warp][digit] += __popc(same);
        __syncwarp();
    }
    __syncthreads();
    // Turn the counts of each warp into starts.
    u32 place = places[(u64)threadIdx.x * tiles + blockIdx.x];
    for (u32 w = 0; w < 8; w++) {
        u32 count = here[w][threadIdx.x];
        here[w][threadIdx.x] = place;
        place += count;
    }
    __syncthreads();
    #pragma unroll
    for (u32 k = 0; k < SORT_ITEMS; k++) {
        if (first + k * 32 + lane < n) {
            u32 to = here[warp][key[k] >> shift & 255] + rank[k];
            keys_out[to] = key[k];
            rows_out[to] = row[k];
        }
    }
}

// ---- Blocks.

// Writes images in their order: coordinate i of place p is points[(p / 128 * m + i) * 128 + p %
// 128]. Places without a row are far from everything.
extern "C" __global__ void gather(const float* images, const u32* rows, u32 n, u32 blocks, u32 m, float* points) {
    u64 numbers = (u64)blocks * m * BLOCK;
    for (u64 at = blockIdx.x * (u64)blockDim.x + threadIdx.x; at < numbers;
         at += (u64)gridDim.x * blockDim.x) {
        u64 place = at / BLOCK / m * BLOCK + at % BLOCK;
        u32 i = at / BLOCK % m;
        float value = NOWHERE;
        if (place < n) value = images[(u64)(rows == 0 ? (u32)place : rows[place]) * m + i];
        points[at] = value;
    }
}

// Computes the bounds of each block of 128 * wide places: low[i * count + block]. One warp per
// block and coordinate.
extern "C" __global__ void bounds(
    const float* points, u32 n, u32 blocks, u32 m, u32 wide, u32 count, float* low, float* high
) {
    u32 lane = threadIdx.x % 32;
    for (u64 at = (blockIdx.x * (u64)blockDim.x + threadIdx.x) / 32; at < (u64)count * m;
         at += (u64)gridDim.x * blockDim.x / 32) {
        u32 block = at % count, i = at / count;
        float least = INFINITE, most = -INFINITE;
        for (u32 part = block * wide; part < block * wide + wide && part < blocks; part++) {
            for (u32 k = lane; k < BLOCK; k += 32) {
                if ((u64)part * BLOCK + k >= n) continue;
                float x = points[((u64)part * m + i) * BLOCK + k];
                least = fminf(least, x);
                most = fmaxf(most, x);
            }
        }
        for (int step = 16; step > 0; step /= 2) {
            least = fminf(least, __shfl_xor_sync(FULL, least, step));
            most = fmaxf(most, __shfl_xor_sync(FULL, most, step));
        }
        if (lane == 0) low[at] = least, high[at] = most;
    }
}

struct Bounds {
    const float* low;
    const float* high;
    u32 blocks;
    // The number of places in a block.
    u32 size;
};

#define GROUP 16

// Which blocks of columns are near which blocks of rows? One block of threads for GROUP blocks of
// rows. Counts the tiles of each group, or writes them. All rows of a column are neighbours, so
// that tiles that run at the same time share rows and columns.
//
// Squared gaps between boxes are sums like squared distances. No pair within `near` lies in boxes
// that are farther apart than `near`, which allows for rounding.
extern "C" __global__ void __launch_bounds__(256) prune(
    Bounds rows, Bounds columns, u32 m, float near, u32 itself, u32 first, const u64* starts,
    u32* counts, Tile* tiles
) {
    extern __shared__ float box[];
    __shared__ u32 sums[8];
    u32 group = first + blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float* lows = box;
    float* highs = box + GROUP * m;
    for (u32 at = threadIdx.x; at < GROUP * m; at += 256) {
        u32 row = group * GROUP + at / m, i = at % m;
        bool there = row < rows.blocks;
        lows[at] = there ? rows.low[(u64)i * rows.blocks + row] : INFINITE;
        highs[at] = there ? rows.high[(u64)i * rows.blocks + row] : -INFINITE;
    }
    __syncthreads();
    u64 to = tiles == 0 ? 0 : starts[group] - starts[first];
    u32 total = 0;
    u32 begin = itself ? (u32)((u64)group * GROUP * rows.size / columns.size) / 256 * 256 : 0;
    for (u32 base = begin; base < columns.blocks; base += 256) {
        u32 column = base + threadIdx.x, mask = 0;
        if (column < columns.blocks) {
            for (u32 k = 0; k < GROUP; k++) {
                u64 row = (u64)group * GROUP + k;
                if (row >= rows.blocks) break;
                // Keep the tile only if the last column of the block comes after the first row.
                if (itself && (u64)(column + 1) * columns.size - 1 <= row * rows.size) continue;
                mask |= 1u << k;
            }
            float gaps[GROUP] = {};
            for (u32 i = 0; i < m && mask != 0; i++) {
                float low = columns.low[(u64)i * columns.blocks + column];
                float high = columns.high[(u64)i * columns.blocks + column];
                #pragma unroll
                for (u32 k = 0; k < GROUP; k++) {
                    float gap = fmaxf(fmaxf(lows[k * m + i] - high, low - highs[k * m + i]), 0.0f);
                    gaps[k] += gap * gap;
                    if (!(gaps[k] <= near)) mask &= ~(1u << k);
                }
            }
        }
        u32 count = __popc(mask), rank = count;
        for (u32 distance = 1; distance < 32; distance *= 2) {
            u32 lower = __shfl_up_sync(FULL, rank, distance);
            if (lane >= distance) rank += lower;
        }
        if (lane == 31) sums[warp] = rank;
        __syncthreads();
        u32 before = rank - count, all = 0;
        for (u32 w = 0; w < 8; w++) {
            if (w < warp) before += sums[w];
            all += sums[w];
        }
        __syncthreads();
        if (tiles != 0) {
            Tile* out = tiles + to + total + before;
            for (; mask != 0; mask &= mask - 1) {
                *out++ = Tile{group * GROUP + (u32)__ffs(mask) - 1, column};
            }
        }
        total += all;
    }
    if (tiles == 0 && threadIdx.x == 0) counts[group] = total;
}

// ---- Rows for tensor cores.

__device__ __forceinline__ u16 to_half(float x) {
    u16 half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
}

__device__ __forceinline__ float from_half(u16 half) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
    return x;
}

// The error bounds of products; see tensor.rs.
struct Band {
    // The error of a product, relative to half the sum of the squares.
    double product;
    // The scaled distance beyond which nothing is accepted, and that within which everything is.
    double reach;
    double sure;
    // The largest error of a scaled row itself.
    double moved;
};

// Makes rows in f16, scaled, in order and padded with zeros. Also computes what a product with them
// must reach for a candidate, and for a pair that is surely in the answer. One warp per place.
extern "C" __global__ void halves(
    const Element* raw, const u32* rows, u32 n, u32 padded, Frame frame, Band band, u32 width, u16* out,
    float* near, float* surely
) {
    u32 lane = threadIdx.x % 32;
    for (u64 at = (blockIdx.x * (u64)blockDim.x + threadIdx.x) / 32; at < padded;
         at += (u64)gridDim.x * blockDim.x / 32) {
        u16* to = out + at * width;
        if (at >= n) {
            for (u32 i = lane; i < width; i += 32) to[i] = 0;
            if (lane == 0) near[at] = INFINITE, surely[at] = INFINITE;
            continue;
        }
        const Element* row = raw + (u64)(rows == 0 ? (u32)at : rows[at]) * frame.d;
        double by = factor(frame, row, lane), square = 0, off = 0;
        for (u32 i = lane; i < width; i += 32) {
            u16 half = 0;
            if (i < frame.d) {
                double t = scaled(frame, row, i, by);
                half = to_half((float)t);
                double h = from_half(half);
                square += h * h;
                off += (t - h) * (t - h);
            }
            to[i] = half;
        }
        square = warp_sum(square);
        off = sqrt(warp_sum(off)) * (1 + 1e-9) + band.moved;
        if (lane == 0) {
            double R = band.reach, r = band.sure, least = 1.0 / (1 << 22);
            double slack = least * (square + R * R + R * off + off * off);
            double v = 0.5 * (square * (1 - band.product) - 2 * R * off - 2 * off * off - 0.5 * R * R);
            double w = 0.5 * (square * (1 + band.product) + 2 * r * off - 0.5 * r * r);
            near[at] = __double2float_rd(v - slack);
            surely[at] = r > 0 ? __double2float_ru(w + slack) : INFINITE;
        }
    }
}

// Makes rows of bytes in order, padded with zeros, and their squares; those of rows are reduced by
// the limit. Sets `others` if an element is not a byte. One warp per place.
extern "C" __global__ void bytes(
    const Element* raw, const u32* rows, u32 n, u32 padded, u32 d, u32 width, int limit, u8* out,
    int* row_squares, int* column_squares, u32* others
) {
    u32 lane = threadIdx.x % 32;
    bool other = false;
    for (u64 at = (blockIdx.x * (u64)blockDim.x + threadIdx.x) / 32; at < padded;
         at += (u64)gridDim.x * blockDim.x / 32) {
        u8* to = out + at * width;
        bool there = at < n;
        const Element* row = raw + (u64)(!there ? 0 : rows == 0 ? (u32)at : rows[at]) * d;
        int square = 0;
        for (u32 i = 4 * lane; i < width; i += 128) {
            u32 word = 0;
            for (u32 k = 0; k < 4; k++) {
                Element x = there && i + k < d ? row[i + k] : (Element)0;
                bool small = x >= 0 && x <= 255;
                u32 byte = small ? (u32)x : 0;
                other |= (Element)byte != x;
                word |= byte << (8 * k);
                square += byte * byte;
            }
            *(u32*)(to + i) = word;
        }
        for (int step = 16; step > 0; step /= 2) square += __shfl_xor_sync(FULL, square, step);
        if (lane == 0) {
            row_squares[at] = there ? square - limit : 1 << 30;
            column_squares[at] = there ? square : 1 << 30;
        }
    }
    if (other) *others = 1;
}

// ---- The decision.

struct Decision {
    // The largest accepted sum or, for a cosine, the smallest.
    double threshold;
    // For a cosine, the products of rows with themselves.
    const double* row_squares;
    const double* column_squares;
    u32 d;
    u32 cosine;
};

struct Answer {
    u32 probe;
    u32 build;
    double distance;
};

__device__ __forceinline__ void answer_by_warp(bool found, Answer answer, Answer* answers, State* state) {
    u32 lane = threadIdx.x % 32, all = __ballot_sync(FULL, found);
    if (all == 0) return;
    u32 base = 0, leader = __ffs(all) - 1;
    if (lane == leader) {
        if (answers == 0) atomicAdd(&state->counted, (u64)__popc(all));
        else base = atomicAdd(&state->answered, __popc(all));
    }
    base = __shfl_sync(FULL, base, leader);
    if (found && answers != 0) answers[base + __popc(all & ((1u << lane) - 1))] = answer;
}

// Which candidates are in the answer? Sixteen threads per pair; thread j sums elements j, j + 16,
// ...
extern "C" __global__ void __launch_bounds__(256) verify(
    const Element* row_raw, const Element* column_raw, const u32* row_rows, const u32* column_rows,
    const u64* candidates, Decision decision, Answer* answers, State* state
) {
    u32 lane = threadIdx.x % 16, d = decision.d, count = min(state->reserved, state->refused);
    u64 even = ((u64)count + 1) / 2 * 2;
    for (u64 at = (blockIdx.x * (u64)blockDim.x + threadIdx.x) / 16; at < even;
         at += (u64)gridDim.x * blockDim.x / 16) {
        bool there = at < count;
        u64 pair = candidates[there ? at : count - 1];
        u32 probe = (u32)(pair >> 32), build = (u32)pair;
        if (row_rows != 0) probe = row_rows[probe];
        if (column_rows != 0) build = column_rows[build];
        const Element* a = row_raw + (u64)probe * d;
        const Element* b = column_raw + (u64)build * d;
        double sum = 0;
        if (decision.cosine) {
            #pragma unroll 8
            for (u32 i = lane; i < d; i += 16) sum = __dadd_rn(sum, __dmul_rn((double)a[i], (double)b[i]));
        } else {
            #pragma unroll 8
            for (u32 i = lane; i < d; i += 16) {
                double difference = __dsub_rn((double)a[i], (double)b[i]);
                sum = __dadd_rn(sum, __dmul_rn(difference, difference));
            }
        }
        for (u32 h = 8; h > 0; h /= 2) sum = __dadd_rn(sum, __shfl_down_sync(FULL, sum, h, 16));
        bool found = false;
        Answer answer = {probe, build, 0};
        if (lane == 0 && there) {
            if (decision.cosine) {
                double root = __dsqrt_rn(__dmul_rn(decision.row_squares[probe], decision.column_squares[build]));
                found = sum >= __dmul_rn(decision.threshold, root);
                double distance = __dsub_rn(1.0, __ddiv_rn(sum, root));
                answer.distance = distance > 0 ? distance : 0.0;
            } else {
                found = sum <= decision.threshold;
                answer.distance = __dsqrt_rn(sum);
            }
        }
        answer_by_warp(found, answer, answers, state);
    }
}

// Answers candidates whose squared distance is a known whole number.
extern "C" __global__ void answer_whole(
    const u32* row_rows, const u32* column_rows, const u64* candidates, const u32* values, u32 limit,
    Answer* answers, State* state
) {
    u32 count = min(state->reserved, state->refused);
    for (u32 at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) {
        u32 probe = (u32)(candidates[at] >> 32), build = (u32)candidates[at];
        if (row_rows != 0) probe = row_rows[probe];
        if (column_rows != 0) build = column_rows[build];
        // Values are reduced by the limit.
        answers[at] = Answer{probe, build, __dsqrt_rn((double)(values[at] + limit))};
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) state->answered = count;
}
