/* relax_kernel.h, ABI 1 */
#include <stdint.h>

/* Dense, row-major; rank and dtype are fixed by the kernel's signature. */
typedef struct rx_tensor {
    void *data;
    const int64_t *shape;
} rx_tensor;

/* Buffers in the order of the parameters, then `int` parameters in order. 0: done. k > 0: a trap,
   site k - 1 of the kernel's table. A buffer that a kernel writes does not overlap another one. */
typedef int32_t (*rx_kernel)(const rx_tensor *tensors, const int64_t *ints);

/* Integers: wrapped in their width (compile with -fwrapv), `//` and `%` round down. */
#include <stdlib.h>
#include <string.h>

static inline int64_t rx_floordiv_i64(int64_t a, int64_t b) {
    if (b == -1) return -a;
    int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

static inline int64_t rx_floormod_i64(int64_t a, int64_t b) {
    if (b == -1) return 0;
    int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static inline int64_t rx_ceildiv_i64(int64_t a, int64_t b) {
    return rx_floordiv_i64(a, b) + (rx_floormod_i64(a, b) != 0);
}

static inline int64_t rx_index_u64(uint64_t a) {
    return a > (uint64_t)INT64_MAX ? INT64_MAX : (int64_t)a;
}

#define RX_INTEGER(name, type)                                                                   \
    static inline type rx_min_##name(type a, type b) { return a <= b ? a : b; }                  \
    static inline type rx_max_##name(type a, type b) { return a >= b ? a : b; }                  \
    static inline type rx_##name##_of_f64(double x) {                                            \
        const int top = (type)-1 > 0 ? (int)sizeof(type) * 8 : (int)sizeof(type) * 8 - 1;        \
        const double limit = __builtin_ldexp(1.0, top);                                          \
        const type most = (type)-1 > 0 ? (type)-1 : (type)~((type)1 << (sizeof(type) * 8 - 1)); \
        const double least = (type)-1 > 0 ? 0.0 : -limit;                                        \
        if (x != x) return 0;                                                                    \
        if (x >= limit) return most;                                                             \
        if (x <= least) return (type)-1 > 0 ? 0 : (type)(-most - 1);                             \
        return (type)x;                                                                          \
    }
RX_INTEGER(i8, int8_t)
RX_INTEGER(i16, int16_t)
RX_INTEGER(i32, int32_t)
RX_INTEGER(i64, int64_t)
RX_INTEGER(u8, uint8_t)
RX_INTEGER(u16, uint16_t)
RX_INTEGER(u32, uint32_t)
RX_INTEGER(u64, uint64_t)

/* The product of the extents of an allocation in bytes; nonzero where it is beyond 2^62. */
static inline int rx_bytes(int64_t *bytes, int rank, const int64_t *extents, int64_t size) {
    int64_t total = size;
    for (int axis = 0; axis < rank; axis++)
        if (extents[axis] == 0) return *bytes = 0, 0;
    for (int axis = 0; axis < rank; axis++)
        if (__builtin_mul_overflow(total, extents[axis], &total)) return 1;
    *bytes = total;
    return total > (INT64_C(1) << 62);
}

/* Memory in place of what `old` held; NULL where there is none. */
static inline void *rx_fresh(void *old, int64_t bytes) {
    free(old);
    size_t whole = ((size_t)bytes + 64) & ~(size_t)63;
    return aligned_alloc(64, whole);
}

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

#ifdef __F16C__
#include <immintrin.h>
static inline float rx_f32_of_f16(uint16_t bits) { return _cvtsh_ss(bits); }
static inline uint16_t rx_f16_of_f32(float x) { return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }
#else
static inline float rx_f32_of_f16(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = bits & 0x7fff;
    if (rest >= 0x7c00) return rx_f32_of_bits(sign | 0x7f800000u | (rest & 0x3ff) << 13);
    /* Subnormals come out normal by the multiplication. */
    float magnitude = rx_f32_of_bits(rest << 13) * rx_f32_of_bits(0x77800000u);
    return rx_f32_of_bits(sign | rx_bits_of_f32(magnitude));
}
static inline uint16_t rx_f16_of_f32(float x) {
    uint32_t bits = rx_bits_of_f32(x), sign = (bits >> 16) & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000u) return (uint16_t)(sign | 0x7e00);
    if (rest >= 0x477ff000u) return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000u) {
        /* The sum leaves the digits of a subnormal in the last bits, rounded to nearest even. */
        float sum = rx_f32_of_bits(rest) + 0.5f;
        return (uint16_t)(sign | (rx_bits_of_f32(sum) - 0x3f000000u));
    }
    rest += 0xc8000fffu + ((rest >> 13) & 1);
    return (uint16_t)(sign | rest >> 13);
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

/* Operations of floats that C lacks, as NumPy has them. */
#include <math.h>

static inline float rx_min_f32(float a, float b) { return a <= b || a != a ? a : b; }
static inline float rx_max_f32(float a, float b) { return a >= b || a != a ? a : b; }
static inline double rx_min_f64(double a, double b) { return a <= b || a != a ? a : b; }
static inline double rx_max_f64(double a, double b) { return a >= b || a != a ? a : b; }

static inline double rx_floormod_f64(double a, double b) {
    double rest = fmod(a, b);
    if (rest == 0) return copysign(0.0, b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}

static inline double rx_floordiv_f64(double a, double b) {
    if (b == 0) return a / b;
    double rest = fmod(a, b), quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
    if (quotient == 0) return copysign(0.0, a / b);
    double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}

/* `a * b + c` for operands of at most 24 digits, rounded to odd; the product is exact. */
static inline double rx_fma_odd(double a, double b, double c) {
    double product = a * b, sum = product + c;
    if (!isfinite(sum)) return sum;
    double back = sum - product, error = (product - (sum - back)) + (c - back);
    uint64_t bits = rx_bits_of_f64(sum);
    if (error == 0 || (bits & 1)) return sum;
    return rx_f64_of_bits((error > 0) == (sum > 0) ? bits + 1 : bits - 1);
}

/* Functions: computed in double, rounded once to the dtype. */
#define RX_FUNCTION(name, value)                                                                 \
    static inline double rx_##name##_f64(double x) { return value; }                             \
    static inline float rx_##name##_f32(float x) { return (float)rx_##name##_f64((double)x); }
RX_FUNCTION(exp, exp(x))
RX_FUNCTION(log, log(x))
RX_FUNCTION(rsqrt, 1.0 / sqrt(x))
RX_FUNCTION(tanh, tanh(x))
RX_FUNCTION(erf, erf(x))
RX_FUNCTION(erfc, erfc(x))
RX_FUNCTION(sin, sin(x))
RX_FUNCTION(cos, cos(x))
RX_FUNCTION(tan, tan(x))
RX_FUNCTION(asin, asin(x))
RX_FUNCTION(acos, acos(x))
RX_FUNCTION(atan, atan(x))
RX_FUNCTION(sinh, sinh(x))
RX_FUNCTION(cosh, cosh(x))
RX_FUNCTION(asinh, asinh(x))
RX_FUNCTION(acosh, acosh(x))
RX_FUNCTION(atanh, atanh(x))
RX_FUNCTION(expm1, expm1(x))
RX_FUNCTION(log1p, log1p(x))

static inline double rx_sigmoid_f64(double x) {
    double small = exp(-fabs(x));
    return x >= 0 ? 1.0 / (1.0 + small) : small / (1.0 + small);
}
static inline float rx_sigmoid_f32(float x) { return (float)rx_sigmoid_f64((double)x); }

static inline double rx_abs_f64(double x) { return fabs(x); }
static inline float rx_abs_f32(float x) { return fabsf(x); }
static inline double rx_sqrt_f64(double x) { return sqrt(x); }
static inline float rx_sqrt_f32(float x) { return sqrtf(x); }
static inline double rx_floor_f64(double x) { return floor(x); }
static inline float rx_floor_f32(float x) { return floorf(x); }
static inline double rx_ceil_f64(double x) { return ceil(x); }
static inline float rx_ceil_f32(float x) { return ceilf(x); }
static inline double rx_trunc_f64(double x) { return trunc(x); }
static inline float rx_trunc_f32(float x) { return truncf(x); }
static inline double rx_round_f64(double x) { return rint(x); }
static inline float rx_round_f32(float x) { return rintf(x); }
static inline double rx_pow_f64(double x, double y) { return pow(x, y); }
static inline float rx_pow_f32(float x, float y) { return (float)pow((double)x, (double)y); }
static inline double rx_atan2_f64(double x, double y) { return atan2(x, y); }
static inline float rx_atan2_f32(float x, float y) { return (float)atan2((double)x, (double)y); }

// @tensorir_function
// def legal_matmul(
//     X0: Buffer(("n0", "n1"), "f32"),
//     X1: Buffer(("n1", "n2"), "f32"),
//     T: Buffer(("n0", "n2"), "f64"),
//     Y: Buffer(("n0", "n2"), "f32"),
// ):
//     func_attr("compute_pattern", "OutputEwiseFusible")
//     for i0, i1 in grid(n0, n2):
//         with block("matmul"):
//             T[i0, i1] = 0.0
//             for i2 in grid(n1):
//                 T[i0, i1] += f64(X0[i0, i2]) * f64(X1[i2, i1])
//             Y[i0, i1] = f32(T[i0, i1])
// 6 checks, 6 elided, 0 left
static __attribute__((noinline)) int32_t relax_legal_matmul_body(
    const float *restrict X0,
    const float *restrict X1,
    double *restrict T,
    float *restrict Y,
    int64_t n0,
    int64_t n1,
    int64_t n2) {
    int32_t status = 0;
    for (int64_t i0 = 0; i0 < n0; i0++) {
        for (int64_t i1 = 0; i1 < n2; i1++) {
            T[i0 * n2 + i1] = 0.0;
            for (int64_t i2 = 0; i2 < n1; i2++) {
                T[i0 * n2 + i1] = (T[i0 * n2 + i1] + ((double)X0[i0 * n1 + i2] * (double)X1[i2 * n2 + i1]));
            }
            Y[i0 * n2 + i1] = (float)T[i0 * n2 + i1];
        }
    }
    return status;
}

int32_t relax_legal_matmul(const rx_tensor *tensors, const int64_t *ints) {
    (void)tensors, (void)ints;
    const int64_t n0 = tensors[0].shape[0];
    const int64_t n1 = tensors[0].shape[1];
    const int64_t n2 = tensors[1].shape[1];
    if (tensors[1].shape[0] != n1) return 1;
    if (tensors[2].shape[0] != n0) return 2;
    if (tensors[2].shape[1] != n2) return 3;
    if (tensors[3].shape[0] != n0) return 4;
    if (tensors[3].shape[1] != n2) return 5;
    if (n0 < 0) return 6;
    if (n1 < 0) return 7;
    if (n2 < 0) return 8;
    return relax_legal_matmul_body((float *)tensors[0].data, (float *)tensors[1].data, (double *)tensors[2].data, (float *)tensors[3].data, n0, n1, n2);
}

// @tensorir_function
// def legal_add(
//     X0: Buffer(("n0", "n1"), "f32"),
//     X1: Buffer(("n1",), "f32"),
//     Y: Buffer(("n0", "n1"), "f32"),
// ):
//     func_attr("compute_pattern", "ElementWise")
//     for i0, i1 in grid(n0, n1):
//         with block("add"):
//             Y[i0, i1] = X0[i0, i1] + X1[i1]
// 3 checks, 3 elided, 0 left
static __attribute__((noinline)) int32_t relax_legal_add_body(
    const float *restrict X0,
    const float *restrict X1,
    float *restrict Y,
    int64_t n0,
    int64_t n1) {
    int32_t status = 0;
    for (int64_t i0 = 0; i0 < n0; i0++) {
        for (int64_t i1 = 0; i1 < n1; i1++) {
            Y[i0 * n1 + i1] = (X0[i0 * n1 + i1] + X1[i1]);
        }
    }
    return status;
}

int32_t relax_legal_add(const rx_tensor *tensors, const int64_t *ints) {
    (void)tensors, (void)ints;
    const int64_t n0 = tensors[0].shape[0];
    const int64_t n1 = tensors[0].shape[1];
    if (tensors[1].shape[0] != n1) return 1;
    if (tensors[2].shape[0] != n0) return 2;
    if (tensors[2].shape[1] != n1) return 3;
    if (n0 < 0) return 4;
    if (n1 < 0) return 5;
    return relax_legal_add_body((float *)tensors[0].data, (float *)tensors[1].data, (float *)tensors[2].data, n0, n1);
}
