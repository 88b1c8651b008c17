"""`python -m relaxc.demo`: attention of any length, compiled once, called at several lengths, checked against NumPy."""

from __future__ import annotations

import sys
import time

import relaxc

PROGRAM = '''
def main(q: Tensor(("n", 64), "f32"), k: Tensor(("m", 64), "f32"), v: Tensor(("m", 64), "f32")):
    scores = matmul(q, permute_dims(k))
    weights = softmax(multiply(scores, const(0.125, "f32")))
    return matmul(weights, v)
'''


def main() -> int:
    try:
        import numpy
    except ImportError:
        print("the demo needs NumPy: pip install numpy", file=sys.stderr)
        return 1
    version, compiler, solver = relaxc.info()
    print(f"relaxc {version}; C compiler: {compiler or 'none'}; solver: {solver or 'none'}")
    begin = time.perf_counter()
    module = relaxc.compile(PROGRAM)
    print(f"compiled for all lengths in {time.perf_counter() - begin:.1f} s, backend {module.backend}")
    random = numpy.random.default_rng(0)
    worst = 0.0
    for n, m in [(1, 1), (3, 7), (64, 128), (200, 1)]:
        q, k, v = (random.standard_normal((rows, 64)).astype("float32") for rows in (n, m, m))
        result = numpy.asarray(module(q, k, v))
        scores = q.astype("float64") @ k.T * 0.125
        weights = numpy.exp(scores - scores.max(1, keepdims=True))
        expected = weights / weights.sum(1, keepdims=True) @ v
        difference = float(abs(result - expected).max())
        # A comparison with NaN is false, so that NaN fails too.
        if not difference < 1e-4:
            print(f"n = {n}, m = {m}: the result differs by {difference}", file=sys.stderr)
            return 1
        worst = max(worst, difference)
        print(f"n = {n:3}, m = {m:3}: result {result.shape}, differs from NumPy in f64 by {difference:.1e}")
    try:
        module(q, k, v[:0])
    except relaxc.Trap as trap:
        print(f"lengths that differ stop the call:\n{trap}")
        return 0
    print("a call with lengths that differ was not stopped", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
