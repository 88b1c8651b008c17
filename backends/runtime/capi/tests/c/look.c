/* Looks at a module, lends memory to it, registers a host function, and meets limits and mistakes. */
#include "relax_runtime.h"

#include <stdio.h>
#include <string.h>

static int released = 0;

static void release(void *context) { *(int *)context += 1; }

/* Multiplies by 3 times the keyword, refuses negative elements, and fails without words for 0. */
static rx_value *scale(void *context, const rx_call *call) {
    const float factor = *(const float *)context;
    rx_value *x = rx_call_argument(call, 0), *by = rx_call_keyword(call, "by"), *y = NULL;
    const float *elements = rx_tensor_data(x);
    float scaled[2];
    if (rx_call_count(call) == 1 && rx_tensor_length(x) == sizeof scaled && elements[0] > 0) {
        for (int i = 0; i < 2; i++) scaled[i] = elements[i] * factor * (float)rx_value_int(by);
        y = rx_tensor_new(RX_F32, rx_value_dims(x), 1, scaled, sizeof scaled);
    }
    const int negative = elements[0] < 0;
    rx_value_free(x);
    rx_value_free(by);
    return negative ? rx_fail("a negative factor") : y;
}

static void host(const rx_module *module, float first) {
    const int64_t two = 2;
    const float elements[] = {first, 5};
    rx_value *x = rx_tensor_new(RX_F32, &two, 1, elements, sizeof elements);
    const rx_value *arguments[] = {x};
    rx_value *y = rx_module_call(module, "host", arguments, 1);
    if (y) printf("%g %g\n", ((const float *)rx_tensor_data(y))[0], ((const float *)rx_tensor_data(y))[1]);
    else if (rx_error_trap()) printf("%s, line %zu\n", rx_error(), rx_error_line());
    else printf("%s\n", rx_error());
    rx_value_free(y);
    rx_value_free(x);
}

static void look(const rx_module *module) {
    for (size_t at = 0; rx_function_name(module, at); at++) {
        const char *name = rx_function_name(module, at);
        printf("%s(%lld): `%s` of %s, dtype %d, rank %lld", name, (long long)rx_function_parameters(module, name),
               rx_function_parameter(module, name, 0), rx_function_type(module, name, 0),
               rx_function_dtype(module, name, 0), (long long)rx_function_rank(module, name, 0));
        if (rx_function_dim(module, name, 0, 0)) printf(", dims %s", rx_function_dim(module, name, 0, 0));
        printf("\n");
    }
    if (rx_function_parameters(module, "nothing") != -1 || rx_function_dim(module, "main", 0, 1)) printf("wrong\n");
}

static void into(const rx_module *module) {
    const int64_t two = 2;
    float x[] = {2, 5}, y[2] = {0, 0};
    rx_value *lent = rx_tensor_lend(RX_F32, &two, 1, x, release, &released);
    const rx_value *arguments[] = {lent};
    printf("lent %d", released);
    const rx_buffer buffers[] = {{y, 4, RX_F32}, {y, 8, RX_F64}, {y, 8, RX_F32}};
    char words[2][200] = {"", ""};
    rx_value *result = NULL;
    for (int k = 0; k < 3; k++) {
        result = rx_module_call_into(module, "main", arguments, 1, &buffers[k], 1);
        if (!result && k < 2) snprintf(words[k], sizeof words[k], "%s", rx_error());
    }
    rx_value_free(lent);
    printf(" %d\n%s\n%s\n%g %g\n", released, words[0], words[1], y[0], y[1]);
    rx_value_free(result);
}

int main(int count, char **words) {
    rx_options options = {sizeof options, 2, 0, 0};
    rx_module *module = rx_module_open(count == 2 ? words[1] : "", &options);
    if (!module) return printf("%s\n", rx_error()), 1;
    if (strstr(rx_version(), "module files of version")) printf("versions are told\n");
    look(module);
    printf("missing %s\n", rx_module_missing(module, 0));
    host(module, 2);
    const float factor = 3;
    if (!rx_module_register(module, "mine.scale", scale, (void *)&factor)) printf("%s\n", rx_error());
    host(module, 2);
    host(module, -1);
    host(module, 0);
    printf("missing %s\n", rx_module_missing(module, 0) ? "something" : "nothing");
    into(module);
    rx_module_free(module);
    options.memory = 64;
    module = rx_module_open(words[1], &options);
    static float many[1000];
    const int64_t thousand = 1000;
    rx_value *x = rx_tensor_lend(RX_F32, &thousand, 1, many, NULL, NULL);
    const rx_value *arguments[] = {x};
    rx_value *y = rx_module_call(module, "main", arguments, 1);
    printf("%.13s\n", y ? "a value" : rx_error());
    rx_value_free(x);
    rx_module_free(module);
    options.size = 1;
    if (!rx_module_open(words[1], &options)) printf("%.27s\n", rx_error());
    if (!rx_module_open(NULL, NULL)) printf("%s\n", rx_error());
    released = 0;
    if (!rx_tensor_lend(RX_F32, &thousand, 1, (const char *)many + 1, release, &released) && strstr(rx_error(), "not aligned"))
        printf("not aligned, %s\n", released == 1 ? "released" : "kept");
    return 0;
}
