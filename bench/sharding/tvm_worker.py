"""TVM's distributed Relax on a Disco session of this processor: prints a line of JSON a size. Arguments: number of the program, workers, how.

`symbolic`: the dims of the program are symbolic. `multiple`: the extent of a cut axis is P * k with a symbolic k, which the function takes as
an `R.Shape`; another size is not executed. `constant`: the program is compiled for each size with its extents.

The pipeline is that of TVM's own tests: `annotate_sharding` on the inputs, `LegalizeOps`, `PropagateSharding`, `LowerGlobalViewToLocalView`,
`LegalizeRedistribute`, `LowerDistIR`, `LegalizeOps`, `tvm.compile` for `llvm`. The wheel has no collective library for CPUs:
`runtime.disco.allreduce` and three others are replaced by the NumPy functions below, which do what those of NCCL do.
"""

import ctypes
import json
import multiprocessing
import os
import pathlib
import queue
import sys
import tempfile
import threading
import time

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.distributed import DeviceMesh, Placement, transform
from tvm.relax.distributed.type import PlacementSpecKind

from programs import PROGRAMS, dims, expected, verdict

# In apache-tvm 0.27.0.post1 `tvm.runtime.disco` is None: it is imported before its library is loaded. A second import finds it.
sys.modules.pop("tvm.runtime.disco._ffi_api", None)
from tvm.runtime.disco.session import ThreadedSession

#: Seconds for one size, and for a collective.
LIMIT, WAIT = 60, 20
#: glibc's `mallopt` fills allocated memory by this parameter: uninitialized elements of a result are then not 0 by chance.
M_PERTURB = -6


def placement(cut):
    return Placement.from_text("R" if cut is None else f"S[{cut}]")


def module(program, form, arrays, workers, how):
    """The annotated program, and the values of the symbols that it takes as a shape."""
    mesh, symbols, values = DeviceMesh((workers,), tvm.ir.Range(0, workers)), {}, {}
    builder, variables = relax.BlockBuilder(), []
    for (name, array), names, cut in zip(arrays.items(), dims(program), program.cuts):
        shape = list(array.shape) if how == "constant" else list(names)
        for axis, dim in enumerate(shape):
            if isinstance(dim, str):
                symbol = symbols.setdefault(dim, tvm.tirx.Var(dim, "int64"))
                shape[axis] = symbol
                if how == "multiple" and axis == cut:
                    values[dim] = array.shape[axis] // workers
                    shape[axis] = symbol * workers
        variables.append(relax.Var(name, relax.TensorType(shape, str(array.dtype))))
    taken = [relax.Var("extents", relax.ShapeType([symbols[name] for name in values]))] if values else []
    with builder.function("main", variables + taken):
        with builder.dataflow():
            given = [
                builder.emit(relax.op.distributed.annotate_sharding(x, mesh, placement(cut))) for x, cut in zip(variables, program.cuts)
            ]
            result = builder.emit_output(form(relax, *given))
        builder.emit_func_output(result)
    made = builder.get()
    made.update_global_info("mesh", [mesh])
    return made, list(values.values())


def lowered(made):
    """The program of a worker, and the axis along which its result is cut."""
    made = relax.transform.LegalizeOps()(made)
    for step in (transform.PropagateSharding, transform.LowerGlobalViewToLocalView, transform.LegalizeRedistribute):
        made = step()(made)
    [spec] = made["main"].ret_ty.placement.dim_specs
    made = relax.transform.LegalizeOps()(transform.LowerDistIR()(made))
    return made, spec.axis if spec.kind == PlacementSpecKind.kSharding else None


def replace_collectives(workers):
    """Collectives among the threads of a session; each gives the other workers its buffer and writes its own result."""
    barrier, buffers = threading.Barrier(workers), [None] * workers
    rank = tvm_ffi.get_global_func("runtime.disco.worker_rank")

    def exchanged(buffer):
        own = rank()
        buffers[own] = None if buffer is None else buffer.numpy()
        barrier.wait(WAIT)
        found = list(buffers)
        barrier.wait(WAIT)
        return own, found

    def write(target, found):
        target.copyfrom(np.ascontiguousarray(found).reshape(target.shape))

    def allreduce(sent, kind, _, target):
        reduction = (np.sum, np.prod, np.min, np.max, np.mean)[kind[0]]
        write(target, reduction(np.stack(exchanged(sent)[1]), axis=0).astype(str(sent.dtype)))

    def allgather(sent, _, target):
        write(target, np.concatenate([buffer.ravel() for buffer in exchanged(sent)[1]]))

    def broadcast(sent, _, target):
        write(target, exchanged(sent)[1][0])

    def scatter(sent, _, target):
        own, found = exchanged(sent)
        write(target, found[0].reshape(workers, -1)[own] if found[0].size else found[0])

    for name, function in {
        "allreduce": allreduce,
        "allgather": allgather,
        "broadcast_from_worker0": broadcast,
        "scatter_from_worker0": scatter,
    }.items():
        tvm_ffi.register_global_func(f"runtime.disco.{name}", function, override=True)


def called(path, arrays, extents, workers, axis):
    """The whole result. Only worker 0 gets the inputs; those of the others are NaN, or 0."""
    session = ThreadedSession(workers)
    replace_collectives(workers)
    given = []
    for array in arrays.values():
        given.append(session.empty(array.shape, str(array.dtype)))
        for worker in range(workers):
            other = np.full_like(array, np.nan if array.dtype == np.float32 else 0)
            given[-1].debug_copy_from(worker, other if worker else array)
    shapes = [tvm_ffi.Shape(extents)] if extents else []
    found = session.load_vm_module(path)["main"](*given, *shapes)
    parts = [found.debug_get_from_remote(worker).numpy() for worker in range(workers)]
    if axis is not None:
        return [np.concatenate(parts, axis)]
    return parts


def answer(number, form, size, workers, how):
    program = PROGRAMS[number]
    arrays = program.inputs(size)
    cut = [array.shape[axis] for array, axis in zip(arrays.values(), program.cuts) if axis is not None]
    made, extents = module(program, program.tvm[form], arrays, workers, how)
    made, axis = lowered(made)
    built = tvm.compile(made, target="llvm")
    if how == "multiple" and any(extent % workers for extent in cut):
        return "not executed: the extent of a cut axis is no multiple of the number of workers"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.so")
        built.export_library(path)
        said = [verdict(part, expected(program, arrays)) for part in called(path, arrays, extents, workers, axis)]
    return next((word for word in said if word != "right"), "right")


def child(number, form, size, workers, how, errors, answers):
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT), 2)
    ctypes.CDLL(None).mallopt(M_PERTURB, 170)
    try:
        said = answer(number, form, size, workers, how)
    except Exception as error:  # What is refused is what is asked.
        first = str(error).strip().splitlines() or [type(error).__name__]
        said = f"refused: {type(error).__name__}: {first[0]}"
    answers.put(said)
    answers.close()
    answers.join_thread()
    os._exit(0)


def attempt(number, form, size, workers, how):
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    with tempfile.TemporaryDirectory() as folder:
        errors = pathlib.Path(folder, "errors")
        process = fork.Process(target=child, args=(number, form, size, workers, how, str(errors), answers))
        process.start()
        said, until = None, time.monotonic() + LIMIT
        while said is None:
            try:
                said = answers.get(timeout=0.2)
            except queue.Empty:
                if process.exitcode is not None:
                    last = [line for line in errors.read_text(errors="replace").splitlines() if "Error" in line]
                    said = f"crashed: the process ended with {process.exitcode}: {(last or [''])[-1].strip()}"
                elif time.monotonic() > until:
                    said = f"crashed: no answer in {LIMIT} s"
        process.kill()
    return said


def one(number, size, workers, how):
    for form in range(len(PROGRAMS[number].tvm)):
        said = attempt(number, form, size, workers, how)
        if not said.startswith("refused"):
            break
    return said


def main():
    number, workers, how = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    print(json.dumps({"version": tvm.__version__}))
    for size in PROGRAMS[number].sizes:
        print(json.dumps({"size": size, "said": one(number, size, workers, how)}), flush=True)


if __name__ == "__main__":
    main()
