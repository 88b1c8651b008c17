// libnvrtc.so.12: the text is compiled by the system's C++ compiler behind `shim.h`, with a table of its kernels. What is made is
// kept by the text, since tests compile the same one often. COMPILER and HERE are given when this is compiled.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <map>
#include <mutex>
#include <string>
#include <vector>
#include "image.h"

#define API extern "C" __attribute__((visibility("default")))

enum Result { SUCCESS = 0, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6 };

struct Program {
    std::string text, log, architecture, code;
    bool is_compiled = false;
};

static std::mutex lock;
static std::map<uintptr_t, Program> programs;

static Program *of(void *handle) {
    auto found = programs.find((uintptr_t)handle);
    return found == programs.end() ? nullptr : &found->second;
}

static std::string read_all(const std::string &path) {
    std::string bytes;
    FILE *file = fopen(path.c_str(), "rb");
    if (!file) return bytes;
    char part[1 << 16];
    while (size_t count = fread(part, 1, sizeof part, file)) bytes.append(part, count);
    fclose(file);
    return bytes;
}

static void write_all(const std::string &path, const std::string &bytes) {
    FILE *file = fopen(path.c_str(), "wb");
    if (!file || fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() || fclose(file)) {
        fprintf(stderr, "emulated NVRTC: %s cannot be written\n", path.c_str());
        _exit(86);
    }
}

// Bytes of the arrays that a block shares, as they are declared: `__shared__ TYPE NAME[COUNT];`
static unsigned long shared_bytes(const std::string &body) {
    static const std::map<std::string, unsigned> sizes = {
        {"float", 4}, {"double", 8}, {"bool", 1}, {"int8_t", 1}, {"uint8_t", 1}, {"int16_t", 2}, {"uint16_t", 2},
        {"int32_t", 4}, {"uint32_t", 4}, {"int64_t", 8}, {"uint64_t", 8},
    };
    static const std::string word = "__shared__ ";
    unsigned long all = 0;
    for (size_t at = body.find(word); at != std::string::npos; at = body.find(word, at + 1)) {
        const size_t type = at + word.size(), end = body.find(' ', type), open = body.find('[', end);
        auto size = sizes.find(body.substr(type, end - type));
        if (size == sizes.end()) return ~0ul;
        all += (size->second * strtoul(body.c_str() + open + 1, nullptr, 10) + 15) / 16 * 16;
    }
    return all;
}

// A table entry for each kernel: `extern "C" __global__ void __launch_bounds__(THREADS) NAME(`.
static std::string tables(const std::string &text, std::string &log) {
    static const std::string head = "extern \"C\" __global__ void __launch_bounds__(";
    std::string all;
    for (size_t at = text.find(head); at != std::string::npos;) {
        const size_t next = text.find(head, at + 1), threads = at + head.size();
        const size_t name = text.find(") ", threads) + 2, open = text.find('(', name);
        const unsigned long shared = shared_bytes(text.substr(at, next == std::string::npos ? next : next - at));
        const std::string symbol = text.substr(name, open - name);
        if (shared > 48 << 10) log += "ptxas error: entry function '" + symbol + "' uses too much shared data\n";
        all += "EMULATED(" + symbol + ", " + std::to_string(strtoul(text.c_str() + threads, nullptr, 10)) + ", " + std::to_string(shared) + ")\n";
        at = next;
    }
    return all;
}

// What the options say of the device; all others must be ones that are known to change nothing here.
static bool read_options(Program &program, int count, const char *const *options) {
    static const std::string architecture = "--gpu-architecture=";
    for (int at = 0; at < count; at++) {
        const std::string option = options[at];
        if (!option.compare(0, architecture.size(), architecture)) program.architecture = option.substr(architecture.size());
        else if (option != "--fmad=false" && option != "--std=c++17" && option != "--disable-warnings") {
            program.log = "nvrtc: error: unrecognized option " + option + " found";
            return false;
        }
    }
    return true;
}

static bool compile(const std::string &text, const std::string &object, std::string &log) {
    const std::string own = object + "." + std::to_string(getpid());
    write_all(own + ".cpp", text);
    const std::string command = std::string(COMPILER) + " -include " HERE "/kernels.h " + own + ".cpp -o " + own + ".so 2> " + own + ".log";
    const bool is_made = system(command.c_str()) == 0 && rename((own + ".so").c_str(), object.c_str()) == 0;
    log += read_all(own + ".log");
    unlink((own + ".cpp").c_str());
    unlink((own + ".log").c_str());
    return is_made;
}

API int nvrtcCreateProgram(void **program, const char *text, const char *, int headers, const char *const *, const char *const *) {
    std::lock_guard<std::mutex> guard(lock);
    static uintptr_t next = 0;
    if (!program || !text || headers) return INVALID_INPUT;
    programs[next += 16].text = text;
    *program = (void *)next;
    return SUCCESS;
}

API int nvrtcCompileProgram(void *handle, int count, const char *const *options) {
    std::lock_guard<std::mutex> guard(lock);
    Program *program = of(handle);
    if (!program) return INVALID_PROGRAM;
    if (!read_options(*program, count, options)) return INVALID_OPTION;
    const std::string text = program->text + tables(program->text, program->log);
    if (!program->log.empty()) return COMPILATION;
    char name[32];
    snprintf(name, sizeof name, "%016zx-%zu", std::hash<std::string>()(text), text.size());
    const std::string object = std::string(HERE "/objects/") + name + ".so";
    if (access(object.c_str(), R_OK) && !compile(text, object, program->log)) return COMPILATION;
    Image image = {};
    memcpy(image.mark, IMAGE_MARK, sizeof IMAGE_MARK);
    const std::string bytes = read_all(object);
    snprintf(image.architecture, sizeof image.architecture, "%s", program->architecture.c_str());
    image.bytes = bytes.size();
    program->code = std::string((const char *)&image, sizeof image) + bytes;
    program->is_compiled = true;
    return SUCCESS;
}

// Code for a device there is only where the architecture is one (`sm_90`), and not a virtual one (`compute_90`).
static bool has_code(const Program &program) { return program.is_compiled && !program.architecture.compare(0, 3, "sm_"); }

API int nvrtcGetCUBINSize(void *handle, size_t *bytes) {
    std::lock_guard<std::mutex> guard(lock);
    Program *program = of(handle);
    if (!program || !program->is_compiled) return INVALID_PROGRAM;
    *bytes = has_code(*program) ? program->code.size() : 0;
    return SUCCESS;
}

API int nvrtcGetCUBIN(void *handle, char *bytes) {
    std::lock_guard<std::mutex> guard(lock);
    Program *program = of(handle);
    if (!program || !has_code(*program)) return INVALID_PROGRAM;
    memcpy(bytes, program->code.data(), program->code.size());
    return SUCCESS;
}

API int nvrtcGetProgramLogSize(void *handle, size_t *bytes) {
    std::lock_guard<std::mutex> guard(lock);
    Program *program = of(handle);
    if (!program) return INVALID_PROGRAM;
    *bytes = program->log.size() + 1;
    return SUCCESS;
}

API int nvrtcGetProgramLog(void *handle, char *log) {
    std::lock_guard<std::mutex> guard(lock);
    Program *program = of(handle);
    if (!program) return INVALID_PROGRAM;
    memcpy(log, program->log.c_str(), program->log.size() + 1);
    return SUCCESS;
}

API int nvrtcDestroyProgram(void **handle) {
    std::lock_guard<std::mutex> guard(lock);
    if (!handle || !of(*handle)) return INVALID_PROGRAM;
    programs.erase((uintptr_t)*handle);
    *handle = nullptr;
    return SUCCESS;
}
