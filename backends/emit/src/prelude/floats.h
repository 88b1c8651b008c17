/* Operations of floats that C lacks, as NumPy has them. */
#include <math.h>

static inline float rx_min_f32(float a, float b) { return a <= b || a != a ? a : b; }
static inline float rx_max_f32(float a, float b) { return a >= b || a != a ? a : b; }
static inline double rx_min_f64(double a, double b) { return a <= b || a != a ? a : b; }
static inline double rx_max_f64(double a, double b) { return a >= b || a != a ? a : b; }

/* How lanes of a loop are combined. */
#pragma omp declare reduction(rx_most : float : omp_out = rx_max_f32(omp_out, omp_in)) initializer(omp_priv = -INFINITY)
#pragma omp declare reduction(rx_most : double : omp_out = rx_max_f64(omp_out, omp_in)) initializer(omp_priv = -INFINITY)
#pragma omp declare reduction(rx_least : float : omp_out = rx_min_f32(omp_out, omp_in)) initializer(omp_priv = INFINITY)
#pragma omp declare reduction(rx_least : double : omp_out = rx_min_f64(omp_out, omp_in)) initializer(omp_priv = INFINITY)

/* Numbers in the order of floats, so that the greatest is one operation on a vector that waits for one operation
   before; NaN is not among them. */
static inline int32_t rx_key_f32(float x) {
    int32_t bits = (int32_t)rx_bits_of_f32(x);
    return bits ^ ((bits >> 31) & 0x7fffffff);
}
static inline float rx_f32_of_key(int32_t key) {
    return rx_f32_of_bits((uint32_t)(key ^ ((key >> 31) & 0x7fffffff)));
}

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

/* Operations that are rounded once in every dtype. */
static inline double rx_abs_f64(double x) { return fabs(x); }
static inline float rx_abs_f32(float x) { return fabsf(x); }
/* One of two values that are both at hand. */
static inline double rx_select_f64(int first, double a, double b) { return first ? a : b; }
static inline float rx_select_f32(int first, float a, float b) { return first ? a : b; }
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
