// Modules and their functions: shared objects that the emulated compiler made.
#pragma once
#include <dlfcn.h>
#include "../image.h"
#include "streams.h"
#include <type_traits>
#define SHIM(name)
#include "../kernel.h"

// A loader knows an object by its file, so that stays open as long as the object is there.
struct Module {
    uintptr_t context;
    int file;
    void *library = nullptr;
    Module(uintptr_t context, int file) : context(context), file(file) {}
    ~Module() {
        if (library) dlclose(library);
        close(file);
    }
};
struct Function {
    std::string name;
    std::weak_ptr<Module> module;
    const emulated_kernel *kernel;
};

static Handles<Module> modules = {"module", {}};
static Handles<Function> functions = {"function", {}};
static const char *ARCHITECTURE = "sm_90";
static const unsigned SHARED = 48 << 10;

API int cuModuleLoadData(void **module, const void *data) {
    static const char *call = "cuModuleLoadData";
    BEGIN(call);
    need_context(call);
    if (Code code = unsafe(call)) return code;
    if (!module || !data) return refused(call, INVALID_VALUE, "no image");
    Image image;
    memcpy(&image, data, sizeof image);
    if (memcmp(image.mark, IMAGE_MARK, sizeof IMAGE_MARK)) return refused(call, INVALID_IMAGE, "the emulated compiler did not make it");
    if (strcmp(image.architecture, ARCHITECTURE)) return refused(call, NO_BINARY_FOR_GPU, image.architecture);
    auto made = std::make_shared<Module>(current, memfd_create("module", MFD_CLOEXEC));
    const char *object = (const char *)data + sizeof image;
    if (made->file < 0 || write(made->file, object, image.bytes) != (ssize_t)image.bytes) misuse(call, "no file for the object");
    made->library = dlopen(text("/proc/self/fd/%d", made->file).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!made->library) return refused(call, INVALID_IMAGE, dlerror());
    *module = modules.add<void *>(made);
    counted("modules");
    return SUCCESS;
}

API int cuModuleUnload(void *module) {
    BEGIN("cuModuleUnload");
    need_context("cuModuleUnload");
    if (Code code = unsafe("cuModuleUnload")) return code;
    modules.remove("cuModuleUnload", module);
    return SUCCESS;
}

// A function is loaded when it is asked for first, which cannot be recorded.
API int cuModuleGetFunction(void **function, void *module, const char *name) {
    static const char *call = "cuModuleGetFunction";
    BEGIN(call);
    need_context(call);
    auto of = modules.get(call, module);
    if (Code code = unsafe(call)) return code;
    if (!function || !name) return refused(call, INVALID_VALUE, "no name");
    auto *kernel = (const emulated_kernel *)dlsym(of->library, (std::string("emulated_") + name).c_str());
    if (!kernel) return refused(call, NOT_FOUND, name);
    *function = functions.add<void *>(std::make_shared<Function>(Function{name, of, kernel}));
    return SUCCESS;
}

// Sizes of a grid and of a block that no device has.
static Code look_at_sizes(const std::string &name, const emulated_kernel &kernel, const unsigned *sizes, unsigned shared) {
    const uint64_t most[6] = {0x7fffffff, 65535, 65535, 1024, 1024, 64};
    uint64_t threads = 1;
    for (unsigned at = 0; at < 6; at++) {
        if (sizes[at] < 1 || sizes[at] > most[at]) return refused("cuLaunchKernel", INVALID_VALUE, text("%s: size %u is %u", name.c_str(), at, sizes[at]));
        if (at >= 3) threads *= sizes[at];
    }
    if (threads > 1024) return refused("cuLaunchKernel", INVALID_VALUE, text("%s: a block of %zu threads", name.c_str(), (size_t)threads));
    if (threads > kernel.threads) return refused("cuLaunchKernel", LAUNCH_OUT_OF_RESOURCES, text("%s: more threads than its bounds of %u", name.c_str(), kernel.threads));
    if (kernel.shared + (uint64_t)shared > SHARED) return refused("cuLaunchKernel", INVALID_VALUE, text("%s: too many shared bytes", name.c_str()));
    return SUCCESS;
}

// Values of the parameters, of which each has its bytes.
static std::vector<uint64_t> read_parameters(const std::string &call, const emulated_kernel &kernel, void **list) {
    std::vector<uint64_t> values(kernel.count);
    if (kernel.count) need_host(call, list, kernel.count * sizeof *list);
    for (unsigned at = 0; at < kernel.count; at++) {
        const auto &parameter = kernel.parameters[at];
        need_host(call, list[at], parameter.bytes);
        memcpy(&values[at], list[at], parameter.bytes);
        if (parameter.is_address) need_range(call, text("parameter %u", at).c_str(), values[at], 1);
    }
    return values;
}

API int cuLaunchKernel(void *handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned shared, void *stream, void **list, void **extra) {
    BEGIN("cuLaunchKernel");
    need_context("cuLaunchKernel");
    auto function = functions.get("cuLaunchKernel", handle);
    stream_of("cuLaunchKernel", stream);
    const std::string call = "cuLaunchKernel of " + function->name;
    if (function->module.expired()) misuse(call, "its module was unloaded");
    if (function->module.lock()->context != current) misuse(call, "its module was loaded into another context");
    if (extra) misuse(call, "extra is not emulated");
    const std::vector<unsigned> sizes = {gx, gy, gz, bx, by, bz};
    const emulated_kernel &kernel = *function->kernel;
    if (Code code = look_at_sizes(function->name, kernel, sizes.data(), shared)) return code;
    const std::vector<uint64_t> values = read_parameters(call, kernel, list);
    // Which block comes first nobody says: every other launch runs backwards.
    const bool is_backwards = report().counts["launches"]++ % 2;
    return enqueue("cuLaunchKernel", stream, {call, [=] {
        if (function->module.expired()) misuse(call, "its module was unloaded before it was done");
        for (unsigned at = 0; at < function->kernel->count; at++)
            if (function->kernel->parameters[at].is_address) need_range(call, text("parameter %u", at).c_str(), values[at], 1);
        function->kernel->run(values.data(), sizes.data(), is_backwards);
    }});
}
