"""Programs with undecided dims beside their twins without any, one thread, in one run.

    python3 bench/cliffs/run.py target/release/relax [--only NAME] [--before RELAX] [--tvm PYTHON]

Prints for each program of programs.rx the least time of a call, the same of its twin, and their ratio: what an open question
costs. Both run in turns, several rounds. `--before` names another relax, which runs the twin in the same turns, with --fast: its time
over that of this one is above 1 where this one is faster. `--tvm` names a Python with apache-tvm 0.27: then a third time is that of the
program as TVM's own compiler builds it from `relax export`, on one thread, or why it does not. The machine may be busy: the
ratio says more than the times. Values are compared by `relax diff bench/cliffs/programs.rx --backend cpu`, not here.
"""

import argparse
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "programs.rx")
# Of each program: the inputs of itself and of its twin, of as many elements.
INPUTS = {
    "three": (["x=randn(4,8,512,64)"], ["x=randn(16384,64)"]),
    "product": (["x=randn(4,8,512,64)", "w=randn(64,64)"],) * 2,
    "views": (["y=randn(4,8,64,256)"],) * 2,
    "halves": (["y=randn(513,511,8)"],) * 2,
    "patches": (["im=randn(4,3,224,224)", "k=randn(16,3,4,4)"],) * 2,
    "broadcast": (["x=randn(1024,1024)", "y=randn(1024,1024)"],) * 2,
    "view_checks": (["x=randn(1024,1024)", "y=randn(512,2048)"], ["x=randn(512,2048)", "y=randn(512,2048)"]),
    "unnamed": (["x=randn(1024,1024)"],) * 2,
    "norm": (["x=randn(8,8,56,56)", "k=randn(8,8,3,3)", "g=ones(8)"],) * 2,
    "rows": (["x=randn(4096,256)", "at=arange(4096)"], ["x=randn(4096,256)"]),
    "packed": (["w=ones(1024,128)"],) * 2,
    "patches_attention": (["x=randn(2,785,256)", "y=randn(2,785,256)", "z=randn(2,785,256)", "at=zeros(112,112)"],) * 2,
}
UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def given(inputs):
    return [part for one in inputs for part in ("--input", one)]


def least(relax, entry, inputs, seconds, *more):
    command = [relax, "bench", PROGRAMS, *more, "--threads", "1", "--entry", entry, "--seconds", str(seconds)] + given(inputs)
    done = subprocess.run(command, capture_output=True, text=True)
    found = re.match(rf"{entry}: ([0-9.]+) (us|ms|s) at least", done.stdout)
    if not found:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return float(found[1]) * UNITS[found[2]]


def by_tvm(arguments, entry, inputs):
    """Milliseconds, or why there are none."""
    command = [arguments.tvm, os.path.join(HERE, "tvm_times.py"), arguments.relax, PROGRAMS, entry, str(arguments.seconds)]
    environment = os.environ | {"TVM_NUM_THREADS": "1"}
    done = subprocess.run(command + inputs, capture_output=True, text=True, env=environment)
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    last = lines[-1] if lines else f"exit code {done.returncode}"
    return float(last) if done.returncode == 0 else last[:120]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("relax")
    parser.add_argument("--only", choices=INPUTS)
    parser.add_argument("--before", metavar="RELAX")
    parser.add_argument("--tvm", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3)
    arguments = parser.parse_args()
    arguments.relax = os.path.abspath(arguments.relax)
    head = f"{'program':<18} {'ms':>9} {'twin, ms':>9} {'program / twin':>15}"
    head += f" {'before / twin':>14}" if arguments.before else ""
    print(head + (f" {'TVM, ms':>9}" if arguments.tvm else ""))
    worst = 0.0
    for name, inputs in INPUTS.items():
        if arguments.only not in (None, name):
            continue
        entries, best = (name, f"{name}_twin"), {}
        for _ in range(arguments.rounds):
            for entry, own in zip(entries, inputs):
                took = least(arguments.relax, entry, own, arguments.seconds)
                best[entry] = min(took, best.get(entry, took))
            if arguments.before:
                took = least(arguments.before, entries[1], inputs[1], arguments.seconds, "--fast")
                best["before"] = min(took, best.get("before", took))
        ratio = best[entries[0]] / best[entries[1]]
        worst = max(worst, ratio)
        line = f"{name:<18} {best[entries[0]]:>9.3f} {best[entries[1]]:>9.3f} {ratio:>15.2f}"
        if arguments.before:
            line += f" {best['before'] / best[entries[1]]:>14.2f}"
        if arguments.tvm:
            took = by_tvm(arguments, name, inputs[0])
            line += f" {took:>9.3f}" if isinstance(took, float) else f"   {took}"
        print(line, flush=True)
    print(f"largest ratio: {worst:.2f}")


if __name__ == "__main__":
    sys.exit(main())
