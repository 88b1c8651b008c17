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
        const rx_matrix left = rx_from(a, 0, kc), right = rx_from(b, kc, 0);
        for (int64_t k = 0; k < deep; k++)
            for (int64_t j = 0; j < n; j++) block[k * lanes + j] = right.data[k * right.row + j * right.column];
        if (lanes == 4) rx_narrow_4(m, n, deep, left, block, c, c_row, kc > 0);
#if RX_LANES >= 8
        if (lanes == 8) rx_narrow_8(m, n, deep, left, block, c, c_row, kc > 0);
#endif
#if RX_LANES >= 16
        if (lanes == 16) rx_narrow_16(m, n, deep, left, block, c, c_row, kc > 0);
#endif
    }
    if (block != near) free(block);
    return 0;
}
