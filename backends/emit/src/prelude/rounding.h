/* f16 and bf16 lie in memory as 16 bits, and are computed with as floats that hold their values:
   each operation rounds once more, which for + - * / and the square root is the right result, a
   float having more than twice their digits. */
static inline float rx_f32_of_bits(uint32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
static inline uint32_t rx_bits_of_f32(float x) { uint32_t bits; memcpy(&bits, &x, 4); return bits; }
static inline double rx_f64_of_bits(uint64_t bits) { double x; memcpy(&x, &bits, 8); return x; }
static inline uint64_t rx_bits_of_f64(double x) { uint64_t bits; memcpy(&bits, &x, 8); return bits; }

static inline float rx_f32_of_bf16(uint16_t bits) { return rx_f32_of_bits((uint32_t)bits << 16); }

static inline uint16_t rx_bf16_of_f32(float x) {
    uint32_t bits = rx_bits_of_f32(x);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
    return x != x ? (uint16_t)((bits >> 16) | 0x40) : (uint16_t)rounded;
}

#if defined __CUDA_ARCH__
static inline float rx_f32_of_f16(uint16_t bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}
static inline uint16_t rx_f16_of_f32(float x) {
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
#elif defined __F16C__ && !defined __AVX512F__ && !defined __CUDACC__ && !defined RX_CUDA
#include <immintrin.h>
static inline float rx_f32_of_f16(uint16_t bits) { return _cvtsh_ss(bits); }
static inline uint16_t rx_f16_of_f32(float x) { return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }
#else
/* Without branches, so that loops become loops of vectors, which they do not with the instructions above: for vectors of 16
   that is faster by a factor of four. */
static inline uint32_t rx_mask(int is) { return -(uint32_t)is; }
static inline float rx_f32_of_f16(uint16_t bits) {
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = bits & 0x7fff;
    /* The exponents of infinity and NaN are moved twice. */
    const uint32_t normal = (rest << 13) + 0x38000000u + (rx_mask(rest >= 0x7c00) & 0x38000000u);
    const uint32_t small = rx_bits_of_f32((float)(int32_t)rest * 0x1p-24f), is_small = rx_mask(rest < 0x400);
    return rx_f32_of_bits(sign | (small & is_small) | (normal & ~is_small));
}
static inline uint16_t rx_f16_of_f32(float x) {
    const uint32_t bits = rx_bits_of_f32(x), sign = (bits >> 16) & 0x8000, rest = bits & 0x7fffffff;
    const uint32_t normal = (rest + 0xc8000fffu + ((rest >> 13) & 1)) >> 13;
    /* The sum leaves the digits of a subnormal in the last bits, rounded to nearest even. */
    const uint32_t small = rx_bits_of_f32(rx_f32_of_bits(rest) + 0.5f) - 0x3f000000u;
    const uint32_t large = 0x7c00 | (rx_mask(rest > 0x7f800000u) & 0x200);
    const uint32_t is_small = rx_mask(rest < 0x38800000u), is_large = rx_mask(rest >= 0x477ff000u);
    return (uint16_t)(sign | (small & is_small) | (large & is_large) | (normal & ~(is_small | is_large)));
}
#endif

/* The float next to `x` towards zero, its last bit set when inexact: rounding it again rounds once. */
static inline float rx_odd_f32(double x) {
    float nearest = (float)x;
    if ((double)nearest == x || x != x) return nearest;
    uint32_t bits = rx_bits_of_f32(nearest);
    bits -= __builtin_fabs((double)nearest) > __builtin_fabs(x);
    return rx_f32_of_bits(bits | 1);
}
static inline uint16_t rx_f16_of_f64(double x) { return rx_f16_of_f32(rx_odd_f32(x)); }
static inline uint16_t rx_bf16_of_f64(double x) { return rx_bf16_of_f32(rx_odd_f32(x)); }

static inline float rx_round_f16(float x) { return rx_f32_of_f16(rx_f16_of_f32(x)); }
static inline float rx_round_bf16(float x) { return rx_f32_of_bf16(rx_bf16_of_f32(x)); }
static inline float rx_round_f16_of_f64(double x) { return rx_f32_of_f16(rx_f16_of_f64(x)); }
static inline float rx_round_bf16_of_f64(double x) { return rx_f32_of_bf16(rx_bf16_of_f64(x)); }

/* Integers beyond 2^53, rounded to odd as above. */
static inline double rx_odd_f64_of_u64(uint64_t x) {
    uint64_t rest = x & 0x7ff;
    return x >> 53 ? (double)((x & ~UINT64_C(0x7ff)) | (uint64_t)(rest != 0) << 11) : (double)x;
}
static inline double rx_odd_f64_of_i64(int64_t x) {
    return x < 0 ? -rx_odd_f64_of_u64(-(uint64_t)x) : rx_odd_f64_of_u64((uint64_t)x);
}
