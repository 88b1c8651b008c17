/* Products of f32 matrices, C = A B, in f32: the sum of each element is formed in blocks of RX_KC terms,
   each in order with one rounding a term. With s the sum of the magnitudes of the terms, the error is at
   most (RX_KC + k / RX_KC + 1) * 2^-24 * s.

   As in Vortex, what is computed at once is a tile of registers: `rows` x `width` vectors, as the plan above says for
   that many rows, so that edges waste nothing; the rows of the whole product are spread evenly over tiles. No choice
   of tiles changes the order of a sum. */

/* How many terms ahead B is asked for where it stays where it is: those of a tile take a few nanoseconds each, memory
   some hundred. */
#define RX_AHEAD 32
/* The same of a single row where B lies in panels: a term is four lines then, one after the other. */
#define RX_NEAR 16

/* What the second cache is asked for while tiles are computed, as memory gives it fastest: so many rows from end to end. It is
   what is read after their block or panel. */
typedef struct rx_ahead {
    const float *at;
    int64_t row, rows;
} rx_ahead;

/* Terms of a tile of so many vectors in which it asks for a row of the block: as many vectors as it has, in each. */
#define RX_ROW_TERMS(width) (RX_NC / RX_LANES / (width))

/* A tile: rows x width lanes of C from `depth` terms; adds to C where `more`. a is [depth][rows],
   b is [depth] rows `step` apart. */
static inline __attribute__((always_inline)) void rx_tile(
    const int rows, const int width, int64_t depth, const float *restrict a, const float *restrict b,
    int64_t step, rx_ahead *ahead, float *restrict c, int64_t c_row, int more) {
    const float *far = NULL;
    const int64_t far_row = ahead->row, terms = RX_ROW_TERMS(width);
    if (ahead->rows > 0) {
        const int64_t taken = (depth + terms - 1) / terms;
        far = ahead->at;
        ahead->at += taken * far_row;
        ahead->rows -= taken;
    }
    rx_lanes sums[RX_ROWS][4];
    RX_UNROLL(32)
    for (int i = 0; i < rows; i++)
        RX_UNROLL(4)
        for (int j = 0; j < width; j++) sums[i][j] = (rx_lanes){0};
    for (int64_t k = 0; k < depth; k++) {
        rx_lanes right[4];
        if (far != NULL)
            RX_UNROLL(4)
            for (int j = 0; j < width; j++)
                __builtin_prefetch(far + k / terms * far_row + (k % terms * width + j) * RX_LANES, 0, 2);
        if (step != RX_PANEL)
            RX_UNROLL(4)
            for (int j = 0; j < width; j++) __builtin_prefetch(b + (k + RX_AHEAD) * step + j * RX_LANES);
        RX_UNROLL(4)
        for (int j = 0; j < width; j++) right[j] = *(const rx_lanes_at *)(b + k * step + j * RX_LANES);
        RX_UNROLL(32)
        for (int i = 0; i < rows; i++) {
            rx_lanes left = a[k * rows + i] - (rx_lanes){0};
            RX_UNROLL(4)
            for (int j = 0; j < width; j++) sums[i][j] = RX_FMA(left, right[j], sums[i][j]);
        }
    }
    RX_UNROLL(32)
    for (int i = 0; i < rows; i++)
        RX_UNROLL(4)
        for (int j = 0; j < width; j++) {
            rx_lanes_at *to = (rx_lanes_at *)(c + i * c_row + j * RX_LANES);
            if (more) *to += sums[i][j];
            else *to = sums[i][j];
        }
}

#define RX_TILE(rows, width)                                                                      \
    static __attribute__((noinline)) void rx_tile_##rows(                                         \
        int64_t depth, const float *restrict a, const float *restrict b, int64_t step,            \
        rx_ahead *ahead, float *restrict c, int64_t c_row, int more, int count) {                 \
        for (int j = 0; j < count; j += width)                                                    \
            rx_tile(rows, width, depth, a, b + j * RX_LANES, step, ahead, c + j * RX_LANES, c_row, more); \
    }
typedef void (*rx_tile_of)(
    int64_t, const float *, const float *, int64_t, rx_ahead *, float *, int64_t, int, int);
RX_TILES(RX_TILE)
#define RX_NAME(rows, width) rx_tile_##rows,
static const rx_tile_of rx_tiles[] = {RX_TILES(RX_NAME)};
#define RX_WIDTH(rows, width) width,
static const int8_t rx_widths[] = {RX_TILES(RX_WIDTH)};

/* rows x RX_PANEL of C, of which `n` columns are there: the tiles that hold them are computed. */
static void rx_panel(int64_t rows, int64_t n, int64_t depth, const float *a, const float *b,
                     int64_t step, rx_ahead *ahead, float *c, int64_t c_row, int more) {
    const int count = (int)((n + RX_LANES - 1) / RX_LANES);
    if (n % (rx_widths[rows - 1] * RX_LANES) == 0) {
        rx_tiles[rows - 1](depth, a, b, step, ahead, c, c_row, more, count);
        return;
    }
    _Alignas(64) float edge[RX_ROWS * RX_PANEL];
    rx_tiles[rows - 1](depth, a, b, step, ahead, edge, RX_PANEL, 0, count);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            c[i * c_row + j] = more ? c[i * c_row + j] + edge[i * RX_PANEL + j] : edge[i * RX_PANEL + j];
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
            RX_UNROLL(8)
            for (int i = 0; i < 8; i++) x[i] = a.data[(k + i) * a.column];
            const float *r = b.data + k * b.row;
            const int64_t s = b.row;
            int64_t j = 0;
            for (; j + RX_LANES <= n; j += RX_LANES) {
                rx_lanes sum = *(const rx_lanes_at *)(c + j);
                RX_UNROLL(8)
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
                RX_UNROLL(4)
                for (int i = 0; i < 4; i++)
                    sums[i] = RX_FMA(*(const rx_lanes_at *)(a.data + k + i * RX_LANES),
                                     *(const rx_lanes_at *)(column + k + i * RX_LANES), sums[i]);
        sums[0] += sums[1] + (sums[2] + sums[3]);
        float sum = 0;
        RX_UNROLL(16)
        for (int i = 0; i < RX_LANES; i++) sum += sums[0][i];
        for (; k < depth; k++) sum += a.data[k * a.column] * column[k * b.row];
        c[j] = sum;
    }
}


/* One row of C where B is in panels: each is read once, in the order in which it lies. */
static void rx_row_of_panels(rx_matrix a, rx_matrix b, float *restrict c, int64_t n, int64_t depth) {
    for (int64_t j = 0; j < n; j += RX_PANEL) {
        const float *from = rx_from(b, 0, j).data;
        rx_lanes sums[RX_PANEL / RX_LANES];
        RX_UNROLL(4)
        for (int v = 0; v < RX_PANEL / RX_LANES; v++) sums[v] = (rx_lanes){0};
        for (int64_t k = 0; k < depth; k++, from += RX_PANEL) {
            const rx_lanes left = a.data[k * a.column] - (rx_lanes){0};
            RX_UNROLL(4)
            for (int v = 0; v < RX_PANEL / RX_LANES; v++)
                __builtin_prefetch(from + RX_NEAR * RX_PANEL + v * RX_LANES);
            RX_UNROLL(4)
            for (int v = 0; v < RX_PANEL / RX_LANES; v++)
                sums[v] = RX_FMA(left, *(const rx_lanes_at *)(from + v * RX_LANES), sums[v]);
        }
        const int64_t there = n - j < RX_PANEL ? n - j : RX_PANEL;
        memcpy(c + j, sums, (size_t)there * sizeof(float));
    }
}
