// Which rows are near each other, by their products? |x - y|^2 = |x|^2 + |y|^2 - 2 x.y on tensor
// cores.
//
// Rows are f16, summed in f32 (BYTES 0), or bytes, summed in whole numbers (BYTES 1). Either way a
// row consists of pieces of 128 bytes. In shared memory the 16 bytes `j` of row `r` are at r *
// 128 + (j ^ r % 8) * 16, where neither ldmatrix nor wgmma accesses a bank twice.
//
// A tile is ROWS rows by COLUMNS columns. Blocks of 256 threads go from tile to tile. Copies run
// one or two pieces ahead, into the next tile too, so that they continue while the sums of a tile
// are compared.
//
// Up to HELD candidates are collected in shared memory and written out together: most tiles have a
// few, and reserving space in global memory takes as long as a large part of a tile. Tiles count as
// done when their candidates are written. Tiles that found no space are compared again.
//
// With f16, a candidate has x.y >= row[x] + column[y], where row and column are the thresholds.
// With bytes it has 2 x.y - column[y] >= row[x], where column[y] = |y|^2 and row[x] = |x|^2 -
// limit: this is the decision itself.
//
// WGMMA 1 is for compute capability 9.0: a warpgroup multiplies 64 rows by all columns, directly
// from shared memory. Otherwise warps multiply 64 rows by a quarter of the columns, by mma.sync.

#define ROWS 128
#define STAGE_BYTES ((ROWS + COLUMNS) * 128)
// The number of tiles whose thresholds are in shared memory: the current one, and those that copies
// have reached.
#define SLOTS 4
#define SLOT_BYTES ((ROWS + COLUMNS) * 4)

#if WGMMA
#define TALL 1
#define BROAD (COLUMNS / 8)
// Two pieces are being multiplied and must not be overwritten.
#define AHEAD (STAGES - 2)
#else
#define TALL 4
#define BROAD (COLUMNS / 32)
#define AHEAD (STAGES - 1)
#endif
// Groups of four sums.
#define FOURS (TALL * BROAD)
#define WORDS (FOURS / 8)

#if BYTES
typedef int Sum;
#define REGISTER "+r"
#else
typedef float Sum;
#define REGISTER "+f"
#endif

__device__ __forceinline__ u32 place(u32 row, u32 piece) {
    return row * 128 + (piece ^ row % 8) * 16;
}

#if WGMMA
// Returns the descriptor of a matrix: rows of 128 bytes, swizzled in groups of eight rows (1,024
// bytes).
__device__ __forceinline__ u64 descriptor(u32 address) {
    return (u64)(address >> 4 & 0x3fff) | 1ull << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

#define FOUR(j) REGISTER(sums[0][j][0]), REGISTER(sums[0][j][1]), REGISTER(sums[0][j][2]), REGISTER(sums[0][j][3])
#define SIXTEEN(j) FOUR(j), FOUR(j + 1), FOUR(j + 2), FOUR(j + 3)

// Adds the products of 32 bytes of each row. `more` is 0 for the first ones.
__device__ __forceinline__ void multiply(Sum (&sums)[TALL][BROAD][4], u64 a, u64 b, u32 more) {
    asm volatile(
        "{ .reg .pred more; setp.ne.b32 more, %130, 0; "
#if BYTES
        "wgmma.mma_async.sync.aligned.m64n256k32.s32.u8.u8 "
#else
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 "
#endif
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
        "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"
        "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"
        "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,"
        "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, "
#if BYTES
        "%128, %129, more; }"
#else
        "%128, %129, more, 1, 1, 0, 0; }"
#endif
        : SIXTEEN(0), SIXTEEN(4), SIXTEEN(8), SIXTEEN(12), SIXTEEN(16), SIXTEEN(20), SIXTEEN(24), SIXTEEN(28)
        : "l"(a), "l"(b), "r"(more));
}

template <int LEFT>
__device__ __forceinline__ void await_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
#else
// Adds the products of 32 bytes of 16 rows and 8 columns.
__device__ __forceinline__ void multiply(Sum (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile(
#if BYTES
        "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 "
#else
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
#endif
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : REGISTER(sum[0]), REGISTER(sum[1]), REGISTER(sum[2]), REGISTER(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

// Rows or columns on the device, with their thresholds.
struct Matrix {
    const u8* rows;
    const Sum* least;
    // The thresholds of pairs that are surely in the answer; unused for bytes.
    const Sum* surely;
    u32 count;
};

extern "C" __global__ void __launch_bounds__(256, 1) multiply_tiles(
    Matrix left, Matrix right, u32 pieces, u32 itself, u32 only_counts,
    const Tile* tiles, u32 tile_count, u8* done, u64* candidates, u32* values,
    u32 capacity, State* state
) {
    extern __shared__ __align__(128) u8 unaligned[];
    // Swizzling depends on addresses.
    u8* memory = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
    u32 stages = shared_address(memory), slots = stages + STAGES * STAGE_BYTES;
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
#if WGMMA
    u32 warp_row = warp * 16, warp_column = 0;
    u32 group_row = warp / 4 * 64;
#else
    u32 warp_row = warp / 4 * 64, warp_column = warp % 4 * (COLUMNS / 4);
#endif
    // Returns the next tile that is not done, from a place on.
    auto next = [=](u32 at) {
        while (at < tile_count && done[at]) at += gridDim.x;
        return at;
    };
    u64 width = (u64)pieces * 128;
    // The position of copies: the tile, its number among this block's tiles, the piece and the
    // step.
    u32 ahead_at = next(blockIdx.x), ahead_tile = 0, ahead_piece = 0, ahead_step = 0;
    // This thread copies 16 bytes of every 32nd row of each piece.
    u32 copied_row = threadIdx.x / 8, copied_piece = threadIdx.x % 8;
    const u8* from_left = 0;
    const u8* from_right = 0;
    auto copy_ahead = [&]() {
        if (ahead_at < tile_count) {
            if (ahead_piece == 0) {
                Tile tile = tiles[ahead_at];
                u64 row = (u64)tile.row * ROWS, column = (u64)tile.column * COLUMNS;
                from_left = left.rows + (row + copied_row) * width + copied_piece * 16;
                from_right = right.rows + (column + copied_row) * width + copied_piece * 16;
                u32 slot = slots + ahead_tile % SLOTS * SLOT_BYTES;
                if (threadIdx.x < ROWS / 4) copy_16(slot + threadIdx.x * 16, left.least + row + threadIdx.x * 4);
                else if (threadIdx.x < (ROWS + COLUMNS) / 4) {
                    copy_16(slot + threadIdx.x * 16, right.least + column + threadIdx.x * 4 - ROWS);
                }
            }
            u32 stage = stages + ahead_step % STAGES * STAGE_BYTES;
            stage += place(copied_row, copied_piece);
            // Step from row to row, so that few addresses are in registers.
            const u8* from = from_left;
            #pragma unroll
            for (u32 r = 0; r < ROWS; r += 32) {
                copy_16(stage + r * 128, from);
                asm volatile("add.u64 %0, %0, %1;" : "+l"(from) : "l"(32 * width));
            }
            from = from_right;
            #pragma unroll
            for (u32 r = 0; r < COLUMNS; r += 32) {
                copy_16(stage + (ROWS + r) * 128, from);
                asm volatile("add.u64 %0, %0, %1;" : "+l"(from) : "l"(32 * width));
            }
            from_left += 128;
            from_right += 128;
            ahead_step++;
            if (++ahead_piece == pieces) {
                ahead_piece = 0;
                ahead_tile++;
                ahead_at = next(ahead_at + gridDim.x);
            }
        }
        end_group();
    };
    for (u32 k = 0; k < AHEAD; k++) copy_ahead();

    u64* held_pairs = (u64*)(memory + STAGES * STAGE_BYTES + SLOTS * SLOT_BYTES);
    u32* held_values = (u32*)(held_pairs + HELD);
    __shared__ u32 held_count, held_base;
    if (threadIdx.x == 0) held_count = 0;
    // The number of collected candidates before the current tile; the first tile that is not done;
    // and the pairs counted in tiles from there on, which count once these tiles are done.
    u32 held = 0, pending = blockIdx.x;
    u64 counted = 0, since = 0;
    // Writes out the collected candidates and marks the tiles before `end` as done. Returns whether
    // there was space.
    auto write_out = [&](u32 end) {
        __syncthreads();
        if (threadIdx.x == 0) {
            held_base = held == 0 ? 0 : reserve(state, held, capacity);
            held_count = 0;
        }
        __syncthreads();
        u32 base = held_base;
        if (base == ~0u) return false;
        for (u32 k = threadIdx.x; k < held; k += 256) {
            candidates[base + k] = held_pairs[k];
#if BYTES
            values[base + k] = held_values[k];
#endif
        }
        for (u64 t = pending + (u64)threadIdx.x * gridDim.x; t < end; t += 256ull * gridDim.x) done[t] = 1;
        held = 0;
        // The first of this block's tiles that is not done.
        pending = blockIdx.x + (end - blockIdx.x + gridDim.x - 1) / gridDim.x * gridDim.x;
        counted += since;
        since = 0;
        __syncthreads();
        return true;
    };
    u32 step = 0, ordinal = 0, at = next(blockIdx.x);
    for (; at < tile_count; at = next(at + gridDim.x), ordinal++) {
        Sum sums[TALL][BROAD][4];
#if !WGMMA
        #pragma unroll
        for (u32 i = 0; i < TALL; i++) {
            #pragma unroll
            for (u32 j = 0; j < BROAD; j++) {
                #pragma unroll
                for (u32 k = 0; k < 4; k++) sums[i][j][k] = 0;
            }
        }
#endif
        for (u32 piece = 0; piece < pieces; piece++, step++) {
            await_groups<AHEAD - 1>();
#if WGMMA
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
            __syncthreads();
#if !WGMMA
            copy_ahead();
#endif
            u32 a_at = stages + step % STAGES * STAGE_BYTES, b_at = a_at + ROWS * 128;
#if WGMMA
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
            u64 a = descriptor(a_at + group_row * 128), b = descriptor(b_at);
            #pragma unroll
            for (u32 k = 0; k < 4; k++) multiply(sums, a + 2 * k, b + 2 * k, piece + k);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            // Copy meanwhile: the products before the last ones have read their operands.
            copy_ahead();
            await_products<1>();
#else
            #pragma unroll
            for (u32 k = 0; k < 4; k++) {
                u32 a[TALL][4];
                #pragma unroll
                for (u32 i = 0; i < TALL; i++) {
                    load_matrices(a_at + place(warp_row + i * 16 + lane % 16, 2 * k + lane / 16), a[i]);
                }
                #pragma unroll
                for (u32 j = 0; j < BROAD; j += 2) {
                    u32 b[4];
                    u32 column = warp_column + j * 8 + lane / 16 * 8 + lane % 8;
                    load_matrices(b_at + place(column, 2 * k + lane / 8 % 2), b);
                    #pragma unroll
                    for (u32 i = 0; i < TALL; i++) {
                        multiply(sums[i][j], a[i], b[0], b[1]);
                        multiply(sums[i][j + 1], a[i], b[2], b[3]);
                    }
                }
            }
#endif
        }
#if WGMMA
        await_products<0>();
        #pragma unroll
        for (u32 j = 0; j < BROAD; j++) asm volatile("" : FOUR(j) :: "memory");
#endif
        // The thresholds of rows and columns.
        const Sum* row_least = (const Sum*)(memory + STAGES * STAGE_BYTES + ordinal % SLOTS * SLOT_BYTES);
        const Sum* column_least = row_least + ROWS + warp_column + quad * 2;
        Sum rows_ask[2 * TALL];
        #pragma unroll
        for (u32 i = 0; i < 2 * TALL; i++) rows_ask[i] = row_least[warp_row + i * 8 + group];
        // Returns the nearness of a sum, without the row's threshold for f16. For bytes it is
        // negative if the pair is not near.
        auto nearness = [&](u32 i, u32 j, u32 k, Sum ask) {
#if BYTES
            return 2 * sums[i][j][k] - ask - rows_ask[2 * i + k / 2];
#else
            return sums[i][j][k] - ask;
#endif
        };
        auto is_near = [&](u32 i, u32 j, u32 k, Sum ask) {
#if BYTES
            return nearness(i, j, k, ask) >= 0;
#else
            return nearness(i, j, k, ask) >= rows_ask[2 * i + k / 2];
#endif
        };
        // Hides from the compiler that it has seen a number before, so that sums are compared again
        // rather than kept.
        auto anew = [](Sum number) {
            asm volatile("" : REGISTER(number));
            return number;
        };
        // Which groups of four sums contain a near pair? One bit each.
        u32 fours = 0;
        #pragma unroll
        for (u32 j = 0; j < BROAD; j++) {
            Sum ask[2] = {column_least[j * 8], column_least[j * 8 + 1]};
            #pragma unroll
            for (u32 i = 0; i < TALL; i++) {
                bool any = is_near(i, j, 0, ask[0]) || is_near(i, j, 1, ask[1]) ||
                    is_near(i, j, 2, ask[0]) || is_near(i, j, 3, ask[1]);
                fours |= (u32)any << (i * BROAD + j);
            }
            // Load the thresholds of columns when needed, not all in advance.
            if (j % 4 == 3) asm volatile("" ::: "memory");
        }
        bool overflows = false;
        u32 close[WORDS];
        // The candidates of this tile, and its pairs that are only counted, which count once this
        // tile is done.
        u32 count = 0, sure = 0, first_row = 0, first_column = 0;
        if (__any_sync(~0u, fours != 0)) {
            Tile tile = tiles[at];
            first_row = tile.row * ROWS + warp_row + group;
            first_column = tile.column * COLUMNS + warp_column + quad * 2;
            #pragma unroll
            for (u32 word = 0; word < WORDS; word++) close[word] = 0;
            #pragma unroll
            for (u32 four = 0; four < FOURS; four++) {
                if (fours >> four & 1) {
                    u32 i = four / BROAD, j = four % BROAD;
                    #pragma unroll
                    for (u32 k = 0; k < 4; k++) {
                        u32 row = first_row + i * 16 + k / 2 * 8, column = first_column + j * 8 + k % 2;
                        bool near = is_near(i, j, k, anew(column_least[j * 8 + k % 2]));
                        near = near && row < left.count && column < right.count && (!itself || row < column);
                        if (near && only_counts) {
#if BYTES
                            sure++;
                            near = false;
#else
                            if (sums[i][j][k] - right.surely[column] >= left.surely[row]) {
                                sure++;
                                near = false;
                            }
#endif
                        }
                        close[four / 8] |= (u32)near << (four % 8 * 4 + k);
                    }
                }
            }
            #pragma unroll
            for (u32 word = 0; word < WORDS; word++) count += __popc(close[word]);
        }
        // Writes a thread's candidates from a place on.
        auto put = [&](u64* pairs, u32* whole, u32 to) {
            #pragma unroll
            for (u32 four = 0; four < FOURS; four++) {
                if (close[four / 8] >> (four % 8 * 4) & 15) {
                    u32 i = four / BROAD, j = four % BROAD;
                    #pragma unroll
                    for (u32 k = 0; k < 4; k++) {
                        if (close[four / 8] >> (four % 8 * 4 + k) & 1) {
                            u32 row = first_row + i * 16 + k / 2 * 8, column = first_column + j * 8 + k % 2;
                            pairs[to] = (u64)row << 32 | column;
#if BYTES
                            // The squared distance less the limit.
                            whole[to] = (u32)-nearness(i, j, k, anew(column_least[j * 8 + k % 2]));
#endif
                            to++;
                        }
                    }
                }
            }
        };
        if (__any_sync(~0u, count != 0)) {
            u32 rank = count;
            #pragma unroll
            for (u32 distance = 1; distance < 32; distance *= 2) {
                u32 lower = __shfl_up_sync(~0u, rank, distance);
                if (lane >= distance) rank += lower;
            }
            u32 base = 0;
            if (lane == 31) base = atomicAdd(&held_count, rank);
            base = __shfl_sync(~0u, base, 31);
            overflows = base + __shfl_sync(~0u, rank, 31) > HELD;
            if (!overflows && count != 0) put(held_pairs, held_values, base + rank - count);
        }
        if (__syncthreads_or(overflows)) {
            // The candidates do not fit: the tiles before are written out, then this one
            // separately.
            if (!write_out(at)) break;
            u32 to = places(count, state, capacity);
            // A tile that found no space is compared again as a whole.
            if (to == ~0u) break;
            if (count != 0) put(candidates, values, to);
            counted += sure;
            pending = at + gridDim.x;
            if (threadIdx.x == 0) done[at] = 1;
            continue;
        }
        held = held_count;
        since += sure;
        if (held > HELD / 2 && !write_out(at + 1)) break;
    }
    if (at >= tile_count) write_out(tile_count);
    await_groups<0>();
    for (int lanes = 16; lanes > 0; lanes /= 2) counted += __shfl_xor_sync(~0u, counted, lanes);
    if (lane == 0 && counted != 0) atomicAdd(&state->counted, counted);
}
