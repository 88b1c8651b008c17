"""Training steps beside PyTorch, eager and compiled, in one run: the two models of scripts/train.

    python3 bench/train/run.py [--threads 1,2] [--dtype f64,f32] [--steps 40] [MODEL...]

Needs the package `relaxc` (docs/PYTHON.md), PyTorch and, for torch.compile, a C++ compiler and Python's headers. Each competitor is
a process of its own, on as many cores as it has threads. All take the same steps from the same weights, each with another shape
(scripts/train/beside.py). The first pass over them is not counted: compilation belongs to it, for every shape that a competitor
compiles for, and its seconds are told apart. Then competitors take the steps in turns, after a pause, since threads wait for work for
a while; of each step the least of all turns counts. Times are the mean of these over the steps: of loss and gradients, and of the whole
step, which adds clipping and AdamW. In f64 losses must agree with those of eager PyTorch within 1e-8 at each step.

Columns: milliseconds; how many times as fast as the competitor relax is; compilations of torch.compile and the seconds of the first pass.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parent.parent.parent / "scripts" / "train"))

MODELS = ("char_transformer", "resnet")
AGAINST = ("relax", "eager", "compiled")
TURNS, PAUSE = 7, 0.3
#: Relative, of losses in f64.
LIMIT = 1e-8
SEED = 1


class Worker:
    """One competitor, in its own process."""

    def __init__(self, name, model, dtype, threads, steps):
        import beside
        import numpy
        import torch

        self.beside, self.numpy, self.torch = beside, numpy, torch
        module = __import__(model)
        self.name, self.dtype, self.threads, self.loss = name, dtype, threads, module.loss
        self.values = module.weights(numpy.random.default_rng(SEED))
        random = numpy.random.default_rng(SEED + 1)
        self.batches = [module.batch(random, step, dtype) for step in range(1, steps + 1)]
        torch.set_num_threads(threads)
        if name == "relax":
            self.own = beside.Own(module.PROGRAM, self.values, dtype, threads)
            self.first = dict(self.own.values), dict(self.own.moments)
        elif name == "compiled":
            # More than the default of 8 compilations, so that none of the shapes falls back to the interpreter.
            torch._dynamo.config.recompile_limit = 64
            self.loss = torch.compile(module.loss, dynamic=True)

    def turn(self):
        """Seconds of gradients and of the whole step, and the loss, for each of the steps."""
        made = []
        if self.name == "relax":
            self.own.values, self.own.moments = (dict(one) for one in self.first)
        else:
            other = self.beside.Torch(self.loss, self.values, self.dtype, self.threads)
        for step, batch in enumerate(self.batches, 1):
            begin = time.perf_counter()
            if self.name == "relax":
                loss, gradients = self.own.backward(batch)
                middle = time.perf_counter()
                self.own.update(step, gradients)
            else:
                loss, _ = other.backward(batch)
                middle = time.perf_counter()
                other.update()
            made.append((middle - begin, time.perf_counter() - begin, loss))
        return made

    def compilations(self):
        if self.name != "compiled":
            return 1 if self.name == "relax" else 0
        return self.torch._dynamo.utils.counters["stats"]["unique_graphs"]


def work(name, model, dtype, threads, steps):
    """Answers each line with a turn."""
    begin = time.perf_counter()
    worker = Worker(name, model, dtype, int(threads), int(steps))
    worker.turn()
    print(json.dumps({"first": time.perf_counter() - begin, "compilations": worker.compilations()}), flush=True)
    for _ in sys.stdin:
        print(json.dumps(worker.turn()), flush=True)


class Competitor:
    def __init__(self, name, model, dtype, threads, steps):
        self.name = name
        keys = ("RELAX_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        # Freed memory stays in the process, as in bench/peers/run.py.
        kept = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 35)}
        arguments = [sys.executable, str(HERE), "--worker", name, model, dtype, str(threads), str(steps)]
        environment = {**os.environ, **dict.fromkeys(keys, str(threads)), **kept}
        self.process = subprocess.Popen(
            ["taskset", "-c", ",".join(str(core) for core in range(threads)), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )
        self.start = self.answer()
        self.least = None

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} ended with {self.process.wait()}")
        return json.loads(line)

    def turn(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        made = self.answer()
        self.losses = [loss for _, _, loss in made]
        times = [made_step[:2] for made_step in made]
        self.least = times if self.least is None else [tuple(map(min, old, new)) for old, new in zip(self.least, times)]

    def milliseconds(self):
        """The mean over the steps, of gradients and of whole steps."""
        return tuple(1e3 * sum(column) / len(column) for column in zip(*self.least))

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def distance(one, other):
    """The greatest relative distance of losses. NaN is no agreement."""
    distances = [abs(mine - its) / abs(its) for mine, its in zip(one, other, strict=True)]
    return max(distances) if all(value == value for value in distances) else float("inf")


def compare(model, dtype, threads, args):
    """Prints a row for each competitor; whether losses agree."""
    competitors = [Competitor(name, model, dtype, threads, args.steps) for name in args.against]
    for _ in range(args.turns):
        for competitor in competitors:
            time.sleep(PAUSE)
            competitor.turn()
    times = {one.name: one.milliseconds() for one in competitors}
    own, agree = times.get("relax"), True
    losses = next((one.losses for one in competitors if one.name == "eager"), competitors[0].losses)
    for one in competitors:
        apart = distance(one.losses, losses)
        agree &= dtype != "f64" or apart <= LIMIT
        ratios = [f"{its / mine:.2f}" for its, mine in zip(times[one.name], own)] if own else ["", ""]
        gradients, step = (f"{value:.3f}" for value in times[one.name])
        start = one.start
        print(
            f"| {model} | {dtype} | {threads} | {one.name} | {gradients} | {ratios[0]} | {step} | {ratios[1]} | "
            f"{start['compilations']} | {start['first']:.1f} | {apart:.1e} |",
            flush=True,
        )
        one.end()
    return agree


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", default=MODELS)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--dtype", default="f64,f32")
    parser.add_argument("--steps", type=int, default=40, help="each of another shape")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--against", default=",".join(AGAINST), help="who takes part")
    args = parser.parse_args()
    args.against = args.against.split(",")
    for wrong in {*args.models} - {*MODELS} | {*args.against} - {*AGAINST}:
        parser.error(f"`{wrong}` is not one of {', '.join((*MODELS, *AGAINST))}")
    print("| model | dtype | threads | who | gradients, ms | relax is faster | step, ms | relax is faster | compilations | first pass, s | losses apart |")
    print("|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    cases = [(model, dtype, int(threads)) for model in args.models for dtype in args.dtype.split(",") for threads in args.threads.split(",")]
    return 0 if all([compare(*case, args) for case in cases]) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        sys.exit(work(*sys.argv[2:]))
    sys.exit(main())
