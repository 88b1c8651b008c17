"""Pairs of programs before and after each pass of our pipelines, and the verdict of `relax equiv` on each."""

import hashlib
import json
import pathlib
import re
import subprocess
import tempfile
import time

import judge

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: Seconds of one process.
SECONDS = 20
#: Programs of more bytes are left out, and so are texts after a pass.
PROGRAM_BYTES, TEXT_BYTES = 30_000, 400_000
#: Random cases for each function: the proof is what is measured.
CASES = 5
#: Verdicts, the worst last.
ORDER = ["equal", "vacuous", "open", "different"]
#: Whole pipelines: their texts after each pass are the pairs.
ROUTES = {"cpu": ["--to", "P2.3"], "cuda": ["--to", "P2.1", "--target", "cuda"]}
#: Passes that no pipeline runs, alone, on the text that the given pass of the first route leaves.
ALONE = {
    "rewrite_dataflow_reshape": ["inline_private_functions", "outline_blocks", "saturate", "saturate_reals", "add_versions",
                                 "add_versions_reals", "combine_parallel_matmul", "convert_layout", "to_mixed_precision",
                                 "round_activations", "narrow_activations", "lift_transform_params", "lower_to_library", "guard_libraries",
                                 "fuse_ops_by_pattern,merge_composite_functions,run_codegen"],
    "fuse_tir": ["split_call_tir_by_pattern"],
    "to_non_dataflow": ["narrow_floats", "schedule_gpu", "schedule_gpu_freely"],
}


def passes(relax):
    """Of each pass what its record says of values: exact, approximate, over the reals, or what it rounds to."""
    listed = subprocess.run([relax, "opt", "--list-passes"], capture_output=True, text=True, check=True).stdout
    found = re.finditer(r"^(\w+) \((\w[\w.]*) to (\w[\w.]*), ([^)]*)\)$", listed, re.M)
    return {each[1]: each[4] for each in found}


def programs(every):
    """Name and text of the programs of the corpus, without definitions that the checker is expected to refuse."""
    for place, path in enumerate(sorted((ROOT / "corpus").rglob("*.rx"))):
        if place % every == 0 and path.stat().st_size <= PROGRAM_BYTES:
            yield str(path.relative_to(ROOT / "corpus")), accepted(path.read_text())


def accepted(text):
    """The text without definitions that hold an expected error."""
    parts = re.split(r"^(?=(?:@|def |module_attr))", text, flags=re.M)
    return "".join(part for part in parts if "# error[" not in part)


def plain(text):
    """The text without its phase: a pass that changes nothing else changes nothing."""
    return re.sub(r'^module_attr\("phase", .*\n', "", text, flags=re.M)


def phase(text):
    found = re.search(r'^module_attr\("phase", "([^"]*)"\)', text, re.M)
    return found[1] if found else "surface"


def dumped(relax, file, options, scratch):
    """The texts after each pass, by its name, in order, and why there are no more."""
    folder = tempfile.mkdtemp(dir=scratch)
    command = [relax, "opt", str(file), "--dump-dir", folder, "-o", f"{folder}/result", *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, preexec_fn=judge.limited)
        why = judge.brief(done.stderr) if done.returncode else ""
    except subprocess.TimeoutExpired:
        why = f"no end in {SECONDS} s"
    texts = [(path.stem.split("_", 1)[1], path.read_text()) for path in sorted(pathlib.Path(folder).glob("*.rx"))]
    return texts, why


def pairs(relax, text, scratch):
    """Pass, text before and after, where they differ; then the reasons of runs that stopped."""
    file = scratch / "program.rx"
    file.write_text(text)
    found, stopped, kept = [], {}, {}
    for route, options in ROUTES.items():
        texts, why = dumped(relax, file, options, scratch)
        if why:
            stopped[route] = why
        if route == "cpu":
            kept = dict(texts)
        found += [(name, before, after) for (_, before), (name, after) in zip(texts, texts[1:])]
    for place, names in ALONE.items():
        if place in kept:
            file.write_text(kept[place])
            for name in names:
                texts, why = dumped(relax, file, ["--passes", name], scratch)
                if why:
                    stopped[name] = why
                found += [(one, before, after) for (_, before), (one, after) in zip(texts, texts[1:])]
    seen = set()
    for name, before, after in found:
        if plain(before) != plain(after) and (name, before, after) not in seen:
            seen.add((name, before, after))
            yield name, before, after
    yield None, stopped, ""


def stored(folder, text):
    """The name of the file that holds a text."""
    name = hashlib.sha256(text.encode()).hexdigest()[:20]
    path = folder / f"{name}.rx"
    if not path.exists():
        path.write_text(text)
    return name


def asked(relax, before, after, *options):
    """The verdict of `relax equiv` on two files, and of each function its verdict and the reason."""
    command = [relax, "equiv", str(before), str(after), "--format", "json", *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, preexec_fn=judge.limited)
    except subprocess.TimeoutExpired:
        return "late", f"no answer in {SECONDS} s", []
    lines = [json.loads(line) for line in (done.stdout + done.stderr).splitlines() if line.startswith("{")]
    verdicts = [line for line in lines if "verdict" in line and line.get("type") in ("equiv", "diff")]
    if done.returncode in (0, 1, 5, 6) and verdicts:
        each = [[line.get("function", ""), line["verdict"], line.get("why") or line.get("how") or ""] for line in verdicts]
        worst = max(each, key=lambda one: ORDER.index(one[1]))
        return worst[1], worst[2], each
    failure = next((line["message"] for line in lines if "message" in line), None)
    if failure is not None and done.returncode in (1, 2, 4):
        return ("ill" if failure.startswith(str(after)) else "unread"), judge.brief(failure), []
    return "failed", f"exit code {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1][:200]}", []


def each_entry(relax, before, after):
    """The verdict on the functions of the first text alone: a pass may add others."""
    private = re.compile(r"^def (\w+)\(.*\n(?:    .*\n)*?    func_attr\(\"private\", True\)", re.M)
    hidden = {found[1] for found in private.finditer(before.read_text())}
    names = [name for name in re.findall(r"^def (\w+)\(", before.read_text(), re.M) if name not in hidden]
    found = [asked(relax, before, after, "--cases", str(CASES), "--entry", name) for name in names]
    worst = max(found, key=lambda one: ORDER.index(one[0]) if one[0] in ORDER else len(ORDER))
    return worst[0], worst[1], [each for one in found for each in one[2]]


def judged(relax, exactness, before, after):
    """The verdict on a pair; where the pass may round, a difference of rounding is one of its own."""
    verdict, why, each = asked(relax, before, after, "--cases", str(CASES))
    if why.startswith("only the second program has"):
        verdict, why, each = each_entry(relax, before, after)
    if verdict == "different" and exactness != "exact":
        again = asked(relax, before, after, "--cases", str(CASES), "--up-to-rounding")
        if again[0] != "different":
            return "rounding", why, again[2]
    return verdict, why, each


def record(relax, exactness, name, text, folder):
    """The record of a program: of each pair its pass, its files, phases and verdict."""
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        for one, before, after in pairs(relax, text, pathlib.Path(scratch)):
            if one is None:
                return {"program": name, "pairs": found, "stopped": before}
            if max(len(before), len(after)) > TEXT_BYTES:
                continue
            files = [stored(folder, before), stored(folder, after)]
            begin = time.monotonic()
            verdict = judged(relax, exactness.get(one, "exact"), *(folder / f"{file}.rx" for file in files))
            found.append({"pass": one, "files": files, "phases": [phase(before), phase(after)], "verdict": verdict,
                          "seconds": round(time.monotonic() - begin, 2)})
    return None
