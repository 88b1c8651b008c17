// What the emulated driver asks of a compiled text: a table of each function, and what runs it (`shim.h`).
#pragma once

// Of a parameter, its bytes and whether it is an address.
struct emulated_parameter {
    unsigned bytes, is_address;
};
struct emulated_kernel {
    unsigned count;
    const emulated_parameter *parameters;
    // Threads of a block at most, and bytes that a block shares.
    unsigned threads, shared;
    void (*run)(const uint64_t *arguments, const unsigned *sizes, int backwards);
};

template <class... P> struct emulated_list {
    static constexpr emulated_parameter all[] = {{sizeof(P), std::is_pointer<P>::value}...};
};
template <class... P>
static emulated_kernel emulated_of(void (*)(P...), unsigned threads, unsigned shared, void (*run)(const uint64_t *, const unsigned *, int)) {
    return {sizeof...(P), emulated_list<P...>::all, threads, shared, run};
}

#define EMULATED(name, threads, shared)                                                       \
    SHIM(name)                                                                                \
    extern "C" { extern const emulated_kernel emulated_##name;                                \
    const emulated_kernel emulated_##name = emulated_of(&name, threads, shared, &shim_##name); }
