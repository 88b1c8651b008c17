#!/usr/bin/env python3
"""Compares relaxc with PyTorch on the samples of PyTorch's own database of operators (OpInfo).

    scripts/peers/torch_opinfo.py [--samples N] [--dtypes f32,i64,bool] [--ops NAME,...] [--json FILE] [--page FILE]

Each sample is exported with torch.export, imported and run in the reference interpreter, and compared with what PyTorch computes
eagerly: dtypes, shapes, elements. It needs the package relaxc, torch and expecttest. Exit code 1: there is a wrong result.
"""

from __future__ import annotations

import argparse
import collections
import json
import signal
import sys
import time
import warnings
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import relaxc

DTYPES = {"f32": torch.float32, "i64": torch.int64, "bool": torch.bool}
#: Operators whose elements PyTorch leaves undefined: there is nothing to compare.
UNDEFINED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
#: Seconds for one sample.
LIMIT = 20


class Call(torch.nn.Module):
    """One sample: tensors are parameters of `forward`, everything else is a constant."""

    def __init__(self, operator: Any, leaves: list[Any], spec: Any) -> None:
        super().__init__()
        self.operator, self.leaves, self.spec = operator, leaves, spec

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.operator(*args, **kwargs)


class TimedOut(Exception):
    pass


def alarm(*_: Any) -> None:
    raise TimedOut


def tensors_of(value: Any) -> list[torch.Tensor]:
    leaves = pytree.tree_leaves(value)
    return [leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf) for leaf in leaves if leaf is not None]


def judged(operator: Any, sample: Any) -> tuple[str, str]:
    """A verdict, and what it is about."""
    leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    leaves = [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    tensors = tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
    call = Call(operator, leaves, spec)
    copies = tuple(t.clone() for t in tensors)
    try:
        expected = tensors_of(call(*copies))
    except Exception as error:
        return "eager fails", type(error).__name__
    try:
        exported = torch.export.export(call, tensors)
    except TimedOut:
        raise
    except Exception as error:
        return "not exported", type(error).__name__
    try:
        module = relaxc.compile(exported, backend="interpreter")
    except relaxc.UnsupportedError as error:
        return "refused", reason(str(error))
    except relaxc.ProgramError as error:
        if "not supported:" in str(error):
            return "refused", reason(str(error))
        return "wrong", f"ProgramError: {str(error).strip()[:300]}"
    try:
        found = module(*tensors)
    except relaxc.Trap as trap:
        return "traps", f"{trap.code}: {trap.message}"[:160]
    except relaxc.Error as error:
        return "wrong", f"{type(error).__name__}: {str(error).strip()[:300]}"
    found = [torch.from_dlpack(one) for one in (found if isinstance(found, tuple) else (found,))]
    if len(found) != len(expected):
        return "wrong", f"{len(found)} results for {len(expected)}"
    for ours, theirs in zip(found, expected):
        try:
            torch.testing.assert_close(ours, theirs.detach().contiguous(), rtol=2e-5, atol=2e-5, equal_nan=True)
        except AssertionError as error:
            if is_other_choice(operator, tensors, found, expected):
                return "right", ""
            if differs_itself(exported, tensors, expected):
                return "torch differs", "the exported program run by PyTorch differs from PyTorch's eager result"
            return "wrong", " ".join(str(error).split())[:300]
    return "right", ""


def is_other_choice(operator: Any, tensors: Any, found: Any, expected: Any) -> bool:
    """Whether other places of equal elements were chosen, which PyTorch leaves open."""
    if operator.name not in ("topk", "sort") or not torch.equal(found[0], expected[0]):
        return False
    return any(
        ours.ndim and torch.equal(tensors[0].gather(axis, ours), theirs)
        for ours, theirs in [(found[1], expected[0])]
        for axis in range(tensors[0].ndim)
        if all(a >= b for a, b in zip(tensors[0].shape, ours.shape))
    )


def differs_itself(exported: Any, tensors: Any, expected: Any) -> bool:
    """Whether PyTorch's own run of the decomposed program differs from the eager one."""
    try:
        itself = tensors_of(exported.run_decompositions().module()(*tensors))
        for ours, theirs in zip(itself, expected):
            torch.testing.assert_close(ours, theirs, rtol=2e-5, atol=2e-5, equal_nan=True)
    except AssertionError:
        return True
    return False


def reason(message: str) -> str:
    lines = [line.strip() for line in message.splitlines()[1:] if line.strip()]
    line = lines[0] if lines else message.strip().splitlines()[0]
    return line.split(" (")[0].removeprefix("1 × ")[:160]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=0, help="so many of each operator and dtype at most; 0: all")
    parser.add_argument("--dtypes", default="f32,i64,bool")
    parser.add_argument("--ops", default="")
    parser.add_argument("--seconds", type=float, default=0, help="start no operator later than this; those left out are counted")
    parser.add_argument("--json")
    parser.add_argument("--page")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, alarm)
    wanted = set(filter(None, args.ops.split(",")))
    table: dict[str, collections.Counter[str]] = {}
    reasons: collections.Counter[str] = collections.Counter()
    wrong: list[dict[str, str]] = []
    begin = time.monotonic()
    for info in op_db:
        name = f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name
        if info.name in UNDEFINED or wanted and info.name not in wanted:
            continue
        if args.seconds and time.monotonic() - begin > args.seconds:
            reasons["operator not looked at: out of time"] += 1
            continue
        for short in args.dtypes.split(","):
            dtype = DTYPES[short]
            if dtype not in info.supported_dtypes("cpu"):
                continue
            counts = table.setdefault(name, collections.Counter())
            print(f"\r{len(table)}: {name} {short}", end="\033[K", file=sys.stderr, flush=True)
            torch.manual_seed(0)
            try:
                samples = list(info.sample_inputs("cpu", dtype, requires_grad=False))
            except Exception as error:
                counts["no sample"] += 1
                reasons[f"no sample: {type(error).__name__}"] += 1
                continue
            if args.samples and len(samples) > args.samples:
                samples = samples[:: -(-len(samples) // args.samples)]
            for place, sample in enumerate(samples):
                signal.alarm(LIMIT)
                try:
                    verdict, why = judged(info, sample)
                except TimedOut:
                    verdict, why = "too slow", f"more than {LIMIT} s"
                except Exception as error:
                    verdict, why = "wrong", f"{type(error).__name__}: {error}"[:300]
                finally:
                    signal.alarm(0)
                counts[verdict] += 1
                if verdict == "wrong":
                    wrong.append({"operator": name, "dtype": short, "sample": str(place), "why": why})
                    print(f"wrong: {name} {short} {place}: {why}", flush=True)
                elif verdict != "right":
                    reasons[f"{verdict}: {why}"] += 1
    totals: collections.Counter[str] = collections.Counter()
    for counts in table.values():
        totals.update(counts)
    print(dict(totals))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as to:
            json.dump({"totals": totals, "operators": table, "reasons": reasons, "wrong": wrong}, to, indent=1, sort_keys=True)
    if args.page:
        with open(args.page, "w", encoding="utf-8") as to:
            to.write(page(totals, table, reasons, wrong))
    return int(bool(wrong))


def page(totals: Any, table: Any, reasons: Any, wrong: Any) -> str:
    columns = ["right", "wrong", "traps", "torch differs", "refused", "not exported", "eager fails", "too slow", "no sample"]
    lines = [
        "| | " + " | ".join(columns) + " |",
        "|---|" + "---|" * len(columns),
        "| all | " + " | ".join(str(totals[column]) for column in columns) + " |",
    ]
    for name, counts in sorted(table.items()):
        lines.append(f"| {name} | " + " | ".join(str(counts[column]) for column in columns) + " |")
    lines += ["", "| reason | samples |", "|---|---|"]
    lines += [f"| {why.replace('|', chr(92) + '|')} | {count} |" for why, count in reasons.most_common()]
    if wrong:
        lines += ["", "| wrong | dtype | sample | what |", "|---|---|---|---|"]
        lines += [f"| {w['operator']} | {w['dtype']} | {w['sample']} | {w['why'].replace('|', '/')} |" for w in wrong]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
