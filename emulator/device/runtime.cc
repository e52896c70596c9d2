// How do the threads of a block run on one core?
//
// Each is a fiber with its own stack. A thread runs until it has to wait for the lanes of its warp
// or for the whole block. Then the next runnable lane of its warp continues, or another warp if
// there is none. Blocks run one after the other. Bit masks say exactly which lanes are runnable, so
// there is no polling, and when none is, the threads wait for each other, which is reported.
//
// Compiled once, together with the other files of this folder, and linked to every module of
// kernels.
#include "machine.h"
#include "ptx.h"

extern "C" {
void* malloc(size_t) noexcept;
void* calloc(size_t, size_t) noexcept;
void* realloc(void*, size_t) noexcept;
void* memset(void*, int, size_t) noexcept;
void* memcpy(void*, const void*, size_t) noexcept;
int snprintf(char*, size_t, const char*, ...) noexcept;
int vsnprintf(char*, size_t, const char*, __builtin_va_list) noexcept;
void abort() noexcept __attribute__((noreturn));
}

namespace emulator {

static const uint32_t MOST_THREADS = 1024;
static const uint32_t ALL = 0xffffffffu;

struct Warp {
    // The lanes that have not left the kernel; that are runnable; that wait for other lanes; that
    // wait for the block.
    uint32_t alive, runnable, meeting, at_barrier;
    // The operation that the last lanes to arrive wait for.
    uint32_t mask;
    Site site;
    void* operands[32];
};

static Thread threads[MOST_THREADS];
static Warp warps[MOST_THREADS / 32];
static uint32_t warp_count;
// The warps with a runnable lane.
static uint32_t ready;
static uint32_t alive, waiting;
static Site barrier_site;
static Votes votes, result;
static uint32_t thread_count;
static void* driver_stack;
static const Launch* launch;
static const Machine* machine;
static uint64_t random_state;

Thread* self;
Dim block_index, block_dimension, grid_dimension;
uint64_t launch_number;
char* dynamic_memory;

static void begin_memory();
static void begin_shared();
static void end_shared();
static void begin_copies();
static void begin_matrices(uint32_t warps);
static void end_matrices();
#ifdef EMULATOR_RACES
static void begin_races();
static void races_barrier();
static void races_warp(uint32_t warp, uint32_t mask);
#endif

// ---- Fibers.

// Saves the registers of the running fiber on its stack, and continues another one.
extern "C" EMULATOR_HIDDEN void emulator_switch(void** from, void* to);
#if defined(__x86_64__)
asm(R"(
.text
.globl emulator_switch
.hidden emulator_switch
.type emulator_switch,@function
emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emulator_switch,.-emulator_switch
)");
static void* prepare_stack(char* top, void (*begin)()) {
    void** at = (void**)top;
    *--at = nullptr;  // The stack as after a call.
    *--at = (void*)begin;
    for (int i = 0; i < 6; i++) *--at = nullptr;
    return at;
}
#elif defined(__aarch64__)
asm(R"(
.text
.globl emulator_switch
.hidden emulator_switch
.type emulator_switch,%function
emulator_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size emulator_switch,.-emulator_switch
)");
static void* prepare_stack(char* top, void (*begin)()) {
    void** at = (void**)(top - 160);
    memset(at, 0, 160);
    at[11] = (void*)begin;  // x30
    return at;
}
#else
#error "the emulated device runs on x86-64 and aarch64"
#endif

static uint32_t random_number() {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

// ---- Messages.

static void report(char* out, size_t room, size_t at) {
    // Threads that wait at the same site share a line.
    for (uint32_t from = 0; from < thread_count && at + 200 < room;) {
        auto state = [](uint32_t number) {
            uint32_t bit = 1u << number % 32;
            const Warp& warp = warps[number / 32];
            return !(warp.alive & bit) ? 0 : warp.meeting & bit ? 1 : warp.at_barrier & bit ? 2 : 3;
        };
        uint32_t to = from + 1;
        while (to < thread_count && state(to) == state(from) &&
               (state(from) == 0 || threads[to].site == threads[from].site)) {
            to++;
        }
        const Site& site = threads[from].site;
        const char* what = site.what ? site.what : "the beginning";
        const char* how[] = {"has left the kernel", "waits for its warp at", "waits for the block at", "was last at"};
        if (state(from) == 0) {
            at += snprintf(out + at, room - at, "\n  threads %u to %u: %s", from, to - 1, how[0]);
        } else {
            at += snprintf(
                out + at, room - at, "\n  threads %u to %u: %s line %u (%s)", from, to - 1, how[state(from)],
                site.line, what
            );
        }
        from = to;
    }
}

static void fail(const char* message, uint32_t line) {
    if (machine) machine->fail(message, line);
    abort();
}

void die(const char* format, ...) {
    static char text[16384];
    __builtin_va_list arguments;
    __builtin_va_start(arguments, format);
    size_t at = vsnprintf(text, sizeof text, format, arguments);
    __builtin_va_end(arguments);
    (void)at;
    fail(text, self ? self->site.line : 0);
    abort();
}

static void die_with_report(const char* what, uint32_t line) __attribute__((noreturn));
static void die_with_report(const char* what, uint32_t line) {
    static char text[16384];
    size_t at = snprintf(text, sizeof text, "%s", what);
    report(text, sizeof text, at);
    fail(text, line);
    abort();
}

static void fill_place(Place* place) {
    place->block = block_index.x;
    place->inside = self != nullptr;
    place->thread = self ? self->number : 0;
    place->line = self ? self->site.line : 0;
    place->what = self ? self->site.what : nullptr;
}

// ---- Who runs next.

// Continues another thread: the running one waits, or has left.
static void continue_another() {
    Thread* from = self;
    Warp* warp = &warps[from->warp];
    uint32_t number = from->warp;
    if (warp->runnable == 0) {
        ready &= ~(1u << number);
        if (ready == 0) {
            if (alive == 0) {
                self = nullptr;
                emulator_switch(&from->stack_pointer, driver_stack);
                return;
            }
            die_with_report("threads wait for each other, and none can continue", from->site.line);
        }
        // A random runnable warp.
        uint32_t first = random_number() % 32;
        uint32_t later = ready >> first << first;
        number = __builtin_ctz(later ? later : ready);
        warp = &warps[number];
        from = nullptr;
    }
    uint32_t own = from ? from->lane : 31;
    uint32_t later = own == 31 ? 0 : warp->runnable >> (own + 1) << (own + 1);
    uint32_t lane = __builtin_ctz(later ? later : warp->runnable);
    Thread* old = self;
    self = &threads[32 * number + lane];
    if (self != old) emulator_switch(&old->stack_pointer, self->stack_pointer);
}

static void release_barrier() {
    result = votes;
    votes = {0, 1, 0};
    waiting = 0;
    for (uint32_t w = 0; w < warp_count; w++) {
        warps[w].runnable |= warps[w].at_barrier;
        warps[w].at_barrier = 0;
        if (warps[w].runnable) ready |= 1u << w;
    }
#ifdef EMULATOR_RACES
    races_barrier();
#endif
}

static void exit_thread() {
    Thread& thread = *self;
    Warp& warp = warps[thread.warp];
    uint32_t bit = 1u << thread.lane;
    thread.site.what = nullptr;
    warp.runnable &= ~bit;
    warp.alive &= ~bit;
    alive--;
    for (uint32_t others = warp.meeting; others; others &= others - 1) {
        const Thread& other = threads[32 * thread.warp + __builtin_ctz(others)];
        if (other.mask & bit) {
            char text[200];
            snprintf(text, sizeof text, "thread %u leaves the kernel while others of its warp wait for it at %s",
                     thread.number, other.site.what);
            die_with_report(text, other.site.line);
        }
    }
    if (alive > 0 && waiting == alive) release_barrier();
}

static void thread_main() {
    launch->kernel->run(launch->arguments);
    exit_thread();
    continue_another();
    abort();
}

// ---- Barriers and warp operations.

void meet(Site site, uint32_t mask, void* operand, Together run) {
    Thread& thread = *self;
    Warp& warp = warps[thread.warp];
    uint32_t bit = 1u << thread.lane;
    thread.site = site;
    if (!(mask & bit)) die("%s: the mask %08x does not name the calling lane %u", site.what, mask, thread.lane);
    if (mask & ~warp.alive) {
        char text[200];
        snprintf(text, sizeof text, "%s: the mask %08x names lanes that have left the kernel, or never existed: %08x",
                 site.what, mask, mask & ~warp.alive);
        die_with_report(text, site.line);
    }
    uint32_t there = warp.meeting & mask;
    if (!there) {
        warp.mask = mask;
        warp.site = site;
    } else if (warp.mask != mask || !(warp.site == site)) {
        const Thread& first = threads[32 * thread.warp + __builtin_ctz(there)];
        if (first.mask != mask || !(first.site == site)) {
            char text[300];
            snprintf(text, sizeof text,
                     "lanes of a warp are at different warp operations: thread %u at %s (line %u), thread %u at %s (line %u)",
                     first.number, first.site.what, first.site.line, thread.number, site.what, site.line);
            die_with_report(text, site.line);
        }
    }
    warp.operands[thread.lane] = operand;
    thread.mask = mask;
    if ((there | bit) == mask) {
        warp.meeting &= ~mask;
        run(warp.operands, mask);
        warp.runnable |= mask;
        return;
    }
    warp.meeting |= bit;
    warp.runnable &= ~bit;
    continue_another();
}

Votes barrier(Site site, bool value) {
    Thread& thread = *self;
    Warp& warp = warps[thread.warp];
    uint32_t bit = 1u << thread.lane;
    thread.site = site;
    if (waiting == 0) {
        barrier_site = site;
    } else if (!(barrier_site == site)) {
        char text[300];
        snprintf(text, sizeof text, "threads of a block are at different barriers: %s (line %u) and %s (line %u)",
                 barrier_site.what, barrier_site.line, site.what, site.line);
        die_with_report(text, site.line);
    }
    votes.any |= value;
    votes.all &= value;
    votes.count += value;
    waiting++;
    if (waiting == alive) {
        release_barrier();
    } else {
        warp.at_barrier |= bit;
        warp.runnable &= ~bit;
        continue_another();
    }
    return result;
}

struct Nothing {
    static void run(Nothing**, uint32_t mask) {
#ifdef EMULATOR_RACES
        races_warp(self->warp, mask);
#else
        (void)mask;
#endif
    }
};

void synchronize_warp(Site site, uint32_t mask) {
    Nothing nothing;
    together(site, mask, nothing);
}

struct Shuffle {
    uint64_t value;
    uint32_t from;
    uint64_t result;
    static void run(Shuffle** lanes, uint32_t mask) {
        for (uint32_t left = mask; left; left &= left - 1) {
            Shuffle& lane = *lanes[__builtin_ctz(left)];
            if (!(mask >> lane.from & 1)) {
                die("%s: lane %u reads lane %u, which the mask %08x does not name", self->site.what,
                    (uint32_t)__builtin_ctz(left), lane.from, mask);
            }
            lane.result = lanes[lane.from]->value;
        }
    }
};

uint64_t shuffle(Site site, uint32_t mask, uint64_t value, uint32_t from) {
    Shuffle mine = {value, from % 32, 0};
    together(site, mask, mine);
    return mine.result;
}

struct Ballot {
    uint32_t value;
    static void run(Ballot** lanes, uint32_t mask) {
        uint32_t all = 0;
        for (uint32_t left = mask; left; left &= left - 1) {
            uint32_t lane = __builtin_ctz(left);
            all |= lanes[lane]->value << lane;
        }
        for (uint32_t left = mask; left; left &= left - 1) lanes[__builtin_ctz(left)]->value = all;
    }
};

uint32_t ballot(Site site, uint32_t mask, bool value) {
    Ballot mine = {value};
    together(site, mask, mine);
    return mine.value;
}

struct Match {
    uint64_t value;
    uint32_t result;
    static void run(Match** lanes, uint32_t mask) {
        for (uint32_t left = mask; left; left &= left - 1) {
            Match& lane = *lanes[__builtin_ctz(left)];
            lane.result = 0;
            for (uint32_t others = mask; others; others &= others - 1) {
                uint32_t other = __builtin_ctz(others);
                lane.result |= (uint32_t)(lanes[other]->value == lane.value) << other;
            }
        }
    }
};

uint32_t match_any(Site site, uint32_t mask, uint64_t value) {
    Match mine = {value, 0};
    together(site, mask, mine);
    return mine.result;
}

// ---- Blocks.

static void begin_block() {
    alive = thread_count;
    waiting = 0;
    votes = {0, 1, 0};
    ready = warp_count == 32 ? ALL : (1u << warp_count) - 1;
    for (uint32_t w = 0; w < warp_count; w++) {
        uint32_t count = thread_count - 32 * w;
        uint32_t lanes = count >= 32 ? ALL : (1u << count) - 1;
        warps[w].alive = warps[w].runnable = lanes;
        warps[w].meeting = warps[w].at_barrier = 0;
    }
    uint32_t x = 0, y = 0, z = 0;
    for (uint32_t t = 0; t < thread_count; t++) {
        Thread& thread = threads[t];
        thread.index = {x, y, z};
        if (++x == block_dimension.x) {
            x = 0;
            if (++y == block_dimension.y) y = 0, z++;
        }
        thread.number = t;
        thread.warp = t / 32;
        thread.lane = t % 32;
        thread.site = {nullptr, 0};
        // Stacks begin at different offsets in their pages, or all would use the same cache lines.
        char* top = machine->stacks + (t + 1) * machine->stack_stride - t % 32 * 128;
        thread.stack_pointer = prepare_stack(top, thread_main);
    }
    begin_copies();
    begin_shared();
    begin_matrices(warp_count);
#ifdef EMULATOR_RACES
    begin_races();
#endif
}

static void run_block() {
    begin_block();
    uint32_t first = random_number() % warp_count;
    self = &threads[32 * first];
    emulator_switch(&driver_stack, self->stack_pointer);
    self = nullptr;
    end_matrices();
    end_shared();
}

static void run(const Launch* next) {
    launch = next;
    machine = next->machine;
    launch_number = next->number;
    random_state = next->seed * 2 + 1;
    grid_dimension = next->grid;
    block_dimension = next->block;
    thread_count = next->block.x * next->block.y * next->block.z;
    warp_count = (thread_count + 31) / 32;
    begin_memory();
    // As near to the end as the alignment of a kernel's array allows.
    dynamic_memory = machine->dynamic_end - (next->dynamic_bytes + 127) / 128 * 128;
    for (uint32_t z = 0; z < next->grid.z; z++) {
        for (uint32_t y = 0; y < next->grid.y; y++) {
            for (uint32_t x = 0; x < next->grid.x; x++) {
                block_index = {x, y, z};
                run_block();
            }
        }
    }
}

// ---- Reports of the compiler's checks. Local memory of a thread is in registers on a device,
// where it has no alignment.

struct SourceLocation {
    const char* file;
    uint32_t line, column;
};
struct TypeDescriptor {
    uint16_t kind, info;
    char name[1];
};
struct TypeMismatch {
    SourceLocation at;
    const TypeDescriptor* type;
    unsigned char log_alignment, kind;
};
struct OutOfBounds {
    SourceLocation at;
    const TypeDescriptor *array, *index;
};

}  // namespace emulator

extern "C" {
EMULATOR_HIDDEN void __ubsan_handle_type_mismatch_v1(emulator::TypeMismatch* data, uintptr_t pointer) {
    using namespace emulator;
    const char* at = (const char*)pointer;
    if (at >= machine->stacks && at < machine->stacks + MOST_THREADS * machine->stack_stride) return;
    if (self) self->site = {"a misaligned access", data->at.line};
    die("the address %p of a %s is not a multiple of %u", (void*)pointer, data->type->name, 1u << data->log_alignment);
}
EMULATOR_HIDDEN void __ubsan_handle_out_of_bounds(emulator::OutOfBounds* data, uintptr_t index) {
    using namespace emulator;
    if (self) self->site = {"an index out of bounds", data->at.line};
    die("index %lld is out of bounds of an array of type %s", (long long)index, data->array->name);
}
}

namespace emulator {
EMULATOR_HIDDEN extern const Kernel* const kernels;
EMULATOR_HIDDEN extern const uint32_t kernel_count;
EMULATOR_HIDDEN extern const char* const form_names[];
EMULATOR_HIDDEN extern const uint32_t form_count;
EMULATOR_HIDDEN extern uint64_t form_counts[];
}  // namespace emulator

extern "C" __attribute__((visibility("default"))) void emulated_module(emulator::Module* module) {
    using namespace emulator;
    *module = {1, kernel_count, kernels, form_count, form_names, form_counts, run, fill_place};
}
