// What do compiled kernels, the code that runs their threads, and the driver share?
//
// Included before everything else, in kernels and in runtime.cc. No header of the C++ library is included
// anywhere: kernels compile in a fraction of the time without.
#pragma once

typedef __SIZE_TYPE__ size_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __INT32_TYPE__ int32_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __UINTPTR_TYPE__ uintptr_t;

#define EMULATOR_HIDDEN __attribute__((visibility("hidden")))
// What the device itself does is no access of the kernel's: the check for races does not look at it.
#define EMULATOR_OWN __attribute__((no_sanitize("thread", "undefined")))

namespace emulator {

// A place in a kernel's source: what is executed there, and the line.
struct Site {
    const char* what;
    uint32_t line;
};

static inline bool operator==(Site a, Site b) { return a.line == b.line && a.what == b.what; }

struct Dim {
    uint32_t x, y, z;
};

// A copy by cp.async that has not arrived.
struct Copy {
    char* to;
    const char* from;
};

// Copies of a thread that have not arrived, and where each group of them ends.
struct Copies {
    Copy* list;
    uint32_t from, to, room;
    uint32_t groups[64];
    uint32_t groups_from, groups_to;
    // What arrived by cp.async since the last fence.proxy.async, which wgmma must not read yet.
    char *unfenced_from, *unfenced_to;
};

// A thread of a block: a fiber with a stack of its own. What is used at every switch is in one line of the cache.
struct alignas(64) Thread {
    void* stack_pointer;
    Dim index;
    // Its number in the block; the number of its warp; its place there.
    uint32_t number, warp, lane;
    // The lanes that it waits for, where it waits for a warp operation.
    uint32_t mask;
    // Where it passed last, or waits.
    Site site;
};

// The thread that runs now, and what it reads of its block.
extern EMULATOR_HIDDEN Thread* self;
extern EMULATOR_HIDDEN Dim block_index, block_dimension, grid_dimension;

// Where host and device have put things; the same in driver/launch.rs.
struct Machine {
    // Stacks, one after the other, and how far apart they begin. Each ends (at its low end) at a guard page.
    char* stacks;
    uint64_t stack_stride;
    uint64_t stack_bytes;
    // Shared memory, whose addresses count from here: first the dynamic part, which ends at `dynamic_end`, 256 KiB from
    // the beginning, so that descriptors of wgmma can name all of it; then variables of fixed size.
    char* shared;
    uint64_t shared_bytes;
    char* dynamic_end;
    char* statics;
    uint64_t static_bytes;
    // The values of all 65,536 half precision numbers.
    const float* halves;
    // Ends the process with a message.
    void (*fail)(const char* message, uint32_t line);
    // The line of the source that an address of code is of, or 0.
    uint32_t (*line_of)(const void* address);
};

struct Kernel {
    const char* name;
    void (*run)(void** arguments);
    uint32_t parameters;
    const uint32_t* sizes;
    // Threads of a block at most, by __launch_bounds__.
    uint32_t most_threads;
};

struct Launch {
    const Machine* machine;
    const Kernel* kernel;
    void** arguments;
    Dim grid, block;
    uint32_t dynamic_bytes;
    // Bytes of shared memory that a block may have.
    uint32_t shared_limit;
    // A number that no other launch of this process has.
    uint64_t number;
    uint64_t seed;
};

// Where a thread is, for messages.
struct Place {
    uint32_t block, thread, line, inside;
    const char* what;
};

// What the driver finds in a compiled module under the name `emulated_module`.
struct Module {
    uint32_t version;
    uint32_t kernel_count;
    const Kernel* kernels;
    uint32_t form_count;
    const char* const* form_names;
    const uint64_t* form_counts;
    void (*run)(const Launch* launch);
    void (*place)(Place* place);
};

// A variable in shared memory, of fixed size.
struct Variable {
    const char* name;
    uint32_t bytes, align, line;
    // The last launch that used it, and where it lies.
    uint64_t launch;
    char* at;
};

extern EMULATOR_HIDDEN uint64_t launch_number;
extern EMULATOR_HIDDEN char* dynamic_memory;

// Ends the process: what is wrong with what the running thread does, and where.
EMULATOR_HIDDEN void die(const char* format, ...) __attribute__((noreturn, format(printf, 1, 2)));

// Gives a variable its place, once and for all.
EMULATOR_HIDDEN char* settle(Variable& variable);
EMULATOR_HIDDEN void use_first(Variable& variable);

// A thread comes by the declaration of a variable.
EMULATOR_OWN static inline void use(Variable& variable) {
    if (__builtin_expect(variable.launch != launch_number, 0)) use_first(variable);
}

// A byte that nobody has written: an address, index or count made of it is far off, and a float of it is no number.
static const uint16_t POISON = 0xffc3;
EMULATOR_HIDDEN void poison(void* to, size_t bytes);

#ifdef EMULATOR_RACES
// What the device itself reads and writes of shared memory for a thread, for the check for races.
EMULATOR_HIDDEN void note_read(const void* at, uint32_t bytes);
EMULATOR_HIDDEN void note_write(const void* at, uint32_t bytes);
EMULATOR_HIDDEN void note_atomic_at(const void* at, uint32_t bytes, const void* place);
#else
static inline void note_read(const void*, uint32_t) {}
static inline void note_write(const void*, uint32_t) {}
#endif

// What the lanes of a warp bring to an operation, or take from it; the last of them to arrive does the whole.
typedef void (*Together)(void** operands, uint32_t mask);
EMULATOR_HIDDEN void meet(Site site, uint32_t mask, void* operand, Together run);

template <class T>
EMULATOR_OWN static inline void together(Site site, uint32_t mask, T& operand) {
    meet(site, mask, &operand, [](void** operands, uint32_t lanes) { T::run((T**)operands, lanes); });
}

// A barrier of the block: the values of all threads, or'ed, and'ed and added up.
struct Votes {
    uint32_t any, all, count;
};
EMULATOR_HIDDEN Votes barrier(Site site, bool value);
EMULATOR_HIDDEN void synchronize_warp(Site site, uint32_t mask);

}  // namespace emulator

#ifdef EMULATOR_RACES
// The place of an atomic is where it returns to.
#define EMULATOR_NOTE_ATOMIC(at, bytes) emulator::note_atomic_at(at, bytes, __builtin_return_address(0))
#define EMULATOR_ALONE __attribute__((noinline))
#else
#define EMULATOR_NOTE_ATOMIC(at, bytes) ((void)0)
#define EMULATOR_ALONE
#endif
#define EMULATOR_SITE(what) (emulator::Site{what, __LINE__})
