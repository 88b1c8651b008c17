/* What a tile takes, measured: the same tiles as in products, on blocks that lie where they lie there. */
#define RX_CANDIDATE(rows, width)                                                                \
    static __attribute__((noinline)) void rx_candidate_##rows##_##width(                          \
        const float *a, const float *b, int64_t step, float *c, int64_t count) {                  \
        rx_ahead none = {NULL, 0, 0};                                                             \
        for (int64_t j = 0; j < count; j++)                                                       \
            rx_tile(rows, width, RX_KC, a, b + j * width * RX_LANES, step, &none, c, 4 * RX_LANES, 0); \
    }                                                                                             \
    static __attribute__((noinline)) void rx_packed_##rows##_##width(                             \
        const float *a, const float *b, float *c, int64_t count) {                                \
        rx_ahead none = {NULL, 0, 0};                                                             \
        for (int64_t j = 0; j < count; j++)                                                       \
            rx_tile(rows, width, RX_KC, a, b, width * RX_LANES, &none, c, 4 * RX_LANES, 0); \
    }
RX_CANDIDATES(RX_CANDIDATE)

typedef void (*rx_candidate_of)(const float *, const float *, int64_t, float *, int64_t);
typedef void (*rx_packed_of)(const float *, const float *, float *, int64_t);
#define RX_CANDIDATE_NAME(rows, width) rx_candidate_##rows##_##width,
#define RX_PACKED_NAME(rows, width) rx_packed_##rows##_##width,
static const rx_candidate_of rx_candidates[] = {RX_CANDIDATES(RX_CANDIDATE_NAME)};
static const rx_packed_of rx_packeds[] = {RX_CANDIDATES(RX_PACKED_NAME)};

/* What is run: 0 a packed tile, 1 a tile in place, 2 packing of rows, 3 of columns, 4 of the left side, 5 reads; 6 and 7
   choose a version for extents, remembered and not, and write what is chosen to the result. */
__attribute__((visibility("default"))) int32_t relax_level0(
    const rx_tensor *tensors, const int64_t *ints, const rx_threads *threads) {
    (void)threads;
    float *a = tensors[0].data, *b = tensors[1].data, *c = tensors[2].data;
    const float *far = tensors[3].data;
    const int64_t step = tensors[1].shape[1], size = tensors[3].shape[0], tile = ints[1], count = ints[2];
    if (ints[0] == 0) rx_packeds[tile](a, b, c, count);
    if (ints[0] == 1) rx_candidates[tile](a, b, step, c, count);
    if (ints[0] == 2) rx_pack(c, (rx_matrix){b, step, 1}, RX_KC, count * RX_LANES);
    if (ints[0] == 3) rx_pack(c, (rx_matrix){b, 1, RX_KC}, RX_KC, count * RX_LANES);
    if (ints[0] == 4)
        for (int64_t i = 0; i < count; i++) rx_pack_rows(c, (rx_matrix){b, step, 1}, RX_KC, RX_ROWS);
    if (ints[0] == 5) {
        rx_lanes sums[4] = {{0}, {0}, {0}, {0}};
        for (int64_t i = 0; i + 4 * RX_LANES <= size; i += 4 * RX_LANES)
            for (int j = 0; j < 4; j++) sums[j] += *(const rx_lanes_at *)(far + i + j * RX_LANES);
        *(rx_lanes_at *)c = sums[0] + sums[1] + (sums[2] + sums[3]);
    }
    if (ints[0] == 6 || ints[0] == 7) {
        rx_choice choice = {0, 0, 0};
        for (int64_t i = 0; i < count; i++) {
            if (ints[0] == 6) choice = rx_choose(ints[3], ints[4], (int)ints[1]);
            else choice = rx_cheapest(ints[3], ints[4], (int)ints[1]);
            __asm__ volatile("" : : "g"(&choice) : "memory");
        }
        c[0] = (float)choice.tiles, c[1] = (float)choice.block, c[2] = (float)choice.packs;
    }
    return 0;
}
