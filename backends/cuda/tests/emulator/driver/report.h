// An emulated CUDA: the calls of the driver API that this project makes, as NVIDIA's documentation of them says, on the processor.
// It is strict. What the documentation refuses with a code is refused with that code and counted; what it leaves undefined, or
// what a device may do otherwise than a caller hopes, ends the process with a message.
//
// This file: how it says so, what it counts, and handles that know whether they are alive.
#pragma once
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

// Numbers of CUresult.
enum Code {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    NO_BINARY_FOR_GPU = 209,
    ILLEGAL_STATE = 401,
    NOT_FOUND = 500,
    NOT_READY = 600,
    LAUNCH_OUT_OF_RESOURCES = 701,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_WRONG_THREAD = 908,
};

// Every process that ended so did what it must not.
static const int MISUSED = 86;

static std::recursive_mutex emulated_lock;
using Guard = std::lock_guard<std::recursive_mutex>;
// Somebody asked for something, which others may wait for.
static std::condition_variable_any asked;

struct Report {
    std::map<std::string, uint64_t> counts;
    std::vector<std::string> lines;
    std::string path;

    void write() {
        if (path.empty()) return;
        FILE *file = fopen(path.c_str(), "a");
        if (!file) return;
        for (const auto &line : lines) fprintf(file, "%s\n", line.c_str());
        for (const auto &[name, count] : counts) fprintf(file, "count %s %llu\n", name.c_str(), (unsigned long long)count);
        fclose(file);
        lines.clear();
        counts.clear();
    }
};

// Never destroyed: other libraries write to it as the process ends.
static Report &report() {
    static Report *known = [] {
        auto *made = new Report;
        if (const char *path = getenv("EMULATED_CUDA_REPORT")) made->path = path;
        return made;
    }();
    return *known;
}

static std::string text(const char *format, ...) __attribute__((format(printf, 1, 2)));
static std::string text(const char *format, ...) {
    char bytes[512];
    va_list list;
    va_start(list, format);
    vsnprintf(bytes, sizeof bytes, format, list);
    va_end(list);
    return bytes;
}

[[noreturn]] static void misuse(const std::string &call, const std::string &what) {
    fprintf(stderr, "emulated CUDA: misuse: %s: %s\n", call.c_str(), what.c_str());
    report().lines.push_back("misuse " + call + ": " + what);
    report().write();
    _exit(MISUSED);
}

static Code refused(const std::string &call, Code code, const std::string &why) {
    report().counts["refused"]++;
    report().lines.push_back(text("refused %s %d: ", call.c_str(), code) + why);
    return code;
}

static void counted(const char *what) { report().counts[what]++; }

static void leaked(const std::string &what) {
    report().counts["leaked"]++;
    report().lines.push_back("leaked " + what);
}

// Handles are numbers that are never given twice, so that a dead one is known.
template <class T> struct Handles {
    const char *kind;
    std::map<uintptr_t, std::shared_ptr<T>> alive;

    template <class H> H add(std::shared_ptr<T> thing) {
        static uintptr_t next = 0x10000;
        next += 16;
        // Kinds do not meet: each has its own place above what is memory.
        const uintptr_t handle = ((uintptr_t)kind[0] << 52) + next;
        alive[handle] = thing;
        return (H)handle;
    }
    std::shared_ptr<T> get(const char *call, const void *handle) {
        auto found = alive.find((uintptr_t)handle);
        if (found == alive.end()) misuse(call, text("%p is no %s that is alive", handle, kind));
        return found->second;
    }
    void remove(const char *call, const void *handle) {
        get(call, handle);
        alive.erase((uintptr_t)handle);
    }
};

static bool is_started;

static int device_of_thread();

// A call that EMULATED_CUDA_FAILS names has no memory: on all devices, or with `NAME@1` on the second one.
static Code begin(const char *call) {
    static const char *given = getenv("EMULATED_CUDA_FAILS");
    if (!is_started) return refused(call, NOT_INITIALIZED, "cuInit was not called");
    const std::string fails = given ? given : "", name = call;
    if (fails == name || fails == name + "@" + std::to_string(device_of_thread())) return refused(call, OUT_OF_MEMORY, "it was told to fail");
    return SUCCESS;
}

#define BEGIN(call)                               \
    Guard guard(emulated_lock);                   \
    if (Code code = begin(call)) return code;

// Whether the host has memory in all of a range.
static bool is_mapped(const void *address, size_t bytes) {
    const uintptr_t page = sysconf(_SC_PAGESIZE), first = (uintptr_t)address / page * page;
    if (!address) return false;
    const size_t length = (uintptr_t)address + bytes - first;
    std::vector<unsigned char> held((length + page - 1) / page + 1);
    return mincore((void *)first, length, held.data()) == 0;
}
