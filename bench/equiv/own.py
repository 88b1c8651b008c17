#!/usr/bin/env python3
"""Our own passes, compared by `relax equiv`: the text before and after each pass, and seeded faults of the text after one.

    bench/equiv/own.py [--relax target/debug/relax] [--part pairs|broken|page] [--every N] [--broken N] [--seed N]

Each program has a line in the records, which a later run does not compute again; the page is made of all records.
"""

import argparse
import concurrent.futures
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "scripts/peers")]
import own_broken  # noqa: E402
import own_page  # noqa: E402
import own_pairs  # noqa: E402


def pairs(args):
    """Writes a line for each program of the corpus."""
    records = args.records / "pairs.jsonl"
    done = {json.loads(line)["program"] for line in records.open()} if records.exists() else set()
    exactness = own_pairs.passes(args.relax)
    todo = [(name, text) for name, text in own_pairs.programs(args.every) if name not in done and args.only in name]
    with records.open("a") as out, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        work = [pool.submit(own_pairs.record, args.relax, exactness, name, text, args.texts) for name, text in todo]
        for each in work:
            print(json.dumps(each.result()), file=out, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--relax", default=str(ROOT / "target/debug/relax"))
    parser.add_argument("--part", choices=["pairs", "broken", "page"], help="only this part")
    parser.add_argument("--every", type=int, default=1, help="one in so many programs of the corpus")
    parser.add_argument("--broken", type=int, default=5000, help="how many broken pairs")
    parser.add_argument("--seed", type=int, default=1, help="of the broken pairs")
    parser.add_argument("--only", default="", help="a part of the names of programs")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--records", type=pathlib.Path, default=ROOT / "target/equiv-own")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "bench/results/equiv-own-2026-11.md")
    args = parser.parse_args()
    args.texts = args.records / "texts"
    args.texts.mkdir(parents=True, exist_ok=True)
    if args.part != "page":
        only = [f"--only {args.only}"] if args.only else []
        settings = [*only, f"--every {args.every}", f"--broken {args.broken}", f"--seed {args.seed}"]
        (args.records / "settings.json").write_text(json.dumps(settings))
    false = 0
    if args.part in (None, "pairs"):
        pairs(args)
    if args.part in (None, "broken"):
        false = own_broken.run(args)
    if args.part in (None, "page"):
        args.page.write_text(own_page.text(args.records, own_pairs.passes(args.relax)))
    raise SystemExit(1 if false else 0)


if __name__ == "__main__":
    main()
