"""Which PyTorch there is."""

from __future__ import annotations

import re
from typing import Any

from .._errors import UnsupportedError

#: The oldest version that the walk was tested with.
OLDEST = (2, 15)


def torch_module() -> Any:
    """PyTorch, where it is there and new enough."""
    try:
        import torch  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise UnsupportedError(f"PyTorch cannot be imported: {error}") from error
    found = re.match(r"(\d+)\.(\d+)", torch.__version__)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise UnsupportedError(f"PyTorch {torch.__version__} is too old: {oldest} or later is needed")
    return torch
