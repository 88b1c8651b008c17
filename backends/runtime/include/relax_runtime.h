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

/* The version of the runtime, and that of the module files that it reads. */
const char *rx_version(void);

/* What calls may use; 0 stands for what is usual. */
typedef struct rx_options {
    size_t size;    /* sizeof(rx_options) */
    size_t threads; /* of kernels; usual: RELAX_THREADS, else those of the machine. Results do not depend on it */
    size_t memory;  /* bytes of all tensors in use at once; usual: 8 GiB */
    uint64_t steps; /* instructions and iterations of a call; usual: no limit */
} rx_options;

/* Loads a module file. Its kernels become a part of this process: load what you trust. `options` may be null.
 * rx_module_open maps the file, so that its constants are not copied: nobody may write into it while the module lives; another one
 * may take its place. The bytes for the others may go afterwards. No folder needs to be writable (Linux). */
rx_module *rx_module_open(const char *path, const rx_options *options);
rx_module *rx_module_load(const void *bytes, size_t length);
rx_module *rx_module_load_with(const void *bytes, size_t length, const rx_options *options);
void rx_module_free(rx_module *module);

/* The functions that a module offers, from index 0 on; NULL behind the last one. Texts live as long as the module. */
const char *rx_function_name(const rx_module *module, size_t index);
/* How many parameters a function has; -1 where there is no such function. */
int64_t rx_function_parameters(const rx_module *module, const char *function);
/* Of a parameter: its name, empty where nothing is checked of it; its annotation, such as `Tensor((n, 4), "f32")`; its dtype, -1 of what
 * is no tensor; its rank, -1 where it is not known; a dim as the annotation has it, such as `n` or `4`. */
const char *rx_function_parameter(const rx_module *module, const char *function, size_t index);
const char *rx_function_type(const rx_module *module, const char *function, size_t index);
int32_t rx_function_dtype(const rx_module *module, const char *function, size_t index);
int64_t rx_function_rank(const rx_module *module, const char *function, size_t index);
const char *rx_function_dim(const rx_module *module, const char *function, size_t index, size_t axis);
/* Whether a parameter is donated: the function may overwrite the memory of its argument. -1 where there is no such parameter. */
int32_t rx_function_donated(const rx_module *module, const char *function, size_t index);

/* What kernels may do with sums of floats: "exact", the interpreter's bits, or "reassociated". NULL for no module. */
const char *rx_module_numerics(const rx_module *module);

/* Calls a function that the module offers. Arguments stay as they are: tensors of donated parameters are copied. */
rx_value *rx_module_call(const rx_module *module, const char *function,
                         const rx_value *const *arguments, size_t count);

/* The same, and copies the elements of the result, a tensor or a tuple of tensors, into these buffers of the caller, one for each tensor.
 * NULL where a buffer has another dtype or is too short; then nothing is copied. */
typedef struct rx_buffer {
    void *data;
    size_t length; /* bytes */
    int32_t dtype;
} rx_buffer;
rx_value *rx_module_call_into(const rx_module *module, const char *function, const rx_value *const *arguments,
                              size_t count, const rx_buffer *outputs, size_t outputs_count);

/* The same, and takes the values of donated parameters, also where it fails: it frees them and sets their pointers to NULL. Their tensors
 * are overwritten, and the result may be in their memory. A tensor is copied where it has another name, such as a field of a tuple
 * that was not freed yet, and where its memory is lent. Other values stay. */
rx_value *rx_module_call_donating(const rx_module *module, const char *function, rx_value **arguments, size_t count);

/* Host functions: what the program calls by name and the module does not have. */
typedef struct rx_call rx_call;
/* Gives a value of its own, or what rx_fail gives. */
typedef rx_value *(*rx_host)(void *context, const rx_call *call);
/* The host functions that the program calls and that are not registered, from index 0 on; NULL behind the last one. */
const char *rx_module_missing(const rx_module *module, size_t index);
/* Before the module is used by several threads. The function may be called from any thread. 1, or 0 where something is null. */
int32_t rx_module_register(rx_module *module, const char *name, rx_host host, void *context);
size_t rx_call_count(const rx_call *call);
/* Values of their own. */
rx_value *rx_call_argument(const rx_call *call, size_t index);
rx_value *rx_call_keyword(const rx_call *call, const char *name);
/* Notes why a host function fails; gives NULL. The call then stops with the trap `call/host` and this message. */
rx_value *rx_fail(const char *message);

/* What failed last in this thread, as text, until the next call that fails; never NULL. */
const char *rx_error(void);
/* The id of the trap, such as `boundary/dim`; NULL when it was no failed check of the program. */
const char *rx_error_trap(void);
/* The line of the source, from 1; 0 when there is none. */
size_t rx_error_line(void);
/* Further facts, such as the values of symbolic dims, from index 0 on; NULL behind the last one. */
const char *rx_error_note(size_t index);

/* A tensor with a copy of these elements: dense, row-major, `length` bytes. */
rx_value *rx_tensor_new(int32_t dtype, const int64_t *shape, size_t rank, const void *data, size_t length);
/* A tensor whose elements stay where they are: not copied, and not changed until `release` is called with `context`, once and from any
 * thread, when nothing uses them any more; that may be a result of a call. They are aligned for the dtype. `release` may be null. It
 * is also called where this fails. */
rx_value *rx_tensor_lend(int32_t dtype, const int64_t *shape, size_t rank, const void *data,
                         void (*release)(void *context), void *context);
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
