/* A loop of at most so many iterations is unrolled, so that vectors in arrays stay in registers. Clang does not read GCC's pragma. */
#if defined __clang__
#define RX_UNROLL(most) _Pragma("clang loop unroll(full)")
#else
#define RX_PRAGMA(text) _Pragma(#text)
#define RX_UNROLL(most) RX_PRAGMA(GCC unroll most)
#endif
