/* Parts of products of f64 whose matrix is computed. */

/* Some f64s, often fewer than a few vectors: those that are left over are one vector, too. */
static inline void rx64_copy_lanes(double *restrict to, const double *restrict from, int64_t count) {
#if defined __AVX512F__
    for (; count >= 8; to += 8, from += 8, count -= 8) _mm512_storeu_pd(to, _mm512_loadu_pd(from));
    const __mmask8 left = (__mmask8)((1u << count) - 1);
    _mm512_mask_storeu_pd(to, left, _mm512_maskz_loadu_pd(left, from));
#else
    for (int64_t k = 0; k < count; k++) to[k] = from[k];
#endif
}
