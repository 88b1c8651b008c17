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
