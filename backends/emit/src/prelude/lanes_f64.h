/* Vectors of f64, in as many bits as those of f32. */
#if defined __AVX512F__
#define RX64_LANES 8
#include <immintrin.h>
#define RX64_FMA(a, b, c) (rx64_lanes) _mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c))
#elif defined __AVX2__ && defined __FMA__
#define RX64_LANES 4
#include <immintrin.h>
#define RX64_FMA(a, b, c) (rx64_lanes) _mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c))
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
#else
#define RX64_FMA_4(a, b, c) ((a) * (b) + (c))
#define RX64_FMA_8 RX64_FMA_4
#endif
