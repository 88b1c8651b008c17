/* The calling convention of compiled kernels, version 2.
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

/* The threads that a kernel may use. `run` calls part(context, 0) to part(context, parts - 1), in any order and at
 * once, and comes back when all have ended: 0, or what the first of those gave that did not give 0; parts after it may
 * not have run. A part may call it as well. */
typedef struct rx_threads {
    int64_t count;
    int32_t (*run)(const struct rx_threads *threads, int64_t parts,
                   int32_t (*part)(void *context, int64_t at), void *context);
} rx_threads;

/* Tensors in the order of the parameters that are buffers, integers in that of the others. Gives 0 when it is done,
 * k > 0 when it stopped at entry k - 1 of the kernel's table of sites. `threads` may be null: then there is one. The result
 * does not depend on it. */
/* An object may also offer `int64_t *relax_notes(void)`: an array of 8 elements of the calling thread, where a kernel or a part of it notes the
 * values for the message of the site before it gives k. */
typedef int32_t (*rx_kernel)(const rx_tensor *tensors, const int64_t *ints, const rx_threads *threads);

#ifdef __cplusplus
}
#endif

#endif
