// What does a block's shared memory hold, and when do copies by cp.async arrive?

namespace emulator {

static Copies copies[MOST_THREADS];
// Whether this block has used copies.
static bool copies_used;

// ---- Shared memory.

void poison(void* to, size_t bytes) {
    char* at = (char*)to;
    const char pattern[2] = {(char)(POISON & 255), (char)(POISON >> 8)};
    // The pattern begins at even addresses, wherever the memory begins.
    if (((uintptr_t)at & 1) && bytes) *at++ = pattern[1], bytes--;
    uint16_t* words = (uint16_t*)at;
    for (size_t i = 0; i < bytes / 2; i++) words[i] = POISON;
    if (bytes & 1) at[bytes - 1] = pattern[0];
}

static bool is_poison(const char* from, const char* to) {
    for (const char* at = from; at < to; at++) {
        if (*at != (char)((uintptr_t)at & 1 ? POISON >> 8 : POISON & 255)) return false;
    }
    return true;
}

// The number of poisoned bytes after each variable.
static const uint32_t PADDING = 32;
static const uint32_t MAX_VARIABLES = 256;
// The variables that this launch has used, and their bytes.
static Variable* variables[MAX_VARIABLES];
static uint32_t variable_count, static_bytes;
// The end of the places that variables of the module have.
static uint32_t settled;

char* settle(Variable& variable) {
    uint32_t align = variable.align < 16 ? 16 : variable.align;
    uint32_t at = (settled + align - 1) / align * align;
    settled = at + variable.bytes + PADDING;
    if (settled > machine->static_bytes) die("the module has too many variables in shared memory");
    return variable.at = machine->statics + at;
}

void use_first(Variable& variable) {
    if (variable_count == MAX_VARIABLES) die("more than %u variables in shared memory", MAX_VARIABLES);
    static_bytes += (variable.bytes + 15) / 16 * 16;
    if (static_bytes + launch->dynamic_bytes > launch->shared_limit || static_bytes > 48 << 10) {
        die("the block needs more shared memory than it may have: %u bytes of variables (with `%s`) and %u bytes of "
            "dynamic memory, of %u (and 48 KiB of variables at most)",
            static_bytes, variable.name, launch->dynamic_bytes, launch->shared_limit);
    }
    variable.launch = launch_number;
    poison(variable.at, variable.bytes + PADDING);
    variables[variable_count++] = &variable;
}

uint32_t shared_address(const void* pointer) {
    uint64_t at = (uint64_t)((const char*)pointer - machine->shared);
    if (at > machine->shared_bytes) {
        die("__cvta_generic_to_shared: %p is not in shared memory", pointer);
    }
    return (uint32_t)at;
}

char* shared_at(Site site, uint32_t address, uint32_t bytes, uint32_t align) {
    self->site = site;
    if (address % align != 0) {
        die("%s: the shared address %u is not a multiple of %u", site.what, address, align);
    }
    char* at = machine->shared + address;
    if (at >= dynamic_memory && at + bytes <= dynamic_memory + launch->dynamic_bytes) return at;
    for (uint32_t i = 0; i < variable_count; i++) {
        if (at >= variables[i]->at && at + bytes <= variables[i]->at + variables[i]->bytes) return at;
    }
    die("%s: the shared address %u is neither in a variable nor in the %u bytes of dynamic memory from %u on",
        site.what, address, launch->dynamic_bytes, (uint32_t)(dynamic_memory - machine->shared));
}

// A launch begins: it has used no variable yet.
static void begin_memory() { variable_count = static_bytes = 0; }

static void begin_shared() {
    for (uint32_t i = 0; i < variable_count; i++) poison(variables[i]->at, variables[i]->bytes + PADDING);
    poison(dynamic_memory, machine->dynamic_end - dynamic_memory);
}

// Checks that the block wrote nothing after its variables and its dynamic memory.
static void end_shared() {
    for (uint32_t i = 0; i < variable_count; i++) {
        const char* end = variables[i]->at + variables[i]->bytes;
        if (!is_poison(end, end + PADDING)) {
            self = nullptr;
            static char text[300];
            snprintf(text, sizeof text, "the block wrote beyond the end of the shared variable `%s` of %u bytes",
                     variables[i]->name, variables[i]->bytes);
            fail(text, variables[i]->line);
        }
    }
    if (!is_poison(dynamic_memory + launch->dynamic_bytes, machine->dynamic_end)) {
        static char text[200];
        snprintf(text, sizeof text, "the block wrote beyond the end of its %u bytes of dynamic shared memory",
                 launch->dynamic_bytes);
        fail(text, 0);
    }
}

// ---- Asynchronous copies.

// A copy may arrive at any time until it is waited for. So its target is poisoned now, and its
// source is read as late as possible.
void copy_async(Site site, uint32_t to, const void* from) {
    char* at = shared_at(site, to, 16, 16);
    if ((uintptr_t)from % 16 != 0) die("%s: the global address %p is not a multiple of 16", site.what, from);
    Copies& own = copies[self->number];
    copies_used = true;
    if (own.to == own.room) {
        own.room = own.room ? 2 * own.room : 64;
        own.list = (Copy*)realloc(own.list, own.room * sizeof(Copy));
    }
    poison(at, 16);
    own.list[own.to++] = {at, (const char*)from};
    note_write(at, 16);
}

void copy_async_commit(Site site) {
    Copies& own = copies[self->number];
    self->site = site;
    copies_used = true;
    if (own.groups_to - own.groups_from == 64) die("%s: more than 64 groups are pending", site.what);
    own.groups[own.groups_to++ % 64] = own.to;
}

void copy_async_wait(Site site, uint32_t left) {
    Copies& own = copies[self->number];
    self->site = site;
    while (own.groups_to - own.groups_from > left) {
        uint32_t end = own.groups[own.groups_from++ % 64];
        for (; own.from < end; own.from++) {
            const Copy& copy = own.list[own.from];
            memcpy(copy.to, copy.from, 16);
            note_write(copy.to, 16);
            if (!own.unfenced_from || copy.to < own.unfenced_from) own.unfenced_from = copy.to;
            if (copy.to + 16 > own.unfenced_to) own.unfenced_to = copy.to + 16;
        }
    }
    if (own.from == own.to) {
        // The remaining groups are empty.
        for (uint32_t group = own.groups_from; group != own.groups_to; group++) own.groups[group % 64] = 0;
        own.from = own.to = 0;
    }
}

void store_shared_4(Site site, uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    char* at = shared_at(site, to, 16, 16);
    uint32_t words[4] = {a, b, c, d};
    memcpy(at, words, 16);
    note_write(at, 16);
}

uint32_t load_shared(Site site, uint32_t from) {
    const char* at = shared_at(site, from, 4, 4);
    note_read(at, 4);
    uint32_t word;
    memcpy(&word, at, 4);
    return word;
}

void fence_proxy_async(Site site) {
    self->site = site;
    copies[self->number].unfenced_from = copies[self->number].unfenced_to = nullptr;
}

// A block begins: it has no copies yet.
static void begin_copies() {
    if (!copies_used) return;
    for (uint32_t t = 0; t < thread_count; t++) {
        Copies& own = copies[t];
        own.from = own.to = own.groups_from = own.groups_to = 0;
        own.unfenced_from = own.unfenced_to = nullptr;
    }
    copies_used = false;
}

}  // namespace emulator
