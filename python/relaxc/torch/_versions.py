"""Which PyTorch there is."""

from __future__ import annotations

from typing import Any

from .._versions import required

#: The oldest version that the walk was tested with.
OLDEST = (2, 15)


def torch_module() -> Any:
    """PyTorch, where it is there and new enough."""
    return required("torch", "PyTorch", OLDEST)
