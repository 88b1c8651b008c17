/* The calling convention of compiled kernels, version 1.
 *
 * A kernel is a function of the shared object in a module file. Rank and dtype of each tensor are fixed by the
 * kernel's signature, which the file has; the kernel binds its symbolic dims from the shapes and checks them. */
#ifndef RELAX_KERNEL_H
#define RELAX_KERNEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Dense, row-major, aligned for its dtype. What a kernel writes to shares no byte with another tensor. */
typedef struct rx_tensor {
    void *data;
    const int64_t *shape;
} rx_tensor;

/* Tensors in the order of the parameters that are buffers, integers in that of the others. Gives 0 when it is done,
 * k > 0 when it stopped at entry k - 1 of the kernel's table of sites. */
typedef int32_t (*rx_kernel)(const rx_tensor *tensors, const int64_t *ints);

#ifdef __cplusplus
}
#endif

#endif
