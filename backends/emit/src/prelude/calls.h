/* What kernels see of products. */

/* What becomes of elements when their sums are whole: rows r0 to r1, columns c0 to c1. */
typedef void (*rx_finish)(const void *context, int64_t r0, int64_t r1, int64_t c0, int64_t c1);

/* Where B is computed: its terms k0 to k0 + deep of columns c0 to c0 + width, as panels, zeros beyond the width. */
typedef void (*rx_fill)(const void *context, int64_t k0, int64_t deep, int64_t c0, int64_t width, float *to);

/* Where `by_columns` is not 0 `fill` gives a column of terms after the other instead, each `deep` long: in their order, or, where
   k0 and `deep` are multiples of RX_WORDS * `by_columns`, of each so many the terms with remainder 0 by `by_columns` before those with
   remainder 1, and so on. */
#define RX_WORDS 16

/* Terms of a sum of a single row that are computed at once. */
#define RX_DEEP 4096

/* For a single row of A where B is computed: adds to y the terms of columns c0 to c0 + width that x, elements `step` apart, weighs. */
typedef void (*rx_weigh)(const void *context, int64_t k0, int64_t deep, int64_t c0, int64_t width, const float *x,
                         int64_t step, float *y);

/* The routines of products are compiled once for all texts: a unit of kernels declares them. */
#if defined RX_PART
#define RX_ROUTINE __attribute__((visibility("hidden")))
#else
#define RX_ROUTINE static __attribute__((noinline, unused))
#endif

/* C is m x n with rows c_row apart; nonzero where there is no memory to pack B. Then nothing is finished that
   others could see: the kernel stops. */
RX_ROUTINE int rx_product(
    const rx_threads *threads, int64_t m, int64_t n, int64_t depth, rx_matrix a, rx_matrix b, float *c,
    int64_t c_row, rx_finish finish, const void *context);

/* The same, where each row is computed as the row of a product of one: rows of a batch do not depend on how many there are. */
RX_ROUTINE int rx_product_rows(
    const rx_threads *threads, int64_t m, int64_t n, int64_t depth, rx_matrix a, rx_matrix b, float *c,
    int64_t c_row, rx_finish finish, const void *context);

/* The same of a B that `fill` computes block by block, as tiles read it: each part of the columns its own. Where `single`, rows are
   computed one by one. */
RX_ROUTINE int rx_product_filled(
    const rx_threads *threads, int64_t m, int64_t n, int64_t depth, rx_matrix a, rx_fill fill, const void *filler,
    rx_weigh weigh, const void *weigher, int by_columns, int single, float *c, int64_t c_row);
