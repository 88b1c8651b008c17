"""The backend of `torch.compile`: inference, one compilation for all sizes of the dims that are marked."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import tempfile
import warnings
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from .. import _native, compile as compiled
from .._errors import ArgumentError, FallbackWarning, ProgramError, UnsupportedError
from ._describe import graph, write
from ._versions import torch_module

_LOG = logging.getLogger("relaxc.torch")


class Compilation(NamedTuple):
    """A graph that `torch.compile` gave to the backend.

    `notes` say among others which guards of PyTorch the program does not need. `fallback` is why PyTorch runs the graph, else None.
    """

    operators: int
    notes: tuple[str, ...]
    fallback: str | None


_compilations: list[Compilation] = []


def compilations() -> tuple[Compilation, ...]:
    """What the backend compiled in this process, in order."""
    return tuple(_compilations)


def backend(module: Any, example_inputs: Sequence[Any], *, threads: int | None = None, exact: bool = False) -> Callable[..., Any]:
    """`torch.compile(model, backend="relaxc")` calls this for each graph."""
    torch = torch_module()
    from torch._decomp import core_aten_decompositions  # type: ignore[import-not-found, unused-ignore]
    from torch._dynamo.backends.common import aot_autograd  # type: ignore[import-not-found, unused-ignore]

    tensors = [value for value in (*example_inputs, *module.parameters()) if isinstance(value, torch.Tensor)]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        raise UnsupportedError("gradients are not supported: call the model within torch.no_grad() or torch.inference_mode()")
    inference = functools.partial(_inference, threads=threads, exact=exact)
    wrapped = aot_autograd(fw_compiler=inference, inference_compiler=inference, decompositions=core_aten_decompositions())
    return wrapped(module, example_inputs)


def _inference(module: Any, example_inputs: Sequence[Any], *, threads: int | None, exact: bool) -> Callable[..., Any]:
    torch = torch_module()
    operators = sum(node.op == "call_function" for node in module.graph.nodes)
    try:
        description, weights, taken, made = graph(module)
        with tempfile.TemporaryDirectory(prefix="relaxc-") as folder:
            path = os.path.join(folder, "graph.aten.json")
            write(description, weights, path)
            notes = tuple(_native.imported(path)[1])
            program = compiled(path, threads=threads, exact=exact)
    except (UnsupportedError, ProgramError) as error:
        why = str(error)
        _compilations.append(Compilation(operators, (), why))
        warnings.warn(f"PyTorch runs a graph of {operators} operators, which relaxc does not: {why}", FallbackWarning, stacklevel=2)
        return _boxed(module.forward)
    _compilations.append(Compilation(operators, notes, None))
    for note in notes:
        _LOG.info("%s", note)

    def run(*values: Any) -> list[Any]:
        found = program(*(values[place].detach() for place in taken))
        results = [torch.from_dlpack(one) for one in (found if isinstance(found, tuple) else (found,))]
        return [_result(torch, results, place, values, source) for place, source in enumerate(made)]

    return _boxed(run)


def _result(torch: Any, results: list[Any], place: int, values: Sequence[Any], source: Any) -> Any:
    """A tensor, a number that a rank 0 tensor holds, or what the graph gives as it is."""
    kind, at = source
    if kind == "tensor":
        return results[at]
    if kind == "number":
        return int(results[at])
    return at


def _boxed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Takes its arguments as one list, as AOTAutograd hands them over."""

    def call(values: list[Any]) -> Any:
        given = list(values)
        values.clear()
        return function(*given)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def dynamic(function: Callable[..., Any], dims: Mapping[str, int | Sequence[int]]) -> Callable[..., Any]:
    """Marks dims of arguments as unbacked before each call, so that `torch.compile` makes one graph for all sizes, 0 and 1 too.

    >>> model = relaxc.torch.dynamic(torch.compile(model, backend="relaxc"), {"x": 0, "mask": (0, 1)})
    """
    torch = torch_module()
    inner = getattr(function, "_orig_mod", function)
    signature = inspect.signature(getattr(inner, "forward", inner))
    unknown = set(dims) - set(signature.parameters)
    if unknown:
        raise ArgumentError(f"dims: there is no parameter {', '.join(sorted(map(repr, unknown)))}")
    places = {name: (axes,) if isinstance(axes, int) else tuple(axes) for name, axes in dims.items()}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        for name, axes in places.items():
            tensor = bound.arguments.get(name)
            if not isinstance(tensor, torch.Tensor):
                continue
            for axis in axes:
                torch._dynamo.decorators.mark_unbacked(tensor, axis)
        return function(*args, **kwargs)

    return call
