/* Products of rows of bytes with quantized weights: C[i, j] is the sum over blocks b of 32 terms of
   x_scale[i, b] * scale[j, b] * (the sum over k of x[i, 32 b + k] * (w[j, 32 b + k] - zero)).

   Sums within a block are integers and exact. Blocks are added in f32: an element is off by at most (blocks + 20) * 2^-24 times the
   sum of the magnitudes of all terms. One row, and up to RX_FEW - 1, read weights once and in their order, as memory gives them
   fastest; more rows pass over 16 rows of weights that are transposed, so that lanes are columns. An element is computed in the
   same way whichever part computes it.

   Roofline of a core with 512-bit vectors that issues one dot product of 64 bytes a cycle: one row takes 13 instructions for 64
   bytes of weights, less than memory takes to give them; with many rows 8 of 10 vector operations on the busiest port are dot products. */

#if defined __AVX2__
#include <immintrin.h>
#endif

#define RX_BLOCK 32

/* Rows of bytes, and a scale for each block. */
typedef struct rx_byte_rows {
    const int8_t *data;
    int64_t row;
    const float *scale;
    int64_t scale_row;
} rx_byte_rows;

/* A matrix of integers by rows of `row` bytes: of 4 bits, the even term in the low half of a byte, or of 8 bits, which are
   unsigned after the exclusive or with `flip`. The value is the unsigned number less `zero`. Scales are f16, or f32. */
typedef struct rx_quantized {
    const uint8_t *data;
    int64_t row;
    const void *scale;
    int64_t scale_row;
    int bits, flip, zero, is_half;
} rx_quantized;

/* Rows that pass over transposed weights together: their bytes stay in the second cache. */
#define RX_TOGETHER 128
/* So many rows and more transpose the weights. */
#define RX_FEW 8

/* One product. `x` has for each group of RX_TOGETHER rows [block][row][32], where weights of 4 bits have the even terms of a block
   first; `less` is zero times the sum of the 32, negative. With few rows and the instruction for it, `chunks` is used instead. */
typedef struct rx_rounded_job {
    int64_t m, n, blocks;
    rx_quantized w;
    const int8_t *x;
    const int32_t *less;
    const float *scale;
    const void *chunks;
    float *c;
    int64_t c_row, parts;
} rx_rounded_job;

/* Tests define RX_NO_VNNI and RX_NO_AVX2, so that each text runs on one processor. */
#if !defined RX_NO_VNNI && defined __AVX512VNNI__ && defined __AVX512BW__ && defined __AVX512VL__ && defined __AVX512DQ__ && defined __F16C__
#define RX_ROUNDED_LANES

/* What 64 bytes of weights meet: the even and the odd terms, or all of them, what is added for `zero`, and scales, by lanes. */
typedef struct rx_chunk {
    int8_t even[64], odd[64];
    int32_t less[16];
    float scale[16];
} rx_chunk;

static inline __attribute__((always_inline)) int64_t rx_chunk_terms(int bits) { return bits == 4 ? 128 : 64; }

/* Where all blocks are there, without a mask: masked loads of 16 bits are slow. */
static inline __attribute__((always_inline)) __m128i rx_half_scales(const uint16_t *scale, int bits, __mmask8 there) {
    if (bits == 4 && there == 15) return _mm_loadl_epi64((const __m128i *)scale);
    if (bits == 8 && there == 3) return _mm_loadu_si32(scale);
    return _mm_maskz_loadu_epi16(there, scale);
}

/* Scales of the blocks of a chunk, by lanes. */
static inline __attribute__((always_inline)) __m512 rx_chunk_scales(const void *scale, int64_t at, int bits, int is_half, __mmask8 there) {
    const __m128 few = is_half ? _mm_cvtph_ps(rx_half_scales((const uint16_t *)scale + at, bits, there))
                               : _mm_maskz_loadu_ps(there, (const float *)scale + at);
    const __m512i of = bits == 4 ? _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0)
                                 : _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
    return _mm512_permutexvar_ps(of, _mm512_castps128_ps512(few));
}

static inline __attribute__((always_inline)) __m512i rx_chunk_dot(__m512i q, const rx_chunk *x, int bits, __m512i flip) {
    const __m512i less = _mm512_loadu_si512(x->less), even = _mm512_loadu_si512(x->even), low = _mm512_set1_epi8(15);
    if (bits == 8) return _mm512_dpbusd_epi32(less, _mm512_xor_si512(q, flip), even);
    const __m512i sum = _mm512_dpbusd_epi32(less, _mm512_and_si512(q, low), even);
    return _mm512_dpbusd_epi32(sum, _mm512_and_si512(_mm512_srli_epi16(q, 4), low), _mm512_loadu_si512(x->odd));
}

/* `wide` rows of weights from j on, those beyond the last one again, with `rows` rows of x. */
static inline __attribute__((always_inline)) void rx_rounded_rows(const rx_rounded_job *job, const int wide, const int is_near, const int rows, int64_t i,
                                                                  int64_t j, int64_t end, const int bits, const int is_half) {
    const rx_quantized w = job->w;
    const int64_t each = rx_chunk_terms(bits) / RX_BLOCK, chunks = (job->blocks + each - 1) / each, whole = job->blocks / each;
    const rx_chunk *x = (const rx_chunk *)job->chunks + i * chunks;
    const __m512i flip = _mm512_set1_epi8((char)w.flip);
    const uint8_t *data[4];
    const char *scale[4];
    __m512 sums[4][4];
    for (int r = 0; r < wide; r++) {
        const int64_t row = j + r < end ? j + r : end - 1;
        data[r] = w.data + row * w.row;
        scale[r] = (const char *)w.scale + row * w.scale_row * (is_half ? 2 : 4);
        for (int s = 0; s < rows; s++) sums[r][s] = _mm512_setzero_ps();
    }
    /* Asked for in the order of memory, which gives twice as much then as in the order of use; into the second cache where a
       group of rows is not small beside the first. */
    const uint8_t *ahead = data[0] + wide * w.row + (is_near ? 1024 : wide == 2 ? 8192 : 2048);
    for (int64_t k = 0; k < whole; k++)
#pragma GCC unroll 4
        for (int r = 0; r < wide; r++) {
            if (is_near) __builtin_prefetch(ahead + (k * wide + r) * 64);
            else __builtin_prefetch(ahead + (k * wide + r) * 64, 0, 2);
            const __m512i q = _mm512_loadu_si512(data[r] + k * 64);
            const __m512 scales = rx_chunk_scales(scale[r], k * each, bits, is_half, (__mmask8)((1 << each) - 1));
#pragma GCC unroll 4
            for (int s = 0; s < rows; s++) {
                const rx_chunk *at = x + s * chunks + k;
                const __m512 sum = _mm512_cvtepi32_ps(rx_chunk_dot(q, at, bits, flip));
                sums[r][s] = _mm512_fmadd_ps(sum, _mm512_mul_ps(scales, _mm512_loadu_ps(at->scale)), sums[r][s]);
            }
        }
    const int64_t left = job->blocks - whole * each;
    if (left > 0) {
        const __mmask64 there = ((__mmask64)1 << left * RX_BLOCK * bits / 8) - 1;
        for (int r = 0; r < wide; r++) {
            const __m512i q = _mm512_maskz_loadu_epi8(there, data[r] + whole * 64);
            const __m512 scales = rx_chunk_scales(scale[r], whole * each, bits, is_half, (__mmask8)((1 << left) - 1));
            for (int s = 0; s < rows; s++) {
                const rx_chunk *at = x + s * chunks + whole;
                const __m512 sum = _mm512_cvtepi32_ps(rx_chunk_dot(q, at, bits, flip));
                sums[r][s] = _mm512_fmadd_ps(sum, _mm512_mul_ps(scales, _mm512_loadu_ps(at->scale)), sums[r][s]);
            }
        }
    }
    for (int s = 0; s < rows; s++)
        for (int r = 0; r < wide && j + r < end; r++) job->c[(i + s) * job->c_row + j + r] = _mm512_reduce_add_ps(sums[r][s]);
}

#define RX_ROUNDED_ROWS(bits, is_half)                                                                             \
    static __attribute__((noinline)) void rx_rounded_rows_##bits##_##is_half(const rx_rounded_job *job, int64_t j, int64_t end) { \
        const int is_near = job->w.row <= 1536;                                                                    \
        for (; job->m == 1 && is_near && j < end; j += 4) rx_rounded_rows(job, 4, 1, 1, 0, j, end, bits, is_half); \
        for (; job->m == 1 && j < end; j += 2) rx_rounded_rows(job, 2, 0, 1, 0, j, end, bits, is_half);            \
        for (; j < end; j += 4)                                                                                    \
            for (int64_t i = 0; i < job->m; i += 4) switch (job->m - i) {                                          \
                case 1: rx_rounded_rows(job, 4, 0, 1, i, j, end, bits, is_half); break;                               \
                case 2: rx_rounded_rows(job, 4, 0, 2, i, j, end, bits, is_half); break;                               \
                case 3: rx_rounded_rows(job, 4, 0, 3, i, j, end, bits, is_half); break;                               \
                default: rx_rounded_rows(job, 4, 0, 4, i, j, end, bits, is_half);                                     \
            }                                                                                                      \
    }
RX_ROUNDED_ROWS(4, 0)
RX_ROUNDED_ROWS(4, 1)
RX_ROUNDED_ROWS(8, 0)
RX_ROUNDED_ROWS(8, 1)

/* The chunks of a row of bytes; zeros beyond the last block. */
static void rx_fill_chunks(rx_chunk *to, rx_byte_rows x, int64_t i, int64_t blocks, rx_quantized w) {
    const int64_t terms = rx_chunk_terms(w.bits), each = terms / RX_BLOCK, all = blocks * RX_BLOCK;
    const int8_t *from = x.data + i * x.row;
    const float *scale = x.scale + i * x.scale_row;
    for (int64_t first = 0; first < all; first += terms, to++) {
        const int64_t left = all - first < terms ? all - first : terms;
        memset(to, 0, sizeof *to);
        if (w.bits == 8) memcpy(to->even, from + first, (size_t)left);
        else
            for (int64_t k = 0; 2 * k < left; k++) to->even[k] = from[first + 2 * k], to->odd[k] = from[first + 2 * k + 1];
        for (int64_t lane = 0; lane < 16; lane++) {
            int32_t sum = 0;
            for (int t = 0; t < 4; t++) sum += to->even[4 * lane + t] + to->odd[4 * lane + t];
            to->less[lane] = -w.zero * sum;
            const int64_t block = lane * each / 16;
            to->scale[lane] = block * RX_BLOCK < left ? scale[first / RX_BLOCK + block] : 0.0f;
        }
    }
}

/* Transposes 16 x 16 elements of 32 bits. */
static inline void rx_transpose_words(__m512i *r) {
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]), t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    for (int i = 0; i < 16; i += 4)
        for (int k = 0; k < 2; k++) {
            r[i + 2 * k] = _mm512_unpacklo_epi64(t[i + k], t[i + 2 + k]);
            r[i + 2 * k + 1] = _mm512_unpackhi_epi64(t[i + k], t[i + 2 + k]);
        }
    for (int k = 0; k < 4; k++) {
        t[k] = _mm512_shuffle_i32x4(r[k], r[4 + k], 0x88), t[4 + k] = _mm512_shuffle_i32x4(r[k], r[4 + k], 0xdd);
        t[8 + k] = _mm512_shuffle_i32x4(r[8 + k], r[12 + k], 0x88), t[12 + k] = _mm512_shuffle_i32x4(r[8 + k], r[12 + k], 0xdd);
    }
    for (int k = 0; k < 4; k++) {
        r[k] = _mm512_shuffle_i32x4(t[k], t[8 + k], 0x88), r[8 + k] = _mm512_shuffle_i32x4(t[k], t[8 + k], 0xdd);
        r[4 + k] = _mm512_shuffle_i32x4(t[4 + k], t[12 + k], 0x88), r[12 + k] = _mm512_shuffle_i32x4(t[4 + k], t[12 + k], 0xdd);
    }
}

/* 16 rows of weights from j on, the last one again beyond `end`, as [word][row], and their scales as [block][row] of f32. */
static void rx_transpose_weights(const rx_rounded_job *job, int64_t j, int64_t end, __m512i *words, __m512 *scales) {
    const rx_quantized w = job->w;
    const int64_t count = job->blocks * w.bits;
    int64_t rows[16];
    __m512i square[16];
    const __m512i flip = _mm512_set1_epi8((char)(w.bits == 8 ? w.flip : 0));
    for (int r = 0; r < 16; r++) rows[r] = j + r < end ? j + r : end - 1;
    for (int64_t k = 0; k < count; k += 16) {
        const __mmask16 there = count - k < 16 ? (__mmask16)((1 << (count - k)) - 1) : (__mmask16)0xffff;
        for (int r = 0; r < 16; r++)
            square[r] = _mm512_xor_si512(_mm512_maskz_loadu_epi32(there, w.data + rows[r] * w.row + k * 4), flip);
        rx_transpose_words(square);
        for (int r = 0; r < 16; r++) words[k + r] = square[r];
    }
    for (int64_t k = 0; k < job->blocks; k += 16) {
        const __mmask16 there = job->blocks - k < 16 ? (__mmask16)((1 << (job->blocks - k)) - 1) : (__mmask16)0xffff;
        for (int r = 0; r < 16; r++) {
            const int64_t at = rows[r] * w.scale_row + k;
            const __m512 some = w.is_half ? _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(there, (const uint16_t *)w.scale + at))
                                          : _mm512_maskz_loadu_ps(there, (const float *)w.scale + at);
            square[r] = _mm512_castps_si512(some);
        }
        rx_transpose_words(square);
        for (int r = 0; r < 16; r++) scales[k + r] = _mm512_castsi512_ps(square[r]);
    }
}

/* One block of 16 rows of weights, with a group of rows of x. */
static inline __attribute__((always_inline)) void rx_rounded_block(
    const int bits, const __m512i *words, __m512 scales, int64_t rows, const int8_t *x, const int32_t *less, const float *x_scale,
    __m512 *sums) {
    __m512i w[8];
    const __m512i low = _mm512_set1_epi8(15);
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++)
        w[k] = bits == 8 ? words[k] : _mm512_and_si512(k < 4 ? words[k] : _mm512_srli_epi16(words[k - 4], 4), low);
    for (int64_t i = 0; i < rows; i++, x += RX_BLOCK) {
        __m512i sum = _mm512_set1_epi32(less[i]);
#pragma GCC unroll 8
        for (int k = 0; k < 8; k++) {
            int32_t four;
            memcpy(&four, x + 4 * k, 4);
            sum = _mm512_dpbusd_epi32(sum, w[k], _mm512_set1_epi32(four));
        }
        sums[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(scales, _mm512_set1_ps(x_scale[i])), sums[i]);
    }
}

/* Columns j to `end`, 16 at once. */
static int rx_rounded_tiles(const rx_rounded_job *job, int64_t j, int64_t end) {
    const int64_t blocks = job->blocks, bits = job->w.bits, padded = (blocks + 15) / 16 * 16;
    __m512i *words = aligned_alloc(64, (size_t)(padded * bits + padded + RX_TOGETHER) * 64);
    if (words == NULL) return 1;
    __m512 *scales = (__m512 *)(words + padded * bits), *sums = scales + padded;
    for (; j < end; j += 16) {
        rx_transpose_weights(job, j, end, words, scales);
        const uint8_t *next = job->w.data + (j + 16) * job->w.row;
        for (int64_t first = 0; first < job->m; first += RX_TOGETHER) {
            const int64_t rows = job->m - first < RX_TOGETHER ? job->m - first : RX_TOGETHER, at = first * blocks;
            for (int64_t i = 0; i < rows; i++) sums[i] = _mm512_setzero_ps();
            for (int64_t b = 0; b < blocks; b++) {
                if (first == 0)
                    for (int line = 0; line < bits; line++) __builtin_prefetch(next + (b * bits + line) * 64, 0, 2);
                const int8_t *x = job->x + (at + b * rows) * RX_BLOCK;
                const int32_t *less = job->less + at + b * rows;
                const float *scale = job->scale + at + b * rows;
                if (bits == 4) rx_rounded_block(4, words + b * 4, scales[b], rows, x, less, scale, sums);
                else rx_rounded_block(8, words + b * 8, scales[b], rows, x, less, scale, sums);
            }
            const __mmask16 there = end - j < 16 ? (__mmask16)((1 << (end - j)) - 1) : (__mmask16)0xffff;
            for (int64_t i = 0; i < rows; i++) _mm512_mask_storeu_ps(job->c + (first + i) * job->c_row + j, there, sums[i]);
        }
    }
    free(words);
    return 0;
}

static int rx_rounded_columns(const rx_rounded_job *job, int64_t j, int64_t end) {
    if (job->m >= RX_FEW) return rx_rounded_tiles(job, j, end);
    if (job->w.bits == 4) job->w.is_half ? rx_rounded_rows_4_1(job, j, end) : rx_rounded_rows_4_0(job, j, end);
    else job->w.is_half ? rx_rounded_rows_8_1(job, j, end) : rx_rounded_rows_8_0(job, j, end);
    return 0;
}
#else
/* One block of a row of weights as it meets x: signed where `zero` is taken off, which 8 bits have no room for. */
static inline void rx_rounded_weights(const rx_quantized *w, int64_t j, int64_t b, int16_t *to) {
    const uint8_t *from = w->data + j * w->row + b * RX_BLOCK * w->bits / 8;
    if (w->bits == 8)
        for (int k = 0; k < RX_BLOCK; k++) to[k] = (int16_t)((from[k] ^ w->flip) - w->zero);
    else
        for (int k = 0; k < RX_BLOCK / 2; k++) {
            to[k] = (int16_t)((from[k] & 15) - w->zero);
            to[k + RX_BLOCK / 2] = (int16_t)((from[k] >> 4) - w->zero);
        }
}

static inline int32_t rx_rounded_dot(const int16_t *restrict w, const int8_t *restrict x) {
#if defined __AVX2__ && !defined RX_NO_AVX2
    const __m256i *pairs = (const __m256i *)w;
    const __m256i first = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)x));
    const __m256i second = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)x + 1));
    const __m256i sum = _mm256_add_epi32(_mm256_madd_epi16(_mm256_loadu_si256(pairs), first),
                                         _mm256_madd_epi16(_mm256_loadu_si256(pairs + 1), second));
    const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
#else
    int32_t sum = 0;
    for (int k = 0; k < RX_BLOCK; k++) sum += (int32_t)w[k] * x[k];
    return sum;
#endif
}

static int rx_rounded_columns(const rx_rounded_job *job, int64_t j, int64_t end) {
    const rx_quantized *w = &job->w;
    float sums[RX_TOGETHER];
    int16_t weights[RX_BLOCK];
    for (; j < end; j++)
        for (int64_t first = 0; first < job->m; first += RX_TOGETHER) {
            const int64_t rows = job->m - first < RX_TOGETHER ? job->m - first : RX_TOGETHER;
            memset(sums, 0, sizeof sums);
            for (int64_t b = 0; b < job->blocks; b++) {
                const int64_t of = j * w->scale_row + b, at = first * job->blocks + b * rows;
                const float scale = w->is_half ? rx_f32_of_f16(((const uint16_t *)w->scale)[of]) : ((const float *)w->scale)[of];
                rx_rounded_weights(w, j, b, weights);
                for (int64_t i = 0; i < rows; i++)
                    sums[i] += (float)rx_rounded_dot(weights, job->x + (at + i) * RX_BLOCK) * (scale * job->scale[at + i]);
            }
            for (int64_t i = 0; i < rows; i++) job->c[(first + i) * job->c_row + j] = sums[i];
        }
    return 0;
}
#endif

static int32_t rx_rounded_part(void *context, int64_t part) {
    const rx_rounded_job *job = context;
    const int64_t groups = (job->n + 15) / 16, end = rx_begin(groups, job->parts, part + 1) * 16;
    return rx_rounded_columns(job, rx_begin(groups, job->parts, part) * 16, end < job->n ? end : job->n);
}

/* The block of a row in the order in which weights are decoded, and its sum. */
static inline int32_t rx_order_block(int8_t *restrict to, const int8_t *restrict from, int bits) {
    int32_t sum = 0;
    for (int k = 0; k < RX_BLOCK; k++) sum += from[k];
#if defined RX_ROUNDED_LANES
    const __m256i all = _mm256_loadu_si256((const __m256i *)from);
    if (bits == 4) {
        _mm_storeu_si128((__m128i *)to, _mm256_cvtepi16_epi8(all));
        _mm_storeu_si128((__m128i *)to + 1, _mm256_cvtepi16_epi8(_mm256_srli_epi16(all, 8)));
    } else _mm256_storeu_si256((__m256i *)to, all);
#else
    if (bits == 8) memcpy(to, from, RX_BLOCK);
    else
        for (int k = 0; k < RX_BLOCK / 2; k++) to[k] = from[2 * k], to[k + RX_BLOCK / 2] = from[2 * k + 1];
#endif
    return sum;
}

static void rx_order_rows(int8_t *to, int32_t *less, float *scale, rx_byte_rows x, int64_t m, int64_t blocks, rx_quantized w) {
    for (int64_t first = 0; first < m; first += RX_TOGETHER) {
        const int64_t rows = m - first < RX_TOGETHER ? m - first : RX_TOGETHER;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t b = 0; b < blocks; b++) {
                const int64_t at = first * blocks + b * rows + i, row = first + i;
                less[at] = -w.zero * rx_order_block(to + at * RX_BLOCK, x.data + row * x.row + b * RX_BLOCK, w.bits);
                scale[at] = x.scale[row * x.scale_row + b];
            }
    }
}

/* Nonzero where there is no memory. */
static __attribute__((noinline, unused)) int rx_product_rounded(const rx_threads *threads, int64_t m, int64_t n, int64_t blocks, rx_byte_rows x,
                                                                rx_quantized w, float *c, int64_t c_row) {
    if (m <= 0 || n <= 0) return 0;
    const int64_t all = m * blocks;
    int is_few = 0;
    int64_t bytes = all * (RX_BLOCK + 8);
#if defined RX_ROUNDED_LANES
    const int64_t chunks = (blocks * RX_BLOCK + rx_chunk_terms(w.bits) - 1) / rx_chunk_terms(w.bits);
    is_few = m < RX_FEW;
    if (is_few) bytes = m * chunks * (int64_t)sizeof(rx_chunk);
#endif
    int8_t *room = aligned_alloc(64, ((size_t)bytes + 127) / 64 * 64);
    if (room == NULL) return 1;
    int32_t *less = (int32_t *)(room + all * RX_BLOCK);
    float *scale = (float *)(less + all);
#if defined RX_ROUNDED_LANES
    if (is_few)
        for (int64_t i = 0; i < m; i++) rx_fill_chunks((rx_chunk *)room + i * chunks, x, i, blocks, w);
#endif
    if (!is_few) rx_order_rows(room, less, scale, x, m, blocks, w);
    /* A weight takes memory some operations to give, however few rows there are. */
    const double worth = (m < 8 ? 4.0 : (double)m / 2) * (double)blocks * RX_BLOCK;
    const int64_t groups = (n + 15) / 16, parts = rx_parts(threads, groups, worth);
    rx_rounded_job job = {m, n, blocks, w, room, less, scale, room, c, c_row, parts};
    const int32_t status = parts > 1 ? threads->run(threads, parts, rx_rounded_part, &job) : rx_rounded_part(&job, 0);
    free(room);
    return status;
}
