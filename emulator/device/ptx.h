// What does inline PTX do? There is one function for each form that ptx.rs knows and writes calls
// for.
#pragma once
#include "machine.h"

namespace emulator {

// Returns the address that a 32-bit number means in shared memory; it must be in memory of the
// block.
EMULATOR_HIDDEN char* shared_at(Site site, uint32_t address, uint32_t bytes, uint32_t align);

EMULATOR_HIDDEN void copy_async(Site site, uint32_t to, const void* from);
EMULATOR_HIDDEN void copy_async_commit(Site site);
EMULATOR_HIDDEN void copy_async_wait(Site site, uint32_t left);
EMULATOR_HIDDEN void store_shared_4(Site site, uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d);
EMULATOR_HIDDEN uint32_t load_shared(Site site, uint32_t from);
EMULATOR_HIDDEN void fence_proxy_async(Site site);

// ldmatrix: each lane names a row of 16 bytes, and gets parts of four rows.
struct LoadMatrices {
    uint32_t at;
    uint32_t to[4];
};
EMULATOR_HIDDEN void load_matrices(Site site, LoadMatrices& operand);

// mma.sync: 16 rows of A, 8 columns of B, 32 bytes of each; D = A * B + C. Words hold bits, bytes
// or halves.
enum Elements { BITS, BYTES, HALVES };
struct Multiply {
    uint32_t a[4], b[2];
    // 32-bit integers, or floats.
    uint32_t c[4], d[4];
};
EMULATOR_HIDDEN void multiply(Site site, Elements elements, Multiply& operand);

// wgmma.mma_async m64n256, 32 bytes of each row, with both matrices in shared memory. The 128 sums
// of a thread are contiguous, and poisoned until they have been waited for.
EMULATOR_HIDDEN void multiply_async(
    Site site, Elements elements, void* sums, uint64_t a, uint64_t b, bool add
);
EMULATOR_HIDDEN void multiply_async_fence(Site site);
EMULATOR_HIDDEN void multiply_async_commit(Site site);
EMULATOR_HIDDEN void multiply_async_wait(Site site, uint32_t left);

EMULATOR_HIDDEN uint16_t half_of(float value);
EMULATOR_HIDDEN float float_of(uint16_t half);

template <class T>
EMULATOR_OWN static inline uint32_t word_of(T value) {
    static_assert(sizeof(T) == 4, "a 32-bit register");
    return (uint32_t)__builtin_bit_cast(uint32_t, value);
}
template <class T>
EMULATOR_OWN static inline void set_word(T& to, uint32_t word) {
    static_assert(sizeof(T) == 4, "a 32-bit register");
    to = __builtin_bit_cast(T, word);
}

}  // namespace emulator
