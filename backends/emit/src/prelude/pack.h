/* Matrices in the order in which tiles of registers read them. */

/* The lanes of a and b with these numbers. Clang makes one instruction of the loop where the numbers are known. */
#if defined __clang__
static inline __attribute__((always_inline)) rx_lanes rx_shuffle(rx_lanes a, rx_lanes b, rx_lane_numbers numbers) {
    rx_lanes result;
    for (int l = 0; l < RX_LANES; l++) result[l] = numbers[l] < RX_LANES ? a[numbers[l]] : b[numbers[l] - RX_LANES];
    return result;
}
#else
#define rx_shuffle __builtin_shuffle
#endif

/* Exchanges what lies across the diagonal of squares of 2 x `step` lanes. */
#define RX_EXCHANGE(step)                                                                        \
    if (step < RX_LANES) {                                                                       \
        rx_lane_numbers first, second;                                                           \
        RX_UNROLL(16) for (int l = 0; l < RX_LANES; l++) {                                        \
            first[l] = (l & step) ? RX_LANES + l - step : l;                                     \
            second[l] = (l & step) ? RX_LANES + l : l + step;                                    \
        }                                                                                        \
        RX_UNROLL(16) for (int i = 0; i < RX_LANES; i++)                                          \
            if (!(i & step)) {                                                                   \
                const rx_lanes a = r[i], b = r[i + step];                                        \
                r[i] = rx_shuffle(a, b, first);                                                  \
                r[i + step] = rx_shuffle(a, b, second);                                          \
            }                                                                                    \
    }

/* `count` rows of RX_LANES elements each, row_step apart, as columns: row k of the result is `to_step` after the
   one before, and is written in whole, so that results lie in ascending order and one vector more may be written. */
static inline __attribute__((always_inline)) void rx_turn(
    float *to, int64_t to_step, const float *from, int64_t row_step, int count) {
    rx_lanes r[RX_LANES];
    RX_UNROLL(16)
    for (int i = 0; i < RX_LANES; i++)
        r[i] = i < count ? *(const rx_lanes_at *)(from + i * row_step) : (rx_lanes){0};
    RX_EXCHANGE(1)
    RX_EXCHANGE(2)
    RX_EXCHANGE(4)
    RX_EXCHANGE(8)
    RX_UNROLL(16)
    for (int i = 0; i < RX_LANES; i++) *(rx_lanes_at *)(to + i * to_step) = r[i];
}

/* The block of B as panels, [panel][depth][RX_PANEL], where its rows are dense: a row is read from end to end, as memory
   gives it fastest. */
static void rx_pack_dense(float *restrict to, const float *from, int64_t row, int64_t depth, int64_t width) {
    const int64_t whole = width / RX_PANEL * RX_PANEL;
    for (int64_t k = 0; k < depth; k++, from += row, to += RX_PANEL) {
        for (int64_t j = 0; j < whole; j += RX_PANEL) memcpy(to + j * depth, from + j, RX_PANEL * sizeof(float));
        if (whole == width) continue;
        memcpy(to + whole * depth, from + whole, (size_t)(width - whole) * sizeof(float));
        memset(to + whole * depth + (width - whole), 0, (size_t)(whole + RX_PANEL - width) * sizeof(float));
    }
}

/* The block of B as panels, zeros beyond its width. */
static void rx_pack(float *restrict to, rx_matrix b, int64_t depth, int64_t width) {
    if (b.column == 1) {
        rx_pack_dense(to, b.data, b.row, depth, width);
        return;
    }
    for (int64_t j = 0; j < width; j += RX_PANEL, to += depth * RX_PANEL) {
        const int64_t n = width - j < RX_PANEL ? width - j : RX_PANEL;
        const float *from = b.data + j * b.column;
        const int64_t even = b.row == 1 ? depth / RX_LANES * RX_LANES : 0;
        for (int64_t k = 0; k < even; k += RX_LANES)
            for (int64_t i = 0; i < RX_PANEL; i += RX_LANES) {
                const float *at = from + k + i * b.column;
                float *square = to + k * RX_PANEL + i;
                if (i + RX_LANES <= n) rx_turn(square, RX_PANEL, at, b.column, RX_LANES);
                else rx_turn(square, RX_PANEL, at, b.column, n > i ? (int)(n - i) : 0);
            }
        for (int64_t k = even; k < depth; k++)
            for (int64_t i = 0; i < RX_PANEL; i++)
                to[k * RX_PANEL + i] = i < n ? from[k * b.row + i * b.column] : 0.0f;
    }
}

/* `rows` rows of A as [depth][rows]; there is room for a vector more. */
static void rx_pack_rows(float *restrict to, rx_matrix a, int64_t depth, int64_t rows) {
    int64_t k = 0;
    if (a.column == 1 && rows <= RX_LANES)
        for (; k + RX_LANES <= depth; k += RX_LANES)
            rx_turn(to + k * rows, rows, a.data + k, a.row, (int)rows);
    for (; k < depth; k++)
        for (int64_t r = 0; r < rows; r++) to[k * rows + r] = a.data[r * a.row + k * a.column];
}
