"""TVM's passes on modules that `relax export` writes: programs of the corpus, and generated ones (`relax fuzz --show`)."""

import json
import pathlib
import subprocess
import sys
import tempfile

import judge
from worker import Worker

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SECONDS = 60
MODULES = 100
#: Seeds beyond which no more modules are generated.
SEEDS = 20000


def exported(relax, program, text):
    """Whether TVMScript has words for all of a program."""
    return subprocess.run([relax, "export", str(program), "-o", str(text)], capture_output=True, timeout=SECONDS).returncode == 0


def modules(relax, generated, folder):
    """Name and text for TVM."""
    text = folder / "module.py"
    for path in sorted((ROOT / "import/tests/tvmscript").glob("*.py")):
        yield f"printed/{path.name}", path
    for path in sorted((ROOT / "corpus").rglob("*.rx")):
        if exported(relax, path, text):
            yield f"corpus/{path.relative_to(ROOT / 'corpus')}", text
    program, count = folder / "program.rx", 0
    for seed in range(SEEDS):
        if count == generated:
            return
        shown = subprocess.run([relax, "fuzz", "--show", "--seed", str(seed)], capture_output=True, text=True, timeout=SECONDS)
        program.write_text(shown.stdout)
        if exported(relax, program, text):
            count += 1
            yield f"generated/{seed}", text


def imported(relax, file):
    """Our program of a module that TVM printed; the reason where there is none."""
    program = file.with_suffix(".rx")
    done = subprocess.run([relax, "import", "--from", "tvmscript", str(file), "-o", str(program)], capture_output=True, text=True, timeout=SECONDS)
    return (program, None) if done.returncode == 0 else (None, judge.brief(done.stderr or f"exit code {done.returncode}"))


def compared(relax, worker, text, place):
    """The record of a module: how each pass fares, and of each distinct result what is known."""
    job = {"text": str(text), "folder": str(place)}
    found = {name: (status, files, why) for name, status, files, why in worker.run(job)}
    passes = {name: [status, *[pathlib.Path(file).stem for file in files], why] for name, (status, files, why) in found.items()}
    status, files, why = found.get("as printed", ("refused", [], ""))
    if status != "changed":
        return {"passes": passes, "results": {}}
    before, before_why = imported(relax, pathlib.Path(files[0]))
    results, called = {}, {}
    for file in sorted({held[1][0] for held in found.values() if held[0] == "changed"} - {files[0]}):
        after, why = imported(relax, pathlib.Path(file)) if before else (None, before_why)
        verdict = judge.equiv(relax, before, after, place / "case.npz") if after else ("ill" if before else "unread", why, "")
        results[pathlib.Path(file).stem] = {"equiv": verdict}
        if verdict[0] not in ("equal", "open", "vacuous", "rounding"):
            # Passes of which one contains the other differ alike: TVM runs one of them.
            if verdict not in called:
                called[verdict] = run(worker, [files[0], file], verdict, place)
            results[pathlib.Path(file).stem]["called"] = called[verdict]
    return {"passes": passes, "results": results}


def run(worker, files, verdict, place):
    """How the functions of two modules compare when TVM runs them, on the inputs of a difference if there is one."""
    given = str(place / "case.npz") if verdict[0] == "different" else None
    job = {"run": files, "folder": tempfile.mkdtemp(dir=place), "given": given, "function": verdict[2]}
    return [[name, how, what] for name, how, _, what in worker.run(job)]


def records(args):
    """Writes a line for each module."""
    file = args.records / "tvm.jsonl"
    done = {json.loads(line)["program"] for line in file.open()} if file.exists() else set()
    worker = Worker([sys.executable, str(HERE / "tvm_passes.py")], SECONDS)
    with file.open("a") as out, tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        for number, (name, text) in enumerate(modules(args.relax, args.modules, scratch)):
            if name in done or args.only not in name:
                continue
            if number % MODULES == 0:
                worker.close()
            with tempfile.TemporaryDirectory(dir=scratch) as place:
                record = {"program": name, **compared(args.relax, worker, text, pathlib.Path(place))}
            print(json.dumps(record), file=out, flush=True)
