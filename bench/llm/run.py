"""Speed of a language model: `relax generate` and llama.cpp on the same GGUF file, in one run.

usage: python run.py MODEL.gguf [--relax PATH] [--threads 1,2] [--prefill 16,128,512] [--decode 16,512,2048] [--activations q8,f32] [--repeat 3] [--output FILE.md]
       python run.py MODEL.gguf --clients 1,2,4,8 [--relax PATH] [--threads 1,2] [--decode 16] [--activations q8,f32] [--output FILE.md]

make_model.py makes a model. llama.cpp is measured where llama-cpp-python (PyPI, built from its source) can be imported, by this
Python, and the products alone by onnxruntime's 4-bit operator (products.py) where onnx and onnxruntime can. Prompts are random tokens. Decoding is the median of 24 steps after a prompt of so many tokens. Each is
measured --repeat times in turns with llama.cpp, and the medians are told. The share of the bandwidth is that of the weights which a step reads in whole, against what as many threads read
right after the steps. The machine should do nothing else; ratios say more than times.

With --clients `relax serve` answers so many clients at once. Each sends a prompt of its own and gets 48 tokens as a stream. Tokens are counted
from the moment at which all clients have their first one until one of them has its last: all sequences decode in that time.
"""

import argparse
import importlib.util
import json
import random
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
STEPS = 24
ANSWER = 48


def prompt(count, client=0):
    dice = random.Random(count + 100_000 * client)
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


def products(count, threads):
    """Tokens a second of the products alone, by onnxruntime."""
    command = [sys.executable, str(Path(__file__).with_name("products.py")), str(count), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"onnxruntime: {done.stderr}")
    return float(done.stdout)


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
            name = f"prefill of {count}" if kind == "prefill" else f"decode after {count}"
            others, runs = [], {activations: [] for activations in formats}
            for _ in range(arguments.repeat):
                others += [peer(arguments, count, threads, steps)[key]] if has_peer else []
                for activations in formats:
                    found = own(arguments, activations, count, threads, steps)
                    runs[activations].append(found)
            for activations in formats:
                speed = median(run[key] for run in runs[activations])
                share = f"{median(run['share_of_read'] for run in runs[activations]):.0%}" if kind == "decode" else "–"
                cells = [f"{median(others):.1f}", f"{speed / median(others):.2f}"] if has_peer else ["–", "–"]
                yield f"| {name} | {threads} | {activations} | {speed:.1f} | {share} | {cells[0]} | {cells[1]} |"
    yield ""
    yield f"Peak memory {found['peak_memory_bytes'] / 2**20:.0f} MiB with {found['weight_bytes'] / 2**20:.0f} MiB of weights, loaded in {found['loading_seconds']:.2f} s; {found['allocations_per_step']} allocations in the last step."
    if not all(importlib.util.find_spec(name) for name in ["onnx", "onnxruntime"]):
        return
    yield ""
    yield "| products of the model alone, by onnxruntime's MatMulNBits | " + " | ".join(f"{threads} threads" for threads in numbers(arguments.threads)) + " |"
    yield "|---" * (1 + len(numbers(arguments.threads))) + "|"
    for count in [1, *numbers(arguments.prefill)]:
        cells = [f"{products(count, threads):.1f}" for threads in numbers(arguments.threads)]
        yield f"| {count} rows, tokens/s | " + " | ".join(cells) + " |"


class Client(threading.Thread):
    """Streams an answer and notes when each token comes."""

    def __init__(self, address, model, count, client, start):
        super().__init__()
        self.body = {"model": model, "prompt": prompt(count, client), "max_tokens": ANSWER, "temperature": 1, "seed": client, "stream": True, "logprobs": 0}
        self.address, self.start_barrier, self.times = address, start, []

    def run(self):
        request = urllib.request.Request(f"http://{self.address}/v1/completions", json.dumps(self.body).encode(), {"content-type": "application/json"})
        self.start_barrier.wait()
        with urllib.request.urlopen(request) as answer:
            for line in answer:
                if line.startswith(b"data: {") and json.loads(line[6:])["choices"][0]["finish_reason"] is None:
                    self.times.append(time.perf_counter())


def together(address, model, count, clients):
    """Tokens a second of all clients while all of them decode."""
    start = threading.Barrier(clients)
    threads = [Client(address, model, count, client, start) for client in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    begin, end = max(thread.times[0] for thread in threads), min(thread.times[-1] for thread in threads)
    return sum(begin < moment <= end for thread in threads for moment in thread.times) / (end - begin)


def served(arguments):
    numbers = lambda text: [int(number) for number in text.split(",")]
    clients = numbers(arguments.clients)
    yield "| what | threads | activations | " + " | ".join(f"{count} clients" if count > 1 else "1 client" for count in clients) + " |"
    yield "|---" * (3 + len(clients)) + "|"
    for activations in arguments.activations.split(","):
        own(arguments, activations, 2, 1, 1)
        for threads in numbers(arguments.threads):
            command = [arguments.relax, "serve", arguments.model, "--listen", "127.0.0.1:0", "--model-name", "model", "--parallel", str(max(clients))]
            command += ["--threads", str(threads), "--activations", activations, "--format", "json"]
            server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            try:
                address = json.loads(server.stdout.readline())["address"]
                for count in numbers(arguments.decode):
                    together(address, "model", 2, 1)
                    found = [together(address, "model", count, each) for each in clients]
                    cells = [f"{rate:.1f} ({rate / found[0]:.2f})" for rate in found]
                    yield f"| decode after {count} | {threads} | {activations} | " + " | ".join(cells) + " |"
            finally:
                server.terminate()
                server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--relax", default=str(ROOT / "target/release/relax"))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--prefill", default="16,128,512")
    parser.add_argument("--decode", default="16,512,2048")
    parser.add_argument("--activations", default="q8,f32")
    parser.add_argument("--repeat", type=int, default=3, choices=range(1, 100), metavar="TIMES")
    parser.add_argument("--clients")
    parser.add_argument("--output")
    arguments = parser.parse_args()
    lines = []
    for line in served(arguments) if arguments.clients else rows(arguments):
        print(line, flush=True)
        lines.append(line)
    if arguments.output:
        Path(arguments.output).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
