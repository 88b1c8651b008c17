"""Trains scripts/train/char_transformer.rx beside PyTorch, in f64, each on its own results.

Batch and length change every step; the program is compiled once. Needs the package `relaxc` (docs/PYTHON.md) and PyTorch:

    relax grad scripts/train/char_transformer.rx -o grad.rx
    python3 scripts/train/char_transformer.py grad.rx --steps 500

Prints the loss of both every 50 steps, the greatest relative difference of all steps, and the time of each; exits with 1 where the
difference is above 1e-8.
"""

import argparse
import pathlib
import sys
import time

import numpy
import relaxc
import torch
from torch.nn import functional

HERE = pathlib.Path(__file__).resolve().parent
TEXT = (
    "the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs. "
    "how vexingly quick daft zebras jump. sphinx of black quartz judge my vow. "
)
LETTERS = "abcdefghijklmnopqrstuvwxyz. "
WIDTH, HEADS, INNER, LONGEST = 32, 4, 128, 64
RATE, BETAS, EPSILON, DECAY, NORM = 3e-3, (0.9, 0.999), 1e-8, 0.01, 1.0
LIMIT = 1e-8


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


def loss_of_torch(w, tokens, targets):
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


def batch(random, step):
    text = numpy.array([LETTERS.index(letter) for letter in TEXT * 8])
    rows, length = 1 + (step * 7) % 9, 1 + (step * 11) % 53
    begins = random.integers(0, len(text) - length - 1, rows)
    tokens = numpy.stack([text[begin : begin + length] for begin in begins])
    targets = numpy.stack([text[begin + 1 : begin + length + 1] for begin in begins])
    return tokens.astype("int64"), targets.astype("int64")


def adamw(optimizer, values, gradients, moments, step):
    squares = sum(float((gradient**2).sum()) for gradient in gradients.values())
    factor = optimizer["clip_factor"](squares, NORM).item()
    for name, gradient in gradients.items():
        flat = numpy.ascontiguousarray(values[name]).reshape(-1)
        made = optimizer["adamw"](
            flat, (gradient * factor).reshape(-1), *moments[name], float(step), RATE, *BETAS, EPSILON, DECAY
        )
        # A copy: the module's memory is not kept.
        value, first, second = (numpy.array(numpy.asarray(part)) for part in made)
        values[name] = value.reshape(gradient.shape)
        moments[name] = (first, second)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", help="what `relax grad` made of scripts/train/char_transformer.rx")
    parser.add_argument("--steps", type=int, default=500)
    args = parser.parse_args()
    torch.set_num_threads(1)
    begin = time.perf_counter()
    module = relaxc.compile(pathlib.Path(args.program), threads=1)
    optimizer = relaxc.compile(HERE.parent.parent / "train" / "optimizers.rx", threads=1)
    print(f"compiled once: {time.perf_counter() - begin:.1f} s, backend {module.backend}")
    values = weights(numpy.random.default_rng(1))
    other = {name: torch.tensor(value, requires_grad=True) for name, value in values.items()}
    torch_optimizer = torch.optim.AdamW(other.values(), lr=RATE, betas=BETAS, eps=EPSILON, weight_decay=DECAY)
    moments = {name: (numpy.zeros(value.size), numpy.zeros(value.size)) for name, value in values.items()}
    random = numpy.random.default_rng(2)
    worst, own_time, torch_time, seen = 0.0, 0.0, 0.0, set()
    for step in range(1, args.steps + 1):
        tokens, targets = batch(random, step)
        seen.add(tokens.shape)
        begin = time.perf_counter()
        loss, gradients = module["main_adjoint"](tokens, targets, **values)
        loss = loss.item()
        gradients = {name: numpy.array(numpy.asarray(own)) for name, own in zip(values, gradients)}
        adamw(optimizer, values, gradients, moments, step)
        middle = time.perf_counter()
        torch_optimizer.zero_grad()
        expected = loss_of_torch(other, torch.from_numpy(tokens), torch.from_numpy(targets))
        expected.backward()
        torch.nn.utils.clip_grad_norm_(other.values(), NORM)
        torch_optimizer.step()
        expected = expected.item()
        end = time.perf_counter()
        own_time, torch_time = own_time + middle - begin, torch_time + end - middle
        apart = abs(loss - expected) / abs(expected)
        # NaN is no agreement.
        worst = max(worst, apart) if apart == apart else float("inf")
        if step == 1 or step % 50 == 0:
            print(f"step {step}: {tokens.shape} relax {loss:.12f} torch {expected:.12f} apart {apart:.2e}")
    print(f"{len(seen)} shapes in {args.steps} steps; greatest relative difference of the loss: {worst:.2e}")
    print(f"time: relax {own_time:.2f} s, torch {torch_time:.2f} s, one thread each")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
