"""Attention: expectations from NumPy in f64, row by row with exact sums, rounded once."""

import math

import numpy as np

from rxgen import DTYPES, FLOATS, OpFile, approx, round_to, run, tensor, trap

NAMES = {np.dtype(v): k for k, v in DTYPES.items()}


def total(terms):
    terms = [float(t) for t in terms]
    return math.fsum(terms) if all(map(math.isfinite, terms)) else float(np.sum(terms))


def attention_of(query, key, value, bias=None, scale=None, causal_mask=None, window_size=None):
    b, s, h, d = query.shape
    t = key.shape[1]
    dtype = NAMES[query.dtype]
    query, key, value = (a.astype(np.float64) for a in (query, key, value))
    key, value = np.repeat(key, h // max(key.shape[2], 1), 2), np.repeat(value, h // max(value.shape[2], 1), 2)
    scale = scale if scale is not None else 1 / math.sqrt(d) if d else math.inf
    offset = {None: t, "TopLeft": 0, "BottomRight": abs(s - t)}[causal_mask]
    result = np.empty((b, s, h, value.shape[3]))
    with np.errstate(all="ignore"):
        for n, i, head in np.ndindex(b, s, h):
            scores = np.array([total(query[n, i, head] * key[n, j, head]) * scale for j in range(t)])
            if bias is not None:
                scores = scores + np.broadcast_to(bias.astype(np.float64), (b, h, s, t))[n, head, i]
            for j in range(t):
                if causal_mask and (j > i + offset or window_size and j <= i + offset - window_size):
                    scores[j] = -np.inf
            powers = np.exp(scores - scores.max()) if t else scores
            weights = powers / total(powers) if t else powers
            for e in range(value.shape[3]):
                result[n, i, head, e] = total(weights * value[n, :, head, e])
    return round_to(dtype, result)


def random(rng, dtype, *shape):
    return round_to(dtype, rng.standard_normal(shape))


def operands(dtype, *shapes):
    return [(name, tensor(shape, dtype)) for name, shape in zip(["q", "k", "v", "bias"], shapes)]


def attention():
    op = "attention"
    f, rng = OpFile(op, "Scaled dot-product attention."), np.random.default_rng(40)
    symbolic = (["b", "s", "h", "d"], ["b", "t", "h", "d"], ["b", "t", "h", "e"])
    for dtype in FLOATS:
        same = run if dtype != "f64" else approx
        q, k, v = random(rng, dtype, 2, 3, 2, 4), random(rng, dtype, 2, 5, 2, 4), random(rng, dtype, 2, 5, 2, 3)
        name = f"{dtype}_plain"
        small = [q[:1, :1, :1, :1], k[:1, :1, :1, :1], v[:1, :1, :1, :1]]
        f.function(name, operands(dtype, *symbolic), f"{op}(q, k, v)", [
            same(name, [q, k, v], attention_of(q, k, v)), same(name, small, attention_of(*small)),
            run(name, [q[:0], k[:0], v[:0]], np.zeros((0, 3, 2, 3), DTYPES[dtype])), run(name, [q[:, :0], k, v], np.zeros((2, 0, 2, 3), DTYPES[dtype])),
            run(name, [q, k[:, :0], v[:, :0]], np.zeros((2, 3, 2, 3), DTYPES[dtype])), run(name, [q[:, :, :0], k[:, :, :0], v[:, :, :0]], np.zeros((2, 3, 0, 3), DTYPES[dtype])),
            run(name, [q, k, v[..., :0]], np.zeros((2, 3, 2, 0), DTYPES[dtype])),
        ], tensor(["b", "s", "h", "e"], dtype))
        bias = random(rng, dtype, 2, 2, 3, 5)
        f.function(f"{dtype}_biased", operands(dtype, *symbolic, ["b", "h", "s", "t"]), f"{op}(q, k, v, bias)", [same(f"{dtype}_biased", [q, k, v, bias], attention_of(q, k, v, bias))])
    q, k, v = random(rng, "f32", 2, 3, 2, 4), random(rng, "f32", 2, 5, 2, 4), random(rng, "f32", 2, 5, 2, 3)
    bias = random(rng, "f32", 2, 2, 3, 5)
    for name, cut in {"bias_of_one_head": bias[:, :1], "bias_of_one_batch": bias[:1], "bias_of_one_row": bias[:, :, :1], "bias_of_keys": bias[:1, :1, :1]}.items():
        shape = [1 if n == 1 else letter for n, letter in zip(cut.shape, "bhst")]
        f.function(name, operands("f32", *symbolic, shape), f"{op}(q, k, v, bias=bias)", [run(name, [q, k, v, cut], attention_of(q, k, v, cut))], tensor(["b", "s", "h", "e"], "f32"))
    f.function("scaled", operands("f32", *symbolic), f"{op}(q, k, v, scale=0.3)", [run("scaled", [q, k, v], attention_of(q, k, v, scale=0.3))])
    for mask in ["TopLeft", "BottomRight"]:
        name = mask.lower()
        f.function(name, operands("f32", *symbolic), f'{op}(q, k, v, causal_mask="{mask}")', [
            run(name, [q, k, v], attention_of(q, k, v, causal_mask=mask)), run(name, [q, k[:, :3], v[:, :3]], attention_of(q, k[:, :3], v[:, :3], causal_mask=mask)),
            run(name, [q, k[:, :2], v[:, :2]], attention_of(q, k[:, :2], v[:, :2], causal_mask=mask)),
        ])
        for window in [1, 2, 9]:
            name = f"{mask.lower()}_window_{window}"
            f.function(name, operands("f32", *symbolic), f'{op}(q, k, v, None, None, "{mask}", {window})', [run(name, [q, k, v], attention_of(q, k, v, causal_mask=mask, window_size=window))])
    # Row 2 sees column 2 on, of which there is none.
    f.function("row_sees_nothing", operands("f32", *symbolic), f'{op}(q, k, v, causal_mask="TopLeft", window_size=1)',
               [run("row_sees_nothing", [q, k[:, :2], v[:, :2]], attention_of(q, k[:, :2], v[:, :2], causal_mask="TopLeft", window_size=1))])
    hidden = bias.copy()
    hidden[0, 0, 0], hidden[0, 1, 1, :4], hidden[1, 0, 2, 0] = -np.inf, -np.inf, np.nan
    f.function("bias_of_infinities", operands("f32", *symbolic, ["b", "h", "s", "t"]), f"{op}(q, k, v, bias)", [run("bias_of_infinities", [q, k, v, hidden], attention_of(q, k, v, hidden))])
    q6 = random(rng, "f32", 1, 2, 6, 3)
    for name, keys, values in [("grouped_queries", 2, 2), ("one_key_head", 1, 1), ("values_shared_more", 3, 1)]:
        kk, vv = random(rng, "f32", 1, 3, keys, 3), random(rng, "f32", 1, 3, values, 2)
        f.function(name, operands("f32", ["b", "s", 6, "d"], ["b", "t", keys, "d"], ["b", "t", values, "e"]), f"{op}(q, k, v)", [run(name, [q6, kk, vv], attention_of(q6, kk, vv))], tensor(["b", "s", 6, "e"], "f32"))
    free = ([f"q{i}" for i in range(4)], [f"k{i}" for i in range(4)], [f"v{i}" for i in range(4)], [f"b{i}" for i in range(4)])
    f.function("dims_may_fit", operands("f32", *free), f"{op}(q, k, v, bias)", [
        run("dims_may_fit", [q, k, v, bias], attention_of(q, k, v, bias)), run("dims_may_fit", [q, k, v, bias[:1, :, :1]], attention_of(q, k, v, bias[:1, :, :1])),
        trap(f"{op}/C3", "dims_may_fit", [q, k[:1], v, bias]), trap(f"{op}/C3", "dims_may_fit", [q, k, v[:1], bias]), trap(f"{op}/C4", "dims_may_fit", [q, k, v[:, :2], bias]),
        trap(f"{op}/C5", "dims_may_fit", [q, k[..., :2], v, bias]), trap(f"{op}/C6", "dims_may_fit", [q[:, :, :1], k, v, bias[:, :1]]), trap(f"{op}/C6", "dims_may_fit", [q, k[:, :, :0], v, bias]),
        trap(f"{op}/C7", "dims_may_fit", [q, k, v, bias[:, :, :2]]), trap(f"{op}/C7", "dims_may_fit", [q, k, v, bias[..., :1]]), trap(f"{op}/C7", "dims_may_fit", [q, k, v, bias[:0]]),
    ])
    f.function("of_objects", [(name, "Object") for name in "qkv"], f"{op}(q, k, v)", [
        run("of_objects", [q, k, v], attention_of(q, k, v)), trap(f"{op}/C1", "of_objects", [q, k, v.astype(np.float64)]), trap(f"{op}/C2", "of_objects", [q, k[0], v]),
    ], "Tensor(ndim=4)")
    shapes = ([2, 3, 4, 8], [2, 5, 4, 8], [2, 5, 4, 8])
    f.refused("dtypes_differ", [*operands("f32", *shapes[:2]), ("v", tensor(shapes[2], "f16"))], f"{op}(q, k, v)", "RX0501")
    f.refused("of_integers", operands("i32", *shapes), f"{op}(q, k, v)", "RX0501")
    f.refused("bias_of_other_dtype", [*operands("f16", *shapes), ("bias", tensor([2, 4, 3, 5], "f32"))], f"{op}(q, k, v, bias)", "RX0501")
    wrong = {
        "of_rank_3": (shapes[0][1:], shapes[1], shapes[2]), "batches_differ": (shapes[0], [1, 5, 4, 8], shapes[2]), "lengths_differ": (shapes[0], shapes[1], [2, 6, 4, 8]),
        "head_dims_differ": (shapes[0], [2, 5, 4, 7], shapes[2]), "heads_do_not_divide": (shapes[0], [2, 5, 3, 8], shapes[2]), "value_heads_do_not_divide": (shapes[0], shapes[1], [2, 5, 8, 8]),
    }
    for name, bad in wrong.items():
        f.refused(name, operands("f32", *bad), f"{op}(q, k, v)", "RX0501")
    for name, bad in {"bias_of_rank_2": [3, 5], "bias_of_other_rows": [2, 4, 2, 5], "bias_of_other_keys": [2, 4, 3, 1]}.items():
        f.refused(name, operands("f32", *shapes, bad), f"{op}(q, k, v, bias)", "RX0501")
    for name, extra in {"unknown_mask": 'causal_mask="BottomLeft"', "window_without_mask": "window_size=2", "window_zero": 'causal_mask="TopLeft", window_size=0'}.items():
        f.refused(name, operands("f32", *shapes), f"{op}(q, k, v, {extra})", "RX0501")
    f.refused("scale_as_text", operands("f32", *shapes), f'{op}(q, k, v, scale="0.5")', "RX0502")
    f.refused("no_value", operands("f32", *shapes), f"{op}(q, k)", "RX0503")
    f.write()


def attention_bias():
    """The same row under TVM's other name: a few cases are enough."""
    op = "attention_bias"
    f, rng = OpFile(op, "Attention with a bias, under the name that TVM prints."), np.random.default_rng(41)
    q, k, v = random(rng, "f32", 1, 2, 2, 3), random(rng, "f32", 1, 3, 2, 3), random(rng, "f32", 1, 3, 2, 2)
    bias = random(rng, "f32", 1, 1, 2, 3)
    shapes = (["b", "s", "h", "d"], ["b", "t", "h", "d"], ["b", "t", "h", "e"], ["b", 1, "s", "t"])
    f.function("biased", operands("f32", *shapes), f"{op}(q, k, v, bias)", [
        run("biased", [q, k, v, bias], attention_of(q, k, v, bias)), trap(f"{op}/C7", "biased_freely", [q, k, v, bias[..., :2]]),
    ], tensor(["b", "s", "h", "e"], "f32"))
    f.function("biased_freely", [(name, "Object") for name in ["q", "k", "v", "bias"]], f'{op}(q, k, v, bias, 0.5, "TopLeft", 2)',
               [run("biased_freely", [q, k, v, bias], attention_of(q, k, v, bias, 0.5, "TopLeft", 2))])
    f.refused("bias_of_other_keys", operands("f32", *shapes[:3], ["b", 1, "s", "t + 1"]), f"{op}(q, k, v, bias)", "RX0501")
    f.write()


def main():
    attention()
    attention_bias()


if __name__ == "__main__":
    main()
