// Descriptions of matrices, of products and of what an algorithm may use.
#pragma once
#include "numbers.h"

struct Layout {
    uint32_t type;
    int32_t order = ORDER_COLUMNS;
    uint64_t rows, columns;
    int64_t leading;
    int32_t batch = 1;
    int64_t stride = 0;

    // Elements from its first to its last, of all matrices of a batch.
    uint64_t elements() const {
        const uint64_t lines = order == ORDER_COLUMNS ? columns : rows, line = order == ORDER_COLUMNS ? rows : columns;
        return (batch - 1) * stride + (lines - 1) * leading + line;
    }
    int64_t at(int64_t row, int64_t column) const {
        return order == ORDER_COLUMNS ? row + column * leading : row * leading + column;
    }
    bool operator==(const Layout &other) const { return !memcmp(this, &other, sizeof *this); }
    Attribute attribute(int which);
};

struct Operation {
    int32_t compute, scale, pointers = 0, of_a = OPERATION_N, of_b = OPERATION_N, of_c = OPERATION_N;
    uint32_t epilogue = 1;
    uint64_t bias = 0;
    int64_t bias_stride = 0;
    int32_t bias_type = -1;
    Attribute attribute(int which);
};

struct Preference {
    uint32_t search = 0, reduction = 7, alignments[4] = {256, 256, 256, 256};
    uint64_t workspace = 0, implementations = ~0ull;
    float waves = 0;
    Attribute attribute(int which);
};

struct Library {};

static Handles<Library> libraries = {"library of products", {}};
static Handles<Layout> layouts = {"matrix layout", {}};
static Handles<Operation> operations = {"operation", {}};
static Handles<Preference> preferences = {"preference", {}};

Attribute Layout::attribute(int which) {
    switch (which) {
    case 0: return {&type, 4};
    case 1: return {&order, 4};
    case 2: return {&rows, 8};
    case 3: return {&columns, 8};
    case 4: return {&leading, 8};
    case 5: return {&batch, 4};
    case 6: return {&stride, 8};
    default: return {};
    }
}

Attribute Operation::attribute(int which) {
    switch (which) {
    case 0: return {&compute, 4};
    case 1: return {&scale, 4};
    case 2: return {&pointers, 4};
    case 3: return {&of_a, 4};
    case 4: return {&of_b, 4};
    case 5: return {&of_c, 4};
    case 7: return {&epilogue, 4};
    case 8: return {&bias, 8};
    case 10: return {&bias_stride, 8};
    case 26: return {&bias_type, 4};
    default: return {};
    }
}

Attribute Preference::attribute(int which) {
    switch (which) {
    case 0: return {&search, 4};
    case 1: return {&workspace, 8};
    case 3: return {&reduction, 4};
    case 5: case 6: case 7: case 8: return {&alignments[which - 5], 4};
    case 9: return {&waves, 4};
    case 12: return {&implementations, 8};
    default: return {};
    }
}

API int cublasLtMatrixLayoutCreate(void **layout, unsigned type, uint64_t rows, uint64_t columns, int64_t leading) {
    Layout made;
    memset((void *)&made, 0, sizeof made);
    made.type = type, made.rows = rows, made.columns = columns, made.leading = leading, made.batch = 1;
    if (type > 29) misuse("cublasLtMatrixLayoutCreate", "there is no such type");
    *layout = layouts.add(made);
    return SUCCESS;
}
API int cublasLtMatrixLayoutDestroy(void *layout) {
    layouts.remove("cublasLtMatrixLayoutDestroy", layout);
    return SUCCESS;
}
API int cublasLtMatrixLayoutSetAttribute(void *layout, int which, const void *value, size_t bytes) {
    static const char *call = "cublasLtMatrixLayoutSetAttribute";
    return set_attribute(call, layouts.get(call, layout).attribute(which), value, bytes);
}

API int cublasLtMatmulDescCreate(void **operation, int compute, int scale) {
    Operation made;
    made.compute = compute, made.scale = scale;
    if (compute < 64 || compute > 77 || scale > 29) misuse("cublasLtMatmulDescCreate", "there is no such type");
    *operation = operations.add(made);
    return SUCCESS;
}
API int cublasLtMatmulDescDestroy(void *operation) {
    operations.remove("cublasLtMatmulDescDestroy", operation);
    return SUCCESS;
}
API int cublasLtMatmulDescSetAttribute(void *operation, int which, const void *value, size_t bytes) {
    static const char *call = "cublasLtMatmulDescSetAttribute";
    return set_attribute(call, operations.get(call, operation).attribute(which), value, bytes);
}

API int cublasLtMatmulPreferenceCreate(void **preference) {
    *preference = preferences.add({});
    return SUCCESS;
}
API int cublasLtMatmulPreferenceDestroy(void *preference) {
    preferences.remove("cublasLtMatmulPreferenceDestroy", preference);
    return SUCCESS;
}
API int cublasLtMatmulPreferenceSetAttribute(void *preference, int which, const void *value, size_t bytes) {
    static const char *call = "cublasLtMatmulPreferenceSetAttribute";
    return set_attribute(call, preferences.get(call, preference).attribute(which), value, bytes);
}
