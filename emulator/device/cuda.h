// What does CUDA C++ have that C++ lacks? Built-in variables, types, intrinsics and atomics, as far
// as the kernels use them. A function that is missing here is a compile error that names it.
#pragma once
#include "machine.h"

#define __device__
#define __global__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)

#define threadIdx (emulator::self->index)
#define blockIdx (emulator::block_index)
#define blockDim (emulator::block_dimension)
#define gridDim (emulator::grid_dimension)
#define warpSize 32

struct alignas(8) uint2 { unsigned x, y; };
struct alignas(8) int2 { int x, y; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) ulonglong2 { unsigned long long x, y; };
struct alignas(16) double2 { double x, y; };
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline int2 make_int2(int x, int y) { return {x, y}; }
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

// ---- Barriers and warp operations.

namespace emulator {

// Converts any type of up to eight bytes to a number, and back.
template <class T>
EMULATOR_OWN static inline uint64_t bits_of(T value) {
    static_assert(sizeof(T) <= 8, "a warp operation moves at most eight bytes");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
}
template <class T>
EMULATOR_OWN static inline T value_of(uint64_t bits) {
    T value;
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}

struct Shuffle {
    uint64_t value;
    uint32_t from;
    uint64_t result;
    EMULATOR_OWN static void run(Shuffle** lanes, uint32_t mask);
};
EMULATOR_HIDDEN uint64_t shuffle(Site site, uint32_t mask, uint64_t value, uint32_t from);
EMULATOR_HIDDEN uint32_t ballot(Site site, uint32_t mask, bool value);
EMULATOR_HIDDEN uint32_t match_any(Site site, uint32_t mask, uint64_t value);

template <class T>
EMULATOR_OWN static inline T shuffle_to(Site site, uint32_t mask, T value, int lane, int width = 32) {
    uint32_t own = self->lane, first = own & ~(width - 1);
    return value_of<T>(shuffle(site, mask, bits_of(value), first + ((uint32_t)lane & (width - 1))));
}
template <class T>
EMULATOR_OWN static inline T shuffle_up(Site site, uint32_t mask, T value, unsigned by, int width = 32) {
    uint32_t own = self->lane, within = own & (width - 1);
    return value_of<T>(shuffle(site, mask, bits_of(value), within >= by ? own - by : own));
}
template <class T>
EMULATOR_OWN static inline T shuffle_down(Site site, uint32_t mask, T value, unsigned by, int width = 32) {
    uint32_t own = self->lane, within = own & (width - 1);
    return value_of<T>(shuffle(site, mask, bits_of(value), within + by < (uint32_t)width ? own + by : own));
}
template <class T>
EMULATOR_OWN static inline T shuffle_xor(Site site, uint32_t mask, T value, int with, int width = 32) {
    uint32_t own = self->lane, from = own ^ (uint32_t)with;
    bool within = from < (own & ~(width - 1)) + width;
    return value_of<T>(shuffle(site, mask, bits_of(value), within ? from : own));
}

}  // namespace emulator

#define __syncthreads() ((void)emulator::barrier(EMULATOR_SITE("__syncthreads"), false))
#define __syncthreads_or(p) ((int)emulator::barrier(EMULATOR_SITE("__syncthreads_or"), (p) != 0).any)
#define __syncthreads_and(p) ((int)emulator::barrier(EMULATOR_SITE("__syncthreads_and"), (p) != 0).all)
#define __syncthreads_count(p) ((int)emulator::barrier(EMULATOR_SITE("__syncthreads_count"), (p) != 0).count)
static inline uint32_t emulator_mask(uint32_t mask = 0xffffffffu) { return mask; }
#define __syncwarp(...) (emulator::synchronize_warp(EMULATOR_SITE("__syncwarp"), emulator_mask(__VA_ARGS__)))
#define __shfl_sync(...) (emulator::shuffle_to(EMULATOR_SITE("__shfl_sync"), __VA_ARGS__))
#define __shfl_up_sync(...) (emulator::shuffle_up(EMULATOR_SITE("__shfl_up_sync"), __VA_ARGS__))
#define __shfl_down_sync(...) (emulator::shuffle_down(EMULATOR_SITE("__shfl_down_sync"), __VA_ARGS__))
#define __shfl_xor_sync(...) (emulator::shuffle_xor(EMULATOR_SITE("__shfl_xor_sync"), __VA_ARGS__))
#define __ballot_sync(m, p) (emulator::ballot(EMULATOR_SITE("__ballot_sync"), m, (p) != 0))
#define __any_sync(m, p) ((int)(emulator::ballot(EMULATOR_SITE("__any_sync"), m, (p) != 0) != 0))
#define __all_sync(m, p) ((int)(emulator::ballot(EMULATOR_SITE("__all_sync"), m, (p) == 0) == 0))
#define __match_any_sync(m, v) (emulator::match_any(EMULATOR_SITE("__match_any_sync"), m, emulator::bits_of(v)))
static inline void __threadfence() {}
static inline void __threadfence_block() {}

// ---- Numbers.

extern "C" {
float sqrtf(float) noexcept; double sqrt(double) noexcept;
float ceilf(float) noexcept; double ceil(double) noexcept;
float floorf(float) noexcept; double floor(double) noexcept;
float fabsf(float) noexcept; double fabs(double) noexcept;
float fminf(float, float) noexcept; double fmin(double, double) noexcept;
float fmaxf(float, float) noexcept; double fmax(double, double) noexcept;
float fmaf(float, float, float) noexcept; double fma(double, double, double) noexcept;
float nextafterf(float, float) noexcept;
}

template <class A, class B>
static inline auto min(A a, B b) -> decltype(true ? A() : B()) {
    typedef decltype(true ? A() : B()) T;
    return (T)b < (T)a ? (T)b : (T)a;
}
template <class A, class B>
static inline auto max(A a, B b) -> decltype(true ? A() : B()) {
    typedef decltype(true ? A() : B()) T;
    return (T)a < (T)b ? (T)b : (T)a;
}
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x != 0 ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x != 0 ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline int __viaddmax_s32(int a, int b, int c) {
    int sum = (int)((unsigned)a + (unsigned)b);
    return sum > c ? sum : c;
}
static inline float __int_as_float(int x) { return emulator::value_of<float>((unsigned)x); }
static inline float __uint_as_float(unsigned x) { return emulator::value_of<float>(x); }
static inline int __float_as_int(float x) { return emulator::value_of<int>(emulator::bits_of(x)); }
static inline unsigned __float_as_uint(float x) { return (unsigned)emulator::bits_of(x); }
static inline long long __double_as_longlong(double x) { return (long long)emulator::bits_of(x); }
static inline double __longlong_as_double(long long x) { return emulator::value_of<double>((uint64_t)x); }

// Plain products and sums may be fused, as NVRTC fuses them. These are never fused, because the
// compiler does not see where their results come from.
template <class T>
static inline T emulator_rounded(T value) {
#if defined(__x86_64__)
    asm("" : "+x"(value));
#else
    asm("" : "+w"(value));
#endif
    return value;
}
static inline double __dadd_rn(double a, double b) { return emulator_rounded(emulator_rounded(a) + b); }
static inline double __dsub_rn(double a, double b) { return emulator_rounded(emulator_rounded(a) - b); }
static inline double __dmul_rn(double a, double b) { return emulator_rounded(a * b); }
static inline double __ddiv_rn(double a, double b) { return emulator_rounded(a / b); }
static inline double __dsqrt_rn(double a) { return emulator_rounded(sqrt(a)); }
static inline float __fadd_rn(float a, float b) { return emulator_rounded(emulator_rounded(a) + b); }
static inline float __fmul_rn(float a, float b) { return emulator_rounded(a * b); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
// The error may be two units in the last place.
static inline float __fdividef(float a, float b) { return a * emulator_rounded(1.0f / b); }
static inline float __double2float_rn(double x) { return (float)x; }
static inline float __double2float_rd(double x) {
    float nearest = (float)x;
    return (double)nearest > x ? nextafterf(nearest, -__builtin_inff()) : nearest;
}
static inline float __double2float_ru(double x) {
    float nearest = (float)x;
    return (double)nearest < x ? nextafterf(nearest, __builtin_inff()) : nearest;
}
template <class T>
static inline T __ldg(const T* pointer) { return *pointer; }

// ---- Atomics. No other thread runs meanwhile.

namespace emulator {
template <class T> struct Same { typedef T type; };
}  // namespace emulator

#define EMULATOR_ATOMIC(name, RESULT)                                                                     \
    template <class T>                                                                                    \
    EMULATOR_OWN EMULATOR_ALONE static inline T name(T* at, typename emulator::Same<T>::type value) {                   \
        EMULATOR_NOTE_ATOMIC(at, sizeof(T));                                                              \
        if ((uintptr_t)at % sizeof(T) != 0) emulator::die(#name ": the address %p is not aligned", (void*)at); \
        T old = *at;                                                                                      \
        *at = (T)(RESULT);                                                                                \
        return old;                                                                                       \
    }
EMULATOR_ATOMIC(atomicAdd, old + value)
EMULATOR_ATOMIC(atomicMin, value < old ? value : old)
EMULATOR_ATOMIC(atomicMax, value > old ? value : old)
EMULATOR_ATOMIC(atomicAnd, old & value)
EMULATOR_ATOMIC(atomicOr, old | value)
EMULATOR_ATOMIC(atomicXor, old ^ value)
EMULATOR_ATOMIC(atomicExch, value)
template <class T>
EMULATOR_OWN EMULATOR_ALONE static inline T atomicCAS(
    T* at, typename emulator::Same<T>::type expected, typename emulator::Same<T>::type value
) {
    EMULATOR_NOTE_ATOMIC(at, sizeof(T));
    if ((uintptr_t)at % sizeof(T) != 0) emulator::die("atomicCAS: the address %p is not aligned", (void*)at);
    T old = *at;
    if (old == expected) *at = value;
    return old;
}

namespace emulator {
EMULATOR_HIDDEN uint32_t shared_address(const void* pointer);

// A kernel's entry in the module's table, with the parameters of its type.
template <class... P>
struct Parameters {
    static constexpr uint32_t sizes[sizeof...(P) + 1] = {(uint32_t)sizeof(P)..., 0};
};
template <unsigned... I> struct Indices {};
template <unsigned N, unsigned... I> struct Count : Count<N - 1, N - 1, I...> {};
template <unsigned... I> struct Count<0, I...> { typedef Indices<I...> type; };

template <class F> struct Entry;
template <class... P>
struct Entry<void(P...)> {
    template <void (*F)(P...), unsigned... I>
    EMULATOR_OWN static void call(void** arguments, Indices<I...>) {
        F(*(P*)arguments[I]...);
    }
    template <void (*F)(P...)>
    EMULATOR_OWN static void run(void** arguments) {
        call<F>(arguments, typename Count<sizeof...(P)>::type());
    }
    static constexpr uint32_t count = sizeof...(P);
    static constexpr const uint32_t* sizes = Parameters<P...>::sizes;
};
}  // namespace emulator

#define __cvta_generic_to_shared(p) ((size_t)emulator::shared_address(p))
#define EMULATOR_KERNEL(name, threads)                                                                   \
    { #name, &emulator::Entry<decltype(name)>::run<&name>, emulator::Entry<decltype(name)>::count,       \
      emulator::Entry<decltype(name)>::sizes, threads }
