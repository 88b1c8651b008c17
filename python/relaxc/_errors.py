"""Exceptions, and the places and diagnostics that they carry."""

from __future__ import annotations

import re
from collections import namedtuple
from typing import Any, NamedTuple, Sequence


class Place(NamedTuple):
    """A place in the text of a program. Line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Diagnostic(NamedTuple):
    """A finding of the checker. `severity` is `error` or `warning`."""

    severity: str
    code: str
    message: str
    place: Place
    notes: tuple[str, ...]
    help: str | None

    def __str__(self) -> str:
        lines = [f"{self.severity}[{self.code}] {self.message}", f"  at {self.place}"]
        lines += [f"  note: {note}" for note in self.notes]
        lines += [f"  help: {self.help}"] if self.help else []
        return "\n".join(lines)


def diagnostic(fields: Sequence[Any]) -> Diagnostic:
    severity, code, message, place, notes, help = fields
    return Diagnostic(severity, code, message, Place(*place), tuple(notes), help)


class Error(Exception):
    """The base of what this package raises.

    `code` is that of a diagnostic (`RX0203`) or the id of a trap (`match_cast/dim`), else empty. `dims` are the symbolic dims
    that the failed check knew, and `origins` says which value each of them was read off.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        place: Sequence[Any] | None = None,
        notes: Sequence[str] = (),
        diagnostics: Sequence[Sequence[Any]] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.place = None if place is None else Place(*place)
        self.notes = tuple(notes)
        self.diagnostics = tuple(diagnostic(fields) for fields in diagnostics)
        self.dims, self.origins = _dims(self.notes)

    def __str__(self) -> str:
        if self.diagnostics:
            return "\n".join(str(found) for found in self.diagnostics)
        lines = [f"[{self.code}] {self.message}" if self.code else self.message]
        lines += [f"  at {self.place}"] if self.place else []
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    def __reduce__(self) -> Any:
        return _again, (type(self), self.message, self.code, self.place, self.notes, self.diagnostics)


def _again(class_: type[Error], message: str, code: str, place: Any, notes: Any, diagnostics: Any) -> Error:
    return class_(message, code=code, place=place, notes=notes, diagnostics=diagnostics)


_HERE = re.compile(r"here ((?:[\w']+ = -?\d+(?:, )?)+)$")
_BOUND = re.compile(r"([\w']+) = (-?\d+) was bound by (.+)$")


def _dims(notes: Sequence[str]) -> tuple[dict[str, int], dict[str, str]]:
    """The dims in the notes of a trap, and where they come from."""
    dims: dict[str, int] = {}
    origins: dict[str, str] = {}
    for note in notes:
        if here := _HERE.match(note):
            for part in here[1].split(", "):
                name, value = part.split(" = ")
                dims[name] = int(value)
        elif bound := _BOUND.match(note):
            dims[bound[1]] = int(bound[2])
            origins[bound[1]] = bound[3]
    return dims, origins


class ProgramError(Error):
    """The program is wrong; `diagnostics` has all findings."""


class ArgumentError(Error, TypeError):
    """An argument of a call is none that the function or this package takes."""


class Trap(Error):
    """A check of the program failed at run time; `code` is the id of the trap."""


class LimitError(Error):
    """Memory, steps or call depth ran out."""


class UnsupportedError(Error):
    """The program is right, and this version does not do that."""


class CompilerError(Error):
    """The C compiler is missing, fails, or makes wrong code."""


class FileError(Error):
    """A file cannot be read or written, or is none that is expected."""


class InternalError(Error):
    """A mistake in this package."""


class NoCompilerWarning(UserWarning):
    """There is no C compiler, so the program is interpreted, which is far slower."""


class FallbackWarning(UserWarning):
    """A call of a compiled program is interpreted, which is far slower. `warnings.simplefilter("error", ...)` refuses it."""


class UnprovedRuleWarning(UserWarning):
    """A rule of a file has neither a proof nor a counterexample, and is used since `unproved` was given."""


def outputs_class(names: list[str]) -> type:
    return namedtuple("Outputs", names, rename=True)
