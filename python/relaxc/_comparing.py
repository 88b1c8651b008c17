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
        found = self.difference
        dims = ", ".join(f"{name} = {value}" for name, value in found.dims.items())
        where = _html.sentence(f"{self.verdict}: {found.function}, case {found.case}, {dims}: {found.why}")
        values = [*found.arguments.items(), ("expected", found.expected), ("found", found.found)]
        return where + _html.table(("value", "is"), values) + counts


def compared(
    source: Any,
    against: Any,
    params: str | os.PathLike[str] | Mapping[str, Any] | None,
    wishes: dict[str, Any],
    cases: dict[str, Any],
) -> Comparison:
    """`relaxc.diff` with its arguments in the form of the extension module."""
    if cases["cases"] < 1 or cases["seed"] < 0:
        raise ArgumentError("expected at least one case, and a seed that is not negative")
    with given(source, params) as origin:
        if against is None:
            answer = _native.diff(origin, None, wishes, cases)
        else:
            with given(against) as other:
                answer = _native.diff(origin, other, wishes, cases)
    verdict, counts, difference = answer
    return Comparison(verdict, counts, None if difference is None else Difference(*difference))
