#!/usr/bin/env python3
"""Time and memory of an import, beside the size of the model: one weight in the file, many, and many in a file beside it.

    pip install onnx numpy
    cargo build --release -p relax-cli
    python3 bench/import/run.py [--relax target/release/relax] [--megabytes 100] [--output bench/results/import-2026-11.md]

Memory is the largest resident set of the command. Each row is the median of three runs, and each run reads the model from a
warm page cache.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNS = 3


def make(path, layers, megabytes, beside):
    """Writes a stack of products with a dynamic batch; the weights of all layers together have that many megabytes."""
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    width = int((megabytes * 1e6 / 4 / layers) ** 0.5)
    random = numpy.random.default_rng(7)
    weights, nodes, last = [], [], "x"
    for layer in range(layers):
        values = random.standard_normal((width, width), dtype=numpy.float32)
        weights.append(numpy_helper.from_array(values, f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{layer}"], [f"m{layer}"], f"product{layer}"))
        nodes.append(helper.make_node("Relu", [f"m{layer}"], [f"r{layer}"], f"relu{layer}"))
        last = f"r{layer}"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", width])
    y = helper.make_tensor_value_info(last, TensorProto.FLOAT, ["n", width])
    graph = helper.make_graph(nodes, "stack", [x], [y], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    onnx.save(made, path, save_as_external_data=beside, location=f"{path.name}.data")


def measured(command):
    """Seconds and the largest resident set in bytes of one run."""
    start = time.perf_counter()
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{command} ended with {status}")
    return time.perf_counter() - start, usage.ru_maxrss * 1024


def row(relax, folder, layers, megabytes, beside):
    """One line of the table."""
    path = folder / f"stack{layers}{beside}.onnx"
    # By a process of its own: what a child has taken counts what its parent had when it was started.
    made = [sys.executable, __file__, "--make", str(path), str(layers), str(megabytes), str(int(beside))]
    subprocess.run(made, check=True)
    size = sum(part.stat().st_size for part in folder.glob(f"{path.name}*"))
    outputs = ["-o", str(folder / "model.rx"), "--params", str(folder / "model.safetensors")]
    runs = [measured([relax, "import", str(path), *outputs]) for _ in range(RUNS)]
    seconds, memory = (statistics.median(column) for column in zip(*runs))
    where = "beside" if beside else "inside"
    return f"| {layers} | {where} | {size / 1e6:.1f} | {seconds:.2f} | {memory / 1e6:.1f} | {memory / size:.2f} |"


def main():
    """Prints the table, or writes it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--relax", default=str(ROOT / "target/release/relax"))
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--make", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make:
        path, layers, megabytes, beside = args.make
        make(pathlib.Path(path), int(layers), float(megabytes), bool(int(beside)))
        return
    lines = [
        "# Import of large models",
        "",
        f"`python3 bench/import/run.py --megabytes {args.megabytes:g}`, {os.cpu_count()} cores.",
        "",
        "| weights | where | model, MB | seconds | memory, MB | memory / model |",
        "|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as name:
        for layers, beside in [(1, False), (64, False), (64, True)]:
            lines.append(row(args.relax, pathlib.Path(name), layers, args.megabytes, beside))
    text = "\n".join(lines) + "\n"
    if args.output:
        args.output.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
