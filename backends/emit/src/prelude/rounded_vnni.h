/* Products of rounded rows by the dot instruction for bytes.

   Roofline of a core with 512-bit vectors that reads two of them a cycle and issues one or two dot products of 64 bytes: one row takes 13
   instructions for 64 bytes of weights of 4 bits, and of Q4_K 5 more for scales and minimums, less than memory takes to give them. With
   many rows, a group of a row and 16 columns is 8 dot products, but as many reads of x and 4 more, 6 cycles; with 32 columns it is
   16 dot products and 12 reads, 8 cycles where two dot products are issued. */

/* Tests define RX_NO_VNNI and RX_NO_AVX2, so that each text runs on one processor. */
#if !defined RX_NO_VNNI && defined __AVX512VNNI__ && defined __AVX512BW__ && defined __AVX512VL__ && defined __AVX512DQ__ && defined __F16C__
#define RX_ROUNDED_LANES

/* What 64 bytes of weights meet: the even and the odd terms, or all of them, what is added for `zero`, and scales, by lanes. */
typedef struct rx_chunk {
    int8_t even[64], odd[64];
    int32_t less[16];
    float scale[16];
} rx_chunk;

RX_INLINE int64_t rx_chunk_terms(int bits) { return bits == 8 ? 64 : 128; }

/* Chunk k of a row, of which `left` terms are there. */
RX_INLINE __m512i rx_chunk_of(const rx_block_format *f, const uint8_t *data, int64_t k, int64_t left) {
    if (left >= rx_chunk_terms(f->bits)) return _mm512_loadu_si512(data + k * 64);
    return _mm512_maskz_loadu_epi8(((__mmask64)1 << left * (f->bits == 8 ? 8 : 4) / 8) - 1, data + k * 64);
}

/* The same as unsigned bytes, with the upper bits: the even and the odd terms, or all of them. */
RX_INLINE void rx_chunk_bytes(const rx_block_format *f, const uint8_t *data, const uint8_t *high, int64_t k, int64_t left, __m512i *even,
                              __m512i *odd) {
    const int is_whole = left >= rx_chunk_terms(f->bits);
    const __m512i q = rx_chunk_of(f, data, k, left);
    *odd = _mm512_setzero_si512();
    if (f->bits == 8) {
        *even = _mm512_xor_si512(q, _mm512_set1_epi8((char)f->flip));
        return;
    }
    const __m512i low = _mm512_set1_epi8(15);
    *even = _mm512_and_si512(q, low);
    *odd = _mm512_and_si512(_mm512_srli_epi16(q, 4), low);
    if (f->bits == 5) {
        /* Byte p has bits 2 p and 2 p + 1 of the 128. */
        const __m128i bits = is_whole ? _mm_loadu_si128((const __m128i *)(high + k * 16))
                                      : _mm_maskz_loadu_epi32((__mmask8)((1 << left / 32) - 1), high + k * 16);
        const __m512i of = _mm512_set_epi32(0x0f0f0f0f, 0x0e0e0e0e, 0x0d0d0d0d, 0x0c0c0c0c, 0x0b0b0b0b, 0x0a0a0a0a, 0x09090909, 0x08080808,
                                            0x07070707, 0x06060606, 0x05050505, 0x04040404, 0x03030303, 0x02020202, 0x01010101, 0);
        const __m512i all = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(bits), of), fifth = _mm512_set1_epi8(16);
        *even = _mm512_mask_add_epi8(*even, _mm512_test_epi8_mask(all, _mm512_set1_epi32(0x40100401)), *even, fifth);
        *odd = _mm512_mask_add_epi8(*odd, _mm512_test_epi8_mask(all, _mm512_set1_epi32((int)0x80200802)), *odd, fifth);
    } else if (f->bits == 6) {
        /* Byte p has bits 4 p to 4 p + 3 of the 256. */
        const __m256i bits = is_whole ? _mm256_loadu_si256((const __m256i *)(high + k * 32))
                                      : _mm256_maskz_loadu_epi32((__mmask8)((1 << left / 16) - 1), high + k * 32);
        const __m512i wide = _mm512_cvtepu8_epi16(bits), all = _mm512_or_si512(wide, _mm512_slli_epi16(wide, 4));
        const __m512i upper = _mm512_set1_epi8(0x30);
        *even = _mm512_or_si512(*even, _mm512_and_si512(_mm512_slli_epi16(all, 4), upper));
        *odd = _mm512_or_si512(*odd, _mm512_and_si512(_mm512_slli_epi16(all, 2), upper));
    }
}

/* The first bytes of a vector: 1, 2, 4, 8 or 16. */
RX_INLINE __m128i rx_factor_bytes(const void *at, int bytes) {
    if (bytes == 16) return _mm_loadu_si128(at);
    if (bytes == 8) return _mm_loadl_epi64(at);
    int32_t few = 0;
    memcpy(&few, at, (size_t)bytes);
    return _mm_cvtsi32_si128(few);
}

/* `count` elements as f32, or as many as are there; others are 0, or any. Masked loads of 16 bits are slow. */
RX_INLINE __m512 rx_some_factors(int kind, const char *at, int count, int64_t there) {
    const __mmask16 mask = there >= count ? (__mmask16)0xffff : (__mmask16)((1 << there) - 1);
    const int is_whole = there >= count;
    if (kind == RX_FACTOR_F32)
        return is_whole && count == 16 ? _mm512_loadu_ps(at) : _mm512_maskz_loadu_ps(mask & (__mmask16)((1 << count) - 1), at);
    if (kind == RX_FACTOR_F16) {
        if (!is_whole) return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, at));
        return _mm512_cvtph_ps(count == 16 ? _mm256_loadu_si256((const __m256i *)at) : _mm256_castsi128_si256(rx_factor_bytes(at, 2 * count)));
    }
    const __m128i bytes = is_whole ? rx_factor_bytes(at, count) : _mm_maskz_loadu_epi8(mask, at);
    return _mm512_cvtepi32_ps(kind == RX_FACTOR_U8 ? _mm512_cvtepu8_epi32(bytes) : _mm512_cvtepi8_epi32(bytes));
}

/* Bytes of an element. */
RX_INLINE int64_t rx_factor_size(int kind) { return kind == RX_FACTOR_F32 ? 4 : kind == RX_FACTOR_F16 ? 2 : 1; }

/* Where the factors of row j begin. */
RX_INLINE void rx_row_factors(const rx_block_format *f, const rx_quantized *w, int64_t j, const char **at) {
    RX_UNROLL(4)
    for (int q = 0; q < 4; q++) {
        at[q] = (const char *)w->factors[q].at + j * w->factors[q].row * rx_factor_size(f->kinds[q]);
    }
}

/* Asks for the factors of a row that comes `rows` later. They are read in one go before the weights of a row, so that the processor
   does not see them coming. */
RX_INLINE void rx_ask_for_factors(const rx_block_format *f, const rx_quantized *w, const char *const *of_row, int64_t rows, int64_t terms) {
    RX_UNROLL(4)
    for (int q = 0; q < 4; q++) {
        if (f->kinds[q] == RX_NO_FACTOR) continue;
        const int64_t size = rx_factor_size(f->kinds[q]);
        const char *at = of_row[q] + rows * w->factors[q].row * size;
        for (int64_t line = 0; line < terms / f->terms[q] * size; line += 64) __builtin_prefetch(at + line);
    }
}

/* Scales (`first` is 0) or minimums (2) of the groups from g on, of a row whose factors begin there; 0 beyond the last one. */
RX_INLINE __m512 rx_sixteen(const rx_block_format *f, const char *const *of_row, int first, int64_t g, int64_t groups) {
    __m512 result = _mm512_setzero_ps();
    RX_UNROLL(2)
    for (int q = first; q < first + 2; q++) {
        if (f->kinds[q] == RX_NO_FACTOR) continue;
        const int64_t each = f->terms[q] / f->group, count = each < 16 ? 16 / each : 1;
        __m512 some = rx_some_factors(f->kinds[q], of_row[q] + g / each * rx_factor_size(f->kinds[q]), (int)count, (groups - g + each - 1) / each);
        if (each > 1) {
            const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
            some = _mm512_permutexvar_ps(_mm512_srli_epi32(lane, each == 2 ? 1 : each == 4 ? 2 : each == 8 ? 3 : 4), some);
        }
        result = q == first ? some : _mm512_mul_ps(result, some);
    }
    return groups - g >= 16 ? result : _mm512_maskz_mov_ps((__mmask16)((1 << (groups - g)) - 1), result);
}

/* Scales of the groups from g on into `to`, and what their minimums add to the sums of `rows` rows of x. */
RX_INLINE void rx_sixteen_of_row(const rx_block_format *f, const char *const *of_row, int64_t g, int64_t groups, float *to, const int rows,
                                 const float *least, int64_t padded, __m512 *sums) {
    _mm512_storeu_ps(to + g, rx_sixteen(f, of_row, 0, g, groups));
    if (!f->minimum) return;
    const __m512 minimum = rx_sixteen(f, of_row, 2, g, groups);
    RX_UNROLL(4)
    for (int s = 0; s < rows; s++) sums[s] = _mm512_fmadd_ps(minimum, _mm512_loadu_ps(least + s * padded + g), sums[s]);
}

/* Scales of the groups of a chunk, by lanes. */
RX_INLINE __m512 rx_chunk_scales(const rx_block_format *f, const float *at) {
    const int count = (int)rx_chunk_terms(f->bits) / f->group;
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512 few = count == 8   ? _mm512_castps256_ps512(_mm256_loadu_ps(at))
                       : count == 4 ? _mm512_castps128_ps512(_mm_loadu_ps(at))
                                    : _mm512_castps128_ps512(_mm_castsi128_ps(_mm_loadl_epi64((const __m128i *)at)));
    return _mm512_permutexvar_ps(_mm512_srli_epi32(lane, count == 8 ? 1 : count == 4 ? 2 : 3), few);
}

/* Adds the terms of chunk k of a row of weights to the sums of `rows` rows of x. */
RX_INLINE void rx_add_chunk(const rx_block_format *f, const uint8_t *data, const uint8_t *high, int64_t k, int64_t left, const float *scales,
                            const int rows, const rx_chunk *x, int64_t chunks, __m512 *sums) {
    __m512i even, odd;
    rx_chunk_bytes(f, data, high, k, left, &even, &odd);
    const __m512 scale = rx_chunk_scales(f, scales + k * (rx_chunk_terms(f->bits) / f->group));
    RX_UNROLL(4)
    for (int s = 0; s < rows; s++) {
        const rx_chunk *at = x + s * chunks + k;
        __m512i sum = f->zero ? _mm512_loadu_si512(at->less) : _mm512_setzero_si512();
        sum = _mm512_dpbusd_epi32(sum, even, _mm512_loadu_si512(at->even));
        if (f->bits != 8) sum = _mm512_dpbusd_epi32(sum, odd, _mm512_loadu_si512(at->odd));
        sums[s] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(scale, _mm512_loadu_ps(at->scale)), sums[s]);
    }
}

/* `wide` rows of weights from j on, those beyond the last one again, with `rows` rows of x from i on. `room` has `padded` floats for
   each row of weights, and 16 vectors. */
RX_INLINE void rx_rounded_rows(const rx_block_format *f, const rx_rounded_job *job, const int wide, const int is_near, const int rows, int64_t i,
                               int64_t j, int64_t end, float *room) {
    const rx_quantized *w = &job->w;
    const int64_t terms = rx_chunk_terms(f->bits), each = terms / f->group, groups = job->groups, whole = groups / each;
    const int64_t padded = rx_padded(groups), chunks = (groups + each - 1) / each;
    const rx_chunk *x = (const rx_chunk *)job->x + i * chunks;
    float *starts = room + 4 * padded;
    /* A loop of its own: sums that are indexed by its variable would not stay in registers below. */
    for (int r = 0; r < wide; r++) {
        const char *of_row[4];
        rx_row_factors(f, w, j + r < end ? j + r : end - 1, of_row);
        rx_ask_for_factors(f, w, of_row, 2 * wide, groups * f->group);
        const float *least = f->minimum ? job->least + i * padded : NULL;
        float *to = room + r * padded;
        __m512 of_minimums[4];
        RX_UNROLL(4)
        for (int s = 0; s < rows; s++) of_minimums[s] = _mm512_setzero_ps();
        int64_t g = 0;
        /* Without masks where all 16 are there. */
        for (; g + 16 <= groups; g += 16) rx_sixteen_of_row(f, of_row, g, g + 16, to, rows, least, padded, of_minimums);
        if (g < groups) rx_sixteen_of_row(f, of_row, g, groups, to, rows, least, padded, of_minimums);
        RX_UNROLL(4)
        for (int s = 0; f->minimum && s < rows; s++) _mm512_store_ps(starts + (r * 4 + s) * 16, of_minimums[s]);
    }
    const uint8_t *data[4], *high[4];
    __m512 sums[4][4];
    RX_UNROLL(4)
    for (int r = 0; r < wide; r++) {
        const int64_t row = j + r < end ? j + r : end - 1;
        data[r] = w->data + row * w->row;
        high[r] = f->bits == 5 || f->bits == 6 ? w->high + row * w->high_row : NULL;
        RX_UNROLL(4)
        for (int s = 0; s < rows; s++) sums[r][s] = f->minimum ? _mm512_load_ps(starts + (r * 4 + s) * 16) : _mm512_setzero_ps();
    }
    /* Asked for in the order of memory, which gives twice as much then as in the order of use; into the second cache where a
       group of rows is not small beside the first. */
    const int64_t further = is_near ? 3072 : wide == 2 ? 8192 : 2048, high_bytes = (f->bits - 4) * 16;
    const uint8_t *ahead = data[0] + wide * w->row + further, *high_ahead = high[0] + wide * w->high_row + further * high_bytes / 64;
    for (int64_t k = 0; k < whole; k++)
        RX_UNROLL(4)
        for (int r = 0; r < wide; r++) {
            if (is_near) __builtin_prefetch(ahead + (k * wide + r) * 64);
            else __builtin_prefetch(ahead + (k * wide + r) * 64, 0, 2);
            if (high[0] != NULL) __builtin_prefetch(high_ahead + (k * wide + r) * high_bytes);
            rx_add_chunk(f, data[r], high[r], k, terms, room + r * padded, rows, x, chunks, sums[r]);
        }
    if (whole < chunks)
        RX_UNROLL(4)
        for (int r = 0; r < wide; r++)
            rx_add_chunk(f, data[r], high[r], whole, (groups - whole * each) * f->group, room + r * padded, rows, x, chunks, sums[r]);
    RX_UNROLL(4)
    for (int r = 0; r < wide; r++)
        RX_UNROLL(4)
        for (int s = 0; s < rows; s++)
            if (j + r < end) job->c[(i + s) * job->c_row + j + r] = _mm512_reduce_add_ps(sums[r][s]);
}

RX_INLINE int rx_few_rows(const rx_block_format *f, const rx_rounded_job *job, int64_t j, int64_t end) {
    const int is_near = job->w.row <= 1536;
    float *room = aligned_alloc(64, (size_t)rx_padded(job->groups) * 16 + 1024);
    if (room == NULL) return 1;
    for (; job->m == 1 && is_near && j < end; j += 4) rx_rounded_rows(f, job, 4, 1, 1, 0, j, end, room);
    for (; job->m == 1 && j < end; j += 2) rx_rounded_rows(f, job, 2, 0, 1, 0, j, end, room);
    for (; j < end; j += 4)
        for (int64_t i = 0; i < job->m; i += 4) switch (job->m - i) {
            case 1: rx_rounded_rows(f, job, 4, 0, 1, i, j, end, room); break;
            case 2: rx_rounded_rows(f, job, 4, 0, 2, i, j, end, room); break;
            case 3: rx_rounded_rows(f, job, 4, 0, 3, i, j, end, room); break;
            default: rx_rounded_rows(f, job, 4, 0, 4, i, j, end, room);
        }
    free(room);
    return 0;
}

/* The chunks of a row of bytes, zeros beyond the last block, and what its groups meet of minimums. */
static void rx_fill_chunks(const rx_block_format *f, rx_chunk *to, float *least, rx_byte_rows x, int64_t i, int64_t all) {
    const int64_t terms = rx_chunk_terms(f->bits), each = terms / f->group;
    const int8_t *from = x.data + i * x.row;
    const float *scale = x.scale + i * x.scale_row;
    const __m512i ones = _mm512_set1_epi8(1);
    for (int64_t first = 0; first < all; first += terms, to++, least += each) {
        const int64_t left = all - first < terms ? all - first : terms;
        __m512i even, odd = _mm512_setzero_si512();
        if (f->bits == 8) even = _mm512_maskz_loadu_epi8(left == 64 ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1, from + first);
        else {
            const __m512i a = _mm512_maskz_loadu_epi8(left >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1, from + first);
            const int64_t more = left > 64 ? left - 64 : 0;
            const __m512i b = _mm512_maskz_loadu_epi8(more == 64 ? ~(__mmask64)0 : ((__mmask64)1 << more) - 1, from + first + (more ? 64 : 0));
            even = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(a)), _mm512_cvtepi16_epi8(b), 1);
            odd = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(_mm512_srli_epi16(a, 8))),
                                     _mm512_cvtepi16_epi8(_mm512_srli_epi16(b, 8)), 1);
        }
        const __m512i sums = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, even), ones, odd);
        _mm512_store_si512(to->even, even);
        _mm512_store_si512(to->odd, odd);
        _mm512_store_si512(to->less, _mm512_mullo_epi32(sums, _mm512_set1_epi32(-f->zero)));
        int32_t of[16];
        _mm512_storeu_si512(of, sums);
        for (int64_t lane = 0; lane < 16; lane++) {
            const int64_t block = lane * terms / 16 / RX_BLOCK;
            to->scale[lane] = block * RX_BLOCK < left ? scale[first / RX_BLOCK + block] : 0.0f;
        }
        for (int64_t g = 0; f->minimum && g < each; g++) {
            int32_t sum = 0;
            for (int64_t lane = g * 16 / each; lane < (g + 1) * 16 / each; lane++) sum += of[lane];
            least[g] = (float)(f->minimum * sum) * to->scale[g * 16 / each];
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

/* Chunk k of 16 rows of weights, as [word of four terms][row], in the order of terms of x. */
RX_INLINE void rx_transpose_chunk(const rx_block_format *f, const rx_rounded_job *job, const int64_t *rows, int64_t k, __m512i *to) {
    const rx_quantized *w = &job->w;
    const int64_t each = rx_chunk_terms(f->bits) / f->group, half = f->group / 8, left = (job->groups - k * each) * f->group;
    __m512i even[16], odd[16];
    if (f->bits == 4) {
        /* Halves of bytes are parted after the transposition, which is then one. */
        for (int r = 0; r < 16; r++) even[r] = rx_chunk_of(f, w->data + rows[r] * w->row, k, left);
        rx_transpose_words(even);
        const __m512i low = _mm512_set1_epi8(15);
        for (int r = 0; r < 16; r++) odd[r] = _mm512_and_si512(_mm512_srli_epi16(even[r], 4), low), even[r] = _mm512_and_si512(even[r], low);
    } else {
        for (int r = 0; r < 16; r++)
            rx_chunk_bytes(f, w->data + rows[r] * w->row, w->high + rows[r] * w->high_row, k, left, even + r, odd + r);
        rx_transpose_words(even);
        if (f->bits != 8) rx_transpose_words(odd);
    }
    for (int r = 0; r < 16; r++) {
        __m512i *at = f->bits == 8 ? to + r : to + r / half * 2 * half + r % half;
        at[0] = even[r];
        if (f->bits != 8) at[half] = odd[r];
    }
}

/* Scales (`first` is 0) or minimums (2) of 16 groups of 16 rows, as [group][row]. */
RX_INLINE void rx_transpose_factors(const rx_block_format *f, const rx_rounded_job *job, const int64_t *rows, int first, int64_t g, __m512 *to) {
    __m512i square[16];
    for (int r = 0; r < 16; r++) {
        const char *of_row[4];
        rx_row_factors(f, &job->w, rows[r], of_row);
        square[r] = _mm512_castps_si512(rx_sixteen(f, of_row, first, g, job->groups));
    }
    rx_transpose_words(square);
    for (int r = 0; r < 16; r++) to[r] = _mm512_castsi512_ps(square[r]);
}

/* One group of `tiles` times 16 rows of weights, with a number of rows of x: four terms of x are read for all of them. What belongs to
   a tile lies `padded` groups behind what belongs to the one before. */
RX_INLINE void rx_rounded_group(const rx_block_format *f, const int tiles, const __m512i *words, const __m512 *scales, const __m512 *least_of_w,
                                int64_t padded, int64_t rows, const int8_t *x, const int32_t *less, const float *x_scale, const float *least,
                                __m512 *sums) {
    const int each = f->group / 4;
    __m512i w[2][8];
    __m512 scale[2], minimum[2];
    RX_UNROLL(2)
    for (int t = 0; t < tiles; t++) {
        RX_UNROLL(8)
        for (int k = 0; k < each; k++) w[t][k] = words[t * padded * each + k];
        scale[t] = scales[t * padded];
        if (f->minimum) minimum[t] = least_of_w[t * padded];
    }
    for (int64_t i = 0; i < rows; i++, x += f->group) {
        __m512i sum[2];
        RX_UNROLL(2)
        for (int t = 0; t < tiles; t++) sum[t] = f->zero ? _mm512_set1_epi32(less[i]) : _mm512_setzero_si512();
        RX_UNROLL(8)
        for (int k = 0; k < each; k++) {
            int32_t four;
            memcpy(&four, x + 4 * k, 4);
            RX_UNROLL(2)
            for (int t = 0; t < tiles; t++) sum[t] = _mm512_dpbusd_epi32(sum[t], w[t][k], _mm512_set1_epi32(four));
        }
        RX_UNROLL(2)
        for (int t = 0; t < tiles; t++) {
            __m512 *own = sums + t * RX_TOGETHER + i;
            __m512 total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[t]), _mm512_mul_ps(scale[t], _mm512_set1_ps(x_scale[i])), *own);
            if (f->minimum) total = _mm512_fmadd_ps(minimum[t], _mm512_set1_ps(least[i]), total);
            *own = total;
        }
    }
}

/* `tiles` times 16 columns from j on; of the rows of weights beyond the last one that one again. The first rows of x meet each chunk as
   soon as it is transposed. `words` has room for the tiles, their scales and minimums, and sums. */
RX_INLINE void rx_rounded_tile(const rx_block_format *f, const rx_rounded_job *job, const int tiles, int64_t j, int64_t end, __m512i *words) {
    const int64_t groups = job->groups, padded = rx_padded(groups), each = f->group / 4, chunk = rx_chunk_terms(f->bits) / f->group;
    __m512 *scales = (__m512 *)(words + tiles * padded * each), *least = scales + tiles * padded, *sums = least + tiles * padded;
    const uint8_t *next = job->w.data + (j + tiles * 16) * job->w.row;
    const int lines = tiles * f->group * (f->bits == 8 ? 8 : 4) / RX_BLOCK;
    int64_t of[32];
    for (int r = 0; r < tiles * 16; r++) of[r] = j + r < end ? j + r : end - 1;
    for (int64_t first = 0; first < job->m; first += RX_TOGETHER) {
        const int64_t rows = job->m - first < RX_TOGETHER ? job->m - first : RX_TOGETHER, at = first * groups;
        for (int t = 0; t < tiles; t++)
            for (int64_t i = 0; i < rows; i++) sums[t * RX_TOGETHER + i] = _mm512_setzero_ps();
        for (int64_t g = 0; g < groups; g++) {
            for (int t = 0; first == 0 && t < tiles; t++) {
                const int64_t *own = of + 16 * t, to = t * padded + g;
                if (g % 16 == 0) rx_transpose_factors(f, job, own, 0, g, scales + to);
                if (g % 16 == 0 && f->minimum) rx_transpose_factors(f, job, own, 2, g, least + to);
                if (g % chunk == 0) rx_transpose_chunk(f, job, own, g / chunk, words + to * each);
            }
            for (int line = 0; first == 0 && line < lines; line++) __builtin_prefetch(next + (g * lines + line) * 64, 0, 2);
            const int64_t from = at + g * rows;
            rx_rounded_group(f, tiles, words + g * each, scales + g, least + g, padded, rows, (const int8_t *)job->x + from * f->group,
                             job->less + from, job->scale + from, job->least + from, sums);
        }
        for (int t = 0; t < tiles; t++) {
            const int64_t column = j + t * 16, left = end - column;
            const __mmask16 there = left < 16 ? (__mmask16)((1 << left) - 1) : (__mmask16)0xffff;
            for (int64_t i = 0; i < rows; i++)
                _mm512_mask_storeu_ps(job->c + (first + i) * job->c_row + column, there, sums[t * RX_TOGETHER + i]);
        }
    }
}

/* Two tiles at once read x half as often as one; the last columns may be in one. */
RX_INLINE int rx_rounded_tiles(const rx_block_format *f, const rx_rounded_job *job, int64_t j, int64_t end) {
    const int64_t padded = rx_padded(job->groups);
    __m512i *words = aligned_alloc(64, (size_t)(2 * padded * (f->group / 4 + 2) + 2 * RX_TOGETHER) * 64);
    if (words == NULL) return 1;
    for (; end - j > 16; j += 32) rx_rounded_tile(f, job, 2, j, end, words);
    if (j < end) rx_rounded_tile(f, job, 1, j, end, words);
    free(words);
    return 0;
}

RX_INLINE int rx_rounded_columns(const rx_block_format *f, const rx_rounded_job *job, int64_t j, int64_t end) {
    return job->is_few ? rx_few_rows(f, job, j, end) : rx_rounded_tiles(f, job, j, end);
}
#endif
