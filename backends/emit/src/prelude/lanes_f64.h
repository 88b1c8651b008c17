/* Vectors of f64, in as many bits as those of f32. */
#if defined __AVX512F__
#define RX64_LANES 8
#include <immintrin.h>
#define RX64_FMA(a, b, c) (rx64_lanes) _mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c))
#elif defined __AVX2__ && defined __FMA__
#define RX64_LANES 4
#include <immintrin.h>
#define RX64_FMA(a, b, c) (rx64_lanes) _mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c))
#elif defined __aarch64__
#define RX64_LANES 2
#include <arm_neon.h>
#define RX64_FMA(a, b, c) (rx64_lanes) vfmaq_f64((float64x2_t)(c), (float64x2_t)(a), (float64x2_t)(b))
#else
#define RX64_LANES 2
#define RX64_FMA(a, b, c) ((a) * (b) + (c))
#endif

typedef double rx64_lanes __attribute__((vector_size(RX64_LANES * 8), may_alias));
typedef double rx64_lanes_at __attribute__((vector_size(RX64_LANES * 8), may_alias, aligned(8)));
typedef int64_t rx64_lane_numbers __attribute__((vector_size(RX64_LANES * 8)));

/* Vectors of so many lanes, in one rounding where the processor has that. */
#if defined __FMA__
#define RX64_FMA_4(a, b, c) (rx64_few_4) _mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c))
#define RX64_FMA_8(a, b, c) (rx64_few_8) _mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c))
#elif defined __aarch64__
/* Two vectors of the processor. */
typedef double rx64_four __attribute__((vector_size(32), may_alias));
static inline __attribute__((always_inline)) rx64_four rx64_fma_four(rx64_four a, rx64_four b, rx64_four c) {
    RX_UNROLL(4)
    for (int l = 0; l < 4; l++) c[l] = __builtin_fma(a[l], b[l], c[l]);
    return c;
}
#define RX64_FMA_4(a, b, c) (rx64_few_4) rx64_fma_four((rx64_four)(a), (rx64_four)(b), (rx64_four)(c))
#else
#define RX64_FMA_4(a, b, c) ((a) * (b) + (c))
#endif
