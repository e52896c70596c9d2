// Which accesses to shared memory are not ordered?
//
// Kernels are compiled with the checks of ThreadSanitizer, but its library is not linked: its
// functions are defined below. For each byte of shared memory they remember the last write and the
// last reads, with thread and time. Two accesses of different threads race if at least one of them
// writes, they are not both atomic, and between them there was no barrier of the block and, within
// a warp, no __syncwarp. (Other warp operations do not order memory.)

namespace emulator {

#ifdef EMULATOR_RACES

// An access: its time, its thread, and its place in the source (a line, or an address of code).
struct Access {
    uint64_t place;
    // The number of barriers of all blocks so far, and of __syncwarps of the warp; 0 if there was
    // no access.
    uint32_t barriers, warp_syncs;
    uint16_t thread;
    // Whether other threads of the warp have read the byte since, and whether it was an atomic.
    bool shared_reads, atomic;
};

struct Cell {
    Access write;
    // The last read, and the last read by another warp.
    Access read, other;
};

static Cell* cells;
static uint32_t barriers;
static uint32_t warp_syncs[MOST_THREADS / 32];

static void begin_races() {
    if (!cells) cells = (Cell*)calloc(machine->shared_bytes, sizeof(Cell));
    barriers++;
}

static void races_barrier() { barriers++; }

// A __syncwarp of part of a warp counts for the whole warp, so some races may be missed, but none
// is reported wrongly.
static void races_warp(uint32_t warp, uint32_t) { warp_syncs[warp]++; }

static uint32_t line_of(uint64_t place) {
    return place < 1u << 24 ? (uint32_t)place : machine->line_of((const void*)place);
}

static void die_of_race(const char* now, const char* before, const Access& other, uint64_t place, const char* at)
    __attribute__((noreturn));
static void die_of_race(const char* now, const char* before, const Access& other, uint64_t place, const char* at) {
    const char* name = "dynamic shared memory";
    const char* begin = dynamic_memory;
    for (uint32_t i = 0; i < variable_count; i++) {
        if (at >= variables[i]->at && at < variables[i]->at + variables[i]->bytes) {
            name = variables[i]->name;
            begin = variables[i]->at;
        }
    }
    uint32_t line = line_of(place), other_line = line_of(other.place);
    self->site = {"a race", line};
    die("a race in shared memory: thread %u %s byte %u of `%s` at line %u, and thread %u %s it at line %u, with nothing "
        "that orders them",
        self->number, now, (uint32_t)(at - begin), name, line, other.thread, before, other_line);
}

// Returns whether an earlier access is not ordered before one of the running thread.
static inline bool races(const Access& earlier, bool atomic) {
    if (earlier.barriers != barriers || (atomic && earlier.atomic)) return false;
    const Thread& thread = *self;
    if (earlier.thread / 32u != thread.warp) return true;
    if (earlier.warp_syncs != warp_syncs[thread.warp]) return false;
    return earlier.thread != thread.number || earlier.shared_reads;
}

static void check_access(const void* address, uint32_t bytes, bool write, bool atomic, uint64_t place) {
    uint64_t offset = (uint64_t)((const char*)address - machine->shared);
    if (offset >= machine->shared_bytes || !self) return;
    const Thread& thread = *self;
    bool within = (const char*)address >= dynamic_memory &&
        (const char*)address + bytes <= dynamic_memory + launch->dynamic_bytes;
    for (uint32_t i = 0; i < variable_count && !within; i++) {
        within = (const char*)address >= variables[i]->at &&
            (const char*)address + bytes <= variables[i]->at + variables[i]->bytes;
    }
    if (!within) {
        self->site = {"an access outside shared memory", line_of(place)};
        die("%u bytes are %s outside the shared variables of the block", bytes, write ? "written" : "read");
    }
    Access mine = {place, barriers, warp_syncs[thread.warp], (uint16_t)thread.number, false, atomic};
    for (uint32_t i = 0; i < bytes; i++) {
        Cell& cell = cells[offset + i];
        const char* at = (const char*)address + i;
        const char* now = atomic ? "changes" : write ? "writes" : "reads";
        if (races(cell.write, atomic)) {
            die_of_race(now, cell.write.atomic ? "changed" : "wrote", cell.write, place, at);
        }
        if (write) {
            if (races(cell.read, atomic)) die_of_race(now, "read", cell.read, place, at);
            if (races(cell.other, atomic)) die_of_race(now, "read", cell.other, place, at);
            cell.write = mine;
            cell.read.barriers = cell.other.barriers = 0;
            continue;
        }
        Access read = mine;
        if (cell.read.barriers == barriers) {
            if (cell.read.thread / 32u != thread.warp) {
                cell.other = cell.read;
            } else if (cell.read.warp_syncs == read.warp_syncs) {
                read.shared_reads = cell.read.shared_reads || cell.read.thread != thread.number;
            }
        }
        cell.read = read;
    }
}

void note_read(const void* at, uint32_t bytes) { check_access(at, bytes, false, false, self->site.line); }
void note_write(const void* at, uint32_t bytes) { check_access(at, bytes, true, false, self->site.line); }
void note_atomic_at(const void* at, uint32_t bytes, const void* place) {
    check_access(at, bytes, true, true, (uint64_t)place);
}

#endif

}  // namespace emulator

#ifdef EMULATOR_RACES

#define EMULATOR_HOOK(name, bytes, write)                                                            \
    extern "C" EMULATOR_HIDDEN void name(void* at) {                                                 \
        emulator::check_access(at, bytes, write, false, (uint64_t)__builtin_return_address(0));              \
    }
EMULATOR_HOOK(__tsan_read1, 1, false)
EMULATOR_HOOK(__tsan_read2, 2, false)
EMULATOR_HOOK(__tsan_read4, 4, false)
EMULATOR_HOOK(__tsan_read8, 8, false)
EMULATOR_HOOK(__tsan_read16, 16, false)
EMULATOR_HOOK(__tsan_write1, 1, true)
EMULATOR_HOOK(__tsan_write2, 2, true)
EMULATOR_HOOK(__tsan_write4, 4, true)
EMULATOR_HOOK(__tsan_write8, 8, true)
EMULATOR_HOOK(__tsan_write16, 16, true)
EMULATOR_HOOK(__tsan_unaligned_read2, 2, false)
EMULATOR_HOOK(__tsan_unaligned_read4, 4, false)
EMULATOR_HOOK(__tsan_unaligned_read8, 8, false)
EMULATOR_HOOK(__tsan_unaligned_read16, 16, false)
EMULATOR_HOOK(__tsan_unaligned_write2, 2, true)
EMULATOR_HOOK(__tsan_unaligned_write4, 4, true)
EMULATOR_HOOK(__tsan_unaligned_write8, 8, true)
EMULATOR_HOOK(__tsan_unaligned_write16, 16, true)

extern "C" {
EMULATOR_HIDDEN void __tsan_read_range(void* at, size_t bytes) {
    emulator::check_access(at, bytes, false, false, (uint64_t)__builtin_return_address(0));
}
EMULATOR_HIDDEN void __tsan_write_range(void* at, size_t bytes) {
    emulator::check_access(at, bytes, true, false, (uint64_t)__builtin_return_address(0));
}
EMULATOR_HIDDEN void __tsan_init() {}
EMULATOR_HIDDEN void __tsan_func_entry(void*) {}
EMULATOR_HIDDEN void __tsan_func_exit() {}
EMULATOR_HIDDEN void __tsan_vptr_update(void**, void*) {}
}

#endif
