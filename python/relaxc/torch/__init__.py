"""Programs of `torch.export`, and a backend of `torch.compile`.

>>> import torch, relaxc
>>> exported = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
>>> module = relaxc.compile(exported)
>>> torch.from_dlpack(module(x))
"""

from __future__ import annotations

from ._backend import Compilation, backend, compilations, dynamic
from ._describe import describe, save
from ._subgraphs import Subgraph

__all__ = ["Compilation", "Subgraph", "backend", "compilations", "describe", "dynamic", "save"]
