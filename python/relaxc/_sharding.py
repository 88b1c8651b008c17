"""Layouts of distributed programs, as of the subcommand `shard`."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from . import _html, _native
from ._sources import given


class Sharding(NamedTuple):
    """A distributed program with layouts.

    `text` has the layout of each value, `local` is what each rank runs. `sent` is how many bytes all ranks send, an expression of dims. Costs were
    compared at `samples`; there may be cheaper layouts where not `all_compared`.
    """

    text: str
    local: str
    sent: str
    samples: dict[str, int]
    all_compared: bool

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return _html.code(self.text) + _html.sentence(f"all ranks together send {self.sent} bytes")


def shard(source: Any, *, entry: str | None = None, sizes: Mapping[str, int] | None = None) -> Sharding:
    """Chooses layouts of a function of a program that declares a mesh. `sizes` are those of symbolic dims at which costs are compared."""
    with given(source) as origin:
        return Sharding(*_native.shard(origin, entry, dict(sizes or {})))
