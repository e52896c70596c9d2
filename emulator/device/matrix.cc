// What do tensor cores compute?
//
// The last lane of a warp to arrive computes for all of them. Bits and bytes are added exactly.
// Halves are added as measured on tensor cores: the products of four neighbours and the previous
// sum are truncated below the last of 24 bits of the largest of them, and so is the new sum.

namespace emulator {

float float_of(uint16_t half) { return machine->halves[half]; }

// Rounds to nearest, ties to even; too large values become infinite.
uint16_t half_of(float value) {
    uint32_t bits = __builtin_bit_cast(uint32_t, value);
    uint16_t sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) return sign | 0x7fff;
    // From 65,520 on, rounding makes infinity.
    if (bits >= 0x477ff000) return sign | 0x7c00;
    uint32_t exponent = bits >> 23;
    // Below the smallest normal number, in units of 2^-24.
    uint32_t mantissa = (bits & 0x7fffff) | 0x800000;
    uint32_t drop = 13;
    uint32_t upper = 0;
    if (exponent < 113) {
        drop = 126 - exponent;
        if (drop > 25) return sign;
    } else {
        upper = exponent - 113;
    }
    uint32_t kept = mantissa >> drop, rest = mantissa & ((1u << drop) - 1), tie = 1u << (drop - 1);
    kept += rest > tie || (rest == tie && (kept & 1));
    return sign | (uint16_t)((upper << 10) + kept);
}

// Adds the products of four elements of a row with `WIDTH` columns.
template <int WIDTH>
static inline void add_four(const float* row, const float (*columns)[WIDTH], float* sums) {
    for (int j = 0; j < WIDTH; j++) {
        float p0 = row[0] * columns[0][j], p1 = row[1] * columns[1][j];
        float p2 = row[2] * columns[2][j], p3 = row[3] * columns[3][j];
        float c = sums[j];
        auto magnitude = [](float x) { return __builtin_bit_cast(uint32_t, x) & 0x7f800000u; };
        uint32_t most = magnitude(p0);
        most = most > magnitude(p1) ? most : magnitude(p1);
        most = most > magnitude(p2) ? most : magnitude(p2);
        most = most > magnitude(p3) ? most : magnitude(p3);
        most = most > magnitude(c) ? most : magnitude(c);
        // The unit of the last of 24 bits of the largest, and its reciprocal.
        uint32_t low = most < (24u << 23) ? 24u << 23 : most;
        low = low > (253u << 23) ? 253u << 23 : low;
        float unit = __builtin_bit_cast(float, low - (23u << 23));
        float per = __builtin_bit_cast(float, (277u << 23) - low);
        int32_t sum = (int32_t)(p0 * per) + (int32_t)(p1 * per) + (int32_t)(p2 * per) + (int32_t)(p3 * per) +
            (int32_t)(c * per);
        // The sum has up to 27 bits; those beyond 24 are truncated.
        uint32_t size = (uint32_t)(sum < 0 ? -sum : sum);
        uint32_t over = (size >= 1u << 24) + (size >= 1u << 25) + (size >= 1u << 26);
        size = size >> over << over;
        float cut = (float)(int32_t)size * unit;
        float plain = p0 + p1 + p2 + p3 + c;
        sums[j] = most >= 0x7f800000u ? plain : sum < 0 ? -cut : cut;
    }
}

// Adds products of halves: rows of A have 16 elements in 32 bytes, and the columns of B become one
// row for each element.
template <int ROWS, int WIDTH>
static void add_halves(const uint32_t (*a)[8], const uint32_t (*b)[8], float (*sums)[WIDTH]) {
    static float columns[16][WIDTH];
    const float* halves = machine->halves;
    for (int j = 0; j < WIDTH; j++) {
        for (int k = 0; k < 8; k++) {
            columns[2 * k][j] = halves[b[j][k] & 0xffff];
            columns[2 * k + 1][j] = halves[b[j][k] >> 16];
        }
    }
    for (int i = 0; i < ROWS; i++) {
        float row[16];
        for (int k = 0; k < 8; k++) {
            row[2 * k] = halves[a[i][k] & 0xffff];
            row[2 * k + 1] = halves[a[i][k] >> 16];
        }
        for (int k = 0; k < 16; k += 4) add_four<WIDTH>(row + k, columns + k, sums[i]);
    }
}

template <int ROWS, int WIDTH>
static void add_bytes(const uint32_t (*a)[8], const uint32_t (*b)[8], int32_t (*sums)[WIDTH]) {
    static int32_t columns[32][WIDTH];
    for (int j = 0; j < WIDTH; j++) {
        for (int k = 0; k < 32; k++) columns[k][j] = b[j][k / 4] >> (8 * (k % 4)) & 255;
    }
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < 32; k++) {
            int32_t x = a[i][k / 4] >> (8 * (k % 4)) & 255;
            for (int j = 0; j < WIDTH; j++) sums[i][j] += x * columns[k][j];
        }
    }
}

template <int ROWS, int WIDTH>
static void add_bits(const uint32_t (*a)[8], const uint32_t (*b)[8], int32_t (*sums)[WIDTH]) {
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < WIDTH; j++) {
            uint64_t x[4], y[4];
            memcpy(x, a[i], 32);
            memcpy(y, b[j], 32);
            int32_t common = 0;
            for (int k = 0; k < 4; k++) common += __builtin_popcountll(x[k] & y[k]);
            sums[i][j] += common;
        }
    }
}

// ---- mma.sync, with the layout of PTX.

template <Elements ELEMENTS>
struct MultiplyAs : Multiply {
    static void run(MultiplyAs** lanes, uint32_t) {
        uint32_t a[16][8], b[8][8];
        union {
            int32_t whole[16][8];
            float real[16][8];
            uint32_t words[16][8];
        } sums;
        for (uint32_t l = 0; l < 32; l++) {
            const Multiply& lane = *lanes[l];
            uint32_t group = l / 4, quad = l % 4;
            a[group][quad] = lane.a[0];
            a[group + 8][quad] = lane.a[1];
            a[group][quad + 4] = lane.a[2];
            a[group + 8][quad + 4] = lane.a[3];
            b[group][quad] = lane.b[0];
            b[group][quad + 4] = lane.b[1];
            for (uint32_t k = 0; k < 4; k++) sums.words[group + k / 2 * 8][2 * quad + k % 2] = lane.c[k];
        }
        if (ELEMENTS == BITS) add_bits<16, 8>(a, b, sums.whole);
        if (ELEMENTS == BYTES) add_bytes<16, 8>(a, b, sums.whole);
        if (ELEMENTS == HALVES) add_halves<16, 8>(a, b, sums.real);
        for (uint32_t l = 0; l < 32; l++) {
            Multiply& lane = *lanes[l];
            uint32_t group = l / 4, quad = l % 4;
            for (uint32_t k = 0; k < 4; k++) lane.d[k] = sums.words[group + k / 2 * 8][2 * quad + k % 2];
        }
    }
};

void multiply(Site site, Elements elements, Multiply& operand) {
    switch (elements) {
    case BITS: return together(site, ALL, (MultiplyAs<BITS>&)operand);
    case BYTES: return together(site, ALL, (MultiplyAs<BYTES>&)operand);
    default: return together(site, ALL, (MultiplyAs<HALVES>&)operand);
    }
}

struct LoadMatricesOf : LoadMatrices {
    static void run(LoadMatricesOf** lanes, uint32_t) {
        const char* rows[32];
        for (uint32_t l = 0; l < 32; l++) rows[l] = machine->shared + lanes[l]->at;
        for (uint32_t l = 0; l < 32; l++) {
            for (uint32_t j = 0; j < 4; j++) memcpy(&lanes[l]->to[j], rows[8 * j + l / 4] + 4 * (l % 4), 4);
        }
    }
};

void load_matrices(Site site, LoadMatrices& operand) {
    const char* row = shared_at(site, operand.at, 16, 16);
    note_read(row, 16);
    together(site, ALL, (LoadMatricesOf&)operand);
}

// ---- wgmma: a product is computed when it is waited for, from the contents of shared memory at
// that time. A hash remembers the contents at the start: nobody may change them in between.

struct Product {
    Elements elements;
    uint64_t a, b;
    bool add;
    uint64_t hash;
    uint32_t line;
    void* sums[32];
};

struct Products {
    static const uint32_t MOST = 64;
    Product list[MOST];
    uint32_t from, to;
    uint32_t groups[MOST];
    uint32_t groups_from, groups_to;
    // The number of products that were started in this block.
    uint64_t started;
    // Whether registers were fenced since the last wait.
    bool fenced;
    // The pending sums, of one array of registers: `sums` of the product that began them.
    void* owner;
    uint32_t values[16][256];
};

static Products* products;
static uint32_t products_begun;

static void begin_matrices(uint32_t) {
    if (!products_begun) return;
    for (uint32_t w = 0; w < 32; w++) {
        Products& warp = products[w];
        warp.from = warp.to = warp.groups_from = warp.groups_to = 0;
        warp.started = 0;
        warp.fenced = false;
        warp.owner = nullptr;
    }
}

static void end_matrices() {
    if (!products_begun) return;
    for (uint32_t w = 0; w < warp_count; w++) {
        if (products[w].from != products[w].to) {
            fail("the block ended before its wgmma products were waited for", products[w].list[0].line);
        }
        if (products[w].started != products[w / 4 * 4].started) {
            fail("not all warps of a warpgroup took part in a wgmma", 0);
        }
    }
}

// A matrix of 32 bytes of each row, in swizzled rows of 128 bytes, by its descriptor.
struct Layout {
    uint32_t start, stride;
    static Layout of(uint64_t descriptor) {
        if (descriptor >> 62 != 1) die("wgmma: only the swizzle of 128 bytes is emulated, not %u", (uint32_t)(descriptor >> 62));
        if (descriptor >> 49 & 7) die("wgmma: a base offset of %u is not emulated", (uint32_t)(descriptor >> 49 & 7));
        return {(uint32_t)(descriptor & 0x3fff) << 4, (uint32_t)(descriptor >> 32 & 0x3fff) << 4};
    }
    // Returns the address of 16 bytes of a row.
    uint32_t at(uint32_t row, uint32_t piece) const {
        uint32_t address = start + row / 8 * stride + row % 8 * 128 + piece * 16;
        return address ^ (address >> 7 & 7) << 4;
    }
};

static void read_rows(Layout layout, uint32_t first, uint32_t count, uint32_t (*to)[8]) {
    for (uint32_t row = 0; row < count; row++) {
        for (uint32_t piece = 0; piece < 2; piece++) {
            memcpy(&to[row][4 * piece], machine->shared + layout.at(first + row, piece), 16);
        }
    }
}

static uint64_t hash_rows(Layout layout, uint32_t first, uint32_t count) {
    uint64_t hash = 0;
    for (uint32_t row = 0; row < count; row++) {
        uint64_t words[4];
        for (uint32_t piece = 0; piece < 2; piece++) {
            memcpy(&words[2 * piece], machine->shared + layout.at(first + row, piece), 16);
        }
        for (uint32_t k = 0; k < 4; k++) hash = (hash ^ words[k]) * 0x9e3779b97f4a7c15u + (hash >> 29);
    }
    return hash;
}

static void check_rows(Layout layout, uint32_t first, uint32_t count) {
    // The threads with unfenced copies; there should be none.
    static uint32_t unfenced[MOST_THREADS];
    uint32_t unfenced_count = 0;
    for (uint32_t t = 0; t < thread_count; t++) {
        if (copies[t].unfenced_from) unfenced[unfenced_count++] = t;
    }
    for (uint32_t row = first; row < first + count; row++) {
        for (uint32_t piece = 0; piece < 2; piece++) {
            const char* at = shared_at(self->site, layout.at(row, piece), 16, 16);
            note_read(at, 16);
            for (uint32_t i = 0; i < unfenced_count; i++) {
                const Copies& other = copies[unfenced[i]];
                if (at < other.unfenced_to && at + 16 > other.unfenced_from) {
                    die("wgmma reads what thread %u copied without a fence.proxy.async since", unfenced[i]);
                }
            }
        }
    }
}

// Returns the first row of a warp in its warpgroup.
static uint32_t first_row(uint32_t warp) { return warp % 4 * 16; }

static Products& own_products() {
    if (!products) {
        products = (Products*)malloc(32 * sizeof(Products));
        memset(products, 0, 32 * sizeof(Products));
    }
    if (!products_begun) {
        products_begun = 1;
        begin_matrices(warp_count);
    }
    return products[self->warp];
}

static bool poisoned(const uint32_t* sums) {
    const uint32_t word = POISON | (uint32_t)POISON << 16;
    for (uint32_t k = 0; k < 128; k++) {
        if (sums[k] != word) return false;
    }
    return true;
}

struct StartProduct {
    Elements elements;
    void* sums;
    uint64_t a, b;
    bool add;
    static void run(StartProduct** lanes, uint32_t) {
        Products& warp = own_products();
        const StartProduct& first = *lanes[0];
        for (uint32_t l = 1; l < 32; l++) {
            const StartProduct& lane = *lanes[l];
            if (lane.a != first.a || lane.b != first.b || lane.add != first.add) {
                die("wgmma: the lanes of a warp name different matrices");
            }
        }
        if (warp.to - warp.from == Products::MOST) die("wgmma: more than %u products are pending", Products::MOST);
        Product& product = warp.list[warp.to % Products::MOST];
        product.elements = first.elements;
        product.a = first.a;
        product.b = first.b;
        product.add = first.add;
        product.line = self->site.line;
        for (uint32_t l = 0; l < 32; l++) product.sums[l] = lanes[l]->sums;
        if (warp.owner && warp.owner != product.sums[0]) {
            die("wgmma: pending sums in several arrays of registers are not emulated");
        }
        if (!warp.owner) {
            if (!warp.fenced) die("wgmma without a wgmma.fence since its registers could be touched");
            warp.owner = product.sums[0];
            for (uint32_t l = 0; l < 32; l++) {
                const uint32_t* sums = (const uint32_t*)product.sums[l];
                for (uint32_t k = 0; k < 128; k++) {
                    warp.values[l / 4 + k / 2 % 2 * 8][k / 4 * 8 + l % 4 * 2 + k % 2] = sums[k];
                }
            }
        } else {
            for (uint32_t l = 0; l < 32; l++) {
                if (!poisoned((const uint32_t*)product.sums[l])) {
                    die("the sums of a wgmma were written before it was waited for (lane %u)", l);
                }
            }
        }
        for (uint32_t l = 0; l < 32; l++) poison(product.sums[l], 512);
        Layout a = Layout::of(product.a), b = Layout::of(product.b);
        check_rows(a, first_row(self->warp), 16);
        check_rows(b, 0, 256);
        product.hash = hash_rows(a, first_row(self->warp), 16) ^ hash_rows(b, 0, 256);
        warp.to++;
        warp.started++;
    }
};

void multiply_async(Site site, Elements elements, void* sums, uint64_t a, uint64_t b, bool add) {
    StartProduct mine = {elements, sums, a, b, add};
    together(site, ALL, mine);
}

struct Fence {
    static void run(Fence**, uint32_t) { own_products().fenced = true; }
};

void multiply_async_fence(Site site) {
    Fence fence;
    together(site, ALL, fence);
}

struct Commit {
    static void run(Commit**, uint32_t) {
        Products& warp = own_products();
        if (warp.groups_to - warp.groups_from == Products::MOST) die("wgmma: too many groups are pending");
        warp.groups[warp.groups_to++ % Products::MOST] = warp.to;
    }
};

void multiply_async_commit(Site site) {
    Commit commit;
    together(site, ALL, commit);
}

static void compute(Products& warp, const Product& product) {
    Layout a = Layout::of(product.a), b = Layout::of(product.b);
    uint32_t first = first_row(self->warp);
    if ((hash_rows(a, first, 16) ^ hash_rows(b, 0, 256)) != product.hash) {
        die("an operand of the wgmma of line %u was changed before it was waited for", product.line);
    }
    static uint32_t rows[16][8], columns[256][8];
    read_rows(a, first, 16, rows);
    read_rows(b, 0, 256, columns);
    if (!product.add) memset(warp.values, 0, sizeof warp.values);
    switch (product.elements) {
    case HALVES: add_halves<16, 256>(rows, columns, (float(*)[256])warp.values); break;
    case BYTES: add_bytes<16, 256>(rows, columns, (int32_t(*)[256])warp.values); break;
    default: die("wgmma: bits are not emulated");
    }
}

struct Wait {
    uint32_t left;
    static void run(Wait** lanes, uint32_t) {
        Products& warp = own_products();
        void** sums = nullptr;
        while (warp.groups_to - warp.groups_from > lanes[0]->left) {
            uint32_t end = warp.groups[warp.groups_from++ % Products::MOST];
            for (; warp.from != end; warp.from++) {
                Product& product = warp.list[warp.from % Products::MOST];
                compute(warp, product);
                sums = product.sums;
            }
        }
        warp.fenced = false;
#ifdef EMULATOR_RACES
        // The products have finished reading.
        races_warp(self->warp, ALL);
#endif
        if (sums && warp.from == warp.to) {
            for (uint32_t l = 0; l < 32; l++) {
                uint32_t* to = (uint32_t*)sums[l];
                for (uint32_t k = 0; k < 128; k++) {
                    to[k] = warp.values[l / 4 + k / 2 % 2 * 8][k / 4 * 8 + l % 4 * 2 + k % 2];
                }
            }
            warp.owner = nullptr;
        }
    }
};

void multiply_async_wait(Site site, uint32_t left) {
    Wait wait = {left};
    together(site, ALL, wait);
}

}  // namespace emulator
