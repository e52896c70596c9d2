// Which sets share a rare token, early enough? Lists of a block of build sets, walked by probes.
//
// For each token, the sets of the block that have it in their prefix: an entry says where the token
// stands in the set, and holds the parity signature of the tokens from there on, 64 bits. A warp takes
// a probe, or a part of its prefix, and deals the entries of its tokens' lists out to its threads. If a
// pair is in the answer and the first token that it shares stands at i and j, then
//
// * min(n - i, m - j) is not below what it needs to share (position filter), and
// * of the tokens from i and j on, at most n + m - 2 needed - (i + j) have no partner, so the two
//   signatures differ in no more bits.
//
// An entry for which both hold survives. Entries lie in no particular order within a list, and lists
// in none among themselves.

#define DONE 0xffffffffu

struct Entry {
    u32 set;
    u32 position;
    u64 signature;
};

struct Survivor {
    u32 probe;
    u32 build;
    // Where the common token stands in the probe.
    u32 i;
};

// What the probes of a size meet.
struct Reach {
    u32 begin;
    u32 end;
};

// A probe and the part of its prefix that a warp looks at.
struct Item {
    u32 probe;
    u32 from;
    u32 to;
};

struct Lists {
    // Tokens below this stand in a single row, and have no list.
    u32 lonely;
    // The most frequent token.
    u32 top;
    u32* begins;
    u32* ends;
    Entry* entries;
};

__device__ __forceinline__ u64 bit_of(u32 token, u32 top) {
    return 1ull << ((top - token) % 64);
}

__device__ __forceinline__ u64 xor_of_warp(u64 value) {
    for (int step = 16; step > 0; step /= 2) value ^= __shfl_xor_sync(~0u, value, step);
    return value;
}

// The parity signature of a set, by a warp.
__device__ __forceinline__ u64 signature_of(const u32* tokens, u32 size, u32 top) {
    u64 mine = 0;
    for (u32 at = threadIdx.x % 32; at < size; at += 32) mine ^= bit_of(tokens[at], top);
    return xor_of_warp(mine);
}

// The xor of the values of the threads before this one in its warp.
__device__ __forceinline__ u64 xor_before(u64 value) {
    u64 sum = value;
    for (u32 distance = 1; distance < 32; distance *= 2) {
        u64 lower = __shfl_up_sync(~0u, sum, distance);
        if (threadIdx.x % 32 >= distance) sum ^= lower;
    }
    return sum ^ value;
}

// How long will the list of each token be? A warp a build set.
extern "C" __global__ void count_entries(
    Sets builds, const u32* classes, const u32* prefixes, u32 from, u32 to, Lists lists
) {
    u32 set = from + (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (set >= to) return;
    const u32* tokens = tokens_of(builds, set);
    u32 prefix = prefixes[classes[set]];
    for (u32 at = threadIdx.x % 32; at < prefix; at += 32) {
        u32 token = tokens[at];
        if (token >= lists.lonely) atomicAdd(&lists.ends[token - lists.lonely], 1);
    }
}

// Where does each list lie? A thread a token; lists are put wherever the next one may begin.
extern "C" __global__ void place_lists(Lists lists, u32 count, u32* taken) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    u32 lane = threadIdx.x % 32;
    u32 length = at < count ? lists.ends[at] : 0;
    u32 sum = length;
    for (u32 distance = 1; distance < 32; distance *= 2) {
        u32 lower = __shfl_up_sync(~0u, sum, distance);
        if (lane >= distance) sum += lower;
    }
    u32 base = 0;
    if (lane == 31) base = atomicAdd(taken, sum);
    base = __shfl_sync(~0u, base, 31) + sum - length;
    if (at < count) {
        lists.begins[at] = base;
        // Rises while the list is filled.
        lists.ends[at] = base;
    }
}

extern "C" __global__ void fill_lists(
    Sets builds, const u32* classes, const u32* prefixes, u32 from, u32 to, Lists lists
) {
    u32 set = from + (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (set >= to) return;
    const u32* tokens = tokens_of(builds, set);
    u32 prefix = prefixes[classes[set]];
    if (prefix == 0) return;
    u64 rest = signature_of(tokens, size_of(builds, set), lists.top);
    for (u32 first = 0; first < prefix; first += 32) {
        u32 at = first + threadIdx.x % 32;
        u32 token = at < prefix ? tokens[at] : 0;
        u64 bit = at < prefix ? bit_of(token, lists.top) : 0;
        u64 before = xor_before(bit);
        if (at < prefix && token >= lists.lonely) {
            u32 place = atomicAdd(&lists.ends[token - lists.lonely], 1);
            lists.entries[place] = {set, at, rest ^ before};
        }
        rest ^= xor_of_warp(bit);
    }
}

extern "C" __global__ void probe_lists(
    Sets probes, const u32* probe_classes, const Reach* reaches, Sets builds, Lists lists,
    const Item* items, u32 count, uint2* progress, u32 block_from, u32 block_to,
    Predicate predicate, u32 order, Survivor* survivors, u32 capacity, State* state
) {
    u32 which = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    u32 lane = threadIdx.x % 32;
    if (which >= count) return;
    uint2 resume = progress[which];
    if (resume.x == DONE) return;
    Item item = items[which];
    Reach reach = reaches[probe_classes[item.probe]];
    u32 from = max(reach.begin, block_from), to = min(reach.end, block_to);
    if (order == BEFORE) to = min(to, item.probe);
    if (from >= to) {
        if (lane == 0) progress[which].x = DONE;
        return;
    }
    const u32* xs = tokens_of(probes, item.probe);
    u32 n = size_of(probes, item.probe);
    // The signature of what follows: all, less the tokens before.
    u64 rest = signature_of(xs, n, lists.top);
    u64 skipped = 0;
    u32 begin = max(item.from, resume.x);
    for (u32 at = lane; at < begin; at += 32) skipped ^= bit_of(xs[at], lists.top);
    rest ^= xor_of_warp(skipped);
    u64 walked = 0;
    for (u32 first = begin; first < item.to; first += 32) {
        u32 i = first + lane;
        u32 token = i < item.to ? xs[i] : 0;
        u64 bit = i < item.to ? bit_of(token, lists.top) : 0;
        u64 signature = rest ^ xor_before(bit);
        rest ^= xor_of_warp(bit);
        u32 list = 0, length = 0;
        if (i < item.to && token >= lists.lonely) {
            list = lists.begins[token - lists.lonely];
            length = lists.ends[token - lists.lonely] - list;
        }
        // The lists one after the other: where each ends.
        u32 end = length;
        for (u32 distance = 1; distance < 32; distance *= 2) {
            u32 lower = __shfl_up_sync(~0u, end, distance);
            if (lane >= distance) end += lower;
        }
        u32 all = __shfl_sync(~0u, end, 31);
        for (u32 step = first == resume.x ? resume.y : 0; step < all; step += 32) {
            u32 at = step + lane;
            // The list that holds it: the first that ends after it.
            u32 owner = 0;
            for (u32 half = 16; half > 0; half /= 2) {
                u32 tried = __shfl_sync(~0u, end, owner + half - 1);
                if (tried <= at) owner += half;
            }
            u32 owner_end = __shfl_sync(~0u, end, owner);
            u32 owner_length = __shfl_sync(~0u, length, owner);
            u32 owner_list = __shfl_sync(~0u, list, owner);
            u64 own = __shfl_sync(~0u, signature, owner);
            bool survives = false;
            Survivor survivor = {item.probe, 0, first + owner};
            if (at < all) {
                Entry entry = lists.entries[owner_list + (at - (owner_end - owner_length))];
                survivor.build = entry.set;
                u32 i = survivor.i, j = entry.position;
                if (entry.set >= from && entry.set < to) {
                    u32 m = size_of(builds, entry.set);
                    int needed = least_overlap(predicate, n, m);
                    int left = (int)min(n - i, m - j);
                    int room = (int)n + (int)m - 2 * needed - (int)(i + j);
                    survives = left >= needed && __popcll(own ^ entry.signature) <= room;
                }
            }
            u32 mask = __ballot_sync(~0u, survives);
            if (mask == 0) {
                walked += min(32u, all - step);
                continue;
            }
            u32 base = 0;
            if (lane == 0) base = reserve(state, __popc(mask), capacity);
            base = __shfl_sync(~0u, base, 0);
            if (base == ~0u) {
                if (lane == 0) {
                    progress[which] = {first, step};
                    atomicAdd(&state->walked, walked);
                }
                return;
            }
            if (survives) survivors[base + __popc(mask & ((1u << lane) - 1))] = survivor;
            walked += min(32u, all - step);
        }
    }
    if (lane == 0) {
        progress[which].x = DONE;
        atomicAdd(&state->walked, walked);
    }
}

// Which survivors are in the answer? One thread a pair. A pair survives once for each token that its
// prefixes share; it is answered where the first one stands.
extern "C" __global__ void verify(
    Sets probes, Sets builds, const Survivor* survivors, u32 count, Predicate predicate,
    Answer* answers, State* state
) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    bool found = false;
    Answer answer = {0, 0, 0};
    if (at < count) {
        Survivor survivor = survivors[at];
        answer.probe = survivor.probe;
        answer.build = survivor.build;
        u32 n = size_of(probes, answer.probe), m = size_of(builds, answer.build);
        const u32* xs = tokens_of(probes, answer.probe);
        const u32* ys = tokens_of(builds, answer.build);
        Merged merged = merge(xs, n, ys, m, least_overlap(predicate, n, m));
        answer.overlap = merged.overlap;
        found = merged.overlap > 0 && merged.first == survivor.i &&
            accepts(predicate, n, m, merged.overlap);
    }
    answer_by_warp(found, answer, probes, builds, answers, state);
}
