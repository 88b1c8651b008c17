/* A kernel as `relax build` compiles one: Y[i] = 2 X[i]; site 0 when the first element is negative. */
#include "relax_kernel.h"

int32_t double_it(const rx_tensor *tensors, const int64_t *ints) {
    const float *x = tensors[0].data;
    float *y = tensors[1].data;
    (void)ints;
    if (tensors[0].shape[0] != tensors[1].shape[0]) return 2;
    if (tensors[0].shape[0] > 0 && x[0] < 0.0f) return 1;
    for (int64_t i = 0; i < tensors[0].shape[0]; i++) y[i] = 2.0f * x[i];
    return 0;
}
