"""Convolution and its adjoint: expectations from loops over every product, with exact sums.

The transposed convolution is computed by scattering, as the derivative of the convolution.
"""

import itertools
import math

import numpy as np

from rxgen import DTYPES, FLOATS, INTS, OpFile, approx, round_to, run, tensor, trap

NAMES = {np.dtype(v): k for k, v in DTYPES.items()}


def total(terms, exact):
    """The sum of products: exactly rounded of floats, exact of integers."""
    if not exact and all(math.isfinite(t) for t in terms):
        return math.fsum(terms)
    return sum(terms)


def sides(padding, spatial):
    padding = [padding] if isinstance(padding, int) else list(padding)
    if len(padding) == 1:
        padding = padding * spatial
    return (padding * 2)[:2 * spatial] if len(padding) == spatial else padding


def each(value, spatial):
    return [value] * spatial if isinstance(value, int) else list(value)


def finish(terms, dtype, ints):
    result = np.empty(terms.shape, object)
    for index in np.ndindex(*terms.shape):
        result[index] = total(terms[index] or [0], ints)
    if ints:
        bits = np.iinfo(DTYPES[dtype]).bits if dtype in INTS else 64
        wrapped = np.array([int(v) % 2**bits for v in result.ravel()], dtype=object).reshape(result.shape)
        if dtype in INTS and np.iinfo(DTYPES[dtype]).min < 0:
            wrapped = np.where(wrapped >= 2**(bits - 1), wrapped - 2**bits, wrapped)
        return wrapped.astype(DTYPES[dtype])
    return round_to(dtype, result.astype(np.float64))


def conv(x, w, strides=1, padding=0, dilation=1, groups=1, out_dtype=None, transposed=False, output_padding=0):
    """x is (N, C, space…), w (O, I, space…), or for the transposed one (I, O, space…)."""
    spatial = x.ndim - 2
    ints = x.dtype.kind in "iu"
    s, d, extra = each(strides, spatial), each(dilation, spatial), each(output_padding, spatial)
    before, after = sides(padding, spatial)[:spatial], sides(padding, spatial)[spatial:]
    n, k = x.shape[2:], w.shape[2:]
    pads = [b + a for b, a in zip(before, after)]
    if transposed:
        out = [(n[i] - 1) * s[i] - pads[i] + d[i] * (k[i] - 1) + extra[i] + 1 for i in range(spatial)]
        outputs = w.shape[1] * groups
    else:
        out = [(n[i] + pads[i] - d[i] * (k[i] - 1) - 1) // s[i] + 1 for i in range(spatial)]
        outputs = w.shape[0]
    terms = np.empty((x.shape[0], outputs, *out), object)
    for index in np.ndindex(*terms.shape):
        terms[index] = []
    number = int if ints else float
    per_input, per_output = x.shape[1] // groups, outputs // groups
    for b, g in itertools.product(range(x.shape[0]), range(groups)):
        for c, o in itertools.product(range(per_input), range(per_output)):
            for tap in np.ndindex(*k):
                weight = w[(g * per_input + c, o, *tap)] if transposed else w[(g * per_output + o, c, *tap)]
                for place in np.ndindex(*(n if transposed else out)):
                    moved = [place[i] * s[i] + tap[i] * d[i] - before[i] for i in range(spatial)]
                    if not all(0 <= m < limit for m, limit in zip(moved, out if transposed else n)):
                        continue
                    source, target = (place, moved) if transposed else (moved, place)
                    product = number(x[(b, g * per_input + c, *source)]) * number(weight)
                    terms[(b, g * per_output + o, *target)].append(product)
    return finish(terms, out_dtype or NAMES[x.dtype], ints)


def random(rng, dtype, *shape):
    if dtype in FLOATS:
        return round_to(dtype, rng.standard_normal(shape))
    info = np.iinfo(DTYPES[dtype])
    low = -9 if info.min < 0 else 0
    return rng.integers(low, 10, shape).astype(DTYPES[dtype])


def pair(x, w, dtype):
    return [("x", tensor(x, dtype)), ("w", tensor(w, dtype))]


def every_dtype(f, op, rng, spatial, transposed):
    letters, kernel = ["height", "width"][-spatial:], ["kh", "kw"][-spatial:]
    for dtype in FLOATS + INTS:
        same = run if dtype != "f64" else approx
        x, w = random(rng, dtype, 2, 3, *[5, 4][-spatial:]), random(rng, dtype, *((3, 2) if transposed else (2, 3)), *[2, 3][-spatial:])
        name = f"{dtype}_default"
        call = lambda a, b: conv(a, b, transposed=transposed)
        grown = [f"{n} + {k} - 1" if transposed else f"{n} - {k} + 1" for n, k in zip(letters, kernel)]
        f.function(name, pair(["n", "c", *letters], ["c", "o", *kernel] if transposed else ["o", "c", *kernel], dtype), f"{op}(x, w)",
                   [same(name, [x, w], call(x, w)), run(name, [x[:0], w], call(x[:0], w))] + (
                       [same(name, [x[:1, :1], w[:1, :1]], call(x[:1, :1], w[:1, :1])), run(name, [x[:, :0], w[:, :0] if not transposed else w[:0]], call(x[:, :0], w[:, :0] if not transposed else w[:0]))]
                       if dtype in ("f32", "i8") else []), tensor(["n", "o", *grown], dtype))


def variants(f, op, rng, cases):
    """(name, data shape, kernel shape, attributes): the shapes are static in half of the cases."""
    for number, (name, xs, ws, attributes) in enumerate(cases):
        x, w = random(rng, "f32", *xs), random(rng, "f32", *ws)
        transposed = "transpose" in op
        want = conv(x, w, transposed=transposed, **attributes)
        text = ", ".join(f"{k}={v}" for k, v in attributes.items())
        known = list(xs) if number % 2 else ["n", xs[1], *["height", "width"][:len(xs) - 2]]
        f.function(name, pair(known, list(ws), "f32"), f"{op}(x, w, {text})", [run(name, [x, w], want)],
                   tensor(want.shape, "f32") if number % 2 else None)


def permuted(a, canonical, layout):
    return np.transpose(a, [canonical.index(letter) for letter in layout])


def layouts(f, op, rng, canonical, cases):
    spatial, transposed = len(canonical) - 2, "transpose" in op
    own = "OI" + canonical[2:]
    for name, data, kernel, out in cases:
        x, w = random(rng, "f32", 2, 4, *[4, 3][-spatial:]), random(rng, "f32", 6, 2, *[2, 2][-spatial:])
        if transposed:
            w = random(rng, "f32", 4, 3, *[2, 2][-spatial:])
        want = conv(x, w, groups=2, transposed=transposed)
        # `w` of the reference is (I, O, …) when transposed, else (O, I, …).
        w_named = np.swapaxes(w, 0, 1) if transposed else w
        x_in, w_in = permuted(x, canonical, data), permuted(w_named, own, kernel)
        extra = f', out_layout="{out}"' if out else ""
        f.function(name, pair([*x_in.shape], [*w_in.shape], "f32"), f'{op}(x, w, groups=2, data_layout="{data}", kernel_layout="{kernel}"{extra})',
                   [run(name, [x_in, w_in], permuted(want, canonical, out or data))], tensor(permuted(want, canonical, out or data).shape, "f32"))


def out_dtypes(f, op, rng, spatial):
    transposed = "transpose" in op
    x, w = np.full((1, 2, *[3, 3][-spatial:]), 100, np.int8), np.full((2, 2, *[2, 2][-spatial:]), -100, np.int8)
    for dtype in ["i32", "i16", "f32"]:
        want = conv(x, w, transposed=transposed, out_dtype="i64").astype(DTYPES[dtype])
        f.function(f"i8_to_{dtype}", pair([*x.shape], [*w.shape], "i8"), f'{op}(x, w, out_dtype="{dtype}")', [run(f"i8_to_{dtype}", [x, w], want)], tensor(want.shape, dtype))
    x, w = random(rng, "f16", *x.shape), random(rng, "f16", *w.shape)
    f.function("f16_to_f32", pair([*x.shape], [*w.shape], "f16"), f'{op}(x, w, out_dtype="float32")',
               [run("f16_to_f32", [x, w], conv(x, w, transposed=transposed, out_dtype="f32"))])


def refusals(f, op, space, kernel, canonical):
    """What both directions refuse; channels 4 on both sides."""
    x, w = [1, 4, *space], [4, 4, *kernel]
    refused = lambda name, extra, a=x, b=w: f.refused(name, pair(a, b, "f32"), f"{op}(x, w{extra})", "RX0501")
    f.refused("dtypes_differ", [("x", tensor(x, "f32")), ("w", tensor(w, "f16"))], f"{op}(x, w)", "RX0501")
    f.refused("of_bools", pair(x, w, "bool"), f"{op}(x, w)", "RX0501")
    for name, extra in {
        "stride_zero": ", strides=0", "stride_negative": ", strides=-1", "too_many_strides": ", strides=[1, 1, 1]", "padding_negative": ", padding=-1",
        "padding_of_three": ", padding=[1, 1, 1]", "dilation_zero": ", dilation=0", "no_groups": ", groups=0", "negative_groups": ", groups=-4",
        "groups_do_not_divide": ", groups=3", "padding_beyond_i64": ", padding=9223372036854775807", "layout_blocked": f', data_layout="{canonical}4c"', "layout_of_other_letters": ', data_layout="ABCD"',
        "layout_repeats": f', data_layout="{"N" * len(canonical)}"', "kernel_layout_of_data": f', kernel_layout="{canonical}"', "out_layout_short": ', out_layout="NC"',
    }.items():
        refused(name, extra)
    refused("data_of_other_rank", "", a=[*x, 1])
    refused("kernel_of_other_rank", "", b=w[:-1])
    refused("channels_differ", "", a=[1, 3, *space])
    refused("empty_kernel", "", b=[4, 4, *kernel[:-1], 0])
    f.refused("strides_as_text", pair(x, w, "f32"), f'{op}(x, w, strides="2")', "RX0502")
    f.refused("no_weight", [("x", tensor(x, "f32"))], f"{op}(x)", "RX0503")


def at_run_time(f, op, space, kernel, extra_traps):
    letters, taps = ["height", "width"][:len(space)], ["kh", "kw"][:len(space)]
    x, w = np.ones((1, 2, *space), np.float32), np.ones((2, 2, *kernel), np.float32)
    want = conv(x, w, transposed="transpose" in op)
    f.function("dims_may_fit", pair(["n", "c", *letters], ["o", "i", *taps], "f32"), f"{op}(x, w)", [
        run("dims_may_fit", [x, w], want), trap(f"{op}/C6", "dims_may_fit", [x[:, :1], w]), *[trap(f"{op}/C7", "dims_may_fit", pair) for pair in extra_traps(x, w)],
    ])
    f.function("groups_may_divide", pair(["n", "c", *letters], ["o", "i", *taps], "f32"), f"{op}(x, w, groups=2)", [trap(f"{op}/C5", "groups_may_divide", [x[:, :1], w[:1]])])
    f.function("of_objects", [("x", "Object"), ("w", "Object")], f"{op}(x, w)", [
        run("of_objects", [x, w], want), trap(f"{op}/C1", "of_objects", [x, w.astype(np.float64)]), trap(f"{op}/C4", "of_objects", [x[0], w]), trap(f"{op}/C4", "of_objects", [x, w[0]]),
    ], f"Tensor(ndim={x.ndim})")
    special = x.copy()
    special[0, 0, 0], special[0, 1, -1] = np.inf, np.nan
    f.function("special_values", pair(["n", 2, *letters], [2, 2, *kernel], "f32"), f"{op}(x, w)", [run("special_values", [special, w], conv(special, w, transposed="transpose" in op))])


def conv1d():
    f, rng = OpFile("conv1d", "Convolution over one spatial dim."), np.random.default_rng(10)
    every_dtype(f, "conv1d", rng, 1, False)
    variants(f, "conv1d", rng, [
        ("stride_2", (1, 2, 7), (3, 2, 3), {"strides": 2}), ("stride_3", (2, 1, 11), (1, 1, 2), {"strides": [3]}),
        ("padded", (1, 2, 4), (3, 2, 3), {"padding": 1}), ("padded_left", (1, 2, 4), (3, 2, 3), {"padding": [2, 0]}),
        ("dilated", (1, 2, 7), (3, 2, 3), {"dilation": 2}), ("all", (2, 2, 13), (3, 2, 3), {"strides": 3, "padding": [4, 1], "dilation": 2}),
        ("grouped", (1, 4, 5), (6, 2, 2), {"groups": 2}), ("depthwise", (1, 3, 5), (6, 1, 3), {"groups": 3, "padding": 1}),
        ("kernel_fills_data", (1, 1, 3), (1, 1, 3), {"strides": 5}), ("kernel_of_one", (1, 3, 3), (2, 3, 1), {"padding": 1}),
    ])
    layouts(f, "conv1d", rng, "NCW", [("nwc", "NWC", "OIW", None), ("nwc_wio", "NWC", "WIO", None), ("to_wnc", "NCW", "IOW", "WNC"), ("cwn_owi", "CWN", "OWI", "NCW")])
    out_dtypes(f, "conv1d", rng, 1)
    refusals(f, "conv1d", [5], [2], "NCW")
    f.refused("kernel_too_large", pair([1, 4, 5], [4, 4, 3], "f32"), "conv1d(x, w, dilation=3)", "RX0501")
    at_run_time(f, "conv1d", [4], [3], lambda x, w: [[x[..., :2], w], [x, w[..., :0]]])
    f.write()


def conv2d():
    f, rng = OpFile("conv2d", "Convolution over two spatial dims."), np.random.default_rng(11)
    every_dtype(f, "conv2d", rng, 2, False)
    variants(f, "conv2d", rng, [
        ("stride_2", (1, 2, 5, 6), (2, 2, 3, 3), {"strides": 2}), ("strides_differ", (1, 1, 5, 7), (2, 1, 2, 2), {"strides": [1, 3]}),
        ("padded", (1, 2, 3, 3), (2, 2, 3, 3), {"padding": 1}), ("paddings_differ", (1, 1, 3, 4), (1, 1, 2, 3), {"padding": [0, 2]}),
        ("four_paddings", (1, 1, 3, 3), (1, 1, 2, 2), {"padding": [0, 1, 2, 3]}), ("dilated", (1, 1, 5, 5), (2, 1, 2, 2), {"dilation": [2, 3]}),
        ("all", (2, 2, 6, 5), (2, 2, 2, 3), {"strides": [2, 1], "padding": [1, 0, 2, 1], "dilation": [3, 1]}),
        ("grouped", (1, 4, 3, 3), (2, 2, 2, 2), {"groups": 2}), ("depthwise", (1, 3, 3, 3), (3, 1, 3, 3), {"groups": 3, "padding": 1}),
        ("pointwise", (2, 3, 2, 2), (4, 3, 1, 1), {"strides": 1}),
    ])
    layouts(f, "conv2d", rng, "NCHW", [("nhwc", "NHWC", "OIHW", None), ("nhwc_hwio", "NHWC", "HWIO", None), ("nhwc_ohwi", "NHWC", "OHWI", "NCHW"), ("to_nhwc", "NCHW", "OIHW", "NHWC"), ("hwnc", "HWNC", "IHWO", "CNWH")])
    out_dtypes(f, "conv2d", rng, 2)
    refusals(f, "conv2d", [5, 5], [2, 2], "NCHW")
    f.refused("kernel_too_large", pair([1, 4, 5, 5], [4, 4, 2, 6], "f32"), "conv2d(x, w)", "RX0501")
    at_run_time(f, "conv2d", [3, 4], [2, 3], lambda x, w: [[x[..., :2], w], [x[:, :, :1], w]])
    f.write()


def conv1d_transpose():
    f, rng = OpFile("conv1d_transpose", "The adjoint of convolution over one spatial dim."), np.random.default_rng(12)
    every_dtype(f, "conv1d_transpose", rng, 1, True)
    variants(f, "conv1d_transpose", rng, [
        ("stride_2", (1, 2, 4), (2, 3, 3), {"strides": 2}), ("output_padded", (1, 2, 4), (2, 3, 3), {"strides": 3, "output_padding": 2}),
        ("padded", (1, 2, 4), (2, 3, 3), {"padding": 1}), ("padded_right", (1, 2, 4), (2, 3, 3), {"padding": [0, 2]}),
        ("dilated", (1, 2, 3), (2, 1, 3), {"dilation": 2}), ("all", (2, 2, 4), (2, 3, 2), {"strides": 3, "padding": [2, 1], "output_padding": 1, "dilation": 4}),
        ("grouped", (1, 4, 3), (4, 3, 2), {"groups": 2}), ("one_element", (1, 1, 1), (1, 1, 1), {"strides": 7}),
    ])
    layouts(f, "conv1d_transpose", rng, "NCW", [("nwc", "NWC", "IOW", None), ("nwc_woi", "NWC", "WOI", None), ("oiw", "NCW", "OIW", "CNW")])
    out_dtypes(f, "conv1d_transpose", rng, 1)
    refusals(f, "conv1d_transpose", [5], [2], "NCW")
    for name, extra in {"output_padding_negative": "output_padding=-1", "output_padding_too_large": "strides=2, output_padding=2", "nothing_left": "padding=3", "two_output_paddings": "strides=2, output_padding=[1, 1]"}.items():
        f.refused(name, pair([1, 4, 5], [4, 4, 2], "f32"), f"conv1d_transpose(x, w, {extra})", "RX0501")
    f.refused("no_data", pair([1, 4, 0], [4, 4, 2], "f32"), "conv1d_transpose(x, w)", "RX0501")
    at_run_time(f, "conv1d_transpose", [4], [3], lambda x, w: [[x[..., :0], w], [x, w[..., :0]]])
    f.write()


def conv2d_transpose():
    f, rng = OpFile("conv2d_transpose", "The adjoint of convolution over two spatial dims."), np.random.default_rng(13)
    every_dtype(f, "conv2d_transpose", rng, 2, True)
    variants(f, "conv2d_transpose", rng, [
        ("stride_2", (1, 2, 2, 3), (2, 1, 3, 3), {"strides": 2}), ("output_padded", (1, 1, 2, 2), (1, 2, 2, 2), {"strides": [2, 3], "output_padding": [1, 2]}),
        ("padded", (1, 2, 3, 3), (2, 2, 3, 3), {"padding": 1}), ("four_paddings", (1, 1, 3, 3), (1, 1, 3, 3), {"padding": [0, 1, 2, 3]}),
        ("dilated", (1, 1, 2, 2), (1, 2, 2, 2), {"dilation": [2, 3]}), ("grouped", (1, 4, 2, 2), (4, 2, 2, 2), {"groups": 2}),
        ("all", (2, 2, 2, 3), (2, 2, 2, 2), {"strides": [3, 2], "padding": [1, 0], "output_padding": [2, 0], "dilation": [2, 1]}),
    ])
    layouts(f, "conv2d_transpose", rng, "NCHW", [("nhwc", "NHWC", "IOHW", None), ("nhwc_hwoi", "NHWC", "HWOI", None), ("oihw", "NCHW", "OIHW", "NHWC")])
    out_dtypes(f, "conv2d_transpose", rng, 2)
    refusals(f, "conv2d_transpose", [5, 5], [2, 2], "NCHW")
    for name, extra in {"output_padding_too_large": "strides=2, output_padding=[0, 2]", "nothing_left": "padding=[0, 3]"}.items():
        f.refused(name, pair([1, 4, 5, 5], [4, 4, 2, 2], "f32"), f"conv2d_transpose(x, w, {extra})", "RX0501")
    at_run_time(f, "conv2d_transpose", [2, 3], [2, 3], lambda x, w: [[x[..., :0], w], [x, w[:, :, :0]]])
    f.write()


def main():
    conv1d()
    conv2d()
    conv1d_transpose()
    conv2d_transpose()


if __name__ == "__main__":
    main()
