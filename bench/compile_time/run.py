"""How long `relax opt FILE --to P2.3` takes: the sentence encoder, and chains of 1,000 to 100,000 operators.

usage: python run.py [--relax PATH] [--sizes N,...] [--repeat N] [--output FILE.md]

See README.md beside this file.
"""

import argparse
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHOWN_PASSES = 5

HEADER = """\
def main(x: Tensor(("n", 64), "f32"), w: Tensor((64, 64), "f32"), b: Tensor((64,), "f32")):
    n = sym_var()
    with dataflow():
"""

# A running sum along the rows needs the element before: no call of it is fused with another.
SCAN = """\
@tensorir_function
def scan(X: Buffer(("m", 64), "f32"), Y: Buffer(("m", 64), "f32")):
    for i in range(m):
        Y[i, 0] = X[i, 0]
        for j in range(63):
            Y[i, j + 1] = Y[i, j] + X[i, j + 1]
"""


# What a chain is made of beside products; `before(k)` is the value of k places before.
ELEMENTWISE = [
    lambda before: f"relu({before(1)})",
    lambda before: f"add({before(1)}, b)",
    lambda before: f'multiply({before(1)}, const(0.5, "f32"))',
    lambda before: f"exp({before(1)})",
]
# Every so many places a product, or a sum with an earlier value, which is then used twice.
PRODUCT, SUM = 50, 20


def chain(size, expression):
    name = lambda at: f"v{at}" if at >= 0 else "x"
    lines = [
        f"        {name(at)} = {expression(at, lambda back, at=at: name(at - back))}\n"
        for at in range(size)
    ]
    last = name(size - 1)
    return HEADER + "".join(lines) + f"        output({last})\n    return {last}\n"


def layers(size):
    """The same operators again and again, as the layers of a model: few different tensor programs."""

    def expression(at, before):
        if at % PRODUCT == PRODUCT - 1:
            return f"matmul({before(1)}, w)"
        if at % SUM == SUM - 1:
            return f"add({before(1)}, {before(7)})"
        return ELEMENTWISE[at % len(ELEMENTWISE)](before)

    return chain(size, expression)


def mixed(size):
    """In no order that comes again: nearly every group of fused calls is another one."""
    dice = random.Random(2026)

    def expression(_at, before):
        at = dice.random()
        if at < 1 / PRODUCT:
            return f"matmul({before(1)}, w)"
        if at < 1 / PRODUCT + 1 / SUM:
            return f"add({before(1)}, {before(2 + int(dice.random() * 8))})"
        return ELEMENTWISE[int(dice.random() * len(ELEMENTWISE))](before)

    return chain(size, expression)


def unfused(size):
    """Calls of a tensor program none of which can be fused with another."""
    call = lambda _at, before: f'call_tir(scan, [{before(1)}], Tensor((n, 64), "f32"))'
    return SCAN + "\n\n" + chain(size, call)


CHAINS = [layers, mixed, unfused]


def children():
    """Seconds that processes which have ended had of the processor."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Measured:
    """The median of some runs, with the times of its passes."""

    def __init__(self, binary, path, repeat):
        runs = [self.once(binary, path) for _ in range(repeat)]
        runs.sort(key=lambda run: run[0])
        self.seconds, self.cpu, self.passes = runs[len(runs) // 2]

    @staticmethod
    def once(binary, path):
        command = [binary, "opt", str(path), "--to", "P2.3", "--time"]
        start, cpu = time.perf_counter(), children()
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            done = subprocess.run(command, stdout=nowhere, stderr=subprocess.PIPE, text=True, check=False)
        seconds, cpu = time.perf_counter() - start, children() - cpu
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: {done.stderr}")
        passes = {}
        # A pass that is run more than once is one row.
        for milliseconds, name in re.findall(r"^ *([0-9.]+) ms  (\w+)$", done.stderr, re.MULTILINE):
            passes[name] = passes.get(name, 0.0) + float(milliseconds)
        return seconds, cpu, passes

    def row(self, name, size, ratio):
        return f"| {name} | {size} | {self.seconds:.2f} | {self.cpu:.2f} | {ratio} | {self.slowest()} |"

    def slowest(self):
        rows = sorted(self.passes.items(), key=lambda row: -row[1])[:SHOWN_PASSES]
        return ", ".join(f"{name} {milliseconds / 1000:.2f}" for name, milliseconds in rows)


def rows(make, sizes, folder, measure):
    name, before = make.__name__, None
    for size in sizes:
        path = folder / f"{name}_{size}.rx"
        path.write_text(make(size), encoding="utf-8")
        measured = measure(path)
        ratio = f"{measured.cpu / before:.1f}" if before else "–"
        before = measured.cpu
        yield measured.row(name, f"{size:,}", ratio)


def table(binary, sizes, repeat):
    yield "| program | operators | seconds | CPU | times the row above | five slowest passes, seconds |"
    yield "|---|---|---|---|---|---|"
    measure = lambda path: Measured(binary, path, repeat)
    encoder = measure(ROOT / "corpus/models/minilm.rx")
    yield encoder.row("minilm.rx", "–", "–")
    with tempfile.TemporaryDirectory() as folder:
        for make in CHAINS:
            yield from rows(make, sizes, Path(folder), measure)


def show(lines, output):
    """Prints lines as they come, and writes them to a file if there is a path."""
    shown = []
    for line in lines:
        print(line, flush=True)
        shown.append(line)
    if output:
        Path(output).write_text("\n".join(shown) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--relax", default=str(ROOT / "target/release/relax"))
    parser.add_argument("--sizes", default="1000,10000,100000", help="operators of the chains")
    parser.add_argument("--repeat", type=int, default=1, help="runs, of which the median is shown")
    parser.add_argument("--output", help="also write the table to this file")
    parser.add_argument("--write", metavar="FOLDER", help="only write the chains there")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sizes.split(",")]
    if arguments.write:
        for size in sizes:
            for make in CHAINS:
                path = Path(arguments.write) / f"{make.__name__}_{size}.rx"
                path.write_text(make(size), encoding="utf-8")
        return
    show(table(arguments.relax, sizes, arguments.repeat), arguments.output)


if __name__ == "__main__":
    main()
