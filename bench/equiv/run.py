#!/usr/bin/env python3
"""Rewrites by other compilers, compared by `relax equiv` and by running them: ONNX optimizers and the passes of TVM.

    bench/equiv/run.py [--relax target/release/relax] [--generated N] [--nodes N] [--modules N] [--records FOLDER] [--page FILE]

Each program has a line in the records, which a later run does not compute again; the page is made of all records.
"""

import argparse
import json
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "scripts/peers")]
import judge  # noqa: E402
import page  # noqa: E402
import programs  # noqa: E402
from worker import Worker  # noqa: E402

SECONDS = 60
MEMORY = 8 << 30
#: Processes of other compilers grow slow: each does this many programs.
PROGRAMS = 40
LIVE = "onnxruntime all"


def worker(script):
    return Worker([sys.executable, str(HERE / script)], SECONDS, MEMORY)


def compared(relax, optimizers, samples, place, given):
    """The record of a model: how each optimizer fares, and of each distinct result what is known."""
    model = place / "model.onnx"
    passes = {name: [status, *[pathlib.Path(file).stem for file in files], why]
              for name, status, files, why in optimizers.run({"model": str(model), "folder": str(place)})}
    files = sorted({place / f"{held[1]}.onnx" for held in passes.values() if held[0] == "changed"})
    told = samples.run({"model": str(model), "others": [str(file) for file in files], "given": given, "live": True})
    results = {pathlib.Path(name).stem: {"samples": [status, *about, why]} for name, status, about, why in told}
    for file in files:
        # Where the model itself crashes onnxruntime, nothing was compared.
        results.setdefault(file.stem, {"samples": ["refused", results.get("", {}).get("samples", [""])[-1]]})
        results[file.stem]["equiv"] = judge.equiv(relax, model, file, place / "case.npz")
        if results[file.stem]["equiv"][0] == "different":
            again = samples.run({"model": str(model), "others": [str(file)], "given": str(place / "case.npz")})
            results[file.stem]["again"] = next(([s, *about, why] for name, s, about, why in again if name), ["refused", "no inputs"])
    if LIVE in results:
        passes[LIVE] = ["changed", LIVE, ""]
    return {"passes": passes, "results": results}


def known(records):
    """Names of programs that have a line."""
    return {json.loads(line)["program"] for line in records.open()} if records.exists() else set()


def onnx_records(args):
    """Writes a line for each ONNX model."""
    records = args.records / "onnx.jsonl"
    done = known(records)
    optimizers, samples = worker("optimizers.py"), worker("samples.py")
    with records.open("a") as out, tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        for number, (name, data, given) in enumerate(programs.programs(args.generated, args.nodes, scratch)):
            if name in done or args.only not in name:
                continue
            if number % PROGRAMS == 0:
                optimizers.close()
                samples.close()
            place = scratch / str(number)
            place.mkdir()
            (place / "model.onnx").write_bytes(data)
            record = {"program": name, **compared(args.relax, optimizers, samples, place, given)}
            print(json.dumps(record), file=out, flush=True)
            for file in place.iterdir():
                file.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--relax", default=str(ROOT / "target/release/relax"))
    parser.add_argument("--generated", type=int, default=3000, help="how many ONNX models are generated")
    parser.add_argument("--nodes", type=int, default=10000, help="of how many of ONNX's tests of nodes at most")
    parser.add_argument("--modules", type=int, default=500, help="how many modules are generated for TVM")
    parser.add_argument("--only", default="", help="a part of the names of programs")
    parser.add_argument("--part", choices=["onnx", "tvm", "page"], help="only this part")
    parser.add_argument("--records", type=pathlib.Path, default=ROOT / "target/equiv")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "bench/results/equiv-2026-11.md")
    args = parser.parse_args()
    args.records.mkdir(parents=True, exist_ok=True)
    if args.part in (None, "onnx"):
        onnx_records(args)
    if args.part in (None, "tvm"):
        import modules

        modules.records(args)
    if not args.only:
        args.page.write_text(page.text(args.records))


if __name__ == "__main__":
    main()
