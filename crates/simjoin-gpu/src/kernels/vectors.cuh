// What do the kernels for vectors share? The state of a worker, and how a tile stores its
// candidates.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define NOWHERE 4611686018427387904.0f
#define INFINITE __int_as_float(0x7f800000)

// The state that a worker and its kernels share.
struct State {
    // The number of requested places for candidates, and the first request that was refused.
    u32 reserved;
    u32 refused;
    u32 answered;
    u32 unused;
    // The number of pairs that are only counted.
    u64 counted;
};

// Returns the larger of two lengths, or of their squares. NaN is larger than anything.
__device__ __forceinline__ double longer(double most, double other) {
    return most != most || other <= most ? most : other;
}

// A block of rows and a block of columns.
struct Tile {
    u32 row;
    u32 column;
};

// Reserves places for candidates. Returns ~0 if there is no space. A refused request records its
// position: all places before it will be filled, and no later request succeeds.
__device__ __forceinline__ u32 reserve(State* state, u32 count, u32 capacity) {
    u32 at = atomicAdd(&state->reserved, count);
    if ((u64)at + count <= capacity) return at;
    atomicMin(&state->refused, at);
    return ~0u;
}

__device__ __forceinline__ bool is_full(const State* state) {
    return *(volatile const u32*)&state->refused != ~0u;
}

// Returns the place where each thread of a block may write its candidates; ~0 if they do not all
// fit. All threads of the block must call it.
__device__ __forceinline__ u32 places(u32 count, State* state, u32 capacity) {
    __shared__ u32 sums[32];
    __shared__ u32 base;
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    u32 rank = count;
    #pragma unroll
    for (u32 distance = 1; distance < 32; distance *= 2) {
        u32 lower = __shfl_up_sync(~0u, rank, distance);
        if (lane >= distance) rank += lower;
    }
    if (lane == 31) sums[warp] = rank;
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 all = 0;
        for (u32 w = 0; w < warps; w++) {
            u32 of = sums[w];
            sums[w] = all;
            all += of;
        }
        base = all == 0 ? 0 : reserve(state, all, capacity);
    }
    __syncthreads();
    u32 first = base, before = sums[warp] + rank - count;
    __syncthreads();
    return first == ~0u ? ~0u : first + before;
}
