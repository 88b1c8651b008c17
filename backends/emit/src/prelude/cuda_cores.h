/* Products of f16 and of bf16 on tensor cores, which devices have from sm_80 on. A lane of a warp holds parts of a block of 16 rows
   and 16 terms, of one of 16 terms and 8 columns, and of their product: PTX ISA, mma.m16n8k16. Tiles lie in segments of 8 terms of
   a line or, turned, of a term of 8 lines. Of eight segments that follow each other lanes get what they hold, turned or as they
   lie: each lane names one segment (PTX ISA, ldmatrix). */
#if !defined __CUDA_ARCH__ || __CUDA_ARCH__ >= 800
#define RX_TENSOR_CORES 1
#else
#define RX_TENSOR_CORES 0
#endif

/* Where something else runs the text, it brings functions of its own. */
#if RX_TENSOR_CORES && (defined __CUDACC__ || defined __CUDACC_RTC__)
static inline uint32_t rx_shared(const void *at) { return (uint32_t)__cvta_generic_to_shared(at); }
#define RX_MATRICES(name, turned)                                                                \
    static inline void rx_four##name(uint32_t *held, const uint16_t *segment) {                   \
        asm volatile("ldmatrix.sync.aligned.m8n8.x4" turned ".shared.b16 {%0, %1, %2, %3}, [%4];"   \
                     : "=r"(held[0]), "=r"(held[1]), "=r"(held[2]), "=r"(held[3])                   \
                     : "r"(rx_shared(segment))                                                   \
                     : "memory");                                                                \
    }                                                                                            \
    static inline void rx_two##name(uint32_t *held, const uint16_t *segment) {                    \
        asm volatile("ldmatrix.sync.aligned.m8n8.x2" turned ".shared.b16 {%0, %1}, [%2];"           \
                     : "=r"(held[0]), "=r"(held[1])                                              \
                     : "r"(rx_shared(segment))                                                   \
                     : "memory");                                                                \
    }
RX_MATRICES(, "")
RX_MATRICES(_turned, ".trans")

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

/* A vector of 16 bytes on its way to shared memory, or zeros; it is there once the thread has waited. */
static inline void rx_copy(void *to, const void *from, bool is_there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(rx_shared(to)), "l"(from), "r"(is_there ? 16 : 0)
                 : "memory");
}
static inline void rx_copied() { asm volatile("cp.async.wait_all;" : : : "memory"); }
#elif defined __CUDACC__ || defined __CUDACC_RTC__
static inline void rx_copy(void *to, const void *from, bool is_there) {
    typedef rx_vector<uint32_t, 4> vector;
    *(vector *)to = is_there ? *(const vector *)from : vector{};
}
static inline void rx_copied() {}
#endif

#if RX_TENSOR_CORES
static inline void rx_left(uint32_t *held, const uint16_t *tile, int segment, int lane) {
    rx_four(held, tile + lane / 16 * segment + lane % 16 * 8);
}
static inline void rx_left_turned(uint32_t *held, const uint16_t *tile, int segment, int lane) {
    rx_four_turned(held, tile + lane / 8 % 2 * segment + (lane / 16 * 8 + lane % 8) * 8);
}
static inline void rx_right(uint32_t *held, const uint16_t *tile, int segment, int lane) {
    rx_two(held, tile + lane / 8 % 2 * segment + lane % 8 * 8);
}
static inline void rx_right_turned(uint32_t *held, const uint16_t *tile, int segment, int lane) {
    rx_two_turned(held, tile + lane % 16 * 8);
}
#endif
