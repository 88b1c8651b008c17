#!/usr/bin/env python3
"""Small modules that TVM rewrites or compiles to wrong values: what it computes, and what is right by NumPy.

    bench/equiv/found_tvm.py

They are listed in docs/FOUND-ELSEWHERE.md. The exit code is 1 if one is right.
"""

import numpy
import tvm
from tvm import relax

HEAD = """# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import relax as R
n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main("""
MODULES = {
    "sum_of_none": ("""x: R.Tensor((n, 4), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        y = R.sum(x, axis=[0], keepdims=False)
        return y
""", [numpy.zeros((0, 4))], lambda x: x.sum(axis=0)),
    "product_over_none": ("""x: R.Tensor((2, n), dtype="float32"), w: R.Tensor((n, 4), dtype="float32")) -> R.Tensor((2, 4), dtype="float32"):
        y = R.matmul(x, w)
        return y
""", [numpy.zeros((2, 0)), numpy.zeros((0, 4))], lambda x, w: x @ w),
    "grouped_heads": ("""q: R.Tensor((2, 1, 2, 2), dtype="float32"), k: R.Tensor((2, 1, 1, 2), dtype="float32"), v: R.Tensor((2, 1, 1, 2), dtype="float32")):
        y = R.nn.attention(q, k, v)
        return y
""", [numpy.ones((2, 1, 2, 2)), numpy.ones((2, 1, 1, 2)), numpy.array([1, 2, 3, 4]).reshape(2, 1, 1, 2)],
                      lambda q, k, v: numpy.repeat(v, 2, axis=2)),
    "inverse_of_unique": ("""x: R.Tensor((n, 2), dtype="float32")):
        parts = R.unique(x, False, return_index=False, return_inverse=True, return_counts=False)
        y = parts[1]
        return y
""", [numpy.array([[3, 1], [1, 3]])], lambda x: numpy.array([0, 1, 1, 0])),
    "bias_of_attention": ("""q: R.Tensor((1, 1, 1, 2), dtype="float32"), k: R.Tensor((1, 2, 1, 2), dtype="float32"),
             v: R.Tensor((1, 2, 1, 2), dtype="float32"), b: R.Tensor((1, 1, 1, 2), dtype="float32")):
        with R.dataflow():
            y = R.nn.attention_bias(q, k, v, b)
            R.output(y)
        return y
""", [numpy.zeros((1, 1, 1, 2)), numpy.zeros((1, 2, 1, 2)), numpy.array([1, 2, 3, 4]).reshape(1, 2, 1, 2), numpy.array([100, 0]).reshape(1, 1, 1, 2)],
                          lambda q, k, v, b: v[:, :1]),
}


#: Passes that run before the compilation.
PASSES = {"bias_of_attention": relax.transform.ToMixedPrecision()}


def result(text, arrays, rewrite):
    """What TVM computes."""
    module = tvm.script.from_source(HEAD + text)
    machine = relax.VirtualMachine(tvm.compile(rewrite(module) if rewrite else module, target="llvm"), tvm.cpu())
    return machine["main"](*[tvm.runtime.tensor(array) for array in arrays]).numpy()


def main():
    wrong = []
    for name, (text, arrays, meaning) in MODULES.items():
        arrays = [array.astype(numpy.float32) for array in arrays]
        found, right = result(text, arrays, PASSES.get(name)), meaning(*arrays)
        wrong.append(not numpy.array_equal(found, right))
        print(f"{name}: {found.tolist()}, right is {right.tolist()}")
    raise SystemExit(0 if all(wrong) else 1)


if __name__ == "__main__":
    main()
