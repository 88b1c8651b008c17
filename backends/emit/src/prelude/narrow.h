/* Products with few columns: a row of C is one vector, of no more lanes than it takes, and elements of A are read where they
   are, RX_TALL rows side by side. The order of a sum is that of tiles: no other rows or columns change it. */
#define RX_TALL 8

/* `m` rows of C from `deep` terms; adds to C where `more`. b is [deep][lanes]. A row that is written whole reaches into those
   after it where they follow at once, which are written afterwards. Meanwhile the next rows of A are asked for. */
#define RX_NARROW(lanes)                                                                          \
    typedef float rx_few_##lanes __attribute__((vector_size(lanes * sizeof(float)), may_alias));  \
    typedef float rx_few_at_##lanes                                                               \
        __attribute__((vector_size(lanes * sizeof(float)), may_alias, aligned(sizeof(float))));   \
    static __attribute__((noinline)) void rx_narrow_##lanes(                                      \
        int64_t m, int64_t n, int64_t deep, rx_matrix a, const float *restrict b,                 \
        float *restrict c, int64_t c_row, int more) {                                             \
        for (int64_t i = 0; i < m; i += RX_TALL) {                                                \
            const float *row[RX_TALL], *next[RX_TALL];                                            \
            rx_few_##lanes sums[RX_TALL];                                                         \
            RX_UNROLL(8) for (int r = 0; r < RX_TALL; r++) {                                      \
                row[r] = a.data + (i + r < m ? i + r : m - 1) * a.row;                            \
                next[r] = a.data + (i + r + RX_TALL < m ? i + r + RX_TALL : m - 1) * a.row;       \
                sums[r] = (rx_few_##lanes){0};                                                    \
            }                                                                                     \
            for (int64_t k = 0; k < deep; k++) {                                                  \
                const rx_few_##lanes right = *(const rx_few_##lanes *)(b + k * lanes);            \
                if (k % 16 == 0)                                                                  \
                    RX_UNROLL(8) for (int r = 0; r < RX_TALL; r++)                                \
                        __builtin_prefetch(next[r] + k * a.column);                               \
                RX_UNROLL(8) for (int r = 0; r < RX_TALL; r++)                                    \
                    sums[r] = RX_FMA_##lanes(row[r][k * a.column] - (rx_few_##lanes){0}, right, sums[r]); \
            }                                                                                     \
            /* Of another name, so that the sums above stay in registers. */                     \
            rx_few_##lanes whole[RX_TALL];                                                        \
            RX_UNROLL(8) for (int r = 0; r < RX_TALL; r++) whole[r] = sums[r];                    \
            const int64_t there = m - i < RX_TALL ? m - i : RX_TALL;                              \
            for (int64_t r = 0; r < there; r++) {                                                 \
                float *to = c + (i + r) * c_row;                                                  \
                const int fits = n == lanes || (c_row == n && (m - i - r) * n >= lanes);          \
                if (!more && fits) *(rx_few_at_##lanes *)to = whole[r];                           \
                else                                                                              \
                    for (int64_t j = 0; j < n; j++) to[j] = more ? to[j] + whole[r][j] : whole[r][j]; \
            }                                                                                     \
        }                                                                                         \
    }

RX_NARROW(4)
#if RX_LANES >= 8
RX_NARROW(8)
#endif
#if RX_LANES >= 16
RX_NARROW(16)
#endif

#if RX_LANES >= 8
/* The same with rows of C in lanes, for at most 2 columns: squares of A are turned, so that RX_LANES rows take a term by one
   multiplication a column instead of one each. Gives how many of the `m` rows are done: a vector that is read in a row reaches
   into those after it, so that the last rows are left. */
static __attribute__((noinline)) int64_t rx_narrow_rows(
    int64_t m, int64_t n, int64_t deep, rx_matrix a, const float *restrict b, int64_t b_row, float *restrict c, int64_t c_row,
    int more) {
    _Alignas(64) float turned[RX_LANES * RX_LANES];
    int64_t i = 0;
    for (; i + RX_LANES <= m && (m - i - RX_LANES) * a.row >= RX_LANES - 1; i += RX_LANES) {
        const float *from = a.data + i * a.row;
        rx_lanes sums[2] = {0};
        for (int64_t k = 0; k < deep; k += RX_LANES) {
            const int64_t there = deep - k < RX_LANES ? deep - k : RX_LANES;
            rx_turn(turned, RX_LANES, from + k, a.row, RX_LANES);
            for (int64_t t = 0; t < there; t++) {
                const rx_lanes left = *(const rx_lanes *)(turned + t * RX_LANES);
                const float *right = b + (k + t) * b_row;
                sums[0] = RX_FMA(left, right[0] - (rx_lanes){0}, sums[0]);
                sums[1] = RX_FMA(left, right[1] - (rx_lanes){0}, sums[1]);
            }
        }
        float whole[2][RX_LANES];
        memcpy(whole, sums, sizeof whole);
        for (int64_t r = 0; r < RX_LANES; r++) {
            float *to = c + (i + r) * c_row;
            for (int64_t j = 0; j < n; j++) to[j] = more ? to[j] + whole[j][r] : whole[j][r];
        }
    }
    return i;
}
#endif

/* So many floats on the stack take no time to get; from the system they take as long as hundreds of multiplications. */
#define RX_BESIDE 4096

/* Memory for so many floats: what is near, where they fit. */
static float *rx_beside(float *near, int64_t floats) {
    return floats <= RX_BESIDE ? near : aligned_alloc(64, ((size_t)floats * sizeof(float) + 127) / 64 * 64);
}

/* C = A B with at most RX_LANES columns; nonzero where there is no memory for a block of B. */
static int rx_narrow(int64_t m, int64_t n, int64_t depth, rx_matrix a, rx_matrix b, float *c, int64_t c_row) {
    const int64_t lanes = n <= 4 ? 4 : n <= 8 ? 8 : 16, deepest = depth < RX_KC ? depth : RX_KC;
    _Alignas(64) float near[RX_BESIDE];
    float *block = rx_beside(near, lanes * deepest);
    if (block == NULL) return 1;
    memset(block, 0, (size_t)(lanes * deepest) * sizeof(float));
    for (int64_t kc = 0; kc < depth; kc += RX_KC) {
        const int64_t deep = depth - kc < RX_KC ? depth - kc : RX_KC;
        const rx_matrix right = rx_from(b, kc, 0);
        rx_matrix left = rx_from(a, 0, kc);
        for (int64_t k = 0; k < deep; k++)
            for (int64_t j = 0; j < n; j++) block[k * lanes + j] = right.data[k * right.row + j * right.column];
        int64_t done = 0;
#if RX_LANES >= 8
        if (a.column == 1 && n <= 2) done = rx_narrow_rows(m, n, deep, left, block, lanes, c, c_row, kc > 0);
#endif
        left = rx_from(left, done, 0);
        if (lanes == 4) rx_narrow_4(m - done, n, deep, left, block, c + done * c_row, c_row, kc > 0);
#if RX_LANES >= 8
        if (lanes == 8) rx_narrow_8(m - done, n, deep, left, block, c + done * c_row, c_row, kc > 0);
#endif
#if RX_LANES >= 16
        if (lanes == 16) rx_narrow_16(m - done, n, deep, left, block, c + done * c_row, c_row, kc > 0);
#endif
    }
    if (block != near) free(block);
    return 0;
}
