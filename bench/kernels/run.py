"""Single kernels against NumPy (products: OpenBLAS), one thread, in one run.

    python3 bench/kernels/run.py target/release/relax [KERNEL...]

Prints one line a case: microseconds of both (the least of many runs, taken in turns) and NumPy's
time over ours; before them what the core can do, measured in the same run. The machine may be busy: the ratio says more
than the times. Each result is held against NumPy's in f64 first. NumPy has no erf, so that gelu has no peer here.
"""

import ctypes
import math
import os
import re
import subprocess
import sys
import tempfile
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy as np  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
# As in backends/cpu/src/compiler.rs.
FLAGS = """-std=gnu11 -O3 -march=native -shared -fPIC -ffp-contract=off -fno-math-errno -fno-trapping-math
           -fopenmp-simd -fwrapv -fno-strict-aliasing -w""".split()


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("shape", ctypes.POINTER(ctypes.c_int64))]


def build(relax, folder):
    source, target = os.path.join(folder, "kernels.c"), os.path.join(folder, "kernels.so")
    programs = os.path.join(HERE, "programs.rx")
    early, fused = os.path.join(folder, "early.rx"), os.path.join(folder, "fused.rx")
    subprocess.run([relax, "opt", programs, "--to", "P2.1", "-o", early], check=True)
    subprocess.run([relax, "opt", early, "--passes", "fuse_loops", "-o", fused], check=True)
    subprocess.run([relax, "opt", fused, "--to", "P2.3", "--emit", "c", "--fast", "-o", source], check=True)
    subprocess.run(["cc", *FLAGS, "-o", target, source, "-lm"], check=True)
    return open(source).read(), ctypes.CDLL(target)


def parameters(text, name):
    """Shapes as the text of dims, and dtypes, of a kernel's buffers: its program stands above it."""
    header = re.search(rf"^// def {name}\((.*?)^//     f", text, re.S | re.M).group(1).replace("\n//", " ")
    found = re.findall(r'Buffer\(\s*\(([^)]*)\),\s*"(\w+)"', header)
    dims = [[dim.strip().strip('"') for dim in shape.split(",") if dim.strip()] for shape, _ in found]
    return list(zip(dims, (dtype for _, dtype in found)))


def least(call, seconds=0.03):
    best, end = math.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def erf(x):
    # Abramowitz and Stegun 7.1.26 would be too rough to compare with; the C library's is taken.
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def normal(x, axis=-1):
    mean = x.mean(axis, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axis, keepdims=True) + 1e-5)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# Kernel: how many inputs, what it computes, cases (values of its dims).
ROWS = [(128, 1024), (1024, 1024), (4096, 1024), (7, 13), (512, 384), (1000, 1000)]
SIZES = [(n, 768, 2304) for n in (1, 5, 24, 43, 62, 64, 81, 100, 119, 128, 512)]
KERNELS = {
    "legal_softmax": (1, softmax, ROWS),
    "legal_layer_norm": (3, lambda x, g, b: normal(x) * g + b, ROWS),
    "legal_rms_norm": (2, lambda x, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w, ROWS),
    "legal_gelu": (1, lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2))), ROWS[:1]),
    "legal_silu": (1, lambda x: x / (1 + np.exp(-x)), ROWS),
    "legal_sum": (1, lambda x: x.sum(-1), ROWS),
    "legal_add": (2, lambda x, y: x + y, ROWS),
    "legal_matmul": (2, lambda x, w: x @ w, SIZES + [(1024, 1024, 1024), (13, 17, 19)]),
    "fused_matmul_bias_gelu": (
        3, lambda x, w, b: (lambda t: t * 0.5 * (1 + erf(t / math.sqrt(2))))(x @ w.T + b), [(64, 384, 1536)]),
}


def run(text, library, name, case):
    count, reference, _ = KERNELS[name]
    buffers, dims, random = [], {}, np.random.default_rng(0)
    names = []
    for shape, dtype in parameters(text, name):
        for dim in shape:
            if dim.isidentifier() and dim not in names:
                names.append(dim)
        dims = dict(zip(names, case))
        extents = [eval(dim, {}, dims) for dim in shape]
        kind = {"f32": np.float32, "f64": np.float64}[dtype]
        if len(buffers) < count:
            buffers.append(random.standard_normal(extents).astype(kind))
        else:
            buffers.append(np.full(extents, np.nan, kind))
    shapes = [(ctypes.c_int64 * max(1, a.ndim))(*a.shape) for a in buffers]
    arguments = (Tensor * len(buffers))(*[Tensor(a.ctypes.data, s) for a, s in zip(buffers, shapes)])
    function, ints = getattr(library, f"relax_{name}"), (ctypes.c_int64 * 1)()
    call = lambda: function(arguments, ints, None)  # noqa: E731
    status = call()
    assert status == 0, (name, case, status)
    want = reference(*[a.astype(np.float64) for a in buffers[:count]])
    error = np.abs(buffers[-1] - want).max() / max(1e-30, np.abs(want).max())
    assert error < 1e-5, (name, case, error)
    peer = lambda: reference(*buffers[:count])  # noqa: E731
    alone = "gelu" in name
    times = [(least(call), math.nan if alone else least(peer)) for _ in range(8)]
    ours, theirs = min(t for t, _ in times), min(t for _, t in times)
    label = name.replace("legal_", "").replace("fused_", "")
    size = sum(a.nbytes for a in buffers if a.dtype == np.float32)
    rate = f"{2 * math.prod(case) / ours / 1e9:7.1f} GFLOP/s" if "matmul" in name else f"{size / ours / 1e9:7.1f} GB/s   "
    print(f"| {label} | {'x'.join(map(str, case))} | {ours * 1e6:9.1f} | {theirs * 1e6:9.1f} | {rate} | {theirs / ours:6.2f} |", flush=True)
    return theirs / ours


ROOF = """
#include <stdint.h>
typedef float lanes __attribute__((vector_size(64), may_alias));
float multiply(int64_t rounds) {
    lanes sums[24], x = (lanes){0} + 0.5f;
    for (int i = 0; i < 24; i++) sums[i] = (lanes){0} + (float)(i + rounds % 7);
    for (int64_t r = 0; r < rounds; r++)
#pragma GCC unroll 24
        for (int i = 0; i < 24; i++) sums[i] = sums[i] * x + x;
    for (int i = 1; i < 24; i++) sums[0] += sums[i];
    return sums[0][0];
}
float read_all(const lanes *from, int64_t count) {
    lanes sums[8] = {0};
    for (int64_t k = 0; k < count; k += 8)
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) sums[i] += from[k + i];
    for (int i = 1; i < 8; i++) sums[0] += sums[i];
    return sums[0][0];
}
"""


def limits(folder):
    """GFLOP/s of multiplications with additions, and GB/s of reading 256 MB."""
    source, target = os.path.join(folder, "roof.c"), os.path.join(folder, "roof.so")
    open(source, "w").write(ROOF)
    subprocess.run(["cc", "-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC", "-o", target, source], check=True)
    library, data = ctypes.CDLL(target), np.ones(1 << 26, np.float32)
    start = data.ctypes.data + -data.ctypes.data % 64
    rounds = least(lambda: library.multiply(ctypes.c_int64(10000)), 0.3)
    reads = least(lambda: library.read_all(ctypes.c_void_p(start), ctypes.c_int64((1 << 22) - 8)), 0.5)
    return 24 * 16 * 2 * 10000 / rounds / 1e9, 4 * (1 << 26) / reads / 1e9


def main():
    with tempfile.TemporaryDirectory() as folder:
        text, library = build(sys.argv[1], folder)
        print("The core: {:.0f} GFLOP/s, {:.1f} GB/s read.\n".format(*limits(folder)), flush=True)
        wanted = [name for name in KERNELS if not sys.argv[2:] or any(part in name for part in sys.argv[2:])]
        print("| kernel | size | ours, us | NumPy, us | rate | NumPy / ours |\n|---|---|---|---|---|---|")
        ratios = [run(text, library, name, case) for name in wanted for case in KERNELS[name][2]]
        ratios = [ratio for ratio in ratios if ratio == ratio]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"\ngeometric mean of NumPy / ours: {mean:.2f}")


if __name__ == "__main__":
    main()
