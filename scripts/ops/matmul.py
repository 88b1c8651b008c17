"""matmul: expectations from NumPy (f64 product, rounded once)."""

import numpy as np

from rxgen import FLOATS, INTS, DTYPES, OpFile, approx, round_to, run, tensor, trap


def main():
    rng = np.random.default_rng(0)
    f = OpFile("matmul", "Matrix product.")
    for dtype in FLOATS:
        a = round_to(dtype, rng.standard_normal((3, 4)))
        b = round_to(dtype, rng.standard_normal((4, 2)))
        want = round_to(dtype, a.astype(np.float64) @ b.astype(np.float64))
        empty = (np.zeros((2, 0), DTYPES[dtype]), np.zeros((0, 3), DTYPES[dtype]))
        f.function(
            f"{dtype}_matrices",
            [("a", tensor(["n", "k"], dtype)), ("b", tensor(["k", "m"], dtype))],
            "matmul(a, b)",
            [
                approx(f"{dtype}_matrices", [a, b], want),
                run(f"{dtype}_matrices", empty, np.zeros((2, 3), DTYPES[dtype])),
                run(f"{dtype}_matrices", [empty[0][:0], empty[1]], np.zeros((0, 3), DTYPES[dtype])),
                approx(f"{dtype}_matrices", [a[:1, :1], b[:1, :1]], round_to(dtype, a[:1, :1].astype(np.float64) @ b[:1, :1].astype(np.float64))),
            ],
        )
    for dtype in INTS:
        a = rng.integers(0, 100, (2, 3)).astype(DTYPES[dtype])
        b = rng.integers(0, 100, (3, 2)).astype(DTYPES[dtype])
        f.function(
            f"{dtype}_matrices",
            [("a", tensor(["n", "k"], dtype)), ("b", tensor(["k", "m"], dtype))],
            "matmul(a, b)",
            [run(f"{dtype}_matrices", [a, b], a @ b)],
        )
    big = np.full((1, 3), 2**64 - 1, np.uint64)
    f.function("u64_wraps", [("a", tensor(["n", "k"], "u64")), ("b", tensor(["k", "m"], "u64"))], "matmul(a, b)",
               [run("u64_wraps", [big, big.T], big @ big.T)])
    a = rng.integers(-5, 5, (2, 1, 2, 3)).astype(np.float32)
    b = rng.integers(-5, 5, (3, 3, 2)).astype(np.float32)
    f.function(
        "batches",
        [("a", tensor(["p", 1, "n", "k"], "f32")), ("b", tensor(["q", "k", "m"], "f32"))],
        "matmul(a, b)",
        [run("batches", [a, b], a @ b)],
    )
    v = np.array([1, 2, 3], np.float32)
    f.function("vector_matrix", [("v", tensor(["k"], "f32")), ("b", tensor(["k", "m"], "f32"))], "matmul(v, b)",
               [run("vector_matrix", [v, b[0]], v @ b[0])])
    f.function("dot", [("v", tensor(["k"], "f32")), ("w", tensor(["k"], "f32"))], "matmul(v, w)",
               [run("dot", [v, v], v @ v)])
    f.function("inner_dims_may_differ", [("a", tensor([2, "n"], "f32")), ("b", tensor(["m", 2], "f32"))], "matmul(a, b)",
               [trap("matmul/C2", "inner_dims_may_differ", [np.ones((2, 3), np.float32), np.ones((5, 2), np.float32)])])
    f.refused("dtypes_differ", [("a", tensor([2, 2], "f32")), ("b", tensor([2, 2], "f16"))], "matmul(a, b)", "RX0501")
    f.refused("inner_dims_differ", [("a", tensor([2, 3], "f32")), ("b", tensor([4, 2], "f32"))], "matmul(a, b)", "RX0501")
    f.refused("scalar_operand", [("a", tensor([], "f32")), ("b", tensor([4, 2], "f32"))], "matmul(a, b)", "RX0501")
    f.write()


if __name__ == "__main__":
    main()
