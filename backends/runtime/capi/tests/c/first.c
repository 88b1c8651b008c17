/* cc first.c $(pkg-config --cflags --libs relax) -o first && ./first double.rxm */
#include <relax_runtime.h>
#include <stdio.h>

int main(int count, char **words) {
    rx_module *module = count == 2 ? rx_module_open(words[1], NULL) : NULL;
    if (!module) {
        fprintf(stderr, "%s\n", rx_error());
        return 1;
    }
    for (size_t at = 0; rx_function_name(module, at); at++) {
        const char *name = rx_function_name(module, at);
        for (int64_t k = 0; k < rx_function_parameters(module, name); k++)
            printf("%s: %s: %s\n", name, rx_function_parameter(module, name, k), rx_function_type(module, name, k));
    }
    float x[] = {1, 2.5f, -3}, y[3];
    const int64_t shape[] = {3};
    rx_value *input = rx_tensor_lend(RX_F32, shape, 1, x, NULL, NULL);
    const rx_value *arguments[] = {input};
    const rx_buffer output = {y, sizeof y, RX_F32};
    rx_value *result = rx_module_call_into(module, "main", arguments, 1, &output, 1);
    if (result) printf("%g %g %g\n", y[0], y[1], y[2]);
    else printf("[%s] %s, line %zu\n", rx_error_trap() ? rx_error_trap() : "", rx_error(), rx_error_line());
    rx_value_free(result);
    rx_value_free(input);
    rx_module_free(module);
    return 0;
}
