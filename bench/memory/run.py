#!/usr/bin/env python3
"""Planned memory of the models of the corpus beside the sum of all tensors and beside what is in use at once.

    cargo build --release -p relax-cli
    python3 bench/memory/run.py [--relax target/release/relax] [--output bench/results/memory-2026-11.md]

No plan takes less than the tensors that are in use at the same time. Weights and inputs are not counted.
"""

import argparse
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = {
    "minilm": [{"b": 1, "n": 16}, {"b": 1, "n": 128}, {"b": 1, "n": 512}, {"b": 8, "n": 64}],
    "llama_decoder": [
        {"m": 0, "n": 1},
        {"m": 0, "n": 128},
        {"m": 127, "n": 1},
        {"m": 2047, "n": 1},
        {"m": 1000, "n": 7},
    ],
    "mlp": [{"n": 1}, {"n": 64}, {"n": 1000}],
}

# Functions that only test the model.
TESTS = {"sums", "wrong_mask"}


def report(relax, model, dims):
    """The memory of each function of a model for one choice of dims."""
    command = [relax, "opt", f"corpus/models/{model}.rx", "--to", "P2.1", "--memory-report", "json"]
    command += [part for name, value in dims.items() for part in ("--sym", f"{name}={value}")]
    shown = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return json.loads(shown)["functions"]


def rows(relax):
    """A line of the table for each function and choice of dims."""
    for model, choices in MODELS.items():
        for dims in choices:
            for function in report(relax, model, dims):
                own = function["figures"][0]
                if function["function"] in TESTS or not own["bytes"] or not set(own["dims"]) <= set(dims):
                    continue
                named = ", ".join(f"{name} = {value}" for name, value in own["dims"].items())
                planned, used = own["bytes"]["planned"], own["bytes"]["in_use"]
                yield model, function["function"], named, planned, used, own["bytes"]["all"]


def main():
    """Prints the table, or writes it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--relax", default=str(ROOT / "target/release/relax"))
    parser.add_argument("--output", type=pathlib.Path)
    args = parser.parse_args()
    lines = [
        "# Planned activation memory, in bytes",
        "",
        "Made by `python3 bench/memory/run.py --output bench/results/memory-2026-11.md`. *In use* is the largest",
        "number of bytes of tensors that are in use at the same time: no plan takes less. *All* is the sum of all tensors.",
        "A line counts what the function calls, too: what those functions take and return, and the results of operators",
        "without a tensor program. Functions of tests are left out.",
        "",
        "| model | function | dims | planned | in use | planned / in use | all | all / planned |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for model, function, dims, planned, used, everything in rows(args.relax):
        ratio = f"{planned / max(used, 1):.3f}"
        saved = f"{everything / max(planned, 1):.2f}"
        cells = [model, f"`{function}`", dims, planned, used, ratio, everything, saved]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    text = "\n".join(lines) + "\n"
    if args.output:
        args.output.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
