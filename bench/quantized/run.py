"""Products with packed weights beside the product with f32 weights, one thread, in one run.

    python3 bench/quantized/run.py target/release/relax [--columns 5632] [--rows 1,8,32,128]

Prints for each number of rows the least milliseconds of each product, taken in turns, and the time of the f32 product over
them: above 1 the packed weights are faster. `--columns 65536` has 512 MiB of f32 weights, beyond every cache; the packed
ones are 80 MiB. The machine may be busy: the ratio says more than the times. Values are compared by
`relax diff bench/quantized/programs.rx --backend cpu`, not here.
"""

import argparse
import os
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
DEPTH = 2048
# Of each entry: the shape of its weights and scales, and the f32 product that it is held against.
ENTRIES = {
    "plain": ("zeros({k},{c})", None, None),
    "plain_rows": ("zeros({c},{k})", None, None),
    "q4": ("zeros({k8},{c})", "ones({g},{c})", "plain"),
    "q4_rows": ("zeros({c},{k8})", "ones({c},{g})", "plain_rows"),
    "i8": ("zeros({k},{c})", "ones({c})", "plain"),
    "q8_rows": ("zeros({c},{k})", "ones({c},{g})", "plain_rows"),
    "f16_rows": ("zeros({c},{k})", None, "plain_rows"),
    "bf16_rows": ("zeros({c},{k})", None, "plain_rows"),
    "f16": ("zeros({k},{c})", None, "plain"),
    "bf16": ("zeros({k},{c})", None, "plain"),
}


def least(relax, entry, rows, columns, seconds):
    weights, scales, _ = ENTRIES[entry]
    extents = {"k": DEPTH, "k8": DEPTH // 8, "g": DEPTH // 32, "c": columns}
    inputs = [f"x=randn({rows},{DEPTH})", "w=" + weights.format(**extents)]
    if scales:
        inputs.append("s=" + scales.format(**extents))
    return least_of(relax, "programs.rx", entry, inputs, seconds)


def least_of(relax, file, entry, inputs, seconds):
    """The least milliseconds of a call on one thread."""
    command = [relax, "bench", os.path.join(HERE, file), "--threads", "1", "--entry", entry]
    command += ["--seconds", str(seconds)] + [part for one in inputs for part in ("--input", one)]
    done = subprocess.run(command, capture_output=True, text=True)
    found = re.match(rf"{entry}: ([0-9.]+) (us|ms|s) at least", done.stdout)
    if not found:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return float(found[1]) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[found[2]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("relax")
    parser.add_argument("--columns", type=int, default=5632)
    parser.add_argument("--rows", default="1,8,32,128")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3)
    arguments = parser.parse_args()
    print(f"{'rows':>5} {'product':<11} {'ms':>9} {'f32 / own':>10}")
    for rows in map(int, arguments.rows.split(",")):
        best = {}
        for _ in range(arguments.rounds):
            for entry in ENTRIES:
                took = least(arguments.relax, entry, rows, arguments.columns, arguments.seconds)
                best[entry] = min(took, best.get(entry, took))
        for entry, (_, _, peer) in ENTRIES.items():
            ratio = f"{best[peer] / best[entry]:>10.2f}" if peer else f"{'':>10}"
            print(f"{rows:>5} {entry:<11} {best[entry]:>9.3f} {ratio}".rstrip())


if __name__ == "__main__":
    main()
