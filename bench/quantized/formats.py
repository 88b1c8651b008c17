"""Products with weights in block formats beside the product with f32 weights, one thread, in one run.

    python3 bench/quantized/formats.py target/release/relax [--columns 2048,5632] [--rows 1,128]

Prints for each number of columns and rows the least milliseconds of each product, taken in turns, and the time of the f32 product over
them. The machine may be busy: the ratio says more than the times. `--columns 65536` has 512 MiB of f32 weights, beyond every cache.
"""

import argparse

from run import DEPTH, least_of

# Of each entry: the columns of its fields in a block of so many elements.
ENTRIES = {
    "plain": (1, {"w": 1}),
    "q4_0": (32, {"d": 1, "nibbles": 4}),
    "q4_1": (32, {"d": 1, "m": 1, "nibbles": 4}),
    "q5_0": (32, {"d": 1, "qh": 1, "nibbles": 4}),
    "q5_1": (32, {"d": 1, "m": 1, "qh": 1, "nibbles": 4}),
    "q8_0": (32, {"d": 1, "qs": 32}),
    "q4_k": (256, {"d": 1, "dmin": 1, "scales": 8, "mins": 8, "nibbles": 32}),
    "q5_k": (256, {"d": 1, "dmin": 1, "scales": 8, "mins": 8, "bits": 8, "nibbles": 32}),
    "q6_k": (256, {"d": 1, "scales": 16, "pairs": 16, "nibbles": 32}),
}


def least(relax, entry, rows, columns, seconds):
    elements, fields = ENTRIES[entry]
    inputs = [f"x=randn(1,{rows},{DEPTH})"]
    inputs += [f"{name}=ones({columns},{DEPTH // elements * width})" for name, width in fields.items()]
    return least_of(relax, "formats.rx", entry, inputs, seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("relax")
    parser.add_argument("--columns", default="2048,5632")
    parser.add_argument("--rows", default="1,128")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.2)
    arguments = parser.parse_args()
    print(f"{'columns':>7} {'rows':>5} {'product':<7} {'ms':>9} {'f32 / own':>10}")
    for columns in map(int, arguments.columns.split(",")):
        for rows in map(int, arguments.rows.split(",")):
            best = {}
            for _ in range(arguments.rounds):
                for entry in ENTRIES:
                    took = least(arguments.relax, entry, rows, columns, arguments.seconds)
                    best[entry] = min(took, best.get(entry, took))
            for entry, took in best.items():
                print(f"{columns:>7} {rows:>5} {entry:<7} {took:>9.3f} {best['plain'] / took:>10.2f}")


if __name__ == "__main__":
    main()
