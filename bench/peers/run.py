"""Whole functions against NumPy and onnxruntime, one and two threads, in one run.

    cargo build --release -p relax-cli -p relax-capi
    python3 bench/peers/run.py [--threads 1,2] [WORKLOAD...]

Needs numpy; onnx and onnxruntime are compared with where they are installed. Ours is `workloads.rx` compiled once
with `--fast`, called through the C interface. Of onnxruntime's sessions weights are initializers, but for gemm; so rows
that are called bound have ours built with the weights as well (`relax build --params`), and onnxruntime's gemm too. Peers
are called in turns, and of each the least of many times counts: the machine may be busy. Each result is held against
NumPy's in f64 first. Last come the geometric means of the best peer's time over ours, and how far cases are from what the
machine can do: the larger of its arithmetic and of the bytes of inputs and results, each read or written once, both
limits measured in the same run on one core.
"""

import argparse
import ctypes
import json
import math
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
SMALL, ROWS = (1, 5, 24, 43, 62, 81, 100, 119, 128, 512), (1, 7, 64, 1000, 8192)
WIDE, INNER = 768, 3072
# Weights by name, and the values of n.
WORKLOADS = {
    "elementwise": ((("x", ("n", 1024)),), ROWS),
    "softmax": ((("x", ("n", 1024)),), ROWS),
    "layer_norm": ((("x", ("n", 768)), ("g", (768,)), ("b", (768,))), ROWS),
    "rms_norm": ((("x", ("n", 4096)), ("g", (4096,))), ROWS[:4]),
    "gemm": ((("x", ("n", 768)), ("w", (768, 2304))), SMALL),
    "mlp": ((("x", ("n", 784)), ("w1", (784, 512)), ("b1", (512,)), ("w2", (512, 10)), ("b2", (10,))), (1, 7, 64, 512)),
    "block": (
        (("x", ("n", WIDE)), ("g1", (WIDE,)), ("e1", (WIDE,)))
        + tuple((w, (WIDE, WIDE)) for w in ("wq", "wk", "wv", "wo"))
        + (("g2", (WIDE,)), ("e2", (WIDE,)), ("w1", (WIDE, INNER)), ("b1", (INNER,)), ("w2", (INNER, WIDE)), ("b2", (WIDE,))),
        (1, 16, 64, 128, 384),
    ),
}


# Whose weights are bound at build as well.
BOUND = {f"{name}, bound": name for name in ("gemm", "mlp", "block")}


def flops(name, n):
    """Operations of products, and of functions by a generous count."""
    return {
        "elementwise": 40 * 1024 * n, "softmax": 20 * 1024 * n, "layer_norm": 8 * 768 * n, "rms_norm": 4 * 4096 * n,
        "gemm": 2 * n * 768 * 2304, "mlp": 2 * n * (784 * 512 + 5120),
        "block": 2 * n * (4 * WIDE * WIDE + 2 * WIDE * INNER + 2 * n * WIDE),
    }[name]


def numpy_of(name, np, erf):
    def norm(x, g, b):
        centered = x - x.mean(-1, keepdims=True)
        return centered / np.sqrt((centered * centered).mean(-1, keepdims=True) + x.dtype.type(1e-5)) * g + b

    def soft(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def block(x, g1, e1, wq, wk, wv, wo, g2, e2, w1, b1, w2, b2):
        h = norm(x, g1, e1)
        q, k, v = ((h @ w).reshape(-1, 12, 64).transpose(1, 0, 2) for w in (wq, wk, wv))
        o = soft(q @ k.transpose(0, 2, 1) * x.dtype.type(0.125)) @ v
        y = x + o.transpose(1, 0, 2).reshape(-1, WIDE) @ wo
        f = norm(y, g2, e2) @ w1 + b1
        return y + ((f * x.dtype.type(0.5) * (1 + erf(f / x.dtype.type(math.sqrt(2))))) @ w2 + b2)

    return {
        "elementwise": lambda x: np.exp(x) * 2 + np.maximum(x, 0) - np.tanh(x),
        "softmax": soft,
        "layer_norm": norm,
        "rms_norm": lambda x, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + x.dtype.type(1e-5)) * g,
        "gemm": lambda x, w: x @ w,
        "mlp": lambda x, w1, b1, w2, b2: np.maximum(x @ w1 + b1, 0) @ w2 + b2,
        "block": block,
    }[name]


def onnx_of(name, parameters, weights, bound):
    """The graph as an exporter writes it, weights as initializers; for gemm the second factor is an input."""
    from onnx import TensorProto, helper, numpy_helper
    nodes, count, extra = [], [0], []

    def op(kind, *inputs, **attributes):
        count[0] += 1
        nodes.append(helper.make_node(kind, list(inputs), [f"t{count[0]}"], **attributes))
        return f"t{count[0]}"

    def constant(value, key):
        import numpy as np
        extra.append(numpy_helper.from_array(np.asarray(value), key))
        return key

    def norm(x, g, b):
        return op("LayerNormalization", x, g, b, axis=-1, epsilon=1e-5)

    import numpy as np
    f32 = np.float32
    if name == "elementwise":
        e = op("Mul", op("Exp", "x"), constant(f32(2), "two"))
        y = op("Sub", op("Add", e, op("Relu", "x")), op("Tanh", "x"))
    elif name == "softmax":
        y = op("Softmax", "x", axis=-1)
    elif name == "layer_norm":
        y = norm("x", "g", "b")
    elif name == "rms_norm":
        square = op("ReduceMean", op("Mul", "x", "x"), constant(np.array([-1]), "axes"), keepdims=1)
        y = op("Mul", op("Div", "x", op("Sqrt", op("Add", square, constant(f32(1e-5), "eps")))), "g")
    elif name == "gemm":
        y = op("MatMul", "x", "w")
    elif name == "mlp":
        y = op("Add", op("MatMul", op("Relu", op("Add", op("MatMul", "x", "w1"), "b1")), "w2"), "b2")
    else:
        h = norm("x", "g1", "e1")
        heads = constant(np.array([-1, 12, 64]), "heads")
        turn = lambda t, perm: op("Transpose", op("Reshape", t, heads), perm=perm)  # noqa: E731
        q, v = (turn(op("MatMul", h, w), [1, 0, 2]) for w in ("wq", "wv"))
        k = turn(op("MatMul", h, "wk"), [1, 2, 0])
        p = op("Softmax", op("Mul", op("MatMul", q, k), constant(f32(0.125), "scale")), axis=-1)
        o = op("Reshape", op("Transpose", op("MatMul", p, v), perm=[1, 0, 2]), constant(np.array([-1, WIDE]), "flat"))
        y1 = op("Add", "x", op("MatMul", o, "wo"))
        f = op("Gelu", op("Add", op("MatMul", norm(y1, "g2", "e2"), "w1"), "b1"))
        y = op("Add", y1, op("Add", op("MatMul", f, "w2"), "b2"))
    given = [p for p in parameters if p[0] == "x" or (name == "gemm" and not bound)]
    inputs = [helper.make_tensor_value_info(p, TensorProto.FLOAT, list(shape)) for p, shape in given]
    initial = [numpy_helper.from_array(weights[p], p) for p, _ in parameters if (p, _) not in given] + extra
    result = helper.make_tensor_value_info(y, TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, name, inputs, [result], initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()


def alone(name, folder):
    """The function of a workload as a file."""
    with open(os.path.join(HERE, "workloads.rx")) as file:
        text = file.read()
    start = text.index(f"def of_{name}(")
    end = text.find("\ndef ", start)
    path = os.path.join(folder, f"{name}.rx")
    with open(path, "w") as file:
        file.write(text[start:] if end < 0 else text[start:end])
    return path


def write_weights(weights, path):
    """As safetensors."""
    entries, at = {}, 0
    for name, array in weights.items():
        entries[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for array in weights.values():
            file.write(array.tobytes())


class Ours:
    """A module, through the C interface; with weights those of one workload are bound."""

    def __init__(self, folder, name=None, weights=None):
        module = os.path.join(folder, "workloads.rxm" if name is None else f"{name}.rxm")
        relax = os.path.join(ROOT, "target", "release", "relax")
        source, more = os.path.join(HERE, "workloads.rx"), []
        if name is not None:
            source, more = alone(name, folder), ["--params", os.path.join(folder, f"{name}.safetensors")]
            write_weights(weights, more[1])
        subprocess.run([relax, "-q", "build", source, "--fast", "-o", module, *more], check=True)
        self.library = ctypes.CDLL(os.path.join(ROOT, "target", "release", "librelax_capi.so"))
        for function in ("rx_module_load", "rx_module_call", "rx_tensor_new", "rx_tensor_data"):
            getattr(self.library, function).restype = ctypes.c_void_p
        self.library.rx_error.restype = ctypes.c_char_p
        self.library.rx_tensor_length.restype = ctypes.c_size_t
        data = open(module, "rb").read()
        self.module = self.library.rx_module_load(data, ctypes.c_size_t(len(data)))
        assert self.module, self.library.rx_error()

    def prepare(self, name, arrays):
        """Arguments once, then a function that calls, and one that calls and gives the result."""
        def value(a):
            shape = (ctypes.c_int64 * a.ndim)(*a.shape)
            return self.library.rx_tensor_new(2, shape, ctypes.c_size_t(a.ndim), ctypes.c_void_p(a.ctypes.data), ctypes.c_size_t(a.nbytes))
        arguments = (ctypes.c_void_p * len(arrays))(*[value(a) for a in arrays])
        call, free = self.library.rx_module_call, self.library.rx_value_free
        module, entry, count = ctypes.c_void_p(self.module), f"of_{name}".encode(), ctypes.c_size_t(len(arrays))

        def run():
            free(ctypes.c_void_p(call(module, entry, arguments, count)))

        def result(np):
            found = ctypes.c_void_p(call(module, entry, arguments, count))
            assert found.value, self.library.rx_error()
            length = self.library.rx_tensor_length(found)
            data = (ctypes.c_float * (length // 4)).from_address(self.library.rx_tensor_data(found))
            copy = np.array(data, dtype=np.float32)
            free(found)
            return copy
        return run, result


def least(call, seconds):
    best, end = math.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def roof(folder):
    """GFLOP/s and GB/s of one core, as bench/kernels measures them."""
    sys.path.insert(0, os.path.join(HERE, "..", "kernels"))
    import run as kernels
    return kernels.limits(folder)


def child(threads, wanted):
    import numpy as np
    try:
        import onnxruntime
    except ImportError:
        onnxruntime = None
    erf = np.vectorize(math.erf, otypes=[np.float64])
    random, rows = np.random.default_rng(0), []
    with tempfile.TemporaryDirectory() as folder:
        ours, (gflops, gbytes) = Ours(folder), roof(folder)
        print(f"\n{threads} thread(s); one core: {gflops:.0f} GFLOP/s, {gbytes:.1f} GB/s\n", flush=True)
        print("| workload | n | ours, us | NumPy | onnxruntime | best peer / ours | limit / ours |\n|---|---|---|---|---|---|---|", flush=True)
        for row in wanted:
            name = BOUND.get(row, row)
            parameters, sizes = WORKLOADS[name]
            scale = lambda shape: 1 / math.sqrt(shape[0]) if len(shape) == 2 else 1  # noqa: E731
            weights = {p: (random.standard_normal(s) * scale(s)).astype(np.float32) for p, s in parameters if s[0] != "n"}
            session = None
            if onnxruntime is not None:
                options = onnxruntime.SessionOptions()
                options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
                model = onnx_of(name, parameters, weights, row in BOUND)
                session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            module = Ours(folder, name, weights) if row in BOUND else ours
            for n in sizes:
                rows.append(case(np, erf, row, n, parameters, weights, random, module, session, (threads * gflops, threads * gbytes)))
    for kind, at in (("best peer / ours", 0), ("limit / ours", 1)):
        of = lambda rows: math.exp(sum(math.log(r[at]) for r in rows) / len(rows))  # noqa: E731
        each = ", ".join(f"{name} {of([r[1:] for r in rows if r[0] == name]):.2f}" for name in wanted)
        print(f"\ngeometric mean of {kind}: {of([r[1:] for r in rows]):.2f} ({each})", flush=True)


def case(np, erf, row, n, parameters, weights, random, ours, session, limits):
    name = BOUND.get(row, row)
    x = random.standard_normal([n if d == "n" else d for d in parameters[0][1]]).astype(np.float32)
    arrays = [x] + [weights[p] for p, _ in parameters[1:]]
    want = numpy_of(name, np, erf)(*[a.astype(np.float64) for a in arrays]).reshape(-1)
    run, result = ours.prepare(name, arrays[:1] if row in BOUND else arrays)
    near = lambda got: np.abs(got.reshape(-1) - want).max() <= 1e-5 * max(1.0, np.abs(want).max())  # noqa: E731
    assert near(result(np)), name
    peers = {"numpy": lambda f=numpy_of(name, np, None): f(*arrays)} if name != "block" else {}
    if session is not None:
        feed = {i.name: dict(zip([p for p, _ in parameters], arrays))[i.name] for i in session.get_inputs()}
        assert near(session.run(None, feed)[0]), name
        peers["onnxruntime"] = lambda: session.run(None, feed)
    times = dict.fromkeys(["ours", *peers], math.inf)
    for turn in range(12):
        for peer, call in [("ours", run), *peers.items()]:
            # Threads of the one before wait for more work for a while, on the cores that this one needs; others
            # are slow to begin after a pause. Everybody gets both.
            time.sleep(0.05 * (turn % 2))
            times[peer] = min(times[peer], least(call, 0.04))
    best = min([t for peer, t in times.items() if peer != "ours"], default=math.nan)
    size = 4 * (sum(a.size for a in arrays) + want.size)
    limit = max(flops(name, n) / limits[0] / 1e9, size / limits[1] / 1e9)
    shown = [f"{times[p] * 1e6:.1f}" if p in times else "–" for p in ("ours", "numpy", "onnxruntime")]
    print(f"| {row} | {n} | {' | '.join(shown)} | {best / times['ours']:.2f} | {limit / times['ours']:.2f} |", flush=True)
    return row, best / times["ours"], limit / times["ours"]


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--threads", default="1,2")
    arguments.add_argument("--child", type=int)
    arguments.add_argument("workloads", nargs="*")
    arguments = arguments.parse_args()
    wanted = [name for name in [*WORKLOADS, *BOUND] if not arguments.workloads or name in arguments.workloads]
    if arguments.child:
        return child(arguments.child, wanted)
    for threads in arguments.threads.split(","):
        # Libraries read the number of threads when they begin.
        names = ("RELAX_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
        environment = {**os.environ, **dict.fromkeys(names, threads)}
        subprocess.run([sys.executable, os.path.abspath(__file__), "--child", threads, *wanted], env=environment, check=True)


if __name__ == "__main__":
    main()
