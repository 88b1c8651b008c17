"""Speed of a language model: `relax generate` and llama.cpp on the same GGUF file, in one run.

usage: python run.py MODEL.gguf [--relax PATH] [--threads 1,2] [--prefill 16,128,512] [--decode 16,512,2048] [--activations q8,f32] [--output FILE.md]

make_model.py makes a model. llama.cpp is measured where llama-cpp-python (PyPI, built from its source) can be imported, by this
Python. Prompts are random tokens. Decoding is the median of 24 steps after a prompt of so many tokens. The machine should do nothing
else; ratios say more than times.
"""

import argparse
import importlib.util
import json
import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STEPS = 24


def prompt(count):
    dice = random.Random(count)
    return [1] + [dice.randrange(300, 31_999) for _ in range(count - 1)]


def own(arguments, activations, count, threads, steps):
    """What `--bench` tells."""
    command = [arguments.relax, "generate", arguments.model, "--tokens", ",".join(map(str, prompt(count)))]
    command += ["--max-tokens", str(steps + 1), "--threads", str(threads), "--bench", "--format", "json", "--activations", activations]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command[:3])}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def peer(arguments, count, threads, steps):
    """Tokens a second of the prompt, and of the median step."""
    program = f"""
import time
from statistics import median
from llama_cpp import Llama
model = Llama({arguments.model!r}, n_ctx=4096, n_threads={threads}, n_threads_batch={threads}, n_batch=512, verbose=False)
def timed(tokens):
    start = time.perf_counter()
    model.eval(tokens)
    return time.perf_counter() - start
timed({prompt(8)!r})
model.reset()
first = timed({prompt(count)!r})
steps = [timed([300 + step]) for step in range({steps})]
print({count} / first, 1 / median(steps) if steps else 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"llama.cpp: {done.stderr}")
    prefill, decode = map(float, done.stdout.split()[-2:])
    return {"prefill_tokens_per_second": prefill, "decode_tokens_per_second": decode}


def rows(arguments):
    has_peer = importlib.util.find_spec("llama_cpp") is not None
    numbers = lambda text: [int(number) for number in text.split(",")]
    yield "| what | threads | activations | tokens/s | share of the measured read bandwidth | llama.cpp, tokens/s | own / llama.cpp |"
    yield "|---|---|---|---|---|---|---|"
    formats = arguments.activations.split(",")
    # The first call compiles the model.
    for activations in formats:
        own(arguments, activations, 2, 1, 1)
    for threads in numbers(arguments.threads):
        kinds = [("prefill", 0, count) for count in numbers(arguments.prefill)]
        kinds += [("decode", STEPS, count) for count in numbers(arguments.decode)]
        for kind, steps, count in kinds:
            key = f"{kind}_tokens_per_second"
            other = peer(arguments, count, threads, steps)[key] if has_peer else None
            name = f"prefill of {count}" if kind == "prefill" else f"decode after {count}"
            for activations in formats:
                found = own(arguments, activations, count, threads, steps)
                share = f"{found['share_of_read']:.0%}" if kind == "decode" else "–"
                cells = ["–", "–"] if other is None else [f"{other:.1f}", f"{found[key] / other:.2f}"]
                yield f"| {name} | {threads} | {activations} | {found[key]:.1f} | {share} | {cells[0]} | {cells[1]} |"
    yield ""
    yield f"Peak memory {found['peak_memory_bytes'] / 2**20:.0f} MiB with {found['weight_bytes'] / 2**20:.0f} MiB of weights, loaded in {found['loading_seconds']:.2f} s; {found['allocations_per_step']} allocations in the last step."


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--relax", default=str(ROOT / "target/release/relax"))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--prefill", default="16,128,512")
    parser.add_argument("--decode", default="16,512,2048")
    parser.add_argument("--activations", default="q8,f32")
    parser.add_argument("--output")
    arguments = parser.parse_args()
    lines = []
    for line in rows(arguments):
        print(line, flush=True)
        lines.append(line)
    if arguments.output:
        Path(arguments.output).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
