// Which sets share a rare token early enough? Makes lists of a block of build sets, which probes
// walk.
//
// A token's list has an entry for each set of the block that has the token in its prefix. The entry
// holds the position of the token in the set, and the 64-bit parity signature of the tokens from
// there on. A warp takes a probe, or a part of its prefix, and spreads the entries of its tokens'
// lists over its threads. If a pair is in the answer, and its first common token is at the
// positions i and j, then
//
// * min(n - i, m - j) is not below the required overlap (position filter), and
// * of the tokens from i and j on, at most n + m - 2 needed - (i + j) have no partner, so the two
//   signatures differ in no more bits.
//
// An entry survives if both hold, unless the check shows that its token is not the first common
// one.
//
// A list is cut by the numbers of its sets, which rise with their sizes: a section holds the
// entries of an equal part of the block. The sections of a list are contiguous, so the part of it
// that a probe may meet is a range of entries. Entries within a section, and lists, are in no
// particular order.

#define DONE 0xffffffffu
#define ITEM 256

struct Entry {
    u32 set;
    u32 position;
    u64 signature;
};

struct Survivor {
    u32 probe;
    u32 build;
    // The position of the common token in the probe.
    u32 i;
};

// The sets of one size. An item is a set and ITEM tokens of its prefix, for one warp. Items are
// numbered set by set.
struct Class {
    // The first item, the first set, and the number of items of each set.
    u64 item;
    u32 set;
    u32 each;
    u32 prefix;
    // The range of build sets that the sets meet, if they are probes.
    u32 begin;
    u32 end;
};

struct Classes {
    const Class* all;
    u32 count;
};

struct Item {
    u32 set;
    // The range of its prefix.
    u32 from;
    u32 to;
};

// Returns the class that an item belongs to: the last one that begins at or before it.
__device__ __forceinline__ Class class_of(const Classes& classes, u64 item) {
    u32 low = 0, high = classes.count;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (classes.all[middle].item <= item) low = middle;
        else high = middle;
    }
    return classes.all[low];
}

__device__ __forceinline__ Item item_of(const Class& of, u64 number) {
    u32 place = (u32)(number - of.item);
    u32 from = place % of.each * ITEM;
    return {of.set + place / of.each, from, min(of.prefix, from + ITEM)};
}

struct Lists {
    // Tokens below this are unique, and have no list.
    u32 unique;
    // The most frequent token.
    u32 top;
    // The range of sets in the block.
    u32 from;
    u32 to;
    // The number of sections of a list, a power of two up to 32, and of sets in each.
    u32 sections;
    u32 section_sets;
    // The start and the end of each section, list by list.
    u32* begins;
    u32* ends;
    Entry* entries;
};

// Returns the section that holds the entry of a token and a set.
__device__ __forceinline__ u32 section_of(const Lists& lists, u32 token, u32 set) {
    return (token - lists.unique) * lists.sections + (set - lists.from) / lists.section_sets;
}

__device__ __forceinline__ u64 bit_of(u32 token, u32 top) {
    return 1ull << ((top - token) % 64);
}

__device__ __forceinline__ u64 xor_of_warp(u64 value) {
    for (int step = 16; step > 0; step /= 2) value ^= __shfl_xor_sync(~0u, value, step);
    return value;
}

// Returns the parity signature of a range of a set's tokens, computed by a warp.
__device__ __forceinline__ u64 signature_of(const u32* tokens, u32 from, u32 to, u32 top) {
    u64 mine = 0;
    for (u32 at = from + threadIdx.x % 32; at < to; at += 32) mine ^= bit_of(tokens[at], top);
    return xor_of_warp(mine);
}

// Returns the xor of the values of the threads before this one in its warp.
__device__ __forceinline__ u64 xor_before(u64 value) {
    u64 sum = value;
    for (u32 distance = 1; distance < 32; distance *= 2) {
        u64 lower = __shfl_up_sync(~0u, sum, distance);
        if (threadIdx.x % 32 >= distance) sum ^= lower;
    }
    return sum ^ value;
}

// How long will each section be? One warp per item of the build sets, from first_item on.
extern "C" __global__ void count_entries(
    Sets builds, Classes classes, u64 first_item, u32 count, Lists lists
) {
    u32 which = warp_of_grid();
    if (which >= count) return;
    u64 number = first_item + which;
    Item item = item_of(class_of(classes, number), number);
    const u32* tokens = tokens_of(builds, item.set);
    for (u32 at = item.from + threadIdx.x % 32; at < item.to; at += 32) {
        u32 token = tokens[at];
        if (token >= lists.unique) atomicAdd(&lists.ends[section_of(lists, token, item.set)], 1);
    }
}

// Where does each section begin? One thread per section. The sections of a warp are contiguous, and
// so are those of a list.
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
        // Rises while the section is filled.
        lists.ends[at] = base;
    }
}

extern "C" __global__ void fill_lists(
    Sets builds, Classes classes, u64 first_item, u32 count, Lists lists
) {
    u32 which = warp_of_grid();
    if (which >= count) return;
    u64 number = first_item + which;
    Item item = item_of(class_of(classes, number), number);
    const u32* tokens = tokens_of(builds, item.set);
    u64 rest = signature_of(tokens, item.from, size_of(builds, item.set), lists.top);
    for (u32 first = item.from; first < item.to; first += 32) {
        u32 at = first + threadIdx.x % 32;
        u32 token = at < item.to ? tokens[at] : 0;
        u64 bit = at < item.to ? bit_of(token, lists.top) : 0;
        u64 before = xor_before(bit);
        if (at < item.to && token >= lists.unique) {
            u32 place = atomicAdd(&lists.ends[section_of(lists, token, item.set)], 1);
            lists.entries[place] = {item.set, at, rest ^ before};
        }
        rest ^= xor_of_warp(bit);
    }
}

// Which entries survive? One warp per item of the probes, from first_item on.
extern "C" __global__ void probe_lists(
    Sets probes, Classes classes, Sets builds, Lists lists, u64 first_item, u32 count,
    uint2* progress, Predicate predicate, u32 order, Survivor* survivors, u32 capacity, State* state
) {
    u32 which = warp_of_grid();
    u32 lane = threadIdx.x % 32;
    if (which >= count) return;
    uint2 resume = progress[which];
    if (resume.x == DONE) return;
    Class mine = class_of(classes, first_item + which);
    Item item = item_of(mine, first_item + which);
    u32 probe = item.set;
    u32 from = max(mine.begin, lists.from), to = min(mine.end, lists.to);
    if (order == BEFORE) to = min(to, probe);
    if (from >= to) {
        if (lane == 0) progress[which].x = DONE;
        return;
    }
    const u32* xs = tokens_of(probes, probe);
    u32 n = size_of(probes, probe);
    u32 begin = max(item.from, resume.x);
    // The signature of the tokens from here on.
    u64 rest = signature_of(xs, begin, n, lists.top);
    u64 walked = 0;
    for (u32 first = begin; first < item.to; first += 32) {
        u32 i = first + lane;
        u32 token = i < item.to ? xs[i] : 0;
        u64 bit = i < item.to ? bit_of(token, lists.top) : 0;
        u64 signature = rest ^ xor_before(bit);
        rest ^= xor_of_warp(bit);
        u32 list = 0, length = 0;
        if (i < item.to && token >= lists.unique) {
            list = lists.begins[section_of(lists, token, from)];
            length = lists.ends[section_of(lists, token, to - 1)] - list;
        }
        // The end of each list, if they are concatenated.
        u32 end = length;
        for (u32 distance = 1; distance < 32; distance *= 2) {
            u32 lower = __shfl_up_sync(~0u, end, distance);
            if (lane >= distance) end += lower;
        }
        u32 all = __shfl_sync(~0u, end, 31);
        for (u32 step = first == resume.x ? resume.y : 0; step < all; step += 32) {
            u32 at = step + lane;
            // Find the list of this entry: the first that ends after it.
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
            Survivor survivor = {probe, 0, first + owner};
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
                    // If the tokens just before are equal too, this one is not the first.
                    if (survives && i > 0 && j > 0) {
                        survives = xs[i - 1] != tokens_of(builds, entry.set)[j - 1];
                    }
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

// Decides about a survivor after the merge of its sets. A pair survives once for each common token
// of its prefixes, and is answered at the first one.
__device__ __forceinline__ bool decide(
    const Survivor& survivor, const Merged& merged, u32 n, u32 m, const Predicate& predicate,
    Answer& answer
) {
    answer = {survivor.probe, survivor.build, merged.overlap};
    return merged.overlap > 0 && merged.first == survivor.i && accepts(predicate, n, m, merged.overlap);
}

// Which survivors are in the answer? Warps take 32 of them at a time, and each thread merges a
// pair. Long merges are deferred.
extern "C" __global__ void verify(
    Sets probes, Sets builds, const Survivor* survivors, u32* later, Predicate predicate,
    Answer* answers, State* state
) {
    u32 count = survivors_of(state);
    for (u32 from; (from = take_survivors(state)) != ~0u;) {
        u32 at = from + threadIdx.x % 32;
        bool found = false, deferred = false;
        Answer answer = {0, 0, 0};
        if (at < count) {
            Survivor survivor = survivors[at];
            u32 n = size_of(probes, survivor.probe), m = size_of(builds, survivor.build);
            const u32* xs = tokens_of(probes, survivor.probe);
            const u32* ys = tokens_of(builds, survivor.build);
            int needed = least_overlap(predicate, n, m);
            Merged merged = merge(xs, n, ys, m, needed, survivor.i, STEPS);
            deferred = merged.unfinished;
            found = !deferred && decide(survivor, merged, n, m, predicate, answer);
        }
        defer_by_warp(deferred, at, later, state);
        answer_by_warp(found, answer, probes, builds, answers, state);
    }
}

// Which deferred survivors are in the answer? One warp per pair.
extern "C" __global__ void verify_deferred(
    Sets probes, Sets builds, const Survivor* survivors, const u32* later, Predicate predicate,
    Answer* answers, State* state
) {
    for (u32 at; (at = take_deferred(later, state)) != ~0u;) {
        Survivor survivor = survivors[at];
        u32 n = size_of(probes, survivor.probe), m = size_of(builds, survivor.build);
        const u32* xs = tokens_of(probes, survivor.probe);
        const u32* ys = tokens_of(builds, survivor.build);
        Answer answer;
        Merged merged = merge_by_warp(xs, n, ys, m, least_overlap(predicate, n, m));
        bool found = decide(survivor, merged, n, m, predicate, answer);
        answer_by_warp(found && threadIdx.x % 32 == 0, answer, probes, builds, answers, state);
    }
}
