// An emulated NCCL, as its documentation says. This file: numbers of its enums, reductions, and what the driver does for it.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>
#include "../bf16.h"

#define API extern "C" __attribute__((visibility("default")))

enum Result { SUCCESS = 0, UNHANDLED = 1, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, IN_PROGRESS = 7 };
enum Kind { SEND, RECEIVE, ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER };
enum Type { I8, U8, I32, U32, I64, U64, F16, F32, F64, BF16 };
enum Reduction { SUM = 0, MAX = 2, MIN = 3 };

struct UniqueId {
    char bytes[128];
};

struct Config {
    size_t size;
    unsigned magic, version;
    int is_blocking;
};

// The driver's.
extern "C" {
[[noreturn]] void emulated_misuse(const char *call, const char *what);
void emulated_count(const char *what);
void emulated_leak(const char *what);
void emulated_refused(const char *call, int code, const char *why);
void emulated_need_context(const char *call);
void emulated_need_host(const char *call, const void *address, size_t bytes);
void emulated_need_range_on(int device, const char *call, const char *what, uint64_t address, size_t bytes);
int emulated_device();
int emulated_enqueue_meeting(const char *call, const void *stream, const void *mark, const std::function<bool()> *meets);
bool emulated_is_at(const void *stream, const void *mark);
void emulated_done(const void *stream);
void emulated_open(const int *device, size_t count, const std::function<void()> *work);
void emulated_lock_all();
void emulated_unlock_all();
}

[[noreturn]] static void misuse(const char *call, const std::string &what) { emulated_misuse(call, what.c_str()); }

static Result refused(const char *call, Result code, const std::string &why) {
    emulated_refused(call, code, why.c_str());
    return code;
}

static size_t size_of(int type) {
    static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return type >= 0 && type <= BF16 ? sizes[type] : 0;
}

// In the order of the sources. Maxima and minima pass NaN over.
template <class T, class W> static void reduce_as(int reduction, const std::vector<uint64_t> &sources, size_t count, char *result, W (*load)(T), T (*store)(W)) {
    for (size_t at = 0; at < count; at++) {
        W value = load(((const T *)sources[0])[at]);
        for (size_t rank = 1; rank < sources.size(); rank++) {
            const W other = load(((const T *)sources[rank])[at]);
            if (reduction == SUM) value = load(store(value + other));
            else if (value != value) value = other;
            else if (reduction == MAX ? other > value : other < value) value = other;
        }
        const T stored = store(value);
        memcpy(result + at * sizeof(T), &stored, sizeof(T));
    }
}

template <class T, class W> static W widened(T value) { return (W)value; }
template <class T, class W> static T narrowed(W value) { return (T)value; }

static void reduce(int type, int reduction, const std::vector<uint64_t> &sources, size_t count, char *result) {
    if (reduction != SUM && reduction != MAX && reduction != MIN) misuse("NCCL", "a reduction that is not emulated");
    const auto as = [&](auto value, auto wide) {
        using T = decltype(value);
        using W = decltype(wide);
        reduce_as<T, W>(reduction, sources, count, result, widened<T, W>, narrowed<T, W>);
    };
    // Sums of integers wrap, also signed ones.
    const bool wraps = reduction == SUM;
    switch (type) {
    case I8: return wraps ? as(uint8_t(), uint64_t()) : as(int8_t(), int64_t());
    case U8: return as(uint8_t(), uint64_t());
    case I32: return wraps ? as(uint32_t(), uint64_t()) : as(int32_t(), int64_t());
    case U32: return as(uint32_t(), uint64_t());
    case I64: return wraps ? as(uint64_t(), uint64_t()) : as(int64_t(), int64_t());
    case U64: return as(uint64_t(), uint64_t());
    case F16: return as(_Float16(), float());
    case F32: return as(float(), float());
    case F64: return as(double(), double());
    default: return reduce_as<uint16_t, float>(reduction, sources, count, result, of_bf16, to_bf16);
    }
}
