"""One competitor in a process of its own: it obeys the lines of JSON that `run.py` writes to its standard input.

    {"load": WORKLOAD}      compiles, or loads; {"seconds": ...}
    {"case": {"n": 7}}      calls once with the inputs, writes the results; {"seconds": ..., "results": [FILE, ...]}
    {"time": 0.04}          calls for so long; {"seconds": the least}

What fails is answered with {"error": ...}.
"""

import ctypes
import importlib.util
import json
import math
import os
import subprocess
import sys
import sysconfig
import time

import numpy as np

from vocabulary import Jax, Numeric, Torch
from workloads import WORKLOADS

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
# Where `relax` and `librelax_capi.so` of ours are.
BUILD = os.environ.get("BUILD_OF_OURS", os.path.join(ROOT, "target", "release"))


def binding(folder):
    """The C interface as Python calls that of other libraries: compiled here for this Python."""
    path = os.path.join(folder, "binding.so")
    source, library = os.path.join(HERE, "binding.c"), BUILD
    includes = ["-I", sysconfig.get_paths()["include"], "-I", os.path.join(ROOT, "backends", "runtime", "include")]
    linked = ["-L", library, "-lrelax_capi", f"-Wl,-rpath,{library}"]
    run_whole([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", source, *includes, *linked, "-o", path])
    spec = importlib.util.spec_from_file_location("binding", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Ours:
    """A module, through the C interface."""

    def __init__(self, name, folder, threads):
        module = os.path.join(folder, f"{name}.rxm")
        relax = os.path.join(BUILD, "relax")
        model = os.path.join(folder, f"{name}.onnx")
        run_whole([relax, "-q", "build", "--fast", model, "-o", module])
        self.library = library = ctypes.CDLL(os.path.join(BUILD, "librelax_capi.so"))
        for function in ("rx_module_load", "rx_module_call", "rx_tensor_new", "rx_tensor_data", "rx_tuple_field"):
            getattr(library, function).restype = ctypes.c_void_p
        library.rx_error.restype = ctypes.c_char_p
        library.rx_value_free.argtypes, library.rx_value_free.restype = [ctypes.c_void_p], None
        library.rx_tensor_length.restype = library.rx_tuple_count.restype = ctypes.c_size_t
        with open(module, "rb") as file:
            data = file.read()
        self.module = ctypes.c_void_p(library.rx_module_load(data, ctypes.c_size_t(len(data))))
        assert self.module.value, library.rx_error()
        self.given, self.binding = [], binding(folder)

    def prepare(self, inputs):
        for value in self.given:
            self.library.rx_value_free(ctypes.c_void_p(value))
        self.given = [self.tensor(value) for value in inputs.values()]
        self.arguments = (ctypes.c_void_p * len(self.given))(*self.given)
        return self.binding.prepare(self.module.value, ctypes.addressof(self.arguments), len(self.given))

    def tensor(self, value):
        shape = (ctypes.c_int64 * value.ndim)(*value.shape)
        data, f32 = ctypes.c_void_p(value.ctypes.data), 2
        return self.library.rx_tensor_new(f32, shape, ctypes.c_size_t(value.ndim), data, ctypes.c_size_t(value.nbytes))

    def results(self):
        count = ctypes.c_size_t(len(self.given))
        found = ctypes.c_void_p(self.library.rx_module_call(self.module, b"main", self.arguments, count))
        assert found.value, self.library.rx_error()
        count = self.library.rx_tuple_count(found)
        fields = [ctypes.c_void_p(self.library.rx_tuple_field(found, ctypes.c_size_t(i))) for i in range(count)] or [found]
        copies = []
        for field in fields:
            length = self.library.rx_tensor_length(field) // 4
            data = (ctypes.c_float * length).from_address(self.library.rx_tensor_data(field))
            copies.append(np.array(data, dtype=np.float32))
        for value in {field.value for field in [*fields, found]}:
            self.library.rx_value_free(ctypes.c_void_p(value))
        return copies


class OfPython:
    """The Python package on the same file: arrays of NumPy by the buffer protocol."""

    def __init__(self, name, folder, threads):
        import relaxc
        self.module = relaxc.compile(os.path.join(folder, f"{name}.onnx"), threads=threads)

    def prepare(self, inputs):
        arguments = list(inputs.values())
        self.call = lambda: self.module(*arguments)
        return self.call

    def results(self):
        found = self.call()
        return [value.numpy() for value in (found if isinstance(found, tuple) else [found])]


class OfNumpy:
    def __init__(self, name, folder, threads):
        from scipy.special import erf
        self.workload, self.words = WORKLOADS[name], Numeric(np, erf)
        self.weights = self.workload.values_of_weights(np)

    def prepare(self, inputs):
        self.call = lambda: self.workload.build(self.words, inputs, self.weights)
        return self.call

    def results(self):
        return self.call()


class OfOnnxruntime:
    def __init__(self, name, folder, threads):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        path = os.path.join(folder, f"{name}.onnx")
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def prepare(self, inputs):
        self.results = lambda: self.session.run(None, inputs)
        return self.results


class OfTorch:
    """PyTorch as it is."""

    def __init__(self, name, folder, threads):
        import torch
        torch.set_num_threads(threads)
        torch.inference_mode().__enter__()
        workload, words, self.torch = WORKLOADS[name], Torch(torch), torch
        weights = workload.values_of_weights(np).items()
        weights = {key: torch.from_numpy(np.ascontiguousarray(value.T if value.ndim == 2 else value)) for key, value in weights}

        def function(inputs):
            return workload.build(words, inputs, weights)
        self.function = function

    def prepare(self, inputs):
        inputs = {name: self.torch.from_numpy(value) for name, value in inputs.items()}
        self.call = lambda: self.function(inputs)
        return self.call

    def results(self):
        return [value.numpy() for value in self.call()]


class OfTorchCompile(OfTorch):
    """PyTorch's compiler, for all shapes from one compilation."""

    def __init__(self, name, folder, threads):
        super().__init__(name, folder, threads)
        self.function = self.torch.compile(self.function, dynamic=True)


class OfJax:
    """JAX, which compiles for each shape; what that takes is not in the times of calls."""

    def __init__(self, name, folder, threads):
        import jax
        workload, self.jax = WORKLOADS[name], jax
        words = Jax(jax)
        self.weights = {key: jax.device_put(value) for key, value in workload.values_of_weights(np).items()}
        self.function = jax.jit(lambda inputs, weights: workload.build(words, inputs, weights))

    def prepare(self, inputs):
        inputs = {name: self.jax.device_put(value) for name, value in inputs.items()}
        self.call = lambda: self.jax.block_until_ready(self.function(inputs, self.weights))
        return self.call

    def results(self):
        return [np.asarray(value) for value in self.call()]


class OfIree:
    """IREE, with its kernels of tiles for products, which it has to be asked for."""

    FLAGS = (
        "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu",
        "--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3", "--iree-opt-data-tiling",
        "--iree-llvmcpu-enable-ukernels=mmt4d",
        # Without these two it refuses transformer blocks.
        "--iree-llvmcpu-fail-on-out-of-bounds-stack-allocation=false", "--iree-llvmcpu-fail-on-large-vector=false",
    )

    def __init__(self, name, folder, threads):
        os.environ["IREE_PY_RUNTIME_FLAGS"] = f"--task_topology_group_count={threads}"
        from iree import runtime
        tools = os.path.dirname(sys.executable)
        onnx, text, module = (os.path.join(folder, f"{name}.{end}") for end in ("onnx", "mlir", "vmfb"))
        if not os.path.exists(module):
            run_whole([os.path.join(tools, "iree-import-onnx"), onnx, "-o", text])
            run_whole([os.path.join(tools, "iree-compile"), text, "-o", module, *self.FLAGS])
        config = runtime.Config("local-sync" if threads == 1 else "local-task")
        self.runtime, self.device = runtime, config.device
        self.main = runtime.load_vm_module(runtime.VmModule.mmap(config.vm_instance, module), config)["main"]

    def prepare(self, inputs):
        inputs = [self.runtime.asdevicearray(self.device, value) for value in inputs.values()]
        self.call = lambda: self.main(*inputs)
        return self.call

    def results(self):
        found = self.call()
        return [value.to_host() for value in (found if isinstance(found, (list, tuple)) else [found])]


class OfTvm:
    """TVM as its own compiler leaves a model, without measured schedules."""

    def __init__(self, name, folder, threads):
        import onnx
        import tvm
        from tvm import relax
        from tvm.relax.frontend.onnx import from_onnx
        self.tvm = tvm
        module = from_onnx(onnx.load(os.path.join(folder, f"{name}.onnx")), keep_params_in_input=False)
        compiled = tvm.compile(module, target=tvm.target.Target.from_device(tvm.cpu()))
        self.machine = relax.VirtualMachine(compiled, tvm.cpu())

    def prepare(self, inputs):
        inputs = [self.tvm.runtime.tensor(value) for value in inputs.values()]
        self.call = lambda: self.machine["main"](*inputs)
        return self.call

    def results(self):
        found = self.call()
        return [value.numpy() for value in (found if hasattr(found, "__len__") else [found])]


COMPETITORS = {
    "relax": Ours, "relaxc": OfPython, "numpy": OfNumpy, "onnxruntime": OfOnnxruntime, "torch": OfTorch, "torch.compile": OfTorchCompile,
    "jax": OfJax, "iree": OfIree, "tvm": OfTvm,
}


def run_whole(command):
    """On all cores."""
    free = lambda: os.sched_setaffinity(0, range(os.cpu_count()))  # noqa: E731
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=free)
    if done.returncode:
        raise RuntimeError(f"{os.path.basename(command[0])}: {done.stderr[-600:]}")


def least(call, seconds):
    best, end = math.inf, time.perf_counter() + seconds
    while time.perf_counter() < end or best == math.inf:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def main():
    competitor, threads, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    os.sched_setaffinity(0, range(threads))
    # What libraries print is not an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    name = machine = call = None
    for line in sys.stdin:
        order, start = json.loads(line), time.perf_counter()
        try:
            if "load" in order:
                name = order["load"]
                machine = COMPETITORS[competitor](name, folder, threads)
                answer = {"seconds": time.perf_counter() - start}
            elif "case" in order:
                call = machine.prepare(WORKLOADS[name].values_of_inputs(np, order["case"]))
                start = time.perf_counter()
                results = machine.results()
                answer = {"seconds": time.perf_counter() - start, "results": []}
                for i, value in enumerate(results):
                    answer["results"].append(os.path.join(folder, f"{competitor}_{i}.npy"))
                    np.save(answer["results"][-1], value)
            else:
                answer = {"seconds": least(call, order["time"])}
        except Exception as error:  # noqa: BLE001: whatever a competitor says is told.
            answer = {"error": f"{type(error).__name__}: {error}"[:600]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
