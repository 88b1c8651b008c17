"""Writes operator corpus files: programs with expectations that come from NumPy or torch.

A family script makes one `OpFile` an operator, adds cases, and calls `write()`. Files are written
byte for byte the same on every run, so `git diff` shows what a change of a generator changes.

Run all families with `python3 scripts/ops/generate.py` (needs numpy, torch, ml_dtypes, scipy).
"""

import pathlib

import ml_dtypes
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "corpus" / "suite" / "ops"

DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "bool": np.bool_,
}
NAMES = {np.dtype(v): k for k, v in DTYPES.items()}
FLOATS = ["f16", "bf16", "f32", "f64"]
INTS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]


def dtype_name(array):
    return NAMES[np.asarray(array).dtype]


def scalar(value, dtype):
    if dtype == "bool":
        return "True" if value else "False"
    if dtype in FLOATS:
        value = float(value)
        if np.isnan(value):
            return "nan"
        if np.isinf(value):
            return "inf" if value > 0 else "-inf"
        if dtype == "f32":
            text = str(np.float32(value))
            return text if ("." in text or "e" in text) else text + ".0"
        return repr(value)
    return str(int(value))


def nested(array, dtype):
    if array.ndim == 0:
        return scalar(array[()], dtype)
    return "[" + ", ".join(nested(item, dtype) for item in array) + "]"


def spec(value):
    """A value as an argument or expectation: arrays carry their dtype; tuples, ints and shapes too."""
    if isinstance(value, tuple):
        inner = ", ".join(spec(item) for item in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, Shape):
        return "shape(" + ", ".join(str(d) for d in value.dims) + ")"
    if isinstance(value, str):
        return value
    array = np.asarray(value)
    name = dtype_name(array)
    if array.size == 0:
        dims = ", ".join(str(d) for d in array.shape) + ("," if array.ndim == 1 else "")
        return f'zeros(({dims}), "{name}")'
    return f'const({nested(array, name)}, "{name}")'


class Shape:
    def __init__(self, *dims):
        self.dims = dims


def tensor(shape, dtype):
    """The text of an annotation; string dims are symbolic and come quoted."""
    dims = ", ".join(f'"{d}"' if isinstance(d, str) else str(d) for d in shape)
    if len(shape) == 1:
        dims += ","
    return f'Tensor(({dims}), "{dtype}")'


class OpFile:
    """One corpus file. `run`/`approx` give a function and its expectation on concrete arguments."""

    def __init__(self, op, about):
        self.op, self.parts, self.names = op, [f"# {about}"], set()

    def _function(self, name, params, body, returns=None):
        assert name not in self.names, name
        self.names.add(name)
        head = ", ".join(f"{p}: {a}" for p, a in params)
        arrow = f" -> {returns}" if returns else ""
        lines = body if isinstance(body, list) else [f"return {body}"]
        return [f"def {name}({head}){arrow}:"] + ["    " + line for line in lines]

    def function(self, name, params, body, expectations, returns=None):
        """`params`: [(name, annotation)]; `body`: an expression or a list of statements;
        `expectations`: comment lines without `# `, made by `run`, `approx`, `trap`."""
        lines = [f"# {line}" for line in expectations]
        self.parts.append("\n".join(lines + self._function(name, params, body, returns)))

    def refused(self, name, params, body, code, returns=None):
        """A function whose last line has a compile-time error of that code."""
        lines = self._function(name, params, body, returns)
        lines[-1] += f"  # error[{code}]"
        self.parts.append("\n".join(lines))

    def write(self):
        OUT.mkdir(parents=True, exist_ok=True)
        (OUT / f"{self.op}.rx").write_text("\n\n".join(self.parts) + "\n")


def run(name, args, expected):
    """The result equals `expected` in dtype, shape and every bit (all NaNs are alike)."""
    return f"run: {name}({', '.join(spec(a) for a in args)}) == {spec(expected)}"


def approx(name, args, expected):
    """The result equals `expected` in dtype and shape, elements within 4 units in the last place."""
    return f"run: {name}({', '.join(spec(a) for a in args)}) ~= {spec(expected)}"


def trap(trap_id, name, args):
    """The run stops with that trap."""
    return f"trap[{trap_id}]: {name}({', '.join(spec(a) for a in args)})"


def round_to(dtype, values):
    """Exact or f64 values, rounded once into a dtype."""
    values = np.asarray(values)
    if dtype == "bf16":
        # ml_dtypes rounds f64 through f32; round to odd first so that one rounding is left.
        f64 = values.astype(np.float64)
        f32 = f64.astype(np.float32)
        over = np.abs(f32.astype(np.float64)) > np.abs(f64)
        bits = f32.view(np.uint32) - over.astype(np.uint32)
        inexact = (f32.astype(np.float64) != f64) & ~np.isnan(f64)
        odd = np.where(inexact, bits | 1, f32.view(np.uint32)).astype(np.uint32).view(np.float32)
        return odd.astype(ml_dtypes.bfloat16)
    return values.astype(DTYPES[dtype])


def sample(dtype, shape, seed=0):
    """Elements of a dtype with its special values among them: NaN, infinities, -0.0, extremes."""
    rng = np.random.default_rng(seed)
    kind = DTYPES[dtype]
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype in FLOATS:
        values = round_to(dtype, rng.standard_normal(shape))
        special = [np.nan, -0.0, np.inf, -np.inf]
    else:
        values = rng.integers(0, 100, shape).astype(kind)
        special = [np.iinfo(kind).max, np.iinfo(kind).min]
    flat = values.reshape(-1)
    for at, value in zip(range(1, flat.size, 2), special):
        flat[at] = value
    return flat.reshape(shape)


ALL = FLOATS + INTS + ["bool"]
