"""What rewrites of the graph gain: operations, bytes, launches and time of models of real size, by this build and by an older one.

    python3 bench/rewrites/run.py target/release/relax --before OLD/relax [--only NAME] [--rounds N] [--output FILE.md]

The models have random weights (models.py); files of them are written to a temporary folder, 1.3 GB. Both builds make a module
file with an empty cache, and one thread runs them in turns: the machine may be busy, and the ratio says more than the times.
Operations, bytes and launches are those that `relax bench` counts.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import models

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "compile_time"))
from run import show  # noqa: E402


def built(relax, program, weights, module):
    with tempfile.TemporaryDirectory() as cache:
        command = [relax, "build", str(program), "--params", str(weights), "-o", str(module), "--no-kernel-check"]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "XDG_CACHE_HOME": cache})
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")


def measured(relax, module, dims, seconds):
    """Operations, bytes, launches and milliseconds of a call."""
    sizes = [part for name, size in dims.items() for part in ("--sym", f"{name}={size}")]
    command = [relax, "bench", str(module), *sizes, "--threads", "1", "--seconds", str(seconds), "--format", "json", "--no-kernel-check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    kernels = [line for line in lines if line["type"] == "kernel"]
    # Operations and bytes are those of one launch.
    count = lambda key: sum((kernel[key] or 0) * kernel["calls"] for kernel in kernels)
    launches = sum(kernel["calls"] for kernel in kernels)
    return count("operations"), count("bytes"), launches, lines[0]["least_ms"]


def table(arguments, folder):
    binaries = [arguments.before, arguments.relax]
    yield "| model | dims | operations, before / now | bytes | launches | ms before | ms now | before / now |"
    yield "|---" * 8 + "|"
    for name, (_, dims) in models.MODELS.items():
        if arguments.only and arguments.only not in name:
            continue
        program, weights = models.made(name, folder)
        modules = [folder / f"{at}.rxm" for at in range(2)]
        for relax, module in zip(binaries, modules):
            built(relax, program, weights, module)
        counts, least = [None, None], [float("inf")] * 2
        for _ in range(arguments.rounds):
            for at, (relax, module) in enumerate(zip(binaries, modules)):
                *counts[at], took = measured(relax, module, dims, arguments.seconds)
                least[at] = min(least[at], took)
        ratios = [f"{before / now:.2f}" for before, now in zip(*counts)][:2]
        launches = f"{counts[0][2]}, {counts[1][2]}"
        shown = " ".join(f"{dim}={size}" for dim, size in dims.items())
        yield f"| {name} | {shown} | {ratios[0]} | {ratios[1]} | {launches} | {least[0]:.1f} | {least[1]:.1f} | {least[0] / least[1]:.2f} |"
        for path in (program, weights, *modules):
            path.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("relax")
    parser.add_argument("--before", required=True, help="an older build")
    parser.add_argument("--only", help="a part of a model's name")
    parser.add_argument("--rounds", type=int, default=3, help="of which the least time is shown")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a round")
    parser.add_argument("--output", help="also write the table to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        show(table(arguments, Path(folder)), arguments.output)


if __name__ == "__main__":
    main()
