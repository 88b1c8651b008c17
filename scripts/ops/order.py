"""Sorting, searching and sets: expectations from NumPy, with a stable sort that puts NaNs last."""

import numpy as np

from rxgen import DTYPES, FLOATS, INTS, OpFile, round_to, run, tensor, trap

EVERY = FLOATS + INTS + ["bool"]


def sample(rng, dtype, shape):
    """Few different values, so that there are ties."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in FLOATS:
        return round_to(dtype, rng.integers(-3, 4, shape) * 0.75)
    info = np.iinfo(DTYPES[dtype])
    values = np.array([info.min, info.max, 0, 1, 5], DTYPES[dtype])
    return values[rng.integers(0, len(values), shape)]


def order(x, axis, descending=False):
    """Stable places; numbers descend if asked, NaNs stay last."""
    if x.dtype == bool:
        x = x.astype(np.int8)
    if x.dtype.kind not in "iu":
        x = x.astype(np.float64)
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    # Ranks of the distinct values, negated, sort downwards without leaving the dtype.
    _, ranks = np.unique(x, return_inverse=True)
    ranks = ranks.reshape(x.shape).astype(np.int64)
    nan = np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)
    return np.argsort(np.where(nan, np.iinfo(np.int64).max, -ranks), axis=axis, kind="stable")


def sort(rng):
    f, g = OpFile("sort", "Elements in order."), OpFile("argsort", "Places of the elements in order.")
    for dtype in EVERY:
        x = sample(rng, dtype, (3, 5))
        cases = [x, x[:1, :1], x[:, :0], x[:0]]
        for form, attributes, axis, down in [("rows", "", 1, False), ("columns_down", ", axis=0, descending=True", 0, True)]:
            name = f"{dtype}_{form}"
            f.function(name, [("x", tensor(["n", "m"], dtype))], f"sort(x{attributes})",
                       [run(name, [v], np.take_along_axis(v, order(v, axis, down), axis)) for v in cases], tensor(["n", "m"], dtype))
            g.function(name, [("x", tensor(["n", "m"], dtype))], f"argsort(x{attributes})",
                       [run(name, [v], order(v, axis, down).astype(np.int32)) for v in cases], tensor(["n", "m"], "i32"))
    nans = np.array([3, np.nan, -np.inf, np.inf, np.nan, -1], np.float32)
    for name, attribute, down in [("nans", "", False), ("nans_down", ", descending=True", True)]:
        f.function(name, [("x", tensor(["n"], "f32"))], f"sort(x{attribute})", [run(name, [nans], nans[order(nans, 0, down)])])
        g.function(name, [("x", tensor(["n"], "f32"))], f"argsort(x{attribute})", [run(name, [nans], order(nans, 0, down).astype(np.int32))])
    f.function("keeps_signs_of_zeros", [("x", tensor(["n"], "f32"))], "sort(x)",
               [run("keeps_signs_of_zeros", [np.array([0.0, -0.0, -1.0, 0.0], np.float32)], np.array([-1.0, 0.0, -0.0, 0.0], np.float32))])
    for dtype in ["i64", "f32", "f64"]:
        g.function(f"places_{dtype}", [("x", tensor(["n"], "f32"))], f'argsort(x, -1, False, "{dtype}")',
                   [run(f"places_{dtype}", [nans], order(nans, 0).astype(DTYPES[dtype]))], tensor(["n"], dtype))
    g.refused("places_i8", [("x", tensor(["n"], "f32"))], 'argsort(x, dtype="i8")', "RX0501")
    for file, op in [(f, "sort"), (g, "argsort")]:
        file.refused("axis_out_of_range", [("x", tensor(["n"], "f32"))], f"{op}(x, 1)", "RX0501")
        file.refused("scalar", [("x", tensor([], "f32"))], f"{op}(x)", "RX0501")
        file.refused("descending_is_a_number", [("x", tensor(["n"], "f32"))], f"{op}(x, descending=1)", "RX0502")
        file.write()


def topk(rng):
    f = OpFile("topk", "The greatest or least elements and their places.")
    for dtype in EVERY:
        x = sample(rng, dtype, (3, 4))
        places = order(x, 1, True)[:, :2]
        name = f"{dtype}_both"
        f.function(name, [("x", tensor(["n", "m"], dtype))], "topk(x, 2)",
                   [run(name, [x], (np.take_along_axis(x, places, 1), places.astype(np.int32))),
                    run(name, [x[:0]], (x[:0, :2], np.zeros((0, 2), np.int32))),
                    trap("topk/C4", name, [x[:, :1]])])
        places = order(x, 0)[:1]
        name = f"{dtype}_least"
        f.function(name, [("x", tensor(["n", "m"], dtype))], 'topk(x, axis=0, ret_type="values", largest=False)',
                   [run(name, [x], np.take_along_axis(x, places, 0)), trap("topk/C4", name, [x[:0]])], tensor([1, "m"], dtype))
    x = np.array([[1, np.nan, 3], [np.inf, -np.inf, np.nan]], np.float32)
    for name, k in [("every", 0), ("every_of_minus_one", -1), ("as_many_as_there_are", 3)]:
        places = order(x, 1, True)
        f.function(name, [("x", tensor(["n", 3], "f32"))], f'topk(x, {k}, ret_type="indices", dtype="i64")',
                   [run(name, [x], places.astype(np.int64)), run(name, [x[:0]], np.zeros((0, 3), np.int64))], tensor(["n", 3], "i64"))
    f.function("symbolic", [("x", tensor(["n"], "f32")), ("s", 'Shape(["k"])')], ["k = sym_var()", 'return topk(x, k, ret_type="values")'],
               [run("symbolic", [x[1], "shape(2)"], np.array([np.inf, -np.inf], np.float32)),
                run("symbolic", [x[1], "shape(0)"], np.array([np.inf, -np.inf, np.nan], np.float32)),
                trap("topk/C4", "symbolic", [x[1], "shape(4)"])])
    f.refused("more_than_there_are", [("x", tensor(["n", 3], "f32"))], "topk(x, 4)", "RX0501")
    f.refused("axis_out_of_range", [("x", tensor(["n", 3], "f32"))], "topk(x, 1, axis=2)", "RX0501")
    f.refused("unknown_result", [("x", tensor(["n", 3], "f32"))], 'topk(x, ret_type="all")', "RX0501")
    f.refused("places_u8", [("x", tensor(["n", 3], "f32"))], 'topk(x, dtype="u8")', "RX0501")
    f.write()


def unique_slices(x, axis, keep_order=False):
    """Values, first places, inverse and counts, with NaNs equal to each other."""
    rows = [tuple(float(v) for v in np.atleast_1d(r).reshape(-1)) for r in np.moveaxis(x, axis, 0)]
    key = [tuple((v != v, 0.0 if v != v else v) for v in row) for row in rows]
    distinct = sorted(set(key)) if not keep_order else list(dict.fromkeys(key))
    first = np.array([key.index(k) for k in distinct], np.int64)
    inverse = np.array([distinct.index(k) for k in key], np.int64)
    counts = np.array([key.count(k) for k in distinct], np.int64)
    return np.take(x, first, axis), first, inverse, counts


def unique(rng):
    f = OpFile("unique", "Different elements or slices.")
    everything = "return_index=True, return_inverse=True, return_counts=True"
    for dtype in EVERY:
        x = sample(rng, dtype, (3, 4))
        if dtype in ("i64", "u64"):
            x = np.where(x > 5, 5, x)
        name = f"{dtype}_elements"
        values, first, inverse, counts = unique_slices(x.reshape(-1), 0)
        by_numpy = np.unique(x.astype(np.float64) if dtype in FLOATS else x, return_index=True, return_inverse=True, return_counts=True)
        assert all(np.array_equal(a.reshape(-1), b) for a, b in zip(by_numpy[1:], (first, inverse, counts)))
        empty = np.zeros((0,), np.int64)
        f.function(name, [("x", tensor(["n", "m"], dtype))], f"unique(x, {everything})",
                   [run(name, [x], (values, first, inverse, counts)), run(name, [x[:0]], (x[0, :0], empty, empty, empty)),
                    run(name, [x[:1, :1]], (x[0, :1], np.array([0]), np.array([0]), np.array([1])))])
        name = f"{dtype}_first_come"
        f.function(name, [("x", tensor(["n", "m"], dtype))], "unique(x, False)",
                   [run(name, [x], unique_slices(x.reshape(-1), 0, True)[0]), run(name, [x[:0]], x[0, :0])])
    rows = np.array([[1, 2], [0, 5], [1, 2], [0, 4], [1, 2]], np.float32)
    for axis, x in [(0, rows), (1, rows.T)]:
        f.function(f"axis_{axis}", [("x", tensor(["n", "m"], "f32"))], f"unique(x, axis={axis}, {everything})",
                   [run(f"axis_{axis}", [x], unique_slices(x, axis)), run(f"axis_{axis}", [np.take(x, [0], axis)], unique_slices(np.take(x, [0], axis), axis))])
    f.function("slices_first_come", [("x", tensor(["n", "m"], "f32"))], "unique(x, False, return_counts=True, axis=-2)",
               [run("slices_first_come", [rows], (unique_slices(rows, 0, True)[0], unique_slices(rows, 0, True)[3]))])
    nans = np.array([np.nan, 2, np.nan, np.inf, -np.inf, 2], np.float32)
    f.function("nans", [("x", tensor(["n"], "f32"))], f"unique(x, {everything})", [run("nans", [nans], unique_slices(nans, 0))])
    scalar = (np.array([3], np.float32), np.array([1]))
    f.function("scalar", [("x", tensor([], "f32"))], "unique(x, return_counts=True)", [run("scalar", [np.float32(3)], scalar)])
    f.refused("axis_out_of_range", [("x", tensor(["n"], "f32"))], "unique(x, axis=1)", "RX0501")
    f.refused("sorted_is_a_number", [("x", tensor(["n"], "f32"))], "unique(x, 1)", "RX0502")
    f.write()


def nonzero(rng):
    f = OpFile("nonzero", "Indices of the elements that are not zero.")
    for dtype in EVERY:
        x = sample(rng, dtype, (3, 4))
        name = f"{dtype}_matrix"
        f.function(name, [("x", tensor(["n", "m"], dtype))], "nonzero(x)",
                   [run(name, [v], np.array(np.nonzero(v), np.int64)) for v in (x, np.zeros_like(x), x[:0], x[:, :0])],
                   'Tensor(ndim=2, dtype="i64")')
    special = np.array([np.nan, 0.0, -0.0, np.inf], np.float32)
    f.function("special", [("x", tensor(["n"], "f32"))], "nonzero(x)", [run("special", [special], np.array([[0, 3]], np.int64))])
    f.function("scalar", [("x", tensor([], "f32"))], "nonzero(x)",
               [run("scalar", [np.float32(2)], np.array([[0]])), run("scalar", [np.float32(0)], np.zeros((1, 0), np.int64))])
    f.refused("not_a_tensor", [("x", "Shape([2])")], "nonzero(x)", "RX0502")
    f.write()


def bucketize(rng):
    f = OpFile("bucketize", "Indices of buckets.")
    for dtype in FLOATS + INTS:
        x = sample(rng, dtype, (2, 4))
        bounds = np.unique(sample(rng, dtype, (5,)).astype(np.float64) if dtype in FLOATS else sample(rng, dtype, (5,))).astype(DTYPES[dtype])
        wide = (lambda v: v.astype(np.float64)) if dtype in FLOATS else (lambda v: v)
        for form, attributes, side, out in [("left", "", "left", np.int64), ("right", ", out_int32=True, right=True", "right", np.int32)]:
            name = f"{dtype}_{form}"
            f.function(name, [("x", tensor(["n", "m"], dtype)), ("b", tensor(["k"], dtype))], f"bucketize(x, b{attributes})",
                       [run(name, [v, b], np.searchsorted(wide(b), wide(v), side).astype(out)) for v, b in [(x, bounds), (x, bounds[:1]), (x, bounds[:0]), (x[:0], bounds)]],
                       tensor(["n", "m"], "i32" if out == np.int32 else "i64"))
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    bounds = np.array([-np.inf, 0, 1, np.inf], np.float32)
    f.function("special", [("x", tensor(["n"], "f32")), ("b", tensor(["k"], "f32"))], "bucketize(x, b)",
               [run("special", [special, bounds], np.searchsorted(bounds, special).astype(np.int64))])
    f.function("scalar", [("x", tensor([], "f32")), ("b", tensor(["k"], "f32"))], "bucketize(x, b, right=True)",
               [run("scalar", [np.float32(0), bounds], np.int64(2))], tensor([], "i64"))
    f.refused("dtypes_differ", [("x", tensor(["n"], "f32")), ("b", tensor(["k"], "f64"))], "bucketize(x, b)", "RX0501")
    f.refused("of_bools", [("x", tensor(["n"], "bool")), ("b", tensor(["k"], "bool"))], "bucketize(x, b)", "RX0501")
    f.refused("boundaries_in_a_matrix", [("x", tensor(["n"], "f32")), ("b", tensor(["k", 2], "f32"))], "bucketize(x, b)", "RX0501")
    f.write()


def main():
    rng = np.random.default_rng(11)
    sort(rng)
    topk(rng)
    unique(rng)
    nonzero(rng)
    bucketize(rng)


if __name__ == "__main__":
    main()
