// libcuda.so.1: the device and its context, and what other libraries of NVIDIA's ask the driver for.
#include "report.h"
#include "memory.h"
#include "streams.h"
#include "graphs.h"
#include "modules.h"

// With the context goes what is left in it, which somebody forgot.
static void end_context(uintptr_t handle) {
    const int device = contexts.at(handle)->device;
    const auto of = [&](uintptr_t context) { return context == handle; };
    for (const auto &[_, allocation] : allocations) if (allocation.device == device) leaked(text("%zu bytes of memory", allocation.bytes));
    for (const auto &[_, stream] : streams.alive) if (of(stream->context)) leaked(text("a stream with %zu works", stream->waiting.size()));
    for (const auto &[_, module] : modules.alive) if (of(module->context)) leaked("a module");
    for (const auto &[_, memory] : pinned) if (of(memory.context)) leaked(text("%zu bytes of pinned memory", memory.bytes));
    for (const auto &[_, moment] : moments.alive) if (of(moment->context)) leaked("an event");
    const int before = std::exchange(working, device);
    for (auto at = allocations.begin(); at != allocations.end();) {
        const auto allocation = at++->second;
        if (allocation.device == device) release("cuDevicePrimaryCtxRelease", allocation.address);
    }
    working = before;
    const auto drop = [&](auto &alive) {
        for (auto at = alive.begin(); at != alive.end();) at = of(at->second->context) ? alive.erase(at) : std::next(at);
    };
    drop(streams.alive), drop(moments.alive), drop(modules.alive);
    contexts.erase(handle);
}

// At the end of the process: what is left is told.
static void at_the_end() {
    Guard guard(emulated_lock);
    while (!contexts.empty()) {
        leaked("a context");
        end_context(contexts.begin()->first);
    }
    for (size_t at = 0; at < graphs.alive.size(); at++) leaked("a graph");
    for (size_t at = 0; at < executables.alive.size(); at++) leaked("an executable graph");
    report().write();
}

// One, unless EMULATED_CUDA_DEVICES says how many.
static int device_count() {
    const char *count = getenv("EMULATED_CUDA_DEVICES");
    return count ? atoi(count) : 1;
}

API int cuInit(unsigned flags) {
    Guard guard(emulated_lock);
    static const int registered = atexit(at_the_end);
    if (registered || flags) return refused("cuInit", INVALID_VALUE, "flags");
    if (!device_count()) return refused("cuInit", NO_DEVICE, "there is none");
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
    *count = device_count();
    return SUCCESS;
}

static bool is_device(int ordinal) { return ordinal >= 0 && ordinal < device_count(); }

API int cuDeviceGet(int *device, int ordinal) {
    BEGIN("cuDeviceGet");
    if (!is_device(ordinal)) return refused("cuDeviceGet", INVALID_DEVICE, "there are fewer devices");
    *device = ordinal;
    return SUCCESS;
}

API int cuDeviceGetName(char *name, int length, int device) {
    BEGIN("cuDeviceGetName");
    if (!is_device(device) || length < 1) return refused("cuDeviceGetName", INVALID_DEVICE, "there are fewer devices");
    snprintf(name, length, "Emulated CUDA device");
    return SUCCESS;
}

API int cuDeviceGetAttribute(int *value, int attribute, int device) {
    BEGIN("cuDeviceGetAttribute");
    if (!is_device(device)) return refused("cuDeviceGetAttribute", INVALID_DEVICE, "there are fewer devices");
    // COMPUTE_CAPABILITY_MAJOR and _MINOR.
    if (attribute != 75 && attribute != 76) misuse("cuDeviceGetAttribute", text("attribute %d is not emulated", attribute));
    *value = attribute == 75 ? 9 : 0;
    return SUCCESS;
}

API int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    BEGIN("cuDeviceTotalMem");
    if (!is_device(device)) return refused("cuDeviceTotalMem", INVALID_DEVICE, "there are fewer devices");
    *bytes = memory_of_device();
    return SUCCESS;
}

// That of a device; none where nobody has retained it.
static uintptr_t context_of(int device) {
    for (const auto &[handle, context] : contexts) if (context->device == device) return handle;
    return 0;
}

API int cuDevicePrimaryCtxRetain(void **context, int device) {
    BEGIN("cuDevicePrimaryCtxRetain");
    if (!is_device(device) || !context) return refused("cuDevicePrimaryCtxRetain", INVALID_DEVICE, "there are fewer devices");
    static uintptr_t next = (uintptr_t)0xc0 << 48;
    uintptr_t known = context_of(device);
    if (!known) {
        known = next += 16;
        contexts[known] = std::make_shared<Context>();
        contexts[known]->device = device;
        counted("contexts");
    }
    contexts[known]->retained++;
    *context = (void *)known;
    return SUCCESS;
}

API int cuDevicePrimaryCtxRelease_v2(int device) {
    BEGIN("cuDevicePrimaryCtxRelease");
    if (!is_device(device)) return refused("cuDevicePrimaryCtxRelease", INVALID_DEVICE, "there are fewer devices");
    const uintptr_t known = context_of(device);
    if (!known) misuse("cuDevicePrimaryCtxRelease", "the context is not retained");
    auto context = contexts[known];
    if (--context->retained) return SUCCESS;
    drain_orphans(*context);
    end_context(known);
    return SUCCESS;
}

API int cuCtxSetCurrent(void *context) {
    BEGIN("cuCtxSetCurrent");
    if (context && !contexts.count((uintptr_t)context)) misuse("cuCtxSetCurrent", "the context was released, or is none");
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
API int emulated_device() { Guard guard(emulated_lock); return device_of_thread(); }
API void emulated_need_range_on(int device, const char *call, const char *what, uint64_t address, size_t bytes) {
    Guard guard(emulated_lock);
    const int before = std::exchange(working, device);
    need_range(call, what, address, bytes);
    working = before;
}
// Several streams come to it: `meets` does it.
API int emulated_enqueue_meeting(const char *call, const void *stream, const void *mark, const std::function<bool()> *meets) {
    Guard guard(emulated_lock);
    return enqueue(call, stream, {call, [] {}, mark, *meets});
}
// Brings a stream to a mark; the lock is held by whoever asks.
API bool emulated_is_at(const void *stream, const void *mark) {
    auto found = streams.alive.find((uintptr_t)stream);
    return found != streams.alive.end() && advance(*found->second, mark);
}
API void emulated_done(const void *stream) {
    streams.alive.at((uintptr_t)stream)->waiting.pop_front();
    asked.notify_all();
}
// Does something with the memory of some devices.
API void emulated_open(const int *device, size_t count, const std::function<void()> *work) {
    if (!count) return (*work)();
    Open open(*device);
    emulated_open(device + 1, count - 1, work);
}
API void emulated_lock_all() { emulated_lock.lock(); }
API void emulated_unlock_all() { emulated_lock.unlock(); }
API int emulated_enqueue(const char *call, const void *stream, const std::function<void()> *work) {
    Guard guard(emulated_lock);
    return enqueue(call, stream, {call, *work});
}
