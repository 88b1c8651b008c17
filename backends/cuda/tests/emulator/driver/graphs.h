// Graphs: what a stream recorded, and what is made of it to be done again.
#pragma once
#include "streams.h"

struct Graph {
    std::vector<Work> nodes;
};

static Handles<Graph> graphs = {"graph", {}};
// `e` for executable.
static Handles<Graph> executables = {"executable graph", {}};

API int cuStreamBeginCapture_v2(void *handle, unsigned mode) {
    static const char *call = "cuStreamBeginCapture";
    BEGIN(call);
    auto stream = stream_of(call, handle);
    if (mode > RELAXED) return refused(call, INVALID_VALUE, "mode");
    if (stream->recording != Recording::NO) return refused(call, ILLEGAL_STATE, "the stream records");
    stream->recording = Recording::YES;
    stream->mode = mode;
    stream->thread = pthread_self();
    stream->recorded.clear();
    counted("captures");
    return SUCCESS;
}

API int cuStreamEndCapture(void *handle, void **graph) {
    static const char *call = "cuStreamEndCapture";
    BEGIN(call);
    auto stream = stream_of(call, handle);
    if (!graph) return refused(call, INVALID_VALUE, "no place for the graph");
    *graph = nullptr;
    if (stream->recording == Recording::NO) return refused(call, ILLEGAL_STATE, "the stream does not record");
    if (stream->mode != RELAXED && !pthread_equal(stream->thread, pthread_self()))
        return refused(call, CAPTURE_WRONG_THREAD, "another thread began");
    const bool is_spoilt = stream->recording == Recording::SPOILT;
    stream->recording = Recording::NO;
    auto made = std::make_shared<Graph>();
    made->nodes.swap(stream->recorded);
    if (is_spoilt) return refused(call, CAPTURE_INVALIDATED, "the recording was spoilt");
    report().counts["nodes"] += made->nodes.size();
    *graph = graphs.add<void *>(made);
    return SUCCESS;
}

API int cuGraphInstantiateWithFlags(void **executable, void *handle, unsigned long long flags) {
    static const char *call = "cuGraphInstantiate";
    BEGIN(call);
    auto graph = graphs.get(call, handle);
    if (!executable || flags) return refused(call, INVALID_VALUE, "flags that are not emulated");
    *executable = executables.add<void *>(std::make_shared<Graph>(*graph));
    counted("graphs");
    return SUCCESS;
}

API int cuGraphDestroy(void *handle) {
    BEGIN("cuGraphDestroy");
    graphs.remove("cuGraphDestroy", handle);
    return SUCCESS;
}

// What is under way is done nevertheless.
API int cuGraphExecDestroy(void *handle) {
    BEGIN("cuGraphExecDestroy");
    executables.remove("cuGraphExecDestroy", handle);
    return SUCCESS;
}

API int cuGraphLaunch(void *handle, void *stream) {
    static const char *call = "cuGraphLaunch";
    BEGIN(call);
    auto graph = executables.get(call, handle);
    stream_of(call, stream);
    counted("replays");
    return enqueue(call, stream, {call, [=] {
        for (const auto &node : graph->nodes) {
            doing = "in a graph: " + node.name;
            node.run();
        }
    }});
}
