"""Normalizations: expectations from NumPy in f64 with exact sums (math.fsum), rounded once."""

import math

import numpy as np

from rxgen import DTYPES, FLOATS, OpFile, approx, round_to, run, tensor, trap


def mean_over(x, axes):
    """The mean over `axes`, kept as dims of 1, of an exactly rounded sum."""
    axes = tuple(axis % x.ndim for axis in axes)
    if not axes:
        return x.copy()
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    rows = np.transpose(x, kept + list(axes)).reshape([x.shape[axis] for axis in kept] + [-1])
    count = math.prod(x.shape[axis] for axis in axes)

    def row(values):
        if not np.isfinite(values).all():
            return values.sum() / count
        return math.fsum(values) / count
    with np.errstate(all="ignore"):
        means = np.apply_along_axis(row, -1, rows)
    return means.reshape([1 if axis in axes else n for axis, n in enumerate(x.shape)])


def normalized(x, axes, epsilon=1e-5):
    with np.errstate(all="ignore"):
        mean = mean_over(x, axes)
        variance = mean_over((x - mean) ** 2, axes)
        return (x - mean) / np.sqrt(variance + epsilon)


def along(parameter, axes, rank):
    """The parameter, whose dims are the data's at `axes`, in a shape that broadcasts to the data."""
    axes = [axis % rank for axis in axes]
    order = np.argsort(axes)
    shape = [1] * rank
    for axis, n in zip(axes, parameter.shape):
        shape[axis] = n
    return np.transpose(parameter, order).reshape(shape)


def layer_norm_of(x, gamma, beta, axes, epsilon=1e-5, center=True, scale=True):
    dtype = DTYPES_BACK[x.dtype]
    x, gamma, beta = (a.astype(np.float64) for a in (x, gamma, beta))
    result = normalized(x, axes, epsilon)
    if scale:
        result = result * along(gamma, axes, x.ndim)
    if center:
        result = result + along(beta, axes, x.ndim)
    return round_to(dtype, result)


DTYPES_BACK = {np.dtype(v): k for k, v in DTYPES.items()}


def rms_norm_of(x, weight=None, axes=(-1,), epsilon=1e-5):
    dtype = DTYPES_BACK[x.dtype]
    x = x.astype(np.float64)
    with np.errstate(all="ignore"):
        result = x / np.sqrt(mean_over(x * x, axes) + epsilon)
    if weight is not None:
        result = result * along(weight.astype(np.float64), axes, x.ndim)
    return round_to(dtype, result)


def random(rng, dtype, *shape):
    return round_to(dtype, rng.standard_normal(shape))


def params(dtype, **shapes):
    return [(name, tensor(shape, dtype)) for name, shape in shapes.items()]


def layer_norm():
    f = OpFile("layer_norm", "Normalization over axes, then scaled and shifted.")
    rng = np.random.default_rng(3)
    for dtype in FLOATS:
        same = run if dtype != "f64" else approx
        x, g, b = random(rng, dtype, 2, 3, 5), random(rng, dtype, 5), random(rng, dtype, 5)
        name = f"{dtype}_last"
        cases = [same(name, [a, g, b], layer_norm_of(a, g, b, [-1])) for a in (x, x[:1, :1])]
        cases += [run(name, [a, g, b], a) for a in (x[:0], x[:, :0])]
        cases += [run(name, [x[:, :, :0], g[:0], b[:0]], x[:, :, :0])]
        one = x[:, :, :1]
        cases += [run(name, [one, g[:1], b[:1]], np.broadcast_to(b[:1], one.shape))]
        f.function(name, params(dtype, x=["n", "m", "k"], g=["k"], b=["k"]), "layer_norm(x, g, b, axes=[-1])", cases,
                   tensor(["n", "m", "k"], dtype))
    dtype = "f32"
    x, g, b = random(rng, dtype, 2, 3, 4), random(rng, dtype, 3, 4), random(rng, dtype, 3, 4)
    f.function("two_axes", params(dtype, x=["n", 3, "k"], g=[3, "k"], b=[3, "k"]), "layer_norm(x, g, b, [1, 2], 1e-3)",
               [run("two_axes", [x, g, b], layer_norm_of(x, g, b, [1, 2], 1e-3))])
    f.function("axes_in_another_order", params(dtype, x=["n", 3, "k"], g=["k", 3], b=["k", 3]), "layer_norm(x, g, b, axes=[2, 1])",
               [run("axes_in_another_order", [x, g.T, b.T], layer_norm_of(x, g.T, b.T, [2, 1]))])
    f.function("axes_apart", params(dtype, x=[2, "n", "k"], g=[2, "k"], b=[2, "k"]), "layer_norm(x, g, b, axes=[0, -1])",
               [run("axes_apart", [x, g[:2], b[:2]], layer_norm_of(x, g[:2], b[:2], [0, 2]))])
    one = params(dtype, x=["n", "m", "k"], g=["k"], b=["k"])
    g, b = g[0], b[0]
    for name, center, scale in [("not_centered", False, True), ("not_scaled", True, False), ("neither", False, False)]:
        f.function(name, one, f"layer_norm(x, g, b, axes=-1, center={center}, scale={scale})",
                   [run(name, [x, g, b], layer_norm_of(x, g, b, [-1], center=center, scale=scale))])
    f.function("bert", one, "layer_norm(x, g, b, axes=[-1], epsilon=1e-12)", [run("bert", [x, g, b], layer_norm_of(x, g, b, [-1], 1e-12))])
    special = np.array([[[1, np.inf, 2, 3], [np.nan, 1, 2, 3], [5, 5, 5, 5], [3e38, -3e38, 3e38, -3e38]]], np.float32)
    f.function("special", one, "layer_norm(x, g, b, axes=[-1])", [run("special", [special, g, b], layer_norm_of(special, g, b, [-1]))])
    f.function("of_objects", [("x", "Object"), ("g", "Object"), ("b", "Object")], "layer_norm(x, g, b, axes=[1])", [
        run("of_objects", [x[0], g, b], layer_norm_of(x[0], g, b, [1])),
        trap("layer_norm/C1", "of_objects", [x[0], g.astype(np.float64), b]),
        trap("layer_norm/C2", "of_objects", [x[0, 0], g, b]),
        trap("layer_norm/C3", "of_objects", [x[0], g[:3], b]),
        trap("layer_norm/C3", "of_objects", [x[0], g, x[0]]),
    ])
    f.function("sizes_may_meet", params(dtype, x=["n", "k"], g=["j"], b=["k"]), "layer_norm(x, g, b, axes=[1])", [
        run("sizes_may_meet", [x[0], g, b], layer_norm_of(x[0], g, b, [1])),
        trap("layer_norm/C3", "sizes_may_meet", [x[0], g[:1], b]),
    ])
    f.refused("dtypes_differ", params("f32", x=["n", 4], g=[4]) + params("f16", b=[4]), "layer_norm(x, g, b, axes=[-1])", "RX0501")
    f.refused("of_integers", params("i32", x=["n", 4], g=[4], b=[4]), "layer_norm(x, g, b, axes=[-1])", "RX0501")
    f.refused("axis_out_of_range", params("f32", x=["n", 4], g=[4], b=[4]), "layer_norm(x, g, b, axes=[2])", "RX0501")
    f.refused("axis_twice", params("f32", x=["n", 4], g=[4, 4], b=[4, 4]), "layer_norm(x, g, b, axes=[1, -1])", "RX0501")
    f.refused("sizes_differ", params("f32", x=["n", 4], g=[3], b=[4]), "layer_norm(x, g, b, axes=[-1])", "RX0501")
    f.refused("ranks_differ", params("f32", x=["n", 4], g=[1, 4], b=[4]), "layer_norm(x, g, b, axes=[-1])", "RX0501")
    f.refused("no_axes", params("f32", x=["n", 4], g=[4], b=[4]), "layer_norm(x, g, b)", "RX0503")
    f.refused("center_as_number", params("f32", x=["n", 4], g=[4], b=[4]), "layer_norm(x, g, b, axes=[-1], center=1.0)", "RX0502")
    f.write()


def rms_norm():
    f = OpFile("rms_norm", "x over its root mean square.")
    rng = np.random.default_rng(4)
    for dtype in FLOATS:
        same = run if dtype != "f64" else approx
        x, w = random(rng, dtype, 2, 3, 5), random(rng, dtype, 5)
        name = f"{dtype}_weighted"
        cases = [same(name, [a, w], rms_norm_of(a, w)) for a in (x, x[:1, :1])]
        cases += [run(name, [a, w], a) for a in (x[:0], x[:, :0])] + [run(name, [x[:, :, :0], w[:0]], x[:, :, :0])]
        cases += [same(name, [x[:, :, :1], w[:1]], rms_norm_of(x[:, :, :1], w[:1]))]
        f.function(name, params(dtype, x=["n", "m", "k"], w=["k"]), "rms_norm(x, w)", cases, tensor(["n", "m", "k"], dtype))
        f.function(f"{dtype}_alone", params(dtype, x=["n", "m", "k"]), "rms_norm(x)",
                   [same(f"{dtype}_alone", [x], rms_norm_of(x)), run(f"{dtype}_alone", [x[:0]], x[:0])])
    x, w = random(rng, "f32", 2, 3, 4), random(rng, "f32", 3, 4)
    f.function("two_axes", params("f32", x=["n", 3, 4], w=[3, 4]), "rms_norm(x, w, [-2, -1], 1e-6)",
               [run("two_axes", [x, w], rms_norm_of(x, w, [1, 2], 1e-6))])
    f.function("first_axis_alone", params("f32", x=["n", 3, 4]), "rms_norm(x, axes=0)", [run("first_axis_alone", [x], rms_norm_of(x, None, [0]))])
    special = np.array([[0, -0.0, 0], [np.inf, 1, 2], [np.nan, 1, 2], [1e30, 2e30, -3e30]], np.float32)
    f.function("special", params("f32", x=["n", "k"]), "rms_norm(x)", [run("special", [special], rms_norm_of(special))])
    f.function("of_objects", [("x", "Object"), ("w", "Object")], "rms_norm(x, w)", [
        run("of_objects", [x[0], w[0]], rms_norm_of(x[0], w[0])),
        trap("rms_norm/C1", "of_objects", [x[0], w[0].astype(np.float16)]),
        trap("rms_norm/C2", "of_objects", [x[0, 0, 0], w[0]]),
        trap("rms_norm/C3", "of_objects", [x[0], w[0, :2]]),
    ])
    f.refused("dtypes_differ", params("f32", x=["n", 4]) + params("f16", w=[4]), "rms_norm(x, w)", "RX0501")
    f.refused("of_integers", params("i32", x=["n", 4]), "rms_norm(x)", "RX0501")
    f.refused("axis_out_of_range", params("f32", x=["n", 4]), "rms_norm(x, axes=[-3])", "RX0501")
    f.refused("sizes_differ", params("f32", x=["n", 4], w=[3]), "rms_norm(x, w)", "RX0501")
    f.refused("weight_as_number", params("f32", x=["n", 4]), "rms_norm(x, 2.0)", "RX0502")
    f.write()


def group_norm_of(x, gamma, beta, groups, channel, axes, epsilon=1e-5, center=True, scale=True):
    dtype = DTYPES_BACK[x.dtype]
    wide = x.astype(np.float64)
    channel %= x.ndim
    split = list(x.shape)
    split[channel:channel + 1] = [groups, x.shape[channel] // groups]
    moved = [a % x.ndim for a in axes]
    moved = [a + 1 if a > channel else a for a in moved] + [channel + 1]
    result = normalized(wide.reshape(split), moved, epsilon).reshape(x.shape)
    if scale:
        result = result * along(gamma.astype(np.float64), [channel], x.ndim)
    if center:
        result = result + along(beta.astype(np.float64), [channel], x.ndim)
    return round_to(dtype, result)


def group_norm():
    f = OpFile("group_norm", "Normalization of groups of channels.")
    rng = np.random.default_rng(5)
    call = "group_norm(x, g, b, num_groups=2, channel_axis=1, axes=[2, 3])"
    for dtype in FLOATS:
        same = run if dtype != "f64" else approx
        x, g, b = random(rng, dtype, 2, 4, 2, 3), random(rng, dtype, 4), random(rng, dtype, 4)
        name = f"{dtype}_images"
        f.function(name, params(dtype, x=["n", "c", "h", "w"], g=["c"], b=["c"]), call, [
            same(name, [x, g, b], group_norm_of(x, g, b, 2, 1, [2, 3])),
            same(name, [x[:, :2, :1, :1], g[:2], b[:2]], group_norm_of(x[:, :2, :1, :1], g[:2], b[:2], 2, 1, [2, 3])),
            run(name, [x[:0], g, b], x[:0]), run(name, [x[:, :0], g[:0], b[:0]], x[:, :0]), run(name, [x[..., :0], g, b], x[..., :0]),
            trap("group_norm/C4", name, [x[:, :3], g[:3], b[:3]]),
        ], tensor(["n", "c", "h", "w"], dtype))
    x, g, b = random(rng, "f32", 2, 2, 6), random(rng, "f32", 6), random(rng, "f32", 6)
    last = params("f32", x=["n", "h", 6], g=[6], b=[6])
    f.function("channels_last", last, "group_norm(x, g, b, 3, -1, [-2], 1e-3)",
               [run("channels_last", [x, g, b], group_norm_of(x, g, b, 3, 2, [1], 1e-3))])
    f.function("channels_first", params("f32", x=["c", "h", "w"], g=["c"], b=["c"]), "group_norm(x, g, b, 1, 0, [2])",
               [run("channels_first", [x, g[:2], b[:2]], group_norm_of(x, g[:2], b[:2], 1, 0, [2]))])
    f.function("no_other_axes", last, "group_norm(x, g, b, 2, 2, [])", [run("no_other_axes", [x, g, b], group_norm_of(x, g, b, 2, 2, []))])
    f.function("not_scaled", last, "group_norm(x, g, b, 2, 2, [1], scale=False)", [run("not_scaled", [x, g, b], group_norm_of(x, g, b, 2, 2, [1], scale=False))])
    f.function("not_centered", last, "group_norm(x, g, b, 6, 2, [1], center=False)", [run("not_centered", [x, g, b], group_norm_of(x, g, b, 6, 2, [1], center=False))])
    f.function("of_objects", [("x", "Object"), ("g", "Object"), ("b", "Object")], "group_norm(x, g, b, 2, 1, [2])", [
        trap("group_norm/C1", "of_objects", [x, g[:2].astype(np.float64), b[:2]]),
        trap("group_norm/C2", "of_objects", [x[0], g, b]),
        trap("group_norm/C3", "of_objects", [x, g, b[:2]]),
    ])
    f.refused("dtypes_differ", params("f32", x=["n", 6], g=[6]) + params("f16", b=[6]), "group_norm(x, g, b, 2, 1, [0])", "RX0501")
    f.refused("axis_out_of_range", params("f32", x=["n", 6], g=[6], b=[6]), "group_norm(x, g, b, 2, 1, [2])", "RX0501")
    f.refused("channel_axis_among_axes", params("f32", x=["n", 6], g=[6], b=[6]), "group_norm(x, g, b, 2, 1, [-1])", "RX0501")
    f.refused("sizes_differ", params("f32", x=["n", 6], g=[5], b=[6]), "group_norm(x, g, b, 2, 1, [0])", "RX0501")
    f.refused("groups_do_not_divide", params("f32", x=["n", 6], g=[6], b=[6]), "group_norm(x, g, b, 4, 1, [0])", "RX0501")
    f.refused("no_groups", params("f32", x=["n", 6], g=[6], b=[6]), "group_norm(x, g, b, 0, 1, [0])", "RX0501")
    f.refused("negative_groups", params("f32", x=["n", 6], g=[6], b=[6]), "group_norm(x, g, b, -2, 1, [0])", "RX0501")
    f.write()


def instance_norm_of(x, gamma, beta, channel, axes, epsilon=1e-5, center=True, scale=True):
    dtype = DTYPES_BACK[x.dtype]
    result = normalized(x.astype(np.float64), axes, epsilon)
    if scale:
        result = result * along(gamma.astype(np.float64), [channel], x.ndim)
    if center:
        result = result + along(beta.astype(np.float64), [channel], x.ndim)
    return round_to(dtype, result)


def instance_norm():
    f = OpFile("instance_norm", "Normalization of each channel of each sample.")
    rng = np.random.default_rng(6)
    for dtype in FLOATS:
        same = run if dtype != "f64" else approx
        x, g, b = random(rng, dtype, 2, 3, 2, 2), random(rng, dtype, 3), random(rng, dtype, 3)
        name = f"{dtype}_images"
        f.function(name, params(dtype, x=["n", "c", "h", "w"], g=["c"], b=["c"]), "instance_norm(x, g, b, channel_axis=1, axes=[2, 3])", [
            same(name, [x, g, b], instance_norm_of(x, g, b, 1, [2, 3])),
            run(name, [x[:0], g, b], x[:0]), run(name, [x[:, :0], g[:0], b[:0]], x[:, :0]),
        ], tensor(["n", "c", "h", "w"], dtype))
    x, g, b = random(rng, "f32", 2, 5, 3), random(rng, "f32", 3), random(rng, "f32", 3)
    last = params("f32", x=["n", "w", "c"], g=["c"], b=["c"])
    f.function("channels_last", last, "instance_norm(x, g, b, -1, [1], 0.5)", [run("channels_last", [x, g, b], instance_norm_of(x, g, b, 2, [1], 0.5))])
    f.function("neither", last, "instance_norm(x, g, b, 2, 1, center=False, scale=False)",
               [run("neither", [x, g, b], instance_norm_of(x, g, b, 2, [1], center=False, scale=False))])
    f.function("of_objects", [("x", "Object"), ("g", "Object"), ("b", "Object")], "instance_norm(x, g, b, 1, [2])", [
        trap("instance_norm/C1", "of_objects", [x, g, b.astype(np.float64)]),
        trap("instance_norm/C2", "of_objects", [x[0], g, b]),
        trap("instance_norm/C3", "of_objects", [x, g, b]),
    ])
    f.refused("of_integers", params("i32", x=["n", 3], g=[3], b=[3]), "instance_norm(x, g, b, 1, [0])", "RX0501")
    f.refused("channel_axis_among_axes", params("f32", x=["n", 3], g=[3], b=[3]), "instance_norm(x, g, b, 1, [0, 1])", "RX0501")
    f.refused("sizes_differ", params("f32", x=["n", 3], g=[3], b=[2]), "instance_norm(x, g, b, 1, [0])", "RX0501")
    f.write()


def batch_norm_of(x, gamma, beta, mean, variance, axis, epsilon=1e-5, center=True, scale=True, momentum=0.1, training=True):
    dtype = DTYPES_BACK[x.dtype]
    wide, old_mean, old_variance = (a.astype(np.float64) for a in (x, mean, variance))
    axis %= x.ndim
    others = [a for a in range(x.ndim) if a != axis]
    with np.errstate(all="ignore"):
        if training:
            new_mean = mean_over(wide, others)
            new_variance = mean_over((wide - new_mean) ** 2, others)
        else:
            new_mean, new_variance = along(old_mean, [axis], x.ndim), along(old_variance, [axis], x.ndim)
        result = (wide - new_mean) / np.sqrt(new_variance + epsilon)
    if scale:
        result = result * along(gamma.astype(np.float64), [axis], x.ndim)
    if center:
        result = result + along(beta.astype(np.float64), [axis], x.ndim)
    if not training:
        return round_to(dtype, result), mean, variance
    mixed = [(1 - momentum) * old + momentum * new.reshape(-1) for old, new in [(old_mean, new_mean), (old_variance, new_variance)]]
    return round_to(dtype, result), round_to(dtype, mixed[0]), round_to(dtype, mixed[1])


def batch_norm():
    f = OpFile("batch_norm", "Normalization of each channel over the batch, with running statistics.")
    rng = np.random.default_rng(7)
    for dtype in FLOATS:
        same = run if dtype != "f64" else approx
        x = random(rng, dtype, 2, 3, 2, 2)
        rest = [random(rng, dtype, 3) for _ in range(3)] + [round_to(dtype, rng.random(3) + 0.5)]
        image = params(dtype, x=["n", "c", "h", "w"], g=["c"], b=["c"], m=["c"], v=["c"])
        result = f"Tuple[{tensor(['n', 'c', 'h', 'w'], dtype)}, {tensor(['c'], dtype)}, {tensor(['c'], dtype)}]"
        few = [a[:0] for a in rest]
        for name, extra, training in [("training", "", True), ("inference", ", training=False", False)]:
            name = f"{dtype}_{name}"
            f.function(name, image, f"batch_norm(x, g, b, m, v, axis=1{extra})", [
                same(name, [x, *rest], batch_norm_of(x, *rest, 1, training=training)),
                same(name, [x[:1, :1, :1, :1], *[a[:1] for a in rest]], batch_norm_of(x[:1, :1, :1, :1], *[a[:1] for a in rest], 1, training=training)),
                run(name, [x[:, :0], *few], (x[:, :0], few[2], few[3])),
            ], result)
    x, rest = random(rng, "f32", 4, 3), [random(rng, "f32", 3) for _ in range(3)] + [np.array([0.5, 1, 2], np.float32)]
    matrix = params("f32", x=["n", "c"], g=["c"], b=["c"], m=["c"], v=["c"])
    f.function("last_axis", matrix, "batch_norm(x, g, b, m, v, -1, 1e-3, momentum=0.75)", [
        run("last_axis", [x, *rest], batch_norm_of(x, *rest, -1, 1e-3, momentum=0.75)),
        run("last_axis", [x[:0], *rest], (x[:0], np.full(3, np.nan, np.float32), np.full(3, np.nan, np.float32))),
    ])
    f.function("neither", matrix, "batch_norm(x, g, b, m, v, 1, center=False, scale=False)[0]",
               [run("neither", [x, *rest], batch_norm_of(x, *rest, 1, center=False, scale=False)[0])])
    objects = [(name, "Object") for name in "xgbmv"]
    f.function("of_objects", objects, "batch_norm(x, g, b, m, v, axis=1)", [
        trap("batch_norm/C1", "of_objects", [x, *rest[:3], rest[3].astype(np.float64)]),
        trap("batch_norm/C2", "of_objects", [x[0], *rest]),
        trap("batch_norm/C3", "of_objects", [x, *rest[:3], rest[3][:2]]),
    ])
    static = params("f32", x=["n", 3], g=[3], b=[3], m=[3], v=[3])
    f.refused("of_integers", params("i32", x=["n", 3], g=[3], b=[3], m=[3], v=[3]), "batch_norm(x, g, b, m, v, 1)", "RX0501")
    f.refused("axis_out_of_range", static, "batch_norm(x, g, b, m, v, 2)", "RX0501")
    f.refused("sizes_differ", params("f32", x=["n", 3], g=[3], b=[3], m=[4], v=[3]), "batch_norm(x, g, b, m, v, 1)", "RX0501")
    f.refused("momentum_too_large", static, "batch_norm(x, g, b, m, v, 1, momentum=1.5)", "RX0501")
    f.refused("no_axis", static, "batch_norm(x, g, b, m, v)", "RX0503")
    f.write()


def main():
    layer_norm()
    rms_norm()
    group_norm()
    instance_norm()
    batch_norm()


if __name__ == "__main__":
    main()
