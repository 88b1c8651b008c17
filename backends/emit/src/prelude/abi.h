/* relax_kernel.h, ABI 3 */
#include <stdint.h>

/* Dense, row-major; rank and dtype are fixed by the kernel's signature. */
typedef struct rx_tensor {
    void *data;
    const int64_t *shape;
} rx_tensor;

/* Runs part(context, 0) to part(context, parts - 1), in any order and at once: 0, or what the first of them
   gave that did not give 0. */
typedef struct rx_threads {
    int64_t count;
    int32_t (*run)(const struct rx_threads *threads, int64_t parts,
                   int32_t (*part)(void *context, int64_t at), void *context);
    /* The steps that are left for the run, of all its threads; NULL without a limit. */
    int64_t *steps;
} rx_threads;

/* Buffers in the order of the parameters, then `int` parameters in order. 0: done. k > 0: a trap,
   site k - 1 of the kernel's table. RX_OUT_OF_STEPS: too few steps are left. A buffer that a kernel writes does not overlap another one.
   Without threads there is one, and no limit of steps. */
#define RX_OUT_OF_STEPS (-1)
typedef int32_t (*rx_kernel)(const rx_tensor *tensors, const int64_t *ints, const rx_threads *threads);
