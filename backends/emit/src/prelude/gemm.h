/* Products of f32 matrices, C = A B, in f32: the sum of each element is formed in blocks of RX_KC terms,
   each in order with one rounding a term. With s the sum of the magnitudes of the terms, the error is at
   most (RX_KC + k / RX_KC + 1) * 2^-24 * s.

   As in Vortex, what is computed at once is a tile of registers: `rows` x (4 or 2) vectors, the widest
   that the registers hold for that many rows, so that edges waste nothing; the rows of the whole product
   are spread evenly over tiles. B is packed into panels where it is read more than once. */
#if defined __AVX512F__
#define RX_LANES 16
#define RX_ROWS_WIDE 6
#define RX_ROWS 14
#include <immintrin.h>
#define RX_FMA(a, b, c) (rx_lanes) _mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#elif defined __AVX2__ && defined __FMA__
#define RX_LANES 8
#define RX_ROWS_WIDE 2
#define RX_ROWS 6
#include <immintrin.h>
#define RX_FMA(a, b, c) (rx_lanes) _mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#else
#define RX_LANES 4
#define RX_ROWS_WIDE 2
#define RX_ROWS 6
#define RX_FMA(a, b, c) ((a) * (b) + (c))
#endif
#define RX_PANEL (4 * RX_LANES)
#define RX_KC 384
#ifndef RX_UNPACKED
#define RX_UNPACKED 12
#endif
#define RX_NC (12 * RX_PANEL)

typedef float rx_lanes __attribute__((vector_size(RX_LANES * 4), may_alias));
typedef float rx_lanes_at __attribute__((vector_size(RX_LANES * 4), may_alias, aligned(4)));

/* One matrix: element (i, j) is at i * row + j * column. */
typedef struct rx_matrix {
    const float *data;
    int64_t row, column;
} rx_matrix;

/* A tile: rows x width lanes of C from `depth` terms; adds to C where `more`. a is [depth][rows],
   b is [depth] rows `step` apart. */
static inline __attribute__((always_inline)) void rx_tile(
    const int rows, const int width, int64_t depth, const float *restrict a, const float *restrict b,
    int64_t step, float *restrict c, int64_t c_row, int more) {
    rx_lanes sums[14][4];
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < width; j++) sums[i][j] = (rx_lanes){0};
    for (int64_t k = 0; k < depth; k++) {
        rx_lanes right[4];
        if (step != RX_PANEL)
#pragma GCC unroll 4
            for (int j = 0; j < width; j++) __builtin_prefetch(b + (k + 8) * step + j * RX_LANES);
#pragma GCC unroll 4
        for (int j = 0; j < width; j++) right[j] = *(const rx_lanes_at *)(b + k * step + j * RX_LANES);
#pragma GCC unroll 14
        for (int i = 0; i < rows; i++) {
            rx_lanes left = a[k * rows + i] - (rx_lanes){0};
#pragma GCC unroll 4
            for (int j = 0; j < width; j++) sums[i][j] = RX_FMA(left, right[j], sums[i][j]);
        }
    }
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < width; j++) {
            rx_lanes_at *to = (rx_lanes_at *)(c + i * c_row + j * RX_LANES);
            if (more) *to += sums[i][j];
            else *to = sums[i][j];
        }
}

#define RX_TILE(rows, width)                                                                      \
    static __attribute__((noinline)) void rx_tile_##rows(                                         \
        int64_t depth, const float *restrict a, const float *restrict b, int64_t step,            \
        float *restrict c, int64_t c_row, int more) {                                             \
        for (int j = 0; j < 4; j += width)                                                        \
            rx_tile(rows, width, depth, a, b + j * RX_LANES, step, c + j * RX_LANES, c_row, more); \
    }
typedef void (*rx_tile_of)(int64_t, const float *, const float *, int64_t, float *, int64_t, int);
#if RX_ROWS == 14
RX_TILE(1, 4) RX_TILE(2, 4) RX_TILE(3, 4) RX_TILE(4, 4) RX_TILE(5, 4) RX_TILE(6, 4) RX_TILE(7, 2)
RX_TILE(8, 2) RX_TILE(9, 2) RX_TILE(10, 2) RX_TILE(11, 2) RX_TILE(12, 2) RX_TILE(13, 2) RX_TILE(14, 2)
static const rx_tile_of rx_tiles[] = {
    rx_tile_1, rx_tile_2, rx_tile_3, rx_tile_4, rx_tile_5, rx_tile_6, rx_tile_7, rx_tile_8,
    rx_tile_9, rx_tile_10, rx_tile_11, rx_tile_12, rx_tile_13, rx_tile_14};
#else
RX_TILE(1, 4) RX_TILE(2, 4) RX_TILE(3, 2) RX_TILE(4, 2) RX_TILE(5, 2) RX_TILE(6, 2)
static const rx_tile_of rx_tiles[] = {
    rx_tile_1, rx_tile_2, rx_tile_3, rx_tile_4, rx_tile_5, rx_tile_6};
#endif

/* The block of B as panels: [panel][depth][RX_PANEL], zeros beyond its width. */
static void rx_pack(float *restrict to, rx_matrix b, int64_t depth, int64_t width) {
    for (int64_t j = 0; j < width; j += RX_PANEL, to += depth * RX_PANEL) {
        const int64_t n = width - j < RX_PANEL ? width - j : RX_PANEL;
        const float *from = b.data + j * b.column;
        if (n < RX_PANEL) memset(to, 0, (size_t)(depth * RX_PANEL) * 4);
        if (b.column == 1) {
            for (int64_t k = 0; k < depth; k++) memcpy(to + k * RX_PANEL, from + k * b.row, (size_t)n * 4);
        } else {
            for (int64_t k0 = 0; k0 < depth; k0 += 16) {
                const int64_t k1 = k0 + 16 < depth ? k0 + 16 : depth;
                for (int64_t i = 0; i < n; i++)
                    for (int64_t k = k0; k < k1; k++)
                        to[k * RX_PANEL + i] = from[k * b.row + i * b.column];
            }
        }
    }
}

/* rows x RX_PANEL of C, of which `n` columns are there. */
static void rx_panel(int64_t rows, int64_t n, int64_t depth, const float *a, const float *b,
                     int64_t step, float *c, int64_t c_row, int more) {
    if (n == RX_PANEL) {
        rx_tiles[rows - 1](depth, a, b, step, c, c_row, more);
        return;
    }
    _Alignas(64) float edge[RX_ROWS * RX_PANEL];
    rx_tiles[rows - 1](depth, a, b, step, edge, RX_PANEL, 0);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            c[i * c_row + j] = (more ? c[i * c_row + j] : 0.0f) + edge[i * RX_PANEL + j];
}

/* One row of C: the rows of B are read once, eight at a time, or its columns as dot products. */
static void rx_row(rx_matrix a, rx_matrix b, float *restrict c, int64_t n, int64_t depth) {
    if (b.column == 1 || n == 1) {
        for (int64_t j = 0; j < n; j++) c[j] = 0.0f;
    }
    if (b.column == 1) {
        int64_t k = 0;
        for (; k + 8 <= depth; k += 8) {
            float x[8];
            for (int i = 0; i < 8; i++) x[i] = a.data[(k + i) * a.column];
            const float *r = b.data + k * b.row;
            const int64_t s = b.row;
            int64_t j = 0;
            for (; j + RX_LANES <= n; j += RX_LANES) {
                rx_lanes sum = *(const rx_lanes_at *)(c + j);
                for (int i = 0; i < 8; i++)
                    sum = RX_FMA(x[i] - (rx_lanes){0}, *(const rx_lanes_at *)(r + i * s + j), sum);
                *(rx_lanes_at *)(c + j) = sum;
            }
            for (; j < n; j++)
                for (int i = 0; i < 8; i++) c[j] += x[i] * r[i * s + j];
        }
        for (; k < depth; k++)
            for (int64_t j = 0; j < n; j++) c[j] += a.data[k * a.column] * b.data[k * b.row + j];
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        const float *column = b.data + j * b.column;
        rx_lanes sums[4] = {{0}, {0}, {0}, {0}};
        int64_t k = 0;
        if (a.column == 1 && b.row == 1)
            for (; k + 4 * RX_LANES <= depth; k += 4 * RX_LANES)
                for (int i = 0; i < 4; i++)
                    sums[i] = RX_FMA(*(const rx_lanes_at *)(a.data + k + i * RX_LANES),
                                     *(const rx_lanes_at *)(column + k + i * RX_LANES), sums[i]);
        sums[0] += sums[1] + (sums[2] + sums[3]);
        float sum = 0;
        for (int i = 0; i < RX_LANES; i++) sum += sums[0][i];
        for (; k < depth; k++) sum += a.data[k * a.column] * column[k * b.row];
        c[j] = sum;
    }
}

/* C is m x n with rows c_row apart; nonzero where there is no memory to pack B. */
static __attribute__((noinline, unused)) int rx_product(
    int64_t m, int64_t n, int64_t depth, rx_matrix a, rx_matrix b, float *restrict c, int64_t c_row) {
    if (m <= 0 || n <= 0) return 0;
    if (n == 1 && c_row == 1) {
        /* A column is the row of the product of what is turned over. */
        rx_matrix row = {b.data, 0, b.row}, turned = {a.data, a.column, a.row};
        return rx_product(1, m, depth, row, turned, c, m == 1 ? 2 : m), 0;
    }
    if (m == 1 || depth == 0) {
        for (int64_t i = 0; i < m; i++) rx_row(a, b, c + i * c_row, n, depth);
        return 0;
    }
    const int64_t tiles = (m + RX_ROWS - 1) / RX_ROWS;
    /* With one tile of rows B is read once: it stays where it is, but for the edge. */
    const int packs = tiles > RX_UNPACKED || b.column != 1;
    float *panels = NULL;
    const int64_t most = n < RX_NC ? n : RX_NC, deepest = depth < RX_KC ? depth : RX_KC;
    const int64_t wide = packs ? (most + RX_PANEL - 1) / RX_PANEL : 1;
    panels = aligned_alloc(64, (size_t)(wide * RX_PANEL * deepest) * 4);
    if (panels == NULL) return 1;
    _Alignas(64) float left[RX_ROWS * RX_KC];
    for (int64_t jc = 0; jc < n; jc += RX_NC) {
        const int64_t width = n - jc < RX_NC ? n - jc : RX_NC;
        for (int64_t kc = 0; kc < depth; kc += RX_KC) {
            const int64_t deep = depth - kc < RX_KC ? depth - kc : RX_KC;
            const rx_matrix block = {b.data + kc * b.row + jc * b.column, b.row, b.column};
            const int64_t whole = width / RX_PANEL * RX_PANEL;
            if (packs) rx_pack(panels, block, deep, width);
            else if (whole < width) {
                const rx_matrix edge = {block.data + whole, b.row, 1};
                rx_pack(panels, edge, deep, width - whole);
            }
            for (int64_t t = 0, i = 0; t < tiles; t++) {
                const int64_t rows = m / tiles + (t < m % tiles);
                for (int64_t k = 0; k < deep; k++)
                    for (int64_t r = 0; r < rows; r++)
                        left[k * rows + r] = a.data[(i + r) * a.row + (kc + k) * a.column];
                for (int64_t j = 0; j < width; j += RX_PANEL) {
                    const int64_t there = width - j < RX_PANEL ? width - j : RX_PANEL;
                    const int in_place = !packs && there == RX_PANEL;
                    const float *right = in_place ? block.data + j : packs ? panels + j * deep : panels;
                    rx_panel(rows, there, deep, left, right, in_place ? b.row : RX_PANEL,
                             c + i * c_row + jc + j, c_row, kc > 0);
                }
                i += rows;
            }
        }
    }
    free(panels);
    return 0;
}
