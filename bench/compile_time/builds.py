"""How long `relax build FILE` takes with an empty cache and with a full one: small models, the sentence encoder, BERT-base.

usage: python builds.py [--relax PATH] [--before PATH] [--rounds N] [--output FILE.md]

See README.md beside this file.
"""

import argparse
import array
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from run import ROOT, show

MODELS = ["onnx/bert.onnx", "onnx/gpt2.onnx", "llama_decoder.rx"]
WIDE, INNER, HEADS, LAYERS = 768, 3072, 12, 12
WEIGHTS = {
    "q": (WIDE, WIDE), "k": (WIDE, WIDE), "v": (WIDE, WIDE), "o": (WIDE, WIDE), "up": (WIDE, INNER), "down": (INNER, WIDE),
    "bq": (WIDE,), "bk": (WIDE,), "bv": (WIDE,), "bo": (WIDE,), "bup": (INNER,), "bdown": (WIDE,),
    "g1": (WIDE,), "e1": (WIDE,), "g2": (WIDE,), "e2": (WIDE,),
}


def bert():
    """The text of twelve layers that normalize last, with symbolic batch and length."""
    lines = ['def main(x: Tensor(("b", "s", 768), "f32")):', "    b, s = sym_var(), sym_var()"]
    say = lambda line: lines.append("    " + line)
    value = "x"
    for layer in range(LAYERS):
        name = lambda part, layer=layer: f"{part}{layer}"
        for weight, shape in WEIGHTS.items():
            dims = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
            say(f'{name(weight)} = param("{name(weight)}", Tensor(({dims}), "f32"))')
        for part in "qkv":
            say(f"{name('p' + part)} = add(matmul({value}, {name(part)}), {name('b' + part)})")
            rows = f"reshape({name('p' + part)}, (b, s, {HEADS}, {WIDE // HEADS}))"
            say(f"{name('h' + part)} = permute_dims({rows}, (0, 2, 1, 3))")
        say(f"{name('ht')} = permute_dims({name('hk')}, (0, 1, 3, 2))")
        say(f'{name("score")} = multiply(matmul({name("hq")}, {name("ht")}), const(0.125, "f32"))')
        say(f"{name('mixed')} = matmul(softmax({name('score')}, axis=-1), {name('hv')})")
        say(f"{name('rows')} = reshape(permute_dims({name('mixed')}, (0, 2, 1, 3)), (b, s, {WIDE}))")
        say(f"{name('a')} = add({value}, add(matmul({name('rows')}, {name('o')}), {name('bo')}))")
        say(f"{name('n')} = layer_norm({name('a')}, {name('g1')}, {name('e1')}, axes=[-1])")
        say(f"{name('f')} = gelu(add(matmul({name('n')}, {name('up')}), {name('bup')}))")
        say(f"{name('c')} = add({name('n')}, add(matmul({name('f')}, {name('down')}), {name('bdown')}))")
        say(f"{name('out')} = layer_norm({name('c')}, {name('g2')}, {name('e2')}, axes=[-1])")
        value = name("out")
    say(f"return {value}")
    return "\n".join(lines) + "\n"


def write(path, weights):
    """Random weights by name and shape as safetensors: blocks of the same 2^16 numbers. Scales and variances are positive."""
    dice = random.Random(2026)
    numbers = [dice.uniform(-0.05, 0.05) for _ in range(1 << 16)]
    blocks = [array.array("f", values).tobytes() for values in (numbers, [1 + number for number in numbers])]
    header, at = {}, 0
    for name, shape in weights.items():
        size = 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in weights.items():
            block = blocks[name.endswith((".scale", ".variance"))]
            left = 4 * math.prod(shape)
            while left > 0:
                file.write(block[: min(left, len(block))])
                left -= len(block)


def write_weights(path):
    """Those of BERT-base."""
    write(path, {f"{name}{layer}": shape for layer in range(LAYERS) for name, shape in WEIGHTS.items()})


def cases(folder):
    """Name, program and arguments."""
    for name in MODELS:
        yield name, ROOT / "corpus/models" / name, []
    weights = sorted((ROOT / ".cache/minilm").rglob("*.safetensors"))
    if weights:
        yield "minilm.rx", ROOT / "corpus/models/minilm.rx", ["--params", str(weights[0])]
    else:
        print("minilm.rx is left out: ./setup.sh minilm fetches its weights", file=sys.stderr)
    program, weights = folder / "bert_base.rx", folder / "bert_base.safetensors"
    program.write_text(bert(), encoding="utf-8")
    write_weights(weights)
    yield "BERT-base", program, ["--params", str(weights)]


def seconds(binary, program, arguments, cache):
    # An older build is exact by default, which the C compiler has less work with.
    command = [binary, "build", str(program), *arguments, "--fast", "-o", str(cache / "module.rxm")]
    start = time.perf_counter()
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stdout}")
    return time.perf_counter() - start


def measured(binaries, program, arguments, rounds):
    """The least seconds of each binary, cold and warm; the binaries take turns."""
    least = {}
    for _ in range(rounds):
        for binary in binaries:
            with tempfile.TemporaryDirectory() as folder:
                for state in ("cold", "warm"):
                    took = seconds(binary, program, arguments, Path(folder))
                    least[binary, state] = min(took, least.get((binary, state), took))
    return least


def table(binaries, rounds):
    heads = ["cold", "warm"] + (["cold before", "warm before", "cold, before / now"] if len(binaries) > 1 else [])
    yield "| program | " + " | ".join(heads) + " |"
    yield "|---" * (len(heads) + 1) + "|"
    with tempfile.TemporaryDirectory() as folder:
        for name, program, arguments in cases(Path(folder)):
            least = measured(binaries, program, arguments, rounds)
            cells = [f"{least[binary, state]:.2f}" for binary in binaries for state in ("cold", "warm")]
            if len(binaries) > 1:
                cells.append(f"{least[binaries[1], 'cold'] / least[binaries[0], 'cold']:.2f}")
            yield f"| {name} | " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--relax", default=str(ROOT / "target/release/relax"))
    parser.add_argument("--before", help="an older build, in turns")
    parser.add_argument("--rounds", type=int, default=3, help="of which the least time is shown")
    parser.add_argument("--output", help="also write the table to this file")
    arguments = parser.parse_args()
    binaries = [arguments.relax] + ([arguments.before] if arguments.before else [])
    show(table(binaries, arguments.rounds), arguments.output)


if __name__ == "__main__":
    main()
