// Runs CUDA C++ on the processor: blocks one after the other, the threads of a block as fibers, each up to its next
// barrier before the next one runs, in one order or the other. Where a warp meets on its own, it goes on before the next warp runs.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <type_traits>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)

struct shim_place {
    unsigned x, y, z;
};
static shim_place threadIdx, blockIdx, blockDim, gridDim;

static inline unsigned atomicMin(unsigned *to, unsigned value) {
    unsigned old = *to;
    if (value < old) *to = value;
    return old;
}
static inline long long __mul64hi(long long a, long long b) {
    return (long long)(((__int128)a * b) >> 64);
}

struct shim_fiber {
    ucontext_t context;
    shim_place at;
    bool ended, meets_warp;
    char *stack;
};
static const size_t SHIM_STACK = 64 << 10;
static shim_fiber shim_fibers[1024];
static shim_fiber *shim_now;
static ucontext_t shim_host;
static void (*shim_body)(const uint64_t *);
static const uint64_t *shim_arguments;

static inline void shim_meet(bool warp) {
    if (!shim_now) return;
    shim_now->meets_warp = warp;
    swapcontext(&shim_now->context, &shim_host);
}
static inline void __syncthreads() { shim_meet(false); }
static inline void __syncwarp() { shim_meet(true); }
static void shim_entry() {
    shim_body(shim_arguments);
    shim_now->ended = true;
}

// Up to where all threads of a block meet; false where all have ended.
static bool shim_warp(shim_fiber *lanes, unsigned count, int backwards) {
    bool some = false;
    for (unsigned lane = 0; lane < count; lane++) lanes[lane].meets_warp = true;
    for (bool again = true; again;) {
        again = false;
        for (unsigned turn = 0; turn < count; turn++) {
            shim_fiber *fiber = &lanes[backwards ? count - 1 - turn : turn];
            if (fiber->ended || !fiber->meets_warp) continue;
            some = true;
            fiber->meets_warp = false;
            shim_now = fiber;
            threadIdx = fiber->at;
            swapcontext(&shim_host, &fiber->context);
            again |= fiber->meets_warp;
        }
    }
    return some;
}

static void shim_block(unsigned count, int backwards) {
    for (unsigned at = 0; at < count; at++) {
        shim_fiber *fiber = &shim_fibers[at];
        fiber->at = {at % blockDim.x, at / blockDim.x % blockDim.y, at / blockDim.x / blockDim.y};
        fiber->ended = false;
        if (!fiber->stack) fiber->stack = (char *)malloc(SHIM_STACK);
        getcontext(&fiber->context);
        fiber->context.uc_stack.ss_sp = fiber->stack;
        fiber->context.uc_stack.ss_size = SHIM_STACK;
        fiber->context.uc_link = &shim_host;
        makecontext(&fiber->context, shim_entry, 0);
    }
    const unsigned warps = (count + 31) / 32;
    for (bool some = true; some;) {
        some = false;
        for (unsigned turn = 0; turn < warps; turn++) {
            const unsigned first = (backwards ? warps - 1 - turn : turn) * 32;
            const unsigned lanes = count - first < 32 ? count - first : 32;
            some |= shim_warp(&shim_fibers[first], lanes, backwards);
        }
    }
    shim_now = nullptr;
}

static void shim_run(void (*body)(const uint64_t *), const uint64_t *arguments, const unsigned *sizes, int backwards) {
    gridDim = {sizes[0], sizes[1], sizes[2]};
    blockDim = {sizes[3], sizes[4], sizes[5]};
    shim_body = body;
    shim_arguments = arguments;
    const unsigned blocks = gridDim.x * gridDim.y * gridDim.z, threads = blockDim.x * blockDim.y * blockDim.z;
    for (unsigned turn = 0; turn < blocks; turn++) {
        const unsigned at = backwards ? blocks - 1 - turn : turn;
        blockIdx = {at % gridDim.x, at / gridDim.x % gridDim.y, at / gridDim.x / gridDim.y};
        threadIdx = {0, 0, 0};
        if (threads == 1) body(arguments);
        else shim_block(threads, backwards);
    }
}

// Tensor cores, as the PTX ISA says of mma.m16n8k16: lanes lay out what they hold of both factors, and each adds to its sums.
static uint32_t shim_left[1024][4], shim_right[1024][2];

static float shim_f16(uint16_t bits) {
    const int exponent = bits >> 10 & 31, digits = bits & 1023;
    float size = ldexpf(digits + (exponent ? 1024 : 0), (exponent ? exponent : 1) - 25);
    if (exponent == 31) size = digits ? NAN : INFINITY;
    return bits >> 15 ? -size : size;
}
static float shim_bf16(uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
}
template <class Of> static void shim_mma(float *sums, const uint32_t *left, const uint32_t *right, Of of) {
    const unsigned own = shim_now - shim_fibers, first = own / 32 * 32;
    memcpy(shim_left[own], left, sizeof *shim_left);
    memcpy(shim_right[own], right, sizeof *shim_right);
    __syncthreads();
    float a[16][16], b[16][8];
    for (unsigned lane = 0; lane < 32; lane++) {
        const unsigned group = lane / 4, of_group = lane % 4;
        for (unsigned i = 0; i < 8; i++) {
            const unsigned row = i < 2 || (4 <= i && i < 6) ? group : group + 8;
            const unsigned column = of_group * 2 + (i & 1) + (i < 4 ? 0 : 8);
            a[row][column] = of(shim_left[first + lane][i / 2] >> (i & 1) * 16);
        }
        for (unsigned i = 0; i < 4; i++) {
            const unsigned row = of_group * 2 + (i & 1) + (i < 2 ? 0 : 8);
            b[row][group] = of(shim_right[first + lane][i / 2] >> (i & 1) * 16);
        }
    }
    const unsigned group = own % 32 / 4, of_group = own % 4;
    for (unsigned i = 0; i < 4; i++) {
        const unsigned row = i < 2 ? group : group + 8, column = of_group * 2 + (i & 1);
        for (unsigned k = 0; k < 16; k++) sums[i] += a[row][k] * b[k][column];
    }
    __syncthreads();
}
static inline void rx_mma_f16(float *sums, const uint32_t *left, const uint32_t *right) {
    shim_mma(sums, left, right, shim_f16);
}
static inline void rx_mma_bf16(float *sums, const uint32_t *left, const uint32_t *right) {
    shim_mma(sums, left, right, shim_bf16);
}

// Segments that lanes name, as the PTX ISA says of ldmatrix: the rows of matrices of 8 x 8, of which each lane gets two elements.
static const uint16_t *shim_segments[1024];
template <unsigned count, bool turned> static void shim_matrices(uint32_t *held, const uint16_t *segment) {
    const unsigned own = shim_now - shim_fibers, first = own / 32 * 32, lane = own % 32;
    shim_segments[own] = segment;
    __syncthreads();
    for (unsigned i = 0; i < count; i++) {
        held[i] = 0;
        for (unsigned half = 0; half < 2; half++) {
            const unsigned row = lane / 4, column = lane % 4 * 2 + half;
            const uint16_t *from = shim_segments[first + i * 8 + (turned ? column : row)];
            held[i] |= (uint32_t)from[turned ? row : column] << half * 16;
        }
    }
    __syncthreads();
}
static inline void rx_four(uint32_t *held, const uint16_t *segment) { shim_matrices<4, false>(held, segment); }
static inline void rx_two(uint32_t *held, const uint16_t *segment) { shim_matrices<2, false>(held, segment); }
static inline void rx_four_turned(uint32_t *held, const uint16_t *segment) { shim_matrices<4, true>(held, segment); }
static inline void rx_two_turned(uint32_t *held, const uint16_t *segment) { shim_matrices<2, true>(held, segment); }

// Copies are made as late as they may be: when the thread waits for them.
struct shim_copy {
    void *to;
    const void *from;
    bool is_there;
};
static std::vector<shim_copy> shim_copies[1024];
static inline std::vector<shim_copy> &shim_own_copies() { return shim_copies[shim_now ? shim_now - shim_fibers : 0]; }
static inline void rx_copy(void *to, const void *from, bool is_there) { shim_own_copies().push_back({to, from, is_there}); }
static inline void rx_copied() {
    for (const shim_copy &copy : shim_own_copies()) {
        if ((uintptr_t)copy.to % 16) abort();
        if (!copy.is_there) memset(copy.to, 0, 16);
        else if ((uintptr_t)copy.from % 16) abort();
        else memcpy(copy.to, copy.from, 16);
    }
    shim_own_copies().clear();
}

template <class T> static T shim_argument(uint64_t bits) {
    if constexpr (std::is_pointer<T>::value) return (T)bits;
    else return (T)(int64_t)bits;
}
template <class... P, size_t... I>
static void shim_call(void (*kernel)(P...), const uint64_t *arguments, std::index_sequence<I...>) {
    kernel(shim_argument<P>(arguments[I])...);
}
template <class... P> static void shim_apply(void (*kernel)(P...), const uint64_t *arguments) {
    shim_call(kernel, arguments, std::index_sequence_for<P...>());
}

#define SHIM(name)                                                                              \
    extern "C" void shim_##name(const uint64_t *arguments, const unsigned *sizes, int backwards) { \
        shim_run([](const uint64_t *given) { shim_apply(&name, given); }, arguments, sizes, backwards); \
    }
