"""What a program can be given as, and its constants."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import Any, Callable, Iterator, Mapping, NamedTuple

from . import _native
from ._errors import ArgumentError


@contextlib.contextmanager
def given(source: Any, params: str | os.PathLike[str] | Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    """A program and its constants for the extension module, in files that last as long as the context where they need some.

    A `str` of several lines is a text, of one line a path.
    """
    exporter = _exporter(source)
    if exporter is not None and params is not None:
        raise ArgumentError("params: an exported program has its own weights")
    with contextlib.ExitStack() as stack:

        def file(name: str) -> str:
            return os.path.join(stack.enter_context(tempfile.TemporaryDirectory(prefix="relaxc-")), name)

        if isinstance(params, Mapping):
            path = file("params.safetensors")
            _native.write_params(path, dict(params))
            params = path
        origin: dict[str, Any] = {"text": None, "path": None, "params": None if params is None else os.fspath(params)}
        if exporter is not None:
            origin["path"] = file(exporter.file)
            exporter.save(source, origin["path"])
        elif isinstance(source, str) and "\n" in source:
            try:
                source.encode()
            except UnicodeEncodeError as error:
                line = source.count("\n", 0, error.start) + 1
                raise ArgumentError(f"line {line} of the text has a character that is none: {error.object[error.start]!r}") from error
            origin["text"] = source
        elif isinstance(source, (str, os.PathLike)):
            origin["path"] = os.fspath(source)
        else:
            raise ArgumentError(f"expected the text of a program or a path, found `{type(source).__name__}`")
        yield origin


class _Exporter(NamedTuple):
    """What writes an exported program into a file, and the name of the file."""

    save: Callable[[Any, str], None]
    file: str


def _exporter(source: Any) -> _Exporter | None:
    """None for what is no exported program. PyTorch and JAX are imported only where there is one of theirs."""
    kind = type(source)
    if kind.__name__ == "ExportedProgram" and kind.__module__.startswith("torch.export"):
        from . import torch

        return _Exporter(torch.save, "exported.aten.json")
    if kind.__name__ == "Exported" and kind.__module__.startswith("jax."):
        from . import jax

        return _Exporter(jax.save, "exported.mlir")
    return None
