/* Parts of products whose matrix is computed. */

/* Columns of a row that are computed together; tests have fewer, so that there are several of them. */
#ifndef RX_STRETCH
#define RX_STRETCH 64
#endif

/* Whether one operation reads 16 floats, each by the lowest 4 bits of an integer; tests say so without it. */
#if defined __AVX512F__
#define RX_TABLES 1
#elif !defined RX_TABLES
#define RX_TABLES 0
#endif

/* Of columns that lie side by side: sums[j] = x[0] * table[words[j] & 15] + x[step] * table[words[j] >> 4 & 15] + ..., eight terms of
   each of `count` words of a column, which lie `apart`. */
static inline __attribute__((always_inline)) void rx_weigh_columns(
    const uint32_t *restrict words, int64_t apart, int count, const float *restrict table,
    const float *restrict x, int64_t step, float *restrict sums) {
#if defined __AVX512F__
    const __m512 entries = _mm512_load_ps(table);
    enum { own = RX_STRETCH / 16 };
    __m512 sum[own];
    for (int v = 0; v < own; v++) sum[v] = _mm512_setzero_ps();
    for (int k = 0; k < count; k++, words += apart, x += 8 * step) {
        __m512i parts[own];
        for (int v = 0; v < own; v++) parts[v] = _mm512_loadu_si512(words + 16 * v);
        RX_UNROLL(8)
        for (int place = 0; place < 8; place++) {
            const __m512 weight = _mm512_set1_ps(x[place * step]);
            for (int v = 0; v < own; v++) {
                const __m512 value = _mm512_permutexvar_ps(_mm512_srli_epi32(parts[v], 4 * place), entries);
                sum[v] = _mm512_fmadd_ps(weight, value, sum[v]);
            }
        }
    }
    for (int v = 0; v < own; v++) _mm512_store_ps(sums + 16 * v, sum[v]);
#else
    for (int j = 0; j < RX_STRETCH; j++) {
        sums[j] = 0;
        for (int term = 0; term < 8 * count; term++) {
            const float value = table[words[term / 8 * apart + j] >> 4 * (term % 8) & 15];
            sums[j] = RX_MADD_F32(x[term * step], value, sums[j]);
        }
    }
#endif
}

/* A column that is computed 4 KiB of words later, of terms that are parts of 4 bits. */
static inline int64_t rx_later(int64_t column, int64_t width, int64_t deep) {
    const int64_t later = column + 1 + 8192 / (deep + 1);
    return later < width ? later : column;
}

/* Of words of a column: sums[j] = x[j] * table[words[j] & 15] + x[RX_WORDS + j] * table[words[j] >> 4 & 15] + ..., eight terms. */
static inline __attribute__((always_inline)) void rx_weigh_words(
    const uint32_t *restrict words, const float *restrict table, const float *restrict x, float *restrict sums) {
#if defined __AVX512F__
    const __m512 entries = _mm512_load_ps(table);
    const __m512i parts = _mm512_loadu_si512(words);
    /* Two sums, each of which waits for half as many operations. */
    __m512 sum[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    RX_UNROLL(8)
    for (int place = 0; place < 8; place++) {
        const __m512 value = _mm512_permutexvar_ps(_mm512_srli_epi32(parts, 4 * place), entries);
        sum[place % 2] = _mm512_fmadd_ps(_mm512_loadu_ps(x + RX_WORDS * place), value, sum[place % 2]);
    }
    _mm512_store_ps(sums, _mm512_add_ps(sum[0], sum[1]));
#else
    for (int j = 0; j < RX_WORDS; j++) {
        sums[j] = 0;
        for (int place = 0; place < 8; place++)
            sums[j] = RX_MADD_F32(x[RX_WORDS * place + j], table[words[j] >> 4 * place & 15], sums[j]);
    }
#endif
}

/* Some floats, often fewer than a few vectors: those that are left over are one vector, too. */
static inline void rx_copy_lanes(float *restrict to, const float *restrict from, int64_t count) {
#if defined __AVX512F__
    for (; count >= 16; to += 16, from += 16, count -= 16) _mm512_storeu_ps(to, _mm512_loadu_ps(from));
    const __mmask16 left = (__mmask16)((1u << count) - 1);
    _mm512_mask_storeu_ps(to, left, _mm512_maskz_loadu_ps(left, from));
#else
    for (int64_t k = 0; k < count; k++) to[k] = from[k];
#endif
}

/* One f16 as f32. */
static inline float rx_f32_of_one_f16(uint16_t bits) {
#if defined __F16C__ && RX_LANES > 4
    return _cvtsh_ss(bits);
#else
    return rx_f32_of_f16(bits);
#endif
}

/* f16 as f32, by the vector instruction for it where there is one: compilers do not use it in loops. */
static inline void rx_widen_f16(const uint16_t *restrict from, float *restrict to, int64_t count) {
    int64_t k = 0;
#if defined __AVX512F__
    for (; k + 16 <= count; k += 16)
        _mm512_storeu_ps(to + k, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(from + k))));
#elif defined __F16C__
    for (; k + 8 <= count; k += 8) _mm256_storeu_ps(to + k, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + k))));
#endif
    for (; k < count; k++) to[k] = rx_f32_of_f16(from[k]);
}

/* Bytes as f32: else the vectorizer splits vectors of them. */
static inline void rx_widen_i8(const int8_t *restrict from, float *restrict to, int64_t count) {
    int64_t k = 0;
#if defined __AVX512F__
    for (; k + 16 <= count; k += 16)
        _mm512_storeu_ps(to + k, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(from + k)))));
#endif
    for (; k < count; k++) to[k] = (float)from[k];
}

/* RX_WORDS / stays elements, each for `stays` words that follow each other. */
#if defined __AVX512F__
#define RX_SPREAD(vector, stays) _mm512_permutexvar_##vector(_mm512_set_epi32( \
    15 / (stays), 14 / (stays), 13 / (stays), 12 / (stays), 11 / (stays), 10 / (stays), 9 / (stays), 8 / (stays), \
    7 / (stays), 6 / (stays), 5 / (stays), 4 / (stays), 3 / (stays), 2 / (stays), 1 / (stays), 0), from)

/* Some bytes: a power of 2, at most 16. */
static inline __attribute__((always_inline)) __m128i rx_some_bytes(const void *at, int count) {
    if (count == 16) return _mm_loadu_si128(at);
    if (count == 8) return _mm_loadl_epi64(at);
    uint32_t some = 0;
    memcpy(&some, at, (size_t)count);
    return _mm_cvtsi32_si128((int)some);
}
#endif

static inline __attribute__((always_inline)) void rx_spread_u32(const uint32_t *restrict at, uint32_t *restrict to, int stays) {
#if defined __AVX512F__
    const __m512i from = _mm512_maskz_loadu_epi32((__mmask16)((1u << RX_WORDS / stays) - 1), at);
    _mm512_store_si512(to, RX_SPREAD(epi32, stays));
#else
    for (int k = 0; k < RX_WORDS; k++) to[k] = at[k / stays];
#endif
}

static inline __attribute__((always_inline)) void rx_spread_f32(const float *restrict at, float *restrict to, int stays) {
#if defined __AVX512F__
    const __m512 from = _mm512_maskz_loadu_ps((__mmask16)((1u << RX_WORDS / stays) - 1), at);
    _mm512_store_ps(to, RX_SPREAD(ps, stays));
#else
    for (int k = 0; k < RX_WORDS; k++) to[k] = at[k / stays];
#endif
}

static inline __attribute__((always_inline)) void rx_spread_f16(const uint16_t *restrict at, float *restrict to, int stays) {
#if defined __AVX512F__
    const __m512 from = _mm512_cvtph_ps(_mm256_castsi128_si256(rx_some_bytes(at, RX_WORDS / stays * 2)));
    _mm512_store_ps(to, RX_SPREAD(ps, stays));
#else
    for (int k = 0; k < RX_WORDS; k += stays) {
        const float one = rx_f32_of_one_f16(at[k / stays]);
        for (int copy = 0; copy < stays; copy++) to[k + copy] = one;
    }
#endif
}

static inline __attribute__((always_inline)) void rx_spread_i8(const int8_t *restrict at, float *restrict to, int stays) {
#if defined __AVX512F__
    const __m512 from = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(rx_some_bytes(at, RX_WORDS / stays)));
    _mm512_store_ps(to, RX_SPREAD(ps, stays));
#else
    for (int k = 0; k < RX_WORDS; k++) to[k] = (float)at[k / stays];
#endif
}

static inline __attribute__((always_inline)) void rx_spread_u8(const uint8_t *restrict at, float *restrict to, int stays) {
#if defined __AVX512F__
    const __m512 from = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(rx_some_bytes(at, RX_WORDS / stays)));
    _mm512_store_ps(to, RX_SPREAD(ps, stays));
#else
    for (int k = 0; k < RX_WORDS; k++) to[k] = (float)at[k / stays];
#endif
}
