/* Integers: wrapped in their width (compile with -fwrapv), `//` and `%` round down. */
#include <stdlib.h>
#include <string.h>

static inline int64_t rx_floordiv_i64(int64_t a, int64_t b) {
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
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
