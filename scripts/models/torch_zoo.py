#!/usr/bin/env python3
"""Compares architectures of PyPI's transformers, torchvision and timm, exported by torch.export and compiled once by relaxc, with PyTorch at eight shapes:

    scripts/models/torch_zoo.py [NAME ...] [--all] [--images] [--page FILE] [--interpret]

Random weights, small configurations (zoo_models.py, image_zoo.py); batches of 0 and 1 and a length of 1 are among the shapes. PyTorch in f64 judges: a difference
may be twice that of PyTorch in f32, plus 1e-6 of the largest element. `another branch` is a shape for which the model takes another branch than in
the trace; PyTorch's exported program refuses it too. It needs the package relaxc and the packages of
zoo_requirements.txt. The exit code is 1 where a result differs or a model is not compiled.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
import warnings

import torch
from torch.utils import _pytree as pytree

import image_zoo
import relaxc
import zoo_models

NAMES = ["bert", "gpt2", "llama", "t5", "vit", "distilbert", "qwen3", "whisper"]
TEXT = [(0, 5), (1, 1), (1, 2), (2, 7), (3, 13), (5, 1), (2, 48), (4, 64)]
BATCHES = [(0,), (1,), (2,), (3,), (4,), (5,), (7,), (16,)]
IMAGES = [(0, 16, 24), (1, 8, 8), (1, 16, 24), (2, 16, 24), (3, 28, 20), (2, 48, 64), (5, 8, 16), (4, 32, 32)]
PYRAMIDS = [(0, 64, 96), (1, 32, 32), (1, 64, 64), (2, 64, 96), (3, 47, 75), (2, 128, 96), (4, 33, 40), (5, 32, 48)]
WAVES = [(0, 160), (1, 40), (1, 41), (2, 77), (3, 131), (2, 800), (4, 100), (5, 64)]
#: Images of one size: a factor of interpolation that is a quotient of sizes is no dim.
FIXED = {name: (zoo_models.SQUARE, {}) for name in ("vit", "deit", "dinov2")}


def shapes_of(kind):
    # A decoder over a fixed number of frames takes (batch, length) too.
    shapes = {
        id(zoo_models.SQUARE): BATCHES, id(zoo_models.IMAGE): IMAGES, id(zoo_models.PYRAMID): PYRAMIDS, id(zoo_models.WAVE): WAVES,
    }  # fmt: skip
    return shapes.get(id(kind), TEXT)


def tensors(value):
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def ratio(ours, theirs, exact):
    """The difference from f64 by that which is allowed; infinite where shapes or NaN differ from PyTorch's."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype or not torch.equal(ours.isnan(), theirs.isnan()):
        return float("inf")
    if not theirs.numel():
        return 0.0
    away = lambda one: (one.double() - exact).nan_to_num(0.0).abs().max().item()  # noqa: E731
    allowed = 2 * away(theirs) + 1e-6 * exact.double().nan_to_num(0.0).abs().max().item()
    if not allowed:
        return float("inf") if away(ours) else 0.0
    return away(ours) / allowed


def wide(inputs):
    return {name: value.double() if value.is_floating_point() else value for name, value in inputs.items()}


def made(name):
    """The model, its inputs, and the shapes that are compared."""
    if name in zoo_models.MODELS:
        kind, arguments = FIXED.get(name, zoo_models.MODELS[name][1:])
        return zoo_models.Flat(zoo_models.build(name), arguments), kind, shapes_of(kind)
    kind = image_zoo.MODELS[name][1]
    return image_zoo.build(name), kind, kind.shapes[1]


def compared(name, backend):
    flat, kind, shapes = made(name)
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
        judge = copy.deepcopy(flat).double()
        for shape in shapes:
            row["cells"].append(cell((flat, judge, exported, module), kind.inputs(*shape), shape))
    row["right"] = all(good for _, good in row["cells"])
    return row


def takes_another_branch(exported, inputs, shape, trap):
    """Whether a trap is a guard of the model that PyTorch's exported program checks too. Of sizes of 0 and 1 it refuses all."""
    if "the model was exported for" not in trap.message or min(shape) < 2:
        return False
    try:
        exported.module()(**inputs)
    except Exception:
        return True
    return False


def cell(programs, inputs, shape):
    """What became of one shape, and whether it is right."""
    flat, judge, exported, module = programs
    try:
        expected = tensors(flat(**inputs))
        exact = tensors(judge(**wide(inputs)))
    except Exception as error:
        expected = error
    try:
        found = module(*inputs.values())
        found = [torch.from_dlpack(one) for one in (found if isinstance(found, tuple) else (found,))]
    except relaxc.Trap as trap:
        if isinstance(expected, Exception):
            return "PyTorch fails", True
        if takes_another_branch(exported, inputs, shape, trap):
            return "another branch", True
        return f"trap {trap.code}", False
    if isinstance(expected, Exception):
        return "PyTorch fails", True
    worst = max(map(ratio, found, expected, exact)) if len(found) == len(expected) else float("inf")
    return f"{worst:.2f}", worst <= 1


def first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2])[:200] or type(error).__name__


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--page")
    parser.add_argument("--all", action="store_true", help="all architectures of transformers (zoo_models.py)")
    parser.add_argument("--images", action="store_true", help="all architectures of torchvision and timm (image_zoo.py)")
    parser.add_argument("--interpret", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = ["| architecture | compile, s | error by what is allowed, at each of 8 shapes | reason |", "|---|---|---|---|"]
    good = True
    names = list(zoo_models.MODELS) * args.all + list(image_zoo.MODELS) * args.images
    for name in names or args.names or NAMES:
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
