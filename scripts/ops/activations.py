"""Activation functions, softmax and dropout: expectations from NumPy and scipy in f64, rounded once."""

import math

import numpy as np
from scipy.special import erfc

import random_numbers
from rxgen import DTYPES, FLOATS, INTS, OpFile, approx, round_to, run, tensor, trap

ALPHA, SCALE = 1.6732632423543772848, 1.0507009873554804934
# Where f64 results of all of the functions are known to a few units in the last place.
MODERATE = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.25, -1.25, 2.0, 0.001, -0.001, 5.0, 30.0]
EXTREME = [np.inf, np.nan, -3.0, -7.0, 12.0, -20.0, 100.0, -100.0, 1e4, -1e4, 6e-8, -6e-8]


def in_f64(function):
    """`function` of an array, computed in f64 and rounded once to the array's dtype."""
    def apply(dtype, x):
        with np.errstate(all="ignore"):
            return round_to(dtype, function(x.astype(np.float64)))
    return apply


def sigmoid(x):
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def gelu(x):
    return x * 0.5 * erfc(-x / math.sqrt(2.0))


def gelu_tanh(x):
    return x * sigmoid(2.0 * math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))


def selu(x):
    return np.where(x > 0, SCALE * x, SCALE * ALPHA * np.expm1(x))


def leaky(alpha):
    return lambda x: np.where(x > 0, x, alpha * x)


def softplus(beta=1.0, threshold=20.0):
    def apply(x):
        z = beta * x
        return np.where(z > threshold, x, (np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z)))) / beta)
    return apply


def samples(dtype):
    values = MODERATE + (EXTREME if dtype != "f64" else [np.inf, np.nan])
    return round_to(dtype, np.array(values))


def elementwise(op, about, function, variants=()):
    f = OpFile(op, about)
    apply = in_f64(function)
    for dtype in FLOATS:
        same = run if dtype != "f64" else approx
        x = samples(dtype)
        f.function(f"{dtype}_vector", [("x", tensor(["n"], dtype))], f"{op}(x)", [
            same(f"{dtype}_vector", [x], apply(dtype, x)),
            same(f"{dtype}_vector", [x[4:5]], apply(dtype, x[4:5])),
            run(f"{dtype}_vector", [x[:0]], x[:0]),
        ], tensor(["n"], dtype))
    x = samples("f32")[:12]
    f.function("matrix", [("x", tensor(["n", "m * 2"], "f32"), ), ("s", 'Shape(["m"])')], f"{op}(data=x)", [
        run("matrix", [x.reshape(3, 4), "shape(2)"], apply("f32", x).reshape(3, 4)),
        run("matrix", [x[:0].reshape(3, 0), "shape(0)"], x[:0].reshape(3, 0)),
    ], tensor(["n", "m * 2"], "f32"))
    f.function("scalar", [("x", tensor([], "f32"))], f"{op}(x)", [run("scalar", [x[3]], apply("f32", x[3:4])[0])])
    wrong = [run("of_object", [x], apply("f32", x)), trap(f"{op}/kind", "of_object", ["shape(3)"])]
    if op != "relu":
        wrong.append(trap(f"{op}/C1", "of_object", [np.ones(2, np.int32)]))
        f.refused("of_integers", [("x", tensor(["n"], "i32"))], f"{op}(x)", "RX0501")
        f.refused("of_bools", [("x", tensor(["n"], "bool"))], f"{op}(x)", "RX0501")
    f.function("of_object", [("x", "Object")], f"{op}(x)", wrong)
    f.refused("of_a_shape", [("x", 'Shape(["n"])')], f"{op}(x)", "RX0502")
    f.refused("of_nothing", [("x", tensor(["n"], "f32"))], f"{op}()", "RX0503")
    f.refused("with_a_name_it_has_not", [("x", tensor(["n"], "f32"))], f"{op}(x, slope=1.0)", "RX0503")
    for name, call, variant in variants:
        x = samples("f32")
        f.function(name, [("x", tensor(["n"], "f32"))], call, [run(name, [x], in_f64(variant)("f32", x))])
    return f


def relu():
    # -0.0 becomes 0.0, which NumPy leaves open.
    f = elementwise("relu", "max(x, 0).", lambda x: np.where(np.isnan(x), x, np.where(x > 0, x, 0.0)))
    for dtype in INTS:
        info = np.iinfo(DTYPES[dtype])
        x = np.array([info.min, info.max, 0, 1, 7], DTYPES[dtype])
        f.function(f"{dtype}_vector", [("x", tensor(["n"], dtype))], "relu(x)", [run(f"{dtype}_vector", [x], np.maximum(x, 0))])
    x = np.array([True, False])
    f.function("bool_vector", [("x", tensor(["n"], "bool"))], "relu(x)", [run("bool_vector", [x], x)])
    f.write()


def attributes():
    f = elementwise("leakyrelu", "x above 0, else alpha * x.", leaky(0.01), [
        ("slope", "leakyrelu(x, 0.3)", leaky(0.3)),
        ("slope_by_name", "leakyrelu(x, alpha=2)", leaky(2.0)),
        ("no_slope", "leakyrelu(x, alpha=0.0)", leaky(0.0)),
    ])
    f.refused("slope_as_text", [("x", tensor(["n"], "f32"))], 'leakyrelu(x, alpha="big")', "RX0502")
    f.write()
    f = elementwise("softplus", "log(1 + exp(beta * x)) / beta.", softplus(), [
        ("steeper", "softplus(x, 2.5)", softplus(2.5)),
        ("sooner_linear", "softplus(x, beta=0.5, threshold=0.25)", softplus(0.5, 0.25)),
        ("never_linear", "softplus(x, threshold=1e30)", softplus(1.0, 1e30)),
    ])
    for name, beta in [("no_beta", "0.0"), ("negative_beta", "-1.0")]:
        f.refused(name, [("x", tensor(["n"], "f32"))], f"softplus(x, beta={beta})", "RX0501")
    f.write()


def prelu_of(x, slope, axis):
    shape = [1] * x.ndim
    shape[axis] = -1
    wide = x.astype(np.float64)
    return np.where(wide > 0, wide, slope.astype(np.float64).reshape(shape) * wide)


def prelu():
    f = OpFile("prelu", "x above 0, else the channel's slope times x.")
    rng = np.random.default_rng(1)
    for dtype in FLOATS:
        x = round_to(dtype, rng.standard_normal((2, 3, 2)))
        x[0, 0] = [-0.0, -np.inf]
        x[1, 1, 1] = np.nan
        slope = round_to(dtype, np.array([0.25, -1.5, 0.1]))
        want = round_to(dtype, prelu_of(x, slope, 1))
        one = round_to(dtype, prelu_of(x, slope[2:], 1))
        f.function(f"{dtype}_channels", [("x", tensor(["n", "c", "w"], dtype)), ("a", tensor(["c"], dtype))], "prelu(x, a)", [
            run(f"{dtype}_channels", [x, slope], want),
            run(f"{dtype}_channels", [x[:0], slope], want[:0]),
            run(f"{dtype}_channels", [x[:, :1], slope[:1]], want[:, :1]),
            run(f"{dtype}_channels", [x[:, :0], slope[:0]], want[:, :0]),
        ], tensor(["n", "c", "w"], dtype))
        f.function(f"{dtype}_one_slope", [("x", tensor(["n", "c", "w"], dtype)), ("a", tensor([1], dtype))], "prelu(x, a)",
                   [run(f"{dtype}_one_slope", [x, slope[2:]], one)])
    x, slope = np.array([[-1, 2, -3], [4, -5, 6]], np.float32), np.array([0.5, 2, 3], np.float32)
    f.function("last_axis", [("x", tensor(["n", "c"], "f32")), ("a", tensor(["c"], "f32"))], "prelu(x, a, axis=-1)",
               [run("last_axis", [x, slope], prelu_of(x, slope, 1).astype(np.float32))])
    f.function("first_axis", [("x", tensor(["c", "m"], "f32")), ("a", tensor(["c"], "f32"))], "prelu(x, a, 0)",
               [run("first_axis", [x, slope[:2]], prelu_of(x, slope[:2], 0).astype(np.float32))])
    f.function("sizes_may_meet", [("x", tensor(["n", "c"], "f32")), ("a", tensor(["k"], "f32"))], "prelu(x, a)", [
        run("sizes_may_meet", [x, slope], prelu_of(x, slope, 1).astype(np.float32)),
        run("sizes_may_meet", [x, slope[:1]], prelu_of(x, slope[:1], 1).astype(np.float32)),
        trap("prelu/C4", "sizes_may_meet", [x, slope[:2]]),
        trap("prelu/C4", "sizes_may_meet", [x, slope[:0]]),
    ])
    f.function("of_objects", [("x", "Object"), ("a", "Object")], "prelu(x, a)", [
        run("of_objects", [x, slope], prelu_of(x, slope, 1).astype(np.float32)),
        trap("prelu/C1", "of_objects", [x, slope.astype(np.float64)]),
        trap("prelu/C2", "of_objects", [x[0], slope]),
        trap("prelu/C3", "of_objects", [x, x]),
    ])
    f.refused("dtypes_differ", [("x", tensor(["n", 3], "f32")), ("a", tensor([3], "f16"))], "prelu(x, a)", "RX0501")
    f.refused("of_integers", [("x", tensor(["n", 3], "i32")), ("a", tensor([3], "i32"))], "prelu(x, a)", "RX0501")
    f.refused("axis_too_large", [("x", tensor(["n", 3], "f32")), ("a", tensor([3], "f32"))], "prelu(x, a, axis=2)", "RX0501")
    f.refused("axis_of_vector", [("x", tensor(["n"], "f32")), ("a", tensor([1], "f32"))], "prelu(x, a)", "RX0501")
    f.refused("slopes_as_matrix", [("x", tensor(["n", 3], "f32")), ("a", tensor([1, 3], "f32"))], "prelu(x, a)", "RX0501")
    f.refused("too_few_slopes", [("x", tensor(["n", 3], "f32")), ("a", tensor([2], "f32"))], "prelu(x, a)", "RX0501")
    f.refused("slope_as_number", [("x", tensor(["n", 3], "f32"))], "prelu(x, 0.5)", "RX0502")
    f.write()


def softmax_of(x, axis, log=False):
    """Row by row, with exact sums."""
    def row(values):
        with np.errstate(all="ignore"):
            shifted = values - values.max()
            powers = np.exp(shifted)
            total = math.fsum(powers) if np.isfinite(powers).all() else powers.sum()
            return shifted - np.log(total) if log else powers / total
    wide = x.astype(np.float64)
    return np.apply_along_axis(row, axis, wide) if wide.size else wide


def softmaxes(op, log):
    f = OpFile(op, "The logarithm of softmax." if log else "exp(x) over the sum of exp(x) along an axis.")
    rng = np.random.default_rng(2)
    special = [[1.0, -np.inf, 2.0], [-np.inf] * 3, [np.inf, 0.0, 1.0], [np.nan, 0.0, 1.0], [1e4, 1e4, -1e4], [-0.0, 0.0, 0.0]]
    for dtype in FLOATS:
        same = run if dtype != "f64" else approx
        x = round_to(dtype, rng.standard_normal((2, 3, 4)) * 2)
        cases = [same(f"{dtype}_last", [x], round_to(dtype, softmax_of(x, -1, log)))]
        for cut in [x[:, :, :1], x[:, :, :0], x[:0], x[:1, :1, :1]]:
            cases.append(same(f"{dtype}_last", [cut], round_to(dtype, softmax_of(cut, -1, log))))
        f.function(f"{dtype}_last", [("x", tensor(["n", "m", "k"], dtype))], f"{op}(x)", cases, tensor(["n", "m", "k"], dtype))
        rows = round_to(dtype, np.array(special))
        f.function(f"{dtype}_rows", [("x", tensor(["n", 3], dtype))], f"{op}(x, axis=-1)",
                   [same(f"{dtype}_rows", [rows], round_to(dtype, softmax_of(rows, -1, log)))])
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    for name, axis in [("first", 0), ("middle", 1), ("middle_from_end", -2), ("first_from_end", -3)]:
        f.function(f"axis_{name}", [("x", tensor(["n", 3, "m"], "f32"))], f"{op}(x, {axis})",
                   [run(f"axis_{name}", [x], softmax_of(x, axis, log).astype(np.float32))], tensor(["n", 3, "m"], "f32"))
    f.function("of_object", [("x", "Object")], f"{op}(x, axis=1)", [
        run("of_object", [x[0]], softmax_of(x[0], 1, log).astype(np.float32)),
        trap(f"{op}/C2", "of_object", [x[0, 0]]),
        trap(f"{op}/C1", "of_object", [np.ones((2, 2), np.int8)]),
    ])
    f.function("of_any_rank", [("x", 'Tensor(dtype="f32")')], f"{op}(x)", [
        run("of_any_rank", [x[0, 0]], softmax_of(x[0, 0], 0, log).astype(np.float32)),
        trap(f"{op}/C2", "of_any_rank", [x[0, 0, 0]]),
    ])
    f.refused("of_integers", [("x", tensor(["n", 3], "i64"))], f"{op}(x)", "RX0501")
    f.refused("axis_too_large", [("x", tensor(["n", 3], "f32"))], f"{op}(x, axis=2)", "RX0501")
    f.refused("axis_too_small", [("x", tensor(["n", 3], "f32"))], f"{op}(x, axis=-3)", "RX0501")
    f.refused("axis_least", [("x", tensor(["n", 3], "f32"))], f"{op}(x, axis=-9223372036854775807)", "RX0501")
    f.refused("of_scalar", [("x", tensor([], "f32"))], f"{op}(x)", "RX0501")
    f.refused("axis_as_float", [("x", tensor(["n", 3], "f32"))], f"{op}(x, axis=1.0)", "RX0502")
    f.write()


def dropout():
    f = OpFile("dropout", "At inference: data, and a mask of ones. With a state: elements that the bits of Philox choose.")
    for dtype in ["f16", "bf16", "f32", "f64", "i32", "bool"]:
        x = np.array([[1, 0, 1], [0, 1, 1]], DTYPES[dtype])
        name = f"{dtype}_pair"
        both = f"Tuple[{tensor(['n', 'm'], dtype)}, {tensor(['n', 'm'], dtype)}]"
        f.function(name, [("x", tensor(["n", "m"], dtype))], "dropout(x)", [
            run(name, [x], (x, np.ones_like(x))), run(name, [x[:0]], (x[:0], x[:0])),
        ], both)
    x = np.array([1.5, np.nan], np.float32)
    f.function("of_a_rate", [("x", tensor(["n"], "f32"))], "dropout(x, rate=0.0)[1]", [run("of_a_rate", [x], np.ones_like(x))])
    for name, rate in [("negative", "-0.1"), ("everything", "1.0"), ("too_much", "1.5")]:
        f.refused(f"rate_{name}", [("x", tensor(["n"], "f32"))], f"dropout(x, {rate})", "RX0501")
    f.refused("of_a_shape", [("x", 'Shape(["n"])')], "dropout(x)", "RX0502")
    random_numbers.dropout(f)
    f.write()


def main():
    relu()
    elementwise("gelu", "x * (1 + erf(x / sqrt(2))) / 2.", gelu).write()
    elementwise("gelu_tanh", "gelu, approximated by a tanh.", gelu_tanh).write()
    elementwise("silu", "x * sigmoid(x).", lambda x: x * sigmoid(x)).write()
    elementwise("selu", "Scaled exponential linear unit.", selu).write()
    attributes()
    prelu()
    softmaxes("softmax", log=False)
    softmaxes("log_softmax", log=True)
    dropout()


if __name__ == "__main__":
    main()
