"""What rewrites of the graph gain: operations, bytes, launches and time of models of real size, by this build and by an older one.

    python3 bench/rewrites/run.py target/release/relax --before OLD/relax [--only NAME] [--rounds N] [--output FILE.md]
    python3 bench/rewrites/run.py target/release/relax --rules all|default [--only NAME] [--output FILE.md]
    python3 bench/rewrites/run.py target/release/relax --versions [--only NAME] [--rounds N] [--output FILE.md]
    python3 bench/rewrites/run.py target/release/relax --forms [--only NAME] [--output FILE.md]

The models have random weights (models.py); files of them are written to a temporary folder, 1.3 GB. Both builds make a module
file with an empty cache, and one thread runs them in turns: the machine may be busy, and the ratio says more than the times.
Operations, bytes and launches are those that `relax bench` counts. With --rules one build is compared with itself, without and with
rewrite rules, also on the models of the corpus; there the seconds of builds depend on how busy the machine is, and the rest does not.
With --forms what `relax rewrite --approximate` takes out of each graph is compared with the greedy form, at limits of the search for a cheaper one.
With --versions programs whose order of products is free (programs/) are compared at several dims, also without and with rules.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import models

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "compile_time"))
from run import show  # noqa: E402


CORPUS = Path(__file__).resolve().parents[2] / "corpus" / "models"
PROGRAMS = Path(__file__).resolve().parent / "programs"
TEXT = {"batch": 1, "length": 32}
IMAGE = {"batch": 1, "high": 32, "wide": 32}
# Models of the corpus, and dims.
SMALL = {
    "attention.rx": {"n": 64, "d": 8},
    "mlp.rx": {"n": 64},
    "onnx/experts.onnx": TEXT,
    "onnx/gpt2.onnx": TEXT,
    "onnx/llama.onnx": {**TEXT, "past": 16},
    "onnx/llama_q4.onnx": {**TEXT, "past": 16},
    "onnx/resnet.onnx": IMAGE,
    "onnx/t5.onnx": {**TEXT, "target": 16},
    "onnx/vit.onnx": IMAGE,
    "onnx/whisper.onnx": TEXT,
}

# Programs with versions, and dims on both sides of their guards.
VERSIONS = {
    "latent_attention": [
        {"h": 16, "n": n, "m": m} for n, m in [(1, 64), (1, 1024), (1, 4096), (64, 64), (256, 256), (1024, 1024)]
    ],
    "linear_attention": [{"b": 1, "n": n, "m": n} for n in (16, 64, 256, 1024, 4096)],
    "adapter": [{"n": n, "r": r} for n, r in [(1, 8), (16, 16), (128, 64), (1024, 16)]],
    # The second are the sizes of Cora, the third those of Pubmed but for its 19,717 nodes.
    "graph_convolution": [
        {"n": n, "f": f, "h": h, "c": c}
        for n, f, h, c in [(256, 16, 256, 16), (2708, 1433, 16, 7), (4096, 500, 16, 3), (1024, 64, 64, 64)]
    ],
}


def built(relax, program, weights, module, rules=None):
    """What the build says of the module, and how many seconds it took."""
    command = [relax, "build", str(program), "-o", str(module), "--no-kernel-check", "--format", "json"]
    command += ["--params", str(weights)] if weights else []
    command += ["--rules", rules] if rules not in (None, "default") else []
    with tempfile.TemporaryDirectory() as cache:
        start = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "XDG_CACHE_HOME": cache})
        seconds = time.monotonic() - start
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    facts = [json.loads(line) for line in done.stdout.splitlines()]
    return next(fact for fact in facts if fact["type"] == "module"), seconds


def measured(relax, module, dims, seconds):
    """Operations, bytes, launches and milliseconds of a call."""
    sizes = [part for name, size in dims.items() for part in ("--sym", f"{name}={size}")]
    command = [relax, "bench", str(module), *sizes, "--threads", "1", "--seconds", str(seconds), "--format", "json", "--no-kernel-check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    kernels = [line for line in lines if line["type"] == "kernel"]
    # Operations and bytes are those of one launch.
    count = lambda key: sum((kernel.get(key) or 0) * kernel["calls"] for kernel in kernels)
    launches = sum(kernel["calls"] for kernel in kernels)
    return count("operations"), count("bytes"), launches, lines[0]["least_ms"]


def table(arguments, folder):
    binaries = [arguments.before, arguments.relax]
    yield "| model | dims | operations, before / now | bytes | launches | ms before | ms now | before / now |"
    yield "|---" * 8 + "|"
    for name, (_, dims) in models.MODELS.items():
        if arguments.only and arguments.only not in name:
            continue
        program, weights = models.made(name, folder)
        modules = [folder / f"{at}.rxm" for at in range(2)]
        for relax, module in zip(binaries, modules):
            built(relax, program, weights, module)
        counts, least = [None, None], [float("inf")] * 2
        for _ in range(arguments.rounds):
            for at, (relax, module) in enumerate(zip(binaries, modules)):
                *counts[at], took = measured(relax, module, dims, arguments.seconds)
                least[at] = min(least[at], took)
        ratios = [f"{before / now:.2f}" for before, now in zip(*counts)][:2]
        launches = f"{counts[0][2]}, {counts[1][2]}"
        shown = " ".join(f"{dim}={size}" for dim, size in dims.items())
        yield f"| {name} | {shown} | {ratios[0]} | {ratios[1]} | {launches} | {least[0]:.1f} | {least[1]:.1f} | {least[0] / least[1]:.2f} |"
        for path in (program, weights, *modules):
            path.unlink()


def row_of_rules(arguments, name, program, weights, dims, folder):
    module = folder / "m.rxm"
    counts, seconds = [], []
    for rules in ("none", arguments.rules):
        facts, took = built(arguments.relax, program, weights, module, rules)
        counts.append(measured(arguments.relax, module, dims, 0))
        seconds.append(took)
    ratios = [f"{before / now:.3f}" for before, now in zip(*counts)][:2]
    rewrites = facts["rewrites"]
    rules = ", ".join(rule["rule"] for rule in rewrites["rules"])
    regions = f"{rewrites['rewritten']} of {rewrites['regions']}"
    launches = f"{counts[0][2]}, {counts[1][2]}"
    return f"| {name} | {regions} | {ratios[0]} | {ratios[1]} | {launches} | {seconds[0]:.1f}, {seconds[1]:.1f} | {rules} |"


def table_of_rules(arguments, folder):
    yield "| model | regions rewritten | operations, without / with | bytes | launches without, with | seconds of the build | rules |"
    yield "|---" * 7 + "|"
    for name, dims in SMALL.items():
        if not arguments.only or arguments.only in name:
            yield row_of_rules(arguments, name, CORPUS / name, None, dims, folder)
    for name, (_, dims) in models.MODELS.items():
        if not arguments.only or arguments.only in name:
            program, weights = models.made(name, folder)
            yield row_of_rules(arguments, name, program, weights, dims, folder)
            for path in (program, weights):
                path.unlink()


def table_of_versions(arguments, folder):
    yield "| program | dims | launches without, with | ms without | ms with | without / with |"
    yield "|---" * 6 + "|"
    for name, all_dims in VERSIONS.items():
        if arguments.only and arguments.only not in name:
            continue
        modules = [folder / f"{at}.rxm" for at in range(2)]
        for rules, module in zip(("none", "default"), modules):
            facts, _ = built(arguments.relax, PROGRAMS / f"{name}.rx", None, module, rules)
        versions = [version["guard"] for own in facts["rewrites"]["versions"] for version in own["versions"]]
        guards = "; ".join(" and ".join(guard) or "otherwise" for guard in versions)
        for dims in all_dims:
            counts, least = [None, None], [float("inf")] * 2
            for _ in range(arguments.rounds):
                for at, module in enumerate(modules):
                    *counts[at], took = measured(arguments.relax, module, dims, arguments.seconds)
                    least[at] = min(least[at], took)
            shown = " ".join(f"{dim}={size}" for dim, size in dims.items())
            launches = f"{counts[0][2]}, {counts[1][2]}"
            yield f"| {name}: {guards} | {shown} | {launches} | {least[0]:.3f} | {least[1]:.3f} | {least[0] / least[1]:.2f} |"


def forms(relax, program, steps):
    """How near forms are to the cheapest, and how many seconds the command took."""
    command = [relax, "rewrite", str(program), "--approximate", "--explain", "--format", "json", "--limit", f"extraction={steps}"]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - start
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])["forms"], seconds


def table_of_forms(arguments, folder):
    yield "| programs | steps | forms | cheaper than the greedy one | most saved | not proved to be the cheapest | seconds |"
    yield "|---" * 7 + "|"
    suite = sorted((CORPUS.parent / "suite" / "passes").glob("*.rx"))
    groups = {"corpus/suite/passes": suite, "bench/rewrites/programs": sorted(PROGRAMS.glob("*.rx"))}
    groups |= {name: [CORPUS / name] for name in SMALL}
    for name, programs in groups.items():
        if arguments.only and arguments.only not in name:
            continue
        # Programs that are wrong on purpose are refused.
        programs = [program for program in programs if is_right(arguments.relax, program)]
        for steps in (1000, 20_000, 400_000):
            found = [forms(arguments.relax, program, steps) for program in programs]
            count = lambda key: sum(counts[key] for counts, _ in found)
            most = max(counts["most_saved_percent"] for counts, _ in found)
            seconds = sum(seconds for _, seconds in found)
            counts = [count(key) for key in ("looked_for", "cheaper_than_greedy")]
            yield f"| {name} | {steps} | {counts[0]} | {counts[1]} | {most} % | {count('not_proved_cheapest')} | {seconds:.1f} |"


def is_right(relax, program):
    return subprocess.run([relax, "rewrite", str(program)], capture_output=True, check=False).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("relax")
    other = parser.add_mutually_exclusive_group(required=True)
    other.add_argument("--before", help="an older build")
    other.add_argument("--rules", help="what `relax build --rules` takes, or `default`")
    other.add_argument("--versions", action="store_true", help="programs with versions, without rules and as they are built by default")
    other.add_argument("--forms", action="store_true", help="forms of graphs beside greedy ones")
    parser.add_argument("--only", help="a part of a model's name")
    parser.add_argument("--rounds", type=int, default=3, help="of which the least time is shown")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a round")
    parser.add_argument("--output", help="also write the table to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = table_of_rules if arguments.rules else table
        rows = table_of_versions if arguments.versions else table_of_forms if arguments.forms else rows
        show(rows(arguments, Path(folder)), arguments.output)


if __name__ == "__main__":
    main()
