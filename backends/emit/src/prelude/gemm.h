/* Products of f32 matrices, C = A B, in f32: the sum of each element is formed in blocks of RX_KC terms,
   each in order with one rounding a term. With s the sum of the magnitudes of the terms, the error is at
   most (RX_KC + k / RX_KC + 1) * 2^-24 * s.

   As in Vortex, what is computed at once is a tile of registers: `rows` x (4 or 2) vectors, the widest
   that the registers hold for that many rows, so that edges waste nothing; the rows of the whole product
   are spread evenly over tiles. B is packed into panels where it is read more than once. */

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
        float *restrict c, int64_t c_row, int more, int count) {                                  \
        for (int j = 0; j < count; j += width)                                                    \
            rx_tile(rows, width, depth, a, b + j * RX_LANES, step, c + j * RX_LANES, c_row, more); \
    }
typedef void (*rx_tile_of)(int64_t, const float *, const float *, int64_t, float *, int64_t, int, int);
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

/* rows x RX_PANEL of C, of which `n` columns are there: the tiles that hold them are computed. */
static void rx_panel(int64_t rows, int64_t n, int64_t depth, const float *a, const float *b,
                     int64_t step, float *c, int64_t c_row, int more) {
    const int count = (int)((n + RX_LANES - 1) / RX_LANES);
    if (n % (rows <= RX_WIDE ? RX_PANEL : RX_PANEL / 2) == 0) {
        rx_tiles[rows - 1](depth, a, b, step, c, c_row, more, count);
        return;
    }
    _Alignas(64) float edge[RX_ROWS * RX_PANEL];
    rx_tiles[rows - 1](depth, a, b, step, edge, RX_PANEL, 0, count);
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

/* What becomes of elements when their sums are whole: rows r0 to r1, columns c0 to c1. */
typedef void (*rx_finish)(const void *context, int64_t r0, int64_t r1, int64_t c0, int64_t c1);

/* A product, C with rows c_row apart, and how it is cut into parts. */
typedef struct rx_job {
    int64_t m, n, depth;
    rx_matrix a, b;
    float *c;
    int64_t c_row;
    rx_finish finish;
    const void *context;
    int turned;
    int64_t row_parts, column_parts;
} rx_job;

static void rx_finished(const rx_job *job, int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
    if (job->finish == NULL) return;
    if (job->turned) job->finish(job->context, c0, c1, r0, r1);
    else job->finish(job->context, r0, r1, c0, c1);
}

/* A tile of rows, as wide as a block. */
static void rx_strip(const rx_job *job, int64_t rows, int64_t width, int64_t deep, const float *left,
                     const rx_matrix block, const float *panels, int packs, float *c, int more) {
    for (int64_t j = 0; j < width; j += RX_PANEL) {
        const int64_t there = width - j < RX_PANEL ? width - j : RX_PANEL;
        const int in_place = !packs && there == RX_PANEL;
        const float *right = in_place ? block.data + j : packs ? panels + j * deep : panels;
        rx_panel(rows, there, deep, left, right, in_place ? block.row : RX_PANEL, c + j, job->c_row, more);
    }
}

/* Rows r0 to r1 and columns c0 to c1; nonzero where there is no memory to pack B. */
static int rx_block(const rx_job *job, int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
    const int64_t m = r1 - r0, n = c1 - c0, depth = job->depth, tiles = (m + RX_ROWS - 1) / RX_ROWS;
    const rx_matrix a = {job->a.data + r0 * job->a.row, job->a.row, job->a.column};
    const rx_matrix b = {job->b.data + c0 * job->b.column, job->b.row, job->b.column};
    float *c = job->c + r0 * job->c_row + c0;
    /* With few tiles of rows B stays where it is, but for the edge. */
    const int packs = tiles > RX_UNPACKED || b.column != 1;
    const int64_t most = n < RX_NC ? n : RX_NC, deepest = depth < RX_KC ? depth : RX_KC;
    const int64_t wide = packs ? (most + RX_PANEL - 1) / RX_PANEL : 1;
    float *panels = aligned_alloc(64, (size_t)(wide * RX_PANEL * deepest) * 4);
    if (panels == NULL) return 1;
    _Alignas(64) float left[RX_ROWS * RX_KC + RX_LANES];
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
                const rx_matrix above = {a.data + i * a.row + kc * a.column, a.row, a.column};
                rx_pack_rows(left, above, deep, rows);
                rx_strip(job, rows, width, deep, left, block, panels, packs, c + i * job->c_row + jc, kc > 0);
                if (kc + deep == depth) rx_finished(job, r0 + i, r0 + i + rows, c0 + jc, c0 + jc + width);
                i += rows;
            }
        }
    }
    free(panels);
    return 0;
}

/* One part; columns are cut between panels, so that edges are where they are without parts. */
static int32_t rx_part(void *context, int64_t part) {
    const rx_job *job = context;
    const int64_t panels = (job->n + RX_PANEL - 1) / RX_PANEL;
    const int64_t row = part / job->column_parts, column = part % job->column_parts;
    const int64_t r0 = rx_begin(job->m, job->row_parts, row), r1 = rx_begin(job->m, job->row_parts, row + 1);
    const int64_t c0 = rx_begin(panels, job->column_parts, column) * RX_PANEL;
    const int64_t end = rx_begin(panels, job->column_parts, column + 1) * RX_PANEL;
    const int64_t c1 = end < job->n ? end : job->n;
    if (job->m > 1 && job->depth > 0) return rx_block(job, r0, r1, c0, c1);
    const rx_matrix right = {job->b.data + c0 * job->b.column, job->b.row, job->b.column};
    for (int64_t i = r0; i < r1; i++) {
        const rx_matrix left = {job->a.data + i * job->a.row, job->a.row, job->a.column};
        rx_row(left, right, job->c + i * job->c_row + c0, c1 - c0, job->depth);
    }
    rx_finished(job, r0, r1, c0, c1);
    return 0;
}

/* Cuts columns first: each part packs its own, and all read the rows. */
static void rx_cut(const rx_threads *threads, rx_job *job) {
    job->row_parts = job->column_parts = 1;
    if (threads == NULL || threads->count < 2) return;
    const double worth = (double)job->m * (double)job->n * (double)job->depth / (16.0 * RX_GRAIN);
    const int64_t panels = (job->n + RX_PANEL - 1) / RX_PANEL;
    int64_t wanted = panels >= 16 * threads->count ? 2 * threads->count : threads->count;
    if (worth < (double)wanted) wanted = (int64_t)worth;
    if (wanted < 2) return;
    job->column_parts = panels < wanted ? panels : wanted;
    const int64_t left = wanted / job->column_parts, rows = job->m / (2 * RX_ROWS);
    job->row_parts = rows < 1 ? 1 : rows < left ? rows : left;
}

/* C is m x n with rows c_row apart; nonzero where there is no memory to pack B. Then nothing is finished that
   others could see: the kernel stops. */
static __attribute__((noinline, unused)) int rx_product(
    const rx_threads *threads, int64_t m, int64_t n, int64_t depth, rx_matrix a, rx_matrix b, float *c,
    int64_t c_row, rx_finish finish, const void *context) {
    if (m <= 0 || n <= 0) return 0;
    rx_job job = {m, n, depth, a, b, c, c_row, finish, context, 0, 1, 1};
    if (n == 1 && c_row == 1) {
        /* A column is the row of the product of what is turned over. */
        const rx_matrix row = {b.data, 0, b.row}, turned = {a.data, a.column, a.row};
        job = (rx_job){1, m, depth, row, turned, c, m, finish, context, 1, 1, 1};
    }
    rx_cut(threads, &job);
    const int64_t parts = job.row_parts * job.column_parts;
    return parts > 1 ? threads->run(threads, parts, rx_part, &job) : rx_part(&job, 0);
}
