"""Pooling: expectations from loops over every window, averages with exact sums."""

import itertools
import math

import numpy as np

from rxgen import DTYPES, FLOATS, INTS, OpFile, approx, round_to, run, tensor, trap

NAMES = {np.dtype(v): k for k, v in DTYPES.items()}


def pair(value, spatial):
    return [value] * spatial if isinstance(value, int) else list(value) * (spatial if len(value) == 1 else 1)


def sides(padding, spatial):
    padding = [padding] if isinstance(padding, int) else list(padding)
    if len(padding) == 2 * spatial:
        return padding[:spatial], padding[spatial:]
    padding = pair(padding, spatial)
    return padding, padding


def windows(n, size, stride, dilation, before, after, ceil_mode):
    """For each window the padded positions of its elements: those in the data, and how many are in
    the data or its padding. Windows start as long as they fit (or, with ceil_mode, start before the
    padding at the end and are at most one too many)."""
    reach = dilation * (size - 1) + 1
    result, start = [], 0
    while start + reach <= n + before + after:
        result.append(start)
        start += stride
    # The next one sticks out, by less than a stride; where none is whole it is the first one.
    ends = result[-1] + reach if result else start + reach - stride
    if ceil_mode and ends < n + before + after and start < n + before:
        result.append(start)
    # A window that is whole but starts in the padding at the end goes with ceil_mode, if it is the last.
    elif ceil_mode and result and result[-1] >= n + before and ends == n + before + after:
        result.pop()
    places = [[start + i * dilation for i in range(size)] for start in result]
    return [([p - before for p in place if 0 <= p - before < n], sum(p < n + before + after for p in place)) for place in places]


def pool(x, kind, pool_size, strides=1, padding=0, dilation=1, ceil_mode=False, count_include_pad=False):
    spatial = x.ndim - 2
    size, s, d = pair(pool_size, spatial), pair(strides, spatial), pair(dilation, spatial)
    before, after = sides(padding, spatial)
    axes = [windows(x.shape[i + 2], size[i], s[i], d[i], before[i], after[i], ceil_mode) for i in range(spatial)]
    result = np.empty((*x.shape[:2], *[len(axis) for axis in axes]), object)
    for index in np.ndindex(*result.shape):
        seen = [axis[place] for axis, place in zip(axes, index[2:])]
        values = [x[(*index[:2], *at)] for at in itertools.product(*[inside for inside, _ in seen])]
        if kind == "max":
            result[index] = maximum(values, x.dtype)
        else:
            result[index] = average(values, math.prod(n for _, n in seen) if count_include_pad else len(values), x.dtype)
    if x.dtype.kind in "iub":
        return result.astype(x.dtype)
    return round_to(NAMES[x.dtype], result.astype(np.float64))


def maximum(values, dtype):
    if dtype.kind == "b":
        return any(values)
    if dtype.kind in "iu":
        return max(map(int, values), default=int(np.iinfo(dtype).min))
    if any(np.isnan(float(v)) for v in values):
        return math.nan
    return max(map(float, values), default=-math.inf)


def average(values, count, dtype):
    if dtype.kind in "iu":
        total = sum(map(int, values))
        return abs(total) // max(count, 1) * (1 if total >= 0 else -1)
    values = list(map(float, values))
    total = math.fsum(values) if all(map(math.isfinite, values)) else sum(values)
    return total / max(count, 1)


def numbers(rng, dtype, *shape):
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in FLOATS:
        return round_to(dtype, rng.standard_normal(shape))
    info = np.iinfo(DTYPES[dtype])
    return rng.integers(max(info.min, -99), 100, shape).astype(DTYPES[dtype])


def permuted(a, canonical, layout):
    return np.transpose(a, [canonical.index(letter) for letter in layout])


CASES = {
    "stride_2": {"pool_size": 2, "strides": 2}, "overlapping": {"pool_size": 3, "strides": 2, "padding": 1}, "padded": {"pool_size": 2, "padding": 1},
    "dilated": {"pool_size": 2, "dilation": 3}, "sticking_out": {"pool_size": 2, "strides": 2, "ceil_mode": True}, "ceil_padded": {"pool_size": 3, "strides": 3, "padding": 1, "ceil_mode": True},
    "ceil_would_start_in_padding": {"pool_size": 2, "strides": 3, "padding": 1, "ceil_mode": True}, "counts_padding": {"pool_size": 3, "strides": 2, "padding": 1, "count_include_pad": True},
    "counts_padding_not": {"pool_size": 3, "strides": 2, "padding": 1, "count_include_pad": False}, "only_padding": {"pool_size": 2, "strides": 2, "padding": 2},
    "counts_only_padding": {"pool_size": 2, "strides": 2, "padding": 2, "count_include_pad": True}, "ceil_counts_padding": {"pool_size": 3, "strides": 4, "padding": 1, "ceil_mode": True, "count_include_pad": True},
    "one_element": {"pool_size": 1}, "dilated_and_padded": {"pool_size": 3, "strides": 2, "padding": 2, "dilation": 2, "ceil_mode": True, "count_include_pad": True},
}
CASES_2D = {
    "sizes_differ": {"pool_size": [2, 3], "strides": [2, 1]}, "paddings_differ": {"pool_size": 3, "strides": [1, 2], "padding": [1, 0]},
    "four_paddings": {"pool_size": [2, 2], "padding": [0, 1, 1, 0]}, "dilations_differ": {"pool_size": 2, "dilation": [1, 3]},
}
CASES_1D = {"padded_left": {"pool_size": 3, "padding": [2, 0]}, "padded_right": {"pool_size": [2], "strides": [2], "padding": [0, 1]}}


def pooling(op, kind, spatial):
    f = OpFile(op, f"The {'maximum' if kind == 'max' else 'average'} over windows in {spatial} spatial dim{'s' * (spatial > 1)}.")
    rng = np.random.default_rng(20 + spatial)
    counts = {"count_include_pad": True} if op == "avg_pool1d" else {}
    space = [7] if spatial == 1 else [5, 7]
    letters, canonical = ["h", "w"][-spatial:], "NCHW" if spatial == 2 else "NCW"
    for dtype in FLOATS + INTS + (["bool"] if kind == "max" else []):
        same = approx if dtype == "f64" and kind == "avg" else run
        x = numbers(rng, dtype, 2, 2, *space)
        small = x[..., :3] if spatial == 1 else x[..., :3, :3]
        name, apply = f"{dtype}_windows", lambda a: pool(a, kind, 3, 2)
        f.function(name, [("x", tensor(["n", "c", *letters], dtype))], f"{op}(x, 3, 2)", [
            same(name, [x], apply(x)), same(name, [small], apply(small)), run(name, [x[:0]], apply(x[:0])), run(name, [x[:, :0]], apply(x[:, :0])),
            trap(f"{op}/C4", name, [x[..., :2]]), trap(f"{op}/C4", name, [x[..., :0]]),
        ], tensor(["n", "c", *[f"({n} - 3) // 2 + 1" for n in letters]], dtype))
    for number, (name, attributes) in enumerate({**CASES, **(CASES_2D if spatial == 2 else CASES_1D)}.items()):
        x = numbers(rng, "f32", 1, 1 if spatial == 2 else 2, *space)
        want = pool(x, kind, **{**counts, **attributes})
        text = ", ".join(f"{k}={v}" for k, v in attributes.items())
        ints = numbers(rng, "i32", 1, 1, *space)
        f.function(name, [("x", tensor(x.shape if number % 2 else ["n", "c", *letters], "f32"))], f"{op}(x, {text})", [run(name, [x], want)],
                   tensor(want.shape, "f32") if number % 2 else None)
        f.function(f"{name}_of_i32", [("x", tensor(["n", "c", *letters], "i32"))], f"{op}(x, {text})", [run(f"{name}_of_i32", [ints], pool(ints, kind, **{**counts, **attributes}))])
    x = numbers(rng, "f32", 2, 3, *space)
    want = pool(x, kind, 2)
    for data, out in ([("NWC", None), ("NCW", "NWC"), ("WCN", "CNW")] if spatial == 1 else [("NHWC", None), ("NCHW", "NHWC"), ("HWNC", "CWHN")]):
        name = f"{data}_{out}".lower()
        shape = permuted(want, canonical, out or data)
        f.function(name, [("x", tensor(permuted(x, canonical, data).shape, "f32"))], f'{op}(x, 2, layout="{data}"' + (f', out_layout="{out}")' if out else ")"),
                   [run(name, [permuted(x, canonical, data)], shape)], tensor(shape.shape, "f32"))
    f.function("default", [("x", tensor(["n", "c", *letters], "f32"))], f"{op}(x)", [run("default", [x], x)], tensor(["n", "c", *letters], "f32"))
    special = np.zeros((1, 1, *space), np.float32)
    special[..., 0], special[..., 2], special[..., 4], special[..., 6] = np.inf, -np.inf, np.nan, -0.0
    f.function("special_values", [("x", tensor(["n", "c", *letters], "f32"))], f"{op}(x, 2)", [run("special_values", [special], pool(special, kind, 2))])
    larger = {
        "ceil_larger_than_data": ([2, 3], {"pool_size": 4, "strides": 3}), "ceil_larger_counts_padding": ([1, 2], {"pool_size": 5, "strides": 3, "padding": 1, "count_include_pad": True}),
        "ceil_larger_dilated": ([2, 3], {"pool_size": 2, "strides": 4, "dilation": 3}), "ceil_starts_after_the_data": ([0, 2, 3], {"pool_size": 1, "strides": 2}),
    }
    for name, (extents, attributes) in larger.items():
        attributes["ceil_mode"] = True
        text = ", ".join(f"{k}={v}" for k, v in attributes.items())
        for dtype in ("f32", "i32"):
            case, whole = f"{name}_of_{dtype}", numbers(rng, dtype, 1, 2, *space)
            parts = [whole[..., :extent] if spatial == 1 else whole[..., :extent, :extent] for extent in [0, *extents]]
            cases = [run(case, [part], pool(part, kind, **{**counts, **attributes})) for part in parts[1:]]
            f.function(case, [("x", tensor(["n", "c", *letters], dtype))], f"{op}(x, {text})", cases if 0 in extents else [*cases, trap(f"{op}/C4", case, [parts[0]])])
    f.function("of_object", [("x", "Object")], f"{op}(x, 2)", [run("of_object", [x], want), trap(f"{op}/C3", "of_object", [x[0]]), trap(f"{op}/kind", "of_object", ["shape(2)"])]
               + ([trap(f"{op}/C5", "of_object", [x > 0])] if kind == "avg" else []), f"Tensor(ndim={spatial + 2})")
    shape = [1, 2, *space]
    for name, extra in {
        "size_zero": "0", "size_negative": "-2", "too_many_sizes": "[1, 1, 1]", "stride_zero": "2, 0", "padding_negative": "2, padding=-1", "padding_beyond_i64": "2, padding=9223372036854775807", "padding_of_three": "2, padding=[1, 1, 1]",
        "dilation_zero": "2, dilation=0", "layout_blocked": f'2, layout="{canonical}4c"', "layout_of_other_letters": '2, layout="OIHW"', "out_layout_short": '2, out_layout="N"',
        "window_too_large": "8", "dilated_too_large": "2, dilation=9", "size_huge": "9223372036854775807",
    }.items():
        f.refused(name, [("x", tensor(shape, "f32"))], f"{op}(x, {extra})", "RX0501")
    f.refused("of_other_rank", [("x", tensor([*shape, 1], "f32"))], f"{op}(x, 2)", "RX0501")
    if kind == "avg":
        f.refused("of_bools", [("x", tensor(shape, "bool"))], f"{op}(x, 2)", "RX0501")
    f.refused("size_as_float", [("x", tensor(shape, "f32"))], f"{op}(x, 2.0)", "RX0502")
    f.refused("ceil_mode_as_number", [("x", tensor(shape, "f32"))], f"{op}(x, 2, ceil_mode=1)", "RX0502")
    f.write()


def adaptive(x, height, width):
    result = np.empty((*x.shape[:2], height, width), object)
    for n, c, i, j in np.ndindex(*result.shape):
        rows = range(i * x.shape[2] // height, -(-(i + 1) * x.shape[2] // height))
        columns = range(j * x.shape[3] // width, -(-(j + 1) * x.shape[3] // width))
        values = [x[n, c, y, z] for y in rows for z in columns]
        result[n, c, i, j] = average(values, len(values), x.dtype)
    return result.astype(x.dtype) if x.dtype.kind in "iu" else round_to(NAMES[x.dtype], result.astype(np.float64))


def adaptive_avg_pool2d():
    op = "adaptive_avg_pool2d"
    f, rng = OpFile(op, "Averages over a given number of windows."), np.random.default_rng(30)
    for dtype in FLOATS + INTS:
        same = run if dtype != "f64" else approx
        x, name = numbers(rng, dtype, 2, 2, 5, 3), f"{dtype}_images"
        f.function(name, [("x", tensor(["n", "c", "h", "w"], dtype))], f"{op}(x, [3, 2])", [
            same(name, [x], adaptive(x, 3, 2)), same(name, [x[:1, :1, :1, :1]], adaptive(x[:1, :1, :1, :1], 3, 2)),
            run(name, [x[:0]], adaptive(x[:0], 3, 2)), run(name, [x[:, :0]], adaptive(x[:, :0], 3, 2)), trap(f"{op}/C5", name, [x[..., :0]]),
        ], tensor(["n", "c", 3, 2], dtype))
    x = numbers(rng, "f32", 1, 2, 4, 7)
    for name, size, h, w in [("global", "1", 1, 1), ("one_number", "output_size=5", 5, 5), ("same", "[4, 7]", 4, 7), ("larger", "[9, 8]", 9, 8), ("nothing", "[0, 2]", 0, 2)]:
        f.function(name, [("x", tensor(["n", "c", 4, 7], "f32"))], f"{op}(x, {size})", [run(name, [x], adaptive(x, h, w))], tensor(["n", "c", h, w], "f32"))
    f.function("size_of_data", [("x", tensor(["n", "c", "h", "w"], "f32"))], f"{op}(x)", [run("size_of_data", [x], x)], tensor(["n", "c", "h", "w"], "f32"))
    f.function("symbolic_size", [("x", tensor(["n", "c", "h", "w"], "f32")), ("s", 'Shape(["k"])')], f"{op}(x, [k, k * 2])",
               [run("symbolic_size", [x, "shape(2)"], adaptive(x, 2, 4))], tensor(["n", "c", "k", "k * 2"], "f32"))
    want = adaptive(x, 2, 3)
    for data, out in [("NHWC", None), ("NCHW", "NHWC"), ("HWNC", "CWHN")]:
        name = f"{data}_{out}".lower()
        f.function(name, [("x", tensor(permuted(x, "NCHW", data).shape, "f32"))], f'{op}(x, [2, 3], "{data}"' + (f', "{out}")' if out else ")"),
                   [run(name, [permuted(x, "NCHW", data)], permuted(want, "NCHW", out or data))], tensor(permuted(want, "NCHW", out or data).shape, "f32"))
    f.function("of_object", [("x", "Object")], f"{op}(x, [2, 3])", [run("of_object", [x], want), trap(f"{op}/C1", "of_object", [x > 0]), trap(f"{op}/C4", "of_object", [x[0]])])
    shape = ["n", "c", 4, 7]
    f.refused("of_bools", [("x", tensor(shape, "bool"))], f"{op}(x)", "RX0501")
    for name, extra in {"size_negative": "-1", "three_sizes": "[1, 2, 3]", "layout_blocked": '1, "NCHW4c"', "out_layout_short": '1, out_layout="NHW"'}.items():
        f.refused(name, [("x", tensor(shape, "f32"))], f"{op}(x, {extra})", "RX0501")
    f.refused("of_other_rank", [("x", tensor(shape[1:], "f32"))], f"{op}(x, 1)", "RX0501")
    f.refused("of_no_pixels", [("x", tensor(["n", "c", 0, 7], "f32"))], f"{op}(x, 1)", "RX0501")
    f.write()


def main():
    for kind in ["max", "avg"]:
        for spatial in [1, 2]:
            pooling(f"{kind}_pool{spatial}d", kind, spatial)
    adaptive_avg_pool2d()


if __name__ == "__main__":
    main()
