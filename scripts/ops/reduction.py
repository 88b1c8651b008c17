"""Reductions and scans: expectations from NumPy, in f64 and rounded once."""

import numpy as np

from rxgen import DTYPES, FLOATS, INTS, OpFile, approx, dtype_name, round_to, run, tensor, trap

ABOUT = {
    "sum": "Sums.", "mean": "Means.", "max": "Greatest elements.", "min": "Least elements.",
    "prod": "Products.", "std": "Standard deviations.", "variance": "Population variances.",
}
EVERY = FLOATS + INTS + ["bool"]


def integer_mean(x, axis=None, keepdims=False):
    """Exact sums, divided and truncated towards zero."""
    total = np.sum(x.astype(object), axis=axis, keepdims=keepdims)
    count = x.size if axis is None else np.prod([x.shape[a] for a in np.atleast_1d(axis)], dtype=int)
    truncated = np.vectorize(lambda t: abs(int(t)) // int(count) * (1 if t >= 0 else -1), otypes=[object])
    return truncated(np.asarray(total, object)).astype(x.dtype)


def reduced(op, x, **attributes):
    """What NumPy gives, in the dtype of `x`."""
    dtype = dtype_name(x)
    if dtype in FLOATS:
        function = {"variance": np.var}.get(op, getattr(np, op, None))
        with np.errstate(all="ignore"):
            return round_to(dtype, function(x.astype(np.float64), **attributes))
    if dtype == "bool":
        return {"sum": np.any, "max": np.any, "prod": np.all, "min": np.all}[op](x, **attributes)
    if op == "mean":
        return integer_mean(x, **attributes)
    extra = {"dtype": x.dtype} if op in ("sum", "prod") else {}
    with np.errstate(all="ignore"):
        return getattr(np, op)(x, **extra, **attributes)


def sample(rng, dtype, shape):
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in FLOATS:
        return round_to(dtype, rng.standard_normal(shape) * 3)
    info = np.iinfo(DTYPES[dtype])
    return rng.integers(info.min, info.max, shape, dtype=DTYPES[dtype], endpoint=True)


def dtypes_of(op):
    if op in ("std", "variance"):
        return FLOATS
    return [d for d in EVERY if not (op == "mean" and d == "bool")]


def fold(rng, op):
    f = OpFile(op, ABOUT[op])
    needs_some = op in ("max", "min")
    for dtype in dtypes_of(op):
        compare = approx if dtype == "f64" and not needs_some else run
        # A rounding to f64 may go either way where the exact result is close to a tie.
        x = sample(rng, dtype, (3, 5))
        one = x[:1, :1]
        forms = [
            ("all", f"{op}(x)", {}), ("rows", f"{op}(x, axis=-1)", {"axis": 1}),
            ("kept", f"{op}(x, axis=[0], keepdims=True)", {"axis": 0, "keepdims": True}),
            ("both", f"{op}(x, axis=[1, -2])", {"axis": (0, 1)}),
        ]
        for form, body, attributes in forms:
            name = f"{dtype}_{form}"
            checks = [compare(name, [v], reduced(op, v, **attributes)) for v in (x, one, x[:2, :3])]
            empty = x[:0]
            if form == "rows":
                checks.append(run(name, [empty], np.zeros((0,), x.dtype)))
            elif needs_some:
                checks.append(trap(f"{op}/C2", name, [empty]))
            elif op == "mean" and dtype in INTS:
                checks.append(trap("mean/C3", name, [empty]))
            else:
                neutral = {"sum": 0, "prod": 1}.get(op, np.nan)
                shape = {"kept": (1, 5)}.get(form, ())
                checks.append(run(name, [empty], np.full(shape, neutral, x.dtype)))
            f.function(name, [("x", tensor(["n", "m"], dtype))], body, checks)
        if dtype in FLOATS:
            special = round_to(dtype, np.array([[1, np.nan, 2], [1, np.inf, 2], [-np.inf, np.inf, 1], [-np.inf, 0, 1]]))
            f.function(f"{dtype}_special", [("x", tensor(["n", 3], dtype))], f"{op}(x, axis=1)",
                       [run(f"{dtype}_special", [special], reduced(op, special, axis=1))])
    x = sample(rng, "f32", (2, 3, 2))
    f.function("middle", [("x", tensor(["a", "b", "c"], "f32"))], f"{op}(x, 1)",
               [run("middle", [x], reduced(op, x, axis=1))], tensor(["a", "c"], "f32"))
    f.function("outer_dims", [("x", tensor(["a", "b", "c"], "f32"))], f"{op}(x, [0, 2], True)",
               [run("outer_dims", [x], reduced(op, x, axis=(0, 2), keepdims=True))], tensor([1, "b", 1], "f32"))
    nothing = {"std": np.zeros_like(x), "variance": np.zeros_like(x)}.get(op, x)
    f.function("no_axis_at_all", [("x", tensor(["a", "b", "c"], "f32"))], f"{op}(x, axis=[])",
               [run("no_axis_at_all", [x], nothing)], tensor(["a", "b", "c"], "f32"))
    f.function("scalar", [("x", tensor([], "f32"))], f"{op}(x)", [run("scalar", [x[0, 0, 0]], nothing[0, 0, 0])])
    f.function("unknown_shape", [("x", 'Tensor(dtype="f32")')], f"{op}(x, axis=1)",
               [run("unknown_shape", [x[0]], reduced(op, x[0], axis=1)), trap(f"{op}/C1", "unknown_shape", [x[0, 0]])])
    f.function("object", [("x", "Object")], f"{op}(x)", [run("object", [x[0]], reduced(op, x[0])), trap(f"{op}/kind", "object", ["shape(2)"])])
    f.refused("axis_out_of_range", [("x", tensor(["n", 3], "f32"))], f"{op}(x, axis=2)", "RX0501")
    f.refused("axis_before_the_first", [("x", tensor(["n", 3], "f32"))], f"{op}(x, axis=[-3])", "RX0501")
    f.refused("axis_twice", [("x", tensor(["n", 3], "f32"))], f"{op}(x, axis=[1, -1])", "RX0501")
    f.refused("axis_is_a_string", [("x", tensor(["n", 3], "f32"))], f'{op}(x, axis="n")', "RX0502")
    f.refused("not_a_tensor", [("x", "Shape([2])")], f"{op}(x)", "RX0502")
    f.refused("too_many", [("x", tensor(["n", 3], "f32"))], f"{op}(x, 1, True, 2)", "RX0503")
    if needs_some:
        f.refused("nothing_to_reduce", [("x", tensor(["n", 0], "f32"))], f"{op}(x, axis=1)", "RX0501")
    if op == "mean":
        f.refused("of_bools", [("x", tensor(["n"], "bool"))], "mean(x)", "RX0501")
        f.refused("of_no_integers", [("x", tensor([0], "i32"))], "mean(x)", "RX0501")
    if op in ("std", "variance"):
        f.refused("of_integers", [("x", tensor(["n"], "i32"))], f"{op}(x)", "RX0501")
    f.write()


def numpy_arg(op, x, **attributes):
    return np.asarray(getattr(np, op)(x.astype(np.float64) if dtype_name(x) in FLOATS else x, **attributes), np.int64)


def arg(rng, op):
    f = OpFile(op, "Where the greatest elements are." if op == "argmax" else "Where the least elements are.")
    for dtype in EVERY:
        x = sample(rng, dtype, (3, 5))
        ties = x[:, [0, 1, 1, 0, 2]]
        name = f"{dtype}_rows"
        f.function(name, [("x", tensor(["n", "m"], dtype))], f"{op}(x, axis=1)",
                   [run(name, [v], numpy_arg(op, v, axis=1)) for v in (x, ties, x[:1, :1], x[:0])],
                   tensor(["n"], "i64"))
        name = f"{dtype}_all"
        f.function(name, [("x", tensor(["n", "m"], dtype))], f"{op}(x)",
                   [run(name, [v], numpy_arg(op, v)) for v in (x, ties, x[:1, :1])] + [trap(f"{op}/C2", name, [x[:0]])])
    nans = np.array([[1, np.nan, np.nan, 5], [-np.inf, np.inf, np.inf, -np.inf], [0, -0.0, 0, -0.0]], np.float32)
    f.function("special", [("x", tensor(["n", "m"], "f32"))], f"{op}(x, -1, True)",
               [run("special", [nans], numpy_arg(op, nans, axis=1, keepdims=True))], tensor(["n", 1], "i64"))
    f.function("all_kept", [("x", tensor(["n", "m"], "f32"))], f"{op}(x, keepdims=True)",
               [run("all_kept", [nans], numpy_arg(op, nans, keepdims=True))], tensor([1, 1], "i64"))
    f.refused("several_axes", [("x", tensor(["n", "m"], "f32"))], f"{op}(x, axis=[0, 1])", "RX0502")
    f.refused("axis_out_of_range", [("x", tensor(["n", 3], "f32"))], f"{op}(x, axis=-3)", "RX0501")
    f.refused("nothing_to_reduce", [("x", tensor(["n", 0], "f32"))], f"{op}(x, axis=1)", "RX0501")
    f.write()


def lower_median(x, axis):
    """Values and places of the lower medians; the first NaN where there is one."""
    order = np.argsort(x, axis=axis, kind="stable")
    place = np.take(order, [(x.shape[axis] - 1) // 2], axis=axis)
    if x.dtype.kind not in "iu":
        nan = np.isnan(x.astype(np.float64))
        first = np.argmax(nan, axis=axis, keepdims=True)
        place = np.where(nan.any(axis=axis, keepdims=True), first, place)
    return np.take_along_axis(x, place, axis), place.astype(np.int64)


def median(rng):
    f = OpFile("median", "Lower medians.")
    for dtype in FLOATS + INTS:
        x = sample(rng, dtype, (3, 4))
        odd = x[:, :3]
        ties = x[:, [0, 1, 1, 0]]
        cases = [x, odd, ties, x[:1, :1]]
        name = f"{dtype}_rows"
        f.function(name, [("x", tensor(["n", "m"], dtype))], "median(x, axis=-1)",
                   [run(name, [v], tuple(r[:, 0] for r in lower_median(v, 1))) for v in cases]
                   + [trap("median/C2", name, [x[:, :0]])])
        name = f"{dtype}_all"
        f.function(name, [("x", tensor(["n", "m"], dtype))], "median(x)",
                   [run(name, [v], lower_median(v.reshape(-1), 0)[0][0]) for v in cases], tensor([], dtype))
    nans = np.array([[1, np.nan, 2, np.nan], [np.inf, -np.inf, 3, 4]], np.float32)
    f.function("special", [("x", tensor(["n", "m"], "f32"))], "median(x, [1], True)",
               [run("special", [nans], lower_median(nans, 1))])
    f.function("all_kept", [("x", tensor(["n", "m"], "f32"))], "median(x, keepdims=True)",
               [run("all_kept", [nans[1:]], np.array([[3]], np.float32))], tensor([1, 1], "f32"))
    f.refused("several_axes", [("x", tensor(["n", "m"], "f32"))], "median(x, axis=[0, 1])", "RX0501")
    f.refused("axis_out_of_range", [("x", tensor(["n", "m"], "f32"))], "median(x, axis=2)", "RX0501")
    f.refused("nothing_to_reduce", [("x", tensor(["n", 0], "f32"))], "median(x, axis=1)", "RX0501")
    f.refused("of_bools", [("x", tensor(["n"], "bool"))], "median(x)", "RX0501")
    f.write()


def scanned(op, x, axis, dtype, exclusive=False):
    """Cumulative in f64 or in the integer dtype, which wraps."""
    wide = np.float64 if dtype in FLOATS else DTYPES[dtype]
    x = x.astype(DTYPES[dtype]).astype(wide)
    if axis is None:
        x, axis = x.reshape(-1), 0
    if exclusive:
        first = np.full_like(np.take(x, [], axis).sum(axis, keepdims=True), 1 if op == "cumprod" else 0, dtype=wide)
        x = np.concatenate([first, np.delete(x, -1, axis)], axis) if x.shape[axis] else x
    with np.errstate(all="ignore"):
        return round_to(dtype, getattr(np, op)(x, axis=axis, dtype=wide))


def scan(rng, op):
    f = OpFile(op, "Running sums." if op == "cumsum" else "Running products.")
    for dtype in FLOATS + INTS:
        compare = approx if dtype == "f64" else run
        x = sample(rng, dtype, (2, 4))
        cases = [x, x[:1, :1], x[:, :0], x[:0]]
        for form, body, attributes in [
            ("rows", f"{op}(x, axis=-1)", {"axis": 1}), ("columns", f"{op}(x, 0)", {"axis": 0}),
            ("before", f"{op}(x, 1, exclusive=True)", {"axis": 1, "exclusive": True}),
        ]:
            name = f"{dtype}_{form}"
            f.function(name, [("x", tensor(["n", "m"], dtype))], body,
                       [compare(name, [v], scanned(op, v, dtype=dtype, **attributes)) for v in cases], tensor(["n", "m"], dtype))
        name = f"{dtype}_flat"
        f.function(name, [("x", tensor(["n", "m"], dtype))], f"{op}(x)",
                   [compare(name, [v], scanned(op, v, None, dtype)) for v in cases], tensor(["n * m"], dtype))
    bools = np.array([[True, False, True], [True, True, False]])
    f.function("of_bools", [("x", tensor(["n", 3], "bool"))], f'{op}(x, 1, "i32")',
               [run("of_bools", [bools], scanned(op, bools, 1, "i32"))], tensor(["n", 3], "i32"))
    bytes_ = np.array([100, 100, 3], np.int8)
    f.function("wider", [("x", tensor(["n"], "i8"))], f'{op}(x, dtype="int64")', [run("wider", [bytes_], scanned(op, bytes_, 0, "i64"))])
    halves = np.array([1.5, 2.75, 3.5], np.float32)
    f.function("converted_first", [("x", tensor(["n"], "f32"))], f'{op}(x, 0, "i32")', [run("converted_first", [halves], scanned(op, halves, 0, "i32"))])
    special = np.array([[1, np.inf, 2], [np.inf, -np.inf, 1], [2, np.nan, 1]], np.float32)
    f.function("special", [("x", tensor(["n", 3], "f32"))], f"{op}(x, 1)", [run("special", [special], scanned(op, special, 1, "f32"))])
    f.function("scalar", [("x", tensor([], "f32"))], f"{op}(x)", [run("scalar", [np.float32(3)], np.array([3], np.float32))], tensor([1], "f32"))
    f.refused("bools_alone", [("x", tensor(["n"], "bool"))], f"{op}(x, 0)", "RX0501")
    f.refused("axis_out_of_range", [("x", tensor(["n"], "f32"))], f"{op}(x, 1)", "RX0501")
    f.refused("scalar_has_no_axis", [("x", tensor([], "f32"))], f"{op}(x, 0)", "RX0501")
    f.refused("unknown_dtype", [("x", tensor(["n"], "f32"))], f'{op}(x, dtype="f12")', "RX0502")
    f.write()


def main():
    rng = np.random.default_rng(7)
    for op in ABOUT:
        fold(rng, op)
    for op in ("argmax", "argmin"):
        arg(rng, op)
    median(rng)
    for op in ("cumsum", "cumprod"):
        scan(rng, op)


if __name__ == "__main__":
    main()
