"""Passes, gradients, rewrite rules and versions, as of the subcommands `opt`, `grad`, `rewrite` and `versions`."""

from __future__ import annotations

import json
import os
import warnings
from typing import Any, Mapping, NamedTuple, Sequence

from . import _html, _native
from ._errors import ArgumentError, UnprovedRuleWarning
from ._sources import given


def opt(
    source: Any,
    *,
    to: str | None = None,
    passes: str | Sequence[str] | None = None,
    backend: str = "cpu",
    exact: bool = False,
) -> str:
    """The text of a program after passes, which parses and runs again.

    Either all passes to the phase `to` (P0, P1, P2.1, P2.2 or P2.3) for `backend` (interp, cpu, wgpu or cuda), or those of
    `passes` by their names.
    """
    if (to is None) == (passes is None):
        raise ArgumentError("expected either `to`, a phase, or `passes`, names of passes")
    names = passes if passes is None or isinstance(passes, str) else ",".join(passes)
    with given(source) as origin:
        return _native.opt(origin, _way(names, to or "P0", backend, exact))


def _way(passes: str | None, to: str, backend: str, exact: bool) -> dict[str, Any]:
    """How a program is brought to a phase, in the form of the extension module."""
    return {"passes": passes, "phase": to, "device": backend, "exact": exact}


class MemoryReport(NamedTuple):
    """What the functions of a program with explicit memory take.

    `text` is for people. `functions` have storages, tensors, calls and bytes as expressions of dims, and figures for some dims. `svg`
    is a picture of the storages over the steps of each function.
    """

    text: str
    functions: list[dict[str, Any]]
    svg: str

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.svg


def memory_report(
    source: Any, *, dims: Mapping[str, int] | None = None, to: str = "P2.1", backend: str = "cpu", exact: bool = False
) -> MemoryReport:
    """The memory plan of a program after all passes to the phase `to` for `backend`. `dims` are values of symbolic dims for figures and picture."""
    with given(source) as origin:
        text, figures, svg = _native.memory_report(origin, _way(None, to, backend, exact), dict(dims or {}))
    return MemoryReport(text, json.loads(figures)["functions"], svg)


def grad(source: Any, *, function: str | None = None, wrt: str | Sequence[str] = ()) -> str:
    """The text of a program with the adjoint of a function, which gives its value and the gradients.

    `function` is `main`, or the only public one, without a name. `wrt` are parameters, by default all that are floats.
    """
    names = wrt.split(",") if isinstance(wrt, str) else list(wrt)
    with given(source) as origin:
        return _native.grad(origin, function, names)


class RewriteStep(NamedTuple):
    """A rule, and the expression before and after it."""

    rule: str
    before: str
    after: str


class RewrittenRegion(NamedTuple):
    """A dataflow region that was rewritten, by its outputs, and the steps that led to its form."""

    function: str
    outputs: tuple[str, ...]
    steps: tuple[RewriteStep, ...]


class Rewritten(NamedTuple):
    """The text of a rewritten program, and why it became that."""

    text: str
    regions: tuple[RewrittenRegion, ...]

    def _repr_html_(self) -> str:
        steps = [
            (region.function, ", ".join(region.outputs), *step) for region in self.regions for step in region.steps
        ]
        return _html.code(self.text) + _html.table(("function", "outputs", "rule", "before", "after"), steps)


def rewrite(
    source: Any,
    *,
    rules: str | Sequence[str | os.PathLike[str]] | None = None,
    unproved: bool = False,
    approximate: bool = False,
    limits: Mapping[str, int] | None = None,
) -> Rewritten:
    """Rewrites a program by proved rules (equality saturation), to its cheapest form.

    `rules` are families, `all`, and files of rules, `mine.rx`; by default all families. Each rule of a file is proved first. With
    `unproved`, those that have neither a proof nor a counterexample are used too; an `UnprovedRuleWarning` names those that led to a
    form. With `approximate`, rules over the real numbers are used too. `limits` are those of the search: nodes, iterations,
    classes, matches.
    """
    with given(source) as origin:
        text, regions, used = _native.rewrite(origin, rule_list(rules, unproved, approximate, limits))
    for rule in used:
        warnings.warn(f"rewritten by `{rule}`, which is not proved", UnprovedRuleWarning, stacklevel=2)
    return Rewritten(
        text,
        tuple(
            RewrittenRegion(function, tuple(outputs), tuple(RewriteStep(*step) for step in steps))
            for function, outputs, steps in regions
        ),
    )


class Version(NamedTuple):
    """A version of a function: it is called where all comparisons of `guard` hold and no version before it is called.

    `taken` are dims that call it, where some are known. Costs are polynomials in dims.
    """

    name: str
    guard: tuple[str, ...]
    taken: dict[str, int] | None
    operations: str
    bytes: str
    launches: str


class Versions(NamedTuple):
    """The text of a program with versions of functions behind guards, and the versions by function: none for one that has one form."""

    text: str
    functions: dict[str, tuple[Version, ...]]

    def _repr_html_(self) -> str:
        rows = []
        for function, versions in self.functions.items():
            if not versions:
                rows.append((function, "one version for all dims", "", "", "", ""))
            for one in versions:
                guard = " and ".join(one.guard) or "else"
                rows.append((function, one.name, guard, one.operations, one.bytes, one.launches))
        return _html.table(("function", "version", "guard", "operations", "bytes", "launches"), rows)


def versions(
    source: Any,
    *,
    rules: str | Sequence[str | os.PathLike[str]] | None = None,
    unproved: bool = False,
    approximate: bool = False,
    limits: Mapping[str, int] | None = None,
) -> Versions:
    """Gives functions versions for ranges of dims where the cheapest form depends on them. Arguments are those of `rewrite`.

    An `UnprovedRuleWarning` names each rule that is not proved: versions may depend on it.
    """
    with given(source) as origin:
        text, functions, used = _native.versions(origin, rule_list(rules, unproved, approximate, limits))
    warn_of_unproved(used)
    made = {
        name: tuple(Version(own, tuple(guard), *rest) for own, guard, *rest in found) for name, found in functions.items()
    }
    return Versions(text, made)


def warn_of_unproved(rules: Sequence[str]) -> None:
    """Where it is not known which of them were used, in a function that the user calls."""
    for rule in rules:
        warnings.warn(f"the rule `{rule}` is not proved: results may depend on it", UnprovedRuleWarning, stacklevel=3)


def rule_list(
    rules: str | Sequence[str | os.PathLike[str]] | None,
    unproved: bool = False,
    approximate: bool = False,
    limits: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Rules in the form of the extension module."""
    if isinstance(rules, str):
        rules = rules.split(",")
    items = None if rules is None else [os.fspath(item).strip() for item in rules]
    listed = [f"{name}={value}" for name, value in (limits or {}).items()]
    return {"items": items, "unproved": unproved, "approximate": approximate, "limits": listed}
