"""Trains scripts/train/char_transformer.rx beside PyTorch (beside.py says how): another batch and length in nearly each step.

    python3 scripts/train/char_transformer.py
"""

import pathlib
import sys
import types

import beside
import numpy
from torch.nn import functional

PROGRAM = pathlib.Path(__file__).with_suffix(".rx")
TEXT = (
    "the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs. "
    "how vexingly quick daft zebras jump. sphinx of black quartz judge my vow. "
)
LETTERS = "abcdefghijklmnopqrstuvwxyz. "
WIDTH, HEADS, INNER, LONGEST = 32, 4, 128, 64


def shapes():
    yield "embedding", (len(LETTERS), WIDTH)
    yield "positions", (LONGEST, WIDTH)
    for layer in range(2):
        for name, shape in (
            ("g1", (WIDTH,)), ("b1", (WIDTH,)), ("w_qkv", (WIDTH, 3 * WIDTH)), ("b_qkv", (3 * WIDTH,)),
            ("w_o", (WIDTH, WIDTH)), ("b_o", (WIDTH,)), ("g2", (WIDTH,)), ("b2", (WIDTH,)),
            ("w_up", (WIDTH, INNER)), ("b_up", (INNER,)), ("w_down", (INNER, WIDTH)), ("b_down", (WIDTH,)),
        ):
            yield f"{name}_{layer}", shape
    yield "g_out", (WIDTH,)
    yield "b_out", (WIDTH,)
    yield "w_out", (WIDTH, len(LETTERS))


def weights(random):
    made = {}
    for name, shape in shapes():
        if name.startswith("g"):
            made[name] = numpy.ones(shape)
        elif name.startswith("b"):
            made[name] = numpy.zeros(shape)
        else:
            made[name] = random.normal(0, 0.3 / numpy.sqrt(shape[0]) if len(shape) > 1 else 0.3, shape)
    return made


def loss(w, tokens, targets):
    batch, length = tokens.shape
    x = w["embedding"][tokens] + w["positions"][:length]
    for layer in range(2):
        own = {name[: -len("_0")]: value for name, value in w.items() if name.endswith(f"_{layer}")}
        h = functional.layer_norm(x, (WIDTH,), own["g1"], own["b1"])
        parts = (h @ own["w_qkv"] + own["b_qkv"]).split(WIDTH, dim=2)
        q, k, v = (part.reshape(batch, length, HEADS, -1).transpose(1, 2) for part in parts)
        a = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + (a.transpose(1, 2).reshape(batch, length, WIDTH) @ own["w_o"] + own["b_o"])
        h = functional.layer_norm(x, (WIDTH,), own["g2"], own["b2"])
        x = x + (functional.gelu(h @ own["w_up"] + own["b_up"]) @ own["w_down"] + own["b_down"])
    logits = functional.layer_norm(x, (WIDTH,), w["g_out"], w["b_out"]) @ w["w_out"]
    return functional.cross_entropy(logits.reshape(-1, len(LETTERS)), targets.reshape(-1))


def batch(random, step, _dtype):
    text = numpy.array([LETTERS.index(letter) for letter in TEXT * 8])
    rows, length = 1 + (step * 7) % 9, 1 + (step * 11) % 53
    begins = random.integers(0, len(text) - length - 1, rows)
    tokens = numpy.stack([text[begin : begin + length] for begin in begins])
    targets = numpy.stack([text[begin + 1 : begin + length + 1] for begin in begins])
    return tokens.astype("int64"), targets.astype("int64")


if __name__ == "__main__":
    sys.exit(beside.main(types.SimpleNamespace(program=PROGRAM, weights=weights, loss=loss, batch=batch)))
