// What do compiled kernels, the code that runs their threads, and the driver share?
//
// Included first in kernels and in runtime.cc. No header of the C++ library is included anywhere:
// without them kernels compile in a fraction of the time.
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
// Marks functions of the device itself, which the check for races ignores.
#define EMULATOR_OWN __attribute__((no_sanitize("thread", "undefined")))

namespace emulator {

// A place in a kernel's source: the operation and the line.
struct Site {
    const char* what;
    uint32_t line;
};

static inline bool operator==(Site a, Site b) { return a.line == b.line && a.what == b.what; }

struct Dim {
    uint32_t x, y, z;
};

// A pending copy by cp.async.
struct Copy {
    char* to;
    const char* from;
};

// The pending copies of a thread, and the end of each group of them.
struct Copies {
    Copy* list;
    uint32_t from, to, room;
    uint32_t groups[64];
    uint32_t groups_from, groups_to;
    // The memory that cp.async has written since the last fence.proxy.async, which wgmma must not
    // read yet.
    char *unfenced_from, *unfenced_to;
};

// A thread of a block: a fiber with its own stack. The members that every switch uses are in one
// cache line.
struct alignas(64) Thread {
    void* stack_pointer;
    Dim index;
    // Its number in the block, the number of its warp, and its lane there.
    uint32_t number, warp, lane;
    // The lanes that it waits for at a warp operation.
    uint32_t mask;
    // The last site that it passed, or at which it waits.
    Site site;
};

// The running thread, and the variables of its block.
extern EMULATOR_HIDDEN Thread* self;
extern EMULATOR_HIDDEN Dim block_index, block_dimension, grid_dimension;

// The addresses that host and device share; the same in driver/launch.rs.
struct Machine {
    // Contiguous stacks, and the distance between them. Each ends (at its low end) at a guard page.
    char* stacks;
    uint64_t stack_stride;
    uint64_t stack_bytes;
    // Shared memory, whose addresses count from here. First comes the dynamic part, which ends at
    // `dynamic_end`, 256 KiB from the beginning, so that descriptors of wgmma can address all of
    // it; then come variables of fixed size.
    char* shared;
    uint64_t shared_bytes;
    char* dynamic_end;
    char* statics;
    uint64_t static_bytes;
    // The values of all 65,536 half precision numbers.
    const float* halves;
    // Ends the process with a message.
    void (*fail)(const char* message, uint32_t line);
    // Returns the line of the source for an address of code, or 0.
    uint32_t (*line_of)(const void* address);
};

struct Kernel {
    const char* name;
    void (*run)(void** arguments);
    uint32_t parameters;
    const uint32_t* sizes;
    // The largest number of threads in a block, by __launch_bounds__.
    uint32_t most_threads;
};

struct Launch {
    const Machine* machine;
    const Kernel* kernel;
    void** arguments;
    Dim grid, block;
    uint32_t dynamic_bytes;
    // The largest number of bytes of shared memory in a block.
    uint32_t shared_limit;
    // A number that is unique in this process.
    uint64_t number;
    uint64_t seed;
};

// The position of a thread, for messages.
struct Place {
    uint32_t block, thread, line, inside;
    const char* what;
};

// The table that the driver finds in a compiled module under the name `emulated_module`.
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
    // The last launch that used it, and its address.
    uint64_t launch;
    char* at;
};

extern EMULATOR_HIDDEN uint64_t launch_number;
extern EMULATOR_HIDDEN char* dynamic_memory;

// Ends the process with a message about the running thread and its position.
EMULATOR_HIDDEN void die(const char* format, ...) __attribute__((noreturn, format(printf, 1, 2)));

// Assigns an address to a variable, once.
EMULATOR_HIDDEN char* settle(Variable& variable);
EMULATOR_HIDDEN void use_first(Variable& variable);

// Called when a thread passes the declaration of a variable.
EMULATOR_OWN static inline void use(Variable& variable) {
    if (__builtin_expect(variable.launch != launch_number, 0)) use_first(variable);
}

// The contents of memory that nobody has written: as an address, index or count it is far too
// large, and as a float it is NaN.
static const uint16_t POISON = 0xffc3;
EMULATOR_HIDDEN void poison(void* to, size_t bytes);

#ifdef EMULATOR_RACES
// Notes accesses of the device itself to shared memory for a thread, for the check for races.
EMULATOR_HIDDEN void note_read(const void* at, uint32_t bytes);
EMULATOR_HIDDEN void note_write(const void* at, uint32_t bytes);
EMULATOR_HIDDEN void note_atomic_at(const void* at, uint32_t bytes, const void* place);
#else
static inline void note_read(const void*, uint32_t) {}
static inline void note_write(const void*, uint32_t) {}
#endif

// A function for the operands of all lanes of a warp, which the last lane to arrive calls.
typedef void (*Together)(void** operands, uint32_t mask);
EMULATOR_HIDDEN void meet(Site site, uint32_t mask, void* operand, Together run);

template <class T>
EMULATOR_OWN static inline void together(Site site, uint32_t mask, T& operand) {
    meet(site, mask, &operand, [](void** operands, uint32_t lanes) { T::run((T**)operands, lanes); });
}

// The result of a barrier of the block: the or, the and, and the sum of the values of all threads.
struct Votes {
    uint32_t any, all, count;
};
EMULATOR_HIDDEN Votes barrier(Site site, bool value);
EMULATOR_HIDDEN void synchronize_warp(Site site, uint32_t mask);

}  // namespace emulator

#ifdef EMULATOR_RACES
// The place of an atomic is its return address.
#define EMULATOR_NOTE_ATOMIC(at, bytes) emulator::note_atomic_at(at, bytes, __builtin_return_address(0))
#define EMULATOR_ALONE __attribute__((noinline))
#else
#define EMULATOR_NOTE_ATOMIC(at, bytes) ((void)0)
#define EMULATOR_ALONE
#endif
#define EMULATOR_SITE(what) (emulator::Site{what, __LINE__})
