/* relax_kernel.h, ABI 1 */
#include <stdint.h>

/* Dense, row-major; rank and dtype are fixed by the kernel's signature. */
typedef struct rx_tensor {
    void *data;
    const int64_t *shape;
} rx_tensor;

/* Buffers in the order of the parameters, then `int` parameters in order. 0: done. k > 0: a trap,
   site k - 1 of the kernel's table. A buffer that a kernel writes does not overlap another one. */
typedef int32_t (*rx_kernel)(const rx_tensor *tensors, const int64_t *ints);
