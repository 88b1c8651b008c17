/* After the prelude: small programs with known results. `main` prints the names of those whose results are wrong. Values come
   through `volatile`, so that nothing is computed by the compiler, and results are compared one by one. */
#include <stdio.h>

#define PROBE static __attribute__((noinline))
#define EXTENT 67

/* Reads behind a guard of several loop variables, as `pad` has them. GCC 12.2 vectorizes such loops with wrong masks. */
#define PAD(T, name, c2, c3, d2, d3, h0, h1, o2)                                                        \
    PROBE void name(const T *restrict X, T *restrict Y, int64_t n, int64_t m, int64_t row) {            \
        const int64_t stop1 = n + h0, stop2 = m + 1 + h1;                                               \
        for (int64_t i0 = 0; i0 < stop1; i0++)                                                          \
            for (int64_t i1 = 0; i1 < stop2; i1++)                                                      \
                for (int64_t i2 = 0; i2 < d2; i2++)                                                     \
                    for (int64_t i3 = 0; i3 < d3; i3++)                                                 \
                        Y[((i0 * row + i1) * d2 + i2) * d3 + i3] =                                      \
                            (((((((((i0 >= 0) && (i0 < n)) && ((i1 - 1) >= 0)) && ((i1 - 1) < m))       \
                            && ((i2 - o2) >= 0)) && ((i2 - o2) < c2)) && (i3 >= 0)) && (i3 < c3))       \
                                 ? RX_GUARDED(X[((i0 * m + (i1 - 1)) * c2 + (i2 - o2)) * c3 + i3])      \
                                 : (T)2);                                                               \
    }                                                                                                   \
    PROBE int name##_is_wrong(T *x, T *y) {                                                             \
        for (volatile int n = 1; n < 5; n++) {                                                          \
            for (volatile int k = 0; k < n * n * c2 * c3; k++) x[k] = (T)(k + 10);                      \
            for (volatile int k = 0; k < 1024; k++) y[k] = (T)99;                                       \
            name(x, y, n, n, n + 1 + h1);                                                               \
            volatile int at = 0;                                                                        \
            for (volatile int i = 0; i < n + h0; i++)                                                   \
                for (volatile int j = 0; j < n + 1 + h1; j++)                                           \
                    for (volatile int k = 0; k < d2; k++)                                               \
                        for (volatile int l = 0; l < d3; l++, at++) {                                   \
                            const volatile int in = i < n && j >= 1 && j <= n && k >= o2 && k < c2 + o2 && l < c3; \
                            const volatile T wanted = in ? x[((i * n + j - 1) * c2 + k - o2) * c3 + l] : (T)2; \
                            if (y[at] != wanted) return 1;                                              \
                        }                                                                               \
        }                                                                                               \
        return 0;                                                                                       \
    }
PAD(int64_t, pad_a, 4, 3, 6, 5, 1, 0, 2)
PAD(double, pad_b, 6, 2, 7, 3, 1, 1, 1)
PAD(uint64_t, pad_c, 2, 2, 3, 2, 2, 0, 0)
PAD(int64_t, pad_d, 3, 5, 4, 6, 2, 2, 1)
PAD(float, pad_e, 4, 3, 6, 5, 1, 0, 2)
PAD(uint8_t, pad_f, 4, 3, 6, 5, 1, 0, 2)

static _Alignas(64) int64_t first[1024], second[1024];

PROBE int guarded_reads(void) {
    return pad_a_is_wrong(first, second) || pad_b_is_wrong((double *)first, (double *)second)
        || pad_c_is_wrong((uint64_t *)first, (uint64_t *)second) || pad_d_is_wrong(first, second)
        || pad_e_is_wrong((float *)first, (float *)second) || pad_f_is_wrong((uint8_t *)first, (uint8_t *)second);
}

/* Integers wrap, in loops too. */
PROBE void wrap(const int32_t *restrict a, const int32_t *restrict b, int32_t *restrict c, int64_t n) {
    for (int64_t i = 0; i < n; i++) c[i] = a[i] * b[i] + b[i];
}
PROBE int is_larger(int32_t a) { return a + 1 > a; }
PROBE int wrapping_integers(void) {
    int32_t *a = (int32_t *)first, *b = (int32_t *)second, c[EXTENT];
    for (volatile int i = 0; i < EXTENT; i++) a[i] = INT32_MAX - i, b[i] = INT32_MIN / 3 * i;
    wrap(a, b, c, EXTENT);
    for (volatile int i = 0; i < EXTENT; i++) {
        const volatile uint32_t wanted = (uint32_t)a[i] * (uint32_t)b[i] + (uint32_t)b[i];
        if ((uint32_t)c[i] != wanted) return 1;
    }
    const volatile int32_t most = INT32_MAX;
    return is_larger(most);
}

/* Quotients and remainders round towards minus infinity. */
PROBE void divide(const int64_t *restrict a, int64_t *restrict quotients, int64_t *restrict rest, int64_t n, int64_t by) {
    for (int64_t i = 0; i < n; i++) quotients[i] = rx_floordiv_i64(a[i], by), rest[i] = rx_floormod_i64(a[i], by);
}
PROBE int floor_division(void) {
    int64_t quotients[EXTENT], rest[EXTENT];
    for (volatile int by = -7; by < 8; by += 2) {
        for (volatile int i = 0; i < EXTENT; i++) first[i] = i - EXTENT / 2;
        divide(first, quotients, rest, EXTENT, by);
        for (volatile int i = 0; i < EXTENT; i++) {
            const volatile double exact = (double)first[i] / by;
            volatile int64_t wanted = (int64_t)exact;
            if ((double)wanted > exact) wanted = wanted - 1;
            if (quotients[i] != wanted || rest[i] != first[i] - wanted * by) return 1;
        }
    }
    return 0;
}

/* A product and a sum round twice. */
PROBE void multiply_add(const float *restrict a, const double *restrict b, float *restrict c, double *restrict d, int64_t n) {
    for (int64_t i = 0; i < n; i++) c[i] = a[i] * a[i] - 1.0f, d[i] = b[i] * b[i] - 1.0;
}
PROBE int contraction(void) {
    float *a = (float *)first, c[EXTENT];
    double *b = (double *)second, d[EXTENT];
    for (volatile int i = 0; i < EXTENT; i++) a[i] = 1.0f + (float)i * 0x1p-20f, b[i] = 1.0 + i * 0x1p-40;
    multiply_add(a, b, c, d, EXTENT);
    for (volatile int i = 0; i < EXTENT; i++) {
        const volatile float square = a[i] * a[i], less = square - 1.0f;
        const volatile double wide = b[i] * b[i], wide_less = wide - 1.0;
        if (c[i] != less || d[i] != wide_less) return 1;
    }
    return 0;
}

/* Sums in the order of the text; -0.0, infinities and NaN. */
PROBE double ordered(const double *x, int64_t n) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    return sum;
}
PROBE void special(const float *restrict x, float *restrict most, int32_t *restrict is_nan, float *restrict zero, int64_t n) {
    for (int64_t i = 0; i < n; i++) most[i] = rx_max_f32(x[i], 1.0f), is_nan[i] = x[i] != x[i], zero[i] = x[i] + 0.0f;
}
PROBE int special_values(void) {
    double *x = (double *)first, sum = 0.0;
    for (volatile int i = 0; i < EXTENT; i++) x[i] = i % 2 ? 1e-3 * i : 1e16 / (i + 1);
    for (volatile int i = 0; i < EXTENT; i++) *(volatile double *)&sum = *(volatile double *)&sum + x[i];
    if (ordered(x, EXTENT) != sum) return 1;
    float *values = (float *)second, most[EXTENT], zero[EXTENT];
    int32_t is_nan[EXTENT];
    const uint32_t bits[] = {0x7fc00000u, 0x80000000u, 0x7f800000u, 0xff800000u, 0xbf800000u, 0x40000000u, 1u};
    for (volatile int i = 0; i < EXTENT; i++) memcpy(&values[i], &bits[i % 7], 4);
    special(values, most, is_nan, zero, EXTENT);
    const uint32_t all_most[] = {0x7fc00000u, 0x3f800000u, 0x7f800000u, 0x3f800000u, 0x3f800000u, 0x40000000u, 0x3f800000u};
    for (volatile int i = 0; i < EXTENT; i++) {
        const volatile int kind = i % 7;
        if (rx_bits_of_f32(most[i]) != all_most[kind] || is_nan[i] != (kind == 0)) return 1;
        const volatile uint32_t wanted = kind == 1 ? 0 : bits[kind];
        if (rx_bits_of_f32(zero[i]) != wanted) return 1;
    }
    return 0;
}

/* The greatest of a row, by vectors with a rest. */
PROBE float greatest(const float *x, int64_t n) {
    float most = -INFINITY;
#pragma omp simd reduction(rx_most : most)
    for (int64_t i = 0; i < n; i++) most = rx_max_f32(most, x[i]);
    return most;
}
PROBE int reductions(void) {
    float *x = (float *)first;
    for (volatile int n = 0; n < EXTENT; n++)
        for (volatile int at = 0; at < n; at++) {
            for (volatile int i = 0; i < n; i++) x[i] = (float)(i == at ? 5 : -i);
            if (greatest(x, n) != 5.0f) return 1;
        }
    return greatest(x, 0) != -INFINITY;
}

/* f16 and bf16 hold their values, and floats become the nearest of them. */
PROBE void narrow(const float *restrict x, uint16_t *restrict f16, uint16_t *restrict bf16, int64_t n) {
    for (int64_t i = 0; i < n; i++) f16[i] = rx_f16_of_f32(x[i]), bf16[i] = rx_bf16_of_f32(x[i]);
}
PROBE void widen(const uint16_t *restrict x, float *restrict f16, float *restrict bf16, int64_t n) {
    for (int64_t i = 0; i < n; i++) f16[i] = rx_f32_of_f16(x[i]), bf16[i] = rx_f32_of_bf16(x[i]);
}
PROBE int halves(void) {
    static uint16_t bits[256], f16[256], bf16[256], other[256];
    static float wide[256], wide_b[256];
    for (volatile uint32_t from = 0; from < 0x7c00; from += 256) {
        for (volatile uint32_t i = 0; i < 256; i++) bits[i] = (uint16_t)(from + i);
        widen(bits, wide, wide_b, 256);
        narrow(wide, f16, other, 256), narrow(wide_b, other, bf16, 256);
        for (volatile int i = 0; i < 256; i++) {
            const volatile int exponent = bits[i] >> 10, digits = bits[i] & 1023;
            const volatile double value = exponent ? ldexp(1024 + digits, exponent - 25) : ldexp(digits, -24);
            if (f16[i] != bits[i] || bf16[i] != bits[i] || (double)wide[i] != value) return 1;
        }
    }
    const float between[] = {65519.0f, 65520.0f, 1.00048828125f, 1.001f, 0x1p-25f, 0x1.8p-25f};
    const uint16_t nearest[] = {0x7bff, 0x7c00, 0x3c00, 0x3c01, 0, 1};
    narrow(between, f16, bf16, 6);
    for (volatile int i = 0; i < 6; i++)
        if (f16[i] != nearest[i]) return 1;
    return 0;
}

/* Floats become integers that hold them, NaN becomes 0. Clang 19.1.7 gives another number for NaN in this sum with AVX-512. */
PROBE void dequantize(const float *restrict s, const float *restrict x, const int8_t *restrict c, uint16_t *restrict y, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        y[i] = rx_f16_of_f32(rx_round_f16_of_f64(rx_max_f64(rx_min_f64(
            (((double)rx_u16_of_f64(rx_max_f64(rx_min_f64((double)x[i], 65535.0), 0.0)) - (double)c[0]) * (double)s[0]),
            65504.0), (-65504.0))));
}
PROBE int conversions(void) {
    float *x = (float *)first;
    uint16_t y[EXTENT];
    const float scale = 1.0f;
    const int8_t center = 3;
    for (volatile int i = 0; i < EXTENT; i++) x[i] = i % 3 ? (float)i : rx_f32_of_bits(0x7fc00000u);
    dequantize(&scale, x, &center, y, EXTENT);
    for (volatile int i = 0; i < EXTENT; i++) {
        const volatile float wanted = (float)((i % 3 ? i : 0) - 3);
        if (rx_f32_of_f16(y[i]) != wanted) return 1;
    }
    return 0;
}

/* Memory of a freed tensor is written with other types. */
PROBE int32_t store(int32_t *to, float *also) { *to = 1; *also = 2.0f; return *to; }
PROBE int reused_memory(void) {
    return store((int32_t *)first, (float *)first) != 0x40000000;
}

/* Columns: steps of several elements, with a rest. */
PROBE void columns(const float *restrict x, float *restrict y, int64_t n, int64_t m) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++) y[j * n + i] = x[i * m + j] * 2.0f;
}
PROBE int strides(void) {
    float *x = (float *)first, *y = (float *)second;
    for (volatile int n = 1; n < 20; n++)
        for (volatile int m = 1; m < 20; m += 3) {
            for (volatile int k = 0; k < n * m; k++) x[k] = (float)k;
            columns(x, y, n, m);
            for (volatile int i = 0; i < n; i++)
                for (volatile int j = 0; j < m; j++)
                    if (y[j * n + i] != (float)(2 * (i * m + j))) return 1;
        }
    return 0;
}

int main(void) {
    static const struct { const char *name; int (*is_wrong)(void); } probes[] = {
        {"guarded_reads", guarded_reads}, {"wrapping_integers", wrapping_integers}, {"floor_division", floor_division},
        {"contraction", contraction}, {"special_values", special_values}, {"reductions", reductions},
        {"halves", halves}, {"conversions", conversions}, {"reused_memory", reused_memory}, {"strides", strides}};
    for (unsigned at = 0; at < sizeof probes / sizeof *probes; at++)
        if (probes[at].is_wrong()) puts(probes[at].name);
    puts("done");
    return 0;
}
