// libnccl.so.2: collectives between the devices of one process. Communicators that block are not emulated.
#include <string.h>
#include <algorithm>
#include <chrono>
#include "numbers.h"

// What moves: a send, a receive, or a collective.
struct Part {
    Kind kind;
    int peer;
    uint64_t from, to;
    size_t count;
    int type, reduction;
    // Its number among those of its kind between two ranks, or among the collectives of a rank.
    size_t number;
};

struct Communicator;

// What a rank asked for in one group of calls: it is done at once.
struct Asked {
    std::shared_ptr<Communicator> by;
    const void *stream;
    std::vector<Part> parts;
};

// All ranks of a unique id.
struct Clique {
    int number = 0, size = 0;
    std::map<int, std::shared_ptr<Communicator>> ranks;
    std::vector<int> devices;
    // By (kind, from, to), and by (collective, rank, rank), in the order in which they were asked for.
    std::map<std::array<int, 3>, std::vector<std::shared_ptr<Asked>>> asked;
};

struct Communicator {
    std::shared_ptr<Clique> clique;
    int rank, device;
    bool is_aborted = false, waits = true;
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
};

static const std::chrono::seconds PATIENCE(20);
static std::map<uintptr_t, std::shared_ptr<Communicator>> communicators;
static std::map<std::string, std::shared_ptr<Clique>> cliques;
static thread_local int depth;
static thread_local std::vector<std::pair<std::shared_ptr<Communicator>, std::pair<const void *, Part>>> grouped;

// The driver's lock is the only one: what is done on a stream is done with it.
struct Guard {
    Guard() { emulated_lock_all(); }
    ~Guard() { emulated_unlock_all(); }
};

// EMULATED_NCCL_FAILS is a call, on all devices or with `NAME@1` on the second one.
static Result begin(const char *call) {
    const char *given = getenv("EMULATED_NCCL_FAILS");
    const std::string fails = given ? given : "", name = call;
    if (fails == name || fails == name + "@" + std::to_string(emulated_device())) return refused(call, SYSTEM_ERROR, "it was told to fail");
    return SUCCESS;
}

#define BEGIN(call)                          \
    Guard guard;                             \
    if (Result code = begin(call)) return code;

static std::shared_ptr<Communicator> of(const char *call, const void *handle) {
    auto found = communicators.find((uintptr_t)handle);
    if (found == communicators.end()) misuse(call, "a handle is no communicator that is alive");
    return found->second;
}

API Result ncclGetVersion(int *version) {
    *version = 22105;
    return SUCCESS;
}

API const char *ncclGetErrorString(Result code) {
    return code == SYSTEM_ERROR ? "emulated system error" : code == INVALID_USAGE ? "emulated invalid usage" : "emulated error";
}

API Result ncclGetUniqueId(UniqueId *id) {
    BEGIN("ncclGetUniqueId");
    static int next = 0;
    emulated_need_host("ncclGetUniqueId", id, sizeof *id);
    *id = {};
    snprintf(id->bytes, sizeof id->bytes, "ranks %d", next);
    cliques[id->bytes] = std::make_shared<Clique>();
    cliques[id->bytes]->number = next++;
    return SUCCESS;
}

API Result ncclCommInitRankConfig(void **handle, int size, UniqueId id, int rank, const Config *config) {
    static const char *call = "ncclCommInitRankConfig";
    BEGIN(call);
    static const int registered = atexit([] { for (size_t at = 0; at < communicators.size(); at++) emulated_leak("a communicator"); });
    static uintptr_t next = (uintptr_t)'n' << 52;
    emulated_need_context(call);
    emulated_need_host(call, config, sizeof *config);
    if (registered || config->size < sizeof *config || config->magic != 0xcafebeef || config->version < 21400) return refused(call, INVALID_ARGUMENT, "the configuration");
    if (config->is_blocking) misuse(call, "communicators that block are not emulated");
    if (depth) misuse(call, "groups of communicators are not emulated");
    auto found = cliques.find(id.bytes);
    if (found == cliques.end()) misuse(call, "nobody made the unique id");
    auto clique = found->second;
    if (!clique->size) clique->size = size;
    if (clique->size != size || rank < 0 || rank >= size || clique->ranks.count(rank)) misuse(call, "another number of ranks, or a rank twice");
    auto &devices = clique->devices;
    if (std::find(devices.begin(), devices.end(), emulated_device()) != devices.end()) return refused(call, INVALID_USAGE, "a device twice");
    devices.push_back(emulated_device());
    auto made = std::make_shared<Communicator>();
    made->clique = clique, made->rank = rank, made->device = emulated_device();
    clique->ranks[rank] = made;
    communicators[next += 16] = made;
    *handle = (void *)next;
    emulated_count("communicators");
    return IN_PROGRESS;
}

API Result ncclCommGetAsyncError(void *handle, Result *state) {
    static const char *call = "ncclCommGetAsyncError";
    BEGIN(call);
    auto by = of(call, handle);
    const bool is_whole = (int)by->clique->ranks.size() == by->clique->size;
    if (!is_whole && std::chrono::steady_clock::now() > by->since + PATIENCE) misuse(call, "others do not come");
    // Nothing is known of it before somebody has asked once.
    *state = by->waits || !is_whole ? IN_PROGRESS : SUCCESS;
    if (is_whole) by->waits = false;
    return SUCCESS;
}

// What it has under way is given up.
API Result ncclCommAbort(void *handle) {
    BEGIN("ncclCommAbort");
    of("ncclCommAbort", handle)->is_aborted = true;
    communicators.erase((uintptr_t)handle);
    emulated_count("aborted");
    return SUCCESS;
}

// The ranks that take part in some part, each as (kind, from, to) and with the number.
static std::vector<std::array<int, 3>> lists_of(const Asked &of, const Part &part) {
    const int rank = of.by->rank;
    if (part.kind == SEND) return {{RECEIVE, rank, part.peer}};
    if (part.kind == RECEIVE) return {{SEND, part.peer, rank}};
    std::vector<std::array<int, 3>> all;
    for (int other = 0; other < of.by->clique->size; other++) all.push_back({ALL_GATHER, other, other});
    return all;
}

// All that has to be done together with something, if it was asked for.
static bool gather(const std::shared_ptr<Asked> &first, std::vector<std::shared_ptr<Asked>> &all) {
    all.push_back(first);
    for (size_t at = 0; at < all.size(); at++) {
        const auto one = all[at];
        for (const auto &part : one->parts)
            for (const auto &list : lists_of(*one, part)) {
                const auto &others = one->by->clique->asked[list];
                if (others.size() <= part.number) return false;
                if (std::find(all.begin(), all.end(), others[part.number]) == all.end()) all.push_back(others[part.number]);
            }
    }
    return true;
}

static size_t bytes_of(const Part &part) { return part.count * size_of(part.type); }

// The part of another one that belongs to this one.
static const Part &partner(const std::shared_ptr<Asked> &one, const Part &part) {
    const auto list = lists_of(*one, part)[0];
    for (const auto &other : one->by->clique->asked[list][part.number]->parts)
        if (other.kind == list[0] && other.number == part.number && other.peer == one->by->rank) return other;
    misuse("NCCL", "a part without its other one");
}

static bool overlap(uint64_t a, size_t a_bytes, uint64_t b, size_t b_bytes) { return a < b + b_bytes && b < a + a_bytes; }

static void look_at_memory(const Asked &one) {
    const int device = one.by->device, size = one.by->clique->size;
    std::vector<std::pair<uint64_t, size_t>> read, written;
    for (const auto &part : one.parts) {
        const size_t bytes = bytes_of(part);
        if (part.kind != RECEIVE) read.push_back({part.from, part.kind == REDUCE_SCATTER ? bytes * size : bytes});
        if (part.kind != SEND) written.push_back({part.to, part.kind == ALL_GATHER ? bytes * size : bytes});
    }
    for (const auto &[address, bytes] : read) emulated_need_range_on(device, "NCCL", "source", address, bytes);
    for (const auto &[address, bytes] : written) emulated_need_range_on(device, "NCCL", "target", address, bytes);
    for (size_t at = 0; at < written.size(); at++) {
        for (const auto &[address, bytes] : read)
            if (overlap(written[at].first, written[at].second, address, bytes)) misuse("NCCL", "source and target overlap");
        for (size_t other = 0; other < at; other++)
            if (overlap(written[at].first, written[at].second, written[other].first, written[other].second)) misuse("NCCL", "two targets overlap");
    }
}

static void exchange(const std::vector<std::shared_ptr<Asked>> &all) {
    // Whatever comes first: all is read before anything is written.
    std::vector<std::pair<uint64_t, std::vector<char>>> moved;
    for (const auto &one : all)
        for (const auto &part : one->parts) {
            if (part.kind != RECEIVE) continue;
            const Part &sent = partner(one, part);
            if (bytes_of(sent) != bytes_of(part) || sent.type != part.type)
                misuse("NCCL", "a rank sends " + std::to_string(bytes_of(sent)) + " bytes, another one receives " + std::to_string(bytes_of(part)));
            const char *from = (const char *)sent.from;
            moved.push_back({part.to, {from, from + bytes_of(sent)}});
        }
    for (const auto &[to, bytes] : moved) memcpy((void *)to, bytes.data(), bytes.size());
}

// Of all ranks, in their order.
static void collect(std::vector<std::shared_ptr<Asked>> all) {
    std::sort(all.begin(), all.end(), [](const auto &a, const auto &b) { return a->by->rank < b->by->rank; });
    const Part first = all[0]->parts[0];
    std::vector<uint64_t> sources;
    for (const auto &one : all) {
        const Part &part = one->parts[0];
        if (one->parts.size() != 1) misuse("NCCL", "a collective among others in a group is not emulated");
        if (part.kind != first.kind || part.count != first.count || part.type != first.type || part.reduction != first.reduction)
            misuse("NCCL", "ranks call different collectives");
        sources.push_back(part.from);
    }
    const size_t bytes = bytes_of(first);
    std::vector<std::pair<uint64_t, std::vector<char>>> made;
    for (size_t rank = 0; rank < all.size(); rank++) {
        std::vector<char> result(first.kind == ALL_GATHER ? bytes * all.size() : bytes);
        for (size_t other = 0; other < all.size() && first.kind == ALL_GATHER; other++) memcpy(&result[other * bytes], (const void *)sources[other], bytes);
        std::vector<uint64_t> own = sources;
        // The order is the library's, and not that of the ranks, nor the same for all.
        std::rotate(own.begin(), own.begin() + (1 + all[0]->by->clique->number % 2) % own.size(), own.end());
        if (first.kind == REDUCE_SCATTER) for (auto &source : own) source += rank * bytes;
        if (first.kind != ALL_GATHER) reduce(first.type, first.reduction, own, first.count, result.data());
        made.push_back({all[rank]->parts[0].to, result});
    }
    for (const auto &[to, result] : made) memcpy((void *)to, result.data(), result.size());
}

// Does something, and what has to be done with it, when all of it is there and what was asked for before is done.
static bool meets(const std::shared_ptr<Asked> &one) {
    // Of a communicator that was given up nothing is done, and others wait in vain.
    if (one->by->is_aborted) return emulated_done(one->stream), true;
    std::vector<std::shared_ptr<Asked>> all;
    if (!gather(one, all)) return false;
    for (const auto &each : all) if (each->by->is_aborted || !emulated_is_at(each->stream, each.get())) return false;
    std::vector<int> devices;
    for (const auto &each : all) devices.push_back(each->by->device);
    const std::function<void()> work = [&] {
        for (const auto &each : all) look_at_memory(*each);
        const Kind kind = all[0]->parts[0].kind;
        if (kind == SEND || kind == RECEIVE) exchange(all);
        else collect(all);
    };
    emulated_open(devices.data(), devices.size(), &work);
    for (const auto &each : all) emulated_done(each->stream);
    return true;
}

API Result ncclGroupStart() {
    BEGIN("ncclGroupStart");
    depth++;
    return SUCCESS;
}

API Result ncclGroupEnd() {
    static const char *call = "ncclGroupEnd";
    Guard guard;
    if (!depth) return refused(call, INVALID_USAGE, "no group was begun");
    if (--depth) return SUCCESS;
    auto parts = std::move(grouped);
    grouped.clear();
    if (Result code = begin(call)) return code;
    std::map<Communicator *, std::shared_ptr<Asked>> all;
    for (auto &[by, part] : parts) {
        auto &asked = all[by.get()];
        if (!asked) asked = std::make_shared<Asked>(Asked{by, part.first, {}});
        if (asked->stream != part.first) misuse(call, "several streams in a group");
        auto own = part.second;
        const int rank = by->rank;
        const std::array<int, 3> list = own.kind == SEND ? std::array<int, 3>{SEND, rank, own.peer}
                                        : own.kind == RECEIVE ? std::array<int, 3>{RECEIVE, own.peer, rank} : std::array<int, 3>{ALL_GATHER, rank, rank};
        own.number = by->clique->asked[list].size();
        by->clique->asked[list].push_back(asked);
        asked->parts.push_back(own);
    }
    for (auto &[by, asked] : all) {
        const std::function<bool()> work = [asked = asked] { return meets(asked); };
        if (emulated_enqueue_meeting("NCCL", asked->stream, asked.get(), &work)) return refused(call, UNHANDLED, "the stream");
        by->waits = true;
    }
    return all.empty() ? SUCCESS : IN_PROGRESS;
}

static Result ask(const char *call, const void *handle, const void *stream, Part part) {
    BEGIN(call);
    auto by = of(call, handle);
    if (by->waits) misuse(call, "what was asked before goes on: ncclCommGetAsyncError says when it does not");
    if (by->device != emulated_device()) misuse(call, "the communicator is of another device");
    if (!size_of(part.type) || !part.count) misuse(call, "nothing moves, or a type that is not emulated");
    if (part.kind == SEND || part.kind == RECEIVE)
        if (part.peer < 0 || part.peer >= by->clique->size || part.peer == by->rank) misuse(call, "no other rank");
    emulated_count(call);
    Asked one = {by, stream, {part}};
    look_at_memory(one);
    grouped.push_back({by, {stream, part}});
    if (depth) return SUCCESS;
    depth++;
    return ncclGroupEnd();
}

API Result ncclSend(uint64_t from, size_t count, int type, int peer, void *handle, void *stream) {
    return ask("ncclSend", handle, stream, {SEND, peer, from, 0, count, type, 0, 0});
}
API Result ncclRecv(uint64_t to, size_t count, int type, int peer, void *handle, void *stream) {
    return ask("ncclRecv", handle, stream, {RECEIVE, peer, 0, to, count, type, 0, 0});
}
API Result ncclAllGather(uint64_t from, uint64_t to, size_t count, int type, void *handle, void *stream) {
    return ask("ncclAllGather", handle, stream, {ALL_GATHER, 0, from, to, count, type, 0, 0});
}
API Result ncclAllReduce(uint64_t from, uint64_t to, size_t count, int type, int reduction, void *handle, void *stream) {
    return ask("ncclAllReduce", handle, stream, {ALL_REDUCE, 0, from, to, count, type, reduction, 0});
}
API Result ncclReduceScatter(uint64_t from, uint64_t to, size_t count, int type, int reduction, void *handle, void *stream) {
    return ask("ncclReduceScatter", handle, stream, {REDUCE_SCATTER, 0, from, to, count, type, reduction, 0});
}
