/* Who runs the parts of a kernel. Results do not depend on how work is cut: an element is computed by one part, in
   the same way whichever it is. */

/* Operations that are worth a part of their own: some ten microseconds. */
#ifndef RX_GRAIN
#define RX_GRAIN 32768
#endif

/* Into how many parts `total` iterations are cut, each of so many operations. */
static inline int64_t rx_parts(const rx_threads *threads, int64_t total, double operations) {
    if (threads == NULL || threads->count < 2 || total < 2) return 1;
    const double all = (double)total * operations / RX_GRAIN;
    int64_t parts = 4 * threads->count;
    if (all < (double)parts) parts = (int64_t)all;
    if (total < parts) parts = total;
    return parts > 1 ? parts : 1;
}

/* Where a part begins; the next one begins where it ends. */
static inline int64_t rx_begin(int64_t total, int64_t parts, int64_t part) {
    return total / parts * part + (part < total % parts ? part : total % parts);
}

/* The steps that are left, NULL without a limit. */
static inline int64_t *rx_left(const rx_threads *threads) {
    return threads == NULL ? NULL : threads->steps;
}

/* The iterations of a loop. */
static inline double rx_trips(double start, double stop) { return stop > start ? stop - start : 0; }

/* Takes so many steps from those that are left: 1 if they are too few, and then none is left for other threads either.
   Counts are doubles, which saturate: beyond 2^53 they are rounded. */
static __attribute__((noinline, cold, unused)) int rx_take(int64_t *left, double steps) {
    int64_t now = __atomic_load_n(left, __ATOMIC_RELAXED);
    for (;;) {
        const int enough = steps <= (double)now;
        const int64_t next = enough ? now - (int64_t)steps : 0;
        if (__atomic_compare_exchange_n(left, &now, next, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return !enough;
    }
}

/* A macro and a call out of line: without a limit, a loop has one comparison more. */
#define rx_spend(left, steps) ((left) != NULL && rx_take(left, steps))
