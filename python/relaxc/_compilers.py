"""Which C compiler there is."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys

from . import _native


def _candidates() -> list[str]:
    named = os.environ.get("CC")
    if named:
        # What the user names is taken or refused, never replaced.
        return [named]
    found = ["cc", "gcc", "clang"]
    if importlib.util.find_spec("ziglang") is not None:
        found.append(shlex.join([sys.executable, "-m", "ziglang", "cc"]))
    return found


# What was found for these candidates and this PATH: a compiler is asked for its version once.
_found: dict[tuple[tuple[str, ...], str], tuple[str, str] | None] = {}


def find() -> tuple[str, str] | None:
    """The command of the C compiler that is used, and its version: `$CC`, else `cc`, `gcc`, `clang`, else that of `ziglang`."""
    candidates = tuple(_candidates())
    key = candidates, os.environ.get("PATH", "")
    if key not in _found:
        versions = ((command, _native.compiler_version(command)) for command in candidates)
        _found[key] = next(((command, version) for command, version in versions if version is not None), None)
    return _found[key]
