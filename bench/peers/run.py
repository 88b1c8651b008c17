"""Whole functions against what people use instead, one and two threads, in one run.

    cargo build --release -p relax-cli -p relax-capi
    python3 -m venv peers && peers/bin/pip install numpy scipy onnx onnxruntime torch jax iree-base-compiler \\
        iree-base-runtime apache-tvm ./python
    peers/bin/python bench/peers/run.py [--threads 1,2] [--against NAME,...] [WORKLOAD...]
    peers/bin/python bench/peers/run.py --ours OLD,NEW [--rounds 3] [--threads 1,2] [WORKLOAD...]

Needs numpy, scipy and onnx; a competitor that is not installed, refuses a workload or gives something else is left out, with a line
that says so. Workloads are those of `workloads.py`; ours, onnxruntime, IREE and TVM get the same file of ONNX. Each
competitor is a process of its own, on as many cores as it has threads. They are called in turns, half of them after a
pause, since threads wait for more work for a while on the cores that the next one needs; of each the least of many times
counts. Who takes more than 4 times as long as the best is not asked again, and after three turns 1.5 times. Freed memory stays
in every process: first touches of pages would cost many of them more than their arithmetic. Each result is held against
NumPy's in f64 first (f32 where one input has over 2^28 elements). Last come the geometric means of the best
competitor's time over ours, and how far cases are from what the machine can do: the larger of its arithmetic and of the
bytes of inputs, weights and results, each read or written once, both limits measured in the same run on one core.

With --ours two builds of ours are compared instead, OLD and NEW being folders with `relax` and `librelax_capi.so` such as
target/release of two checkouts. OLD runs twice, in processes of its own: how far it is from itself is the noise. A case counts as
slower where NEW takes more than 1 / 0.95 of OLD's time in most of the rounds.
"""

import argparse
import importlib.metadata
import json
import math
import os
import select
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from vocabulary import Numeric, write_onnx  # noqa: E402
from workloads import WORKLOADS  # noqa: E402

# Who, and which package tells the version.
AGAINST = {
    "relaxc": "relaxc", "numpy": "numpy", "onnxruntime": "onnxruntime", "torch": "torch", "torch.compile": "torch", "jax": "jax",
    "iree": "iree-base-compiler", "tvm": "apache-tvm",
}
# By C and by Python; neither is a peer of the other.
OURS = ("relax", "relaxc")
TURNS, TURN, PAUSE = 10, 0.04, 0.05
PATIENCE = 300
SAME = 1e-4


class Competitor:
    """A process that is asked by lines of JSON."""

    def __init__(self, name, threads, folder, build=None):
        self.name, self.threads, self.folder, self.build, self.process = name, threads, folder, build, None

    def ask(self, **order):
        """The answer, or None after a line that says why there is none."""
        if "load" in order:
            self.end()
            names = ("RELAX_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS")
            kept = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 35)}
            single = "--xla_cpu_multi_thread_eigen=false" if self.threads == 1 else ""
            environment = {**os.environ, **dict.fromkeys(names, str(self.threads)), **kept, "XLA_FLAGS": single}
            if self.build:
                # Kernels of another build are none of this one.
                own = {"BUILD_OF_OURS": self.build, "XDG_CACHE_HOME": os.path.join(self.folder, "cache")}
                environment.update(own)
            who = "relax" if self.build else self.name
            self.process = subprocess.Popen(
                [sys.executable, os.path.join(HERE, "worker.py"), who, str(self.threads), self.folder],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
            )
        if self.process is None:
            return None
        why = f"no answer in {PATIENCE} s"
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
            if select.select([self.process.stdout], [], [], PATIENCE)[0]:
                line = self.process.stdout.readline()
                answer = json.loads(line) if line else {"error": f"it ended with {self.process.wait()}"}
                if "error" not in answer:
                    return answer
                why = answer["error"]
        except BrokenPipeError:
            why = f"it ended with {self.process.wait()}"
        print(f"<!-- {self.name}, {order}: {why} -->".replace("\n", " "), flush=True)
        self.end()
        return None

    def end(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def roof(folder):
    """GFLOP/s and GB/s of one core, as bench/kernels measures them."""
    sys.path.insert(0, os.path.join(HERE, "..", "kernels"))
    import run as kernels
    return kernels.limits(folder)


def wanted_results(np, workload, case):
    from scipy.special import erf
    inputs, weights = workload.values_of_inputs(np, case), workload.values_of_weights(np)
    if max(value.size for value in inputs.values()) < 1 << 28:
        inputs, weights = ({k: v.astype(np.float64) for k, v in values.items()} for values in (inputs, weights))
    return workload.build(Numeric(np, erf), inputs, weights)


def is_same(np, answer, wanted):
    found = [np.load(path).reshape(-1) for path in answer["results"]]
    if len(found) != len(wanted):
        return False
    near = lambda a, b: a.size == b.size and np.abs(a - b).max() <= SAME * max(1.0, np.abs(b).max())  # noqa: E731
    return all(near(a, b.reshape(-1)) for a, b in zip(found, wanted))


def times_of(np, competitors, case, wanted):
    """Seconds of each competitor that gives the right results."""
    racing = []
    for competitor in competitors:
        answer = competitor.ask(case=case)
        if answer is None:
            continue
        if is_same(np, answer, wanted):
            racing.append(competitor)
        else:
            print(f"<!-- {competitor.name}, {case}: other results -->", flush=True)
    times = dict.fromkeys([competitor.name for competitor in racing], math.inf)
    for turn in range(TURNS):
        for competitor in racing:
            time.sleep(PAUSE * (turn % 2))
            answer = competitor.ask(time=TURN)
            times[competitor.name] = min(times[competitor.name], answer["seconds"] if answer else math.inf)
        best = min(times.values(), default=math.inf)
        far = 1.5 if turn >= 2 else 4
        racing = [c for c in racing if c.build or c.name in OURS or times[c.name] < far * best]
    return times


def measure(np, name, threads, folder, names, limits, rows):
    workload = WORKLOADS[name]
    competitors = [Competitor(who, threads, folder) for who in names]
    loads = {c.name: c.ask(load=name) for c in competitors}
    for case in workload.cases:
        wanted = wanted_results(np, workload, case)
        times = times_of(np, competitors, case, wanted)
        size = sum(math.prod(workload.shape(x, case)) for x in workload.inputs) + sum(y.size for y in wanted)
        size = 4 * (size + sum(math.prod(shape) for shape in workload.weights.values()))
        limit = max(workload.work(**case) / limits[0] / 1e9, size / limits[1] / 1e9)
        shown = [f"{times[who] * 1e6:.1f}" if math.isfinite(times.get(who, math.inf)) else "–" for who in names]
        ours = times.get("relax", math.nan)
        peers = {who: t for who, t in times.items() if who not in OURS}
        first = min(peers, key=peers.get, default="nobody")
        rows.append((name, peers.get(first, math.nan) / ours, limit / ours))
        where = ", ".join(f"{dim} = {value}" for dim, value in case.items())
        ratios = f"{first} | {rows[-1][1]:.2f} | {rows[-1][2]:.2f}"
        print(f"| {name} | {where} | {' | '.join(shown)} | {ratios} |", flush=True)
    for competitor in competitors:
        competitor.end()
    return loads


def compare(threads, names, wanted):
    import numpy as np
    import onnx
    rows, loads = [], {}
    with tempfile.TemporaryDirectory() as folder:
        gflops, gbytes = roof(folder)
        print(f"\n{threads} thread(s); one core: {gflops:.0f} GFLOP/s, {gbytes:.1f} GB/s; microseconds\n", flush=True)
        print(f"| workload | dims | {' | '.join(names)} | best peer | best peer / ours | limit / ours |", flush=True)
        print("|---" * (len(names) + 5) + "|", flush=True)
        for name in wanted:
            write_onnx(onnx, np, WORKLOADS[name], os.path.join(folder, f"{name}.onnx"))
            loads[name] = measure(np, name, threads, folder, names, (threads * gflops, threads * gbytes), rows)
    print()
    for kind, at in (("best peer / ours", 1), ("limit / ours", 2)):
        of = lambda rows: math.exp(sum(math.log(r[at]) for r in rows) / len(rows))  # noqa: E731
        each = ", ".join(f"{name} {of([r for r in rows if r[0] == name]):.2f}" for name in wanted)
        print(f"Geometric mean of {kind}: {of(rows):.2f} ({each}); least {min(r[at] for r in rows):.2f}.", flush=True)
    print(f"\nSeconds from the start of a process to a model that can be called, {threads} thread(s)\n")
    print(f"| workload | {' | '.join(names)} |\n{'|---' * (len(names) + 1)}|")
    for name, answers in loads.items():
        print(f"| {name} | {' | '.join('–' if a is None else format(a['seconds'], '.2f') for a in answers.values())} |")
    sys.stdout.flush()


def builds_beside(threads, builds, wanted, rounds):
    """OLD twice and NEW in turns; prints a table for each round, and what it says."""
    import numpy as np
    import onnx
    labels = ("old", "old again", "new")
    ratios = {}
    for turn in range(rounds):
        print(f"\n{threads} thread(s), round {turn + 1} of {rounds}; microseconds\n", flush=True)
        print("| workload | dims | old | old again | new | old / old again | old / new |\n" + "|---" * 7 + "|", flush=True)
        for name in wanted:
            with tempfile.TemporaryDirectory() as folder:
                competitors, model = [], os.path.join(folder, f"{name}.onnx")
                write_onnx(onnx, np, WORKLOADS[name], model)
                for label, build in zip(labels, (builds[0], builds[0], builds[1])):
                    own = os.path.join(folder, label)
                    os.mkdir(own)
                    os.link(model, os.path.join(own, f"{name}.onnx"))
                    competitors.append(Competitor(label, threads, own, build))
                loaded = [competitor.ask(load=name) for competitor in competitors]
                if None in loaded:
                    sys.exit(f"{name}: a build does not load it")
                for case in WORKLOADS[name].cases:
                    times = times_of(np, competitors, case, wanted_results(np, WORKLOADS[name], case))
                    if len(times) != len(labels) or not all(map(math.isfinite, times.values())):
                        sys.exit(f"{name}, {case}: a build gives no result, or another one")
                    old, again, new = (times[label] for label in labels)
                    where = ", ".join(f"{dim} = {value}" for dim, value in case.items())
                    ratios.setdefault((name, where), []).append((old / again, old / new))
                    shown = " | ".join(f"{times[label] * 1e6:.1f}" for label in labels)
                    last = ratios[name, where][-1]
                    print(f"| {name} | {where} | {shown} | {last[0]:.2f} | {last[1]:.2f} |", flush=True)
                for competitor in competitors:
                    competitor.end()
    mean = lambda at: math.exp(sum(math.log(r[at]) for each in ratios.values() for r in each) / (len(ratios) * rounds))  # noqa: E731
    print(f"\nGeometric mean of old / old again: {mean(0):.3f}, of old / new: {mean(1):.3f}.")
    for at, what in ((0, "old again"), (1, "new")):
        slow = [f"{name} {where}" for (name, where), each in ratios.items() if 2 * sum(r[at] < 0.95 for r in each) > rounds]
        print(f"Cases in which {what} is slower in most rounds: {'; '.join(slow) or 'none'}.", flush=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--ours", metavar="OLD,NEW", help="two folders with builds of ours, compared with each other instead of peers")
    arguments.add_argument("--rounds", type=int, default=3, help="how often --ours goes through all cases")
    arguments.add_argument("--threads", default="1,2")
    arguments.add_argument("--against", default=",".join(AGAINST))
    arguments.add_argument("workloads", nargs="*", metavar="WORKLOAD")
    arguments = arguments.parse_args()
    unknown = [name for name in arguments.workloads if name not in WORKLOADS]
    unknown += [name for name in arguments.against.split(",") if name not in AGAINST]
    if unknown:
        sys.exit(f"there is no {', '.join(unknown)}: workloads are {', '.join(WORKLOADS)}; against {', '.join(AGAINST)}")
    if arguments.ours:
        builds = [os.path.abspath(build) for build in arguments.ours.split(",")]
        parts = [os.path.join(build, part) for build in builds for part in ("relax", "librelax_capi.so")]
        if len(builds) != 2 or not all(map(os.path.exists, parts)) or arguments.rounds < 1:
            sys.exit("--ours takes two folders, each with `relax` and `librelax_capi.so`, and one round or more")
        for threads in arguments.threads.split(","):
            builds_beside(int(threads), builds, arguments.workloads or list(WORKLOADS), arguments.rounds)
        return
    names = ["relax"]
    for name in arguments.against.split(","):
        try:
            print(f"<!-- {name} is {AGAINST[name]} {importlib.metadata.version(AGAINST[name])} -->")
            names.append(name)
        except importlib.metadata.PackageNotFoundError:
            print(f"<!-- {name} is not installed -->")
    for threads in arguments.threads.split(","):
        compare(int(threads), names, arguments.workloads or list(WORKLOADS))


if __name__ == "__main__":
    main()
