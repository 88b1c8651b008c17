"""How far logits of quantized activations are from those of f32: ours, and those of llama.cpp, for the same GGUF file and tokens.

usage: python logits.py MODEL.gguf [--relax PATH] [--tokens 64] [--seed 1]

Needs numpy and llama-cpp-python of PyPI. The text of the model (`relax generate --program`) is run compiled, as it is and after the pass
`round_activations`, which `relax generate --activations q8` adds. Distances are root mean squares over all tokens and words, in units
of the standard deviation of the f32 logits; the greatest difference is told beside them. The exit code is 1 where ours are farther.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import llama_cpp
import numpy as np


def run(command, *rest):
    done = subprocess.run([command, *map(str, rest)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"relax {rest[0]}: {done.stderr}")
    return done.stdout


def own(arguments, tokens, folder):
    """Logits in f32, and of rounded activations."""
    text = folder / "model.rx"
    text.write_text(run(arguments.relax, "generate", arguments.model, "--tokens", "1,2", "--program"))
    caches = re.findall(r"\b((?:keys|values)\d+): Tensor\(\(\"b\", (\d+), \"capacity\", (\d+)\)", text.read_text().split("def score(")[1].split("->")[0])
    inputs = {"tokens": tokens[None]}
    inputs |= {name: np.zeros((1, int(heads), len(tokens), int(width)), "f4") for name, heads, width in caches}
    given = ["--input", "past=shape(0)"]
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
        given += ["--input", f"{name}=@{folder / name}.npy"]
    rounded = folder / "rounded.rx"
    run(arguments.relax, "opt", text, "--passes", "round_activations", "-o", rounded)
    found = []
    for program in (text, rounded):
        output = folder / "output.npz"
        run(arguments.relax, "run", program, "--entry", "score", "--params", arguments.model, "--backend", "cpu", *given, "--output", output)
        with np.load(output) as results:
            found.append(results["logits"][0].astype("f8"))
    return found


def peer(arguments, tokens):
    model = llama_cpp.Llama(arguments.model, n_ctx=len(tokens) + 8, n_batch=len(tokens), logits_all=True, verbose=False)
    model.eval(tokens.tolist())
    return np.array(model.scores[: len(tokens)], "f8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--relax", default="target/release/relax")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    dice = np.random.default_rng(arguments.seed)
    tokens = np.concatenate([[1], dice.integers(300, 31_999, arguments.tokens - 1)]).astype("i8")
    with tempfile.TemporaryDirectory() as folder:
        exact, ours = own(arguments, tokens, pathlib.Path(folder))
    theirs = peer(arguments, tokens)
    deviation = exact.std()
    print("| logits of | distance | greatest | most probable word of f32 |")
    print("|---|---|---|---|")
    distances = []
    for name, logits in (("relax, q8", ours), (f"llama.cpp {llama_cpp.__version__}", theirs)):
        apart = np.abs(logits - exact) / deviation
        distances.append(np.sqrt((apart**2).mean()))
        same = (logits.argmax(-1) == exact.argmax(-1)).sum()
        print(f"| {name} | {distances[-1]:.2e} | {apart.max():.2e} | {same} of {len(tokens)} |")
    # A NaN is farther than anything.
    sys.exit(0 if distances[0] <= distances[1] else 1)


if __name__ == "__main__":
    main()
