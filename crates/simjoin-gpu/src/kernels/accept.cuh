// Is a pair in the answer? Computed with the same whole numbers as on the CPU.
//
// The threshold is p/q with p <= q < 2^60, sizes are below 2^31. The linear forms stay below 2^94 and
// are compared in 128 bits, the squares of cosine below 2^182 in 192 bits.

typedef unsigned int u32;
typedef unsigned long long u64;

#define JACCARD 0
#define COSINE 1
#define DICE 2
#define OVERLAP 3
#define CONTAINMENT 4

struct Predicate {
    u64 p;
    u64 q;
    u32 measure;
    // The required overlap of sets of sizes a and b is at least slope * (a + b), slope * sqrt(a *
    // b), slope * min(a, b) or slope, by measure, less a little for rounding.
    float slope;
};

struct Wide {
    u64 high, middle, low;
};

__device__ __forceinline__ bool at_least(Wide a, Wide b) {
    if (a.high != b.high) return a.high > b.high;
    if (a.middle != b.middle) return a.middle > b.middle;
    return a.low >= b.low;
}

// a * b for a below 2^128 (high, low) and b below 2^64.
__device__ __forceinline__ Wide times(u64 high, u64 low, u64 b) {
    Wide product;
    product.low = low * b;
    u64 carry = __umul64hi(low, b);
    u64 middle = high * b;
    product.middle = middle + carry;
    product.high = __umul64hi(high, b) + (product.middle < middle ? 1 : 0);
    return product;
}

// a * b for two numbers below 2^96 each, given as (high, low).
__device__ __forceinline__ Wide square_product(u64 a_high, u64 a_low, u64 b_high, u64 b_low) {
    Wide sum = times(a_high, a_low, b_low);
    Wide upper = times(a_high, a_low, b_high);
    u64 middle = sum.middle + upper.low;
    u64 carry = middle < sum.middle ? 1 : 0;
    sum.middle = middle;
    sum.high += upper.middle + carry;
    return sum;
}

__device__ __forceinline__ bool accepts(const Predicate& of, u32 a, u32 b, u32 overlap) {
    Wide left, right;
    switch (of.measure) {
    case JACCARD:
        left = times(0, of.p + of.q, overlap);
        right = times(0, of.p, (u64)a + b);
        break;
    case DICE:
        left = times(0, 2 * of.q, overlap);
        right = times(0, of.p, (u64)a + b);
        break;
    case OVERLAP:
        left = times(0, of.q, overlap);
        right = times(0, of.p, 1);
        break;
    case CONTAINMENT:
        left = times(0, of.q, overlap);
        right = times(0, of.p, a < b ? a : b);
        break;
    default: {
        Wide one = times(0, of.q, overlap);
        left = square_product(one.middle, one.low, one.middle, one.low);
        u64 p_low = of.p * of.p;
        u64 p_high = __umul64hi(of.p, of.p);
        right = times(p_high, p_low, (u64)a * b);
        break;
    }
    }
    return at_least(left, right);
}

// Returns a lower bound of the overlap of a pair in the answer.
__device__ __forceinline__ int least_overlap(const Predicate& of, u32 a, u32 b) {
    float size;
    switch (of.measure) {
    case JACCARD:
    case DICE:
        size = (float)a + (float)b;
        break;
    case OVERLAP:
        size = 1.0f;
        break;
    case CONTAINMENT:
        size = (float)(a < b ? a : b);
        break;
    default:
        size = sqrtf((float)a) * sqrtf((float)b);
        break;
    }
    float least = of.slope * size;
    // This is far more than the rounding of the few operations above.
    least -= least * 1e-5f + 1e-3f;
    int whole = (int)ceilf(least);
    return whole < 1 ? 1 : whole;
}
