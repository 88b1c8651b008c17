/* A function of a module as a callable of Python, as other libraries' bindings are: it gives a value that is freed with its last
   reference. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "relax_runtime.h"

typedef struct {
    const rx_module *module;
    const rx_value *const *arguments;
    size_t count;
} prepared;

static void free_value(PyObject *capsule) { rx_value_free(PyCapsule_GetPointer(capsule, NULL)); }

static void free_prepared(PyObject *capsule) { PyMem_Free(PyCapsule_GetPointer(capsule, NULL)); }

static PyObject *call(PyObject *self, PyObject *unused) {
    (void)unused;
    const prepared *given = PyCapsule_GetPointer(self, NULL);
    rx_value *result = rx_module_call(given->module, "main", given->arguments, given->count);
    if (result == NULL) return PyErr_Format(PyExc_RuntimeError, "%s", rx_error());
    return PyCapsule_New(result, NULL, free_value);
}

static PyMethodDef call_method = {"call", call, METH_NOARGS, NULL};

/* prepare(module, arguments, count): addresses, which stay valid for as long as the callable. */
static PyObject *prepare(PyObject *self, PyObject *args) {
    (void)self;
    Py_ssize_t module, arguments, count;
    if (!PyArg_ParseTuple(args, "nnn", &module, &arguments, &count)) return NULL;
    prepared *given = PyMem_Malloc(sizeof *given);
    if (given == NULL) return PyErr_NoMemory();
    *given = (prepared){(const rx_module *)module, (const rx_value *const *)arguments, (size_t)count};
    PyObject *capsule = PyCapsule_New(given, NULL, free_prepared);
    if (capsule == NULL) {
        PyMem_Free(given);
        return NULL;
    }
    PyObject *callable = PyCFunction_New(&call_method, capsule);
    Py_DECREF(capsule);
    return callable;
}

static PyMethodDef methods[] = {{"prepare", prepare, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef binding = {PyModuleDef_HEAD_INIT, "binding", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_binding(void) { return PyModule_Create(&binding); }
