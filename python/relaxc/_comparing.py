"""Differential testing, as of the subcommand `diff`."""

from __future__ import annotations

import os
from typing import Any, Mapping, NamedTuple

from . import _html, _native
from ._errors import ArgumentError
from ._sources import given


class Difference(NamedTuple):
    """A case in which two routes differ, at dims as small as some tries lead. Values are texts."""

    function: str
    case: int
    dims: dict[str, int]
    why: str
    arguments: dict[str, str]
    expected: str
    found: str


class Comparison(NamedTuple):
    """What became of the cases. It is true where some were compared and none differed.

    `verdict` is "the same", "different" or "nothing compared". `counts` are cases: compared, of these as_reals (beyond last digits, and in
    f64 within what rounding explains), ill_conditioned, trapped_alike, limits, unsupported, rejected.
    """

    verdict: str
    counts: dict[str, int]
    difference: Difference | None

    def __bool__(self) -> bool:
        return self.verdict == "the same"

    def _repr_html_(self) -> str:
        counts = _html.table(("cases", "count"), [(name, count) for name, count in self.counts.items() if count])
        if self.difference is None:
            return _html.sentence(self.verdict) + counts
        return _shown(self.difference, self.verdict) + counts


class FunctionEquivalence(NamedTuple):
    """What is known of a function: `equal` is proved for all dims and inputs, `vacuous` where no case had a value, `open` where it is neither proved
    nor refuted. `how` says how it is proved, or why not.
    """

    function: str
    verdict: str
    how: str
    counts: dict[str, int]


class Equivalence(NamedTuple):
    """Whether two programs have the same values and traps. It is true where all functions are proved to be equal.

    `difference` is a case in which they differ. `alone` says which function only one of the programs has.
    """

    functions: tuple[FunctionEquivalence, ...]
    difference: Difference | None
    alone: str | None

    def __bool__(self) -> bool:
        return bool(self.functions) and all(one.verdict == "equal" for one in self.functions)

    def _repr_html_(self) -> str:
        if self.difference is not None:
            return _shown(self.difference, "different")
        if self.alone is not None:
            return _html.sentence(f"different: {self.alone}")
        rows = [(one.function, one.verdict, one.how, one.counts["compared"]) for one in self.functions]
        return _html.table(("function", "verdict", "how", "compared"), rows)


def _shown(found: Difference, verdict: str) -> str:
    dims = ", ".join(f"{name} = {value}" for name, value in found.dims.items())
    where = _html.sentence(f"{verdict}: {found.function}, case {found.case}, {dims}: {found.why}")
    values = [*found.arguments.items(), ("expected", found.expected), ("found", found.found)]
    return where + _html.table(("value", "is"), values)


def compared(
    source: Any,
    against: Any,
    params: str | os.PathLike[str] | Mapping[str, Any] | None,
    wishes: dict[str, Any],
    cases: dict[str, Any],
) -> Comparison:
    """`relaxc.diff` with its arguments in the form of the extension module."""
    _check_cases(cases)
    with given(source, params) as origin:
        if against is None:
            answer = _native.diff(origin, None, wishes, cases)
        else:
            with given(against) as other:
                answer = _native.diff(origin, other, wishes, cases)
    verdict, counts, difference = answer
    return Comparison(verdict, counts, None if difference is None else Difference(*difference))


def _check_cases(cases: dict[str, Any]) -> None:
    if cases["cases"] < 1 or cases["seed"] < 0:
        raise ArgumentError("expected at least one case, and a seed that is not negative")


def equiv(
    source: Any,
    other: Any,
    *,
    params: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    entry: str | None = None,
    cases: int = 100,
    seed: int = 0,
) -> Equivalence:
    """Proves that two programs have the same values and traps for all dims and inputs, or finds inputs where they differ, as `relax equiv` does.

    What only the solver z3 proves is open. Constants without a value in `params` are random.
    """
    wishes = {"compiler": None, "exact": False, "kernel_check": True, "threads": 0, "max_memory": None, "rules": None}
    chosen = {"entry": entry, "seed": seed, "cases": cases}
    _check_cases(chosen)
    with given(source, params) as origin, given(other) as second:
        functions, difference, alone = _native.equiv(origin, second, wishes, chosen)
    each = tuple(FunctionEquivalence(*one) for one in functions)
    return Equivalence(each, None if difference is None else Difference(*difference), alone)
