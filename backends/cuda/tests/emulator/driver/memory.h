// Memory of the device: addresses of a region that the host can neither read nor write, but while work of a stream is done. Each
// allocation ends at a page that is never there, and no address is given twice.
#pragma once
#include <signal.h>
#include "report.h"

static const size_t PAGE = 4096, ALIGNED = 256, REGION = (size_t)1 << 40;
// In memory that was just given, and around it.
static const unsigned char FRESH = 0xcb, AROUND = 0xa5;

struct Allocation {
    int device;
    uintptr_t address;
    size_t bytes;
    // With what is around it, in whole pages.
    uintptr_t first;
    size_t all;
};

static uintptr_t region_first, region_next;
static std::map<uintptr_t, Allocation> allocations, freed;
// By device.
static std::map<int, size_t> allocated;
static std::map<int, int> opened;
// Whose work is being done; none where a thread asks.
static int working = -1;
// What is being done.
static std::string doing;
static struct sigaction before;

// The device that addresses are of.
static int acting() { return working >= 0 ? working : device_of_thread(); }

static bool is_open() {
    for (const auto &[_, count] : opened) if (count) return true;
    return false;
}

static bool is_in_region(uintptr_t address) {
    return region_first && address >= region_first && address < region_first + REGION;
}

static size_t memory_of_device() {
    static const size_t bytes = [] {
        const char *given = getenv("EMULATED_CUDA_MEMORY");
        return given ? (size_t)strtoull(given, nullptr, 10) : (size_t)4 << 30;
    }();
    return bytes;
}

static const Allocation *nearest(const std::map<uintptr_t, Allocation> &all, uintptr_t address) {
    auto after = all.upper_bound(address);
    return after == all.begin() ? nullptr : &std::prev(after)->second;
}

// Where an address is, in words.
static std::string place(uintptr_t address) {
    const Allocation *live = nearest(allocations, address), *dead = nearest(freed, address);
    if (live && address < live->address + live->bytes)
        return text("0x%zx, byte %zu of %zu of an allocation", address, address - live->address, live->bytes) +
               (live->device == acting() ? "" : text(" on device %d", live->device));
    if (dead && address < dead->address + dead->bytes) return text("0x%zx, which was freed", address);
    if (live && address < live->first + live->all + PAGE)
        return text("0x%zx, beyond an allocation of %zu bytes at 0x%zx", address, live->bytes, live->address);
    return text("0x%zx, which is no memory of the device", address);
}

static void on_fault(int, siginfo_t *info, void *) {
    const uintptr_t address = (uintptr_t)info->si_addr;
    if (is_open()) misuse(doing, "it touches " + place(address));
    if (is_in_region(address)) misuse("the host", "it touches memory of the device: " + place(address));
    // What it is, somebody else knows: it happens again.
    sigaction(SIGSEGV, &before, nullptr);
}

static void start_memory() {
    void *region = mmap(nullptr, REGION, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED) misuse("cuInit", "the system has no addresses left");
    region_first = region_next = (uintptr_t)region;
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, &before);
}

static void protect(const Allocation &of, int how) {
    if (mprotect((void *)of.first, of.all, how)) misuse(doing, "the system cannot protect memory");
}

// While it is there, memory of a device can be read and written.
struct Open {
    const int device;
    explicit Open(int device) : device(device) {
        if (!opened[device]++) all(PROT_READ | PROT_WRITE);
    }
    ~Open() {
        if (!--opened[device]) all(PROT_NONE);
    }
    void all(int how) const {
        for (const auto &[_, of] : allocations) if (of.device == device) protect(of, how);
    }
};

static void look_around(const Allocation &of) {
    auto check = [&](uintptr_t from, uintptr_t to) {
        for (uintptr_t at = from; at < to; at++)
            if (*(unsigned char *)at != AROUND)
                misuse(doing, text("something wrote around the allocation of %zu bytes at 0x%zx", of.bytes, of.address));
    };
    check(of.first, of.address);
    check(of.address + of.bytes, of.first + of.all);
}

// Memory of the device in which all of a range lies.
static void need_range(const std::string &call, const char *what, uintptr_t address, size_t bytes) {
    const Allocation *of = nearest(allocations, address);
    const std::string where = text("%s, %zu bytes at ", what, bytes) + place(address);
    if (!of || address - of->address >= of->bytes) misuse(call, where);
    if (of->device != acting()) misuse(call, where + text(", and not on device %d", acting()));
    if (bytes > of->bytes - (address - of->address)) misuse(call, where + ": it goes beyond");
}

static void need_host(const std::string &call, const void *address, size_t bytes) {
    if (is_in_region((uintptr_t)address)) misuse(call, "an address of the device stands for one of the host");
    if (!is_mapped(address, bytes)) misuse(call, text("the host has no memory of %zu bytes at %p", bytes, address));
}

static Code allocate(const char *call, uint64_t *address, size_t bytes) {
    if (!address || !bytes) return refused(call, INVALID_VALUE, "no bytes, or no place for the address");
    const int device = device_of_thread();
    if (bytes > memory_of_device() - allocated[device]) return refused(call, OUT_OF_MEMORY, text("%zu bytes", bytes));
    const size_t rounded = (bytes + ALIGNED - 1) / ALIGNED * ALIGNED, all = (rounded + PAGE - 1) / PAGE * PAGE;
    if (region_next + all + PAGE > region_first + REGION) misuse(call, "the emulator has no addresses left");
    const Allocation of = {device, region_next + all - rounded, bytes, region_next, all};
    region_next += all + PAGE;
    protect(of, PROT_READ | PROT_WRITE);
    memset((void *)of.first, AROUND, all);
    memset((void *)of.address, FRESH, bytes);
    if (!opened[device]) protect(of, PROT_NONE);
    allocations[of.address] = of;
    allocated[device] += bytes;
    *address = of.address;
    counted("allocations");
    return SUCCESS;
}

static void release(const char *call, uint64_t address) {
    auto found = allocations.find(address);
    if (found == allocations.end()) misuse(call, "it frees " + place(address));
    const Allocation of = found->second;
    if (of.device != acting()) misuse(call, "it frees " + place(address));
    protect(of, PROT_READ | PROT_WRITE);
    doing = call;
    look_around(of);
    madvise((void *)of.first, of.all, MADV_DONTNEED);
    protect(of, PROT_NONE);
    allocated[of.device] -= of.bytes;
    allocations.erase(found);
    freed[of.address] = of;
}
