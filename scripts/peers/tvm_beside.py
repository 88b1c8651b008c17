#!/usr/bin/env python3
"""What TVM's own compiler makes of a module, beside what we make of it, on the same inputs.

    python3 -m venv VENV && VENV/bin/pip install apache-tvm==0.27.0.post1 numpy
    cargo build --release -p relax-cli
    VENV/bin/python scripts/peers/tvm_beside.py [--relax target/release/relax] [--only NAME] [--output table.md]

The modules are those that TVM printed (import/tests/tvmscript) and every program of the corpus that `relax export` writes as
TVMScript. TVM parses the text, compiles it for this processor by its default pipeline, and calls each function; the inputs are
drawn once, for dims 3, 5, 7 and so on in the order of their names, and `relax run` gets the same files. TVM runs in a process of its own with a limit of
time, since it may crash; a new one then goes on with the next function.
"""

import argparse
import collections
import pathlib
import subprocess
import sys
import tempfile

from alike import archived, difference
from worker import Worker, brief, serve

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 60
EXTENTS = [3, 5, 7, 11, 13, 17]


def drawn(shape, dtype, random):
    """Elements that most operators have a value for; integers serve as indices as well."""
    import numpy

    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if dtype.startswith(("int", "uint")):
        return random.integers(0, 3, shape).astype(dtype)
    return random.uniform(-2, 2, shape).astype(numpy.dtype(dtype))


def inputs(function, folder, random, given=None):
    """Arrays for the parameters of a function, which are written into the folder too; `given` may hold them."""
    import numpy
    from tvm import relax, tirx

    variables = {}

    def extent(dim):
        if isinstance(dim, tirx.IntImm):
            return int(dim)
        if isinstance(dim, tirx.Var):
            return variables[dim.name]
        parts = [extent(getattr(dim, side)) for side in ("a", "b")]
        by = {"Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b,
              "FloorDiv": lambda a, b: a // b, "FloorMod": lambda a, b: a % b}
        return by[type(dim).__name__](*parts)

    types = [parameter.ty for parameter in function.params]
    if not all(isinstance(ty, relax.TensorType) and ty.shape is not None for ty in types):
        raise ValueError("a parameter that is no tensor of known rank")
    names = sorted({dim.name for ty in types for dim in ty.shape if isinstance(dim, tirx.Var)})
    variables.update(zip(names, EXTENTS))
    arrays = []
    for parameter, ty in zip(function.params, types):
        array = drawn([extent(dim) for dim in ty.shape], str(ty.dtype), random) if given is None else given[f"input_{parameter.name}"]
        numpy.save(folder / f"{parameter.name}.npy", array)
        arrays.append(array)
    return [parameter.name for parameter in function.params], arrays


def flat(value):
    """The tensors of a result."""
    if hasattr(value, "numpy"):
        return [value.numpy()]
    return [tensor for item in value for tensor in flat(item)]


def answers(text, folder, tried, given=None):
    """For each function of a module that was not tried before: its name, and then how it fared, on drawn inputs or on those of a file."""
    import numpy
    import tvm
    from tvm import relax

    module = tvm.script.from_source(text)
    functions = {var.name_hint: f for var, f in module.functions.items() if isinstance(f, relax.Function)}
    functions = {name: f for name, f in functions.items() if (f.attrs or {}).get("global_symbol")}
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    for name, function in sorted(functions.items()):
        if name in tried:
            continue
        yield name, "begun", [], ""
        place = folder / name
        place.mkdir()
        try:
            names, arrays = inputs(function, place, numpy.random.default_rng(1), given and numpy.load(given))
        except Exception as error:
            yield name, "skipped", [], f"no inputs: {error}"
            continue
        try:
            results = flat(machine[name](*[tvm.runtime.tensor(array) for array in arrays]))
        except Exception as error:
            yield name, "stopped", names, brief(error)
            continue
        numpy.savez(place / "tvm.npz", *results)
        yield name, "ran", names, ""


def of_job(job):
    """The answers on a module: where its text is, and where its inputs and results go."""
    return answers(pathlib.Path(job["text"]).read_text(), pathlib.Path(job["folder"]), job["tried"])


def ours(relax, program, name, names, place):
    """What `relax run` says of the same inputs: results, or the first line of why there are none."""
    given = [part for key in names for part in ("--input", f"{key}=@{place / key}.npy")]
    command = [relax, "run", str(program), "--entry", name, *given, "--output", str(place / "ours.npz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    return done.returncode, (done.stderr.strip().splitlines() or [""])[0]


def modules(relax, wanted, folder):
    """Name, text for TVM, and program for us."""
    for path in sorted((ROOT / "import/tests/tvmscript").glob("*.py")):
        if wanted in path.name:
            program = folder / f"{path.stem}.tvm.rx"
            made = subprocess.run([relax, "import", str(path), "-o", str(program)], capture_output=True)
            if made.returncode == 0:
                yield f"tvmscript/{path.name}", path, program
    for path in sorted((ROOT / "corpus").rglob("*.rx")):
        name = str(path.relative_to(ROOT / "corpus"))
        text = folder / f"{name.replace('/', '.')}.py"
        if wanted in name:
            made = subprocess.run([relax, "export", str(path), "-o", str(text)], capture_output=True)
            if made.returncode == 0:
                yield name, text, path


def compared(relax, wanted):
    """A row a function: module, function, outcome, reason."""
    worker = Worker([sys.executable, __file__, "--work"], SECONDS)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        for number, (name, text, program) in enumerate(modules(relax, wanted, scratch)):
            folder = scratch / str(number)
            folder.mkdir()
            for function, status, names, why in worker.run({"text": str(text), "folder": str(folder)}):
                yield (name, function, *outcome(relax, program, function, status, names, why, folder / function))


def outcome(relax, program, function, status, names, why, place):
    """How a function fares."""
    if status in ("refused", "crashed", "skipped"):
        return {"refused": "TVM refuses", "crashed": "TVM crashes", "skipped": "not tried"}[status], why
    code, told = ours(relax, program, function, names, place)
    if code == 3:
        both = "both stop" if status == "stopped" else "we stop, TVM gives values"
        return both, f"{told} / {why}" if why else told
    if code:
        return "we refuse", told
    if status == "stopped":
        return "TVM stops, we give values", why
    found = difference(archived(place / "tvm.npz", ""), archived(place / "ours.npz", ""))
    return ("agree", "") if found is None else ("differ", f"TVM and we: {found}")


def table(rows, command):
    """The summary, and every function that does not agree."""
    counts = collections.Counter(row[2] for row in rows)
    lines = ["# Beside TVM", "", f"`{command}`, apache-tvm {tvm_version()}.", "", "| outcome | functions |", "|---|---|"]
    lines += [f"| {kind} | {count} |" for kind, count in sorted(counts.items())]
    lines += ["", "| program | function | outcome | why |", "|---|---|---|---|"]
    for name, function, kind, why in rows:
        if kind not in ("agree", "not tried"):
            lines.append(f"| {name} | {function or '(module)'} | {kind} | {why.replace('|', '/')} |")
    return "\n".join(lines) + "\n"


def tvm_version():
    import importlib.metadata

    return importlib.metadata.version("apache-tvm")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--relax", default=str(ROOT / "target/release/relax"))
    parser.add_argument("--only", default="", help="a part of the names of modules")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        serve(of_job)
        return
    rows = []
    for row in compared(args.relax, args.only):
        rows.append(row)
        if row[2] != "agree":
            print(*row, sep=" | ", file=sys.stderr, flush=True)
    text = table(rows, "scripts/peers/tvm_beside.py")
    if args.output:
        args.output.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
