/* Vectors of f32. */
#if defined __AVX512F__
#define RX_LANES 16
#include <immintrin.h>
#define RX_FMA(a, b, c) (rx_lanes) _mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#elif defined __AVX2__ && defined __FMA__
#define RX_LANES 8
#include <immintrin.h>
#define RX_FMA(a, b, c) (rx_lanes) _mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#elif defined __aarch64__
#define RX_LANES 4
#include <arm_neon.h>
#define RX_FMA(a, b, c) (rx_lanes) vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b))
#else
#define RX_LANES 4
#define RX_FMA(a, b, c) ((a) * (b) + (c))
#endif

typedef float rx_lanes __attribute__((vector_size(RX_LANES * 4), may_alias));
typedef float rx_lanes_at __attribute__((vector_size(RX_LANES * 4), may_alias, aligned(4)));
typedef int32_t rx_lane_numbers __attribute__((vector_size(RX_LANES * 4)));

/* Vectors of so many lanes, in one rounding where the processor has that. */
#if defined __FMA__
#define RX_FMA_4(a, b, c) (rx_few_4) _mm_fmadd_ps((__m128)(a), (__m128)(b), (__m128)(c))
#define RX_FMA_8(a, b, c) (rx_few_8) _mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#define RX_FMA_16(a, b, c) (rx_few_16) _mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#elif defined __aarch64__
#define RX_FMA_4(a, b, c) (rx_few_4) vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b))
#else
#define RX_FMA_4(a, b, c) ((a) * (b) + (c))
#endif
