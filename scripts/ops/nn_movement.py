"""Padding, pixel shuffle, batch flatten and the losses: expectations from NumPy."""

import math

import numpy as np

from rxgen import DTYPES, FLOATS, INTS, OpFile, approx, round_to, run, tensor, trap

MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def numbers(dtype, *shape):
    values = np.arange(math.prod(shape)).reshape(shape)
    return (values % 2 == 0) if dtype == "bool" else values.astype(DTYPES[dtype])


def pad():
    f = OpFile("pad", "Elements added around the data.")
    for dtype in FLOATS + INTS + ["bool"]:
        x = numbers(dtype, 2, 3)
        name = f"{dtype}_constant"
        f.function(name, [("x", tensor(["n", "m"], dtype))], "pad(x, [1, 0, 2, 1], pad_value=7)", [
            run(name, [a], np.pad(a, [(1, 0), (2, 1)], constant_values=7)) for a in (x, x[:1, :1], x[:0], x[:, :0], x[:0, :0])
        ], tensor(["n + 1", "m + 3"], dtype))
    x = np.array([[1, np.nan, -0.0], [np.inf, 5, 6]], np.float32)
    for mode, numpy_mode in MODES.items():
        extra = {"constant_values": -1.5} if mode == "constant" else {}
        want = np.pad(x, [(1, 1), (2, 0)], mode=numpy_mode, **extra)
        wide = {"constant": 1, "reflect": 2, "replicate": 1, "circular": 3}[mode]
        cases = [run(f"mode_{mode}", [x], want)]
        if mode == "replicate":
            cases.append(run(f"mode_{mode}", [x[:1, :1]], np.pad(x[:1, :1], [(1, 1), (2, 0)], mode="edge")))
            cases.append(trap("pad/C4", f"mode_{mode}", [x[:, :0]]))
        if mode in ("reflect", "circular"):
            cases.append(trap("pad/C4", f"mode_{mode}", [x[:, :2 if mode == "reflect" else 1]]))
        f.function(f"mode_{mode}", [("x", tensor(["n", "m"], "f32"))], f'pad(x, [1, 1, 2, 0], "{mode}", -1.5)', cases, tensor(["n + 2", "m + 2"], "f32"))
        v = np.array([1, 2, 3], np.int64)
        f.function(f"far_{mode}", [("x", tensor([3], "i64"))], f'pad(x, pad_width=[{wide}, {wide}], pad_mode="{mode}")',
                   [run(f"far_{mode}", [v], np.pad(v, wide, mode=numpy_mode))], tensor([3 + 2 * wide], "i64"))
        f.function(f"nothing_{mode}", [("x", tensor(["n"], "i64"))], f'pad(x, [0, 0], "{mode}")',
                   [run(f"nothing_{mode}", [v], v), run(f"nothing_{mode}", [v[:0]], v[:0])], tensor(["n"], "i64"))
    big = np.array([2**63 - 1, -2**63, 0], np.int64)
    f.function("value_is_converted", [("x", tensor(["n"], "i64"))], "pad(x, [1, 1], pad_value=-2.75)", [run("value_is_converted", [big], np.pad(big, 1, constant_values=-2))])
    small = np.array([1, 2], np.uint8)
    f.function("value_saturates", [("x", tensor(["n"], "u8"))], "pad(x, [1, 0], pad_value=300.0)", [run("value_saturates", [small], np.array([255, 1, 2], np.uint8))])
    f.function("value_infinite", [("x", tensor(["n"], "f16"))], "pad(x, [0, 1], pad_value=1e9)", [run("value_infinite", [np.array([1], np.float16)], np.array([1, np.inf], np.float16))])
    f.function("of_scalar", [("x", tensor([], "f32"))], "pad(x, [])", [run("of_scalar", [np.float32(3)], np.float32(3))], tensor([], "f32"))
    f.function("of_any_rank", [("x", 'Tensor(dtype="f32")')], "pad(x, [0, 1])", [
        run("of_any_rank", [x[0]], np.pad(x[0], (0, 1))), trap("pad/C1", "of_any_rank", [x]),
    ], 'Tensor(ndim=1, dtype="f32")')
    f.refused("too_few_widths", [("x", tensor(["n", 3], "f32"))], "pad(x, [1, 1])", "RX0501")
    f.refused("odd_widths", [("x", 'Tensor(dtype="f32")')], "pad(x, [1, 1, 1])", "RX0501")
    f.refused("negative_width", [("x", tensor(["n"], "f32"))], "pad(x, [1, -1])", "RX0501")
    f.refused("width_beyond_i64", [("x", tensor([3], "f32"))], "pad(x, [9223372036854775807, 0])", "RX0501")
    f.refused("unknown_mode", [("x", tensor(["n"], "f32"))], 'pad(x, [1, 1], "symmetric")', "RX0501")
    f.refused("reflect_too_far", [("x", tensor([3], "f32"))], 'pad(x, [3, 0], "reflect")', "RX0501")
    f.refused("circular_too_far", [("x", tensor([3], "f32"))], 'pad(x, [0, 4], "circular")', "RX0501")
    f.refused("replicate_nothing", [("x", tensor([0], "f32"))], 'pad(x, [0, 4], "replicate")', "RX0501")
    f.refused("mode_as_number", [("x", tensor([3], "f32"))], "pad(x, [1, 1], 0)", "RX0502")
    f.write()


def shuffled(x, r):
    *batch, c, h, w = x.shape
    return np.moveaxis(x.reshape(*batch, c // (r * r), r, r, h, w), [-4, -3], [-3, -1]).reshape(*batch, c // (r * r), h * r, w * r)


def pixel_shuffle():
    f = OpFile("pixel_shuffle", "Channels become pixels.")
    for dtype in FLOATS + INTS + ["bool"]:
        x = numbers(dtype, 1, 8, 2, 3)
        name = f"{dtype}_images"
        f.function(name, [("x", tensor(["n", "c", "h", "w"], dtype))], "pixel_shuffle(x, 2)", [
            run(name, [a], shuffled(a, 2)) for a in (x, x[:, :4, :1, :1], x[:0], x[:, :0], x[..., :0])
        ] + [trap("pixel_shuffle/C3", name, [x[:, :5]])], tensor(["n", "c // 4", "h * 2", "w * 2"], dtype))
    x = numbers("f32", 2, 1, 9, 1, 2)
    f.function("two_batch_dims", [("x", tensor(["a", "b", 9, "h", "w"], "f32"))], "pixel_shuffle(x, upscale_factor=3)",
               [run("two_batch_dims", [x], shuffled(x, 3))], tensor(["a", "b", 1, "3 * h", "3 * w"], "f32"))
    f.function("no_batch", [("x", tensor(["c", "h", "w"], "f32"))], "pixel_shuffle(x, 1)", [run("no_batch", [x[0, 0]], x[0, 0])])
    f.function("of_object", [("x", "Object")], "pixel_shuffle(x, 3)", [run("of_object", [x[0]], shuffled(x[0], 3)), trap("pixel_shuffle/C1", "of_object", [x[0, 0, 0]])])
    f.refused("of_matrix", [("x", tensor([4, "n"], "f32"))], "pixel_shuffle(x, 2)", "RX0501")
    f.refused("factor_zero", [("x", tensor([4, "h", "w"], "f32"))], "pixel_shuffle(x, 0)", "RX0501")
    f.refused("factor_huge", [("x", tensor([4, "h", "w"], "f32"))], "pixel_shuffle(x, 9223372036854775807)", "RX0501")
    f.refused("channels_do_not_divide", [("x", tensor([6, "h", "w"], "f32"))], "pixel_shuffle(x, 2)", "RX0501")
    f.write()


def batch_flatten():
    f = OpFile("batch_flatten", "A matrix with a row a sample.")
    for dtype in FLOATS + INTS + ["bool"]:
        x = numbers(dtype, 2, 3, 2)
        name = f"{dtype}_samples"
        f.function(name, [("x", tensor(["n", "c", "w"], dtype))], "batch_flatten(x)", [
            run(name, [x], x.reshape(2, 6)), run(name, [x[:0]], x.reshape(2, 6)[:0]), run(name, [x[:, :0]], x.reshape(2, 6)[:, :0]),
        ], tensor(["n", "c * w"], dtype))
    x = numbers("i32", 2, 2, 1, 3)
    f.function("matrix_stays", [("x", tensor(["n", 3], "i32"))], "batch_flatten(x)", [run("matrix_stays", [x[0, :, 0]], x[0, :, 0])], tensor(["n", 3], "i32"))
    f.function("of_rank_4", [("x", 'Tensor(ndim=4, dtype="i32")')], "batch_flatten(x)", [run("of_rank_4", [x], x.reshape(2, 6))], 'Tensor(ndim=2, dtype="i32")')
    f.function("of_object", [("x", "Object")], "batch_flatten(x)", [run("of_object", [x], x.reshape(2, 6)), trap("batch_flatten/C1", "of_object", [x[0, 0, 0]])])
    f.refused("of_vector", [("x", tensor(["n"], "f32"))], "batch_flatten(x)", "RX0501")
    f.write()


def cross_entropy():
    f = OpFile("cross_entropy_with_logits", "-sum(predictions * labels), over the batch size.")
    rng = np.random.default_rng(8)

    def loss(p, y):
        dtype = {np.dtype(v): k for k, v in DTYPES.items()}[p.dtype]
        total = math.fsum((p.astype(np.float64) * y.astype(np.float64)).ravel())
        return round_to(dtype, np.float64(-total / (p.shape[0] if p.ndim > 1 else 1)))
    for dtype in FLOATS:
        same = run if dtype != "f64" else approx
        p, y = round_to(dtype, rng.standard_normal((3, 4))), round_to(dtype, rng.random((3, 4)))
        name = f"{dtype}_batch"
        f.function(name, [("p", tensor(["n", "c"], dtype)), ("y", tensor(["n", "c"], dtype))], "cross_entropy_with_logits(p, y)", [
            same(name, [p, y], loss(p, y)), same(name, [p[:1, :1], y[:1, :1]], loss(p[:1, :1], y[:1, :1])),
            run(name, [p[:, :0], y[:, :0]], round_to(dtype, np.float64(-0.0))), run(name, [p[:0], y[:0]], round_to(dtype, np.float64(np.nan))),
        ], tensor([], dtype))
    p, y = rng.standard_normal(5).astype(np.float32), rng.random(5).astype(np.float32)
    f.function("vectors", [("p", tensor(["c"], "f32")), ("y", tensor(["k"], "f32"))], "cross_entropy_with_logits(p, labels=y)", [
        run("vectors", [p, y], loss(p, y)), trap("cross_entropy_with_logits/C2", "vectors", [p, y[:4]]),
    ])
    f.function("of_objects", [("p", "Object"), ("y", "Object")], "cross_entropy_with_logits(p, y)", [
        trap("cross_entropy_with_logits/C1", "of_objects", [p, y.astype(np.float16)]), trap("cross_entropy_with_logits/C2", "of_objects", [p.reshape(1, 5), y]),
    ], "Tensor(())")
    f.refused("of_integers", [("p", tensor(["n"], "i32")), ("y", tensor(["n"], "i32"))], "cross_entropy_with_logits(p, y)", "RX0501")
    f.refused("shapes_differ", [("p", tensor(["n", 3], "f32")), ("y", tensor(["n", 4], "f32"))], "cross_entropy_with_logits(p, y)", "RX0501")
    f.refused("ranks_differ", [("p", tensor(["n", 3], "f32")), ("y", tensor(["n"], "f32"))], "cross_entropy_with_logits(p, y)", "RX0501")
    f.write()


def nll(p, t, w=None, reduction="mean", ignored=-100):
    """An independent loop over samples; the class axis is 1, or the only one."""
    dtype = {np.dtype(v): k for k, v in DTYPES.items()}[p.dtype]
    classes = p.reshape(1, -1) if p.ndim == 1 else p
    targets = np.asarray(t).reshape(1) if p.ndim == 1 else t
    losses, weights = np.zeros(targets.shape), []
    for index in np.ndindex(*targets.shape):
        c = int(targets[index])
        if c != ignored:
            weight = 1.0 if w is None else float(w[c])
            losses[index] = -float(classes[(index[0], c, *index[1:])]) * weight
            weights.append(weight)
    if reduction == "none":
        return round_to(dtype, losses.reshape(np.shape(t)))
    total = math.fsum(losses.ravel())
    with np.errstate(all="ignore"):
        return round_to(dtype, np.float64(total) / math.fsum(weights) if reduction == "mean" else np.float64(total))


def nll_loss():
    f = OpFile("nll_loss", "Negative log likelihood of the target classes.")
    rng = np.random.default_rng(9)
    for dtype in FLOATS:
        same = run if dtype != "f64" else approx
        p, w = round_to(dtype, rng.standard_normal((3, 4))), round_to(dtype, rng.random(4))
        t = np.array([2, 0, 3], np.int64)
        args = [("p", tensor(["n", "c"], dtype)), ("t", tensor(["n"], "i64")), ("w", tensor(["c"], dtype))]
        for reduction in ["mean", "sum", "none"]:
            name = f"{dtype}_{reduction}"
            cases = [same(name, [p, t, w], nll(p, t, w, reduction)), same(name, [p[:1], t[:1], w], nll(p[:1], t[:1], w, reduction))]
            cases.append(trap("nll_loss/C6", name, [p, np.array([0, 4, 1]), w]))
            cases.append(trap("nll_loss/C6", name, [p, np.array([0, -1, 1]), w]))
            f.function(name, args, f'nll_loss(p, t, w, "{reduction}")', cases, tensor(["n"] if reduction == "none" else [], dtype))
        f.function(f"{dtype}_unweighted", args[:2], "nll_loss(p, t)", [same(f"{dtype}_unweighted", [p, t], nll(p, t))])
    p, w = rng.standard_normal((2, 3, 2, 2)).astype(np.float32), np.array([0.5, 1, 2], np.float32)
    for dtype in INTS:
        t = np.array([[[0, 1], [2, 2]], [[1, 0], [0, 2]]], DTYPES[dtype])
        name = f"pixels_{dtype}"
        f.function(name, [("p", tensor(["n", "c", "h", "k"], "f32")), ("t", tensor(["n", "h", "k"], dtype)), ("w", tensor(["c"], "f32"))],
                   "nll_loss(p, t, weights=w, ignore_index=1)", [run(name, [p, t, w], nll(p, t, w, ignored=1))])
    each = [("p", tensor(["n", 3, "h", "k"], "f32")), ("t", tensor(["n", "h", "k"], "i64"))]
    t = np.array([[[0, -100], [2, 2]], [[1, -100], [0, 2]]])
    f.function("pixels_each", each, 'nll_loss(p, t, reduction="none")',
               [run("pixels_each", [p, t], nll(p, t, reduction="none")), run("pixels_each", [p[:0], t[:0]], np.zeros((0, 2, 2), np.float32))], tensor(["n", "h", "k"], "f32"))
    f.function("all_ignored", each, "nll_loss(p, t)", [run("all_ignored", [p, np.full((2, 2, 2), -100)], np.float32(np.nan)), run("all_ignored", [p[:0], t[:0]], np.float32(np.nan))])
    f.function("one_sample", [("p", tensor(["c"], "f32")), ("t", tensor([], "i32"))], 'nll_loss(p, t, reduction="none")', [
        run("one_sample", [p[0, :, 0, 0], np.int32(2)], nll(p[0, :, 0, 0], np.int32(2), reduction="none")), trap("nll_loss/C6", "one_sample", [p[0, :, 0, 0], np.int32(3)]),
    ], tensor([], "f32"))
    f.function("of_objects", [("p", "Object"), ("t", "Object"), ("w", "Object")], "nll_loss(p, t, w)", [
        trap("nll_loss/C1", "of_objects", [p, t, w.astype(np.float64)]), trap("nll_loss/C2", "of_objects", [p, p[:, 0], w]),
        trap("nll_loss/C3", "of_objects", [p, t[:1], w]), trap("nll_loss/C3", "of_objects", [p[0, 0, 0, 0], t, w]), trap("nll_loss/C4", "of_objects", [p, t, w[:2]]),
    ])
    pair = [("p", tensor(["n", 3], "f32")), ("t", tensor(["n"], "i64"))]
    f.refused("targets_as_floats", [("p", tensor(["n", 3], "f32")), ("t", tensor(["n"], "f32"))], "nll_loss(p, t)", "RX0501")
    f.refused("targets_as_bools", [("p", tensor(["n", 3], "f32")), ("t", tensor(["n"], "bool"))], "nll_loss(p, t)", "RX0501")
    f.refused("ranks_differ", [("p", tensor(["n", 3], "f32")), ("t", tensor(["n", 3], "i64"))], "nll_loss(p, t)", "RX0501")
    f.refused("weights_differ", [*pair, ("w", tensor([2], "f32"))], "nll_loss(p, t, w)", "RX0501")
    f.refused("unknown_reduction", pair, 'nll_loss(p, t, reduction="max")', "RX0501")
    f.refused("predictions_as_integers", [("p", tensor(["n", 3], "i32")), ("t", tensor(["n"], "i64"))], "nll_loss(p, t)", "RX0501")
    f.write()


def main():
    pad()
    pixel_shuffle()
    batch_flatten()
    cross_entropy()
    nll_loss()


if __name__ == "__main__":
    main()
