"""The backend of `torch.compile`: inference and training, one compilation for all sizes of the dims that are marked."""

from __future__ import annotations

import functools
import inspect
import logging
import warnings
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from .._errors import ArgumentError, FallbackWarning
from ._partition import Unsplittable, is_operator
from ._subgraphs import Subgraph, Subgraphs
from ._versions import torch_module

_LOG = logging.getLogger("relaxc.torch")


class Compilation(NamedTuple):
    """A graph that `torch.compile` gave to the backend.

    `notes` say among others which guards of PyTorch the program does not need. `fallback` lists what PyTorch runs and why, and is None
    where it runs nothing. `subgraphs` are the parts that relaxc compiled and those that PyTorch runs, in the order of their calls.
    """

    operators: int
    notes: tuple[str, ...]
    fallback: str | None
    subgraphs: tuple[Subgraph, ...]


_compilations: list[Compilation] = []


def compilations() -> tuple[Compilation, ...]:
    """What the backend compiled in this process, in order."""
    return tuple(_compilations)


def backend(
    module: Any,
    example_inputs: Sequence[Any],
    *,
    threads: int | None = None,
    exact: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """`torch.compile(model, backend="relaxc")` calls this for each graph.

    `torch.compile(model, backend="relaxc", options={"threads": 1, "exact": True})` gives `threads` and `exact`, which are those of `relaxc.compile`.
    """
    torch = torch_module()
    wishes = {"threads": threads, "exact": exact, **(options or {})}
    unknown = sorted(set(wishes) - {"threads", "exact"})
    if unknown:
        raise ArgumentError(f"options: there is no option {', '.join(map(repr, unknown))}: there are 'threads' and 'exact'")
    from torch._dynamo.backends.common import aot_autograd  # type: ignore[import-not-found, unused-ignore]
    from torch._functorch.partitioners import (  # type: ignore[import-not-found, unused-ignore]
        min_cut_rematerialization_partition,
    )

    tensors = [value for value in (*example_inputs, *module.parameters()) if isinstance(value, torch.Tensor)]
    is_training = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    compiler = functools.partial(_graph, **wishes)
    wrapped = aot_autograd(
        fw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=_decompositions(is_training),
        # What is cheap is computed again instead of kept for the backward graph.
        partition_fn=min_cut_rematerialization_partition,
    )
    return wrapped(module, example_inputs)


def _decompositions(is_training: bool) -> Any:
    """Those of core ATen. In training those are left out whose operators are imported, since they compute with floats of sizes, or
    give the backward graph something else than its operator takes."""
    from torch._decomp import core_aten_decompositions  # type: ignore[import-not-found, unused-ignore]

    table = dict(core_aten_decompositions().items())  # type: ignore[no-untyped-call, unused-ignore]
    kept = _WHOLE if is_training else ()
    return {target: made for target, made in table.items() if str(target) not in kept}


_WHOLE = frozenset(
    (
        "aten._scaled_dot_product_flash_attention_for_cpu.default",
        "aten.native_batch_norm_backward.default",
        "aten.native_group_norm_backward.default",
        "aten.native_layer_norm_backward.default",
    )
)


def _graph(module: Any, example_inputs: Sequence[Any], **wishes: Any) -> Callable[..., Any]:
    torch = torch_module()
    from torch._subclasses.fake_tensor import unset_fake_temporarily  # type: ignore[import-not-found, unused-ignore]

    operators = sum(is_operator(torch, node) for node in module.graph.nodes)
    try:
        # Tensors in the model have elements, which the mode in which PyTorch calls this refuses to read.
        with unset_fake_temporarily():
            subgraphs = Subgraphs(torch, module, wishes)
    except Unsplittable as error:
        why = f"PyTorch runs a graph of {_counted(operators)}, which relaxc cannot split: {error}"
        return _noted(Compilation(operators, (), why, (Subgraph(operators, (), str(error)),)), module.forward)
    parts = subgraphs.parts()
    notes = tuple(note for part in parts for note in part.notes)
    return _noted(Compilation(operators, notes, _fallback(operators, parts, subgraphs), parts), subgraphs.call)


def _fallback(operators: int, parts: Sequence[Subgraph], subgraphs: Subgraphs) -> str | None:
    """Which operators PyTorch runs, and why; None for none of them."""
    refused = [part for part in parts if part.fallback is not None]
    if not refused:
        return None
    count = sum(part.operators for part in refused)
    lines = "".join(f"\n  {line}" for line in subgraphs.refusals.lines(list(subgraphs.refusals.nodes)))
    if len(refused) == len(parts):
        return f"PyTorch runs a graph of {_counted(operators)}, of which relaxc compiles nothing:{lines}"
    return (
        f"PyTorch runs {count} of {_counted(operators)} of a graph, in {len(refused)} of {len(parts)} subgraphs; relaxc compiles "
        f"the others:{lines}"
    )


def _counted(operators: int) -> str:
    return f"{operators} operator{'' if operators == 1 else 's'}"


def _noted(compilation: Compilation, call: Callable[..., Any]) -> Callable[..., Any]:
    _compilations.append(compilation)
    if compilation.fallback is not None:
        warnings.warn(compilation.fallback, FallbackWarning, stacklevel=2)
    for note in compilation.notes:
        _LOG.info("%s", note)
    return _boxed(call)


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
