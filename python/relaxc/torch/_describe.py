"""The walk over an exported program. It writes down which operators are called with what; what they mean is not known here."""

from __future__ import annotations

import functools
import json
import math
import operator
import os
from typing import Any, NamedTuple, Sequence

from .. import _native
from .._errors import UnsupportedError
from .._files import write_text
from . import _places
from ._partition import is_number, name_of
from ._symbols import Inexpressible, bounds, claims, expression_of, extent, real, symbols_of
from ._versions import torch_module

#: Weights of more elements are in a file of their own.
INLINE = 16


def describe(program: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The description of an exported program, and its weights by name.

    The description has no type of PyTorch in it: `json.dumps` writes it. `weights_file` is None.
    """
    torch = torch_module()
    if not isinstance(program, torch.export.ExportedProgram):
        raise UnsupportedError(f"expected a torch.export.ExportedProgram, found `{type(program).__name__}`")
    notes: list[str] = []
    try:
        decomposed = program.run_decompositions()
    except Exception as error:  # what PyTorch raises there has no common class
        decomposed = program
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        notes.append(f"PyTorch could not decompose the program ({first}): it is imported as it was exported")
    return _Walk(torch, notes).exported(decomposed)


class Refused(UnsupportedError):
    """Why some nodes of a graph have no description."""

    def __init__(self, nodes: dict[Any, str]) -> None:
        super().__init__("; ".join(nodes.values()))
        self.nodes = nodes


class Described(NamedTuple):
    """A graph of ATen operators as a description, and how it is called."""

    description: dict[str, Any]
    weights: dict[str, Any]
    #: The arguments of the graph that the program takes. After them it takes a shape of `sizes`, where there are some.
    taken: list[int]
    #: The nodes of the graph that those of the description are.
    nodes: list[Any]
    #: For each result whether it is a number that a tensor of rank 0 holds.
    numbers: list[bool]


def graph(module: Any, sizes: Sequence[str]) -> Described:
    """The description of a graph, where `sizes` are symbols that get their values from no tensor.

    `Refused` where nodes have none.
    """
    torch = torch_module()
    walk = _Walk(torch, [])
    taken: list[int] = []
    nodes: list[Any] = []
    numbers: list[bool] = []
    refused: dict[Any, str] = {}
    for place, node in enumerate(node for node in module.graph.nodes if node.op == "placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            taken.append(place)
            try:
                if value.device.type == "meta":
                    raise UnsupportedError(f"`{node.name}` has no elements: it is on the device meta")
                walk.inputs.append(walk.port(node.name, value, f"`{node.name}`"))
            except UnsupportedError as error:
                # Nothing of it is imported that reads the value.
                refused.update(dict.fromkeys(node.users, f"its argument {error.message}"))
    if sizes:
        walk.inputs.append({"name": "sizes", "dtype": "shape", "shape": list(sizes)})
    for node in module.graph.nodes:
        if node.op == "call_function":
            try:
                walk.call(node)
            except UnsupportedError as error:
                refused.setdefault(node, error.message)
            nodes += [node] * (len(walk.nodes) - len(nodes))
        elif node.op == "get_attr":
            tensor = functools.reduce(getattr, node.target.split("."), module)
            if isinstance(tensor, torch.Tensor):
                walk.weight(node.name, node.target, tensor)
    if refused:
        raise Refused(refused)
    outputs = []
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    for place, value in enumerate(output.args[0]):
        numbers.append(not isinstance(value.meta.get("val"), torch.Tensor))
        outputs.append(walk.output(place, value))
    ranges = getattr(walk.shape_env(), "var_to_range", {})
    description = walk.description(ranges, outputs)
    # PyTorch checks its guards before it calls a graph. Those of sizes of other subgraphs say nothing here.
    own = {name for port in walk.inputs for name in port["shape"] if isinstance(name, str)}
    description["guards"] = [guard for guard in description["guards"] if guard["claim"] and _symbols(guard["claim"]) <= own]
    return Described(description, walk.stored, taken, nodes, numbers)


def save(program: Any, path: str | os.PathLike[str]) -> None:
    """Writes the description of an exported program to `path`, and its weights to a safetensors file beside it."""
    description, weights = describe(program)
    write(description, weights, os.fspath(path))


def write(description: dict[str, Any], weights: dict[str, Any], path: str) -> None:
    folder, name = os.path.split(os.path.abspath(path))
    stem = name
    for suffix in (".json", ".aten"):
        stem = stem.removesuffix(suffix)
    if weights:
        file = f"{stem}.safetensors"
        _native.write_params(os.path.join(folder, file), weights)
        description = {**description, "weights_file": file}
    write_text(path, _text(description) + "\n")


def _text(description: dict[str, Any]) -> str:
    """JSON with one line for each node, input and weight."""
    fields = []
    for key, value in description.items():
        if isinstance(value, list) and value:
            items = ",\n".join("  " + json.dumps(item, allow_nan=False) for item in value)
            fields.append(f"{json.dumps(key)}: [\n{items}\n ]")
        else:
            fields.append(f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}")
    return "{" + ",\n ".join(fields) + "}"


class _Walk:
    """A walk in progress."""

    def __init__(self, torch: Any, notes: list[str]) -> None:
        self.torch = torch
        self.root = os.path.dirname(os.path.abspath(torch.__file__))
        self.dtypes = {
            getattr(torch, long): short
            for long, short in (
                ("float16", "f16"), ("bfloat16", "bf16"), ("float32", "f32"), ("float64", "f64"),
                ("int8", "i8"), ("int16", "i16"), ("int32", "i32"), ("int64", "i64"),
                ("uint8", "u8"), ("uint16", "u16"), ("uint32", "u32"), ("uint64", "u64"), ("bool", "bool"),
            )
        }  # fmt: skip
        self.inputs: list[dict[str, Any]] = []
        self.weights: list[dict[str, Any]] = []
        self.stored: dict[str, Any] = {}
        self.nodes: list[dict[str, Any]] = []
        self.notes = notes
        self.fake_mode: Any = None
        #: Symbols of sizes, and those of the places of views in memory, which are no values here.
        self.sizes: set[str] = set()
        self.offsets: set[str] = set()

    def exported(self, program: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        kinds = self.torch.export.graph_signature
        signature = program.graph_signature
        specs = {spec.arg.name: spec for spec in signature.input_specs if hasattr(spec.arg, "name")}
        for node in program.graph.nodes:
            if node.op == "placeholder":
                self.placeholder(program, node, specs.get(node.name), kinds)
            elif node.op == "call_function":
                self.call(node)
        outputs, written = [], []
        (output,) = (node for node in program.graph.nodes if node.op == "output")
        for place, (value, spec) in enumerate(zip(output.args[0], signature.output_specs)):
            if spec.kind == kinds.OutputKind.USER_INPUT_MUTATION:
                made = self.output(place, value)
                made["name"] = f"new_{spec.target}"
                self.notes.append(f"the model writes to `{spec.target}`: its new value is the result `{made['name']}`")
                written.append(made)
                continue
            if spec.kind != kinds.OutputKind.USER_OUTPUT:
                what = spec.target or getattr(spec.arg, "name", "?")
                raise UnsupportedError(
                    f"the model writes to `{what}` ({spec.kind.name.lower()}): a module keeps nothing between calls. Return it, or "
                    "export the model after `model.eval()`"
                )
            if value is None:
                self.notes.append(f"output {place} is None and left out")
                continue
            outputs.append(self.output(place, value))
        outputs += written
        if not outputs:
            raise UnsupportedError("the exported program gives no tensor")
        return self.description(program.range_constraints, outputs), self.stored

    def output(self, place: int, value: Any) -> dict[str, Any]:
        name = getattr(value, "name", f"output_{place}")
        return {"name": name, "value": self.argument(value, f"output {place}")}

    def description(self, ranges: Any, outputs: list[dict[str, Any]]) -> dict[str, Any]:
        guards = self.guards()
        checked = {symbol for guard in guards if guard["origin"] == "program" for symbol in _symbols(guard["claim"])}
        symbols = []
        used = {name for port in self.inputs for name in _symbols([None, *port["shape"]])}
        for symbol, value_range in sorted(ranges.items(), key=lambda pair: str(pair[0])):
            if str(symbol) not in used:
                continue
            lower, upper = bounds(value_range)
            narrowed = getattr(self.shape_env(), "var_to_range_sloc", {}).get(symbol)
            if self.is_by_guard(str(symbol) in checked, getattr(narrowed, "lower", None)):
                lower = None
            symbols.append({"name": str(symbol), "lower": lower, "upper": upper})
        return {
            "format": "relax-aten",
            "version": 1,
            "producer": f"torch {self.torch.__version__}",
            "weights_file": None,
            "symbols": symbols,
            "guards": guards,
            "inputs": self.inputs,
            "weights": self.weights,
            "nodes": self.nodes,
            "outputs": outputs,
            "notes": self.notes,
        }

    def is_by_guard(self, has_guard: bool, location: Any) -> bool:
        """Whether what narrowed a lower bound is a guard of the model, which is checked with its line, or a constraint of an operator, which
        checks what it needs.
        """
        file = getattr(getattr(location, "framework_loc", None), "filename", None)
        if file is None:
            return False
        is_of_model = not file.startswith(self.root)
        return has_guard if is_of_model else _places.origin_of(location, self.root) == "operator"

    def shape_env(self) -> Any:
        return getattr(self.fake_mode, "shape_env", None)

    def guards(self) -> list[dict[str, Any]]:
        environment = self.shape_env()
        found: list[dict[str, Any]] = []
        for guard in getattr(environment, "guards", ()):
            expression = environment.replace(guard.expr)
            frame = getattr(guard.sloc, "maybe_user_loc", None) or getattr(guard.sloc, "framework_loc", None)
            at = _places.frame_line(frame)
            origin = _places.origin_of(guard.sloc, self.root)
            try:
                parts = claims(expression)
            except Inexpressible:
                parts = [None]
            for claim in parts:
                made = {"text": str(expression), "claim": claim, "origin": origin, "at": at}
                # The constraint of an operator again, where what is in C++ asked for it. A second trace may write it otherwise.
                is_again = not _places.has_line_of_model(guard.sloc, self.root) and any(
                    known["origin"] == "operator" and known["claim"] == claim and (claim or known["text"] == made["text"])
                    for known in found
                )
                if made not in found and not is_again:
                    found.append(made)
        return found

    def placeholder(self, program: Any, node: Any, spec: Any, kinds: Any) -> None:
        value = node.meta.get("val")
        kind = spec.kind if spec is not None else kinds.InputKind.USER_INPUT
        if kind == kinds.InputKind.USER_INPUT:
            if not isinstance(value, self.torch.Tensor):
                if isinstance(value, self.torch.SymInt):
                    raise UnsupportedError(f"the input `{node.name}` is a symbolic integer: give a tensor, or its size")
                self.notes.append(f"the input {node.name} is {value!r} in the export, and no parameter")
                return
            self.inputs.append(self.port(node.name, value, f"the input `{node.name}`"))
        elif kind in (kinds.InputKind.PARAMETER, kinds.InputKind.BUFFER, kinds.InputKind.CONSTANT_TENSOR):
            if node.users:
                self.weight(node.name, spec.target, self.tensor_of(program, spec.target))
        else:
            raise UnsupportedError(f"the input `{node.name}` is of the kind {kind.name.lower()}")

    @staticmethod
    def tensor_of(program: Any, target: str) -> Any:
        for tensors in (program.state_dict, program.constants):
            if target in tensors:
                return tensors[target]
        raise UnsupportedError(f"the exported program has no value of `{target}`")

    def weight(self, name: str, key: str, tensor: Any) -> None:
        port = self.port(name, tensor, f"the weight `{key}`")
        if tensor.device.type == "meta":
            raise UnsupportedError(f"the weight `{key}` has no elements: it is on the device meta")
        tensor = tensor.detach()
        data = None
        if tensor.numel() <= INLINE:
            data = [_element(element) for element in tensor.reshape(-1).tolist()]
        else:
            self.stored[key] = tensor.contiguous()
        self.weights.append({"name": name, "key": key, "dtype": port["dtype"], "shape": list(tensor.shape), "data": data})

    def port(self, name: str, value: Any, what: str) -> dict[str, Any]:
        torch = self.torch
        self.fake_mode = self.fake_mode or getattr(value, "fake_mode", None)
        if value.layout != torch.strided:
            raise UnsupportedError(f"{what} is no dense tensor: {value.layout}")
        if value.device.type not in ("cpu", "meta"):
            raise UnsupportedError(f"{what} is on the device {value.device}: export the model on the CPU")
        dtype = self.dtypes.get(value.dtype)
        if dtype is None:
            raise UnsupportedError(f"{what} has the dtype {value.dtype}, which relax does not have")
        self.sizes |= symbols_of(torch, tuple(value.shape))
        self.offsets |= symbols_of(torch, value.storage_offset())
        return {"name": name, "dtype": dtype, "shape": [self.size(size, what) for size in value.shape]}

    def size(self, size: Any, what: str) -> Any:
        if isinstance(size, int):
            return size
        try:
            return extent(expression_of(size, what))
        except Inexpressible as error:
            raise UnsupportedError(f"{what} has the size {error}") from error

    def call(self, node: Any) -> None:
        value = node.meta.get("val")
        if is_number(self.torch, node) or node.target is operator.getitem:
            return
        is_operator = isinstance(node.target, self.torch._ops.OpOverload)
        name = name_of(self.torch, node)
        if name == "aten._assert_scalar.default" and self.is_of_offset(node.args[0]):
            return
        at = _places.line_of(node.meta.get("stack_trace"), self.root)
        what = f"{name} ({at})"
        arguments = self.arguments(node, what) if is_operator else {}
        self.nodes.append({"op": name, "args": arguments, "outputs": self.results(node, value, what), "at": at})

    def is_of_offset(self, condition: Any) -> bool:
        """Whether an assertion is on where a view begins in memory."""
        value = condition.meta.get("val") if isinstance(condition, self.torch.fx.Node) else condition
        return bool(symbols_of(self.torch, value) & (self.offsets - self.sizes))

    def results(self, node: Any, value: Any, what: str) -> list[Any]:
        if value is None:
            return []
        if isinstance(value, (self.torch.SymInt, self.torch.SymFloat, self.torch.SymBool)):
            expression = expression_of(value, what)
            if not isinstance(value, self.torch.SymInt) or not expression.is_Symbol:
                raise UnsupportedError(f"{what}: a number of the kind {type(value).__name__} out of a tensor")
            self.sizes.add(expression.name)
            return [{"symbol": expression.name}]
        if isinstance(value, (int, float, bool)):
            raise UnsupportedError(f"{what}: the export made the number {value} of the elements of a tensor")
        if not isinstance(value, (tuple, list)):
            return [self.port(node.name, value, what)]
        read = {user.args[1] for user in node.users if user.target is operator.getitem and user.users}
        return [
            self.port(f"{node.name}.{place}", one, what) if place in read and one is not None else None
            for place, one in enumerate(value)
        ]

    def arguments(self, node: Any, what: str) -> dict[str, Any]:
        """By name, with defaults."""
        arguments = {}
        for place, argument in enumerate(node.target._schema.arguments):
            if place < len(node.args) and not argument.kwarg_only:
                value = node.args[place]
            elif argument.name in node.kwargs:
                value = node.kwargs[argument.name]
            elif argument.has_default_value():
                value = argument.default_value
            else:
                raise UnsupportedError(f"{what}: the argument `{argument.name}` is missing")
            if value is not None:
                value = self.argument(value, what)
            if value is not None:
                arguments[argument.name] = value
        return arguments

    def argument(self, value: Any, what: str) -> Any:
        torch = self.torch
        if isinstance(value, torch.fx.Node):
            return self.reference(value, what)
        if value is None or isinstance(value, (bool, str, int)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"f": repr(value)}
        if isinstance(value, (list, tuple)):
            return [self.argument(item, what) for item in value]
        if isinstance(value, torch.dtype):
            return {"dtype": self.dtypes.get(value, str(value).removeprefix("torch."))}
        if isinstance(value, torch.device):
            if value.type not in ("cpu", "meta"):
                raise UnsupportedError(f"{what} is on the device {value}: export the model on the CPU")
            return None
        if isinstance(value, torch.layout):
            if value != torch.strided:
                raise UnsupportedError(f"{what}: the layout {value}")
            return None
        if isinstance(value, torch.memory_format):
            return None
        if isinstance(value, (torch.SymInt, torch.SymBool)):
            return self.symbolic(value, what)
        raise UnsupportedError(f"{what}: an argument of the type `{type(value).__name__}`")

    def reference(self, node: Any, what: str) -> Any:
        value = node.meta.get("val")
        if isinstance(value, (self.torch.SymInt, self.torch.SymBool, self.torch.SymFloat)):
            return self.symbolic(value, what)
        if isinstance(value, (bool, int, float)):
            return self.argument(value, what)
        if node.target is operator.getitem:
            of, place = node.args
            return {"t": f"{of.name}.{place}"}
        return {"t": node.name}

    def symbolic(self, value: Any, what: str) -> Any:
        try:
            expression = expression_of(value, what)
            if isinstance(value, self.torch.SymBool):
                return [{"claim": claim} for claim in claims(expression)] or True
            if isinstance(value, self.torch.SymFloat):
                return {"r": real(expression)}
            return {"d": extent(expression)}
        except Inexpressible as error:
            raise UnsupportedError(f"{what}: a description cannot say {error}") from error


def _element(element: Any) -> Any:
    if isinstance(element, float) and not math.isfinite(element):
        return repr(element)
    return element


def _symbols(claim: Any) -> set[str]:
    """The names in a claim."""
    if claim is None:
        return set()
    found: set[str] = set()
    for part in claim[1:]:
        if isinstance(part, str):
            found.add(part)
        elif isinstance(part, list):
            found |= _symbols(part)
    return found
