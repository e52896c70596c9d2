// Which images of two blocks of 128 are near each other? Compares by squared differences in f32.
//
// Blocks are stored coordinate by coordinate. Each of 256 threads takes eight rows and eight
// columns. A block processes up to CHUNK coordinates at a time, and stops as soon as no pair of the
// tile is near. Without coordinates every pair is a candidate.

#define SIDE 128
#define CHUNK 32

extern "C" __global__ void __launch_bounds__(256, 2) direct(
    const float* rows, u32 row_count, const float* columns, u32 column_count, u32 m, float near,
    float sure, u32 itself, u32 only_counts, const Tile* tiles, u32 tile_count, u8* done,
    u64* candidates, u32 capacity, State* state
) {
    __shared__ __align__(16) float left[CHUNK][SIDE];
    __shared__ __align__(16) float right[CHUNK][SIDE];
    u32 tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    u64 counted = 0;
    for (u32 at = blockIdx.x; at < tile_count; at += gridDim.x) {
        if (__syncthreads_or(is_full(state))) break;
        if (done[at]) continue;
        Tile tile = tiles[at];
        float sums[8][8] = {};
        bool alive = true;
        for (u32 from = 0; from < m; from += CHUNK) {
            u32 chunk = min(m - from, CHUNK);
            __syncthreads();
            const float* a = rows + ((u64)tile.row * m + from) * SIDE;
            const float* b = columns + ((u64)tile.column * m + from) * SIDE;
            for (u32 k = 4 * threadIdx.x; k < chunk * SIDE; k += 4 * 256) {
                copy_16(shared_address(&left[0][0] + k), a + k);
                copy_16(shared_address(&right[0][0] + k), b + k);
            }
            end_group();
            await_groups<0>();
            __syncthreads();
            #pragma unroll 2
            for (u32 i = 0; i < chunk; i++) {
                __align__(16) float x[8], y[8];
                *(float4*)&x[0] = *(const float4*)&left[i][4 * ty];
                *(float4*)&x[4] = *(const float4*)&left[i][64 + 4 * ty];
                *(float4*)&y[0] = *(const float4*)&right[i][4 * tx];
                *(float4*)&y[4] = *(const float4*)&right[i][64 + 4 * tx];
                #pragma unroll
                for (u32 r = 0; r < 8; r++) {
                    #pragma unroll
                    for (u32 c = 0; c < 8; c++) {
                        float difference = x[r] - y[c];
                        sums[r][c] += difference * difference;
                    }
                }
            }
            float least = sums[0][0];
            #pragma unroll
            for (u32 k = 1; k < 64; k++) least = fminf(least, sums[k / 8][k % 8]);
            alive = least <= near;
            if (from + CHUNK < m && !__syncthreads_or(alive)) break;
        }
        if (!__syncthreads_or(alive)) {
            if (threadIdx.x == 0) done[at] = 1;
            continue;
        }
        u64 close = 0;
        u32 certain = 0;
        u32 first_row = tile.row * SIDE + 4 * ty, first_column = tile.column * SIDE + 4 * tx;
        if (alive) {
            #pragma unroll
            for (u32 k = 0; k < 64; k++) {
                float sum = sums[k / 8][k % 8];
                u32 row = first_row + k / 32 * 64 + k / 8 % 4;
                u32 column = first_column + k / 4 % 2 * 64 + k % 4;
                bool wanted = sum <= near && row < row_count && column < column_count;
                if (wanted && (!itself || row < column)) {
                    if (only_counts && sum <= sure) certain++;
                    else close |= 1ull << k;
                }
            }
        }
        u32 to = places(__popcll(close), state, capacity);
        // A tile that found no space is compared again as a whole.
        if (to == ~0u) break;
        counted += certain;
        for (; close != 0; close &= close - 1) {
            u32 k = __ffsll(close) - 1;
            u32 row = first_row + k / 32 * 64 + k / 8 % 4;
            u32 column = first_column + k / 4 % 2 * 64 + k % 4;
            candidates[to++] = (u64)row << 32 | column;
        }
        if (threadIdx.x == 0) done[at] = 1;
    }
    for (int step = 16; step > 0; step /= 2) counted += __shfl_xor_sync(~0u, counted, step);
    if (threadIdx.x % 32 == 0 && counted != 0) atomicAdd(&state->counted, counted);
}
