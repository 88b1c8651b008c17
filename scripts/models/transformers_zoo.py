#!/usr/bin/env python3
"""Compares architectures of PyPI's transformers, exported by PyTorch and built by relax, with PyTorch:
python3 scripts/models/transformers_zoo.py [--relax PATH] [--folder FOLDER] [--json FILE] [--page FILE] [NAME ...]

Random weights, small configurations (zoo_models.py). Each model is exported once with its sizes left open, built once
(fallbacks, which `--deny-fallback` refuses, are listed), and run at four shapes. A result is right where its difference
from PyTorch in f64 is at most twice that of PyTorch in f32, plus 1e-6 of the largest magnitude. Where relax stops, and onnx's own
evaluator does too, the exporter left something out for that shape: it is no error of relax, and stands in the table. The exit code is 1
if a model that PyTorch exports is not right or not built without a fallback. Versions: zoo_requirements.txt.
"""

import argparse
import contextlib
import copy
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy
import onnx
import torch
import zoo_models
from onnx.reference import ReferenceEvaluator

OPSET = 20
# Packages whose versions decide what is exported.
PACKAGES = ("torch", "transformers", "onnx", "onnxscript", "numpy")
# The warning of `relax build` that `--deny-fallback` makes an error.
FALLBACK = re.compile(r"RX0505\]: `(\w+)`")
# Seconds for a build, and for a run.
MOST_SECONDS = 600


@contextlib.contextmanager
def doubles():
    """Where a model asks for f32 it gets f64, so that no step of the reference is rounded to f32."""
    kept = torch.float32, torch.float, torch.Tensor.float, torch.get_default_dtype()
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = kept[:3]
        torch.set_default_dtype(kept[3])


def widened(inputs):
    return {name: value.double() if value.is_floating_point() else value for name, value in inputs.items()}


def first_line(text):
    lines = [line.strip() for line in str(text).splitlines() if line.strip()]
    return (lines or ["no message"])[0][:160]


def export(name, flat, kind, path):
    """Writes the model. Raises what the exporter raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(flat, kwargs=kind.inputs(*kind.shapes[0]), dynamic_shapes=kind.open_dims,
                                    dynamo=True, opset_version=OPSET, verbose=False)
    program.save(path)
    proto = onnx.load(path)
    onnx.checker.check_model(proto)
    # The exporter may fix a dim that was to stay open, and says nothing.
    for value in proto.graph.input:
        for axis, dim in kind.open_dims[value.name].items():
            if not value.type.tensor_type.shape.dim[axis].dim_param:
                path.unlink()
                raise ValueError(f"the exporter fixes dim {axis} of {value.name}")


def references(flat, kind):
    """For each shape the inputs, and the results in f32 and in f64."""
    wide = copy.deepcopy(flat).double()
    found = []
    torch.manual_seed(2)
    for shape in kind.shapes[1]:
        inputs = kind.inputs(*shape)
        with torch.no_grad():
            single = flat(**inputs)
            with doubles():
                double = wide(**widened(inputs))
        found.append((inputs, [v.numpy() for v in single], [v.numpy() for v in double]))
    return found


def ratio(got, single, double):
    """The difference from f64 in units of what is allowed; at most 1 where the result is right."""
    if got.shape != double.shape:
        return float("inf")
    if double.size == 0:
        return 0.0
    # Entries that are infinite or NaN must be the same ones.
    finite = numpy.isfinite(double)
    if not numpy.array_equal(got[~finite], double[~finite].astype(got.dtype), equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    got, single, double = (values[finite].astype(numpy.float64) for values in (got, single, double))
    allowed = 2 * abs(single - double).max() + 1e-6 * abs(double).max()
    return float(abs(got - double).max() / allowed) if allowed else float(abs(got).max() != 0)


def command(relax, *arguments):
    """Runs relax: why it failed, or nothing, and all that it says."""
    try:
        done = subprocess.run([relax, *map(str, arguments)], capture_output=True, text=True, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return f"no end after {MOST_SECONDS} s", ""
    said = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    failed = f"exit code {done.returncode}: " + " / ".join(said)[:2000] if done.returncode else ""
    return failed, done.stderr


def fallbacks(said):
    """The operators that stay with the reference library: those for which --deny-fallback refuses the program."""
    operators = sorted(set(FALLBACK.findall(said)))
    return f"fallback: {', '.join(operators)}" if operators else ""


def run(relax, program, inputs, folder):
    """The results at one shape, or what relax said."""
    given, taken = folder / "in.npz", folder / "out.npz"
    numpy.savez(given, **{name: value.numpy() for name, value in inputs.items()})
    taken.unlink(missing_ok=True)
    flags = [flag for name in inputs for flag in ("--input", f"{name}=@{given}:{name}")]
    failed, _ = command(relax, "run", program, "--backend", "cpu", *flags, "--output", taken)
    if failed:
        return failed
    results = numpy.load(taken)
    return [results[key] for key in results.files]


def no_value(path, inputs, others):
    """Why the export has no results for inputs: its own evaluator, of the package onnx, fails there and at no other shape. Else nothing."""
    evaluator = ReferenceEvaluator(str(path))

    def failure(given):
        try:
            evaluator.run(None, {name: value.numpy() for name, value in given.items()})
        except Exception as error:  # the evaluator raises anything
            return f"{type(error).__name__}: {first_line(error)}"
        return ""

    failed = failure(inputs)
    return failed if failed and not any(map(failure, others)) else ""


def compared(relax, name, folder):
    """One row of the table."""
    row = {"name": name, "exported": False, "imported": False, "built": False, "ratios": [], "right": False, "reason": ""}
    _, kind, arguments = zoo_models.MODELS[name]
    path = folder / f"{name}.onnx"
    try:
        flat = zoo_models.Flat(zoo_models.build(name), arguments)
        if not path.exists():
            torch.manual_seed(1)
            export(name, flat, kind, path)
        row["exported"] = True
    except Exception as error:  # the exporter raises anything
        row["reason"] = f"{type(error).__name__}: {first_line(error)}"
        return row
    text, program = folder / f"{name}.rx", folder / f"{name}.rxm"
    row["reason"], _ = command(relax, "import", path, "-o", text, "--params", folder / f"{name}.safetensors")
    row["imported"] = not row["reason"]
    if not row["imported"]:
        return row
    row["reason"], said = command(relax, "build", path, "-o", program)
    if row["reason"]:
        return row
    row["reason"] = fallbacks(said)
    row["built"] = not row["reason"]
    compared_with = references(flat, kind)
    for inputs, single, double in compared_with:
        got = run(relax, program, inputs, folder)
        others = [other for other, _, _ in compared_with if other is not inputs]
        if isinstance(got, str) and (failed := no_value(path, inputs, others)):
            row["reason"] = row["reason"] or f"the export has no value at one shape, in onnx's evaluator neither: {failed}"
            row["ratios"].append(None)
        elif isinstance(got, str):
            row["reason"] = row["reason"] or got
            row["ratios"].append(float("inf"))
        elif len(got) != len(double):
            row["reason"] = f"{len(got)} results where PyTorch has {len(double)}"
            row["ratios"].append(float("inf"))
        else:
            row["ratios"].append(max(map(ratio, got, single, double)))
    compared_ratios = [value for value in row["ratios"] if value is not None]
    row["right"] = bool(compared_ratios) and all(value <= 1 for value in compared_ratios)
    return row


def shown(row):
    flag = {True: "yes", False: "no"}
    ratios = " ".join("none" if value is None else f"{value:.2f}" for value in row["ratios"]) or "-"
    cells = [row["name"], flag[row["exported"]]]
    cells += [flag[row[key]] if row["exported"] else "-" for key in ("imported", "built")]
    return [*cells, ratios, row["reason"][:200].replace("|", "/") or "-"]


def table(rows):
    head = ["architecture", "exported", "imported", "built without fallback", "largest error ratio at each shape", "reason"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return lines + [f"| {' | '.join(shown(row))} |" for row in rows]


def summary(rows):
    exported = [row for row in rows if row["exported"]]
    right = [row for row in exported if row["right"] and row["built"]]
    return f"Of {len(rows)} architectures {len(exported)} are exported; {len(right)} of these are right, without a fallback."


def page(rows):
    versions = ", ".join(f"{package} {version(package).split('+')[0]}" for package in PACKAGES)
    return "\n".join([
        "# Architectures of `transformers`, November 2026",
        "",
        "Command: `python3 scripts/models/transformers_zoo.py --page bench/results/transformers-zoo-2026-11.md`, with",
        f"{versions}.",
        "",
        "Small configurations with random weights (`scripts/models/zoo_models.py`). One export and one build serve all",
        "shapes. The ratio is the difference from PyTorch in f64 divided by what is allowed: twice the difference of",
        "PyTorch in f32 from f64, plus 1e-6 of the largest magnitude. A ratio of at most 1 is right; `none` is a shape",
        "for which the exported model has no value, in onnx's own evaluator neither.",
        "",
        summary(rows),
        "",
        *table(rows),
        "",
    ])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="architectures; all by default")
    parser.add_argument("--relax", default=os.environ.get("RELAX", "target/release/relax"), help="the command")
    parser.add_argument("--folder", type=Path, help="keeps exported models here, and takes those that lie there")
    parser.add_argument("--json", type=Path, help="writes the rows as JSON")
    parser.add_argument("--page", type=Path, help="writes the page of results")
    given = parser.parse_args()
    unknown = set(given.names) - set(zoo_models.MODELS)
    if unknown:
        parser.error(f"no such architecture: {', '.join(sorted(unknown))}")
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in given.names or zoo_models.MODELS:
            rows.append(compared(given.relax, name, folder))
            print(" | ".join(shown(rows[-1])), flush=True)
    print(summary(rows))
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")
    if given.page:
        given.page.write_text(page(rows))
    return 1 if any(row["exported"] and not (row["right"] and row["built"]) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
