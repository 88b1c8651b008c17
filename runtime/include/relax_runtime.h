/* Runs modules that `relax build` made. Link with the library `relax_capi`, static or shared.
 *
 * Functions that give a pointer give NULL when they fail; `rx_error` then says why. Values and modules are freed by
 * whoever got them. A module may be called from several threads at once; errors are those of the calling thread. */
#ifndef RELAX_RUNTIME_H
#define RELAX_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rx_module rx_module;
typedef struct rx_value rx_value;

typedef enum rx_dtype {
    RX_F16, RX_BF16, RX_F32, RX_F64,
    RX_I8, RX_I16, RX_I32, RX_I64,
    RX_U8, RX_U16, RX_U32, RX_U64,
    RX_BOOL
} rx_dtype;

typedef enum rx_kind {
    RX_OTHER, RX_TENSOR, RX_SHAPE, RX_TUPLE, RX_INT, RX_FLOAT
} rx_kind;

/* Loads the bytes of a module file; they may go afterwards. Its kernels become a part of this process: load what you
 * trust. They use as many threads as RELAX_THREADS says, else as the machine has. */
rx_module *rx_module_load(const void *bytes, size_t length);
void rx_module_free(rx_module *module);

/* What kernels may do with sums of floats: "exact", the interpreter's bits, or "reassociated". NULL for no module. */
const char *rx_module_numerics(const rx_module *module);

/* Calls a function that the module offers. */
rx_value *rx_module_call(const rx_module *module, const char *function,
                         const rx_value *const *arguments, size_t count);

/* What failed last in this thread, as text, until the next call that fails; never NULL. */
const char *rx_error(void);
/* The id of the trap, such as `boundary/dim`; NULL when it was no failed check of the program. */
const char *rx_error_trap(void);
/* The line of the source, from 1; 0 when there is none. */
size_t rx_error_line(void);

/* A tensor with a copy of these elements: dense, row-major, `length` bytes. */
rx_value *rx_tensor_new(int32_t dtype, const int64_t *shape, size_t rank, const void *data, size_t length);
rx_value *rx_shape_new(const int64_t *dims, size_t rank);
rx_value *rx_int_new(int64_t value);
rx_value *rx_float_new(double value);
rx_value *rx_tuple_new(const rx_value *const *fields, size_t count);
void rx_value_free(rx_value *value);

int32_t rx_value_kind(const rx_value *value);
/* -1 for what is no tensor. */
int32_t rx_tensor_dtype(const rx_value *value);
/* The elements, as long as the value is not freed; NULL for what is no tensor. */
const void *rx_tensor_data(const rx_value *value);
size_t rx_tensor_length(const rx_value *value);
/* Of a tensor or a shape. */
size_t rx_value_rank(const rx_value *value);
const int64_t *rx_value_dims(const rx_value *value);
size_t rx_tuple_count(const rx_value *value);
/* A value of its own. */
rx_value *rx_tuple_field(const rx_value *value, size_t index);
/* 0 for what is no integer. */
int64_t rx_value_int(const rx_value *value);
double rx_value_float(const rx_value *value);

#ifdef __cplusplus
}
#endif

#endif
