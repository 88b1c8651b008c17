"""Elementwise functions of one tensor: expectations from NumPy and SciPy, in f64 and rounded once.

Integers are computed by NumPy in their own dtype, which wraps.
"""

import numpy as np
from scipy import special

from rxgen import DTYPES, FLOATS, INTS, OpFile, approx, dtype_name, round_to, run, tensor, trap

EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, np.nan, np.inf, -np.inf]
MODEST = [0.1, -0.3, 0.7, 3.25, -4.75, 9.0, -11.5, 88.5, -104.0]
LIMITS = {
    "f16": [65504.0, 6e-8, -6.1e-5], "bf16": [3.3895e38, 9.2e-41, -1.2e-38],
    "f32": [3.4028235e38, 1.4e-45, -1.2e-38], "f64": [1.7976931348623157e308, 5e-324, -2.3e-308],
}

# Rounded by NumPy to the last bit, so that f64 is compared bit for bit as well.
EXACT = {
    "abs": np.abs, "ceil": np.ceil, "floor": np.floor, "negative": np.negative, "round": np.round,
    "sign": np.sign, "square": np.square, "trunc": np.trunc,
}
ROUNDED = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
    "atan": np.arctan, "atanh": np.arctanh, "cos": np.cos, "cosh": np.cosh, "erf": special.erf,
    "exp": np.exp, "log": np.log, "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": special.expit,
    "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh,
}
CHECKS = {"isfinite": np.isfinite, "isinf": np.isinf, "isnan": np.isnan}
ABOUT = {
    "abs": "Absolute value.", "ceil": "The least integer not below.", "negative": "The opposite.",
    "floor": "The greatest integer not above.", "round": "The nearest integer, ties to even.",
    "sign": "The sign.", "square": "The square.", "trunc": "The next integer towards zero.",
}


def samples(dtype):
    """Edge cases and modest values of a dtype."""
    if dtype == "bool":
        return np.array([False, True, True])
    if dtype in FLOATS:
        return round_to(dtype, np.array(EDGES + MODEST + LIMITS[dtype]))
    info = np.iinfo(DTYPES[dtype])
    values = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, 100]
    return np.array(values + [-1, -2, -7] * (info.min < 0), DTYPES[dtype])


def shapes_of(f, op, dtype, function):
    """Matrices, scalars and empty tensors of one dtype; what is annotated `Object` or less."""
    vector = samples(dtype)
    matrix = vector[:6].reshape(2, 3)
    f.function(
        "matrix", [("x", tensor(["n", 3], dtype))], f"{op}(x)",
        [run("matrix", [matrix], function(matrix)), run("matrix", [matrix[:0]], function(matrix[:0]))],
        tensor(["n", 3], dtype_name(function(matrix))),
    )
    f.function(
        "by_name", [("x", tensor([], dtype))], f"{op}(x=x)",
        [run("by_name", [vector[4]], function(vector[4:5])[0])],
    )
    f.function("of_object", [("x", "Object")], f"{op}(x)", [
        run("of_object", [matrix], function(matrix)),
        trap(f"{op}/kind", "of_object", ["shape(2, 3)"]),
    ])


def refusals(f, op, rejected):
    """What does not check, and the trap where the dtype is known at run time only."""
    for dtype in rejected:
        f.refused(f"of_{dtype}", [("x", tensor(["n"], dtype))], f"{op}(x)", "RX0501")
    f.refused("of_a_shape", [], f"{op}(shape(2, 3))", "RX0502")
    f.refused("of_nothing", [], f"{op}()", "RX0503")
    f.refused("of_two", [("x", tensor(["n"], "f32"))], f"{op}(x, x)", "RX0503")
    f.refused("wrong_name", [("x", tensor(["n"], "f32"))], f"{op}(y=x)", "RX0503")
    if rejected:
        f.function(
            "unknown_dtype", [("x", 'Tensor(("n",))')], f"{op}(x)",
            [trap(f"{op}/C1", "unknown_dtype", [samples(rejected[-1])])],
        )


def write(op, dtypes, function, exact, rejected, about=None):
    """One file: `function` maps an array of any of `dtypes` to the expected array."""
    f = OpFile(op, about or f"Elementwise {op}.")
    for dtype in dtypes:
        x = samples(dtype)
        same = run if exact or dtype != "f64" else approx
        f.function(f"{dtype}_vector", [("x", tensor(["n"], dtype))], f"{op}(x)", [
            same(f"{dtype}_vector", [x], function(x)),
            same(f"{dtype}_vector", [x[4:5]], function(x[4:5])),
            run(f"{dtype}_vector", [x[:0]], function(x[:0])),
        ])
    shapes_of(f, op, "f32" if "f32" in dtypes else dtypes[0], function)
    refusals(f, op, rejected)
    f.write()


def in_f64(function):
    """Floats through f64, rounded once; integers as NumPy does them."""
    def apply(x):
        name = dtype_name(x)
        return round_to(name, function(x.astype(np.float64))) if name in FLOATS else function(x)
    return apply


def integers_kept(function):
    return lambda x: x if x.dtype.kind in "iu" else in_f64(function)(x)


def invert(x):
    return np.logical_not(x) if x.dtype == np.bool_ else np.invert(x)


def clip():
    f = OpFile("clip", "Limits; where min is above max, min wins.")
    bounds = {"f": (-1.3, 2.25), "i": (-3, 50), "u": (2, 50)}
    for dtype in FLOATS + INTS:
        low, high = bounds["f" if dtype in FLOATS else dtype[0]]
        x = samples(dtype)
        values = x.astype(np.float64) if dtype in FLOATS else x
        want = round_to(dtype, np.maximum(np.minimum(values, high), low))
        f.function(f"{dtype}_vector", [("x", tensor(["n"], dtype))], f"clip(x, {low}, {high})", [
            run(f"{dtype}_vector", [x], want),
            run(f"{dtype}_vector", [x[:0]], x[:0]),
        ])
    x = samples("f32")[:8].reshape(2, 4)
    x = np.abs(x) + np.float32(0.5)
    f.function("by_name", [("x", tensor(["n", "m"], "f32"))], "clip(x, min=0, max=6)",
               [run("by_name", [x], np.clip(x, np.float32(0), np.float32(6)))])
    f.function("min_above_max", [("x", tensor(["n"], "f32"))], "clip(x, 5.0, 2.0)",
               [run("min_above_max", [np.float32([1, 3, 7, np.nan])], np.float32([5, 5, 5, np.nan]))])
    i = np.array([-9, 0, 9], np.int64)
    f.function("whole_floats_for_integers", [("x", tensor(["n"], "i64"))], "clip(x, -2.0, 4.0)",
               [run("whole_floats_for_integers", [i], np.clip(i, -2, 4))])
    extreme = np.array([2**62, -(2**63), 2**63 - 1], np.int64)
    f.function("beyond_f64", [("x", tensor(["n"], "i64"))], "clip(x, -9223372036854775807, 9223372036854775806)",
               [run("beyond_f64", [extreme], np.clip(extreme, -(2**63) + 1, 2**63 - 2))])
    f.function("unknown_dtype", [("x", 'Tensor(("n",))')], "clip(x, 0, 300)", [
        run("unknown_dtype", [np.array([-1, 299, 301], np.int16)], np.array([0, 299, 300], np.int16)),
        trap("clip/C2", "unknown_dtype", [np.array([1], np.uint8)]),
        trap("clip/C1", "unknown_dtype", [np.array([True])]),
    ])
    vector = [("x", tensor(["n"], "f32"))]
    f.refused("of_bools", [("x", tensor(["n"], "bool"))], "clip(x, 0, 1)", "RX0501")
    f.refused("fraction_for_integers", [("x", tensor(["n"], "i32"))], "clip(x, 0.5, 1)", "RX0501")
    f.refused("bound_beyond_dtype", [("x", tensor(["n"], "u8"))], "clip(x, -1, 7)", "RX0501")
    f.refused("bound_is_a_string", vector, 'clip(x, "a", 1)', "RX0502")
    f.refused("bound_is_a_tensor", vector, "clip(x, x, 1)", "RX0502")
    f.refused("bound_missing", vector, "clip(x, 0)", "RX0503")
    f.write()


def main():
    with np.errstate(all="ignore"):
        rounding = ("ceil", "floor", "round", "trunc")
        for op, function in EXACT.items():
            apply = integers_kept(function) if op in rounding else in_f64(function)
            write(op, FLOATS + INTS, apply, True, ["bool"], ABOUT[op])
        for op, function in ROUNDED.items():
            exact = op in ("sqrt",)
            write(op, FLOATS, in_f64(function), exact, ["bool", "i32"])
        for op, function in CHECKS.items():
            write(op, FLOATS + INTS, lambda x, function=function: function(x), True, ["bool"])
        write("bitwise_not", INTS + ["bool"], invert, True, ["f32"], "Every bit flipped.")
        write("logical_not", FLOATS + INTS + ["bool"], np.logical_not, True, [], "True where zero.")
        clip()


if __name__ == "__main__":
    main()
