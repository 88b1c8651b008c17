// Cases of products: D of 2 x 2 is A of 2 x 3 times B of 3 x 2, all of f32, column by column.
#pragma once
#include "client.h"

struct Products : Ready {
    Handle library = nullptr, operation = nullptr, of_a = nullptr, of_b = nullptr, of_d = nullptr, preference = nullptr;
    Address a = memory(24), b = memory(24), d = memory(16), bias = memory(8), workspace = memory(1 << 20);
    // An algorithm is the first of what is found.
    uint64_t found[12] = {};
    float one = 1, zero = 0;

    Products() {
        create_library(&library);
        create_operation(&operation, 68, 0);
        create_layout(&of_a, 0, 2, 3, 2), create_layout(&of_b, 0, 3, 2, 3), create_layout(&of_d, 0, 2, 2, 2);
        create_preference(&preference);
        const uint64_t most = 1 << 20;
        set_preference(preference, 1, &most, 8);
        const float left[] = {1, 4, 2, 5, 3, 6}, right[] = {1, 0, -1, 2, 1, 0}, added[] = {10, 20};
        upload(a, left, 24, stream), upload(b, right, 24, stream), upload(bias, added, 8, stream), wait(stream);
    }
    int look() {
        int count = -1;
        const int status = heuristic(library, operation, of_a, of_b, of_d, of_d, preference, 1, found, &count);
        say(status), say(count);
        return status;
    }
    int ask(size_t bytes = 1 << 20) {
        return multiply(library, operation, &one, a, of_a, b, of_b, &zero, d, of_d, d, of_d, found, workspace, bytes, stream);
    }
    void show() {
        float seen[4] = {};
        download(seen, d, 16, stream), wait(stream);
        for (float value : seen) say((long long)value);
    }
    void epilogue(uint32_t which) { set_operation(operation, 7, &which, 4); }
};

static void product_case(const char *name) {
    Products on;
    const uint32_t coarse = 16;
    const int32_t many = 2, turned = 1;
    const int64_t little = 1;
    if (!strcmp(name, "product")) on.look(), say(on.ask()), on.show();
    if (!strcmp(name, "with_bias")) on.epilogue(6), set_operation(on.operation, 8, &on.bias, 8), on.look(), say(on.ask()), on.show();
    if (!strcmp(name, "relu")) on.epilogue(2), on.look(), say(on.ask()), on.show();
    if (!strcmp(name, "turned")) {
        // The same bytes as rows of 3 x 2, taken the other way round.
        const uint64_t rows = 3, columns = 2;
        const int64_t leading = 3;
        set_operation(on.operation, 3, &turned, 4);
        set_layout(on.of_a, 2, &rows, 8), set_layout(on.of_a, 3, &columns, 8), set_layout(on.of_a, 4, &leading, 8);
        on.look(), say(on.ask()), on.show();
    }
    if (!strcmp(name, "no_bias")) on.epilogue(4), on.look(), say(on.ask());
    if (!strcmp(name, "odd_bias")) {
        const Address odd = on.memory(64) + 4;
        on.epilogue(4), set_operation(on.operation, 8, &odd, 8), on.look(), on.ask();
    }
    if (!strcmp(name, "wrong_size")) set_operation(on.operation, 7, &little, 8);
    if (!strcmp(name, "no_attribute")) set_layout(on.of_a, 40, &little, 8);
    if (!strcmp(name, "short_leading")) set_layout(on.of_d, 4, &little, 8), on.look();
    if (!strcmp(name, "batches_differ")) set_layout(on.of_a, 5, &many, 4), on.look();
    if (!strcmp(name, "not_supported")) {
        const uint32_t doubles = 1;
        set_layout(on.of_a, 0, &doubles, 4), on.look();
    }
    if (!strcmp(name, "another_product")) on.look(), on.epilogue(2), on.ask();
    if (!strcmp(name, "not_aligned")) on.look(), on.a += 16, on.ask();
    if (!strcmp(name, "less_aligned")) set_preference(on.preference, 5, &coarse, 4), on.a = on.memory(40) + 16, on.look(), say(on.ask());
    if (!strcmp(name, "little_workspace")) on.look(), say(on.ask(1024));
    if (!strcmp(name, "workspace_beyond")) on.look(), on.ask(2 << 20);
    if (!strcmp(name, "short_matrix")) on.d = on.memory(12), on.look(), on.ask();
    if (!strcmp(name, "same_matrix")) on.d = on.b, on.look(), on.ask();
    if (!strcmp(name, "dead_operation")) destroy_operation(on.operation), on.look();
    if (!strcmp(name, "dead_library")) destroy_library(on.library), on.look();
    if (!strcmp(name, "freed_workspace")) on.look(), on.ask(), release(on.workspace), wait(on.stream);
    if (!strcmp(name, "captured")) {
        // The bias of the time of recording is used, and the factors.
        Handle graph, executable;
        on.epilogue(4), set_operation(on.operation, 8, &on.bias, 8), on.look();
        begin_capture(on.stream, 1), on.ask(), end_capture(on.stream, &graph), instantiate(&executable, graph, 0);
        set_operation(on.operation, 8, &on.d, 8), on.one = 100;
        launch_graph(executable, on.stream), on.show();
    }
}
