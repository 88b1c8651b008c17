// libcublasLt.so.12: which algorithm there is for a product, and the product.
#include <math.h>
#include <stdlib.h>
#include <mutex>
#include <algorithm>
#include "descriptions.h"

static std::recursive_mutex emulated_lock;
using Guard = std::lock_guard<std::recursive_mutex>;

enum { RELU = 2, BIAS = 4, GELU = 32 };
static const uint64_t MARK = 0x656d756c61746564;
// What an algorithm wants, where it may have it.
static const uint64_t WORKSPACE = 1 << 20;

// As the header of the library has it. The algorithm holds what it was looked for, and fits nothing else: a mark, its workspace, and
// alignments.
struct Found {
    uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

struct Product {
    Operation operation;
    Layout a, b, c, d;
    uint64_t m, n, k;
};

// Why there is no such product; none where there is.
static std::string conflict(const Product &p) {
    for (const Layout *of : {&p.a, &p.b, &p.c, &p.d}) {
        const uint64_t line = of->order == ORDER_COLUMNS ? of->rows : of->columns;
        if (!of->rows || !of->columns) return "a matrix has no elements";
        if (of->leading < 0 || (uint64_t)of->leading < line) return "a leading dimension is below the extent";
        if (of->batch < 1 || of->batch != p.d.batch) return "batches differ, or are none";
        if (of->stride < 0) return "a stride is below 0";
    }
    if (p.b.rows != p.k && p.operation.of_b == OPERATION_N) return "A and B do not meet";
    if (p.operation.of_b != OPERATION_N && p.b.columns != p.k) return "A and B do not meet";
    if (p.d.rows != p.m || p.d.columns != p.n) return "D has another shape";
    if (p.c.rows != p.m || p.c.columns != p.n) return "C has another shape";
    Layout one = p.d;
    one.batch = 1;
    if (p.d.batch > 1 && (uint64_t)p.d.stride < one.elements()) return "matrices of D overlap";
    return "";
}

static bool is_supported(const Product &p) {
    const Operation &of = p.operation;
    const uint32_t type = p.d.type, plain = of.epilogue & ~(uint32_t)(RELU | BIAS | GELU);
    const bool alike = p.a.type == type && p.b.type == type && p.c.type == type;
    const bool known = type == F32 || type == F16 || type == BF16;
    const bool orders = p.a.order <= 1 && p.b.order <= 1 && p.c.order == ORDER_COLUMNS && p.d.order == ORDER_COLUMNS;
    const bool epilogue = of.epilogue == 1 || (!plain && of.epilogue && (of.epilogue & (RELU | GELU)) != (RELU | GELU));
    const bool operations = (unsigned)of.of_a <= 1 && (unsigned)of.of_b <= 1 && of.of_c == OPERATION_N;
    return alike && known && orders && epilogue && operations && of.compute == COMPUTE_32F && of.scale == F32 &&
           of.pointers == 0 && (of.bias_type == -1 || (uint32_t)of.bias_type == type);
}

static Product product_of(const char *call, const void *operation, const void *a, const void *b, const void *c, const void *d) {
    Product p = {operations.get(call, operation), layouts.get(call, a), layouts.get(call, b), layouts.get(call, c), layouts.get(call, d), 0, 0, 0};
    const bool is_turned = p.operation.of_a != OPERATION_N;
    p.m = is_turned ? p.a.columns : p.a.rows;
    p.k = is_turned ? p.a.rows : p.a.columns;
    p.n = p.operation.of_b != OPERATION_N ? p.b.rows : p.b.columns;
    return p;
}

static uint64_t mark_of(const Product &p) {
    uint64_t sum = MARK;
    for (uint64_t part : {p.m, p.n, p.k, (uint64_t)p.d.batch, (uint64_t)p.d.type, (uint64_t)p.operation.epilogue, (uint64_t)p.a.leading, (uint64_t)p.b.leading, (uint64_t)p.d.leading})
        sum = (sum ^ part) * 0x100000001b3;
    return sum;
}

API int cublasLtCreate(void **handle) {
    Guard guard(emulated_lock);
    emulated_need_context("cublasLtCreate");
    static const int registered = atexit([] {
        libraries.leak(), layouts.leak(), operations.leak(), preferences.leak();
    });
    if (registered || !handle) return refused("cublasLtCreate", INVALID_VALUE, "no place for the handle");
    *handle = libraries.add({});
    emulated_count("libraries");
    return SUCCESS;
}

API int cublasLtDestroy(void *handle) {
    Guard guard(emulated_lock);
    libraries.remove("cublasLtDestroy", handle);
    return SUCCESS;
}

// Of products with as many columns as EMULATED_CUBLAS_LACKS says there is no algorithm.
static bool is_lacking(const Product &p) {
    const char *lacks = getenv("EMULATED_CUBLAS_LACKS");
    return lacks && strtoull(lacks, nullptr, 10) == p.n;
}

API int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c, void *d, void *preference,
                                       int wanted, Found *found, int *count) {
    static const char *call = "cublasLtMatmulAlgoGetHeuristic";
    Guard guard(emulated_lock);
    libraries.get(call, handle);
    const Product p = product_of(call, operation, a, b, c, d);
    const Preference &wish = preferences.get(call, preference);
    if (wanted < 1 || !found || !count) return refused(call, INVALID_VALUE, "no place for what is found");
    *count = 0;
    const std::string why = conflict(p);
    if (!why.empty()) return refused(call, INVALID_VALUE, why);
    if (!is_supported(p)) return refused(call, NOT_SUPPORTED, "types, orders, operations or an epilogue");
    for (uint32_t alignment : wish.alignments)
        if (!alignment || alignment & (alignment - 1)) return refused(call, INVALID_VALUE, "an alignment is no power of two");
    emulated_count("heuristics");
    if (is_lacking(p)) return SUCCESS;
    *found = {};
    found->workspace = wish.workspace >= WORKSPACE ? WORKSPACE : 0;
    found->waves = 1;
    found->algorithm[0] = mark_of(p);
    found->algorithm[1] = found->workspace;
    for (unsigned at = 0; at < 4; at++) found->algorithm[2 + at] = wish.alignments[at];
    *count = 1;
    return SUCCESS;
}

// x (1 + tanh(y)) / 2, as a quotient that loses nothing where the tangent is nearly -1.
static float gelu(float value) {
    const double x = value, y = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
    return (float)(x / (1 + exp(-2 * y)));
}

static float finished(const Operation &of, float value, float bias) {
    if (of.epilogue & BIAS) value += bias;
    if (of.epilogue & RELU) value = value < 0 ? 0 : value;
    if (of.epilogue & GELU) value = gelu(value);
    return value;
}

struct Addresses {
    uint64_t a, b, c, d;
};

static void multiply(const Product &p, Addresses at, float alpha, float beta) {
    const Operation &of = p.operation;
    const bool turns_a = of.of_a != OPERATION_N, turns_b = of.of_b != OPERATION_N;
    std::vector<float> sums(p.m);
    for (int32_t batch = 0; batch < p.d.batch; batch++) {
        const int64_t in_a = batch * p.a.stride, in_b = batch * p.b.stride, in_c = batch * p.c.stride, in_d = batch * p.d.stride;
        for (uint64_t j = 0; j < p.n; j++) {
            std::fill(sums.begin(), sums.end(), 0.0f);
            for (uint64_t k = 0; k < p.k; k++) {
                const float right = load(p.b.type, at.b, in_b + (turns_b ? p.b.at(j, k) : p.b.at(k, j)));
                for (uint64_t i = 0; i < p.m; i++)
                    sums[i] += load(p.a.type, at.a, in_a + (turns_a ? p.a.at(k, i) : p.a.at(i, k))) * right;
            }
            for (uint64_t i = 0; i < p.m; i++) {
                float value = alpha * sums[i];
                if (beta != 0) value += beta * load(p.c.type, at.c, in_c + p.c.at(i, j));
                const float bias = of.epilogue & BIAS ? load(p.d.type, of.bias, batch * of.bias_stride + i) : 0;
                store(p.d.type, at.d, in_d + p.d.at(i, j), finished(of, value, bias));
            }
        }
    }
}

static bool meet(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) { return a < b + b_bytes && b < a + a_bytes; }

// What a product reads and writes lies in memory of the device, and apart where it must.
static void look_at_memory(const char *call, const Product &p, Addresses at, bool reads_c, uint64_t workspace, size_t bytes) {
    const size_t size = size_of(p.d.type), of_d = p.d.elements() * size;
    emulated_need_range(call, "A", at.a, p.a.elements() * size);
    emulated_need_range(call, "B", at.b, p.b.elements() * size);
    if (reads_c) emulated_need_range(call, "C", at.c, p.c.elements() * size);
    emulated_need_range(call, "D", at.d, of_d);
    if (meet(at.a, p.a.elements() * size, at.d, of_d) || meet(at.b, p.b.elements() * size, at.d, of_d)) misuse(call, "D overlaps A or B");
    if (at.c == at.d && !(p.c == p.d)) misuse(call, "C is D with another layout");
    if (p.operation.epilogue & BIAS) {
        const uint64_t elements = (p.d.batch - 1) * p.operation.bias_stride + p.m;
        emulated_need_range(call, "bias", p.operation.bias, elements * size);
        if (p.operation.bias % 16) misuse(call, "the bias is not aligned to 16 bytes");
    }
    if (!bytes) return;
    emulated_need_range(call, "workspace", workspace, bytes);
    if (workspace % 256) misuse(call, "the workspace is not aligned to 256 bytes");
    if (meet(workspace, bytes, at.d, of_d)) misuse(call, "the workspace overlaps D");
}

API int cublasLtMatmul(void *handle, void *operation, const float *alpha, uint64_t a, void *of_a, uint64_t b, void *of_b, const float *beta,
                       uint64_t c, void *of_c, uint64_t d, void *of_d, const uint64_t *algorithm, uint64_t workspace, size_t bytes, void *stream) {
    static const char *call = "cublasLtMatmul";
    Guard guard(emulated_lock);
    emulated_need_context(call);
    libraries.get(call, handle);
    const Product p = product_of(call, operation, of_a, of_b, of_c, of_d);
    const std::string why = conflict(p);
    if (!why.empty()) return refused(call, INVALID_VALUE, why);
    if (!is_supported(p)) return refused(call, NOT_SUPPORTED, "types, orders, operations or an epilogue");
    emulated_need_host(call, alpha, 4), emulated_need_host(call, beta, 4);
    if (!algorithm) misuse(call, "without an algorithm it looks for one each time, which is not emulated");
    if (algorithm[0] != mark_of(p)) misuse(call, "the algorithm was found for another product");
    if (bytes < algorithm[1]) return refused(call, INVALID_VALUE, "the algorithm wants more workspace");
    const uint64_t addresses[4] = {a, b, c, d};
    for (unsigned at = 0; at < 4; at++)
        if (addresses[at] % algorithm[2 + at]) misuse(call, "a matrix is not aligned as the algorithm was told");
    if ((p.operation.epilogue & BIAS) && !p.operation.bias) return refused(call, INVALID_VALUE, "there is no bias");
    const Addresses at = {a, b, c, d};
    // The host's factors are read now.
    const float one = *alpha, other = *beta;
    const size_t used = algorithm[1];
    look_at_memory(call, p, at, other != 0, workspace, bytes);
    const std::function<void()> work = [=] {
        look_at_memory(call, p, at, other != 0, workspace, used);
        // Whatever was there, it is the algorithm's.
        memset((void *)workspace, 0x5a, used);
        multiply(p, at, one, other);
    };
    emulated_count("products");
    return emulated_enqueue(call, stream, &work) ? refused(call, EXECUTION_FAILED, "the stream") : SUCCESS;
}
