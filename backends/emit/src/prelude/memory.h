/* The product of the extents of an allocation in bytes; nonzero where it is beyond 2^62. */
static inline int rx_bytes(int64_t *bytes, int rank, const int64_t *extents, int64_t size) {
    int64_t total = size;
    for (int axis = 0; axis < rank; axis++)
        if (extents[axis] == 0) return *bytes = 0, 0;
    for (int axis = 0; axis < rank; axis++)
        if (__builtin_mul_overflow(total, extents[axis], &total)) return 1;
    *bytes = total;
    return total > (INT64_C(1) << 62);
}

/* Memory in place of what `old` held; NULL where there is none. */
static inline void *rx_fresh(void *old, int64_t bytes) {
    free(old);
    size_t whole = ((size_t)bytes + 64) & ~(size_t)63;
    return aligned_alloc(64, whole);
}

/* Bytes of a result that is hardly in a cache any more when somebody reads it: with smaller ones, some of 24 MiB among them, that costs more than it saves. */
#ifndef RX_PAST
#define RX_PAST (32 << 20)
#endif

/* Whether rows of so many f32 are written past caches, of a result of so many: tests say so of all, by less than none. */
static inline int rx_is_past(int64_t row, double all) { return all * 4 >= RX_PAST && (row >= 64 || RX_PAST < 0); }

/* Writes elements without having their lines in a cache. Another thread sees them after `rx_written`. */
static inline void rx_write_past(float *to, const float *from, int64_t count) {
#if defined(__SSE__) && !defined(__clang__)
    typedef float rx_four __attribute__((vector_size(16)));
    typedef float rx_anywhere __attribute__((vector_size(16), aligned(4), may_alias));
    for (; count > 0 && ((uintptr_t)to & 63); count--) *to++ = *from++;
    for (; count >= 16; to += 16, from += 16, count -= 16)
        for (int k = 0; k < 16; k += 4) {
            const rx_four some = *(const rx_anywhere *)(from + k);
            __builtin_ia32_movntps(to + k, some);
        }
#endif
    for (; count > 0; count--) *to++ = *from++;
}
static inline void rx_written(void) {
#if defined(__SSE__) && !defined(__clang__)
    __builtin_ia32_sfence();
#endif
}

/* A load that only some iterations of a loop may do. GCC turns such loads into masked vector loads (if-conversion), and
   12.2 reads wrong elements then (docs/FOUND-ELSEWHERE.md). An asm statement is never converted. */
#if defined(__clang__)
#define RX_GUARDED(element) (element)
#else
#define RX_GUARDED(element) \
    (__extension__({         \
        __asm__ volatile("");  \
        (element);             \
    }))
#endif
