/* Which version of a product is used for which extents, by the cost model of the plan (Vortex, section 5.2): what a
   tile of registers takes was measured, or is the built-in model's; the levels above are computed. `model.rs` computes
   the same. A choice changes when an element is computed, never how. */

/* A version: into how many tiles rows are spread, whether B is packed, and how wide the blocks of B are. */
typedef struct rx_choice {
    int64_t tiles, block;
    int packs;
} rx_choice;

/* How B lies: its columns are dense, or its rows, or it is in panels already. */
enum { RX_TURNED, RX_IN_ROWS, RX_IN_PANELS };

static const double rx_packed_ps[] = RX_PACKED_PS, rx_in_place_ps[] = RX_IN_PLACE_PS;

/* Picoseconds for one term of every element of m x n. */
static double rx_cost(int64_t m, int64_t n, int lies, rx_choice choice) {
    const double *ps = choice.packs || lies == RX_IN_PANELS ? rx_packed_ps : rx_in_place_ps;
    const int64_t rows = m / choice.tiles, more = m % choice.tiles;
    const double panels = (double)((n + RX_PANEL - 1) / RX_PANEL);
    const double blocks = (double)((n + choice.block - 1) / choice.block);
    double tiles = (double)(choice.tiles - more) * ps[rows - 1];
    if (more > 0) tiles += (double)more * ps[rows];
    /* A block that the second cache does not hold is loaded again for each further tile while that computes. */
    const double loads = (double)(choice.tiles - 1) * (double)RX_FAR_PS;
    if (choice.block > RX_NC && loads > tiles) tiles = loads;
    if (choice.packs) tiles += (double)(lies == RX_IN_ROWS ? RX_PACK_PS : RX_TURN_PS);
    return panels * tiles + blocks * (double)m * (double)RX_LEFT_PS;
}

static rx_choice rx_cheapest(int64_t m, int64_t n, int lies) {
    const int64_t least = (m + RX_ROWS - 1) / RX_ROWS;
    const int64_t whole = (n + RX_PANEL - 1) / RX_PANEL * RX_PANEL;
    rx_choice best = {least, RX_NC, lies != RX_IN_PANELS};
    double cost = rx_cost(m, n, lies, best);
    const int first = lies == RX_TURNED ? 4 : 0, end = lies == RX_IN_PANELS ? 4 : 6;
    for (int version = first; version < end; version++) {
        const rx_choice next = {least + (version & 1), version & 2 ? whole : RX_NC, version >= 4};
        if (next.tiles > m || (next.block == whole && whole < RX_NC)) continue;
        const double other = rx_cost(m, n, lies, next);
        if (other < cost) best = next, cost = other;
    }
    return best;
}

/* The same, remembered: an entry is one number that holds the extents and what was chosen, so that threads may read
   and write it at once. */
static uint64_t rx_chosen[64];

static rx_choice rx_choose(int64_t m, int64_t n, int lies) {
    const int64_t least = (m + RX_ROWS - 1) / RX_ROWS;
    const int64_t whole = (n + RX_PANEL - 1) / RX_PANEL * RX_PANEL;
    if (m >> 28 || n >> 28) return rx_cheapest(m, n, lies);
    const uint64_t key = (uint64_t)m << 36 | (uint64_t)n << 8 | (uint64_t)lies << 4 | 8;
    uint64_t *const entry = &rx_chosen[(key * 0x9e3779b97f4a7c15u) >> 58];
    const uint64_t known = __atomic_load_n(entry, __ATOMIC_RELAXED);
    if ((known & ~(uint64_t)7) == key)
        return (rx_choice){least + (int64_t)(known & 1), known & 2 ? whole : RX_NC, (int)(known >> 2 & 1)};
    const rx_choice best = rx_cheapest(m, n, lies);
    const uint64_t chosen = (uint64_t)(best.tiles - least) | (best.block == whole ? 2u : 0u) | (best.packs ? 4u : 0u);
    __atomic_store_n(entry, key | chosen, __ATOMIC_RELAXED);
    return best;
}
