/* Rows of f32 that are read and written as a whole, with vectors of our own: the C compiler takes two operations for the
   greater of two floats, and has none for a power of 2. */

#if defined __AVX512F__
#include <immintrin.h>

/* As `rx_quick_exp`, within the same bound. Where results are 0, nothing underflows either. */
static inline __m512 rx_exp_lanes(__m512 x) {
    const __mmask16 above = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-104.0f), _CMP_NLT_UQ);
    const __m512 in = _mm512_min_ps(_mm512_set1_ps(89.0f), x);
    const __m512 magic = _mm512_set1_ps(0x1.8p23f);
    const __m512 n = _mm512_sub_ps(_mm512_fmadd_ps(in, _mm512_set1_ps(0x1.715476p0f), magic), magic);
    __m512 rest = _mm512_fmadd_ps(n, _mm512_set1_ps(-0x1.62ep-1f), in);
    rest = _mm512_fmadd_ps(n, _mm512_set1_ps(-0x1.0bfbe8p-15f), rest);
    __m512 sum = _mm512_set1_ps(0x1.6850e4p-10f);
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(0x1.123bccp-7f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(0x1.555b98p-5f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(0x1.55548ep-3f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(0x1.fffff8p-2f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(1.0f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(1.0f));
    return _mm512_maskz_scalef_ps(above, sum, n);
}

/* to = exp(from - less), and the sum of all. */
static inline float rx_exp_row(float *restrict to, const float *restrict from, float less, int64_t count) {
    __m512 sum = _mm512_setzero_ps();
    const __m512 all = _mm512_set1_ps(less);
    int64_t k = 0;
    for (; k + 16 <= count; k += 16) {
        const __m512 value = rx_exp_lanes(_mm512_sub_ps(_mm512_loadu_ps(from + k), all));
        _mm512_storeu_ps(to + k, value);
        sum = _mm512_add_ps(sum, value);
    }
    if (k < count) {
        const __mmask16 there = (__mmask16)((1u << (count - k)) - 1);
        const __m512 value = rx_exp_lanes(_mm512_sub_ps(_mm512_maskz_loadu_ps(there, from + k), all));
        _mm512_mask_storeu_ps(to + k, there, value);
        sum = _mm512_mask_add_ps(sum, there, sum, value);
    }
    return _mm512_reduce_add_ps(sum);
}

/* The greater ones where neither is NaN; of zeros the positive one. */
static inline __m512 rx_greater_lanes(__m512 a, __m512 b) {
#if defined __AVX512DQ__
    return _mm512_range_ps(a, b, 5);
#else
    /* Where both are the same, the bits that both have: of zeros of two signs the sign goes. */
    const __m512i both = _mm512_and_si512(_mm512_castps_si512(a), _mm512_castps_si512(b));
    const __mmask16 same = _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
    return _mm512_mask_blend_ps(same, _mm512_max_ps(a, b), _mm512_castsi512_ps(both));
#endif
}

/* The greatest, NaN if one is; of zeros the positive one. */
static inline float rx_greatest(const float *from, int64_t count) {
    __m512 most[4];
    __mmask16 odd = 0;
    for (int at = 0; at < 4; at++) most[at] = _mm512_set1_ps(-INFINITY);
    int64_t k = 0;
    for (; k + 64 <= count; k += 64)
        for (int at = 0; at < 4; at++) {
            const __m512 each = _mm512_loadu_ps(from + k + 16 * at);
            most[at] = rx_greater_lanes(most[at], each);
            odd |= _mm512_cmp_ps_mask(each, each, _CMP_UNORD_Q);
        }
    for (; k < count; k += 16) {
        const __mmask16 there = count - k < 16 ? (__mmask16)((1u << (count - k)) - 1) : (__mmask16)0xffff;
        const __m512 each = _mm512_mask_loadu_ps(_mm512_set1_ps(-INFINITY), there, from + k);
        most[0] = rx_greater_lanes(most[0], each);
        odd |= _mm512_cmp_ps_mask(each, each, _CMP_UNORD_Q);
    }
    const __m512 two = rx_greater_lanes(most[0], most[1]), others = rx_greater_lanes(most[2], most[3]);
    const __m512 all = rx_greater_lanes(two, others);
    const __m512i bits = _mm512_castps_si512(all), sign = _mm512_srai_epi32(bits, 31);
    const __m512i key = _mm512_xor_si512(bits, _mm512_and_si512(sign, _mm512_set1_epi32(0x7fffffff)));
    return odd ? NAN : rx_f32_of_key(_mm512_reduce_max_epi32(key));
}
#else
static inline float rx_exp_row(float *restrict to, const float *restrict from, float less, int64_t count) {
    float sum = 0;
    #pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < count; k++) sum += (to[k] = rx_quick_exp(from[k] - less));
    return sum;
}

static inline float rx_greatest(const float *from, int64_t count) {
    int32_t most = rx_key_f32(-INFINITY), odd = 0;
    #pragma omp simd reduction(max : most) reduction(| : odd)
    for (int64_t k = 0; k < count; k++) {
        const float each = from[k];
        const int32_t own = rx_key_f32(each);
        most = own > most ? own : most;
        odd |= each != each;
    }
    return odd ? NAN : rx_f32_of_key(most);
}
#endif
