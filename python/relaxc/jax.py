"""Programs of `jax.export`, with symbolic dims.

>>> import jax, relaxc
>>> from jax import export
>>> x = jax.ShapeDtypeStruct(export.symbolic_shape("batch, 4"), "float32")
>>> exported = export.export(jax.jit(function))(x)
>>> module = relaxc.compile(exported)
>>> module(numpy.ones((3, 4), "float32"))
"""

from __future__ import annotations

import os
from typing import Any

from ._errors import ArgumentError, UnsupportedError
from ._files import write_text
from ._versions import required

__all__ = ["save", "text"]

#: The oldest version that the import was tested with.
OLDEST = (0, 10)


def text(exported: Any) -> str:
    """The StableHLO text of a `jax.export.Exported`, which the command reads from a file `.mlir` too.

    `UnsupportedError` where the program is for several devices or needs more than its arguments.
    """
    # Other versions print other operations.
    required("jax", "JAX", OLDEST)
    if not hasattr(exported, "mlir_module"):
        raise ArgumentError(f"expected a `jax.export.Exported`, found `{type(exported).__name__}`")
    if exported.nr_devices != 1:
        raise UnsupportedError(f"a program for {exported.nr_devices} devices")
    if exported.ordered_effects or exported.unordered_effects:
        effects = [*exported.ordered_effects, *exported.unordered_effects]
        raise UnsupportedError(f"a program with effects: {', '.join(map(str, effects))}")
    module: str = exported.mlir_module()
    return module


def save(exported: Any, path: str | os.PathLike[str]) -> None:
    """Writes the StableHLO text of an exported program."""
    write_text(os.fspath(path), text(exported))
