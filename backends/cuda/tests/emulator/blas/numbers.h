// An emulated cuBLASLt, as its documentation says. This file: numbers of its enums, and what the driver does for it.
#pragma once
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <functional>
#include <map>
#include <mutex>
#include <memory>
#include <string>
#include <vector>
#include "../bf16.h"

#define API extern "C" __attribute__((visibility("default")))

enum Status { SUCCESS = 0, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum Type { F32 = 0, F16 = 2, BF16 = 14 };
enum { COMPUTE_32F = 68 };
enum { OPERATION_N = 0, OPERATION_T = 1 };
enum { ORDER_COLUMNS = 0, ORDER_ROWS = 1 };

// The driver's.
extern "C" {
[[noreturn]] void emulated_misuse(const char *call, const char *what);
void emulated_count(const char *what);
void emulated_leak(const char *what);
void emulated_refused(const char *call, int code, const char *why);
void emulated_need_context(const char *call);
void emulated_need_range(const char *call, const char *what, uint64_t address, size_t bytes);
void emulated_need_host(const char *call, const void *address, size_t bytes);
int emulated_enqueue(const char *call, const void *stream, const std::function<void()> *work);
}

[[noreturn]] static void misuse(const char *call, const std::string &what) { emulated_misuse(call, what.c_str()); }

static Status refused(const char *call, Status status, const std::string &why) {
    emulated_refused(call, status, why.c_str());
    return status;
}

// Handles are numbers that are never given twice. Several threads have some.
template <class T> struct Handles {
    const char *kind;
    std::map<uintptr_t, std::shared_ptr<T>> alive;
    uintptr_t next = 0;
    std::recursive_mutex lock{};
    using Guard = std::lock_guard<std::recursive_mutex>;

    void *add(const T &thing) {
        Guard guard(lock);
        const uintptr_t handle = ((uintptr_t)kind[0] << 52) + (next += 16);
        alive[handle] = std::make_shared<T>(thing);
        return (void *)handle;
    }
    T &get(const char *call, const void *handle) {
        Guard guard(lock);
        auto found = alive.find((uintptr_t)handle);
        if (found == alive.end()) misuse(call, std::string("a handle is no ") + kind + " that is alive");
        return *found->second;
    }
    void remove(const char *call, const void *handle) {
        Guard guard(lock);
        get(call, handle);
        alive.erase((uintptr_t)handle);
    }
    void leak() {
        for (size_t at = 0; at < alive.size(); at++) emulated_leak(kind);
    }
};

// An attribute: where its value is kept, and how many bytes it has.
struct Attribute {
    void *value;
    size_t bytes;
};

static Status set_attribute(const char *call, Attribute of, const void *value, size_t bytes) {
    if (!of.value) misuse(call, "the attribute is none, or not emulated");
    if (bytes != of.bytes) misuse(call, "the attribute has " + std::to_string(of.bytes) + " bytes, not " + std::to_string(bytes));
    emulated_need_host(call, value, bytes);
    memcpy(of.value, value, bytes);
    return SUCCESS;
}

static size_t size_of(int32_t type) { return type == F32 ? 4 : 2; }

static float of_f16(uint16_t bits) {
    const int exponent = bits >> 10 & 31, digits = bits & 1023;
    float size = __builtin_ldexpf(digits + (exponent ? 1024 : 0), (exponent ? exponent : 1) - 25);
    if (exponent == 31) size = digits ? __builtin_nanf("") : __builtin_inff();
    return bits >> 15 ? -size : size;
}

// The nearest, of two the even one.
static uint16_t to_f16(float value) {
    const uint16_t sign = __builtin_signbit(value) ? 0x8000 : 0;
    const float size = __builtin_fabsf(value);
    if (value != value) return sign | 0x7e00;
    if (size == 0) return sign;
    if (size >= 65520) return sign | 0x7c00;
    int exponent = 0;
    __builtin_frexpf(size, &exponent);
    // Of the last digit.
    const int unit = (exponent < -13 ? -13 : exponent) - 11;
    const double digits = __builtin_rint(__builtin_ldexp(size, -unit));
    // What is rounded up to the next power of two carries into the exponent.
    return sign | (uint16_t)(digits + (unit + 24) * 1024);
}

static float load(int32_t type, uint64_t address, int64_t at) {
    if (type == F32) return ((const float *)address)[at];
    const uint16_t bits = ((const uint16_t *)address)[at];
    return type == F16 ? of_f16(bits) : of_bf16(bits);
}

static void store(int32_t type, uint64_t address, int64_t at, float value) {
    if (type == F32) ((float *)address)[at] = value;
    else ((uint16_t *)address)[at] = type == F16 ? to_f16(value) : to_bf16(value);
}
