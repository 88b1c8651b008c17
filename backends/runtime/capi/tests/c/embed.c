/* Loads a module file, calls `main` on a vector, and looks at what comes of it and of mistakes. */
#include "relax_runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    *length = (size_t)ftell(file);
    rewind(file);
    void *bytes = malloc(*length);
    if (fread(bytes, 1, *length, file) != *length) return NULL;
    fclose(file);
    return bytes;
}

static void call(const rx_module *module, const char *name, const float *elements, int64_t n) {
    rx_value *x = rx_tensor_new(RX_F32, &n, 1, elements, (size_t)n * sizeof *elements);
    const rx_value *arguments[] = {x};
    rx_value *y = rx_module_call(module, name, arguments, 1);
    if (y) {
        const float *result = rx_tensor_data(y);
        printf("kind %d, dtype %d, rank %zu, %lld elements:", rx_value_kind(y), rx_tensor_dtype(y), rx_value_rank(y),
               (long long)rx_value_dims(y)[0]);
        for (int64_t i = 0; i < rx_value_dims(y)[0]; i++) printf(" %g", result[i]);
        printf("\n");
    } else {
        printf("%s at line %zu: %s\n", rx_error_trap() ? rx_error_trap() : "no trap", rx_error_line(), rx_error());
    }
    rx_value_free(y);
    rx_value_free(x);
}

int main(int count, char **words) {
    size_t length = 0;
    void *bytes = count == 2 ? read_file(words[1], &length) : NULL;
    if (!bytes) return 2;
    rx_module *module = rx_module_load(bytes, length);
    if (!module) {
        printf("%s\n", rx_error());
        return 1;
    }
    printf("numerics: %s\n", rx_module_numerics(module));
    const float some[] = {1.0f, 2.5f, -3.0f}, negative[] = {-1.0f};
    call(module, "main", some, 3);
    call(module, "main", some, 0);
    call(module, "main", negative, 1);
    call(module, "nothing", some, 1);
    ((char *)bytes)[length / 2] ^= 1;
    printf("damaged: %s\n", rx_module_load(bytes, length) ? "loaded" : "refused");
    rx_module_free(module);
    free(bytes);
    return 0;
}
