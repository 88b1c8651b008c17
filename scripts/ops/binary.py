"""Elementwise functions of two tensors: expectations from NumPy, floats in f64 and rounded once.

Integers are computed by NumPy in their own dtype, which wraps.
"""

import numpy as np

from rxgen import DTYPES, FLOATS, INTS, OpFile, approx, dtype_name, round_to, run, tensor, trap

LEFT = [0.0, -0.0, 1.0, -1.0, 2.5, -7.0, 0.3, -1.25, np.inf, -np.inf, np.nan, 5.0, -3.0, 1.0, 1e-3]
RIGHT = [-2.0, 2.0, 0.1, np.inf, -0.5, 2.0, np.nan, 0.0, 2.0, -0.0, 1.0, -3.0, -np.inf, 3.0, 7.5]
POWER_LEFT = [0.0, -0.0, -0.0, 0.0, 1.0, -1.0, -8.0, np.nan, -np.inf, 0.5, 2.0, -2.0, 1.1, 9.0]
POWER_RIGHT = [0.0, -1.0, 3.0, -2.0, np.nan, np.inf, 1 / 3, 0.0, 3.0, -np.inf, -3.0, 3.0, 7.7, 0.5]

NUMBERS = FLOATS + INTS
ALL = NUMBERS + ["bool"]


def truncated_divide(a, b):
    return (a - np.fmod(a, b)) // b if a.dtype.kind in "iu" else a / b


ARITHMETIC = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum,
    "minimum": np.minimum, "divide": truncated_divide, "floor_divide": np.floor_divide,
    "floor_mod": np.mod, "mod": np.fmod,
}
DIVISIONS = ["divide", "floor_divide", "floor_mod", "mod"]
BITS = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}
SHIFTS = {"left_shift": np.left_shift, "right_shift": np.right_shift}
COMPARISONS = {
    "equal": np.equal, "not_equal": np.not_equal, "greater": np.greater, "less": np.less,
    "greater_equal": np.greater_equal, "less_equal": np.less_equal,
}
LOGICAL = {
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}


def samples(dtype, nonzero=False):
    """Pairs of a dtype, edge cases included; the second without zeros on demand."""
    if dtype == "bool":
        return np.array([False, False, True, True]), np.array([False, True, False, True])
    if dtype in FLOATS:
        return round_to(dtype, np.array(LEFT)), round_to(dtype, np.array(RIGHT))
    info = np.iinfo(DTYPES[dtype])
    least = -1 if info.min < 0 else 1
    a = [info.min, info.min, info.max, info.max, 7, 7, 100, 0, 2]
    b = [least, info.max, info.max, 2, 3, 2, 7, 5, 2]
    if info.min < 0:
        a, b = a + [-7, -7, 7], b + [2, -2, -2]
    if not nonzero:
        a, b = a + [3], b + [0]
    return np.array(a, DTYPES[dtype]), np.array(b, DTYPES[dtype])


def shift_samples(dtype):
    info = np.iinfo(DTYPES[dtype])
    a = [1, info.max, info.min, 100, 3, -5 if info.min < 0 else 5]
    return np.array(a, DTYPES[dtype]), np.array([info.bits - 1, 1, 3, 0, 2, 1], DTYPES[dtype])


def power_samples(dtype):
    if dtype in FLOATS:
        return round_to(dtype, np.array(POWER_LEFT)), round_to(dtype, np.array(POWER_RIGHT))
    info = np.iinfo(DTYPES[dtype])
    a = [0, 0, 1, 2, 3, 7, info.max, info.min, 2, -1 if info.min < 0 else 1]
    return np.array(a, DTYPES[dtype]), np.array([0, 5, 127, 7, 41, 3, 2, 3, 100, 101], DTYPES[dtype])


def in_f64(function):
    """Floats through f64, rounded once, unless the result is bool; integers as NumPy does them."""
    def apply(a, b):
        name = dtype_name(a)
        if name not in FLOATS:
            return function(a, b)
        wide = function(a.astype(np.float64), b.astype(np.float64))
        return wide if wide.dtype == np.bool_ else round_to(name, wide)
    return apply


def pair(shape_a, shape_b, dtype):
    return [("a", tensor(shape_a, dtype)), ("b", tensor(shape_b, dtype))]


def vectors(f, op, dtypes, apply, sample, exact):
    for dtype in dtypes:
        a, b = sample(dtype)
        same = run if exact or dtype != "f64" else approx
        f.function(f"{dtype}_vectors", pair(["n"], ["n"], dtype), f"{op}(a, b)", [
            same(f"{dtype}_vectors", [a, b], apply(a, b)),
            same(f"{dtype}_vectors", [a[2:3], b[2:3]], apply(a[2:3], b[2:3])),
            run(f"{dtype}_vectors", [a[:0], b[:0]], apply(a[:0], b[:0])),
        ])


def broadcasts(f, op, dtype, apply, sample):
    """How shapes meet, with as many values as there are in the samples of the dtype."""
    a, b = sample(dtype)
    column, row = a[2:4].reshape(2, 1), b[1:4]
    out = dtype_name(apply(a, b))
    f.function("column_and_row", pair(["n", 1], ["m"], dtype), f"{op}(a, b)", [
        run("column_and_row", [column, row], apply(column, row)),
        run("column_and_row", [column, row[:1]], apply(column, row[:1])),
        run("column_and_row", [column, row[:0]], apply(column, row[:0])),
        run("column_and_row", [column[:0], row], apply(column[:0], row)),
    ], tensor(["n", "m"], out))
    f.function("scalar_and_matrix", pair([], ["n", 2], dtype), f"{op}(x2=b, x1=a)", [
        run("scalar_and_matrix", [a[3], b[:4].reshape(2, 2)], apply(a[3:4], b[:4].reshape(2, 2))),
        run("scalar_and_matrix", [a[3], b[:0].reshape(0, 2)], apply(a[:0], b[:0]).reshape(0, 2)),
    ], tensor(["n", 2], out))
    f.function("scalars", pair([], [], dtype), f"{op}(a, b)",
               [run("scalars", [a[2], b[3]], apply(a[2:3], b[3:4])[0])])
    three, two = a[:3], b[1:3]
    f.function("dims_may_meet", pair(["n"], ["m"], dtype), f"{op}(a, b)", [
        run("dims_may_meet", [three, b[1:4]], apply(three, b[1:4])),
        run("dims_may_meet", [three, b[1:2]], apply(three, b[1:2])),
        run("dims_may_meet", [three[:0], b[1:2]], apply(three[:0], b[1:2])),
        trap(f"{op}/C2", "dims_may_meet", [three, two]),
        trap(f"{op}/C2", "dims_may_meet", [three, two[:0]]),
    ])
    f.function("literal_and_symbol", pair(["n"], [3], dtype), f"{op}(a, b)", [
        run("literal_and_symbol", [three, b[1:4]], apply(three, b[1:4])),
        run("literal_and_symbol", [three[2:], b[1:4]], apply(three[2:], b[1:4])),
        trap(f"{op}/C2", "literal_and_symbol", [three[:2], b[1:4]]),
    ])
    f.function("of_objects", [("a", "Object"), ("b", "Object")], f"{op}(a, b)", [
        run("of_objects", [three, b[1:4]], apply(three, b[1:4])),
        trap(f"{op}/C1", "of_objects", [three, np.ones(3, np.int16)]),
        trap(f"{op}/kind", "of_objects", [three, "shape(3)"]),
    ])


def refusals(f, op, dtype, rejected):
    other = "f16" if dtype != "f16" else "f32"
    f.refused("dtypes_differ", [("a", tensor([2], dtype)), ("b", tensor([2], other))], f"{op}(a, b)", "RX0501")
    f.refused("shapes_differ", pair([2], [3], dtype), f"{op}(a, b)", "RX0501")
    f.refused("dims_never_meet", pair(["n", 2], ["n", 3], dtype), f"{op}(a, b)", "RX0501")
    f.refused("of_a_number", [("a", tensor([2], dtype))], f"{op}(a, 1)", "RX0502")
    f.refused("of_one", [("a", tensor([2], dtype))], f"{op}(a)", "RX0503")
    f.refused("of_three", [("a", tensor([2], dtype))], f"{op}(a, a, a)", "RX0503")
    f.refused("given_twice", [("a", tensor([2], dtype))], f"{op}(a, a, x1=a)", "RX0503")
    for bad in rejected:
        f.refused(f"of_{bad}", pair([2], [2], bad), f"{op}(a, b)", "RX0501")


def start(op, about, dtypes, function, sample, rejected, exact=True):
    f = OpFile(op, about)
    apply = in_f64(function)
    vectors(f, op, dtypes, apply, sample, exact)
    dtype = "f32" if "f32" in dtypes else "i32"
    broadcasts(f, op, dtype, apply, sample)
    refusals(f, op, dtype, rejected)
    return f


def signed_zeros(f, op, want):
    zeros = np.float32([0.0, -0.0, 0.0, -0.0]), np.float32([0.0, 0.0, -0.0, -0.0])
    f.function("signed_zeros", pair(["n"], ["n"], "f32"), f"{op}(a, b)",
               [run("signed_zeros", zeros, np.float32(want))])


def traps(f, op, bad, dtypes):
    """Elements for which integers have no result; `bad` maps a dtype to them."""
    for dtype in dtypes:
        name, kind = f"{dtype}_traps", DTYPES[dtype]
        values = [np.array([1, value], kind) for value in bad(dtype)]
        rows = [trap(f"{op}/C3", name, [np.array([1, 2], kind), value]) for value in values]
        none = np.zeros((0,), kind)
        rows.append(run(name, [none, values[0][1:]], none))
        f.function(name, pair(["n"], ["m"], dtype), f"{op}(a, b)", rows)


def arithmetic():
    for op, function in ARITHMETIC.items():
        divides = op in DIVISIONS
        sample = (lambda dtype: samples(dtype, nonzero=True)) if divides else samples
        f = start(op, f"Elementwise {op}.", NUMBERS, function, sample, ["bool"])
        if divides:
            traps(f, op, lambda dtype: [0], INTS)
        if op == "maximum":
            signed_zeros(f, op, [0.0, 0.0, 0.0, -0.0])
        if op == "minimum":
            signed_zeros(f, op, [0.0, -0.0, -0.0, -0.0])
        f.write()


def bits_and_shifts():
    for op, function in BITS.items():
        start(op, "Bit by bit.", INTS + ["bool"], function, samples, ["f32"]).write()
    for op, function in SHIFTS.items():
        f = start(op, "Shifts of bits.", INTS, function, shift_samples, ["f32", "bool"])
        traps(f, op, lambda dtype: [np.iinfo(DTYPES[dtype]).bits, np.iinfo(DTYPES[dtype]).max], INTS)
        f.function("negative_amount", pair(["n"], ["n"], "i32"), f"{op}(a, b)",
                   [trap(f"{op}/C3", "negative_amount", [np.int32([1]), np.int32([-1])])])
        f.write()


def main():
    with np.errstate(all="ignore"):
        arithmetic()
        bits_and_shifts()
        for op, function in COMPARISONS.items():
            start(op, f"Elementwise {op}.", ALL, function, samples, []).write()
        for op, function in LOGICAL.items():
            start(op, "On truth values.", ALL, function, samples, []).write()
        for op, function in (("atan2", np.arctan2), ("log_add_exp", np.logaddexp)):
            start(op, f"Elementwise {op}.", FLOATS, function, samples, ["bool", "i32"], False).write()
        f = start("power", "Powers.", NUMBERS, np.power, power_samples, ["bool"], False)
        traps(f, "power", lambda dtype: [-1, np.iinfo(DTYPES[dtype]).min], [d for d in INTS if d[0] == "i"])
        f.write()


if __name__ == "__main__":
    main()
