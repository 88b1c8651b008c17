// Cases of what a program does wrong with CUDA, and of what it may do: each by its name.
#include "client.h"
#include "products.h"
#include "ranks.h"

static void memory_case(const char *name, Ready &on) {
    const Address x = on.memory(100);
    static char bytes[4096];
    if (!strcmp(name, "host_touches")) *(volatile char *)x = 1;
    if (!strcmp(name, "too_long")) upload(x, bytes, 300, on.stream);
    if (!strcmp(name, "source_too_long")) download(bytes, x + 60, 41, on.stream);
    if (!strcmp(name, "fill_elsewhere")) fill(x + (1 << 20), 0, 4, on.stream);
    if (!strcmp(name, "freed_before")) release(x), upload(x, bytes, 4, on.stream);
    if (!strcmp(name, "freed_early")) fill(x, 0, 4, on.stream), release(x), wait(on.stream);
    if (!strcmp(name, "freed_twice")) release(x), release(x);
    if (!strcmp(name, "freed_inside")) release(x + 4);
    if (!strcmp(name, "host_for_device")) upload((Address)bytes, bytes, 4, on.stream);
    if (!strcmp(name, "device_for_host")) upload(x, (void *)x, 4, on.stream);
    if (!strcmp(name, "overlap")) copy(x + 4, x, 8, on.stream);
    if (!strcmp(name, "changed")) upload(x, bytes, 4, on.stream), bytes[1] = 1, wait(on.stream);
    if (!strcmp(name, "gone")) {
        void *own = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        upload(x, own, 4, on.stream), munmap(own, 4096), wait(on.stream);
    }
    if (!strcmp(name, "late")) {
        char seen[2] = {1, 1};
        fill(x, 9, 100, on.stream), download(seen, x, 2, on.stream);
        say(seen[0]), wait(on.stream), say(seen[0]);
    }
    if (!strcmp(name, "no_memory")) {
        Address much;
        say(allocate(&much, (size_t)1 << 50)), say(allocate(&much, 0));
    }
    if (!strcmp(name, "fresh")) download(bytes, x, 4, on.stream), wait(on.stream), say((unsigned char)bytes[0]);
}

static void stream_case(const char *name, Ready &on) {
    const Address x = on.memory(4);
    Handle other;
    create_stream(&other, 0);
    if (!strcmp(name, "dead_stream")) destroy_stream(other), wait(other);
    if (!strcmp(name, "default_stream")) fill(x, 0, 4, nullptr);
    if (!strcmp(name, "stream_for_graph")) launch_graph(other, on.stream);
    if (!strcmp(name, "other_thread")) std::thread([&] { wait(on.stream); }).join();
    if (!strcmp(name, "no_context")) set_current(nullptr), fill(x, 0, 4, on.stream);
    if (!strcmp(name, "dead_context")) release_context(0), fill(x, 0, 4, on.stream);
    if (!strcmp(name, "unordered")) {
        // Another stream is not waited for.
        char seen = 1;
        fill(x, 9, 4, other), download(&seen, x, 1, on.stream), wait(on.stream), say((unsigned char)seen);
    }
}

static void capture_case(const char *name, Ready &on) {
    const Address x = on.memory(4);
    Handle graph = on.stream, executable = nullptr;
    Address more;
    char seen = 0;
    say(begin_capture(on.stream, 1));
    if (!strcmp(name, "begins_twice")) say(begin_capture(on.stream, 1));
    if (!strcmp(name, "destroys_recording")) destroy_stream(on.stream);
    fill(x, 3, 4, on.stream);
    if (!strcmp(name, "waits")) say(wait(on.stream));
    if (!strcmp(name, "allocates")) say(allocate(&more, 4));
    if (!strcmp(name, "allocates_elsewhere")) std::thread([&] { set_current(on.context), say(allocate(&more, 4)); }).join();
    if (!strcmp(name, "downloads")) say(download(&seen, x, 1, on.stream));
    if (!strcmp(name, "wrong_thread")) std::thread([&] { say(end_capture(on.stream, &graph)); }).join();
    say(end_capture(on.stream, &graph)), say(graph != nullptr);
    if (!graph) return;
    say(instantiate(&executable, graph, 0)), destroy_graph(graph);
    if (!strcmp(name, "graph_twice")) destroy_graph(graph);
    fill(x, 1, 4, on.stream), download(&seen, x, 1, on.stream), wait(on.stream), say(seen);
    if (!strcmp(name, "graph_of_freed")) release(x), launch_graph(executable, on.stream), wait(on.stream);
    for (int turn = 0; turn < 2; turn++) {
        fill(x, 1, 4, on.stream), launch_graph(executable, on.stream);
        if (turn) destroy_executable(executable);
        download(&seen, x, 1, on.stream), wait(on.stream), say(seen);
    }
    if (!strcmp(name, "dead_graph")) launch_graph(executable, on.stream);
}

static void kernel_case(const char *name, Compiled &on) {
    const Address x = on.memory(100);
    Handle none = nullptr;
    if (!strcmp(name, "kernel")) {
        float seen[25] = {};
        say(on.run(x, 3)), download(seen, x, 100, on.stream), say(seen[3]), wait(on.stream), say(seen[3]);
    }
    if (!strcmp(name, "no_image")) say(load_module(&none, "this is no image that anybody made, and is longer than its head"));
    if (!strcmp(name, "no_function")) say(function(&none, on.module, "missing"));
    if (!strcmp(name, "too_many_threads")) say(on.run(x, 0, 1, 65)), say(on.run(x, 0, 1, 1025)), say(on.run(x, 0, 0, 1));
    if (!strcmp(name, "too_many_shared")) {
        Address value = x;
        void *list[] = {&value};
        function(&none, on.module, "shares");
        say(launch(none, 1, 1, 1, 1, 1, 1, 0, on.stream, list, nullptr));
        say(launch(none, 1, 1, 1, 1, 1, 1, 2048, on.stream, list, nullptr));
        say(launch(none, 1, 65536, 1, 1, 1, 1, 0, on.stream, list, nullptr));
    }
    if (!strcmp(name, "no_parameter")) {
        void *list[] = {nullptr, nullptr};
        launch(on.put, 1, 1, 1, 1, 1, 1, 0, on.stream, list, nullptr);
    }
    if (!strcmp(name, "wrong_parameter")) on.run((Address)&on, 0);
    if (!strcmp(name, "kernel_beyond")) on.run(x, 1 << 20), wait(on.stream);
    if (!strcmp(name, "kernel_behind")) on.run(x, 25), wait(on.stream);
    if (!strcmp(name, "kernel_before")) on.run(x, -1), wait(on.stream);
    if (!strcmp(name, "kernel_of_freed")) on.run(x, 0), release(x), wait(on.stream);
    if (!strcmp(name, "unloaded_early")) on.run(x, 0), unload(on.module), wait(on.stream);
    if (!strcmp(name, "leaks")) begin_capture(on.stream, 1), on.run(x, 0), end_capture(on.stream, &none), release_context(0);
    if (!strcmp(name, "recorded_lookup")) begin_capture(on.stream, 1), say(function(&none, on.module, "put")), say(end_capture(on.stream, &none));
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    const char *of = arguments[1], *name = arguments[2];
    int ordinal;
    if (!strcmp(name, "not_started")) return say(device(&ordinal, 0)), 0;
    if (!strcmp(name, "started")) return say(init(0)), say(device(&ordinal, 0)), 0;
    if (!strcmp(of, "memory")) {
        Ready on;
        memory_case(name, on);
    } else if (!strcmp(of, "stream")) {
        Ready on;
        stream_case(name, on);
    } else if (!strcmp(of, "capture")) {
        Ready on;
        capture_case(name, on);
    } else if (!strcmp(of, "kernel")) {
        Compiled on;
        kernel_case(name, on);
    } else if (!strcmp(of, "ranks")) {
        ranks_case(name);
    } else {
        product_case(name);
    }
    return 0;
}
