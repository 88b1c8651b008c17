"""The questions on dims that compilations ask the prover, and what each of its stages decides of them.

usage: python questions.py [--relax PATH] [--every N] [--keep FILE.jsonl] [--size N] [--output FILE.md]

Runs the pipeline to P2.3, the rewriting rules and the build of programs of the corpus with `--questions`, takes each question
once up to the names of its variables, and asks `relax prove` again: there the stages are that compilations do without, too. --keep
writes a sample of the questions, as questions.jsonl beside this file is. Needs nothing but Python and a C compiler.
"""

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from run import prove

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "corpus"
# How a program is compiled, and how long that may take.
ROUTES = {
    "pipeline": ["opt", "--to", "P2.3", "-o", "{out}.rx"],
    "rules": ["rewrite", "--approximate"],
    "build": ["build", "--no-kernel-check", "-o", "{out}.rxm"],
}
SECONDS = 120
# What is no variable in a statement.
WORDS = {"and", "or", "not", "implies", "divides", "min", "max", "ceildiv", "pow", "select", "True", "False"}


def programs():
    """Programs of the corpus that are well-formed, in order."""
    texts = [path for folder in ("suite", "paper", "regressions", "models") for path in sorted(CORPUS.glob(f"{folder}/**/*.rx"))]
    return texts + sorted(CORPUS.glob("models/onnx/*.onnx"))


def asked(relax, path):
    """The questions of all routes; a route that refuses the program asks what it asks until then."""
    found = {}
    for route, command in ROUTES.items():
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out"
            questions = Path(folder) / "questions"
            name, *flags = [part.format(out=out) for part in command]
            try:
                subprocess.run(
                    [relax, name, str(path), *flags, "--questions", str(questions)], capture_output=True, timeout=SECONDS, check=False
                )
            except subprocess.TimeoutExpired:
                print(f"{path.relative_to(CORPUS)}: {route} takes more than {SECONDS} s", file=sys.stderr)
            lines = questions.read_text().splitlines() if questions.exists() else []
            found[route] = [json.loads(line) for line in lines]
    return found


def renamed(question):
    """The texts of the facts and of the statement with numbered variables, in the order in which they are named."""
    names = {}

    def name(match):
        word = match.group()
        return word if word in WORDS else names.setdefault(word, f"v{len(names)}")

    texts = [*question["assume"], question["query"]]
    texts = [re.sub(r"[A-Za-z_]\w*", name, text) for text in texts]
    return tuple(texts[:-1]), texts[-1]


def distinct(relax, paths):
    """Each question once, with how often it was worked on, by route."""
    questions = {}
    with ThreadPoolExecutor(2) as workers:
        for at, found in enumerate(workers.map(lambda path: asked(relax, path), paths)):
            if sys.stderr.isatty():
                print(f"\r{at + 1} of {len(paths)}", end="", file=sys.stderr)
            for route, own in found.items():
                for question in own:
                    times = questions.setdefault(renamed(question), dict.fromkeys(ROUTES, 0))
                    times[route] += question["times"]
    return dict(sorted(questions.items()))


def write(path, questions):
    with open(path, "w", encoding="utf-8") as lines:
        for at, (facts, query) in enumerate(questions):
            lines.write(json.dumps({"id": at, "assume": facts, "query": query}) + "\n")


def of_times(microseconds):
    """Median, 99th percentile and the largest."""
    ordered = sorted(microseconds)
    return ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100], ordered[-1]


def table(questions, answers, statistics):
    total = len(questions)
    yield f"{total} distinct questions, worked on {sum(sum(times.values()) for times in questions.values())} times."
    yield ""
    yield "| route | distinct | worked on |\n|---|---|---|"
    for route in ROUTES:
        own = [times[route] for times in questions.values() if times[route]]
        yield f"| {route} | {len(own)} | {sum(own)} |"
    yield ""
    yield "| stage | asked | proved | refuted | share decided of all | mean us of those asked |\n|---|---|---|---|---|---|"
    for stage, own in statistics["stages"].items():
        decided = own["proved"] + own["refuted"]
        mean = own["microseconds"] / own["asked"] if own["asked"] else 0
        yield f"| {stage} | {own['asked']} | {own['proved']} | {own['refuted']} | {100 * decided / total:.2f} % | {mean:.1f} |"
    yield ""
    unknown = statistics["unknown"]
    times = of_times([row["microseconds"] for row in answers.values()])
    yield f"Not decided: {unknown} ({100 * unknown / total:.2f} %). Median of a question {times[0]} us, p99 {times[1]} us, slowest {times[2]} us."


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--relax", default=str(ROOT / "target" / "release" / "relax"))
    parser.add_argument("--every", type=int, default=1, help="one in so many programs")
    parser.add_argument("--keep", help="write a sample of the questions")
    parser.add_argument("--size", type=int, default=2000, help="of the sample")
    parser.add_argument("--output", help="write the tables")
    arguments = parser.parse_args()
    questions = distinct(arguments.relax, programs()[:: arguments.every])
    if not questions:
        sys.exit("no question was asked")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "questions.jsonl"
        write(path, questions)
        text = ""
        for title, flags in [("Without z3", ["--no-solver"]), ("With z3", [])]:
            answers, (statistics,) = prove(arguments.relax, path, ["--stats", *flags])
            text += f"### {title}\n\n" + "\n".join(table(questions, answers, statistics)) + "\n\n"
    print(text, end="")
    if arguments.output:
        Path(arguments.output).write_text(text, encoding="utf-8")
    if arguments.keep:
        chosen = random.Random(1).sample(list(questions), min(arguments.size, len(questions)))
        write(arguments.keep, sorted(chosen))


if __name__ == "__main__":
    main()
