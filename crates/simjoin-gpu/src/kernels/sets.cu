// Where does each set begin, and of which class is it? Sets lie in the order of their sizes, so that
// both follow from the classes, which are few: only these and the tokens need to be sent.

struct Class {
    // Its first set; where that begins, in tokens; the size of each.
    u64 offset;
    u32 start;
    u32 size;
};

// A thread a set, and one for the end of the last.
extern "C" __global__ void expand_classes(
    const Class* classes, u32 count, u32 first_class, u32 sets, u64* offsets, u32* class_of
) {
    u32 set = blockIdx.x * blockDim.x + threadIdx.x;
    if (set > sets) return;
    // The last class that begins no later.
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
