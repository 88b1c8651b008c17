"""What the bench of peers times: functions of f32 with dims that are known only when they are called.

Each is written once, over a vocabulary (`vocabulary.py`) that NumPy, JAX, PyTorch and ONNX's graphs have. Weights are
constants of the model, except where both factors of a product are given.
"""

import math

WIDE, HEADS, INNER = 768, 12, 3072
LAYERS, MODEL, FORWARD, WORDS = 4, 512, 1376, 8192
HEAD = 64

# Operations of one element's function, by a generous count.
EXP, TANH, ERF = 16, 24, 24

ROWS = [{"n": n} for n in (1, 7, 64, 1000, 8192)]
SMALL = [{"n": n} for n in (1, 5, 24, 43, 62, 81, 100, 119, 128, 384)]
CACHED = [{"n": n} for n in (1, 17, 128, 511, 1024)]
# Extents of the table of products of Vortex (section 6): DeepBench, a transformer, a convolutional network, graphs.
PRODUCTS = [
    {"m": m, "n": n, "k": k}
    for m, n, k in (
        (35, 700, 2560), (8448, 1, 2816), (5124, 700, 2048), (512, 8, 500000), (1, 4096, 4096), (476, 3072, 768),
        (476, 4096, 4096), (1, 25088, 4096), (128, 80, 10), (2708, 16, 1433), (1888584, 2, 8), (19717, 121, 500),
    )
]


def elementwise(v, x, w):
    return [v.exp(x["x"]) * 2.0 + v.relu(x["x"]) - v.tanh(x["x"])]


def softmax(v, x, w):
    return [v.softmax(x["x"])]


def layer_norm(v, x, w):
    return [v.layer_norm(x["x"], w["g"], w["b"])]


def rms_norm(v, x, w):
    return [v.rms_norm(x["x"], w["g"])]


def product(v, x, w):
    return [x["a"] @ x["b"]]


def linear(v, x, w):
    return [v.linear(x["x"], w["w"])]


def mlp(v, x, w):
    return [v.linear(v.relu(v.linear(x["x"], w["w1"], w["b1"])), w["w2"], w["b2"])]


def bottleneck(v, x, w):
    """A residual block of convolutions."""
    y = v.relu(v.conv(x["x"], w["w1"], w["b1"]))
    y = v.relu(v.conv(y, w["w2"], w["b2"]))
    return [v.relu(v.conv(y, w["w3"], w["b3"]) + x["x"])]


def attention(v, x, w, at):
    mixed = v.linear(x, w[at + "wm"], w[at + "bm"])
    q, k, t = (v.heads(v.columns(mixed, i * WIDE, (i + 1) * WIDE), HEADS) for i in range(3))
    return v.linear(v.rows(v.attend(q, k, t, False)), w[at + "wo"], w[at + "bo"])


def forward(v, x, w, at):
    return v.linear(v.gelu(v.linear(x, w[at + "w1"], w[at + "b1"])), w[at + "w2"], w[at + "b2"])


def block(v, x, w):
    """A layer that normalizes first."""
    y = x["x"] + attention(v, v.layer_norm(x["x"], w["g1"], w["e1"]), w, "")
    return [y + forward(v, v.layer_norm(y, w["g2"], w["e2"]), w, "")]


def bert(v, x, w):
    """Twelve layers that normalize last."""
    y = x["x"]
    for layer in range(12):
        at = f"l{layer}_"
        y = v.layer_norm(y + attention(v, y, w, at), w[at + "g1"], w[at + "e1"])
        y = v.layer_norm(y + forward(v, y, w, at), w[at + "g2"], w[at + "e2"])
    return [y]


def llama(v, x, w, decode):
    def turned(t):
        a, b = v.columns(t, 0, HEAD // 2), v.columns(t, HEAD // 2, HEAD)
        return v.join([a * x["cos"] - b * x["sin"], b * x["cos"] + a * x["sin"]], 2)

    y, keys, values = x["x"], [], []
    for layer in range(LAYERS):
        at = f"l{layer}_"
        h = v.rms_norm(y, w[at + "g1"])
        q, k, t = (v.heads(v.linear(h, w[at + name]), MODEL // HEAD) for name in ("wq", "wk", "wv"))
        q, k = turned(q), turned(k)
        keys.append(k)
        values.append(t)
        if decode:
            k, t = v.join([v.layer(x["pk"], layer), k], 1), v.join([v.layer(x["pv"], layer), t], 1)
        y = y + v.linear(v.rows(v.attend(q, k, t, not decode)), w[at + "wo"])
        h = v.rms_norm(y, w[at + "g2"])
        y = y + v.linear(v.silu(v.linear(h, w[at + "wg"])) * v.linear(h, w[at + "wu"]), w[at + "wd"])
    last = y if decode else v.last_row(y)
    return [v.linear(v.rms_norm(last, w["gf"]), w["words"]), v.stack(keys), v.stack(values)]


def block_weights(at=""):
    return {
        at + "wm": (WIDE, 3 * WIDE), at + "bm": (3 * WIDE,), at + "wo": (WIDE, WIDE), at + "bo": (WIDE,),
        at + "w1": (WIDE, INNER), at + "b1": (INNER,), at + "w2": (INNER, WIDE), at + "b2": (WIDE,),
        at + "g1": (WIDE,), at + "e1": (WIDE,), at + "g2": (WIDE,), at + "e2": (WIDE,),
    }


def llama_weights():
    weights = {}
    for layer in range(LAYERS):
        at = f"l{layer}_"
        weights.update({at + name: (MODEL, MODEL) for name in ("wq", "wk", "wv", "wo")})
        weights.update({at + "g1": (MODEL,), at + "g2": (MODEL,), at + "wg": (MODEL, FORWARD)})
        weights.update({at + "wu": (MODEL, FORWARD), at + "wd": (FORWARD, MODEL)})
    return {**weights, "gf": (MODEL,), "words": (MODEL, WORDS)}


def block_work(n):
    heads = 4 * n * n * WIDE + HEADS * n * n * (EXP + 6)
    return 2 * n * (4 * WIDE * WIDE + 2 * WIDE * INNER) + heads + n * INNER * ERF + 20 * n * WIDE


def llama_work(rows, keys):
    half = 1 if rows == 1 else 0.5
    heads = 4 * rows * keys * MODEL * half + MODEL // HEAD * rows * keys * half * (EXP + 6)
    layer = 2 * rows * (4 * MODEL * MODEL + 3 * MODEL * FORWARD) + heads + rows * FORWARD * EXP
    return LAYERS * layer + 2 * MODEL * WORDS


class Workload:
    """A function, its inputs and weights with their shapes, the dims it is called with, and its operations."""

    def __init__(self, build, inputs, weights, cases, work):
        self.build, self.inputs, self.weights, self.cases, self.work = build, inputs, weights, cases, work

    def shape(self, name, case):
        return [case.get(dim, dim) for dim in self.inputs[name]]

    def values_of_weights(self, np):
        random, values = np.random.default_rng(1), {}
        for name, shape in self.weights.items():
            value = random.standard_normal(shape) * (0.7 / math.sqrt(shape[0]) if len(shape) == 2 else 0.1)
            values[name] = (value + (1 if name.rsplit("_")[-1][0] == "g" else 0)).astype(np.float32)
        return values

    def values_of_inputs(self, np, case):
        random, values = np.random.default_rng(sum(case.values())), {}
        for name in self.inputs:
            shape = self.shape(name, case)
            if name in ("cos", "sin"):
                places = np.arange(shape[0]) if shape[0] != 1 else np.array([case["n"]])
                angles = places[:, None] / 10000 ** (np.arange(HEAD // 2) / (HEAD // 2))
                values[name] = getattr(np, name)(angles).astype(np.float32)
            else:
                scale = 1 / math.sqrt(shape[0]) if name == "b" else 1
                values[name] = random.standard_normal(shape, dtype=np.float32) * np.float32(scale)
        return values


CACHE = [LAYERS, MODEL // HEAD, "n", HEAD]
TURNS = {"x": ["n", MODEL], "cos": ["n", HEAD // 2], "sin": ["n", HEAD // 2]}
ONE = {"x": [1, MODEL], "cos": [1, HEAD // 2], "sin": [1, HEAD // 2], "pk": CACHE, "pv": CACHE}
NORMS = {"g": (768,), "b": (768,)}
MLP = {"w1": (784, 512), "b1": (512,), "w2": (512, 10), "b2": (10,)}
CONVOLUTIONS = {
    "w1": (64, 256, 1, 1), "b1": (64,), "w2": (64, 64, 3, 3), "b2": (64,), "w3": (256, 64, 1, 1), "b3": (256,),
}
BERT = {name: shape for layer in range(12) for name, shape in block_weights(f"l{layer}_").items()}

WORKLOADS = {
    "elementwise": Workload(elementwise, {"x": ["n", 1024]}, {}, ROWS, lambda n: n * 1024 * (EXP + TANH + 4)),
    "softmax": Workload(softmax, {"x": ["n", 1024]}, {}, ROWS, lambda n: n * 1024 * (EXP + 4)),
    "layer_norm": Workload(layer_norm, {"x": ["n", 768]}, NORMS, ROWS, lambda n: n * 768 * 8),
    "rms_norm": Workload(rms_norm, {"x": ["n", 4096]}, {"g": (4096,)}, ROWS, lambda n: n * 4096 * 4),
    "gemm": Workload(product, {"a": ["n", 768], "b": [768, 2304]}, {}, SMALL, lambda n: 2 * n * 768 * 2304),
    "linear": Workload(linear, {"x": ["n", 768]}, {"w": (768, 2304)}, SMALL, lambda n: 2 * n * 768 * 2304),
    "products": Workload(product, {"a": ["m", "k"], "b": ["k", "n"]}, {}, PRODUCTS, lambda m, n, k: 2 * m * n * k),
    "mlp": Workload(mlp, {"x": ["n", 784]}, MLP, ROWS, lambda n: 2 * n * (784 * 512 + 5120)),
    "bottleneck": Workload(
        bottleneck, {"x": ["n", 256, 56, 56]}, CONVOLUTIONS, [{"n": n} for n in (1, 2, 7, 16)],
        lambda n: 2 * n * 56 * 56 * (2 * 256 * 64 + 9 * 64 * 64),
    ),
    "block": Workload(block, {"x": ["n", WIDE]}, block_weights(), [{"n": n} for n in (1, 17, 64, 128, 333, 476)], block_work),
    "bert": Workload(
        bert, {"x": ["n", WIDE]}, BERT, [{"n": n} for n in (1, 5, 17, 64, 128, 476)], lambda n: 12 * block_work(n)
    ),
    "llama_decode": Workload(
        lambda v, x, w: llama(v, x, w, True), ONE, llama_weights(), CACHED, lambda n: llama_work(1, n + 1)
    ),
    "llama_prefill": Workload(
        lambda v, x, w: llama(v, x, w, False), TURNS, llama_weights(), CACHED, lambda n: llama_work(n, n)
    ),
}
