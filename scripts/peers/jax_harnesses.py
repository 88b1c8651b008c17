#!/usr/bin/env python3
"""Compares relaxc with JAX on JAX's own test programs of its primitives (`test_harnesses`, of which jax2tf was tested).

    scripts/peers/jax_harnesses.py [--reference] [--each N] [--dtypes f32,i32,bool] [--groups NAME,...] [--page FILE]

StableHLO's own test programs (its folder testdata) were made of these. Each program is exported with jax.export, imported and run in the
reference interpreter, and compared with what JAX computes: dtypes, shapes, elements. With `--reference` StableHLO's reference interpreter,
which jaxlib has (stablehlo_reference.py), judges the result as well. It needs the packages relaxc, jax and absl-py. Exit code 1: there
is a wrong result.
"""

from __future__ import annotations

import argparse
import collections
import signal
import sys
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax._src.internal_test_util import test_harnesses

import relaxc
from stablehlo_reference import Reference

DTYPES = {"f32": np.float32, "i32": np.int32, "bool": np.bool_}
#: Seconds for one program.
LIMIT = 20
COLUMNS = ["right", "wrong", "traps", "refused", "not exported", "JAX fails", "too slow"]


class TimedOut(Exception):
    pass


def alarm(*_: Any) -> None:
    raise TimedOut


def judged(harness: Any, reference: Reference | None) -> tuple[str, str, str]:
    """A verdict, what it is about, and what the reference interpreter says of our results: nothing where it was not asked."""
    # Without 64 bits, as JAX takes them.
    args = [np.asarray(jnp.asarray(arg)) for arg in harness.dyn_args_maker(np.random.RandomState(0))]
    try:
        expected = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(harness.dyn_fun)(*args))]
    except TimedOut:
        raise
    except Exception as error:
        return "JAX fails", type(error).__name__, ""
    try:
        exported = export.export(jax.jit(harness.dyn_fun))(*args)
    except TimedOut:
        raise
    except Exception as error:
        return "not exported", type(error).__name__, ""
    kept = [args[place] for place in exported.module_kept_var_idx]
    try:
        module = relaxc.compile(exported, backend="interpreter")
    except relaxc.Error as error:
        if "not supported:" in str(error) or isinstance(error, relaxc.UnsupportedError) or "complex" in str(error):
            return "refused", reason(str(error)), ""
        return "wrong", f"{type(error).__name__}: {str(error).strip()[:300]}", ""
    try:
        found = module(*kept)
    except relaxc.Trap as trap:
        return "traps", f"{trap.code}: {trap.message}"[:160], ""
    except relaxc.Error as error:
        return "wrong", f"{type(error).__name__}: {str(error).strip()[:300]}", ""
    found = [one.numpy() for one in (found if isinstance(found, tuple) else (found,))]
    unstable = harness.group_name == "sort" and not harness.params.get("is_stable", True)
    said = ""
    if reference is not None:
        results = reference.results(exported.mlir_module(), kept)
        said = f"not judged: {results}" if isinstance(results, str) else ": ".join(compared(found, results, unstable)).strip(": ")
    return *compared(found, expected, unstable), said


def compared(found: list[Any], expected: list[Any], unstable: bool) -> tuple[str, str]:
    if len(found) != len(expected):
        return "wrong", f"{len(found)} results for {len(expected)}"
    if unstable and is_other_order(found, expected):
        return "right", ""
    for ours, theirs in zip(found, expected):
        if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            return "wrong", f"{ours.dtype}{ours.shape}, not {theirs.dtype}{theirs.shape}"
        if not np.allclose(ours.astype(float), theirs.astype(float), 5e-5, 5e-5, equal_nan=True):
            place = np.argmax(~np.isclose(ours.astype(float), theirs.astype(float), 5e-5, 5e-5, equal_nan=True).reshape(-1))
            return "wrong", f"element {place}: {ours.reshape(-1)[place]}, not {theirs.reshape(-1)[place]}"
    return "right", ""


def is_other_order(found: list[Any], expected: list[Any]) -> bool:
    """Whether elements of equal keys are in another order, which an unstable sort leaves open."""
    vector = all(one.ndim == 1 for one in (*found, *expected))
    return vector and np.array_equal(found[0], expected[0]) and sorted(zip(*found)) == sorted(zip(*expected))


def reason(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if "×" in line]
    line = lines[0] if lines else message.strip().splitlines()[0].split(": ", 1)[-1]
    return line.split(" (line")[0].split(" × ")[-1][:160]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", action="store_true", help="ask StableHLO's reference interpreter too")
    parser.add_argument("--each", type=int, default=0, help="so many programs of each group and dtype at most; 0: all")
    parser.add_argument("--dtypes", default="f32,i32,bool")
    parser.add_argument("--groups", default="")
    parser.add_argument("--page")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, alarm)
    reference = Reference() if args.reference else None
    wanted = set(filter(None, args.groups.split(",")))
    dtypes = [DTYPES[name] for name in args.dtypes.split(",")]
    programs: dict[tuple[str, Any], list[Any]] = collections.defaultdict(list)
    for harness in test_harnesses.all_harnesses:
        if harness.dtype in dtypes and (not wanted or harness.group_name in wanted):
            programs[harness.group_name, harness.dtype].append(harness)
    table: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    reasons: collections.Counter[str] = collections.Counter()
    said: collections.Counter[str] = collections.Counter()
    wrong: list[tuple[str, str]] = []
    for (group, _), harnesses in programs.items():
        if args.each and len(harnesses) > args.each:
            harnesses = harnesses[:: -(-len(harnesses) // args.each)]
        for harness in harnesses:
            signal.alarm(LIMIT)
            try:
                verdict, why, other = judged(harness, reference)
            except TimedOut:
                verdict, why, other = "too slow", f"more than {LIMIT} s", ""
            finally:
                signal.alarm(0)
            table[group][verdict] += 1
            said[f"{harness.fullname}: {other}" if other.startswith("wrong") else other] += bool(other)
            if verdict == "wrong":
                wrong.append((harness.fullname, why))
                print(f"wrong: {harness.fullname}: {why}", flush=True)
            elif verdict != "right":
                reasons[f"{verdict}: {why}"] += 1
    totals: collections.Counter[str] = collections.Counter()
    for counts in table.values():
        totals.update(counts)
    print(dict(totals))
    if reference is not None:
        reference.end()
        print("the reference interpreter:", *(f"  {count} {what}" for what, count in (+said).most_common()), sep="\n")
    if args.page:
        with open(args.page, "w", encoding="utf-8") as to:
            to.write(page(totals, table, reasons, wrong))
    return int(bool(wrong))


def page(totals: Any, table: Any, reasons: Any, wrong: Any) -> str:
    escape = lambda text: text.replace("|", "\\|")
    row = lambda name, counts: f"| {name} | " + " | ".join(str(counts[column]) for column in COLUMNS) + " |"
    lines = ["| | " + " | ".join(COLUMNS) + " |", "|---|" + "---|" * len(COLUMNS), row("all", totals)]
    lines += [row(name, counts) for name, counts in sorted(table.items())]
    lines += ["", "| reason | programs |", "|---|---|"]
    lines += [f"| {escape(why)} | {count} |" for why, count in reasons.most_common()]
    if wrong:
        lines += ["", "| wrong | what |", "|---|---|"] + [f"| {escape(name)} | {escape(why)} |" for name, why in wrong]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
