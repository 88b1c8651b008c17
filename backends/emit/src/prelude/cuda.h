/* CUDA C++ for NVRTC or nvcc. Compile with --fmad=false: an operation rounds once, and a product that goes
   into a sum is an operation. */
#define RX_CUDA 1
#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define INT64_MAX 0x7fffffffffffffffll
#define INT64_MIN (-INT64_MAX - 1)
#define INT64_C(value) value##ll
#define UINT64_C(value) value##ull
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#else
#include <math.h>
#include <stdint.h>
#include <string.h>
#endif

/* A status that says that nothing stopped; else it is one more than the least site where a thread stopped. */
#define RX_FINE 0xffffffffu
static inline void rx_stop(uint32_t *status, uint32_t site) { atomicMin(status, site); }

/* Integers wrap; a sum or product that leaves i64 is found before. */
static inline bool rx_add_overflow(int64_t a, int64_t b, int64_t *sum) {
    *sum = (int64_t)((uint64_t)a + (uint64_t)b);
    return ((a ^ *sum) & (b ^ *sum)) < 0;
}
static inline bool rx_sub_overflow(int64_t a, int64_t b, int64_t *rest) {
    *rest = (int64_t)((uint64_t)a - (uint64_t)b);
    return ((a ^ b) & (a ^ *rest)) < 0;
}
static inline bool rx_mul_overflow(int64_t a, int64_t b, int64_t *product) {
    uint64_t low = (uint64_t)a * (uint64_t)b;
    *product = (int64_t)low;
    return __mul64hi(a, b) != *product >> 63;
}
/* Of numbers that are not negative. Devices divide 32 bits several times as fast as 64. */
static inline int64_t rx_quotient(int64_t a, int64_t b) {
    return (uint64_t)(a | b) >> 32 ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}
static inline int64_t rx_rest(int64_t a, int64_t b) {
    return (uint64_t)(a | b) >> 32 ? a % b : (int64_t)((uint32_t)a % (uint32_t)b);
}
#define __builtin_add_overflow rx_add_overflow
#define __builtin_sub_overflow rx_sub_overflow
#define __builtin_mul_overflow rx_mul_overflow
#define __builtin_ldexp ldexp
#define __builtin_fabs fabs

/* Neighbouring elements, which are loaded and stored at once. */
template <typename Element, int width>
struct alignas(sizeof(Element) * width) rx_vector {
    Element at[width];
};

/* The number of a thread in its block, of a block in its grid, and how many of them there are. */
static inline int64_t rx_thread() {
    return ((int64_t)threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
static inline int64_t rx_threads() { return (int64_t)blockDim.x * blockDim.y * blockDim.z; }
static inline int64_t rx_block() {
    return ((int64_t)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
}
