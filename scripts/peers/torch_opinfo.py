#!/usr/bin/env python3
"""Compares relaxc with PyTorch on the samples of PyTorch's own database of operators (OpInfo).

    scripts/peers/torch_opinfo.py [--samples N] [--dtypes f32,i64,bool] [--ops NAME,...] [--part I/N] [--json FILE] [--page FILE]
    scripts/peers/torch_opinfo.py --merge FILE... [--page FILE]     # the page of several parts
    scripts/peers/torch_opinfo.py --core                            # the names of core ATen that have no row

Each sample is exported with torch.export, imported and run in the reference interpreter, and compared with what PyTorch computes
eagerly: dtypes, shapes, elements. Tolerances are those of PyTorch's tests: the defaults of torch.testing, or what the row of the
operator in the database overrides. A sample is mapped where each operator of its decomposed program has a row, whatever the row
makes of it. It needs the package relaxc, torch and expecttest. Exit code 1: there is a wrong result.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import signal
import sys
import tempfile
import time
import warnings
from typing import Any, Iterable

import torch
from torch.testing._comparison import default_tolerances
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import DecorateInfo
from torch.utils import _pytree as pytree

import relaxc

DTYPES = {"f32": torch.float32, "i64": torch.int64, "bool": torch.bool}
#: Operators whose elements PyTorch leaves undefined: there is nothing to compare.
UNDEFINED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
#: Seconds for one sample.
LIMIT = 20
#: What importing says of an operator without a row.
NO_ROW = "this operator is not imported"
#: Verdicts on mapped samples. The others judge nothing of ours.
MAPPED = ("right", "wrong", "closer than torch", "traps", "torch differs", "refused", "too slow")
COLUMNS = (*MAPPED, "not mapped", "not exported", "eager fails", "no sample")


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


def tolerance_of(operator: Any, dtype: Any, found: Any) -> dict[str, float]:
    """The defaults for the dtype of a result, or what the row of the operator overrides for samples of a dtype on the CPU."""
    rtol, atol = default_tolerances(found)
    for decorator in operator.decorators:
        given = [decorator]
        if isinstance(decorator, DecorateInfo):
            on_cpu = decorator.device_type in (None, "cpu")
            given = decorator.decorators if on_cpu and (decorator.dtypes is None or dtype in decorator.dtypes) else []
        for one in given:
            if isinstance(one, toleranceOverride) and dtype in one.d:
                rtol, atol = max(rtol, one.d[dtype].rtol), max(atol, one.d[dtype].atol)
    return {"rtol": rtol, "atol": atol}


def refused(exported: Any, error: relaxc.Error) -> tuple[str, str]:
    """Not mapped, where an operator of the program has no row, or a value has a layout or a dtype that there is none of here."""
    try:
        nodes = list(exported.run_decompositions().graph.nodes)
    except Exception:
        nodes = list(exported.graph.nodes)
    values = [value for node in nodes for value in pytree.tree_leaves(node.meta.get("val")) if isinstance(value, torch.Tensor)]
    if any(value.dtype.is_complex or value.is_quantized for value in values):
        return "not mapped", "complex or quantized numbers"
    if any(value.layout != torch.strided for value in values):
        return "not mapped", "sparse tensors"
    without = names_without_row({str(node.target) for node in nodes if isinstance(node.target, torch._ops.OpOverload)})
    if without:
        return "not mapped", ", ".join(sorted(without))
    return "refused", reason(str(error))


def names_without_row(calls: Iterable[str]) -> set[str]:
    """Those of ATen's operators that the importer has no row of: what it says of calls without arguments."""
    import relaxc._native

    ordered = sorted(call for call in calls if not call.split(".")[1].startswith("sym_"))
    node = lambda op: {"op": op, "args": {}, "outputs": [], "at": None}  # noqa: E731
    fields = {"symbols": [], "guards": [], "inputs": [], "weights": [], "outputs": [], "notes": [], "weights_file": None}
    text = {"format": "relax-aten", "version": 1, "producer": "", **fields, "nodes": [node(op) for op in ordered]}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "calls.aten.json")
        path.write_text(json.dumps(text), encoding="utf-8")
        return {ordered[place] for place, why in relaxc._native.refused_nodes(str(path)) if NO_ROW in why}


def judged(operator: Any, sample: Any, dtype: Any) -> tuple[str, str]:
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
    if not expected:
        return "no sample", "the operator gives no tensor"
    try:
        exported = torch.export.export(call, tensors)
    except TimedOut:
        raise
    except Exception as error:
        return "not exported", type(error).__name__
    try:
        module = relaxc.compile(exported, backend="interpreter")
    except relaxc.UnsupportedError as error:
        return refused(exported, error)
    except relaxc.ProgramError as error:
        if "not supported:" in str(error):
            return refused(exported, error)
        return "wrong", f"ProgramError: {str(error).strip()[:300]}"
    try:
        found = module(*tensors)
    except relaxc.Trap as trap:
        return "traps", f"{trap.code}: {trap.message}"[:160]
    except relaxc.Error as error:
        return "wrong", f"{type(error).__name__}: {str(error).strip()[:300]}"
    found = [torch.from_dlpack(one) for one in (found if isinstance(found, tuple) else (found,))]
    if len(found) > len(expected):
        expected += [copies[place] for place in written(exported)]
    if len(found) != len(expected):
        return "wrong", f"{len(found)} results for {len(expected)}"
    for ours, theirs in zip(found, expected):
        try:
            allowed = tolerance_of(operator, dtype, theirs.dtype)
            torch.testing.assert_close(ours, theirs.detach().contiguous(), equal_nan=True, **allowed)
        except AssertionError as error:
            if is_other_choice(operator, tensors, found, expected):
                return "right", ""
            if differs_itself(exported, tensors, expected, allowed):
                return "torch differs", "the exported program run by PyTorch differs from PyTorch's eager result"
            if is_closer(operator, sample, found, expected):
                return "closer than torch", "beyond the tolerance, and closer to what PyTorch computes in f64 than its own result"
            return "wrong", " ".join(str(error).split())[:300]
    return "right", ""


def written(exported: Any) -> list[int]:
    """The arguments that the program writes to, which are further results of ours. Only decomposed programs say so."""
    signature = exported.run_decompositions().graph_signature
    names = list(signature.user_inputs)
    mutation = torch.export.graph_signature.OutputKind.USER_INPUT_MUTATION
    return [names.index(spec.target) for spec in signature.output_specs if spec.kind == mutation]


def is_other_choice(operator: Any, tensors: Any, found: Any, expected: Any) -> bool:
    """Whether other places of equal elements were chosen, which PyTorch leaves open. The last result has the places."""
    if operator.name not in ("argsort", "topk", "sort") or any(map(lambda pair: not torch.equal(*pair), zip(found[:-1], expected))):
        return False
    x, ours, theirs = tensors[0], found[-1], expected[-1]
    inside = lambda axis: ours.numel() and max(ours.max(), theirs.max()) < x.shape[axis]  # noqa: E731
    axes = (axis for axis in range(x.ndim) if ours.ndim == x.ndim and inside(axis))
    return any(torch.equal(x.gather(axis, ours), x.gather(axis, theirs)) for axis in axes)


def is_closer(operator: Any, sample: Any, found: Any, expected: Any) -> bool:
    """Whether PyTorch's own error is the greater one, judged by its f64 results."""

    def wide(leaf: Any) -> Any:
        return leaf.detach().double() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

    given = pytree.tree_map(wide, ((sample.input, *sample.args), sample.kwargs))
    exact = tensors_of(operator(*given[0], **given[1]))
    error = lambda results: max((one.double() - judge).abs().max() for one, judge in zip(results, exact) if judge.numel())  # noqa: E731
    return bool(error(found) <= error(expected))


def differs_itself(exported: Any, tensors: Any, expected: Any, allowed: dict[str, float]) -> bool:
    """Whether PyTorch's own run of the decomposed program differs from the eager one."""
    try:
        itself = tensors_of(exported.run_decompositions().module()(*tensors))
        for ours, theirs in zip(itself, expected):
            torch.testing.assert_close(ours, theirs, equal_nan=True, **allowed)
    except AssertionError:
        return True
    return False


def reason(message: str) -> str:
    lines = [line.strip() for line in message.splitlines()[1:] if line.strip()]
    line = lines[0] if lines else message.strip().splitlines()[0]
    return line.split(" (")[0].removeprefix("1 × ")[:160]


class Results:
    """Verdicts by operator, and why."""

    def __init__(self) -> None:
        self.operators: dict[str, collections.Counter[str]] = {}
        self.reasons: collections.Counter[str] = collections.Counter()
        self.wrong: list[dict[str, str]] = []

    def count(self, name: str, verdict: str, why: str) -> None:
        self.operators.setdefault(name, collections.Counter())[verdict] += 1
        if why:
            self.reasons[f"{verdict}: {why}"] += 1

    def add(self, other: dict[str, Any]) -> None:
        for name, counts in other["operators"].items():
            self.operators.setdefault(name, collections.Counter()).update(counts)
        self.reasons.update(other["reasons"])
        self.wrong += other["wrong"]

    def totals(self) -> collections.Counter[str]:
        totals: collections.Counter[str] = collections.Counter()
        for counts in self.operators.values():
            totals.update(counts)
        return totals

    def share(self) -> str:
        totals = self.totals()
        mapped = sum(totals[verdict] for verdict in MAPPED)
        return f"{totals['right']} of {mapped} mapped samples right, {100 * totals['right'] / max(mapped, 1):.1f} %"

    def page(self) -> str:
        escaped = lambda text: text.replace("|", "\\|")  # noqa: E731
        row = lambda name, counts: f"| {name} | " + " | ".join(str(counts[column]) for column in COLUMNS) + " |"  # noqa: E731
        lines = ["| | " + " | ".join(COLUMNS) + " |", "|---|" + "---|" * len(COLUMNS), row("all", self.totals())]
        lines += [row(name, counts) for name, counts in sorted(self.operators.items())]
        lines += ["", self.share(), "", "| reason | samples |", "|---|---|"]
        lines += [f"| {escaped(why)} | {count} |" for why, count in self.reasons.most_common()]
        if self.wrong:
            lines += ["", "| wrong | dtype | sample | what |", "|---|---|---|---|"]
            lines += [f"| {w['operator']} | {w['dtype']} | {w['sample']} | {escaped(w['why'])} |" for w in self.wrong]
        return "\n".join(lines) + "\n"


def core() -> int:
    """Which names of core ATen have a row. A size is a dim of the description, and no call."""
    packets = [getattr(torch.ops.aten, name) for name in dir(torch.ops.aten)]
    overloads = [getattr(packet, one) for packet in packets for one in getattr(packet, "overloads", list)()]
    calls = {str(one) for one in overloads if torch.Tag.core in one.tags}
    without = names_without_row(calls)
    name = lambda call: call.split(".")[1]  # noqa: E731
    names, mapped = set(map(name, calls)), set(map(name, calls - without))
    print(f"{len(mapped)} of {len(names)} names of core ATen are mapped, torch {torch.__version__}")
    print("not mapped:", ", ".join(sorted(names - mapped)))
    print("overloads that are not:", ", ".join(sorted(one for one in without if name(one) in mapped)))
    return 0


def samples_of(info: Any, dtype: Any, most: int) -> list[tuple[int, Any]]:
    """Evenly spread ones, with their places."""
    torch.manual_seed(0)
    samples = list(enumerate(info.sample_inputs("cpu", dtype, requires_grad=False)))
    return samples[:: -(-len(samples) // most)] if most and len(samples) > most else samples


def judge(results: Results, infos: Iterable[Any], args: argparse.Namespace) -> None:
    signal.signal(signal.SIGALRM, alarm)
    begin = time.monotonic()
    for at, info in enumerate(infos):
        name = f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name
        if args.seconds and time.monotonic() - begin > args.seconds:
            results.reasons["operator not looked at: out of time"] += 1
            continue
        for short in args.dtypes.split(","):
            dtype = DTYPES[short]
            if dtype not in info.supported_dtypes("cpu"):
                continue
            print(f"\r{at}: {name} {short}", end="\033[K", file=sys.stderr, flush=True)
            try:
                samples = samples_of(info, dtype, args.samples)
            except Exception as error:
                results.count(name, "no sample", type(error).__name__)
                continue
            for place, sample in samples:
                signal.alarm(LIMIT)
                try:
                    verdict, why = judged(info, sample, dtype)
                except TimedOut:
                    verdict, why = "too slow", f"more than {LIMIT} s"
                except Exception as error:
                    verdict, why = "wrong", f"{type(error).__name__}: {error}"[:300]
                finally:
                    signal.alarm(0)
                if verdict == "wrong":
                    results.wrong.append({"operator": name, "dtype": short, "sample": str(place), "why": why})
                results.count(name, verdict, "" if verdict == "wrong" else why)
                if args.verbose and verdict in MAPPED and verdict != "right":
                    print(f"{verdict}: {name} {short} {place}: {why}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=0, help="so many of each operator and dtype at most; 0: all")
    parser.add_argument("--dtypes", default="f32,i64,bool")
    parser.add_argument("--ops", default="")
    parser.add_argument("--part", default="1/1", help="I/N: each N-th operator, from the I-th on")
    parser.add_argument("--seconds", type=float, default=0, help="start no operator later than this; those left out are counted")
    parser.add_argument("--verbose", action="store_true", help="print each mapped sample that is not right")
    parser.add_argument("--merge", nargs="+", metavar="FILE", help="results of --json of several parts, instead of a run")
    parser.add_argument("--core", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--page")
    args = parser.parse_args()
    if args.core:
        return core()
    warnings.simplefilter("ignore")
    results = Results()
    for file in args.merge or ():
        results.add(json.loads(pathlib.Path(file).read_text(encoding="utf-8")))
    if not args.merge:
        wanted = set(filter(None, args.ops.split(",")))
        infos = [info for info in op_db if info.name not in UNDEFINED and (not wanted or info.name in wanted)]
        part, parts = (int(number) for number in args.part.split("/"))
        judge(results, infos[part - 1 :: parts], args)
    print(dict(results.totals()), results.share())
    if args.json:
        made = {"operators": results.operators, "reasons": results.reasons, "wrong": results.wrong}
        pathlib.Path(args.json).write_text(json.dumps(made, indent=1, sort_keys=True), encoding="utf-8")
    if args.page:
        pathlib.Path(args.page).write_text(results.page(), encoding="utf-8")
    return int(bool(results.wrong))


if __name__ == "__main__":
    sys.exit(main())
