"""Ten distributed programs on 2, 3 and 4 ranks: right, wrong or refused, by relax, PyTorch's DTensor and JAX.

    pip install torch jax numpy
    python3 bench/sharding/run.py --relax target/release/relax -o bench/results/sharding-2026-11.md

Each system has its documented idiom. relax: a program with layouts and symbolic dims, `relax run --ranks P`, in the interpreter and
compiled. PyTorch: `distribute_tensor` on a mesh of processes with gloo, operators on DTensors, `full_tensor`. JAX: `device_put` with a
`NamedSharding`, then `jit`; where that refuses, `with_sharding_constraint` on whole inputs in the compiled function is a column of its
own: the inputs are then whole on each device first. Results are compared with NumPy in f64. Sizes are those of `programs.py`.
"""

import argparse
import json
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

import numpy as np

from programs import PROGRAMS, expected, relax_text, verdict

HERE = pathlib.Path(__file__).parent
RANKS = (2, 3, 4)


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


def worker(script, *rest):
    def run(number, ranks):
        command = [sys.executable, str(HERE / script), str(number), str(ranks), *rest]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=900)
        lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
        answers = [(line["size"], line["said"]) for line in lines if "size" in line]
        yield from answers
        for size in PROGRAMS[number].sizes[len(answers) :]:
            yield size, f"crashed: the process ended with {ran.returncode}"

    return run


def counted(said):
    """`right`, or how many calls were what."""
    kinds = [answer.split(":")[0] for _, _, answer in said]
    counts = {kind: kinds.count(kind) for kind in ("right", "wrong", "refused", "crashed") if kind in kinds}
    return "right" if set(counts) == {"right"} else ", ".join(f"{count} {kind}" for kind, count in counts.items())


def shortened(answer):
    """A message without the extents that differ from size to size."""
    return re.sub(r"\d+", "N", answer)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--relax", required=True)
    parser.add_argument("-o", "--output")
    parser.add_argument("--only", help="numbers of programs, such as 0,7", default=",".join(map(str, range(len(PROGRAMS)))))
    args = parser.parse_args()
    systems = {
        "relax": relax_of(args.relax, []),
        "relax, compiled": relax_of(args.relax, ["--backend", "cpu"]),
        "torch DTensor": worker("torch_worker.py"),
        "JAX, device_put": worker("jax_worker.py", "put"),
        "JAX, constraint": worker("jax_worker.py", "constraint"),
    }
    rows, messages = [], {}
    for number in map(int, args.only.split(",")):
        program, cells = PROGRAMS[number], []
        for name, system in systems.items():
            said = [(ranks, size, answer) for ranks in RANKS for size, answer in system(number, ranks)]
            cells.append(counted(said))
            for ranks, size, answer in said:
                if answer != "right":
                    place = messages.setdefault((name, program.name, shortened(answer)), [answer])
                    place.append(f"n = {size} on {ranks}")
            print(f"{program.name}, {name}: {cells[-1]}", file=sys.stderr, flush=True)
        rows.append(f"| {program.name} | {', '.join(map(str, program.sizes))} | " + " | ".join(cells) + " |")
    import importlib.metadata

    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "jax", "numpy"))
    text = [
        f"| program | n | {' | '.join(systems)} |",
        "|---" * (len(systems) + 2) + "|",
        *rows,
        "",
        f"Versions: {versions}, Python {platform.python_version()}.",
        "",
        "What was not right:",
        "",
    ]
    for (name, program, _), (answer, *places) in messages.items():
        text.append(f"- {name}, {program} ({'; '.join(places)}): `{answer.replace('`', chr(39))}`")
    shown = "\n".join(text) + "\n"
    if args.output:
        pathlib.Path(args.output).write_text(shown)
    print(shown)


main()
