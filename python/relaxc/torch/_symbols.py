"""Expressions of sympy over symbolic sizes, as a description has them."""

from __future__ import annotations

import operator
from typing import Any, Callable, Mapping

from .._errors import UnsupportedError

#: Finite bounds of PyTorch are below this.
UNBOUNDED = 1 << 62


class Inexpressible(Exception):
    """An expression that a description cannot say."""


def extent(expression: Any) -> Any:
    """A number, the name of a symbol, or `[operation, left, right]`."""
    import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]

    if isinstance(expression, int) and not isinstance(expression, bool):
        return expression
    if isinstance(expression, sympy.Integer):
        return int(expression)
    if isinstance(expression, sympy.Symbol):
        return expression.name
    if isinstance(expression, sympy.Add):
        return _joined("+", expression.args)
    if isinstance(expression, sympy.Mul):
        return _joined("*", expression.args)
    if isinstance(expression, sympy.Pow):
        base, power = expression.args
        if isinstance(power, sympy.Integer) and power > 0:
            return _joined("*", [base] * int(power))
        raise Inexpressible(str(expression))
    name = type(expression).__name__
    arguments = expression.args
    if name in ("Min", "Max"):
        return _joined(name.lower(), arguments)
    if name in ("FloorDiv", "CleanDiv") and len(arguments) == 2:
        return ["//", extent(arguments[0]), extent(arguments[1])]
    if name in ("Mod", "PythonMod") and len(arguments) == 2:
        return ["%", extent(arguments[0]), extent(arguments[1])]
    if name == "CeilToInt" and type(arguments[0]).__name__ == "IntTrueDiv":
        return ["ceildiv", *map(extent, arguments[0].args)]
    if name in ("FloorToInt", "TruncToInt") and type(arguments[0]).__name__ == "IntTrueDiv" and name == "FloorToInt":
        return ["//", *map(extent, arguments[0].args)]
    if name in ("CeilToInt", "FloorToInt") and type(arguments[0]).__name__ == "FloatTrueDiv":
        return _rounded(name, *map(_whole, arguments[0].args))
    if name in ("PowByNatural",) and isinstance(arguments[1], sympy.Integer) and arguments[1] > 0:
        return _joined("*", [arguments[0]] * int(arguments[1]))
    if name == "Identity":
        return extent(arguments[0])
    raise Inexpressible(str(expression))


def _rounded(name: str, dividend: Any, divisor: Any) -> Any:
    """A quotient by a number that is not 0, rounded up or down."""
    if not isinstance(divisor, int) or divisor == 0:
        raise Inexpressible(f"{name} of {dividend} / {divisor}")
    if divisor < 0:
        dividend, divisor = ["*", -1, dividend], -divisor
    return dividend if divisor == 1 else ["ceildiv" if name == "CeilToInt" else "//", dividend, divisor]


def _whole(expression: Any) -> Any:
    """A float that is an integer, as sizes converted to floats are."""
    import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]

    if isinstance(expression, (sympy.Integer, sympy.Float)) and float(expression).is_integer():
        return int(expression)
    if type(expression).__name__ == "ToFloat":
        return extent(expression.args[0])
    if isinstance(expression, (sympy.Add, sympy.Mul)):
        operation = "+" if isinstance(expression, sympy.Add) else "*"
        first, *rest = map(_whole, expression.args)
        for term in rest:
            first = [operation, first, term]
        return first
    raise Inexpressible(str(expression))


def real(expression: Any) -> Any:
    """A float that is computed of sizes: a number, `{"d": extent}`, or `[operation, left, right]`."""
    import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]

    name = type(expression).__name__
    arguments = expression.args
    if isinstance(expression, (sympy.Integer, sympy.Float, sympy.Rational)):
        return float(expression)
    if isinstance(expression, sympy.Symbol) or name in ("FloorDiv", "CleanDiv", "Mod", "PythonMod"):
        return {"d": extent(expression)}
    if name in ("ToFloat", "Identity"):
        return real(arguments[0])
    if name in ("FloatTrueDiv", "IntTrueDiv"):
        return ["/", real(arguments[0]), real(arguments[1])]
    if isinstance(expression, (sympy.Add, sympy.Mul)):
        operation = "+" if isinstance(expression, sympy.Add) else "*"
        first, *rest = map(real, arguments)
        for term in rest:
            first = [operation, first, term]
        return first
    if isinstance(expression, sympy.Pow) and arguments[1] == -1:
        return ["/", 1.0, real(arguments[0])]
    raise Inexpressible(f"the float {expression}")


def _joined(operation: str, terms: Any) -> Any:
    first, *rest = [extent(term) for term in terms]
    for term in rest:
        first = [operation, first, term]
    return first


def evaluated(tree: Any, values: Mapping[str, int]) -> int:
    """The value of what `extent` gives."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return values[tree]
    operation, left, right = tree[0], evaluated(tree[1], values), evaluated(tree[2], values)
    return _OPERATIONS[operation](left, right)


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": min,
    "max": max,
    "ceildiv": lambda left, right: -(-left // right),
}


def symbols_of(torch: Any, value: Any) -> set[str]:
    """The symbols in a symbolic number, and in the sizes of tensors."""
    if isinstance(value, (list, tuple)):
        return {symbol for one in value for symbol in symbols_of(torch, one)}
    if isinstance(value, torch.Tensor):
        return {symbol for size in value.shape for symbol in symbols_of(torch, size)}
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return {str(symbol) for symbol in value.node.expr.free_symbols}
    return set()


def claims(expression: Any) -> list[Any]:
    """`[relation, left, right]` of each part of a conjunction."""
    import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]

    if expression is True or expression is sympy.true:
        return []
    if isinstance(expression, sympy.And):
        return [claim for part in expression.args for claim in claims(part)]
    if isinstance(expression, sympy.Not) and isinstance(expression.args[0], sympy.core.relational.Relational):
        return claims(expression.args[0].negated)
    relations: dict[Any, Callable[[Any, Any], Any]] = {
        sympy.Eq: lambda a, b: ["==", a, b],
        sympy.Ne: lambda a, b: ["!=", a, b],
        sympy.Le: lambda a, b: ["<=", a, b],
        sympy.Lt: lambda a, b: ["<", a, b],
        sympy.Ge: lambda a, b: ["<=", b, a],
        sympy.Gt: lambda a, b: ["<", b, a],
    }
    for relation, made in relations.items():
        if isinstance(expression, relation):
            left, right = expression.args
            return [made(extent(left), extent(right))]
    raise Inexpressible(str(expression))


def expression_of(symbolic: Any, what: str) -> Any:
    """The expression behind a `SymInt` or `SymBool`."""
    try:
        return symbolic.node.expr
    except AttributeError as error:
        raise UnsupportedError(f"{what}: {symbolic!r} has no expression") from error


def bounds(value_range: Any) -> tuple[int | None, int | None]:
    """The finite bounds of a range. A lower bound of 2 is PyTorch's own: it specializes 0 and 1."""

    import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]

    def finite(bound: Any) -> int | None:
        # PyTorch has infinities of its own, which are no integers.
        if not isinstance(bound, (int, sympy.Integer)):
            return None
        number = int(bound)
        return number if abs(number) < UNBOUNDED else None

    lower, upper = finite(value_range.lower), finite(value_range.upper)
    if lower is not None and (lower <= 0 or lower == 2):
        lower = None
    return lower, upper
