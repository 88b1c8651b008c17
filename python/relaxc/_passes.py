"""Passes, rewrite rules and versions, as of the subcommands `opt`, `rewrite` and `versions`."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from . import _native
from ._errors import ArgumentError
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
    way = {"passes": names, "phase": to or "P0", "device": backend, "exact": exact}
    with given(source) as origin:
        return _native.opt(origin, way)


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


def rewrite(
    source: Any, *, rules: Sequence[str] | None = None, approximate: bool = False, limits: Mapping[str, int] | None = None
) -> Rewritten:
    """Rewrites a program by proved rules (equality saturation), to its cheapest form.

    `rules` are families, by default all. With `approximate`, rules over the real numbers are used too. `limits` are those of the search:
    nodes, iterations, classes, matches.
    """
    with given(source) as origin:
        text, regions = _native.rewrite(origin, _rules(rules, approximate, limits))
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


def versions(
    source: Any, *, rules: Sequence[str] | None = None, approximate: bool = False, limits: Mapping[str, int] | None = None
) -> Versions:
    """Gives functions versions for ranges of dims where the cheapest form depends on them. Arguments are those of `rewrite`."""
    with given(source) as origin:
        text, functions = _native.versions(origin, _rules(rules, approximate, limits))
    made = {
        name: tuple(Version(own, tuple(guard), *rest) for own, guard, *rest in found) for name, found in functions.items()
    }
    return Versions(text, made)


def _rules(rules: Sequence[str] | None, approximate: bool, limits: Mapping[str, int] | None) -> dict[str, Any]:
    if isinstance(rules, str):
        rules = rules.split(",")
    listed = [f"{name}={value}" for name, value in (limits or {}).items()]
    return {"families": None if rules is None else list(rules), "approximate": approximate, "limits": listed}
