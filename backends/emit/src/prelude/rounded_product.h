/* Products of rounded rows without that instruction, and the call of either. */

#if !defined RX_ROUNDED_LANES
/* One group of a row of weights as it meets x: signed, which 8 bits less `zero` have no room for in bytes. */
static inline void rx_rounded_weights(const rx_block_format *f, const rx_quantized *w, int64_t j, int64_t first, int16_t *to) {
    const uint8_t *from = w->data + j * w->row + first * (f->bits == 8 ? 8 : 4) / 8;
    if (f->bits == 8) {
        for (int k = 0; k < f->group; k++) to[k] = (int16_t)((from[k] ^ f->flip) - f->zero);
        return;
    }
    const int half = f->group / 2, more = f->bits - 4;
    const uint8_t *high = more ? w->high + j * w->high_row + first * more / 8 : from;
    for (int k = 0; k < half; k++) {
        int even = from[k] & 15, odd = from[k] >> 4;
        if (more) {
            const int mask = (1 << more) - 1, at = 2 * k * more;
            even |= (high[at / 8] >> at % 8 & mask) << 4;
            odd |= (high[at / 8] >> (at % 8 + more) & mask) << 4;
        }
        to[k] = (int16_t)(even - f->zero);
        to[k + half] = (int16_t)(odd - f->zero);
    }
}

/* The scale (`first` is 0) or the minimum (2) of a group. */
static inline float rx_rounded_scale(const rx_block_format *f, const rx_quantized *w, int first, int64_t j, int64_t g) {
    float result = 1.0f;
    for (int q = first; q < first + 2; q++) {
        const int64_t at = j * w->factors[q].row + g * f->group / f->terms[q];
        const void *from = w->factors[q].at;
        switch (f->kinds[q]) {
            case RX_FACTOR_F32: result *= ((const float *)from)[at]; break;
            case RX_FACTOR_F16: result *= rx_f32_of_f16(((const uint16_t *)from)[at]); break;
            case RX_FACTOR_U8: result *= (float)((const uint8_t *)from)[at]; break;
            case RX_FACTOR_I8: result *= (float)((const int8_t *)from)[at]; break;
        }
    }
    return result;
}

static inline int32_t rx_rounded_dot(int group, const int16_t *restrict w, const int8_t *restrict x) {
#if defined __AVX2__ && !defined RX_NO_AVX2
    const __m256i *pairs = (const __m256i *)w;
    __m256i sum = _mm256_madd_epi16(_mm256_loadu_si256(pairs), _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)x)));
    if (group == 32)
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_loadu_si256(pairs + 1), _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)x + 1))));
    const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
#else
    int32_t sum = 0;
    for (int k = 0; k < group; k++) sum += (int32_t)w[k] * x[k];
    return sum;
#endif
}

static inline int rx_rounded_columns(const rx_block_format *f, const rx_rounded_job *job, int64_t j, int64_t end) {
    const rx_quantized *w = &job->w;
    float sums[RX_TOGETHER];
    int16_t weights[RX_BLOCK];
    for (; j < end; j++)
        for (int64_t first = 0; first < job->m; first += RX_TOGETHER) {
            const int64_t rows = job->m - first < RX_TOGETHER ? job->m - first : RX_TOGETHER;
            memset(sums, 0, sizeof sums);
            for (int64_t g = 0; g < job->groups; g++) {
                const int64_t at = first * job->groups + g * rows;
                const float scale = rx_rounded_scale(f, w, 0, j, g), minimum = f->minimum ? rx_rounded_scale(f, w, 2, j, g) : 0.0f;
                rx_rounded_weights(f, w, j, g * f->group, weights);
                for (int64_t i = 0; i < rows; i++) {
                    const int8_t *x = (const int8_t *)job->x + (at + i) * f->group;
                    sums[i] += (float)rx_rounded_dot(f->group, weights, x) * (scale * job->scale[at + i]);
                    if (f->minimum) sums[i] += minimum * job->least[at + i];
                }
            }
            for (int64_t i = 0; i < rows; i++) job->c[(first + i) * job->c_row + j] = sums[i];
        }
    return 0;
}
#endif

static int32_t rx_rounded_part(void *context, int64_t part) {
    const rx_rounded_job *job = context;
    const int64_t tiles = (job->n + 15) / 16, end = rx_begin(tiles, job->parts, part + 1) * 16;
    return job->columns(job, rx_begin(tiles, job->parts, part) * 16, end < job->n ? end : job->n);
}

/* A group of a row in the order in which weights are decoded, and its sum. */
static inline int32_t rx_order_group(const rx_block_format *f, int8_t *restrict to, const int8_t *restrict from) {
    int32_t sum = 0;
    for (int k = 0; k < RX_BLOCK / 2; k++) sum += from[k];
    if (f->group == RX_BLOCK)
        for (int k = RX_BLOCK / 2; k < RX_BLOCK; k++) sum += from[k];
    const int half = f->group / 2;
    if (f->bits == 8) memcpy(to, from, (size_t)f->group);
#if defined RX_ROUNDED_LANES
    else if (half == 16) {
        const __m256i all = _mm256_loadu_si256((const __m256i *)from);
        _mm_storeu_si128((__m128i *)to, _mm256_cvtepi16_epi8(all));
        _mm_storeu_si128((__m128i *)to + 1, _mm256_cvtepi16_epi8(_mm256_srli_epi16(all, 8)));
    }
#endif
    else
        for (int k = 0; k < half; k++) to[k] = from[2 * k], to[k + half] = from[2 * k + 1];
    return sum;
}

static void rx_order_rows(const rx_block_format *f, int8_t *to, int32_t *less, float *scale, float *least, rx_byte_rows x, int64_t m,
                          int64_t groups) {
    for (int64_t first = 0; first < m; first += RX_TOGETHER) {
        const int64_t rows = m - first < RX_TOGETHER ? m - first : RX_TOGETHER;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t g = 0; g < groups; g++) {
                const int64_t at = first * groups + g * rows + i, row = first + i;
                const int32_t sum = rx_order_group(f, to + at * f->group, x.data + row * x.row + g * f->group);
                scale[at] = x.scale[row * x.scale_row + g * f->group / RX_BLOCK];
                less[at] = -f->zero * sum;
                least[at] = (float)(f->minimum * sum) * scale[at];
            }
    }
}

/* Where the rows are `few`, each is computed as a single one. Nonzero where there is no memory. */
static __attribute__((noinline)) int rx_product_rounded(const rx_threads *threads, const rx_block_format *f,
                                                        int (*columns)(const rx_rounded_job *, int64_t, int64_t), int64_t m, int few, int64_t n,
                                                        int64_t terms,
                                                        rx_byte_rows x, rx_quantized w, float *c, int64_t c_row) {
    if (m <= 0 || n <= 0) return 0;
    const int64_t groups = terms / f->group, all = m * groups;
    int is_few = 0;
    (void)few;
    int64_t bytes = all * (f->group + 12), bytes_of_x = all * f->group;
#if defined RX_ROUNDED_LANES
    const int64_t chunks = (terms + rx_chunk_terms(f->bits) - 1) / rx_chunk_terms(f->bits), padded = rx_padded(groups);
    is_few = few;
    if (is_few) bytes_of_x = m * chunks * (int64_t)sizeof(rx_chunk), bytes = bytes_of_x + m * padded * 4;
#endif
    int8_t *room = aligned_alloc(64, ((size_t)bytes + 127) / 64 * 64);
    if (room == NULL) return 1;
    int32_t *less = (int32_t *)(room + bytes_of_x);
    float *scale = (float *)(less + all), *least = is_few ? (float *)less : scale + all;
#if defined RX_ROUNDED_LANES
    for (int64_t i = 0; is_few && i < m; i++) {
        float *own = least + i * padded;
        for (int64_t g = groups; g < padded; g++) own[g] = 0.0f;
        rx_fill_chunks(f, (rx_chunk *)room + i * chunks, own, x, i, terms);
    }
#endif
    if (!is_few) rx_order_rows(f, room, less, scale, least, x, m, groups);
    /* A weight takes memory some operations to give, however few rows there are. */
    const double worth = (m < 8 ? 4.0 : (double)m / 2) * (double)terms;
    const int64_t tiles = (n + 15) / 16, parts = rx_parts(threads, tiles, worth);
    rx_rounded_job job = {m, n, groups, w, room, less, scale, least, c, c_row, parts, is_few, columns};
    const int32_t status = parts > 1 ? threads->run(threads, parts, rx_rounded_part, &job) : rx_rounded_part(&job, 0);
    free(room);
    return status;
}

/* A format, and the routine for columns of weights in it, which is compiled for its constants. */
#define RX_BLOCK_FORMAT(name, ...)                                                                                     \
    static const rx_block_format name = {__VA_ARGS__};                                                                 \
    static __attribute__((noinline)) int name##_columns(const rx_rounded_job *job, int64_t j, int64_t end) {           \
        return rx_rounded_columns(&name, job, j, end);                                                                 \
    }
