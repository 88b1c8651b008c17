"""The least time of a call of a program as TVM's own compiler builds it, for run.py: milliseconds on the last line.

    python3 tvm_times.py RELAX PROGRAMS.rx ENTRY SECONDS NAME=KIND(DIMS) ...

`relax export` writes what is exported; TVM compiles it for this processor by its default pipeline.
"""

import os
import re
import subprocess
import sys
import tempfile
import time

import numpy
import tvm
from tvm import relax


def drawn(text):
    kind, dims = re.fullmatch(r"\w+=(randn|ones|arange)\(([0-9,]+)\)", text).groups()
    shape = tuple(map(int, dims.split(",")))
    if kind == "arange":
        return numpy.arange(*shape)
    return numpy.random.default_rng(1).standard_normal(shape, "float32") if kind == "randn" else numpy.ones(shape, "float32")


def main():
    ours, programs, entry, seconds, *inputs = sys.argv[1:]
    # The entry alone, with what it calls: other programs of the file must not decide whether this one compiles.
    with open(programs, encoding="utf-8") as file:
        parts = file.read().split("\n\n")
    wanted = [part for part in parts if re.search(rf"^def {entry}\(", part, re.M)]
    called = re.findall(r"call_tir\((\w+),", wanted[0])
    wanted += [part for part in parts if any(re.search(rf"^def {name}\(", part, re.M) for name in called)]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "one.rx")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n\n".join(wanted) + "\n")
        text = subprocess.run([ours, "export", "one.rx"], capture_output=True, text=True, cwd=folder)
        if text.returncode:
            raise SystemExit(" ".join(text.stderr.split())[:110])
        try:
            module = tvm.script.from_source(text.stdout)
            machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
        except Exception as error:
            raise SystemExit(f"TVM refuses: {type(error).__name__}: {' '.join(str(error).split())}"[:110]) from None
        params = [param.ty.dtype for param in module[entry].params]
        tensors = [tvm.runtime.tensor(drawn(one).astype(str(dtype))) for one, dtype in zip(inputs, params)]
        call = machine[entry]
        best, end = float("inf"), time.perf_counter() + float(seconds)
        while best == float("inf") or time.perf_counter() < end:
            begun = time.perf_counter()
            call(*tensors)
            best = min(best, time.perf_counter() - begun)
        print(best * 1e3)


if __name__ == "__main__":
    main()
