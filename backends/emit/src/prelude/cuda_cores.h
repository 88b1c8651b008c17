/* Products of f16 and of bf16 on tensor cores, which devices have from sm_80 on. A lane of a warp holds parts of a block of 16 rows
   and 16 terms, of one of 16 terms and 8 columns, and of their product: PTX ISA, mma.m16n8k16. Tiles lie in segments of 8 terms. */
#if !defined __CUDA_ARCH__ || __CUDA_ARCH__ >= 800
#define RX_TENSOR_CORES 1
#else
#define RX_TENSOR_CORES 0
#endif

static inline uint32_t rx_pair(const uint16_t *tile, int64_t row, int64_t lane) {
    return *(const uint32_t *)&tile[(row + lane / 4) * 8 + lane % 4 * 2];
}
static inline void rx_left(uint32_t *held, const uint16_t *tile, int64_t segment, int64_t lane) {
    held[0] = rx_pair(tile, 0, lane);
    held[1] = rx_pair(tile, 8, lane);
    held[2] = rx_pair(tile + segment, 0, lane);
    held[3] = rx_pair(tile + segment, 8, lane);
}
static inline void rx_right(uint32_t *held, const uint16_t *tile, int64_t segment, int64_t lane) {
    held[0] = rx_pair(tile, 0, lane);
    held[1] = rx_pair(tile + segment, 0, lane);
}

/* Where something else runs the text, it brings functions of its own. */
#if RX_TENSOR_CORES && (defined __CUDACC__ || defined __CUDACC_RTC__)
#define RX_MMA(dtype)                                                                            \
    static inline void rx_mma_##dtype(float *sums, const uint32_t *left, const uint32_t *right) { \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." #dtype "." #dtype ".f32 "            \
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"              \
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])                   \
                     : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]),        \
                       "r"(right[1]));                                                             \
    }
RX_MMA(f16)
RX_MMA(bf16)
#endif
