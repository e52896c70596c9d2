// Where does each set begin, and what is its size class? Sets are sorted by size, so both follow
// from the few size classes. Only these and the tokens need to be sent.

struct Class {
    // The position of its first set in tokens, the first set, and the size of each set.
    u64 offset;
    u32 start;
    u32 size;
};

// One thread per set, and one for the end of the last set.
extern "C" __global__ void expand_classes(
    const Class* classes, u32 count, u32 first_class, u32 sets, u64* offsets, u32* class_of
) {
    u32 set = blockIdx.x * blockDim.x + threadIdx.x;
    if (set > sets) return;
    // Find the last class that begins at or before the set.
    u32 low = 0, high = count;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (classes[middle].start <= set) low = middle;
        else high = middle;
    }
    Class mine = classes[low];
    offsets[set] = mine.offset + (u64)(set - mine.start) * mine.size;
    if (set < sets) class_of[set] = first_class + low;
}
