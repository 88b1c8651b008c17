"""where and ewise_fma. The products and sums are exact rationals, rounded once."""

from fractions import Fraction

import numpy as np

from rxgen import FLOATS, INTS, OpFile, round_to, run, tensor, trap

from unary import samples


def params(names, shapes, dtypes):
    return [(name, tensor(shape, dtype)) for name, shape, dtype in zip(names, shapes, dtypes)]


def where():
    f = OpFile("where", "Choice between two tensors.")
    names = ["c", "a", "b"]
    for dtype in FLOATS + INTS + ["bool"]:
        a = samples(dtype)
        b = a[::-1].copy()
        c = np.arange(len(a)) % 3 == 0
        f.function(f"{dtype}_vectors", params(names, [["n"]] * 3, ["bool", dtype, dtype]), "where(c, a, b)", [
            run(f"{dtype}_vectors", [c, a, b], np.where(c, a, b)),
            run(f"{dtype}_vectors", [c[:1], a[:1], b[:1]], np.where(c[:1], a[:1], b[:1])),
            run(f"{dtype}_vectors", [c[:0], a[:0], b[:0]], a[:0]),
        ])
    f32s = ["bool", "f32", "f32"]
    c, a, b = np.array([[True], [False]]), np.float32([1, 2, 3]), np.float32(-0.0)
    f.function("all_stretch", params(names, [["n", 1], ["m"], []], f32s), "where(c, a, b)", [
        run("all_stretch", [c, a, b], np.where(c, a, b)),
        run("all_stretch", [c[:0], a, b], np.where(c[:0], a, b)),
        run("all_stretch", [c, a[:0], b], np.where(c, a[:0], b)),
    ], tensor(["n", "m"], "f32"))
    f.function("by_name", params(names, [[], ["n"], ["n"]], f32s), "where(x2=b, x1=a, condition=c)", [
        run("by_name", [np.array(False), a, -a], -a),
    ], tensor(["n"], "f32"))
    f.function("dims_may_meet", params(names, [["n"], ["m"], ["k"]], f32s), "where(c, a, b)", [
        run("dims_may_meet", [np.array([True, False, True]), a, a[:1] + 8], np.float32([1, 9, 3])),
        trap("where/C3", "dims_may_meet", [np.array([True, False]), a, a]),
        trap("where/C3", "dims_may_meet", [np.array([True]), a, a[:2]]),
    ])
    f.function("of_objects", [(name, "Object") for name in names], "where(c, a, b)", [
        run("of_objects", [np.array([True, False, True]), a, a + 4], np.float32([1, 6, 3])),
        trap("where/C1", "of_objects", [a, a, a]),
        trap("where/C2", "of_objects", [np.array([True]), a, np.array([1], np.int32)]),
    ])
    f.refused("condition_of_integers", params(names, [[2]] * 3, ["i32", "f32", "f32"]), "where(c, a, b)", "RX0501")
    f.refused("dtypes_differ", params(names, [[2]] * 3, ["bool", "f32", "f16"]), "where(c, a, b)", "RX0501")
    f.refused("shapes_differ", params(names, [[2], [2], [3]], f32s), "where(c, a, b)", "RX0501")
    f.refused("condition_too_long", params(names, [[2, 2], [3], [3]], f32s), "where(c, a, b)", "RX0501")
    f.refused("branch_missing", params(names, [[2], [2], [2]], f32s), "where(c, a)", "RX0503")
    f.refused("branch_is_a_number", params(names, [[2], [2], [2]], f32s), "where(c, a, 0.0)", "RX0502")
    f.write()


def rounded_once(dtype, exact):
    """The float of `dtype` nearest to a rational: f64 is Python's, which is right; the narrower
    ones start from a neighbour in f64 whose last bit is set if it is inexact."""
    near = float(exact)
    if dtype == "f64" or Fraction(near) == exact:
        return near
    if abs(Fraction(near)) > abs(exact):
        near = np.nextafter(near, 0.0)
    bits = np.float64(near).view(np.uint64) | np.uint64(1)
    return bits.view(np.float64)


def fused(dtype, a, b, c):
    values = []
    for x, y, z in zip(a.tolist(), b.tolist(), c.tolist()):
        if np.isfinite([x, y, z]).all():
            exact = Fraction(x) * Fraction(y) + Fraction(z)
            values.append(rounded_once(dtype, exact) if exact else x * y + z)
        else:
            values.append(x * y + z)
    return round_to(dtype, np.array(values, np.float64))


def ewise_fma():
    f = OpFile("ewise_fma", "A product and a sum, rounded once.")
    rng = np.random.default_rng(0)
    names = ["a", "b", "c"]
    for dtype in FLOATS:
        bits = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}[dtype]
        ulp = 2.0 ** (1 - bits)
        # Products whose tail, far below, decides a tie; sums that cancel; infinities and zeros.
        half = 2.0 ** -(bits // 2)
        special = [
            (1 + ulp, 1 + ulp, -1.0), (1 + ulp, 1 - ulp, -1.0), (half * (1 + ulp), half * ulp, 1.0),
            (ulp / 2, 1 + ulp, 1.0), (ulp / 2, 1.0, 1.0), (-ulp / 2, 1 + ulp, -1.0), (ulp / 2, 1 - ulp, 1.0),
            (0.0, -1.0, 0.0), (0.0, -1.0, -0.0), (np.inf, 0.0, 1.0), (np.inf, 1.0, -np.inf), (2.0, 3.0, np.nan),
        ]
        drawn = [rng.standard_normal(3) for _ in range(8)]
        a, b, c = (round_to(dtype, np.array(column)) for column in zip(*special, *drawn))
        wide = [column.astype(np.float64) for column in (a, b, c)]
        f.function(f"{dtype}_vectors", params(names, [["n"]] * 3, [dtype] * 3), "ewise_fma(a, b, c)", [
            run(f"{dtype}_vectors", [a, b, c], fused(dtype, *wide)),
            run(f"{dtype}_vectors", [a[:0], b[:0], c[:0]], a[:0]),
        ])
    for dtype in INTS:
        a = samples(dtype)
        b, c = a[::-1].copy(), np.roll(a, 3)
        f.function(f"{dtype}_vectors", params(names, [["n"]] * 3, [dtype] * 3), "ewise_fma(a, b, c)",
                   [run(f"{dtype}_vectors", [a, b, c], a * b + c)])
    m = np.float32([[1, 2, 3], [4, 5, 6]])
    f32s = ["f32"] * 3
    f.function("matrices", params(names, [["n", 3], [2, "m"], ["n", "m"]], f32s), "ewise_fma(a, x2=b, x3=c)", [
        run("matrices", [m, m, m], m * m + m),
        trap("ewise_fma/C2", "matrices", [m, m[:, :1], m[:, :1]]),
        trap("ewise_fma/C2", "matrices", [m[:1], m, m[:1]]),
    ])
    f.function("scalars", params(names, [[]] * 3, f32s), "ewise_fma(a, b, c)",
               [run("scalars", [np.float32(2), np.float32(3), np.float32(4)], np.float32(10))])
    f.function("of_objects", [(name, "Object") for name in names], "ewise_fma(a, b, c)", [
        run("of_objects", [m, m, m], m * m + m),
        trap("ewise_fma/C1", "of_objects", [m, m, np.ones((2, 3), np.int32)]),
        trap("ewise_fma/C1", "of_objects", [m > 2] * 3),
        trap("ewise_fma/C2", "of_objects", [m, m[0], m]),
    ])
    f.refused("no_broadcast", params(names, [[2], [1], [2]], f32s), "ewise_fma(a, b, c)", "RX0501")
    f.refused("ranks_differ", params(names, [["n"], ["n"], []], f32s), "ewise_fma(a, b, c)", "RX0501")
    f.refused("dtypes_differ", params(names, [[2]] * 3, ["f32", "f32", "f64"]), "ewise_fma(a, b, c)", "RX0501")
    f.refused("of_bools", params(names, [[2]] * 3, ["bool"] * 3), "ewise_fma(a, b, c)", "RX0501")
    f.refused("addend_missing", params(names, [[2]] * 3, f32s), "ewise_fma(a, b)", "RX0503")
    f.write()


def main():
    with np.errstate(all="ignore"):
        where()
        ewise_fma()


if __name__ == "__main__":
    main()
