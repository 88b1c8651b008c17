"""Partitions of a graph of which only some operators are imported: subgraphs that relaxc compiles, and others that PyTorch runs.

Each operator has a level, even where relaxc compiles it, and odd where PyTorch runs it: the least of its parity that is no less than those of
what it reads. Operators of one level make one subgraph. Edges go to the same level or to a later one, so the order of levels is one
in which the subgraphs can run. Sizes are no edges: they are expressions over symbols, which a subgraph takes as integers.
"""

from __future__ import annotations

import operator
from typing import Any, Iterable, Mapping, NamedTuple

from .._errors import UnsupportedError
from ._symbols import Inexpressible, extent, symbols_of

#: The level of the arguments of the graph.
ARGUMENTS = -1


class Source(NamedTuple):
    """Where a symbol has its value from: a number, or the extent of a tensor along an axis."""

    node: Any
    axis: int | None
    level: int


class Part(NamedTuple):
    """A subgraph: its nodes in order, the tensors and numbers that it takes, and what others read of it."""

    compiled: bool
    nodes: tuple[Any, ...]
    reads: tuple[Any, ...]
    numbers: tuple[Any, ...]
    writes: tuple[Any, ...]
    #: Symbols that no tensor of `reads` has as an extent, and that none of its nodes makes.
    sizes: tuple[str, ...]


def is_number(torch: Any, node: Any) -> bool:
    """Whether a node computes with sizes. Its value is an expression, or known when the graph is made."""
    kinds = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float)
    return isinstance(node.meta.get("val"), kinds) and not makes_symbol(node)


def is_operator(torch: Any, node: Any) -> bool:
    """Whether a node computes with tensors. The fields of tuples and sizes do not count."""
    return node.op == "call_function" and node.target is not operator.getitem and not is_number(torch, node)


def makes_symbol(node: Any) -> bool:
    """Whether a node reads an integer out of a tensor."""
    return str(node.target) in ("aten._local_scalar_dense.default", "aten.item.default")


def name_of(torch: Any, node: Any) -> str:
    """`aten.add.Tensor`; an operator of higher order has that which it calls in brackets."""
    if isinstance(node.target, torch._ops.OpOverload):
        return str(node.target)
    name = getattr(node.target, "__name__", str(node.target))
    called = [str(one) for one in node.args if isinstance(one, torch._ops.OpOverload)]
    return f"{name}({called[0]})" if called else name


class Partition:
    """The subgraphs of a graph whose nodes `refused` PyTorch runs."""

    def __init__(self, torch: Any, module: Any, refused: Mapping[Any, str]) -> None:
        self.torch = torch
        self.module = module
        self.refused = refused
        self.levels: dict[Any, int] = {}
        #: What makes the symbols that only the run knows.
        self.makers: dict[str, Any] = {}
        self.sources: dict[str, Source] = {}
        self.effect = ARGUMENTS
        for node in module.graph.nodes:
            self.place(node)
        (output,) = (node for node in module.graph.nodes if node.op == "output")
        self.outputs: tuple[Any, ...] = tuple(output.args[0])
        self.parts = self.made()

    def place(self, node: Any) -> None:
        if node.op == "placeholder":
            self.levels[node] = ARGUMENTS
        elif node.op == "call_function" and not is_number(self.torch, node):
            if node.target is operator.getitem:
                self.levels[node] = self.levels[node.args[0]]
            else:
                self.levels[node] = self.level(node)
            for symbol in symbols_of(self.torch, node.meta.get("val")):
                # PyTorch names the symbols of sizes that only the run knows u0, u1 and so on.
                if symbol.startswith("u") and symbol not in self.sources:
                    self.makers.setdefault(symbol, node)
        else:
            return
        self.offer(node)

    def level(self, node: Any) -> int:
        parity = int(node in self.refused)
        found = max((self.levels[one] for one in self.sources_of(node)), default=ARGUMENTS)
        if parity and self.has_effect(node):
            # Random numbers and the like stay in their order.
            found = max(found, self.effect)
        found = max(found, parity)
        found += (found - parity) % 2
        if parity and self.has_effect(node):
            self.effect = found
        return found

    def has_effect(self, node: Any) -> bool:
        tags = getattr(node.target, "tags", ())
        return node.is_impure() or self.torch.Tag.nondeterministic_seeded in tags

    def sources_of(self, node: Any) -> Iterable[Any]:
        """The nodes with a level that must run before a node, or in its subgraph."""
        pending = list(node.all_input_nodes)
        seen = set(pending)
        for symbol in self.symbols(node):
            if symbol in self.makers:
                yield self.makers[symbol]
        while pending:
            one = pending.pop()
            if one in self.levels:
                yield one
            elif node in self.refused:
                more = [other for other in one.all_input_nodes if other not in seen]
                seen.update(more)
                pending += more

    def symbols(self, node: Any) -> set[str]:
        """The symbols in the sizes that a node reads and makes."""
        found = symbols_of(self.torch, node.meta.get("val"))
        for one in node.all_input_nodes:
            if is_number(self.torch, one) or makes_symbol(one):
                found |= symbols_of(self.torch, one.meta.get("val"))
        return found

    def offer(self, node: Any) -> None:
        """Notes the symbols that a value gives. The first one is that of the least level, but for values of one level."""
        value = node.meta.get("val")
        given: list[tuple[Any, int | None]]
        if isinstance(value, self.torch.SymInt):
            given = [(value, None)]
        elif isinstance(value, self.torch.Tensor) and value.layout == self.torch.strided:
            given = [(size, axis) for axis, size in enumerate(value.shape) if isinstance(size, self.torch.SymInt)]
        else:
            return
        for size, axis in given:
            expression = size.node.expr
            source = Source(node, axis, self.levels[node])
            if expression.is_Symbol and source.level < self.sources.get(str(expression), Source(None, None, 1 << 62)).level:
                self.sources[str(expression)] = source

    def is_given(self, node: Any, level: int) -> bool:
        """Whether the value of a number is known before a level, from its expression."""
        value = node.meta.get("val")
        if not isinstance(value, self.torch.SymInt):
            return isinstance(value, (int, float))
        try:
            extent(value.node.expr)
        except Inexpressible:
            return False
        return all(self.is_bound(name, level) for name in symbols_of(self.torch, value))

    def is_bound(self, symbol: str, level: int) -> bool:
        return symbol in self.sources and self.sources[symbol].level < level

    def made(self) -> list[Part]:
        by_level: dict[int, list[Any]] = {}
        for node, level in self.levels.items():
            if level != ARGUMENTS:
                by_level.setdefault(level, []).append(node)
        drafts = [self.draft(level, by_level[level]) for level in sorted(by_level)]
        read = {node for part in drafts for node in part.reads}
        read |= {node for node in self.outputs if node in self.levels}
        self.needed = {symbol for part in drafts for symbol in self.wanted(part)} | self.wanted_by_outputs()
        read |= {self.sources[symbol].node for symbol in self.needed}
        return [part._replace(writes=tuple(node for node in part.nodes if node in read)) for part in drafts]

    def draft(self, level: int, nodes: list[Any]) -> Part:
        own = set(nodes)
        compiled = level % 2 == 0
        reads: dict[Any, None] = {}
        numbers: dict[Any, None] = {}
        inner: dict[Any, None] = {}
        for node in nodes:
            self.collect(node, own, level, (reads, numbers, inner))
        if inner:
            places = {node: place for place, node in enumerate(self.module.graph.nodes)}
            nodes = sorted((*nodes, *inner), key=places.__getitem__)
        sizes: tuple[str, ...] = ()
        if compiled:
            needed = {symbol for node in (*nodes, *reads) for symbol in self.symbols(node)}
            bound = {symbol for node in reads for symbol in _bare(self.torch, node)}
            bound |= {symbol for symbol, maker in self.makers.items() if maker in own}
            sizes = tuple(sorted(needed - bound))
            missing = [symbol for symbol in sizes if not self.is_bound(symbol, level)]
            if missing:
                raise Unsplittable(f"nothing gives the size {missing[0]} its value")
        return Part(compiled, tuple(nodes), tuple(reads), tuple(numbers), (), sizes)

    def collect(self, node: Any, own: set[Any], level: int, found: tuple[dict[Any, None], ...]) -> None:
        """What a node takes from outside of its subgraph; PyTorch computes numbers there that no expression gives."""
        reads, numbers, inner = found
        compiled = level % 2 == 0
        for one in node.all_input_nodes:
            if one in own or one in inner or one.op == "get_attr":
                continue
            if one in self.levels and not (compiled and is_number(self.torch, one)):
                reads[one] = None
            elif compiled or self.is_given(one, level):
                numbers[one] = None
            else:
                self.collect(one, own, level, found)
                inner[one] = None

    def wanted(self, part: Part) -> set[str]:
        """The symbols whose values a subgraph takes."""
        if part.compiled:
            return set(part.sizes)
        return {symbol for node in part.numbers for symbol in symbols_of(self.torch, node.meta.get("val"))}

    def wanted_by_outputs(self) -> set[str]:
        found: set[str] = set()
        for node in self.outputs:
            if isinstance(node, self.torch.fx.Node) and node not in self.levels and node.op != "get_attr":
                if not self.is_given(node, 1 << 62):
                    raise Unsplittable(f"the graph gives the number {node.meta.get('val')}, which no description can say")
                found |= symbols_of(self.torch, node.meta.get("val"))
        return found

    def module_of(self, part: Part) -> Any:
        """A subgraph as a module, whose arguments are `reads` and `numbers`, and which gives `writes`."""
        graph = self.torch.fx.Graph()
        copies: dict[Any, Any] = {}
        for node in (*part.reads, *part.numbers):
            copies[node] = graph.placeholder(node.name)
            copies[node].meta = dict(node.meta)
        for node in part.nodes:
            for one in node.all_input_nodes:
                if one.op == "get_attr" and one not in copies:
                    copies[one] = graph.node_copy(one)
            copies[node] = graph.node_copy(node, copies.__getitem__)
        graph.output(tuple(copies[node] for node in part.writes))
        return self.torch.fx.GraphModule(self.module, graph)


class Unsplittable(UnsupportedError):
    """A graph, or a subgraph, that cannot be taken apart."""


def _bare(torch: Any, node: Any) -> set[str]:
    """The symbols that are the extent of a tensor along an axis."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return set()
    expressions = [size.node.expr for size in value.shape if isinstance(size, torch.SymInt)]
    return {str(expression) for expression in expressions if expression.is_Symbol}
