#!/usr/bin/env python3
"""Small programs that TVM's distributed Relax compiles to wrong values on two workers: what it computes, and what is right by NumPy.

    bench/sharding/found_tvm.py

They are listed in docs/FOUND-ELSEWHERE.md. The exit code is 1 if one is right.
"""

import os
import tempfile

import numpy as np
import tvm

from programs import Program
from tvm_worker import called, lowered, module

TABLE = np.array([[1], [2]], "float32")
#: For each program how its dims are given, and its value by NumPy.
CASES = (
    (
        Program(
            "take_of_cut_rows",
            'def main(table: CUT("n", 1; S[0]), ids: Tensor((1,), "i64")):',
            None,
            None,
            (lambda relax, table, ids: relax.op.take(table, ids, 0),),
            lambda n: {"table": TABLE, "ids": np.array([1])},
            (0, None),
        ),
        "constant",
        lambda table, ids: table[ids],
    ),
    (
        Program(
            "concat_of_cut_rows",
            'def main(x: CUT("m", 1; S[0]), y: CUT("n", 1; S[0])):',
            None,
            None,
            (lambda relax, x, y: relax.op.concat((x, y), 0),),
            lambda n: {"x": TABLE, "y": TABLE + 2},
            (0, 0),
        ),
        "constant",
        lambda x, y: np.concatenate((x, y)),
    ),
    (
        Program(
            "reshape_of_symbolic_rows",
            'def main(x: CUT("n", 1; S[0])):',
            None,
            None,
            (lambda relax, x: relax.op.reshape(x, relax.ShapeExpr([x.ty.shape.values[0]])),),
            lambda n: {"x": TABLE},
            (0,),
        ),
        "multiple",
        lambda x: x.ravel(),
    ),
)


def main():
    wrong = []
    for program, how, meaning in CASES:
        arrays = program.inputs(2)
        made, extents = module(program, program.tvm[0], arrays, 2, how)
        made, axis = lowered(made)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.so")
            tvm.compile(made, target="llvm").export_library(path)
            found = called(path, arrays, extents, 2, axis)
        right = meaning(*arrays.values())
        wrong.append(any(not np.array_equal(part, right) for part in found))
        layout = "on each worker" if axis is None else f"cut along axis {axis}"
        print(f"{program.name}: {[part.tolist() for part in found]} {layout}, right is {right.tolist()}")
    raise SystemExit(0 if all(wrong) else 1)


if __name__ == "__main__":
    main()
