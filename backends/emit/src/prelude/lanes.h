/* Vectors, and the sizes of tiles and blocks that they make for. */
#if defined __AVX512F__
#define RX_LANES 16
#define RX_ROWS 14
#define RX_WIDE 6
#include <immintrin.h>
#define RX_FMA(a, b, c) (rx_lanes) _mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#elif defined __AVX2__ && defined __FMA__
#define RX_LANES 8
#define RX_ROWS 6
#define RX_WIDE 2
#include <immintrin.h>
#define RX_FMA(a, b, c) (rx_lanes) _mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#else
#define RX_LANES 4
#define RX_ROWS 6
#define RX_WIDE 2
#define RX_FMA(a, b, c) ((a) * (b) + (c))
#endif
/* Up to RX_WIDE rows a tile is a panel wide, else half of it. */
#define RX_PANEL (4 * RX_LANES)
#define RX_KC 384
#ifndef RX_UNPACKED
#define RX_UNPACKED 12
#endif
#define RX_NC (12 * RX_PANEL)

typedef float rx_lanes __attribute__((vector_size(RX_LANES * 4), may_alias));
typedef float rx_lanes_at __attribute__((vector_size(RX_LANES * 4), may_alias, aligned(4)));
