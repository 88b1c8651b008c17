#!/usr/bin/env python3
"""Ten short programs in which dims meet, by five compilers: which results are right.

    bench/dynamic/run.py [--systems NAME,...] [--programs NAME,...] [--page FILE]

Each program is compiled once for all sizes where the compiler can (torch.compile as it decides), and run at sizes among which are 0, 1 and
one that does not divide. The judge is PyTorch without a compiler, at each size: a result must have its dtypes, shapes and elements; where
it raises an error, so must the compiled program. Each pair of program and compiler has a process of its own. It needs the packages
relaxc, torch, jax, onnxruntime, onnxscript and apache-tvm; a compiler that is not installed is left out, and said so.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import warnings
from typing import Any, Callable

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from programs import PROGRAMS, Program  # noqa: E402

#: Seconds for a program by a compiler.
LIMIT = 300
#: What each compiler needs.
PACKAGES = {"relaxc": "relaxc", "torch.compile": "torch", "TVM": "tvm", "JAX": "jax", "onnxruntime": "onnxruntime"}
Run = Callable[[list[np.ndarray]], Any]


def exported(program: Program) -> Any:
    import torch
    from torch.export import Dim, export

    class Model(torch.nn.Module):
        def forward(self, *args: Any) -> Any:
            return program.torch(*args)

    dims = tuple({axis: Dim.DYNAMIC for axis in dims} for dims in program.dims)
    arguments = tuple(torch.from_numpy(array) for array in program.inputs(program.traced))
    return export(Model(), arguments, dynamic_shapes=(dims,))


def of_jax(program: Program) -> Any:
    import jax
    from jax import export

    scope = export.SymbolicScope()
    specs = []
    for array, dims in zip(program.inputs(program.traced), program.dims):
        text = ", ".join(dims.get(axis, str(extent)) for axis, extent in enumerate(array.shape))
        shape = export.symbolic_shape(text, scope=scope)
        specs.append(jax.ShapeDtypeStruct(shape, array.dtype))
    return export.export(jax.jit(program.jax))(*specs)


def relaxc(program: Program) -> tuple[Run, Callable[[], int], str]:
    import relaxc

    way = "torch.export"
    try:
        source = exported(program)
    except Exception:
        # What torch.export refuses comes in by JAX.
        source, way = of_jax(program), "jax.export"
    module = relaxc.compile(source)
    return lambda arrays: module(*arrays), lambda: 1, way


def torch_compile(program: Program) -> tuple[Run, Callable[[], int], str]:
    import torch
    from torch._inductor.compile_fx import compile_fx

    count = 0

    def backend(graph: Any, inputs: Any) -> Any:
        nonlocal count
        count += 1
        return compile_fx(graph, inputs)

    compiled = torch.compile(program.torch, dynamic=True, backend=backend)

    def run(arrays: list[np.ndarray]) -> Any:
        with torch.no_grad():
            return compiled(*(torch.from_numpy(array) for array in arrays))

    return run, lambda: count, "dynamic=True"


def tvm(program: Program) -> tuple[Run, Callable[[], int], str]:
    import tvm
    from tvm import relax
    from tvm.relax.frontend.torch import from_exported_program

    module = from_exported_program(exported(program))
    compiled = tvm.compile(module, target=tvm.target.Target.from_device(tvm.cpu()))
    machine = relax.VirtualMachine(compiled, tvm.cpu())

    def run(arrays: list[np.ndarray]) -> Any:
        found = machine["main"](*(tvm.runtime.tensor(array) for array in arrays))
        return [value.numpy() for value in (found if hasattr(found, "__len__") else [found])]

    return run, lambda: 1, "torch.export"


def jax(program: Program) -> tuple[Run, Callable[[], int], str]:
    source = of_jax(program)
    return lambda arrays: source.call(*arrays), lambda: 1, "jax.export"


def onnxruntime(program: Program) -> tuple[Run, Callable[[], int], str]:
    import onnxruntime
    import torch

    model = torch.onnx.export(exported(program), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(model.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]
    return lambda arrays: session.run(None, dict(zip(names, arrays))), lambda: 1, "torch.onnx"


SYSTEMS = {"relaxc": relaxc, "torch.compile": torch_compile, "TVM": tvm, "JAX": jax, "onnxruntime": onnxruntime}


def sizes(program: Program, system: str) -> list[Any]:
    return [size for size in program.sizes if system != "JAX" or size not in program.not_for_jax]


def leaves(value: Any) -> list[np.ndarray]:
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    return [np.asarray(value)]


def difference(expected: list[np.ndarray], found: list[np.ndarray]) -> str | None:
    if len(expected) != len(found):
        return f"{len(found)} results for {len(expected)}"
    for ours, theirs in zip(found, expected):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return f"{ours.dtype}{list(ours.shape)} for {theirs.dtype}{list(theirs.shape)}"
        near = np.isclose(ours, theirs, rtol=1e-4, atol=1e-5, equal_nan=True)
        if not near.all():
            return f"{int((~near).sum())} of {near.size} elements differ"
    return None


def line(error: BaseException) -> str:
    # Folders of temporary files have other names each time.
    text = re.sub(r"\S*/relaxc-\w+/", "", " ".join(str(error).split())) or type(error).__name__
    return f"{type(error).__name__}: {text}"[:300]


def judged(program: Program, run: Run, size: Any) -> tuple[str, str]:
    import torch

    arrays = program.inputs(size)
    try:
        with torch.no_grad():
            expected = leaves(program.torch(*(torch.from_numpy(array.copy()) for array in arrays)))
    except Exception as error:
        expected = error
    try:
        found = leaves(run(arrays))
    except Exception as error:
        return ("right", "") if isinstance(expected, Exception) else ("error", line(error))
    if isinstance(expected, Exception):
        return "wrong", f"{list(found[0].shape)} where PyTorch says {line(expected)}"
    what = difference(expected, found)
    return ("wrong", what) if what else ("right", "")


def worker(system: str, name: str) -> None:
    """Prints a line of JSON for each step, so that a crash leaves what came before."""
    warnings.simplefilter("ignore")
    program = next(program for program in PROGRAMS if program.name == name)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What compilers print is not ours.
    say = lambda **what: print(json.dumps(what), file=out, flush=True)  # noqa: E731
    try:
        run, compilations, way = SYSTEMS[system](program)
    except Exception as error:
        return say(step="refused", detail=line(error))
    say(step="compiled", detail=way)
    for size in sizes(program, system):
        say(step="begun", size=size)
        verdict, detail = judged(program, run, size)
        say(step=verdict, size=size, detail=detail)
    say(step="compilations", count=compilations())


def measured(system: str, program: Program) -> dict[str, Any]:
    command = [sys.executable, os.path.abspath(__file__), "--worker", system, program.name]
    found: dict[str, Any] = {"right": 0, "faults": [], "compilations": None, "way": "", "refused": None}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        output, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as late:
        output, code = (late.stdout or b"").decode(), f"longer than {LIMIT} s"
    begun = None
    for step in map(json.loads, output.splitlines()):
        kind, size = step["step"], step.get("size")
        if kind == "refused":
            found["refused"] = step["detail"]
        elif kind == "compiled":
            found["way"] = step["detail"]
        elif kind == "begun":
            begun = size
        elif kind == "compilations":
            found["compilations"] = step["count"]
        else:
            begun = None
            found["right"] += kind == "right"
            if kind != "right":
                found["faults"].append((kind, size, step["detail"]))
    if code != 0:
        what = str(code) if isinstance(code, str) or code > 0 else signal.Signals(-code).name
        found["faults"].append(("crash", begun, what))
    return found


def cell(found: dict[str, Any], total: int) -> str:
    if found["refused"]:
        return "refused"
    shown = lambda size: "×".join(map(str, size)) if isinstance(size, list) else str(size)  # noqa: E731
    parts = []
    for kind in ("wrong", "error", "crash"):
        sizes = [shown(size) for fault, size, _ in found["faults"] if fault == kind]
        if sizes:
            parts.append(f"**{kind}** at {', '.join(sizes)}" if kind != "error" else f"error at {', '.join(sizes)}")
    if not parts:
        parts.append("right" if found["right"] == total else f"{found['right']} of {total} right")
    if found["compilations"] not in (None, 1):
        parts.append(f"{found['compilations']} compilations")
    return ", ".join(parts)


def page(systems: list[str], results: dict[tuple[str, str], dict[str, Any]], programs: list[Program]) -> str:
    lines = [f"| program | {' | '.join(systems)} |", f"|---|{'---|' * len(systems)}"]
    for program in programs:
        cells = [cell(results[system, program.name], len(sizes(program, system))) for system in systems]
        lines.append(f"| {program.name}: {program.about} | {' | '.join(cells)} |")
    lines += ["", "| | " + " | ".join(systems) + " |", f"|---|{'---|' * len(systems)}"]
    counts: dict[str, list[int]] = {what: [] for what in ("right", "wrong", "error", "crash", "not run")}
    for system in systems:
        of = [results[system, program.name] for program in programs]
        total = sum(len(sizes(program, system)) for program in programs)
        faults = [fault[0] for one in of for fault in one["faults"]]
        numbers = {"right": sum(one["right"] for one in of), **{kind: faults.count(kind) for kind in ("wrong", "error", "crash")}}
        for kind, number in numbers.items():
            counts[kind].append(number)
        counts["not run"].append(total - sum(numbers.values()))
    lines += [f"| {what} | {' | '.join(map(str, numbers))} |" for what, numbers in counts.items()]
    lines += ["", "What was said:", ""]
    for program in programs:
        for system in systems:
            found = results[system, program.name]
            said = [("refused", None, found["refused"])] if found["refused"] else found["faults"]
            for kind, size, detail in said:
                at = "" if size is None else f" at {size}"
                lines.append(f"- {program.name}, {system}, {kind}{at}: `{detail.replace('`', chr(39))}`")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--programs", default=",".join(program.name for program in PROGRAMS))
    parser.add_argument("--page", help="writes the tables to this file")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(*args.worker)
        return 0
    wanted = args.systems.split(",")
    unknown = [name for name in wanted if name not in SYSTEMS]
    programs = [program for program in PROGRAMS if program.name in args.programs.split(",")]
    if unknown or not programs:
        parser.error(f"systems are {', '.join(SYSTEMS)}; programs {', '.join(program.name for program in PROGRAMS)}")
    systems = [name for name in wanted if importlib.util.find_spec(PACKAGES[name])]
    for name in set(wanted) - set(systems):
        print(f"{name} is left out: the package {PACKAGES[name]} is not installed", file=sys.stderr)
    results = {}
    for program in programs:
        for system in systems:
            results[system, program.name] = measured(system, program)
            print(f"{program.name}, {system}: {cell(results[system, program.name], len(sizes(program, system)))}", file=sys.stderr)
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("torch", "jax", "onnxruntime", "apache-tvm")
                if importlib.util.find_spec(name.removeprefix("apache-"))]
    text = f"Made by `bench/dynamic/run.py` with {', '.join(versions)}.\n\n" + page(systems, results, programs)
    print(text)
    if args.page:
        with open(args.page, "w", encoding="utf-8") as file:
            file.write(text)
    ours = [fault for program in programs for fault in results.get(("relaxc", program.name), {}).get("faults", [])]
    return int(any(kind in ("wrong", "crash") for kind, _, _ in ours))


if __name__ == "__main__":
    sys.exit(main())
