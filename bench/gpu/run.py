"""Kernels on an NVIDIA device, against its copy bandwidth, cuBLAS and torch.compile, in one run.

    ./setup.sh nvrtc && export RELAX_NVRTC=$PWD/.cache/nvrtc
    cargo build --release -p relax-cli --features cuda
    python3 bench/gpu/run.py target/release/relax [CASE...]

Without a device it says so, ends with code 4 and does nothing else. First the corpus is run on the device, with the tests of
`backends/cuda` (`--machine FILE` names their executable where there is no cargo, and is built by
`cargo test --workspace --features relax-cli/cuda --test machine --no-run`); then the programs of this run are held against the interpreter (`relax diff`). Needs torch with CUDA for peers.

Kernels are timed by the device's own events, as torch's are: the sum over the kernels of the fastest of some calls, as
`relax bench` shows it. "call" is the whole call with a copy of the result to the host. Bytes are those of inputs and results, each
read or written once; they are compared with a copy of as many bytes by torch. The table is printed as Markdown.

Rows are summed in any order, as torch sums them. Columns: "own" are kernels of relax with default numerics and no library
(`RELAX_CUBLAS=0`); "cuBLASLt" is what a user with that library gets of products; "exact" are products with sums in f64, in the order
of the text (`relax bench --exact`).

With --tiny everything is as small as can be, without the corpus: to see that the script and the command go through, as the tests
do on an emulated driver. Its figures say nothing.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
NO_DEVICE = 4
# How long a function is called, and sizes that take no time.
SECONDS, TINY_SECONDS, TINY = "2", "0.01", ((3, 64),)
HEADS = "reshape({0}, shape(1, n, m // 64, 64))"
# An application, extra parameters, dtype, sizes of n and m, whether it is a product.
CASES = {
    "softmax": ("nn.softmax({}, axis=-1)", (), "f32", ((4096, 1024), (65536, 257)), False),
    "layer_norm": ("nn.layer_norm({}, g, b, axes=[-1], epsilon=1e-5)", ("g", "b"), "f32", ((4096, 768), (65536, 768)), False),
    "rms_norm": ("nn.rms_norm({}, g, axes=[-1], epsilon=1e-5)", ("g",), "f32", ((4096, 4096),), False),
    "sum": ("sum({}, axis=[-1])", (), "f32", ((4096, 4096), (16, 1048576)), False),
    "gelu": ("nn.gelu({})", (), "f32", ((4096, 3072), (2, 3072)), False),
    "add_relu": ("nn.relu(add({}, b))", ("b",), "f32", ((4096, 4096),), False),
    "transposed": ("permute_dims({})", (), "f32", ((4096, 4096), (4095, 4097)), False),
    "attention": (f"nn.attention({HEADS}, {HEADS}, {HEADS})", (), "f32", ((1024, 512), (4096, 512)), False),
    "product": ("matmul({}, w)", ("w",), "f32", ((1024, 1024), (4096, 4096), (37, 4096)), True),
    "product_f16": ("matmul({}, w)", ("w",), "f16", ((1024, 1024), (4096, 4096), (37, 4096)), True),
    "dense_f16": ("nn.relu(add(matmul({}, w), b))", ("w", "b"), "f16", ((4096, 4096),), True),
}


def has_device():
    """Whether the driver is there and finds a device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def function(case):
    """The text of a function that applies a kernel."""
    apply, extra, dtype, _, _ = CASES[case]
    shapes = {"w": '("m", "m")', "g": '("m",)', "b": '("m",)'}
    params = [f'x: Tensor(("n", "m"), "{dtype}")'] + [f'{p}: Tensor({shapes[p]}, "{dtype}")' for p in extra]
    # With fewer rows it may be a product of a matrix and a vector, which is no library's.
    lines = [f"def {case}_case({', '.join(params)}):", "    n = sym_var(lower_bound=2)", f"    return {apply.format('x')}", ""]
    return "\n".join(lines)


def ours(relax, path, case, sizes, options, seconds, library="0"):
    """The time of the kernels of a call, and of a whole call, in ms; with a library if `library` is 1."""
    syms = [word for name, value in zip("nm", sizes) for word in ("--sym", f"{name}={value}")]
    command = [relax, "bench", path, "--backend", "cuda", "--entry", f"{case}_case", "--seconds", seconds, "--format", "json", *syms, *options]
    env = {**os.environ, "RELAX_CUBLAS": library}
    shown = subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout
    lines = [json.loads(line) for line in shown.splitlines()]
    kernels = [line["microseconds"] for line in lines if line["type"] == "kernel"]
    whole, = (line["least_ms"] for line in lines if line["type"] == "bench")
    return sum(kernels) / 1000, whole


def of_torch(torch, case):
    import torch.nn.functional as nn

    def self_attention(x):
        heads = x.view(1, x.shape[0], -1, 64).transpose(1, 2)
        return nn.scaled_dot_product_attention(heads, heads, heads)

    return {
        "softmax": lambda x: torch.softmax(x, -1),
        "layer_norm": lambda x, g, b: nn.layer_norm(x, x.shape[-1:], g, b, 1e-5),
        "rms_norm": lambda x, g: nn.rms_norm(x, x.shape[-1:], g, 1e-5),
        "sum": lambda x: torch.sum(x, -1),
        "gelu": nn.gelu,
        "add_relu": lambda x, b: torch.relu(x + b),
        "transposed": lambda x: x.t().contiguous(),
        "attention": self_attention,
        "product": lambda x, w: x @ w,
        "product_f16": lambda x, w: x @ w,
        "dense_f16": lambda x, w, b: torch.relu(x @ w + b),
    }[case]


def timed(torch, call, repeats=100):
    """The least of some means, in ms, by the device's events."""
    for _ in range(10):
        call()
    best = float("inf")
    for _ in range(5):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(repeats):
            call()
        end.record()
        torch.cuda.synchronize()
        best = min(best, start.elapsed_time(end) / repeats)
    return best


def peers(torch, case, sizes):
    """Times of a copy of as many bytes, of torch, and of torch.compile."""
    _, extra, dtype, _, _ = CASES[case]
    (n, m), kind = sizes, torch.float16 if dtype == "f16" else torch.float32
    shapes = {"w": (m, m), "g": (m,), "b": (m,)}
    args = [torch.randn(n, m, device="cuda", dtype=kind)]
    args += [torch.randn(*shapes[p], device="cuda", dtype=kind) for p in extra]
    plain = of_torch(torch, case)
    compiled = torch.compile(plain, dynamic=True)
    moved = moved_bytes(case, sizes)
    source = torch.empty(moved // 2, device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    return tuple(timed(torch, call) for call in (
        lambda: target.copy_(source), lambda: plain(*args), lambda: compiled(*args),
    ))


def moved_bytes(case, sizes):
    _, extra, dtype, _, _ = CASES[case]
    n, m = sizes
    own = {"w": m * m, "g": m, "b": m}
    result = n if case == "sum" else n * m
    return (n * m + result + sum(own[p] for p in extra)) * (2 if dtype == "f16" else 4)


def shown(ms):
    return "-" if ms is None else f"{ms * 1000:.1f}"


def over(a, b):
    return "-" if a is None or b is None or b <= 0 else f"{a / b:.2f}"


def torch_with_device():
    """torch, where it is installed and sees the device."""
    try:
        import torch
    except ImportError:
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    return torch if torch.cuda.is_available() else None


def file_of(folder, case):
    return os.path.join(folder, f"{case}.rx")


def table(relax, folder, cases, tiny, seconds):
    # With --tiny nothing is compared, and what torch would ask of the driver need not be there.
    torch = None if tiny else torch_with_device()
    if torch:
        print(f"\n{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}\n")
    else:
        print("\nsmall sizes: these are no measurements\n" if tiny else "\nno torch that sees the device: no peers\n")
    seconds = TINY_SECONDS if tiny else seconds
    print("| case | n x m | own, us | cuBLASLt | exact | call | copy | torch | torch.compile | copy / own | torch / own | torch / cuBLASLt | compile / own |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for case in cases:
        path = file_of(folder, case)
        for sizes in TINY if tiny else CASES[case][3]:
            def times(options=(), library="0"):
                return ours(relax, path, case, sizes, options, seconds, library)
            own, call = times()
            by_library, exact = None, None
            if CASES[case][4]:
                (by_library, call), (exact, _) = times(library="1"), times(["--exact"])
            copy, plain, compiled = peers(torch, case, sizes) if torch else (None, None, None)
            ratios = over(copy, own), over(plain, own), over(plain, by_library), over(compiled, own)
            cells = map(shown, (own, by_library, exact, call, copy, plain, compiled))
            print(f"| {case} | {sizes[0]} x {sizes[1]} | " + " | ".join([*cells, *ratios]) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("relax", nargs="?", default=os.path.join(ROOT, "target", "release", "relax"))
    parser.add_argument("--tiny", action="store_true", help="small sizes, no corpus, no peers: whether it goes through")
    parser.add_argument("--machine", help="the executable of the tests of backends/cuda, instead of cargo")
    parser.add_argument("--seconds", default=SECONDS, help="how long each function is called")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    args = parser.parse_args()
    if not has_device():
        print("there is no CUDA device here: nothing was run", file=sys.stderr)
        sys.exit(NO_DEVICE)
    unknown = [case for case in args.cases if case not in CASES]
    if unknown:
        parser.error(f"there are {', '.join(CASES)}, not {', '.join(unknown)}")
    relax = os.path.abspath(args.relax)
    corpus = [os.path.abspath(args.machine)] if args.machine else "cargo test --workspace --features relax-cli/cuda --test machine --".split()
    if not args.tiny:
        subprocess.run([*corpus, "--nocapture"], cwd=ROOT, check=True, env={**os.environ, "RELAX_REQUIRE_CUDA": "1"})
    with tempfile.TemporaryDirectory() as folder:
        cases = args.cases or list(CASES)
        for case in cases:
            with open(file_of(folder, case), "w") as file:
                file.write(function(case))
            few = ["--cases", "3"] if args.tiny else []
            for library in "01":
                env = {**os.environ, "RELAX_CUBLAS": library}
                subprocess.run([relax, "diff", file.name, "--backend", "cuda", *few], check=True, env=env)
        table(relax, folder, cases, args.tiny, args.seconds)


if __name__ == "__main__":
    main()
