#!/usr/bin/env python3
"""Records small programs of JAX as StableHLO text, and what JAX computes.

    scripts/jax_programs.py [NAME …]   # writes import/tests/stablehlo/, of these programs or of all
    scripts/jax_programs.py --check    # compares relaxc with JAX instead; exit code 1 where they differ
    scripts/jax_programs.py --large FOLDER    # writes a model of the size of GPT-2, an input, and what JAX computes

It needs the package jax, with --check relaxc too. Sizes are those that JAX's own assertions allow: 1 and primes, and 0 where no dim
is symbolic.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import re
import sys
from typing import Any, Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "import" / "tests" / "stablehlo"


def floats(*shape: int) -> np.ndarray:
    """Of both signs, with NaN and infinities where there are many."""
    values = finite(*shape).reshape(-1)
    for place, value in enumerate((math.nan, math.inf, -math.inf, -0.0)):
        if values.size > 4 * place + 6:
            values[4 * place + 2] = value
    return values.reshape(shape)


def finite(*shape: int) -> np.ndarray:
    count = math.prod(shape)
    return np.array([((at * 37 + 11) % 101) / 25.25 - 2.0 for at in range(count)], np.float32).reshape(shape)


def ints(*shape: int) -> np.ndarray:
    count = math.prod(shape)
    return np.array([(at * 7 + 3) % 11 - 5 for at in range(count)], np.int32).reshape(shape)


def bools(*shape: int) -> np.ndarray:
    return ints(*shape) > 0


def weights(*shape: int) -> jax.Array:
    return jnp.asarray(finite(*shape) / np.float32(math.sqrt(shape[0])))


def mlp(x):
    return jnp.tanh(x @ weights(4, 24) + weights(24)) @ weights(24, 3) + 1.0


def norm(x, scale, shift, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    spread = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(spread + eps) * scale + shift


def layer_norm(x):
    return norm(x, weights(16), weights(16))


def attention(q, k, v, mask):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(8.0).astype("float32")
    scores = jnp.where(mask[:, None, None, :], scores, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


def embedding(table, tokens):
    return table[tokens] + table[jnp.asarray(tokens.shape[1])], jnp.take(table, tokens, axis=0, mode="clip"), jnp.take(table, tokens, axis=0)


def transformer(tokens):
    """Two layers, causal, with learned positions."""
    length, width, heads = tokens.shape[1], 16, 2
    x = weights(50, width)[tokens] + weights(64, width)[:length]
    causal = jnp.tril(jnp.ones((length, length), bool))
    for layer in range(2):
        h = norm(x, weights(width) + 1 + layer, weights(width))
        q, k, v = (h @ weights(width, width).T[:, at : at + width] for at in (0, 0, 0))
        q, k, v = (t.reshape(*t.shape[:2], heads, width // heads) for t in (q, k + 0.5, v - 0.25))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * 0.125
        scores = jnp.where(causal, scores, jnp.finfo(jnp.float32).min)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v)
        x = x + mixed.reshape(x.shape) @ weights(width, width)
        h = norm(x, weights(width), weights(width) - layer)
        x = x + jax.nn.gelu(h @ weights(width, 4 * width)) @ weights(4 * width, width) * 0.1
    return norm(x, 1.0, 0.0) @ weights(50, width).T


def conv(x):
    kernel = weights(5, 3, 3, 3)
    y = lax.conv_general_dilated(x, kernel, (2, 2), "SAME")
    z = lax.conv_general_dilated(x, kernel, (1, 1), ((1, 1), (0, 2)), rhs_dilation=(2, 1))
    depthwise = lax.conv_general_dilated(x, weights(3, 1, 2, 2), (1, 1), "VALID", feature_group_count=3)
    return jax.nn.relu(y), z, depthwise, lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def channels_last(x):
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, weights(3, 3, 2, 4), (1, 1), "SAME", dimension_numbers=numbers)


def dims(x):
    n = x.shape[0]
    return x.reshape(n // 4, 4, -1), x.reshape(n * 3, 2), x[: n // 2], jnp.pad(x, ((0, n), (0, 0))), jnp.arange(2 * n + 1), x.sum() * n, x.T


def relation(x, y):
    return x[:, : y.shape[0]] * y, jnp.concatenate((x, x), 1), x.reshape(-1)


def order(x, i):
    return (
        jnp.cumsum(x, 1), jnp.cumsum(i, 0), jnp.sort(x, 1), jnp.sort(i, 0), jnp.argsort(i, 1), jnp.argmax(x, 1), jnp.argmin(i, 0),
        *lax.top_k(x, 2), jnp.cumprod(i, 1), lax.cumsum(x, 1, reverse=True), jnp.flip(x, 1), jnp.roll(x, 1, 1),
    )  # fmt: skip


def regions(x, i, b):
    """Regions of scalars that are applied to tensors: windows, reductions, sorts by several keys, gradients of pools."""
    pool = lambda x, size: lax.reduce_window(x, -jnp.inf, lax.max, (1, size), (1, 2), "VALID")  # noqa: E731
    gradient = lambda size: jax.grad(lambda x: (pool(x, size) ** 2).sum())(jnp.nan_to_num(x, posinf=3.0, neginf=-3.0))  # noqa: E731
    both = lambda a, b: (lax.max(a[0], b[0]), lax.add(a[1], b[1]))  # noqa: E731
    # The first of the greatest, and its element of the other operand.
    first = lambda a, b: (jnp.where(a[0] >= b[0], a[0], b[0]), jnp.where(a[0] >= b[0], a[1], b[1]))  # noqa: E731
    least = jnp.int32(-100)
    return (
        gradient(2), gradient(3), lax.cumlogsumexp(x, 1), lax.cumlogsumexp(x, 1, reverse=True), lax.cummax(x, 1), lax.cummin(i, 1, reverse=True),
        *lax.reduce((i, x), (least, jnp.float32(0.5)), both, (1,)), *lax.reduce((i // 4, i), (least, least), first, (1,)),
        *lax.reduce_window((i, x), (least, jnp.float32(-1)), first, (1, 3), (1, 1), ((0, 0), (1, 1))), *lax.sort((i // 4, x, i), 1, num_keys=2),
        *lax.sort((b, i // 4, x), 1, num_keys=3), *lax.approx_max_k(x[:, :2], 2), *lax.approx_min_k(jnp.abs(i).astype(jnp.float32), 3),
        b.at[:, 1].max(i[:, 2] > 0), b.at[:, 0].min(b[:, 3]),
    )  # fmt: skip


def bits(x, i):
    """Elements as bits, and what is made of bits, random numbers among it."""
    wild = jnp.concatenate((i * 98765432, jnp.array([[0, 1, -1, 0x7F800000, -0x800000, 0x7FFFFF]])))
    # XLA takes numbers below all normal ones for zeros.
    wide, small = lax.bitcast_convert_type(wild, jnp.float32), x * 2.0**-120
    halves = (x.astype(jnp.float16), (x * 2.0**-15).astype(jnp.float16), x.astype(jnp.bfloat16))
    key = jax.random.key(7)
    return (
        wide, *(lax.bitcast_convert_type(y, jnp.int32) for y in (x, small, x * 1e30, jnp.nan_to_num(wide))), (lax.bitcast_convert_type(x, jnp.uint32) >> 23).astype(jnp.int32),
        *(lax.bitcast_convert_type(half, jnp.int16).astype(jnp.int32) for half in halves),
        lax.bitcast_convert_type(lax.bitcast_convert_type((jnp.abs(i) * 3000).astype(jnp.int16), jnp.float16), jnp.int16).astype(jnp.int32),
        lax.population_count(wild), lax.population_count(wild.astype(jnp.uint8)).astype(jnp.int32), lax.reduce_precision(x * 1.001, 5, 10),
        lax.reduce_precision(x * 2.0**-14, 5, 10), lax.reduce_precision(x * 4e4, 5, 10), jnp.nextafter(x, jnp.flip(x, 1)),
        jax.random.uniform(key, (3, 4)), jax.random.normal(key, (2, 3)), jax.random.randint(key, (5,), -9, 9),
    )  # fmt: skip


def solved(x):
    """Triangular systems, factors of symmetric matrices, with and without one, and factors with pivots."""
    a = x.T @ x + 2 * jnp.eye(6)
    # Of the last one a later pivot is negative.
    both = jnp.stack((a, -a, a.at[3, 3].add(-1000.0)))
    wide = jnp.flip(a, 0)[:4] - 1.5
    solve = lax.linalg.triangular_solve
    flags = [(left, lower, turned, unit) for left in (True, False) for lower in (True, False) for turned in (True, False) for unit in (True, False)]
    systems = [
        solve(a, x.T if left else x, left_side=left, lower=lower, transpose_a=turned, unit_diagonal=unit) for left, lower, turned, unit in flags
    ]
    return (
        *systems, solve(both, both * 0.5, left_side=True, lower=True), jnp.linalg.cholesky(a), jnp.linalg.cholesky(both), jnp.linalg.cholesky(a, upper=True),
        jnp.linalg.cholesky(a[:1, :1]), jnp.linalg.cholesky(a[:0, :0]), *lax.linalg.lu(jnp.flip(both, 1) + 0.25), *lax.linalg.lu(wide), *lax.linalg.lu(wide.T),
        *lax.linalg.lu(wide[:, :0]), *lax.linalg.lu(wide.at[:, 1].set(0.0)), jnp.linalg.solve(both, x.T), jnp.linalg.inv(a), jnp.linalg.det(both[:, :3, :3]),
    )  # fmt: skip


def loops(x):
    total, partial = lax.scan(lambda carry, row: (carry + row, carry * row), jnp.zeros(5), x.T[:3, :1] * jnp.ones(5))
    power = lax.fori_loop(0, 5, lambda at, y: y * 0.5 + at, x)
    halved = lax.while_loop(lambda s: s[0] < 7, lambda s: (s[0] + 2, s[1] / 2), (0, x))[1]
    branch = lax.cond(x.sum() > 0, lambda y: y + 1, lambda y: y * 2, x)
    many = lax.switch(jnp.int32(x[0, 0]) + 1, (lambda y: y, lambda y: -y, lambda y: y * 3), x)
    return total, partial, power, halved, branch, many


def scanned(x):
    return lax.scan(lambda carry, row: (jnp.tanh(carry + row), carry * 2), jnp.zeros(3), x)


def elements(x, i, b):
    y = jnp.where(jnp.flip(i, 0) == 0, 3, jnp.flip(i, 0))
    return (
        jnp.exp(x), jnp.log(jnp.abs(x) + 0.5), jnp.sqrt(jnp.abs(x)), lax.rsqrt(jnp.abs(x) + 1), jnp.tanh(x), jax.nn.sigmoid(x), lax.erf(x),
        jnp.sin(x), jnp.cos(x), jnp.expm1(x), jnp.log1p(jnp.abs(x)), jnp.floor(x), jnp.ceil(x), jnp.round(x), jnp.sign(x), jnp.sign(i), -i, -x,
        x + i, x - 2, i * y, x / 3, i // y, i % y, x % 0.75, jnp.fmod(i, y), lax.div(i, y), lax.rem(i, y), jnp.maximum(x, 0.5), jnp.minimum(i, y),
        x**2, jnp.abs(x) ** 1.5, x > 0.5, i <= y, i != y, x == x, ~b, b & (i > 2), b | (i > 2), b ^ (i > 2), i & 3, i | y, i ^ y, ~i, i << 2, i >> 1,
        lax.shift_right_logical(i, jnp.int32(3)), jnp.where(b, x, 9), jnp.clip(x, -1, 1), jnp.isnan(x), jnp.isinf(x), jnp.isfinite(x),
        x.astype(jnp.int32), i.astype(jnp.float32), b.astype(jnp.float32), i.astype(bool), jnp.cbrt(x), jnp.arctan2(x, 2.0), jax.nn.gelu(x),
        jax.nn.softplus(x), jax.nn.relu(x), jax.nn.silu(x), jnp.logaddexp(x, 1.0), jnp.square(x), lax.integer_pow(x, 3), x.astype(jnp.bfloat16).astype(jnp.float32),
    )  # fmt: skip


def reductions(x, i, b):
    return (
        x.sum(), x.sum(0), x.sum((0, 1), keepdims=True), i.sum(1), b.sum(), i.prod(1), x.max(1), x.min(0), i.max(), i.min(1), b.any(1), b.all(),
        x.mean(0), jnp.var(i, 1), jnp.nansum(x, 1), jax.nn.logsumexp(x[:, 3:5], 1), jax.nn.softmax(x, 0), jnp.linalg.norm(i.astype(float)),
        jnp.count_nonzero(i, 1), x.argmax(1), jnp.std(x[:, 3:5], 1), jnp.trapezoid(i.astype(float), axis=1),
    )  # fmt: skip


def indexing(x, i):
    places = jnp.abs(i) % 6
    rows = jnp.array([5, 0, -1])
    return (
        x[:, rows], jnp.take_along_axis(x, places, 1), x[1:], x[:, 1:5:2], x[:, -2], x.at[0].set(7.0), x.at[:, rows].add(1.0), x.at[0, 3].mul(2.0),
        x.at[:, 2:4].set(0.0), x.at[:, jnp.array([1, 9])].set(5.0), lax.dynamic_slice(x, (0, i[0, 0]), (1, 3)),
        lax.dynamic_update_slice(x, jnp.ones((1, 2)), (0, i[0, 0])), jnp.take(x, places[:, 0], axis=1), jnp.diagonal(x.T @ x), jax.nn.one_hot(places, 6),
        x.at[:, rows].max(0.5), jnp.pad(x, ((1, 2), (0, 1)), constant_values=2.0), lax.pad(x, 0.5, ((0, 0, 0), (1, -1, 2))), jnp.tril(x), jnp.tile(x, (1, 2)),
        jnp.repeat(x, 2, 1), jnp.stack((x, x), 1), jnp.split(x, 3, 1)[1], x[:, None] * x[None, :1], jnp.vstack((x, x)), jax.vmap(lambda r, k: r[k])(x, places),
    )  # fmt: skip


def linear(x, y):
    return (
        x @ y, jnp.dot(x, y[:, 0]), jnp.einsum("ij,jk->ki", x, y), jnp.einsum("ij,ij->i", x, x), jnp.outer(x[:, 0], y[0]),
        jnp.tensordot(x[:, :, None], y[:, None], ((1,), (0,))), x.T @ x, jnp.vdot(x, x), jnp.matmul(x[None], y[None]),
        lax.dot_general(x.astype(jnp.bfloat16), y.astype(jnp.bfloat16), (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32),
    )  # fmt: skip


def constants(x):
    large = np.arange(600, dtype=np.float32).reshape(100, 6) / 7
    mask = (np.arange(300) % 3 == 0).reshape(50, 6)
    return x + large[7], jnp.where(mask[:1], x, -1.0), x @ large.T, jnp.where(jnp.asarray(mask).sum(0) > 16, x, 0), x + np.float32(np.inf)


#: A program: the function, the shapes of its arguments as JAX writes them, constraints, how arguments are made from sizes, and sizes.
Case = tuple[Callable[..., Any], tuple[str, ...], tuple[str, ...], Callable[..., tuple[np.ndarray, ...]], tuple[dict[str, int], ...]]
N = ({"n": 1}, {"n": 2}, {"n": 7})
PROGRAMS: dict[str, Case] = {
    "mlp": (mlp, ("b, 4",), (), lambda b: (finite(b, 4),), ({"b": 1}, {"b": 7})),
    "layer_norm": (layer_norm, ("b, n, 16",), (), lambda b, n: (finite(b, n, 16),), ({"b": 1, "n": 1}, {"b": 3, "n": 5})),
    "attention": (
        attention, ("b, n, 2, 8", "b, m, 2, 8", "b, m, 2, 8", "b, m"), (),
        lambda b, n, m: (finite(b, n, 2, 8), finite(b, m, 2, 8) / 2, finite(b, m, 2, 8), bools(b, m)),
        ({"b": 1, "n": 1, "m": 1}, {"b": 2, "n": 7, "m": 3}, {"b": 3, "n": 1, "m": 5}),
    ),
    "embedding": (embedding, ("50, 8", "b, n"), ("n <= 49",), lambda b, n: (finite(50, 8), ints(b, n) * 9), ({"b": 1, "n": 1}, {"b": 3, "n": 5})),
    "transformer": (transformer, ("b, n",), ("n <= 64",), lambda b, n: (np.abs(ints(b, n)) * 7,), ({"b": 1, "n": 1}, {"b": 2, "n": 7}, {"b": 3, "n": 13})),
    "conv": (conv, ("b, 3, h, w",), ("h >= 5", "w >= 3"), lambda b, h, w: (finite(b, 3, h, w),), ({"b": 1, "h": 5, "w": 3}, {"b": 2, "h": 7, "w": 10})),
    "channels_last": (channels_last, ("b, h, w, 2",), (), lambda b, h, w: (finite(b, h, w, 2),), ({"b": 1, "h": 1, "w": 1}, {"b": 2, "h": 7, "w": 5})),
    "dims": (dims, ("n, 6",), ("mod(n, 4) == 0",), lambda n: (finite(n, 6),), ({"n": 4}, {"n": 12})),
    "relation": (relation, ("b, 2*n + 1", "n"), (), lambda b, n: (finite(b, 2 * n + 1), finite(n)), ({"b": 1, "n": 1}, {"b": 3, "n": 5})),
    "order": (order, ("n, 6", "n, 6"), (), lambda n: (floats(n, 6), ints(n, 6)), N),
    "regions": (regions, ("n, 6", "n, 6", "n, 6"), (), lambda n: (floats(n, 6), ints(n, 6), bools(n, 6)), N),
    "bits": (bits, ("n, 6", "n, 6"), (), lambda n: (floats(n, 6), ints(n, 6)), N),
    "solved": (solved, ("n, 6",), (), lambda n: (finite(n, 6),), N),
    "loops": (loops, ("n, 6",), (), lambda n: (finite(n, 6),), N),
    "scanned": (scanned, ("n, 3",), (), lambda n: (finite(n, 3),), ({"n": 1}, {"n": 2}, {"n": 7}, {"n": 40})),
    "elements": (elements, ("n, 6", "n, 6", "n, 6"), (), lambda n: (floats(n, 6), ints(n, 6), bools(n, 6)), N),
    "reductions": (reductions, ("n, 6", "n, 6", "n, 6"), (), lambda n: (floats(n, 6), ints(n, 6), bools(n, 6)), N),
    "indexing": (indexing, ("n, 6", "n, 6"), (), lambda n: (finite(n, 6), ints(n, 6)), N),
    "linear": (linear, ("n, 6", "6, m"), (), lambda n, m: (finite(n, 6), finite(6, m)), ({"n": 1, "m": 1}, {"n": 5, "m": 3})),
    "constants": (constants, ("n, 6",), (), lambda n: (finite(n, 6),), N),
    "no_rows": (elements, ("0, 6", "0, 6", "0, 6"), (), lambda: (floats(0, 6), ints(0, 6), bools(0, 6)), ({},)),
    "no_sums": (lambda x, i: (x.sum(0), i.sum(0), x.sum(1), jnp.all(i > 0), x.T @ x, jnp.sort(x, 0), x.prod(0), jnp.cumsum(x, 0)),
                ("0, 3", "0, 3"), (), lambda: (floats(0, 3), ints(0, 3)), ({},)),
}  # fmt: skip


def exported(case: Case) -> Any:
    function, shapes, constraints, arguments, sizes = case
    scope = export.SymbolicScope(constraints)
    dtypes = [argument.dtype for argument in arguments(**sizes[-1])]
    specs = [jax.ShapeDtypeStruct(export.symbolic_shape(s, scope=scope), d) for s, d in zip(shapes, dtypes)]
    return export.export(jax.jit(function))(*specs)


def json_of(value: Any) -> dict[str, Any]:
    array = np.asarray(value)
    names = {"float32": "f32", "int32": "i32", "bool": "bool", "bfloat16": "bf16", "int64": "i64"}
    number = lambda item: item if isinstance(item, (int, bool)) or math.isfinite(item) else str(item)
    data = [number(item) for item in array.reshape(-1).tolist()]
    return {"dtype": names[str(array.dtype)], "shape": list(array.shape), "data": data}


def text_of(program: Any) -> str:
    """Without the folders of this machine."""
    return re.sub(r'"/[^"]*/([^"/]+)"', r'"\1"', program.mlir_module())


def record(names: list[str]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, case in PROGRAMS.items():
        if names and name not in names:
            continue
        function, _, _, arguments, sizes = case
        (FOLDER / f"{name}.mlir").write_text(text_of(exported(case)))
        cases = []
        for size in sizes:
            given = arguments(**size)
            results = jax.tree.leaves(jax.jit(function)(*given))
            cases.append({"inputs": [json_of(a) for a in given], "outputs": [json_of(r) for r in results]})
        (FOLDER / f"{name}.cases.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")
        print(name)


def check() -> int:
    import relaxc

    wrong = 0
    for name, case in PROGRAMS.items():
        function, _, _, arguments, sizes = case
        module = relaxc.compile(exported(case))
        for size in sizes:
            given = arguments(**size)
            found = module(*given)
            found = list(found) if isinstance(found, tuple) else [found]
            expected = jax.tree.leaves(jax.jit(function)(*given))
            for place, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
                ours, theirs = ours.numpy(), np.asarray(theirs)
                same = ours.dtype == theirs.dtype and ours.shape == theirs.shape
                if not same or not np.allclose(ours.astype(float), theirs.astype(float), 2e-5, 2e-5, equal_nan=True):
                    print(f"{name} {size}, result {place}: {ours.dtype}{ours.shape}, not {theirs.dtype}{theirs.shape}, or other elements")
                    wrong += 1
        print(name)
    return wrong


def large(tokens):
    """12 layers of width 768, causal, with random weights: 717 MB of text."""
    width, heads, random = 768, 12, np.random.RandomState(0)
    weight = lambda *shape: jnp.asarray(random.standard_normal(shape).astype(np.float32) * 0.02)
    table, length = weight(5000, width), tokens.shape[1]
    x = table[tokens] + weight(1024, width)[:length]
    causal = jnp.tril(jnp.ones((length, length), bool))
    for _ in range(12):
        q, k, v = jnp.split(norm(x, 1.0, 0.0) @ weight(width, 3 * width), 3, -1)
        q, k, v = (t.reshape(*t.shape[:2], heads, width // heads) for t in (q, k, v))
        scores = jnp.where(causal, jnp.einsum("bqhd,bkhd->bhqk", q, k) * 0.125, -1e9)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)
        x = x + mixed.reshape(x.shape) @ weight(width, width)
        x = x + jax.nn.gelu(norm(x, 1.0, 0.0) @ weight(width, 4 * width)) @ weight(4 * width, width)
    return norm(x, 1.0, 0.0) @ table.T


def write_large(folder: pathlib.Path) -> None:
    scope = export.SymbolicScope(("n <= 1024",))
    spec = jax.ShapeDtypeStruct(export.symbolic_shape("b, n", scope=scope), jnp.int32)
    (folder / "large.mlir").write_text(text_of(export.export(jax.jit(large))(spec)))
    tokens = (np.arange(14, dtype=np.int32) * 31).reshape(2, 7)
    np.save(folder / "tokens.npy", tokens)
    np.save(folder / "logits.npy", np.asarray(jax.jit(large)(tokens)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="the programs that are written; all of them without one")
    parser.add_argument("--check", action="store_true", help="compare relaxc with JAX")
    parser.add_argument("--large", type=pathlib.Path, metavar="FOLDER", help="write a large model there")
    args = parser.parse_args()
    if args.check:
        return 1 if check() else 0
    if args.large:
        write_large(args.large)
        return 0
    record(args.names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
