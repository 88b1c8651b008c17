"""An optimizing compiler for machine-learning models with dynamic shapes.

>>> import numpy, relaxc
>>> module = relaxc.compile('''
... def main(x: Tensor(("n",), "f32")):
...     return add(x, x)
... ''')
>>> numpy.asarray(module(numpy.ones(3, "float32")))
array([2., 2., 2.], dtype=float32)
"""

from __future__ import annotations

import os
import warnings
from typing import Any, Mapping, NamedTuple, Sequence

from . import _compilers, _html, _native
from ._comparing import Comparison, Difference, Equivalence, FunctionEquivalence, equiv
from ._comparing import compared as _compared
from ._errors import (
    ArgumentError,
    CompilerError,
    Diagnostic,
    Error,
    FallbackWarning,
    FileError,
    InternalError,
    LimitError,
    NoCompilerWarning,
    Place,
    ProgramError,
    Trap,
    UnprovedRuleWarning,
    UnsupportedError,
    diagnostic,
)
from ._native import Function, Module, Tensor, __version__
from ._passes import (
    MemoryReport,
    RewriteStep,
    RewrittenRegion,
    Rewritten,
    Version,
    Versions,
    grad,
    memory_report,
    opt,
    rewrite,
    versions,
)
from ._passes import rule_list as _rule_list
from ._passes import warn_of_unproved as _warn_of_unproved
from ._sharding import Sharding, shard
from ._sources import given as _given
from ._training import Step, Trained, train

__all__ = [
    "ArgumentError",
    "Check",
    "Comparison",
    "CompilerError",
    "Diagnostic",
    "Difference",
    "Equivalence",
    "Error",
    "FallbackWarning",
    "FileError",
    "Function",
    "FunctionEquivalence",
    "InternalError",
    "LeftToRunTime",
    "LimitError",
    "MemoryReport",
    "Module",
    "NoCompilerWarning",
    "Place",
    "ProgramError",
    "Proof",
    "RewriteStep",
    "Rewritten",
    "RewrittenRegion",
    "Sharding",
    "Step",
    "Tensor",
    "Trained",
    "Trap",
    "UnprovedRuleWarning",
    "UnsupportedError",
    "Version",
    "Versions",
    "check",
    "compile",
    "diff",
    "equiv",
    "grad",
    "info",
    "load",
    "memory_report",
    "opt",
    "prove",
    "rewrite",
    "run",
    "shard",
    "text",
    "train",
    "versions",
]


def compile(
    source: Any,
    *,
    params: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    backend: str | None = None,
    exact: bool = False,
    kernel_check: bool = True,
    threads: int | None = None,
    max_memory: int | None = None,
    rules: str | Sequence[str | os.PathLike[str]] | None = None,
    unproved: bool = False,
) -> Module:
    """Compiles a program for all shapes that it takes.

    `source` is the text of a program (a `str` of several lines), the path of a text, an ONNX model, a description of ATen
    operators, StableHLO text or a module file, whose source is compiled again, a `torch.export.ExportedProgram`, or a
    `jax.export.Exported`. `params` are values of its `param(...)` constants: a safetensors or GGUF file, or arrays by name.
    `backend` is `"cpu"`, which needs a C compiler, or `"interpreter"`; by default it is the first where there is a compiler,
    and else the second, with a `NoCompilerWarning`. With `exact`, float sums are computed as the interpreter does.
    `rules` are families of rewrite rules, `all`, and files of rules, by which a program is rewritten before it becomes machine code; with
    `exact`, by those that keep every bit. By default these are all families for a few steps, and none with `"none"`. `unproved` is that of
    `rewrite`.
    Calls that a compiled program leaves to the interpreter, as of operators on tensors of unknown rank, are `FallbackWarning`s.
    """
    if backend not in (None, "cpu", "interpreter"):
        raise ArgumentError(f"backend: expected 'cpu' or 'interpreter', found {backend!r}")
    wishes = {
        "compiler": None if backend == "interpreter" else _compiler(backend),
        "exact": exact,
        "kernel_check": kernel_check,
        "threads": _count("threads", threads) or 0,
        "max_memory": _count("max_memory", max_memory),
        "rules": None if rules is None else _rule_list(rules, unproved),
    }
    if rules is not None and wishes["compiler"] is None:
        raise ArgumentError("rules: they optimize machine code; `rewrite` gives a text that the interpreter takes")
    with _given(source, params) as origin:
        module, interpreted, used = _native.compile(origin, wishes)
    _warn_of_unproved(used)
    for call in interpreted:
        warnings.warn(call, FallbackWarning, stacklevel=2)
    return module


def _count(name: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise ArgumentError(f"{name}: expected at least 1, found {value}")
    return value


def _compiler(backend: str | None) -> str | None:
    found = _compilers.find()
    if found is not None:
        return found[0]
    missing = "there is no C compiler (`$CC`, cc, gcc, clang): install one, or `pip install relaxc[cc]`"
    if backend == "cpu" or os.environ.get("CC"):
        raise CompilerError(missing)
    warnings.warn(f"{missing}. The program is interpreted, which is far slower", NoCompilerWarning, stacklevel=3)
    return None


def load(path: str | os.PathLike[str], *, threads: int | None = None, max_memory: int | None = None) -> Module:
    """Opens a module file of `Module.save` or `relax build`. Its machine code becomes a part of this process: load what you trust."""
    return _native.load(os.fspath(path), _count("threads", threads) or 0, _count("max_memory", max_memory))


def run(
    source: str | os.PathLike[str],
    *arrays: Any,
    entry: str = "main",
    params: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    **named: Any,
) -> Any:
    """Calls a function of a program in the reference interpreter, which defines what the program means. It is slow."""
    return compile(source, params=params, backend="interpreter")[entry](*arrays, **named)


def diff(
    source: Any,
    against: Any = None,
    *,
    backend: str | None = None,
    exact: bool = False,
    params: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    entry: str | None = None,
    cases: int = 100,
    seed: int = 0,
) -> Comparison:
    """Compares a program with another one, or with its own machine code, at random dims and inputs, as `relax diff` does.

    The reference interpreter runs `source`. Constants without a value in `params` are random. With `backend="interpreter"` and no other
    program the text is printed, parsed and run again.
    """
    if backend not in (None, "cpu", "interpreter"):
        raise ArgumentError(f"backend: expected 'cpu' or 'interpreter', found {backend!r}")
    if against is not None and backend is not None:
        raise ArgumentError("backend: another program is interpreted")
    wishes = {
        "compiler": None if against is not None or backend == "interpreter" else _compiler(backend),
        "exact": exact,
        "kernel_check": True,
        "threads": 0,
        "max_memory": None,
        "rules": None,
    }
    return _compared(source, against, params, wishes, {"entry": entry, "seed": seed, "cases": cases})


def text(source: Any) -> str:
    """The text of a program or a model, as `relax import` writes it, without the values of its weights."""
    with _given(source) as origin:
        return _native.text(origin)


class LeftToRunTime(NamedTuple):
    """A check that was not proved, so that each run makes it."""

    line: int
    check: str


class Check(NamedTuple):
    """What is wrong with a program, and what is left to run time. It is true when there is no error."""

    diagnostics: tuple[Diagnostic, ...]
    left_to_run_time: tuple[LeftToRunTime, ...]

    def __bool__(self) -> bool:
        return all(found.severity != "error" for found in self.diagnostics)

    def __str__(self) -> str:
        return "\n".join(str(found) for found in self.diagnostics) or "well-formed"

    def _repr_html_(self) -> str:
        left = _html.table(("line", "left to run time"), self.left_to_run_time)
        return (_html.code(str(self)) if self.diagnostics else _html.sentence("well-formed")) + left


def check(source: Any) -> Check:
    """Checks a program, a model or the source of a module file as `relax check` does. `source` is one of those of `compile`."""
    with _given(source) as origin:
        found, left = _native.check(origin)
    return Check(tuple(map(diagnostic, found)), tuple(LeftToRunTime(*one) for one in left))


class Proof(NamedTuple):
    """An answer of the prover: `proved`, `refuted` or `unknown`. It is true when the statement is proved."""

    answer: str
    stage: str
    counterexample: dict[str, int] | None
    missing: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.answer == "proved"

    def _repr_html_(self) -> str:
        dims = ", ".join(f"{name} = {value}" for name, value in (self.counterexample or {}).items())
        said = f"{self.answer} ({self.stage})" + (f", such as {dims}" if dims else "")
        return _html.sentence(said) + _html.table(("missing",), [(one,) for one in self.missing])


def prove(statement: str, *, assume: Sequence[str] = ()) -> Proof:
    """Decides a statement on integers for all values, such as `n // 4 * 4 <= n`."""
    answer, stage, counterexample, missing = _native.prove(statement, list(assume))
    return Proof(answer, stage, counterexample, tuple(missing))


class Info(NamedTuple):
    """The version of this package, the C compiler that it found, and the solver of the prover."""

    version: str
    compiler: str | None
    solver: str | None


def info() -> Info:
    """Says which parts this package found."""
    found = _compilers.find()
    solver = _native.solver()
    return Info(__version__, found and f"{found[0]}: {found[1]}", solver and f"z3 {solver}")
