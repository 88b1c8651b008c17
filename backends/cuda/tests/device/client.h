// What the cases of the client call, found by name as programs find it that start without CUDA.
#pragma once
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <thread>
#include <vector>

template <class F> static F *find(const char *library, const char *name) {
    void *loaded = dlopen(library, RTLD_NOW);
    void *found = loaded ? dlsym(loaded, name) : nullptr;
    if (!found) {
        fprintf(stderr, "there is no %s: %s\n", name, dlerror());
        exit(2);
    }
    return (F *)found;
}

typedef uint64_t Address;
typedef void *Handle;
#define DRIVER(name, own, ...) static auto own = find<int(__VA_ARGS__)>("libcuda.so.1", #name)
#define BLAS(name, own, ...) static auto own = find<int(__VA_ARGS__)>("libcublasLt.so.12", #name)
#define NVRTC(name, own, ...) static auto own = find<int(__VA_ARGS__)>("libnvrtc.so.12", #name)

DRIVER(cuInit, init, unsigned);
DRIVER(cuDeviceGet, device, int *, int);
DRIVER(cuDevicePrimaryCtxRetain, retain, Handle *, int);
DRIVER(cuDevicePrimaryCtxRelease_v2, release_context, int);
DRIVER(cuCtxSetCurrent, set_current, Handle);
DRIVER(cuMemAlloc_v2, allocate, Address *, size_t);
DRIVER(cuMemFree_v2, release, Address);
DRIVER(cuMemcpyHtoDAsync_v2, upload, Address, const void *, size_t, Handle);
DRIVER(cuMemcpyDtoHAsync_v2, download, void *, Address, size_t, Handle);
DRIVER(cuMemcpyDtoDAsync_v2, copy, Address, Address, size_t, Handle);
DRIVER(cuMemsetD8Async, fill, Address, unsigned char, size_t, Handle);
DRIVER(cuStreamCreate, create_stream, Handle *, unsigned);
DRIVER(cuStreamDestroy_v2, destroy_stream, Handle);
DRIVER(cuStreamSynchronize, wait, Handle);
DRIVER(cuStreamBeginCapture_v2, begin_capture, Handle, unsigned);
DRIVER(cuStreamEndCapture, end_capture, Handle, Handle *);
DRIVER(cuGraphInstantiateWithFlags, instantiate, Handle *, Handle, unsigned long long);
DRIVER(cuGraphDestroy, destroy_graph, Handle);
DRIVER(cuGraphExecDestroy, destroy_executable, Handle);
DRIVER(cuGraphLaunch, launch_graph, Handle, Handle);
DRIVER(cuModuleLoadData, load_module, Handle *, const void *);
DRIVER(cuModuleUnload, unload, Handle);
DRIVER(cuModuleGetFunction, function, Handle *, Handle, const char *);
DRIVER(cuLaunchKernel, launch, Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void **, void **);
NVRTC(nvrtcCreateProgram, create_program, Handle *, const char *, const char *, int, const char *const *, const char *const *);
NVRTC(nvrtcCompileProgram, compile_program, Handle, int, const char *const *);
NVRTC(nvrtcGetCUBINSize, code_size, Handle, size_t *);
NVRTC(nvrtcGetCUBIN, code, Handle, char *);
BLAS(cublasLtCreate, create_library, Handle *);
BLAS(cublasLtDestroy, destroy_library, Handle);
BLAS(cublasLtMatrixLayoutCreate, create_layout, Handle *, int, uint64_t, uint64_t, int64_t);
BLAS(cublasLtMatrixLayoutSetAttribute, set_layout, Handle, int, const void *, size_t);
BLAS(cublasLtMatmulDescCreate, create_operation, Handle *, int, int);
BLAS(cublasLtMatmulDescDestroy, destroy_operation, Handle);
BLAS(cublasLtMatmulDescSetAttribute, set_operation, Handle, int, const void *, size_t);
BLAS(cublasLtMatmulPreferenceCreate, create_preference, Handle *);
BLAS(cublasLtMatmulPreferenceSetAttribute, set_preference, Handle, int, const void *, size_t);
BLAS(cublasLtMatmulAlgoGetHeuristic, heuristic, Handle, Handle, Handle, Handle, Handle, Handle, Handle, int, void *, int *);
BLAS(cublasLtMatmul, multiply, Handle, Handle, const void *, Address, Handle, Address, Handle, const void *, Address, Handle, Address, Handle,
     const void *, Address, size_t, Handle);

// What a case says: numbers, most of them codes.
static void say(long long number) { printf("%lld ", number); }

// A context with a stream.
struct Ready {
    Handle context = nullptr, stream = nullptr;
    Ready() {
        init(0), retain(&context, 0), set_current(context), create_stream(&stream, 1);
    }
    Address memory(size_t bytes) {
        Address address = 0;
        allocate(&address, bytes);
        return address;
    }
};

static const char *TEXT =
    "extern \"C\" __global__ void __launch_bounds__(64) put(\n    float *x,\n    int64_t at\n) {\n    x[at] = 7.0f;\n}\n"
    "extern \"C\" __global__ void __launch_bounds__(64) shares(\n    float *x\n) {\n    __shared__ float tile[12000];\n    tile[0] = x[0];\n}\n";

struct Compiled : Ready {
    Handle module = nullptr, put = nullptr;
    std::vector<char> image;
    Compiled() {
        Handle program;
        const char *options[] = {"--gpu-architecture=sm_90"};
        create_program(&program, TEXT, "case.cu", 0, nullptr, nullptr);
        say(compile_program(program, 1, options));
        size_t bytes = 0;
        code_size(program, &bytes);
        image.resize(bytes);
        code(program, image.data());
        load_module(&module, image.data());
        function(&put, module, "put");
    }
    int run(Address x, int64_t at, unsigned blocks = 1, unsigned threads = 1) {
        void *list[] = {&x, &at};
        return launch(put, blocks, 1, 1, threads, 1, 1, 0, stream, list, nullptr);
    }
};
