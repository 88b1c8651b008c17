/* Gives a tensor up to `keep`, whose result then lies where the tensor lay; a tensor with another name is copied. */
#include "relax_runtime.h"

#include <stdio.h>

int main(int count, char **words) {
    rx_module *module = count == 2 ? rx_module_open(words[1], NULL) : NULL;
    if (!module) return 1;
    printf("donated: %d %d %d\n", rx_function_donated(module, "keep", 0), rx_function_donated(module, "main", 0),
           rx_function_donated(module, "keep", 1));
    const float elements[] = {1, 2};
    const int64_t n = 2;
    rx_value *x = rx_tensor_new(RX_F32, &n, 1, elements, sizeof elements);
    const void *data = rx_tensor_data(x);

    /* The caller keeps it. */
    const rx_value *kept[] = {x};
    rx_value *y = rx_module_call(module, "keep", kept, 1);
    printf("called: %s\n", rx_tensor_data(y) == data ? "the same memory" : "a copy");
    rx_value_free(y);

    /* It has another name. */
    rx_value *pair = rx_tuple_new(kept, 1), *given[] = {x};
    y = rx_module_call_donating(module, "keep", given, 1);
    printf("named twice: %s, %s\n", rx_tensor_data(y) == data ? "the same memory" : "a copy", given[0] ? "kept" : "taken");
    rx_value_free(y);

    /* The other one is the only one now. */
    given[0] = rx_tuple_field(pair, 0);
    rx_value_free(pair);
    y = rx_module_call_donating(module, "keep", given, 1);
    printf("given up: %s, %g\n", rx_tensor_data(y) == data ? "the same memory" : "a copy", ((const float *)rx_tensor_data(y))[1]);
    rx_value_free(y);

    /* What is lent is not overwritten. */
    given[0] = rx_tensor_lend(RX_F32, &n, 1, elements, NULL, NULL);
    y = rx_module_call_donating(module, "keep", given, 1);
    printf("lent: %s\n", rx_tensor_data(y) == elements ? "the same memory" : "a copy");
    rx_value_free(y);

    /* One value cannot be given up twice; it stays. */
    x = rx_tensor_new(RX_F32, &n, 1, elements, sizeof elements);
    rx_value *twice[] = {x, x};
    printf("%s\n", rx_module_call_donating(module, "keep", twice, 2) ? "called" : rx_error());
    rx_value_free(x);

    given[0] = NULL;
    printf("%s\n", rx_module_call_donating(module, "keep", given, 1) ? "called" : rx_error());
    rx_module_free(module);
    return 0;
}
