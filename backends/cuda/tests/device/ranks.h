// Cases of what a program does wrong with NCCL and with several devices, and of what it may do. Nothing blocks, so one thread is all ranks.
#pragma once
#include <math.h>
#include "client.h"

struct UniqueId {
    char bytes[128];
};
struct Config {
    size_t size = sizeof(Config);
    unsigned magic = 0xcafebeef, version = 21400;
    int blocking = 0;
};
#define NCCL(name, own, ...) static auto own = find<int(__VA_ARGS__)>("libnccl.so.2", #name)
NCCL(ncclGetUniqueId, unique_id, UniqueId *);
NCCL(ncclCommInitRankConfig, init_rank, Handle *, int, UniqueId, int, Config *);
NCCL(ncclCommGetAsyncError, async_error, Handle, int *);
NCCL(ncclCommAbort, abort_communicator, Handle);
NCCL(ncclGroupStart, group_start);
NCCL(ncclGroupEnd, group_end);
NCCL(ncclSend, send_bytes, Address, size_t, int, int, Handle, Handle);
NCCL(ncclRecv, receive_bytes, Address, size_t, int, int, Handle, Handle);
NCCL(ncclAllGather, all_gather, Address, Address, size_t, int, Handle, Handle);
NCCL(ncclAllReduce, all_reduce, Address, Address, size_t, int, int, Handle, Handle);
NCCL(ncclReduceScatter, reduce_scatter, Address, Address, size_t, int, int, Handle, Handle);

enum { U8 = 1, F32 = 7, SUM = 0, MAX = 2 };

// A device with memory, of which the first bytes are given.
struct Of {
    Handle context = nullptr, stream = nullptr, communicator = nullptr;
    Address x = 0, y = 0;
    Of(int device, const float *first, size_t count) {
        retain(&context, device), enter(), create_stream(&stream, 1), allocate(&x, 64), allocate(&y, 64);
        fill(x, 0, 64, stream), fill(y, 0, 64, stream), upload(x, first, count * 4, stream), wait(stream);
    }
    void enter() { set_current(context); }
    int join(const UniqueId &id, int rank) {
        Config config;
        enter();
        return init_rank(&communicator, 2, id, rank, &config);
    }
    // How often it was asked until nothing goes on.
    int polled() {
        int state = 7, count = 0;
        while (state == 7) async_error(communicator, &state), count++;
        return count;
    }
    float at(Address address, size_t element) {
        float value = 0;
        enter(), download(&value, address + element * 4, 4, stream), wait(stream);
        return value;
    }
};

static void ranks_case(const char *name) {
    init(0);
    const float first[] = {1, 2, 3, NAN}, second[] = {10, 20, NAN, NAN};
    Of a(0, first, 4), b(1, second, 4);
    UniqueId id;
    unique_id(&id);
    if (!strcmp(name, "device_twice")) return say(a.join(id, 0)), say(a.join(id, 1));
    if (!strcmp(name, "copy_elsewhere")) return a.enter(), (void)copy(a.x, b.x, 4, a.stream);
    if (!strcmp(name, "free_elsewhere")) return a.enter(), (void)release(b.x);
    if (!strcmp(name, "stream_elsewhere")) return b.enter(), (void)fill(b.x, 0, 4, a.stream);
    if (!strcmp(name, "joined")) say(a.join(id, 0)), say(b.join(id, 1)), say(a.polled()), say(b.polled());
    else a.join(id, 0), b.join(id, 1), a.polled(), b.polled();
    const Handle of_a = a.communicator, of_b = b.communicator;
    a.enter();
    if (!strcmp(name, "unpolled")) all_gather(a.x, a.y, 8, U8, of_a, a.stream), all_gather(a.x, a.y, 8, U8, of_a, a.stream);
    if (!strcmp(name, "another_device")) b.enter(), all_gather(a.x, a.y, 8, U8, of_a, a.stream);
    if (!strcmp(name, "foreign_memory")) all_gather(b.x, a.y, 8, U8, of_a, a.stream);
    if (!strcmp(name, "too_long")) all_gather(a.x, a.y, 33, U8, of_a, a.stream);
    if (!strcmp(name, "overlap")) all_reduce(a.x, a.x + 4, 2, F32, SUM, of_a, a.stream);
    if (!strcmp(name, "no_end")) say(group_end());
    if (!strcmp(name, "own_rank")) send_bytes(a.x, 4, U8, 0, of_a, a.stream);
    if (!strcmp(name, "aborted")) abort_communicator(of_a), all_gather(a.x, a.y, 8, U8, of_a, a.stream);
    if (!strcmp(name, "different")) {
        all_gather(a.x, a.y, 2, F32, of_a, a.stream), b.enter(), all_reduce(b.x, b.y, 2, F32, SUM, of_b, b.stream), wait(b.stream);
    }
    if (!strcmp(name, "lengths")) {
        send_bytes(a.x, 8, U8, 1, of_a, a.stream), b.enter(), receive_bytes(b.y, 4, U8, 0, of_b, b.stream), wait(b.stream);
    }
    if (!strcmp(name, "freed_early")) {
        all_gather(a.x, a.y, 8, U8, of_a, a.stream), release(a.x), b.enter(), all_gather(b.x, b.y, 8, U8, of_b, b.stream), wait(b.stream);
    }
    if (!strcmp(name, "reduced")) {
        say(all_reduce(a.x, a.y, 3, F32, SUM, of_a, a.stream)), b.enter(), say(all_reduce(b.x, b.y, 3, F32, SUM, of_b, b.stream));
        say(a.at(a.y, 0)), say(b.at(b.y, 1)), say(isnan(a.at(a.y, 2)));
    }
    if (!strcmp(name, "maxima")) {
        all_reduce(a.x, a.y, 4, F32, MAX, of_a, a.stream), b.enter(), all_reduce(b.x, b.y, 4, F32, MAX, of_b, b.stream);
        // NaN is passed over where there is another number.
        say(a.at(a.y, 0)), say(a.at(a.y, 2)), say(isnan(b.at(b.y, 3)));
    }
    if (!strcmp(name, "scattered")) {
        reduce_scatter(a.x, a.y, 1, F32, SUM, of_a, a.stream), b.enter(), reduce_scatter(b.x, b.y, 1, F32, SUM, of_b, b.stream);
        say(a.at(a.y, 0)), say(b.at(b.y, 0)), say(b.at(b.y, 1));
    }
    if (!strcmp(name, "gathered")) {
        all_gather(a.x, a.y, 2, F32, of_a, a.stream), b.enter(), all_gather(b.x, b.y, 2, F32, of_b, b.stream);
        for (size_t at = 0; at < 5; at++) say(a.at(a.y, at));
    }
    if (!strcmp(name, "exchanged")) {
        // What was asked for before on a stream comes first, on that of the other rank too.
        group_start(), send_bytes(a.x, 8, U8, 1, of_a, a.stream), receive_bytes(a.y, 4, U8, 1, of_a, a.stream), say(group_end());
        b.enter(), fill(b.x, 0, 4, b.stream);
        group_start(), receive_bytes(b.y, 8, U8, 0, of_b, b.stream), send_bytes(b.x, 4, U8, 0, of_b, b.stream), say(group_end());
        say(a.at(a.y, 0)), say(b.at(b.y, 1));
    }
}
