"""Compiles the subgraphs of a graph, and calls them in their order."""

from __future__ import annotations

import functools
import os
import tempfile
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from .. import _native, compile as compiled
from .._errors import ProgramError, UnsupportedError
from . import _places
from ._describe import Described, Refused, graph, write
from ._partition import ARGUMENTS, Part, Partition, is_operator, name_of
from ._symbols import evaluated, extent


class Subgraph(NamedTuple):
    """A part of a graph. `fallback` is why PyTorch runs it, else None."""

    operators: int
    notes: tuple[str, ...]
    fallback: str | None


class Refusals:
    """Which nodes PyTorch runs, and why."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.root = os.path.dirname(os.path.abspath(torch.__file__))
        self.nodes: dict[Any, str] = {}

    def lines(self, nodes: Sequence[Any]) -> list[str]:
        """Operators with counts, reasons and Python lines."""
        found: dict[tuple[str, str], list[str]] = {}
        for node in nodes:
            if node in self.nodes:
                at = _places.line_of(node.meta.get("stack_trace"), self.root) or "of unknown place"
                name = name_of(self.torch, node)
                # The walk says the operator and the line too, since an export stops there.
                why = self.nodes[node].removeprefix(f"{name} ({at})").lstrip(": ")
                found.setdefault((name, why), []).append(at)
        return [
            f"{len(places)} × {name}: {why} ({', '.join(dict.fromkeys(places))})" for (name, why), places in sorted(found.items())
        ]


class Compiled(NamedTuple):
    """A program, and how it is called."""

    program: Any
    described: Described
    notes: tuple[str, ...]


class Subgraphs:
    """A graph as subgraphs, each of which relaxc compiled or PyTorch runs."""

    def __init__(self, torch: Any, module: Any, wishes: Mapping[str, Any]) -> None:
        self.torch = torch
        self.wishes = wishes
        self.refusals = Refusals(torch)
        self.programs: dict[Part, Compiled] = {}
        self.notes: dict[Part, tuple[str, ...]] = {}
        with tempfile.TemporaryDirectory(prefix="relaxc-") as folder:
            #: The description of the subgraph in hand.
            self.path = os.path.join(folder, "graph.aten.json")
            self.partition = self.partitioned(module)
        self.call = _Call(torch, module, self.partition, [self.step(part) for part in self.partition.parts])

    def described(self, partition: Partition, part: Part) -> Described:
        """Writes the description of a subgraph."""
        described = graph(partition.module_of(part), part.sizes)
        write(described.description, described.weights, self.path)
        return described

    def partitioned(self, module: Any) -> Partition:
        """Takes the graph apart until everything in the compiled subgraphs compiles. Each time more nodes are refused."""
        while True:
            partition = Partition(self.torch, module, self.refusals.nodes)
            before = len(self.refusals.nodes)
            for part in partition.parts:
                if part.compiled:
                    self.judge(partition, part)
            if len(self.refusals.nodes) > before:
                continue
            for part in partition.parts:
                if part.compiled:
                    self.compile(partition, part)
            if len(self.refusals.nodes) == before:
                return partition

    def judge(self, partition: Partition, part: Part) -> None:
        """Refuses the nodes of a subgraph that are not imported."""
        if not part.writes:
            return self.refuse(part, "the subgraph has no result")
        try:
            refused = self.refused(partition, part)
        except Refused as error:
            refused = error.nodes
        except (UnsupportedError, ProgramError) as error:
            return self.refuse(part, str(error))
        names = {node.name: why for node, why in refused.items()}
        self.refusals.nodes.update({node: names[node.name] for node in part.nodes if node.name in names})

    def refused(self, partition: Partition, part: Part) -> dict[Any, str]:
        """The nodes of a subgraph that are not imported, none where all are."""
        described = self.described(partition, part)
        try:
            self.notes[part] = tuple(_native.imported(self.path)[1])
            return {}
        except (UnsupportedError, ProgramError):
            nodes = {described.nodes[place]: why for place, why in _native.refused_nodes(self.path)}
            if not nodes:
                raise
            return nodes

    def refuse(self, part: Part, why: str) -> None:
        why = why.removeprefix(f"{self.path}: ")
        self.refusals.nodes.update(dict.fromkeys(part.nodes, why))

    def compile(self, partition: Partition, part: Part) -> None:
        if part in self.programs:
            return
        try:
            described = self.described(partition, part)
            self.programs[part] = Compiled(compiled(self.path, **self.wishes), described, self.notes[part])
        except (UnsupportedError, ProgramError) as error:
            self.refuse(part, str(error))

    def step(self, part: Part) -> Callable[..., Any]:
        """Takes the values of `reads`, `numbers` and `sizes`, and gives those of `writes`."""
        if not part.compiled:
            return self.partition.module_of(part).forward  # type: ignore[no-any-return]
        program, described, _ = self.programs[part]
        takes_sizes = bool(part.sizes)
        from_dlpack = self.torch.from_dlpack

        def run(*values: Any) -> list[Any]:
            given = [values[place].detach() for place in described.taken]
            if takes_sizes:
                given.append(values[-1])
            found = program(*given)
            results = map(from_dlpack, found if isinstance(found, tuple) else (found,))
            return [int(one) if is_int else one for one, is_int in zip(results, described.numbers)]

        return run

    def parts(self) -> tuple[Subgraph, ...]:
        """What became of each subgraph, in the order of the calls."""
        found = []
        for part in self.partition.parts:
            operators = sum(is_operator(self.torch, node) for node in part.nodes)
            if part.compiled:
                found.append(Subgraph(operators, self.programs[part].notes, None))
            else:
                found.append(Subgraph(operators, (), "\n".join(self.refusals.lines(part.nodes))))
        return tuple(found)


class _Value(NamedTuple):
    """A result of the graph, or a number: of a node, an expression over symbols, or a constant."""

    node: Any
    tree: Any
    constant: Any


class _Step(NamedTuple):
    part: Part
    run: Callable[..., Any]
    numbers: tuple[_Value, ...]
    #: Symbols that have their values from results of this step, as the node and the axis.
    bound: tuple[tuple[str, Any, int | None], ...]
    #: Values that no later step takes.
    dropped: tuple[Any, ...]


class _Call:
    """The calls of the subgraphs of a graph."""

    def __init__(self, torch: Any, module: Any, partition: Partition, runs: Sequence[Callable[..., Any]]) -> None:
        self.torch = torch
        self.arguments = [node for node in module.graph.nodes if node.op == "placeholder"]
        self.results = [self.result(module, partition, value) for value in partition.outputs]
        last: dict[Any, int] = {}
        for place, part in enumerate(partition.parts):
            last.update(dict.fromkeys((*part.reads, *part.writes), place))
        for value in self.results:
            last.pop(value.node, None)
        sources = [(name, partition.sources[name]) for name in sorted(partition.needed)]
        self.bound = tuple((name, one.node, one.axis) for name, one in sources if one.level == ARGUMENTS)
        self.steps = []
        for place, (part, run) in enumerate(zip(partition.parts, runs)):
            own = set(part.nodes)
            bound = tuple((name, one.node, one.axis) for name, one in sources if one.node in own)
            numbers = () if part.compiled else tuple(self.number(node) for node in part.numbers)
            dropped = tuple(node for node, at in last.items() if at == place)
            self.steps.append(_Step(part, run, numbers, bound, dropped))

    def result(self, module: Any, partition: Partition, value: Any) -> _Value:
        if not isinstance(value, self.torch.fx.Node):
            return _Value(None, None, value)
        if value.op == "get_attr":
            return _Value(None, None, functools.reduce(getattr, value.target.split("."), module))
        return _Value(value, None, None) if value in partition.levels else self.number(value)

    def number(self, node: Any) -> _Value:
        value = node.meta["val"]
        symbolic = isinstance(value, self.torch.SymInt)
        return _Value(None, extent(value.node.expr), None) if symbolic else _Value(None, None, value)

    def __call__(self, *arguments: Any) -> list[Any]:
        values = dict(zip(self.arguments, arguments))
        symbols: dict[str, int] = {}

        def bind(bound: Sequence[tuple[str, Any, int | None]]) -> None:
            for name, node, axis in bound:
                symbols[name] = int(values[node] if axis is None else values[node].shape[axis])

        def got(value: _Value) -> Any:
            if value.node is not None:
                return values[value.node]
            return value.constant if value.tree is None else evaluated(value.tree, symbols)

        bind(self.bound)
        for part, run, numbers, bound, dropped in self.steps:
            sizes = tuple(symbols[name] for name in part.sizes)
            results = run(*(values[node] for node in part.reads), *map(got, numbers), *([sizes] if sizes else []))
            values.update(zip(part.writes, results))
            bind(bound)
            for node in dropped:
                del values[node]
        return [got(value) for value in self.results]
