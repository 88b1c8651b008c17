// libcuda.so.1: the device and its context, and what other libraries of NVIDIA's ask the driver for.
#include "report.h"
#include "memory.h"
#include "streams.h"
#include "graphs.h"
#include "modules.h"

// With the context goes what is left in it, which somebody forgot.
static void end_context() {
    for (const auto &[address, of] : allocations) leaked(text("%zu bytes of memory", of.bytes));
    for (const auto &[_, stream] : streams.alive) leaked(text("a stream with %zu works", stream->waiting.size()));
    for (size_t at = 0; at < modules.alive.size(); at++) leaked("a module");
    for (const auto &[_, bytes] : pinned) leaked(text("%zu bytes of pinned memory", bytes));
    for (size_t at = 0; at < moments.alive.size(); at++) leaked("an event");
    while (!allocations.empty()) release("cuDevicePrimaryCtxRelease", allocations.begin()->first);
    streams.alive.clear();
    functions.alive.clear();
    moments.alive.clear();
    modules.alive.clear();
    primary = 0;
    primary_context = nullptr;
}

// At the end of the process: what is left is told.
static void at_the_end() {
    Guard guard(emulated_lock);
    if (primary) {
        leaked("a context");
        end_context();
    }
    for (size_t at = 0; at < graphs.alive.size(); at++) leaked("a graph");
    for (size_t at = 0; at < executables.alive.size(); at++) leaked("an executable graph");
    report().write();
}

static bool has_device() {
    const char *count = getenv("EMULATED_CUDA_DEVICES");
    return !count || strcmp(count, "0");
}

API int cuInit(unsigned flags) {
    Guard guard(emulated_lock);
    static const int registered = atexit(at_the_end);
    if (registered || flags) return refused("cuInit", INVALID_VALUE, "flags");
    if (!has_device()) return refused("cuInit", NO_DEVICE, "there is none");
    if (!is_started) start_memory();
    is_started = true;
    return SUCCESS;
}

// The words for a number are its digits here.
API int cuGetErrorString(int code, const char **words) {
    static std::map<int, std::string> all;
    Guard guard(emulated_lock);
    *words = all.try_emplace(code, text("emulated error %d", code)).first->second.c_str();
    return SUCCESS;
}
API int cuGetErrorName(int code, const char **words) { return cuGetErrorString(code, words); }

API int cuDriverGetVersion(int *version) {
    if (!version) return INVALID_VALUE;
    *version = 12040;
    return SUCCESS;
}

API int cuDeviceGetCount(int *count) {
    BEGIN("cuDeviceGetCount");
    *count = 1;
    return SUCCESS;
}

API int cuDeviceGet(int *device, int ordinal) {
    BEGIN("cuDeviceGet");
    if (ordinal) return refused("cuDeviceGet", INVALID_DEVICE, "there is one device");
    *device = 0;
    return SUCCESS;
}

API int cuDeviceGetName(char *name, int length, int device) {
    BEGIN("cuDeviceGetName");
    if (device || length < 1) return refused("cuDeviceGetName", INVALID_DEVICE, "there is one device");
    snprintf(name, length, "Emulated CUDA device");
    return SUCCESS;
}

API int cuDeviceGetAttribute(int *value, int attribute, int device) {
    BEGIN("cuDeviceGetAttribute");
    if (device) return refused("cuDeviceGetAttribute", INVALID_DEVICE, "there is one device");
    // COMPUTE_CAPABILITY_MAJOR and _MINOR.
    if (attribute != 75 && attribute != 76) misuse("cuDeviceGetAttribute", text("attribute %d is not emulated", attribute));
    *value = attribute == 75 ? 9 : 0;
    return SUCCESS;
}

API int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    BEGIN("cuDeviceTotalMem");
    if (device) return refused("cuDeviceTotalMem", INVALID_DEVICE, "there is one device");
    *bytes = memory_of_device();
    return SUCCESS;
}

API int cuDevicePrimaryCtxRetain(void **context, int device) {
    BEGIN("cuDevicePrimaryCtxRetain");
    if (device || !context) return refused("cuDevicePrimaryCtxRetain", INVALID_DEVICE, "there is one device");
    static uintptr_t next = (uintptr_t)0xc0 << 48;
    if (!primary) {
        primary = next += 16;
        primary_context = std::make_shared<Context>();
        counted("contexts");
    }
    primary_context->retained++;
    *context = (void *)primary;
    return SUCCESS;
}

API int cuDevicePrimaryCtxRelease_v2(int device) {
    BEGIN("cuDevicePrimaryCtxRelease");
    if (device) return refused("cuDevicePrimaryCtxRelease", INVALID_DEVICE, "there is one device");
    if (!primary) misuse("cuDevicePrimaryCtxRelease", "the context is not retained");
    if (--primary_context->retained) return SUCCESS;
    drain(primary_context->orphans);
    end_context();
    return SUCCESS;
}

API int cuCtxSetCurrent(void *context) {
    BEGIN("cuCtxSetCurrent");
    if (context && (uintptr_t)context != primary) misuse("cuCtxSetCurrent", "the context was released, or is none");
    current = (uintptr_t)context;
    return SUCCESS;
}

// For libraries that put work on streams.
API void emulated_misuse(const char *call, const char *what) { misuse(call, what); }
API void emulated_count(const char *what) { Guard guard(emulated_lock); counted(what); }
API void emulated_leak(const char *what) { Guard guard(emulated_lock); leaked(what); }
API void emulated_refused(const char *call, int code, const char *why) { Guard guard(emulated_lock); refused(call, (Code)code, why); }
API void emulated_need_context(const char *call) { Guard guard(emulated_lock); need_context(call); }
API void emulated_need_range(const char *call, const char *what, uint64_t address, size_t bytes) {
    Guard guard(emulated_lock);
    need_range(call, what, address, bytes);
}
API void emulated_need_host(const char *call, const void *address, size_t bytes) {
    Guard guard(emulated_lock);
    need_host(call, address, bytes);
}
API int emulated_enqueue(const char *call, const void *stream, const std::function<void()> *work) {
    Guard guard(emulated_lock);
    return enqueue(call, stream, {call, *work});
}
