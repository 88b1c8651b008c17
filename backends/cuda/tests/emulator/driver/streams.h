// Streams: what is asked for is done as late as may be, when somebody waits for it. While a stream records, it is noted for a graph.
#pragma once
#include <chrono>
#include <utility>
#include "memory.h"

// Something to be done, which may be done often. What other streams take part in has a mark: `meets` does it on all of them and takes it
// from each, or says that not all are there.
struct Work {
    std::string name;
    std::function<void()> run;
    const void *mark = nullptr;
    std::function<bool()> meets = nullptr;
};

enum class Recording { NO, YES, SPOILT };

struct Stream {
    uintptr_t context;
    int device;
    std::deque<Work> waiting;
    bool advances = false;
    Recording recording = Recording::NO;
    unsigned mode = 0;
    pthread_t thread = {};
    std::vector<Work> recorded;
};

enum Mode { GLOBAL = 0, THREAD_LOCAL = 1, RELAXED = 2 };

// The first one of a device.
struct Context {
    int device;
    unsigned retained = 0;
    // Of streams that are gone, to be done yet.
    std::deque<Work> orphans;
};

static Handles<Stream> streams = {"stream", {}};
// By handle.
static std::map<uintptr_t, std::shared_ptr<Context>> contexts;
static thread_local uintptr_t current;

static int device_of_thread() {
    auto found = contexts.find(current);
    return found == contexts.end() ? -1 : found->second->device;
}

// The calling thread has a context.
static std::shared_ptr<Context> need_context(const char *call) {
    if (!current) misuse(call, "the thread has no current context");
    auto found = contexts.find(current);
    if (found == contexts.end()) misuse(call, "the current context was released");
    return found->second;
}

static std::shared_ptr<Stream> stream_of(const char *call, const void *handle) {
    if ((uintptr_t)handle <= 2) misuse(call, "the default streams are not emulated: a stream of one's own is wanted");
    auto stream = streams.get(call, handle);
    if (!contexts.count(stream->context)) misuse(call, "the stream is of a context that was released");
    return stream;
}

static void look_around(int device) {
    Open open(device);
    for (const auto &[_, of] : allocations) if (of.device == device) look_around(of);
}

static void work_on(int device, const Work &work) {
    Open open(device);
    const int before = std::exchange(working, device);
    doing = work.name;
    work.run();
    working = before;
    doing = "nothing";
}

// Does what waits on a stream, up to what others have to come to, or up to a mark; whether it got there.
static bool advance(Stream &stream, const void *mark) {
    const auto is_there = [&] { return mark ? !stream.waiting.empty() && stream.waiting.front().mark == mark : stream.waiting.empty(); };
    if (stream.advances) return is_there();
    stream.advances = true;
    while (!stream.waiting.empty() && !is_there()) {
        if (stream.waiting.front().meets) {
            const auto meets = stream.waiting.front().meets;
            if (!meets()) break;
            continue;
        }
        const Work work = stream.waiting.front();
        stream.waiting.pop_front();
        work_on(stream.device, work);
    }
    stream.advances = false;
    return is_there();
}

// How long somebody waits for others that do not come.
static const std::chrono::seconds PATIENCE(20);

// Waits until all of a stream is done.
static void drain(Stream &stream) {
    const auto end = std::chrono::steady_clock::now() + PATIENCE;
    while (!advance(stream, nullptr)) {
        asked.wait_until(emulated_lock, end);
        if (std::chrono::steady_clock::now() > end && !advance(stream, nullptr)) misuse(stream.waiting.front().name, "others do not come to it");
    }
    look_around(stream.device);
}

static void drain_orphans(Context &of) {
    while (!of.orphans.empty()) {
        const Work work = of.orphans.front();
        of.orphans.pop_front();
        if (work.meets) misuse(work.name, "its stream was destroyed before others came to it");
        work_on(of.device, work);
    }
    look_around(of.device);
}

// A call that no recording sees, and that may wait: recordings of this thread are spoilt by it.
static Code unsafe(const char *call) {
    bool some = false;
    for (auto &[_, stream] : streams.alive) {
        if (stream->recording == Recording::NO || stream->mode == RELAXED) continue;
        if (stream->mode == THREAD_LOCAL && !pthread_equal(stream->thread, pthread_self())) continue;
        stream->recording = Recording::SPOILT;
        some = true;
    }
    return some ? refused(call, CAPTURE_UNSUPPORTED, "a stream records") : SUCCESS;
}

static Code enqueue(const char *call, const void *handle, Work work) {
    auto stream = stream_of(call, handle);
    if (stream->context != current) misuse(call, text("the stream is of device %d, and the current context is not", stream->device));
    asked.notify_all();
    if (stream->recording == Recording::SPOILT) return refused(call, CAPTURE_INVALIDATED, "the recording is spoilt");
    if (stream->recording == Recording::YES && work.meets) misuse(call, "collectives are not recorded here");
    if (stream->recording == Recording::YES) stream->recorded.push_back(work);
    else stream->waiting.push_back(work);
    return SUCCESS;
}

API int cuStreamCreate(void **handle, unsigned flags) {
    BEGIN("cuStreamCreate");
    auto context = need_context("cuStreamCreate");
    if (!handle || flags > 1) return refused("cuStreamCreate", INVALID_VALUE, "flags");
    auto stream = std::make_shared<Stream>();
    stream->context = current;
    stream->device = context->device;
    *handle = streams.add<void *>(stream);
    counted("streams");
    return SUCCESS;
}

API int cuStreamDestroy_v2(void *handle) {
    BEGIN("cuStreamDestroy");
    auto context = need_context("cuStreamDestroy");
    auto stream = stream_of("cuStreamDestroy", handle);
    if (stream->recording != Recording::NO) misuse("cuStreamDestroy", "the stream records");
    // Its work is done all the same.
    for (auto &work : stream->waiting) context->orphans.push_back(work);
    streams.remove("cuStreamDestroy", handle);
    return SUCCESS;
}

API int cuStreamSynchronize(void *handle) {
    BEGIN("cuStreamSynchronize");
    need_context("cuStreamSynchronize");
    auto stream = stream_of("cuStreamSynchronize", handle);
    if (stream->recording != Recording::NO) {
        stream->recording = Recording::SPOILT;
        return refused("cuStreamSynchronize", CAPTURE_UNSUPPORTED, "the stream records");
    }
    drain(*stream);
    counted("waits");
    return SUCCESS;
}

// A moment of a stream: how much was waited for until then, as a count of what was done.
struct Moment {
    uintptr_t context;
    std::weak_ptr<Stream> stream;
    std::chrono::steady_clock::time_point since;
    bool is_recorded = false, is_reached = false;
    uint64_t at = 0;
};

static Handles<Moment> moments = {"event", {}};
static uint64_t done;

API int cuEventCreate(void **handle, unsigned flags) {
    BEGIN("cuEventCreate");
    need_context("cuEventCreate");
    if (!handle || flags > 7) return refused("cuEventCreate", INVALID_VALUE, "flags");
    auto moment = std::make_shared<Moment>();
    moment->context = current;
    *handle = moments.add<void *>(moment);
    return SUCCESS;
}

API int cuEventDestroy_v2(void *handle) {
    BEGIN("cuEventDestroy");
    need_context("cuEventDestroy");
    moments.get("cuEventDestroy", handle);
    moments.remove("cuEventDestroy", handle);
    return SUCCESS;
}

API int cuEventRecord(void *handle, void *stream) {
    BEGIN("cuEventRecord");
    need_context("cuEventRecord");
    auto moment = moments.get("cuEventRecord", handle);
    moment->is_recorded = true;
    moment->is_reached = false;
    moment->stream = stream_of("cuEventRecord", stream);
    moment->since = std::chrono::steady_clock::now();
    return enqueue("cuEventRecord", stream, {"an event", [moment] {
        moment->is_reached = true;
        moment->at = ++done;
    }});
}

// A millisecond for each event that was reached: there is no clock here.
API int cuEventElapsedTime_v2(float *milliseconds, void *start, void *end) {
    BEGIN("cuEventElapsedTime");
    need_context("cuEventElapsedTime");
    auto from = moments.get("cuEventElapsedTime", start), to = moments.get("cuEventElapsedTime", end);
    if (!milliseconds || !from->is_recorded || !to->is_recorded)
        return refused("cuEventElapsedTime", INVALID_VALUE, "an event was never recorded");
    if (!from->is_reached || !to->is_reached) return refused("cuEventElapsedTime", NOT_READY, "the work before it is not done");
    *milliseconds = (float)(to->at - from->at);
    return SUCCESS;
}

API int cuEventElapsedTime(float *milliseconds, void *start, void *end) {
    return cuEventElapsedTime_v2(milliseconds, start, end);
}

API int cuEventSynchronize(void *handle) {
    static const char *call = "cuEventSynchronize";
    BEGIN(call);
    need_context(call);
    auto moment = moments.get(call, handle);
    if (Code code = unsafe(call)) return code;
    // One that was never recorded is waited for by nobody.
    if (!moment->is_recorded || moment->is_reached) return SUCCESS;
    if (auto stream = moment->stream.lock()) drain(*stream);
    else drain_orphans(*need_context(call));
    return SUCCESS;
}

// Nothing is known of it before somebody has asked once.
API int cuEventQuery(void *handle) {
    static const char *call = "cuEventQuery";
    BEGIN(call);
    need_context(call);
    auto moment = moments.get(call, handle);
    if (Code code = unsafe(call)) return code;
    if (!moment->is_recorded || moment->is_reached) return SUCCESS;
    counted("queries");
    if (auto stream = moment->stream.lock()) {
        advance(*stream, nullptr);
        if (!moment->is_reached && std::chrono::steady_clock::now() > moment->since + PATIENCE)
            misuse(stream->waiting.front().name, "others do not come to it");
    }
    return NOT_READY;
}

// Memory of the host that is pinned: any is, here.
struct Pinned {
    uintptr_t context;
    size_t bytes;
};
static std::map<void *, Pinned> pinned;

API int cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    static const char *call = "cuMemHostAlloc";
    BEGIN(call);
    need_context(call);
    if (!address || !bytes || flags > 7) return refused(call, INVALID_VALUE, "no bytes, or flags");
    if (Code code = unsafe(call)) return code;
    *address = malloc(bytes);
    if (!*address) return refused(call, OUT_OF_MEMORY, text("%zu bytes", bytes));
    memset(*address, FRESH, bytes);
    pinned[*address] = {current, bytes};
    return SUCCESS;
}

API int cuMemFreeHost(void *address) {
    static const char *call = "cuMemFreeHost";
    BEGIN(call);
    need_context(call);
    if (!pinned.erase(address)) misuse(call, "memory that cuMemHostAlloc did not give, or that is free already");
    free(address);
    return SUCCESS;
}

API int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    BEGIN("cuMemAlloc");
    need_context("cuMemAlloc");
    if (Code code = unsafe("cuMemAlloc")) return code;
    return allocate("cuMemAlloc", address, bytes);
}

// That it waits for work is not said, so work that uses the memory finds it gone.
API int cuMemFree_v2(uint64_t address) {
    BEGIN("cuMemFree");
    need_context("cuMemFree");
    if (Code code = unsafe("cuMemFree")) return code;
    release("cuMemFree", address);
    return SUCCESS;
}

static uint64_t digest(const unsigned char *bytes, size_t count) {
    uint64_t sum = 0xcbf29ce484222325;
    for (size_t at = 0; at < count; at++) sum = (sum ^ bytes[at]) * 0x100000001b3;
    return sum;
}

API int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
    static const char *call = "cuMemcpyHtoDAsync";
    BEGIN(call);
    need_context(call);
    stream_of(call, stream);
    if (!bytes) return SUCCESS;
    // Memory of the host that is not pinned is brought to where it is, and waited for: none of it is recorded.
    if (Code code = unsafe(call)) return code;
    need_range(call, "target", to, bytes);
    need_host(call, from, bytes);
    const uint64_t sum = digest((const unsigned char *)from, bytes);
    counted("uploads");
    return enqueue(call, stream, {call, [=] {
        need_host(call, from, bytes);
        need_range(call, "target", to, bytes);
        if (digest((const unsigned char *)from, bytes) != sum)
            misuse(call, "the bytes of the host changed before they were copied");
        memcpy((void *)to, from, bytes);
    }});
}

API int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
    static const char *call = "cuMemcpyDtoHAsync";
    BEGIN(call);
    need_context(call);
    stream_of(call, stream);
    if (!bytes) return SUCCESS;
    if (Code code = unsafe(call)) return code;
    need_range(call, "source", from, bytes);
    need_host(call, to, bytes);
    counted("downloads");
    return enqueue(call, stream, {call, [=] {
        need_range(call, "source", from, bytes);
        need_host(call, to, bytes);
        memcpy(to, (const void *)from, bytes);
    }});
}

API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
    static const char *call = "cuMemcpyDtoDAsync";
    BEGIN(call);
    need_context(call);
    stream_of(call, stream);
    if (!bytes) return SUCCESS;
    auto check = [=] {
        need_range(call, "source", from, bytes);
        need_range(call, "target", to, bytes);
    };
    check();
    if (from < to + bytes && to < from + bytes) misuse(call, "source and target overlap");
    counted("copies");
    return enqueue(call, stream, {call, [=] {
        check();
        memcpy((void *)to, (const void *)from, bytes);
    }});
}

// Rows of bytes, of which each is `pitch` behind the one before.
struct Copy2D {
    size_t x, y;
    int type;
    const void *host;
    uint64_t device;
    void *array;
    size_t pitch, to_x, to_y;
    int to_type;
    void *to_host;
    uint64_t to_device;
    void *to_array;
    size_t to_pitch, width, height;
};

API int cuMemcpy2DAsync_v2(const Copy2D *given, void *stream) {
    static const char *call = "cuMemcpy2DAsync";
    static const int OF_DEVICE = 2;
    static const size_t PITCH = 0x7fffffff;
    BEGIN(call);
    need_context(call);
    stream_of(call, stream);
    need_host(call, given, sizeof *given);
    const Copy2D of = *given;
    if (of.type != OF_DEVICE || of.to_type != OF_DEVICE || of.x || of.y || of.to_x || of.to_y) misuse(call, "only rows of a device are emulated");
    if (of.pitch < of.width || of.to_pitch < of.width || of.pitch > PITCH || of.to_pitch > PITCH) return refused(call, INVALID_VALUE, "a pitch");
    if (!of.width || !of.height) return SUCCESS;
    auto check = [=] {
        need_range(call, "source", of.device, (of.height - 1) * of.pitch + of.width);
        need_range(call, "target", of.to_device, (of.height - 1) * of.to_pitch + of.width);
    };
    check();
    counted("copies");
    return enqueue(call, stream, {call, [=] {
        check();
        std::vector<char> rows(of.width * of.height);
        for (size_t row = 0; row < of.height; row++) memcpy(&rows[row * of.width], (const char *)of.device + row * of.pitch, of.width);
        for (size_t row = 0; row < of.height; row++) memcpy((char *)of.to_device + row * of.to_pitch, &rows[row * of.width], of.width);
    }});
}

API int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, void *stream) {
    static const char *call = "cuMemsetD8Async";
    BEGIN(call);
    need_context(call);
    stream_of(call, stream);
    if (!bytes) return SUCCESS;
    need_range(call, "target", to, bytes);
    counted("fills");
    return enqueue(call, stream, {call, [=] {
        need_range(call, "target", to, bytes);
        memset((void *)to, byte, bytes);
    }});
}
