"""Real sizes with random weights: BERT-base, ViT-B/16, ResNet-50, and one block and the head of a Llama of 1.1 billion weights.

Texts are written as exporters of frameworks write them: weights lie as (outputs, inputs) and are transposed at each use, batch
normalization is an operator of its own, and rms norm, silu and rotary embeddings are spelled out.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "compile_time"))
from builds import WEIGHTS, bert, write  # noqa: E402


class Text:
    """Lines of a function, and the weights that it names."""

    def __init__(self, *params):
        self.lines = [f"def main({', '.join(params)}):"]
        self.weights = {}
        self.count = 0

    def say(self, expression):
        self.count += 1
        self.lines.append(f"    v{self.count} = {expression}")
        return f"v{self.count}"

    def weight(self, name, *shape):
        self.weights[name] = shape
        dims = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
        return self.say(f'param("{name}", Tensor(({dims}), "f32"))')

    def linear(self, value, name, inputs, outputs, bias=True):
        turned = self.say(f"permute_dims({self.weight(name + '.weight', outputs, inputs)}, [1, 0])")
        product = self.say(f"matmul({value}, {turned})")
        return self.say(f"add({product}, {self.weight(name + '.bias', outputs)})") if bias else product

    def done(self, value):
        return "\n".join(self.lines + [f"    return {value}"]) + "\n", self.weights


def bert_base():
    weights = {f"{name}{layer}": shape for layer in range(12) for name, shape in WEIGHTS.items()}
    text = bert()
    value = text.rsplit("return ", 1)[1].strip()
    pooled = [
        f"first = squeeze(strided_slice({value}, [1], [0], [1]), axis=[1])",
        'pooler = param("pooler", Tensor((768, 768), "f32"))',
        'bpooler = param("bpooler", Tensor((768,), "f32"))',
        "return tanh(add(matmul(first, pooler), bpooler))",
    ]
    text = text.rsplit("return ", 1)[0].rstrip() + "\n" + "".join(f"    {line}\n" for line in pooled)
    return text.replace("b, s = sym_var(), sym_var()", "b, s = sym_var(), sym_var(lower_bound=1)"), {
        **weights, "pooler": (768, 768), "bpooler": (768,)}


def vit_b16(layers=12, wide=768, heads=12):
    text = Text('x: Tensor(("b", 3, 224, 224), "f32")')
    text.lines.append("    b = sym_var()")
    patches = f"conv2d(x, {text.weight('patch.weight', wide, 3, 16, 16)}, strides=[16, 16])"
    patches = text.say(f"add({text.say(patches)}, reshape({text.weight('patch.bias', wide)}, (1, {wide}, 1, 1)))")
    rows = text.say(f"permute_dims(reshape({patches}, (b, {wide}, 196)), [0, 2, 1])")
    token = text.say(f"broadcast_to({text.weight('token', 1, 1, wide)}, (b, 1, {wide}))")
    value = text.say(f"add(concat([{token}, {rows}], axis=1), {text.weight('places', 1, 197, wide)})")
    norm = lambda value, name: text.say(
        f"layer_norm({value}, {text.weight(name + '.weight', wide)}, {text.weight(name + '.bias', wide)}, axes=[-1])")
    for layer in range(layers):
        own = f"layers.{layer}."
        normed = norm(value, own + "before")
        split = lambda part: text.say(
            f"permute_dims(reshape({text.linear(normed, own + part, wide, wide)}, (b, 197, {heads}, 64)), [0, 2, 1, 3])")
        q, k, v = split("q"), split("k"), split("v")
        scores = text.say(f'multiply(matmul({q}, permute_dims({k}, [0, 1, 3, 2])), const(0.125, "f32"))')
        mixed = text.say(f"permute_dims(matmul(softmax({scores}, axis=-1), {v}), [0, 2, 1, 3])")
        value = text.say(f"add({text.linear(text.say(f'reshape({mixed}, (b, 197, {wide}))'), own + 'out', wide, wide)}, {value})")
        hidden = text.say(f"gelu({text.linear(norm(value, own + 'after'), own + 'up', wide, 4 * wide)})")
        value = text.say(f"add({text.linear(hidden, own + 'down', 4 * wide, wide)}, {value})")
    first = text.say(f"squeeze(strided_slice({norm(value, 'last')}, [1], [0], [1]), axis=[1])")
    return text.done(text.linear(first, "head", wide, 1000))


def resnet_50():
    text = Text('x: Tensor(("b", 3, 224, 224), "f32")')

    def conv(value, name, shape, stride, active=True):
        padding = shape[2] // 2
        made = f"conv2d({value}, {text.weight(name + '.weight', *shape)}, strides=[{stride}, {stride}], padding=[{', '.join([str(padding)] * 4)}])"
        parts = ", ".join(text.weight(f"{name}.{part}", shape[0]) for part in ("scale", "shift", "mean", "variance"))
        normed = text.say(f"batch_norm({text.say(made)}, {parts}, axis=1, training=False)")
        return text.say(f"relu({normed}[0])" if active else f"{normed}[0]")

    value = conv("x", "stem", (64, 3, 7, 7), 2)
    value = text.say(f"max_pool2d({value}, pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1])")
    inputs = 64
    for stage, (blocks, inner) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)]):
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 0 else 1
            own = f"stages.{stage}.{block}."
            hidden = conv(value, own + "one", (inner, inputs, 1, 1), 1)
            hidden = conv(hidden, own + "two", (inner, inner, 3, 3), stride)
            hidden = conv(hidden, own + "three", (4 * inner, inner, 1, 1), 1, active=False)
            if block == 0:
                value = conv(value, own + "short", (4 * inner, inputs, 1, 1), stride, active=False)
            value, inputs = text.say(f"relu(add({hidden}, {value}))"), 4 * inner
    return text.done(text.linear(text.say(f"mean({value}, axis=[2, 3])"), "head", 2048, 1000))


def llama_block(wide=2048, heads=32, groups=4, inner=5632, words=32000):
    text = Text('x: Tensor(("b", "s", 2048), "f32")', 'cos: Tensor(("s", 64), "f32")', 'sin: Tensor(("s", 64), "f32")',
                'mask: Tensor(("s", "s"), "f32")')
    text.lines.append("    b, s = sym_var(), sym_var(lower_bound=1)")

    def norm(value, name):
        mean = text.say(f"mean(multiply({value}, {value}), axis=[-1], keepdims=True)")
        scaled = text.say(f'multiply({value}, rsqrt(add({mean}, const(1e-5, "f32"))))')
        return text.say(f"multiply({text.weight(name, wide)}, {scaled})")

    def turned(value, count):
        halves = [text.say(f"strided_slice({value}, [3], [{begin}], [{begin + 32}])") for begin in (0, 32)]
        other = text.say(f"concat([negative({halves[1]}), {halves[0]}], axis=3)")
        return text.say(f"add(multiply({value}, cos), multiply({other}, sin))")

    normed = norm(x := "x", "before")
    split = lambda name, count: text.say(
        f"permute_dims(reshape({text.linear(normed, name, wide, 64 * count, bias=False)}, (b, s, {count}, 64)), [0, 2, 1, 3])")
    q, k, v = turned(split("q", heads), heads), turned(split("k", groups), groups), split("v", groups)
    k, v = (text.say(f"repeat({part}, {heads // groups}, axis=1)") for part in (k, v))
    scores = text.say(f'add(multiply(matmul({q}, permute_dims({k}, [0, 1, 3, 2])), const(0.125, "f32")), mask)')
    mixed = text.say(f"reshape(permute_dims(matmul(softmax({scores}, axis=-1), {v}), [0, 2, 1, 3]), (b, s, {wide}))")
    value = text.say(f"add({x}, {text.linear(mixed, 'out', wide, wide, bias=False)})")
    normed = norm(value, "after")
    gate = text.linear(normed, "gate", wide, inner, bias=False)
    hidden = text.say(f"multiply(multiply({gate}, sigmoid({gate})), {text.linear(normed, 'up', wide, inner, bias=False)})")
    value = text.say(f"add({value}, {text.linear(hidden, 'down', inner, wide, bias=False)})")
    logits = text.linear(norm(value, "last"), "head", wide, words, bias=False)
    return text.done(text.say(f"squeeze(strided_slice({logits}, [1], [s - 1], [s]), axis=[1])"))


# Name, text and weights, and the dims that are measured.
MODELS = {
    "BERT-base": (bert_base, {"b": 1, "s": 128}),
    "ViT-B/16": (vit_b16, {"b": 1}),
    "ResNet-50": (resnet_50, {"b": 1}),
    "Llama 1.1B, a block and the head": (llama_block, {"b": 1, "s": 64}),
}


def made(name, folder):
    """The files of a model: its text and its weights."""
    text, weights = MODELS[name][0]()
    stem = name.split(",")[0].replace("/", "-").replace(" ", "-")
    program, values = folder / f"{stem}.rx", folder / f"{stem}.safetensors"
    program.write_text(text, encoding="utf-8")
    write(values, weights)
    return program, values
