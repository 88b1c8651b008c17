#!/usr/bin/env python3
"""Compares architectures of PyPI's transformers, exported by torch.export and compiled once by relaxc, with PyTorch at eight shapes:

    scripts/models/torch_zoo.py [NAME ...] [--page FILE] [--interpret]

Random weights, small configurations (zoo_models.py); batches of 0 and 1 and a length of 1 are among the shapes. It needs the package relaxc and the packages of
zoo_requirements.txt. The exit code is 1 where a result differs or a model is not compiled.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import torch
from torch.utils import _pytree as pytree

import relaxc
import zoo_models

NAMES = ["bert", "gpt2", "llama", "t5", "vit", "distilbert", "qwen3", "whisper"]
TEXT = [(0, 5), (1, 1), (1, 2), (2, 7), (3, 13), (5, 1), (2, 48), (4, 64)]
BATCHES = [(0,), (1,), (2,), (3,), (4,), (5,), (7,), (16,)]
#: Images of one size: a factor of interpolation that is a quotient of sizes is no dim.
FIXED = {"vit": (zoo_models.SQUARE, {})}
#: The largest difference, relative to the largest element.
TOLERANCE = 1e-5


def shapes_of(kind):
    if kind.inputs is zoo_models.square:
        return BATCHES
    # A decoder over a fixed number of frames takes (batch, length) too.
    return TEXT


def tensors(value):
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def difference(ours, theirs):
    """Relative to the largest element; infinite where shapes or NaN differ."""
    ours, theirs = ours.double(), theirs.double()
    if ours.shape != theirs.shape or not torch.equal(ours.isnan(), theirs.isnan()):
        return float("inf")
    if not theirs.numel():
        return 0.0
    away = (ours - theirs).nan_to_num(0.0).abs().max().item()
    return away / max(1.0, theirs.nan_to_num(0.0).abs().max().item())


def compared(name, backend):
    kind, arguments = FIXED.get(name, zoo_models.MODELS[name][1:])
    flat = zoo_models.Flat(zoo_models.build(name), arguments)
    row = {"name": name, "seconds": 0.0, "cells": [], "reason": "", "right": False}
    with torch.no_grad():
        try:
            inputs = kind.inputs(*kind.shapes[0])
            dynamic = {key: {axis: torch.export.Dim.DYNAMIC for axis in axes} for key, axes in kind.open_dims.items()}
            exported = torch.export.export(flat, (), kwargs=inputs, dynamic_shapes=dynamic)
        except Exception as error:  # PyTorch raises anything
            row["reason"] = f"not exported: {first_line(error)}"
            return row
        try:
            begin = time.monotonic()
            module = relaxc.compile(exported, backend=backend)
            row["seconds"] = time.monotonic() - begin
        except relaxc.Error as error:
            row["reason"] = f"not compiled: {first_line(error)}"
            return row
        for shape in shapes_of(kind):
            row["cells"].append(cell(flat, module, kind.inputs(*shape)))
    row["right"] = all(good for _, good in row["cells"])
    return row


def cell(flat, module, inputs):
    """What became of one shape, and whether it is right."""
    try:
        expected = tensors(flat(**inputs))
    except Exception as error:
        expected = error
    try:
        found = module(*inputs.values())
        found = [torch.from_dlpack(one) for one in (found if isinstance(found, tuple) else (found,))]
    except relaxc.Trap as trap:
        return f"trap {trap.code}", isinstance(expected, Exception)
    if isinstance(expected, Exception):
        return "PyTorch fails", True
    worst = max(map(difference, found, expected)) if len(found) == len(expected) else float("inf")
    return f"{worst:.1e}", worst <= TOLERANCE


def first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2])[:200] or type(error).__name__


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--page")
    parser.add_argument("--interpret", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = ["| architecture | compile, s | difference at each of 8 shapes | reason |", "|---|---|---|---|"]
    good = True
    for name in args.names or NAMES:
        row = compared(name, "interpreter" if args.interpret else None)
        good &= row["right"]
        cells = ", ".join(text for text, _ in row["cells"])
        lines.append(f"| {name} | {row['seconds']:.1f} | {cells} | {row['reason']} |")
        print(lines[-1], flush=True)
    if args.page:
        with open(args.page, "w", encoding="utf-8") as to:
            to.write("\n".join(lines) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
