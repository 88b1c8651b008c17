/* Products of rows of bytes with quantized weights: C[i, j] is the sum over groups g of terms of
   x_scale[i, g] * scale[j, g] * (the sum over k of x[i, k] * (w[j, k] - zero)), plus or minus, where the format has minimums,
   minimum[j, g] * x_scale[i, g] * (the sum over k of x[i, k]). Scales and minimums are products of one or two factors.

   Sums within a group are integers and exact. Groups are added in f32: an element is off by at most (groups + 24) * 2^-24 times the
   sum of the magnitudes of all terms, those of minimums apart. One row, and up to RX_FEW - 1, read weights once and in their order,
   as memory gives them fastest; more rows pass over 16 rows of weights that are decoded and transposed, so that lanes are columns.
   The caller says how many are
   few: rows of a batch may not depend on how many there are. An element is computed in the same way whichever part computes it. */

#if defined __AVX2__
#include <immintrin.h>
#endif

/* Terms with one scale of x. A group of weights has as many, or half of them. */
#define RX_BLOCK 32
#define RX_INLINE static inline __attribute__((always_inline))

/* Rows of bytes, and a scale for each block. */
typedef struct rx_byte_rows {
    const int8_t *data;
    int64_t row;
    const float *scale;
    int64_t scale_row;
} rx_byte_rows;

/* Elements that scales or minimums are made of, by rows of `row` elements. */
typedef struct rx_factor {
    const void *at;
    int64_t row;
} rx_factor;

enum { RX_NO_FACTOR, RX_FACTOR_F32, RX_FACTOR_F16, RX_FACTOR_U8, RX_FACTOR_I8 };

/* How a matrix is quantized. Integers are of 8 bits, unsigned after the exclusive or with `flip`, or of 4 bits, the even term in the
   low half of a byte, with 0 to 2 further bits (`bits` - 4) that lie side by side in bytes of their own. The value is the unsigned
   number less `zero`. `minimum` is 0 where there is none, else the sign with which it is added. Factors are two of the scale, then
   two of the minimum; `terms` of each have one element. */
typedef struct rx_block_format {
    int bits, group, flip, zero, minimum;
    int kinds[4];
    int64_t terms[4];
} rx_block_format;

/* A matrix in such a format, by rows of `row` and `high_row` bytes. */
typedef struct rx_quantized {
    const uint8_t *data;
    int64_t row;
    const uint8_t *high;
    int64_t high_row;
    rx_factor factors[4];
} rx_quantized;

/* Rows that pass over transposed weights together: their bytes stay in the second cache. */
#define RX_TOGETHER 128
/* So many rows and more transpose the weights. */
#define RX_FEW 8

/* One product. `x` has for each RX_TOGETHER rows [group][row][terms of a group], where weights of 4 to 6 bits have the even terms of
   a group first; `less` is zero times the sum of these terms, negative, and `least` their sum times the scale of x and the sign of
   minimums. With few rows and the instruction for it, `x` has the chunks of each row instead, and `least` is by rows. */
typedef struct rx_rounded_job {
    int64_t m, n, groups;
    rx_quantized w;
    const void *x;
    const int32_t *less;
    const float *scale, *least;
    float *c;
    int64_t c_row, parts;
    int is_few;
    int (*columns)(const struct rx_rounded_job *job, int64_t j, int64_t end);
} rx_rounded_job;

/* Rows of `least` begin at multiples of 16. */
RX_INLINE int64_t rx_padded(int64_t count) { return (count + 15) / 16 * 16; }
