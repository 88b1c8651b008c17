"""Slices, gathers, scatters, grids: expectations from NumPy indexing."""

import numpy as np

from rxgen import DTYPES, FLOATS, INTS, OpFile, Shape, round_to, run, tensor, trap

EVERY = FLOATS + INTS + ["bool"]


def sample(rng, dtype, shape):
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in FLOATS:
        return round_to(dtype, rng.standard_normal(shape) * 3)
    info = np.iinfo(DTYPES[dtype])
    return rng.integers(info.min, info.max, shape, dtype=DTYPES[dtype], endpoint=True)


def take(rng):
    f = OpFile("take", "Slices at indices.")
    for dtype in EVERY:
        x = sample(rng, dtype, (3, 4))
        i = np.array([[2, 0], [1, 1]], np.int64)
        name = f"{dtype}_rows"
        f.function(name, [("x", tensor(["n", "m"], dtype)), ("i", tensor(["k", 2], "i64"))], "take(x, i, axis=0)",
                   [run(name, [x, i], np.take(x, i, 0)), run(name, [x, i[:0]], np.take(x, i[:0], 0)),
                    run(name, [x[:, :0], i], np.take(x[:, :0], i, 0)), trap("take/C4", name, [x[:2], i]), trap("take/C4", name, [x[:0], i])],
                   tensor(["k", 2, "m"], dtype))
    v = sample(rng, "f32", (5,))
    for dtype in INTS:
        i = np.array([4, 0, 2], DTYPES[dtype])
        f.function(f"indices_{dtype}", [("x", tensor(["n"], "f32")), ("i", tensor(["k"], dtype))], "take(x, i)",
                   [run(f"indices_{dtype}", [v, i], v[i])], tensor(["k"], "f32"))
    vector, index = ("x", tensor(["n"], "f32")), ("i", tensor(["k"], "i64"))
    far = np.array([-7, -1, 0, 4, 5, 9, -2**63, 2**63 - 1], np.int64)
    f.function("negative_is_out_of_range", [vector, index], "take(x, i, 0)",
               [trap("take/C4", "negative_is_out_of_range", [v, np.array([bad], np.int64)]) for bad in (-1, 5, -2**63)])
    f.function("mode_clip", [vector, index], 'take(x, i, 0, "clip")',
               [run("mode_clip", [v, far], v[np.clip(far, 0, 4)]), trap("take/C4", "mode_clip", [v[:0], far]), run("mode_clip", [v[:0], far[:0]], v[:0])])
    f.function("mode_wrap", [vector, index], 'take(x, i, mode="wrap")',
               [run("mode_wrap", [v, far], v[np.mod(far, 5)]), trap("take/C4", "mode_wrap", [v[:0], far])])
    inside = (far >= 0) & (far < 5)
    f.function("mode_nan", [vector, index], 'take(x, i, 0, "nan")',
               [run("mode_nan", [v, far], np.where(inside, v[np.clip(far, 0, 4)], np.float32(np.nan))), run("mode_nan", [v[:0], far[:2]], np.full(2, np.nan, np.float32))])
    x = sample(rng, "f32", (2, 3, 2))
    one = np.int64(1)
    f.function("scalar_index", [("x", tensor(["a", "b", "c"], "f32")), ("i", tensor([], "i64"))], "take(x, i, axis=-2)",
               [run("scalar_index", [x, one], x[:, 1])], tensor(["a", "c"], "f32"))
    f.function("unknown_shapes", [("x", 'Tensor(ndim=3, dtype="f32")'), ("i", "Object")], "take(x, i, axis=1)",
               [run("unknown_shapes", [x, one], x[:, 1]), trap("take/C1", "unknown_shapes", [x, np.float32(1)]), trap("take/kind", "unknown_shapes", [x, "shape(1)"])])
    f.refused("float_indices", [vector, ("i", tensor(["k"], "f32"))], "take(x, i, 0)", "RX0501")
    f.refused("bool_indices", [vector, ("i", tensor(["k"], "bool"))], "take(x, i, 0)", "RX0501")
    f.refused("no_axis", [("x", tensor(["n", 2], "f32")), index], "take(x, i)", "RX0501")
    f.refused("axis_out_of_range", [vector, index], "take(x, i, 1)", "RX0501")
    f.refused("unknown_mode", [vector, index], 'take(x, i, 0, "raise")', "RX0501")
    f.refused("nan_of_integers", [("x", tensor(["n"], "i32")), index], 'take(x, i, 0, "nan")', "RX0501")
    f.refused("indices_as_a_list", [vector], "take(x, [1, 2], 0)", "RX0502")
    f.refused("unknown_name", [vector, index], "take(x, i, dim=0)", "RX0503")
    f.write()


def strided_slice(rng):
    f = OpFile("strided_slice", "Slices.")
    for dtype in EVERY:
        x = sample(rng, dtype, (4, 5))
        name = f"{dtype}_inner"
        f.function(name, [("x", tensor(["n", "m"], dtype))], "strided_slice(x, [0, 1], [1, 0], [3, 4], [1, 2])",
                   [run(name, [v], v[1:3, 0:4:2]) for v in (x, x[:1], x[:2, :1], x[:0], x[:, :0])])
    x = sample(rng, "i32", (2, 7))
    big, small = 2**63 - 1, -2**63
    bounds = [(0, -1), (-3, big), (-3, -1), (small, big), (5, 2), (-9, 9), (3, 3), (7, 9), (100, -100)]
    for number, (begin, end) in enumerate(bounds):
        for stride in (1, 2, 5):
            name = f"forward_{number}_by_{stride}"
            f.function(name, [("x", tensor([2, "n"], "i32"))], f"strided_slice(x, axes=[-1], begin=[{begin}], end=[{end}], strides=[{stride}])",
                       [run(name, [v], v[:, begin:end:stride]) for v in (x, x[:, :3], x[:, :1], x[:, :0])])
    bounds = [(-1, small), (-1, 0), (6, -8), (4, 1), (9, -9), (1, 4), (2, -1), (0, 0), (small, big), (big, small)]
    for number, (begin, end) in enumerate(bounds):
        for stride in (-1, -3):
            name = f"backward_{number}_by_{-stride}"
            f.function(name, [("x", tensor([2, "n"], "i32"))], f"strided_slice(x, [1], [{begin}], [{end}], [{stride}])",
                       [run(name, [v], v[:, begin:end:stride]) for v in (x, x[:, :3], x[:, :1], x[:, :0])])
    flat = [("x", tensor([4, "n"], "f32"))]
    x = sample(rng, "f32", (4, 5))
    f.function("neighbours_differ_by", flat, ["n = sym_var()", "right = strided_slice(x, [1], [1], [n])", "left = strided_slice(x, [1], [0], [n - 1])", "return subtract(right, left)"],
               [run("neighbours_differ_by", [v], np.diff(v, axis=1) if v.shape[1] else v) for v in (x, x[:, :2], x[:, :1], x[:, :0])],
               tensor([4, "max(n - 1, 0)"], "f32"))
    f.function("known_to_be_inside", flat, ["n = sym_var(lower_bound=1)", "return strided_slice(x, [1], [1], [n])"],
               [run("known_to_be_inside", [v], v[:, 1:]) for v in (x, x[:, :1])], tensor([4, "n - 1"], "f32"))
    f.function("first_half", flat, ["n = sym_var()", "return strided_slice(x, [1], [0], [n // 2])"],
               [run("first_half", [v], v[:, : v.shape[1] // 2]) for v in (x, x[:, :1], x[:, :0])], tensor([4, "n // 2"], "f32"))
    f.function("reversed", flat, ["n = sym_var()", f"return strided_slice(x, [1], [n - 1], [{small}], [-1])"],
               [run("reversed", [v], v[:, ::-1]) for v in (x, x[:, :1], x[:, :0])], tensor([4, "n"], "f32"))
    f.function("all_but_three", flat, ["n = sym_var()", "return strided_slice(x, [1], [0], [n - 3])"],
               # For n = 2 the end is -1, which counts from the end: one element.
               [run("all_but_three", [v], v[:, : v.shape[1] - 3]) for v in (x, x[:, :4], x[:, :3], x[:, :2], x[:, :1], x[:, :0])])
    f.function("window", [("x", tensor(["n"], "f32")), ("s", 'Shape(["b", "e"])')], ["b, e = sym_var(), sym_var()", "return strided_slice(x, [0], [b], [e])"],
               [run("window", [x[0], Shape(b, e)], x[0][b:e]) for b, e in [(1, 3), (3, 1), (0, 9), (7, 9), (0, 0)]])
    f.function("inbound", [("x", tensor(["n"], "f32"))], "strided_slice(x, [0], [1], [4], [2], assume_inbound=True)",
               [run("inbound", [x[0]], x[0][1:4:2]), trap("strided_slice/C4", "inbound", [x[0, :3]]), trap("strided_slice/C4", "inbound", [x[0, :0]])], tensor([2], "f32"))
    f.function("inbound_symbolic", [("x", tensor(["n"], "f32"))], ["n = sym_var()", "return strided_slice(x, [0], [1], [n], assume_inbound=True)"],
               [run("inbound_symbolic", [x[0]], x[0][1:]), trap("strided_slice/C4", "inbound_symbolic", [x[0, :0]])], tensor(["n - 1"], "f32"))
    f.function("no_axes", [("x", tensor([4, "n"], "f32"))], "strided_slice(x, [], [], [])", [run("no_axes", [x], x)], tensor([4, "n"], "f32"))
    f.function("unknown_shape", [("x", 'Tensor(dtype="f32")')], "strided_slice(x, [1], [1], [3])",
               [run("unknown_shape", [x], x[:, 1:3]), trap("strided_slice/C1", "unknown_shape", [x[0]])])
    f.function("stride_of_a_dim", [("x", tensor(["n"], "f32")), ("s", 'Shape(["k"])')], ["n, k = sym_var(), sym_var()", "return strided_slice(x, [0], [0], [n], [k])"],
               [run("stride_of_a_dim", [x[0], Shape(2)], x[0][::2]), trap("strided_slice/C3", "stride_of_a_dim", [x[0], Shape(0)])])
    f.refused("axis_out_of_range", flat, "strided_slice(x, [2], [0], [1])", "RX0501")
    f.refused("axis_twice", flat, "strided_slice(x, [1, -1], [0, 0], [1, 1])", "RX0501")
    f.refused("too_few_ends", flat, "strided_slice(x, [0, 1], [0, 0], [1])", "RX0501")
    f.refused("too_many_strides", flat, "strided_slice(x, [0], [0], [1], [1, 1])", "RX0501")
    f.refused("stride_zero", flat, "strided_slice(x, [0], [0], [1], [0])", "RX0501")
    f.refused("not_inbound", flat, "strided_slice(x, [0], [1], [5], assume_inbound=True)", "RX0501")
    f.refused("axes_as_a_string", flat, 'strided_slice(x, "n", [0], [1])', "RX0502")
    f.refused("no_end", flat, "strided_slice(x, [0], [0])", "RX0503")
    f.write()


def dynamic_strided_slice(rng):
    f = OpFile("dynamic_strided_slice", "Slices by tensors.")
    entries = [(p, tensor([2], "i64")) for p in ("b", "e", "s")]
    triples = [((0, 0), (4, 5), (1, 1)), ((1, -2), (-1, 9), (2, 1)), ((-1, 4), (-9, 0), (-1, -2)), ((3, 0), (1, 5), (1, 1)), ((-2**63, 2**63 - 1), (2**63 - 1, -2**63), (3, -2**63))]
    for dtype in EVERY:
        x = sample(rng, dtype, (4, 5))
        name = f"{dtype}_matrix"
        cases = []
        for b, e, s in triples:
            want = x[b[0]:e[0]:s[0], b[1]:e[1]:max(s[1], -100)]
            cases.append(run(name, [x, *(np.array(v, np.int64) for v in (b, e, s))], want))
        f.function(name, [("x", tensor(["n", "m"], dtype)), *entries], "dynamic_strided_slice(x, b, e, s)", cases, f'Tensor(ndim=2, dtype="{dtype}")')
    x = sample(rng, "f32", (4, 5))
    zero, one = np.zeros(2, np.int64), np.ones(2, np.int64)
    f.function("entries_by_rank", [("x", 'Tensor(dtype="f32")'), *[(p, 'Tensor(dtype="i64")') for p in ("b", "e", "s")]], "dynamic_strided_slice(x, b, e, s)",
               [run("entries_by_rank", [x, zero, one, one], x[:1, :1]), trap("dynamic_strided_slice/C2", "entries_by_rank", [x, zero[:1], one, one]),
                trap("dynamic_strided_slice/C3", "entries_by_rank", [x, zero, one, zero]), run("entries_by_rank", [x[0, 0], zero[:0], zero[:0], zero[:0]], x[0, 0])])
    f.refused("three_entries", [("x", tensor(["n", "m"], "f32")), *entries[:2], ("s", tensor([3], "i64"))], "dynamic_strided_slice(x, b, e, s)", "RX0501")
    f.refused("entries_i32", [("x", tensor(["n", "m"], "f32")), *entries[:2], ("s", tensor([2], "i32"))], "dynamic_strided_slice(x, b, e, s)", "RX0501")
    f.refused("entries_in_a_matrix", [("x", tensor(["n", "m"], "f32")), *entries[:2], ("s", tensor([1, 2], "i64"))], "dynamic_strided_slice(x, b, e, s)", "RX0501")
    f.write()


def gather(rng):
    f = OpFile("gather_elements", "Elements at indices along an axis.")
    for dtype in EVERY:
        x = sample(rng, dtype, (3, 4))
        i = rng.integers(0, 3, (2, 4))
        name = f"{dtype}_columns"
        f.function(name, [("x", tensor(["n", 4], dtype)), ("i", tensor(["k", 4], "i64"))], "gather_elements(x, i)",
                   [run(name, [x, i], np.take_along_axis(x, i, 0)), run(name, [x, i[:0]], x[:0]), trap("gather_elements/C4", name, [x[:0], i])], tensor(["k", 4], dtype))
    x, i = sample(rng, "f32", (3, 4)), np.array([[3, 0], [1, 1]], np.int32)
    f.function("fewer_rows", [("x", tensor(["n", "m"], "f32")), ("i", tensor(["a", "b"], "i32"))], "gather_elements(x, i, axis=-1)",
               [run("fewer_rows", [x, i], np.take_along_axis(x[:2], i, 1)), trap("gather_elements/C3", "fewer_rows", [x[:1], i]),
                trap("gather_elements/C4", "fewer_rows", [x[:, :3], i]), trap("gather_elements/C4", "fewer_rows", [x, -i])], tensor(["a", "b"], "f32"))
    f.refused("float_indices", [("x", tensor(["n"], "f32")), ("i", tensor(["n"], "f32"))], "gather_elements(x, i)", "RX0501")
    f.refused("ranks_differ", [("x", tensor(["n"], "f32")), ("i", tensor(["n", 1], "i64"))], "gather_elements(x, i)", "RX0501")
    f.refused("axis_out_of_range", [("x", tensor(["n"], "f32")), ("i", tensor(["n"], "i64"))], "gather_elements(x, i, 1)", "RX0501")
    f.refused("more_rows", [("x", tensor([3, "n"], "f32")), ("i", tensor([4, "n"], "i64"))], "gather_elements(x, i, 1)", "RX0501")
    f.write()

    f = OpFile("gather_nd", "Slices at index tuples.")
    for dtype in EVERY:
        x = sample(rng, dtype, (3, 4))
        i = np.array([[0, 3], [2, 1]], np.int64)
        name = f"{dtype}_elements"
        f.function(name, [("x", tensor(["n", "m"], dtype)), ("i", tensor(["k", 2], "i64"))], "gather_nd(x, i)",
                   [run(name, [x, i], x[i[:, 0], i[:, 1]]), run(name, [x, i[:0]], x[0, :0]), trap("gather_nd/C5", name, [x[:, :3], i]), trap("gather_nd/C5", name, [x, -i])], tensor(["k"], dtype))
    x, i = sample(rng, "f32", (2, 3, 2)), np.array([[[1], [0]], [[2], [2]]], np.int64)
    f.function("slices", [("x", tensor(["n", "m", 2], "f32")), ("i", tensor(["k", 2, 1], "i64"))], "gather_nd(x, i)",
               [run("slices", [x, i[:1]], x[i[:1, :, 0]]), run("slices", [x[:, :0], i[:1]], x[:, :0][i[:1, :, 0]])], tensor(["k", 2, "m", 2], "f32"))
    f.function("batches", [("x", tensor(["n", "m", 2], "f32")), ("i", tensor(["n", 2, 1], "i64"))], "gather_nd(x, i, batch_dims=1)",
               [run("batches", [x, i], np.stack([x[b][i[b, :, 0]] for b in range(2)]))], tensor(["n", 2, 2], "f32"))
    f.function("other_batches", [("x", tensor(["n", "m", 2], "f32")), ("i", tensor(["p", 2, 1], "i64"))], "gather_nd(x, i, 1)",
               [run("other_batches", [x, i], np.stack([x[b][i[b, :, 0]] for b in range(2)])), trap("gather_nd/C4", "other_batches", [x[:1], i])])
    f.function("empty_tuples", [("x", tensor(["n", "m", 2], "f32")), ("i", tensor(["k", 0], "i64"))], "gather_nd(x, i)",
               [run("empty_tuples", [x, np.zeros((2, 0), np.int64)], np.stack([x, x]))], tensor(["k", "n", "m", 2], "f32"))
    f.function("tuples_of_any_length", [("x", tensor(["n", "m", 2], "f32")), ("i", tensor(["k", "r"], "i64"))], "gather_nd(x, i)",
               [run("tuples_of_any_length", [x, np.array([[1, 2]])], x[[1], [2]]), trap("gather_nd/C3", "tuples_of_any_length", [x, np.zeros((1, 4), np.int64)])], 'Tensor(dtype="f32")')
    f.refused("float_indices", [("x", tensor(["n"], "f32")), ("i", tensor(["k", 1], "f32"))], "gather_nd(x, i)", "RX0501")
    f.refused("batch_dims_too_many", [("x", tensor(["n"], "f32")), ("i", tensor(["k", 1], "i64"))], "gather_nd(x, i, 2)", "RX0501")
    f.refused("batch_dims_negative", [("x", tensor(["n"], "f32")), ("i", tensor(["k", 1], "i64"))], "gather_nd(x, i, -1)", "RX0501")
    f.refused("tuples_too_long", [("x", tensor(["n"], "f32")), ("i", tensor(["k", 2], "i64"))], "gather_nd(x, i)", "RX0501")
    f.refused("batches_differ", [("x", tensor([2, "n"], "f32")), ("i", tensor([3, 1], "i64"))], "gather_nd(x, i, 1)", "RX0501")
    f.write()


def written(reduction, x, places, updates):
    """Writes in order, in f64 or in the integer dtype."""
    integer = x.dtype.kind in "iub"
    result = x.copy() if integer else x.astype(np.float64)
    combine = {
        "update": lambda a, b: b, "add": lambda a, b: a + b, "mul": lambda a, b: a * b,
        "mean": lambda a, b: (a + b) / 2, "max": np.maximum, "min": np.minimum,
    }[reduction]
    with np.errstate(all="ignore"):
        for place, update in zip(places, updates):
            result[place] = combine(result[place], update if integer else np.asarray(update, np.float64))
    return result if integer else round_to({np.dtype(v): k for k, v in DTYPES.items()}[x.dtype], result)


def reductions_of(dtype, mean):
    if dtype == "bool":
        return ["update"]
    return ["update", "add", "mul", "max", "min"] + (["mean"] if mean and dtype in FLOATS else [])


def scatter(rng):
    f = OpFile("scatter_elements", "Elements written along an axis.")
    for dtype in EVERY:
        for reduction in reductions_of(dtype, True):
            x, u = sample(rng, dtype, (3, 4)), sample(rng, dtype, (2, 3))
            i = np.array([[0, 0, 3], [-1, 2, 2]], np.int64)
            places = [(r, int(i[r, c])) for r in range(2) for c in range(3)]
            name = f"{dtype}_{reduction}"
            f.function(name, [("x", tensor(["n", "m"], dtype)), ("i", tensor(["a", "b"], "i64")), ("u", tensor(["a", "b"], dtype))], f'scatter_elements(x, i, u, 1, "{reduction}")',
                       [run(name, [x, i, u], written(reduction, x, places, u.reshape(-1))), run(name, [x, i[:0], u[:0]], x),
                        trap("scatter_elements/C4", name, [x[:, :3], i, u]), trap("scatter_elements/C3", name, [x[:1], i, u])], tensor(["n", "m"], dtype))
    x, nan = np.array([1, np.nan, 3], np.float32), np.array([np.nan, 1, 2], np.float32)
    i = np.array([0, 1, 2], np.int32)
    vector = [("x", tensor(["n"], "f32")), ("i", tensor(["k"], "i32")), ("u", tensor(["k"], "f32"))]
    for reduction in ("max", "min"):
        f.function(f"nan_{reduction}", vector, f'scatter_elements(x, i, u, reduction="{reduction}")', [run(f"nan_{reduction}", [x, i, nan], written(reduction, x, list(i), nan))])
    f.function("shapes_may_differ", [*vector[:2], ("u", tensor(["q"], "f32"))], "scatter_elements(x, i, u)",
               [run("shapes_may_differ", [x, i, nan], nan), trap("scatter_elements/C5", "shapes_may_differ", [x, i, nan[:2]]), trap("scatter_elements/C4", "shapes_may_differ", [x, -i - 2, nan])])
    f.refused("float_indices", [vector[0], ("i", tensor(["k"], "f32")), vector[2]], "scatter_elements(x, i, u)", "RX0501")
    f.refused("dtypes_differ", [vector[0], vector[1], ("u", tensor(["k"], "f64"))], "scatter_elements(x, i, u)", "RX0501")
    f.refused("ranks_differ", [("x", tensor(["n", 2], "f32")), *vector[1:]], "scatter_elements(x, i, u)", "RX0501")
    f.refused("more_rows", [("x", tensor([2, "n"], "f32")), ("i", tensor([3, "n"], "i32")), ("u", tensor([3, "n"], "f32"))], "scatter_elements(x, i, u, 1)", "RX0501")
    f.refused("updates_differ", [("x", tensor([2], "f32")), ("i", tensor([2], "i32")), ("u", tensor([3], "f32"))], "scatter_elements(x, i, u)", "RX0501")
    f.refused("unknown_reduction", vector, 'scatter_elements(x, i, u, reduction="sum")', "RX0501")
    ints = [("x", tensor(["n"], "i32")), vector[1], ("u", tensor(["k"], "i32"))]
    f.refused("mean_of_integers", ints, 'scatter_elements(x, i, u, reduction="mean")', "RX0501")
    bools = [("x", tensor(["n"], "bool")), vector[1], ("u", tensor(["k"], "bool"))]
    f.refused("sum_of_bools", bools, 'scatter_elements(x, i, u, reduction="add")', "RX0501")
    f.write()

    f = OpFile("scatter_nd", "Slices written at index tuples.")
    for dtype in EVERY:
        for reduction in reductions_of(dtype, False):
            x, u = sample(rng, dtype, (3, 2)), sample(rng, dtype, (4, 2))
            i = np.array([[0], [2], [0], [0]], np.int64)
            name = f"{dtype}_{reduction}"
            f.function(name, [("x", tensor(["n", "m"], dtype)), ("i", tensor(["k", 1], "i64")), ("u", tensor(["k", "m"], dtype))], f'scatter_nd(x, i, u, "{reduction}")',
                       [run(name, [x, i, u], written(reduction, x, [int(v) for v in i[:, 0]], u)), run(name, [x, i[:0], u[:0]], x),
                        trap("scatter_nd/C4", name, [x[:2], i, u]), trap("scatter_nd/C4", name, [x, -i, u])], tensor(["n", "m"], dtype))
    x, i, u = sample(rng, "f32", (2, 3)), np.array([[[1, 2], [0, 0]]], np.int32), np.array([[7, 8]], np.float32)
    f.function("elements", [("x", tensor(["n", "m"], "f32")), ("i", tensor(["a", "b", 2], "i32")), ("u", tensor(["p", "q"], "f32"))], "scatter_nd(x, i, u)",
               [run("elements", [x, i, u], written("update", x, [(1, 2), (0, 0)], u[0])), trap("scatter_nd/C3", "elements", [x, i, u[:, :1]])])
    f.function("tuples_of_any_length", [("x", tensor(["n", "m"], "f32")), ("i", tensor(["k", "r"], "i32")), ("u", 'Tensor(dtype="f32")')], "scatter_nd(x, i, u)",
               [run("tuples_of_any_length", [x, i[0], u[0]], written("update", x, [(1, 2), (0, 0)], u[0])), trap("scatter_nd/C2", "tuples_of_any_length", [x, np.zeros((1, 3), np.int32), u])], tensor(["n", "m"], "f32"))
    matrix = [("x", tensor(["n", 3], "f32")), ("i", tensor(["k", 1], "i32")), ("u", tensor(["k", 3], "f32"))]
    f.refused("float_indices", [matrix[0], ("i", tensor(["k", 1], "f32")), matrix[2]], "scatter_nd(x, i, u)", "RX0501")
    f.refused("dtypes_differ", [matrix[0], matrix[1], ("u", tensor(["k", 3], "f16"))], "scatter_nd(x, i, u)", "RX0501")
    f.refused("scalar_indices", [matrix[0], ("i", tensor([], "i32")), matrix[2]], "scatter_nd(x, i, u)", "RX0501")
    f.refused("tuples_too_long", [matrix[0], ("i", tensor(["k", 3], "i32")), ("u", tensor(["k"], "f32"))], "scatter_nd(x, i, u)", "RX0501")
    f.refused("updates_differ", [matrix[0], matrix[1], ("u", tensor(["k", 2], "f32"))], "scatter_nd(x, i, u)", "RX0501")
    f.refused("mean_is_not_there", matrix, 'scatter_nd(x, i, u, "mean")', "RX0501")
    f.write()


def slice_scatter(rng):
    f = OpFile("slice_scatter", "A slice replaced.")
    for dtype in EVERY:
        x, u = sample(rng, dtype, (3, 6)), sample(rng, dtype, (3, 2))
        want = x.copy()
        want[:, 1:4:2] = u
        name = f"{dtype}_columns"
        f.function(name, [("x", tensor(["n", 6], dtype)), ("u", tensor(["n", 2], dtype))], "slice_scatter(x, u, 1, 4, 2, axis=-1)",
                   [run(name, [x, u], want), run(name, [x[:0], u[:0]], x[:0])], tensor(["n", 6], dtype))
    x, u = sample(rng, "f32", (6, 2)), sample(rng, "f32", (6, 2))
    rows = [("x", tensor(["n", 2], "f32")), ("u", tensor(["m", 2], "f32"))]
    for name, bounds, part in [("from_the_end", "-3, -1, 1", slice(-3, -1)), ("clamped", "2, 9223372036854775807, 3", slice(2, None, 3)), ("nothing", "4, 1, 1", slice(4, 1))]:
        cases = []
        for v in (x, x[:3], x[:0]):
            want = v.copy()
            count = len(want[part])
            want[part] = u[:count]
            cases.append(run(name, [v, u[:count]], want))
        cases.append(trap("slice_scatter/C4", name, [x, u[:5]]))
        f.function(name, rows, f"slice_scatter(x, u, {bounds})", cases, tensor(["n", 2], "f32"))
    f.function("all_but_the_last", rows, ["n = sym_var()", "return slice_scatter(x, u, 0, n - 1, 1)"],
               [run("all_but_the_last", [v, u[:max(len(v) - 1, 0)]], np.concatenate([u[:max(len(v) - 1, 0)], v[-1:]])) for v in (x, x[:1], x[:0])])
    f.refused("step_zero", rows, "slice_scatter(x, u, 0, 1, 0)", "RX0501")
    f.refused("step_negative", rows, "slice_scatter(x, u, 0, 1, -1)", "RX0501")
    f.refused("axis_out_of_range", rows, "slice_scatter(x, u, 0, 1, 1, 2)", "RX0501")
    f.refused("dtypes_differ", [rows[0], ("u", tensor(["m", 2], "f64"))], "slice_scatter(x, u, 0, 1, 1)", "RX0501")
    f.refused("too_few_rows", [("x", tensor([4, 2], "f32")), ("u", tensor([1, 2], "f32"))], "slice_scatter(x, u, 0, 2, 1)", "RX0501")
    f.refused("no_step", rows, "slice_scatter(x, u, 0, 1)", "RX0503")
    f.write()


def one_hot(rng):
    f = OpFile("one_hot", "One-hot rows.")
    for dtype in INTS:
        i = np.array([0, 2, 5, 1, np.iinfo(DTYPES[dtype]).min], DTYPES[dtype])
        want = (i[:, None] == np.arange(3)).astype(np.int64)
        name = f"{dtype}_indices"
        f.function(name, [("i", tensor(["n"], dtype))], "one_hot(i, 1, 0, 3)", [run(name, [i], want), run(name, [i[:0]], want[:0])], tensor(["n", 3], "i64"))
    i = np.array([[0, 2], [1, 7]], np.int64)
    hot = i[..., None] == np.arange(3)
    for dtype in EVERY:
        on, off = ("True", "False") if dtype == "bool" else ("5", "2") if dtype in INTS else ("-1.5", "nan")
        values = {"True": True, "False": False, "5": 5, "2": 2, "-1.5": -1.5, "nan": np.nan}
        want = np.where(hot, values[on], values[off]).astype(DTYPES[dtype])
        name = f"{dtype}_values"
        f.function(name, [("i", tensor(["n", "m"], "i64"))], f'one_hot(i, const({on}, "{dtype}"), const({off}, "{dtype}"), 3)', [run(name, [i], want)], tensor(["n", "m", 3], dtype))
    for axis in (0, 1, -2, -3):
        name = f"axis_{'minus_' * (axis < 0)}{abs(axis)}"
        f.function(name, [("i", tensor(["n", "m"], "i64"))], f"one_hot(i, 1.0, 0.0, depth=3, axis={axis})", [run(name, [i], np.moveaxis(hot, -1, axis).astype(np.float64))])
    f.function("scalar", [("i", tensor([], "i64"))], "one_hot(i, 1, 0, 2)", [run("scalar", [np.int64(1)], np.array([0, 1]))], tensor([2], "i64"))
    f.function("depth_zero", [("i", tensor(["n"], "i64"))], "one_hot(i, 1, 0, 0)", [run("depth_zero", [i[0]], np.zeros((2, 0), np.int64))], tensor(["n", 0], "i64"))
    f.function("depth_of_a_dim", [("i", tensor(["n"], "i64"))], ["n = sym_var()", "return one_hot(i, 1, 0, n)"],
               [run("depth_of_a_dim", [np.array([2, 0, 1])], np.eye(3, dtype=np.int64)[[2, 0, 1]])], tensor(["n", "n"], "i64"))
    index = [("i", tensor(["n"], "i64"))]
    f.refused("float_indices", [("i", tensor(["n"], "f32"))], "one_hot(i, 1, 0, 3)", "RX0501")
    f.refused("values_differ", index, "one_hot(i, 1, 0.0, 3)", "RX0501")
    f.refused("value_is_a_vector", [*index, ("v", tensor([2], "i64"))], "one_hot(i, v, 0, 3)", "RX0501")
    f.refused("depth_negative", index, "one_hot(i, 1, 0, -1)", "RX0501")
    f.refused("axis_out_of_range", index, "one_hot(i, 1, 0, 3, 2)", "RX0501")
    f.refused("value_is_a_string", index, 'one_hot(i, "on", 0, 3)', "RX0502")
    f.write()


def index_tensor(rng):
    f = OpFile("index_tensor", "Elements or slices at broadcast indices.")
    for dtype in EVERY:
        x = sample(rng, dtype, (3, 4))
        i, j = np.array([[2], [-3]], np.int64), np.array([0, -1, 3], np.int64)
        name = f"{dtype}_elements"
        f.function(name, [("x", tensor(["n", "m"], dtype)), ("i", tensor(["a", 1], "i64")), ("j", tensor([3], "i64"))], "index_tensor(x, [i, j])",
                   [run(name, [x, i, j], x[i, j]), run(name, [x, i[:0], j], x[i[:0], j]), trap("index_tensor/C4", name, [x[:2], i, j]), trap("index_tensor/C4", name, [x[:0], i, j])], tensor(["a", 3], dtype))
    x, i = sample(rng, "f32", (3, 2, 2)), np.array([2, 0, 2], np.int32)
    f.function("slices", [("x", tensor(["n", "m", 2], "f32")), ("i", tensor(["k"], "i32"))], "index_tensor(x, (i,))",
               [run("slices", [x, i], x[i]), run("slices", [x[:, :0], i], x[:, :0][i])], tensor(["k", "m", 2], "f32"))
    f.function("dtypes_of_indices", [("x", tensor(["n", "m", 2], "f32")), ("i", tensor(["k"], "u8")), ("j", tensor([], "i64"))], "index_tensor(x, [i, j])",
               [run("dtypes_of_indices", [x, i.astype(np.uint8), np.int64(-1)], x[i, -1])], tensor(["k", 2], "f32"))
    f.function("lengths_may_differ", [("x", tensor(["n", "m", 2], "f32")), ("i", tensor(["k"], "i32")), ("j", tensor(["l"], "i32"))], "index_tensor(x, [i, j])",
               [run("lengths_may_differ", [x, i, i[1:2]], x[i, 0]), trap("index_tensor/C3", "lengths_may_differ", [x, i, i[:2]])], 'Tensor(ndim=2, dtype="f32")')
    f.refused("float_indices", [("x", tensor(["n"], "f32")), ("i", tensor(["k"], "f32"))], "index_tensor(x, [i])", "RX0501")
    f.refused("no_indices", [("x", tensor(["n"], "f32"))], "index_tensor(x, [])", "RX0501")
    f.refused("too_many_indices", [("x", tensor(["n"], "f32")), ("i", tensor(["k"], "i32"))], "index_tensor(x, [i, i])", "RX0501")
    f.refused("lengths_differ", [("x", tensor(["n", "m"], "f32")), ("i", tensor([2], "i32")), ("j", tensor([3], "i32"))], "index_tensor(x, [i, j])", "RX0501")
    f.refused("index_is_no_tuple", [("x", tensor(["n"], "f32")), ("i", tensor(["k"], "i32"))], "index_tensor(x, i)", "RX0502")
    f.write()


def index_put(rng):
    f = OpFile("index_put", "Values written at broadcast indices.")
    for dtype in EVERY:
        x, v = sample(rng, dtype, (3, 4)), sample(rng, dtype, (3,))
        i, j = np.array([2, 0, -1], np.int64), np.array([1, 3, -3], np.int64)
        for form, attribute, reduction in [("last", "", "update"), ("all", ", accumulate=True", "add")]:
            if dtype == "bool" and form == "all":
                continue
            name = f"{dtype}_{form}"
            f.function(name, [("x", tensor(["n", "m"], dtype)), ("i", tensor(["k"], "i64")), ("j", tensor(["k"], "i64")), ("v", tensor(["k"], dtype))], f"index_put(x, [i, j], v{attribute})",
                       [run(name, [x, i, j, v], written(reduction, x, list(zip(i, j)), v)), run(name, [x, i[:0], j[:0], v[:0]], x), trap("index_put/C4", name, [x[:, :2], i, j, v])], tensor(["n", "m"], dtype))
    x, i = sample(rng, "f32", (3, 2)), np.array([2, 0], np.int32)
    rows = [("x", tensor(["n", "m"], "f32")), ("i", tensor(["k"], "i32"))]
    want = x.copy()
    want[i] = [7, 8]
    f.function("a_row_for_each", [*rows, ("v", tensor(["m"], "f32"))], "index_put(x, (i,), v)", [run("a_row_for_each", [x, i, np.array([7, 8], np.float32)], want)], tensor(["n", "m"], "f32"))
    want = x.copy()
    want[i] = 9
    f.function("one_for_all", [*rows, ("v", tensor([], "f32"))], "index_put(x, (i,), v)", [run("one_for_all", [x, i, np.float32(9)], want)])
    f.function("values_may_differ", [*rows, ("v", tensor(["q"], "f32"))], "index_put(x, (i,), v)",
               [run("values_may_differ", [x, i, np.array([9], np.float32)], want), trap("index_put/C6", "values_may_differ", [x, i, np.zeros(3, np.float32)])])
    f.refused("float_indices", [rows[0], ("i", tensor(["k"], "f32")), ("v", tensor([], "f32"))], "index_put(x, (i,), v)", "RX0501")
    f.refused("no_indices", [rows[0], ("v", tensor([], "f32"))], "index_put(x, (), v)", "RX0501")
    f.refused("too_many_indices", [*rows, ("v", tensor([], "f32"))], "index_put(x, (i, i, i), v)", "RX0501")
    f.refused("indices_differ", [rows[0], ("i", tensor([2], "i32")), ("j", tensor([3], "i32")), ("v", tensor([], "f32"))], "index_put(x, (i, j), v)", "RX0501")
    f.refused("dtypes_differ", [*rows, ("v", tensor([], "f64"))], "index_put(x, (i,), v)", "RX0501")
    f.refused("sum_of_bools", [("x", tensor(["n"], "bool")), rows[1], ("v", tensor([], "bool"))], "index_put(x, (i,), v, True)", "RX0501")
    f.refused("values_too_many", [("x", tensor([3], "f32")), ("i", tensor([2], "i32")), ("v", tensor([3], "f32"))], "index_put(x, (i,), v)", "RX0501")
    f.refused("values_of_greater_rank", [("x", tensor([3], "f32")), ("i", tensor([2], "i32")), ("v", tensor([1, 2], "f32"))], "index_put(x, (i,), v)", "RX0501")
    f.write()


def meshgrid(rng):
    f = OpFile("meshgrid", "Grids of coordinates.")
    for dtype in EVERY:
        a, b, c = (sample(rng, dtype, (k,)) for k in (2, 3, 1))
        vectors = [(p, tensor([d], dtype)) for p, d in (("a", "n"), ("b", "m"), ("c", "k"))]
        for indexing, dims in [("ij", ["n", "m", "k"]), ("xy", ["m", "n", "k"])]:
            name = f"{dtype}_{indexing}"
            grid = tensor(dims, dtype)
            f.function(name, vectors, f'meshgrid([a, b, c], indexing="{indexing}")',
                       [run(name, list(v), tuple(np.meshgrid(*v, indexing=indexing))) for v in [(a, b, c), (a, b[:0], c)]], f"Tuple[{grid}, {grid}, {grid}]")
    v = np.array([1, 2], np.float32)
    f.function("alone", [("a", tensor(["n"], "f32"))], 'meshgrid((a,), "xy")', [run("alone", [v], (v,))])
    f.function("with_a_scalar", [("a", tensor(["n"], "f32")), ("s", tensor([], "f32"))], "meshgrid([a, s])", [run("with_a_scalar", [v, np.float32(5)], (v[:, None], np.full((2, 1), 5, np.float32)))])
    f.refused("of_nothing", [("a", tensor(["n"], "f32"))], "meshgrid([])", "RX0501")
    f.refused("of_a_matrix", [("a", tensor(["n", 2], "f32"))], "meshgrid([a])", "RX0501")
    f.refused("dtypes_differ", [("a", tensor(["n"], "f32")), ("b", tensor(["n"], "f16"))], "meshgrid([a, b])", "RX0501")
    f.refused("unknown_indexing", [("a", tensor(["n"], "f32"))], 'meshgrid([a], "yx")', "RX0501")
    f.refused("not_a_tuple", [("a", tensor(["n"], "f32"))], "meshgrid(a)", "RX0502")
    f.write()


def main():
    rng = np.random.default_rng(13)
    for family in (take, strided_slice, dynamic_strided_slice, gather, scatter, slice_scatter, one_hot, index_tensor, index_put, meshgrid):
        family(rng)


if __name__ == "__main__":
    main()
