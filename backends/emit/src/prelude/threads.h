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
