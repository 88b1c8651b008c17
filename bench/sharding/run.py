"""Ten distributed programs on 2, 3 and 4 ranks: right, wrong or refused, by relax, PyTorch's DTensor, JAX and TVM's distributed Relax.

    pip install torch jax numpy apache-tvm
    python3 bench/sharding/run.py --relax target/release/relax -o bench/results/sharding-2026-11.md
    python3 bench/sharding/run.py --columns TVM --into bench/results/sharding-2026-11.md

The second form replaces or adds the named columns of a page and leaves its other columns and text. A system whose library cannot be
imported is left out; `--python tvm=PATH` names a Python that has it.

Each system has its documented idiom. relax: a program with layouts and symbolic dims, `relax run --ranks P`, in the interpreter and
compiled. PyTorch: `distribute_tensor` on a mesh of processes with gloo, operators on DTensors, `full_tensor`. JAX: `device_put` with a
`NamedSharding`, then `jit`; where that refuses, `with_sharding_constraint` on whole inputs in the compiled function is a column of its
own: the inputs are then whole on each device first. TVM: `annotate_sharding`, the passes from `PropagateSharding` to `LowerDistIR`, and
a Disco session of threads with the collectives of `tvm_worker.py`; with symbolic dims, with cut dims that are P * k, and compiled for
each size. Results are compared with NumPy in f64. Sizes are those of `programs.py`.
"""

import argparse
import datetime
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

from programs import PROGRAMS, expected, relax_text, verdict

HERE = pathlib.Path(__file__).parent
RANKS = (2, 3, 4)
#: The columns of each library, with the last arguments of its worker.
LIBRARIES = {
    "torch": {"torch DTensor": ()},
    "jax": {"JAX, device_put": ("put",), "JAX, constraint": ("constraint",)},
    "tvm": {"TVM, symbolic n": ("symbolic",), "TVM, P * k": ("multiple",), "TVM, constant n": ("constant",)},
}
KINDS = ("right", "wrong", "refused", "crashed", "not executed")


def relax_of(command, backend):
    def run(number, ranks):
        program = PROGRAMS[number]
        with tempfile.TemporaryDirectory() as folder:
            text, result = pathlib.Path(folder, "program.rx"), pathlib.Path(folder, "result.npy")
            text.write_text(relax_text(program, ranks))
            for size in program.sizes:
                arrays = program.inputs(size)
                inputs = []
                for name, array in arrays.items():
                    np.save(pathlib.Path(folder, f"{name}.npy"), array)
                    inputs += ["--input", f"{name}=@{folder}/{name}.npy"]
                shown = ["run", str(text), "--ranks", str(ranks), *backend, *inputs, "--output", str(result)]
                ran = subprocess.run([command, *shown], capture_output=True, text=True, timeout=300)
                if ran.returncode:
                    yield size, "refused: " + (ran.stdout + ran.stderr).strip().splitlines()[0]
                else:
                    yield size, verdict(np.load(result).astype("float64"), expected(program, arrays))

    return run


def worker(python, script, *rest):
    def run(number, ranks):
        command = [python, str(HERE / script), str(number), str(ranks), *rest]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=900)
        lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
        answers = [(line["size"], line["said"]) for line in lines if "size" in line]
        yield from answers
        for size in PROGRAMS[number].sizes[len(answers) :]:
            yield size, f"crashed: the process ended with {ran.returncode}"

    return run


def chosen(args):
    """The columns of this run, and the versions of their systems."""

    def wanted(names):
        return [name for name in names if any(name.startswith(prefix) for prefix in args.columns)]

    systems, versions = {}, {}
    backends = {"relax": [], "relax, compiled": ["--backend", "cpu"]}
    for name in wanted(backends) if args.relax else []:
        systems[name] = relax_of(args.relax, backends[name])
        lines = subprocess.run([args.relax, "--version"], capture_output=True, text=True).stdout.splitlines()
        versions["relax"] = ", ".join(line.removeprefix("relax ") for line in lines)
    pythons = dict(entry.split("=", 1) for entry in args.python)
    for library, columns in LIBRARIES.items():
        names, python = wanted(columns), pythons.get(library, sys.executable)
        if not names:
            continue
        asked = f"import numpy, platform, {library}; print({library}.__version__, numpy.__version__, platform.python_version())"
        found = subprocess.run([python, "-c", asked], capture_output=True, text=True)
        if found.returncode:
            print(f"{library} cannot be imported: its columns are left out", file=sys.stderr)
            continue
        version, numpy, own = found.stdout.split()
        versions[library] = f"{version} with numpy {numpy} on Python {own}"
        for name in names:
            systems[name] = worker(python, f"{library}_worker.py", *columns[name])
    return systems, versions


def counted(said):
    """`right`, or how many calls were what."""
    kinds = [answer.split(":")[0] for _, _, answer in said]
    counts = {kind: kinds.count(kind) for kind in KINDS if kind in kinds}
    if len(counts) == 1:
        return kinds[0]
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


def shortened(answer):
    """A message without the extents that differ from size to size."""
    return re.sub(r"\d+", "N", answer)


def calls_of(number, calls):
    """Sizes by ranks, in words."""
    if all(tuple(calls.get(ranks, ())) == PROGRAMS[number].sizes for ranks in RANKS):
        return "every call"
    return "; ".join(f"n = {', '.join(map(str, sizes))} on {ranks}" for ranks, sizes in calls.items())


def measured(systems, numbers):
    """The cells of the table, and a line of each message of each column."""
    cells, messages = {}, {}
    for number in numbers:
        program = PROGRAMS[number]
        for name, system in systems.items():
            said = [(ranks, size, answer) for ranks in RANKS for size, answer in system(number, ranks)]
            cells[program.name, name] = counted(said)
            for ranks, size, answer in said:
                if answer.split(":")[0] not in ("right", "not executed"):
                    _, places = messages.setdefault((name, shortened(answer)), (answer, {}))
                    places.setdefault(number, {}).setdefault(ranks, []).append(size)
            print(f"{program.name}, {name}: {cells[program.name, name]}", file=sys.stderr, flush=True)
    notes = []
    for (name, _), (answer, places) in sorted(messages.items(), key=lambda item: list(systems).index(item[0][0])):
        where = "; ".join(f"{PROGRAMS[number].name} ({calls_of(number, calls)})" for number, calls in places.items())
        notes.append(f"- {name}, {where}: `{answer.replace('`', chr(39))}`")
    return cells, notes


def parsed(shown):
    """The columns, cells, versions and notes of a table that `rendered` made."""
    lines = shown.splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    columns = rows[0][2:] if rows else []
    cells = {(row[0], column): cell for row in rows[1:] for column, cell in zip(columns, row[2:])}
    versions = [line for line in lines if line.startswith("Versions")]
    return columns, cells, versions, [line for line in lines if line.startswith("- ")]


def rendered(columns, cells, versions, notes):
    rows = []
    for program in PROGRAMS:
        found = [cells.get((program.name, column), "") for column in columns]
        if any(found):
            rows.append("| " + " | ".join([program.name, ", ".join(map(str, program.sizes)), *found]) + " |")
    head = [f"| program | n | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    return "\n".join([*head, *rows, "", *versions, "", "What was not right:", "", *notes]) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--relax", help="the command; without it relax has no columns")
    parser.add_argument("--columns", nargs="+", default=[""], help="names of columns, or how they begin")
    parser.add_argument("--python", action="append", default=[], metavar="LIBRARY=PATH", help="the Python of torch, jax or tvm")
    parser.add_argument("--only", help="numbers of programs, such as 0,7", default=",".join(map(str, range(len(PROGRAMS)))))
    parser.add_argument("-o", "--output")
    parser.add_argument("--into", metavar="PAGE", help="a page whose table gets these columns")
    args = parser.parse_args()
    systems, versions = chosen(args)
    cells, notes = measured(systems, map(int, args.only.split(",")))
    columns, today = list(systems), f"{datetime.date.today():%-d %B %Y}"
    versions = [f"Versions, {library}: {version}, {today}.  " for library, version in versions.items()]
    if args.into:
        page = pathlib.Path(args.into).read_text()
        whole = re.search(r"^\| program \|.*?(?=\n## |\Z)", page, re.DOTALL | re.MULTILINE)
        old_columns, old_cells, old_versions, old_notes = parsed(whole.group())
        columns = old_columns + [name for name in columns if name not in old_columns]
        cells = old_cells | cells
        libraries = tuple(line.split(":")[0] for line in versions)
        versions = [line for line in old_versions if not line.startswith(libraries)] + versions
        redone = tuple(f"- {name}, " for name in systems)
        notes = [line for line in old_notes if not line.startswith(redone)] + notes
        shown = rendered(columns, cells, versions, notes)
        pathlib.Path(args.into).write_text(page[: whole.start()] + shown + page[whole.end() :])
    else:
        shown = rendered(columns, cells, versions, notes)
    if args.output:
        pathlib.Path(args.output).write_text(shown)
    print(shown)


main()
