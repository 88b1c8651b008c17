"""Packages that only some programs need."""

from __future__ import annotations

import importlib
import re
from typing import Any

from ._errors import UnsupportedError


def required(package: str, name: str, oldest: tuple[int, int]) -> Any:
    """A package, where it is there and new enough."""
    try:
        module = importlib.import_module(package)
    except ImportError as error:
        raise UnsupportedError(f"{name} cannot be imported: {error}") from error
    found = re.match(r"(\d+)\.(\d+)", module.__version__)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if version < oldest:
        needed = ".".join(map(str, oldest))
        raise UnsupportedError(f"{name} {module.__version__} is too old: {needed} or later is needed")
    return module
