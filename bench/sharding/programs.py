"""Ten distributed programs whose dims are known when they run, for relax, PyTorch's DTensor, JAX and TVM's Relax.

Each cuts some of its inputs along a mesh of one axis. Imports of PyTorch, JAX and TVM are the workers' own.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from typing import Any, Callable

import numpy as np


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    #: The function in relax, without its mesh.
    relax: str
    #: The function for PyTorch and JAX, each on its own arrays; the first argument is the library.
    torch: Callable[..., Any]
    jax: Callable[..., Any]
    #: Forms of the function for TVM on Relax variables, tried in turn until one is not refused; the first argument is `tvm.relax`.
    tvm: tuple[Callable[..., Any], ...]
    #: NumPy arrays at a size, by name.
    inputs: Callable[[int], dict[str, np.ndarray]]
    #: The axis of each input that is cut; `None`: every process has it whole.
    cuts: tuple[int | None, ...]
    sizes: tuple[int, ...] = (0, 1, 3, 5, 8)


def floats(*shape: int, first: int = 11) -> np.ndarray:
    count = int(np.prod(shape))
    values = (np.arange(count) * 37 + first) % 101 / 25.25 - 2.0
    return values.astype("float32").reshape(shape)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True)) if x.size else np.exp(x)
    return e / e.sum(-1, keepdims=True)


def attention_torch(torch, q, k, v, o):
    scores = torch.softmax(torch.matmul(q, k.transpose(1, 2)), -1)
    return torch.matmul(torch.matmul(scores, v), o).sum(0)


def attention_jax(jax, q, k, v, o):
    scores = jax.nn.softmax(q @ k.transpose(0, 2, 1), -1)
    return ((scores @ v) @ o).sum(0)


def softmax_tvm(relax, x):
    e = relax.op.exp(relax.op.subtract(x, relax.op.max(x, [-1], keepdims=True)))
    return relax.op.divide(e, relax.op.sum(e, [-1], keepdims=True))


def layer_norm_tvm(relax, x, g, b):
    centred = relax.op.subtract(x, relax.op.mean(x, [-1], keepdims=True))
    variance = relax.op.mean(relax.op.multiply(centred, centred), [-1], keepdims=True)
    deviation = relax.op.sqrt(relax.op.add(variance, relax.const(1e-5, "float32")))
    return relax.op.add(relax.op.multiply(relax.op.divide(centred, deviation), g), b)


def reshape_tvm(relax, x):
    rows = x.ty.shape.values[0]
    merged = relax.BlockBuilder.current().emit(relax.op.reshape(x, relax.ShapeExpr([rows * 6])))
    return relax.op.reshape(merged, relax.ShapeExpr([rows * 2, 3]))


def attention_tvm(relax, q, k, v, o):
    scores = relax.op.nn.softmax(relax.op.matmul(q, relax.op.permute_dims(k, [0, 2, 1])), -1)
    return relax.op.sum(relax.op.matmul(relax.op.matmul(scores, v), o), [0])


def dims(program: Program) -> list[tuple[str | int, ...]]:
    """The dims of each input, as the program for relax names them."""
    texts = re.findall(r"\w+: (?:CUT\((.*?),?;|Tensor\(\((.*?),?\))", program.relax)
    return [ast.literal_eval(f"({cut or whole},)") for cut, whole in texts]


def relax_text(program: Program, workers: int) -> str:
    """The program on a mesh; `CUT(4, "n"; S[1])` is a distributed tensor of f32."""
    cut = r'DTensor((\1), "f32", "mesh[0]", "\2")'
    return f'module_attr("mesh[0]", "{workers}")\n\n' + re.sub(r"CUT\((.*?); (.*?)\)", cut, program.relax)


PROGRAMS = (
    Program(
        "rows, not divisible",
        'def main(x: CUT("n", 4; S[0]), b: Tensor((4,), "f32")):\n    return relu(add(x, b))\n',
        lambda torch, x, b: torch.relu(x + b),
        lambda jax, x, b: jax.nn.relu(x + b),
        (lambda relax, x, b: relax.op.nn.relu(relax.op.add(x, b)),),
        lambda n: {"x": floats(n, 4), "b": floats(4)},
        (0, None),
        (5, 7, 9),
    ),
    Program(
        "rows, fewer than ranks",
        'def main(x: CUT("n", 4; S[0])):\n    return subtract(x, mean(x, axis=[1], keepdims=True))\n',
        lambda torch, x: x - x.mean(1, keepdim=True),
        lambda jax, x: x - x.mean(1, keepdims=True),
        (lambda relax, x: relax.op.subtract(x, relax.op.mean(x, [1], keepdims=True)),),
        lambda n: {"x": floats(n, 4)},
        (0,),
        (1, 2, 3),
    ),
    Program(
        "no rows, summed",
        'def main(x: CUT("n", 4; S[0]), w: Tensor((4, 3), "f32")):\n    return sum(matmul(x, w), axis=[0])\n',
        lambda torch, x, w: torch.matmul(x, w).sum(0),
        lambda jax, x, w: (x @ w).sum(0),
        (lambda relax, x, w: relax.op.sum(relax.op.matmul(x, w), [0]),),
        lambda n: {"x": floats(n, 4), "w": floats(4, 3)},
        (0, None),
        (0,),
    ),
    Program(
        "product, contracted axis",
        'def main(x: CUT(3, "n"; S[1]), w: CUT("n", 4; S[0])):\n    return matmul(x, w)\n',
        lambda torch, x, w: torch.matmul(x, w),
        lambda jax, x, w: x @ w,
        (lambda relax, x, w: relax.op.matmul(x, w),),
        lambda n: {"x": floats(3, n), "w": floats(n, 4)},
        (1, 0),
    ),
    Program(
        "softmax over the cut axis",
        'def main(x: CUT(3, "n"; S[1])):\n    return softmax(x, axis=-1)\n',
        lambda torch, x: torch.softmax(x, -1),
        lambda jax, x: jax.nn.softmax(x, -1),
        (lambda relax, x: relax.op.nn.softmax(x, -1), softmax_tvm),
        lambda n: {"x": floats(3, n)},
        (1,),
    ),
    Program(
        "layer norm over the cut axis",
        'def main(x: CUT(3, "n"; S[1]), g: CUT("n",; S[0]), b: CUT("n",; S[0])):\n'
        '    return layer_norm(x, g, b, axes=[-1])\n',
        lambda torch, x, g, b: torch.nn.functional.layer_norm(x, (x.shape[-1],), g, b),
        lambda jax, x, g, b: (x - x.mean(-1, keepdims=True)) / (x.var(-1, keepdims=True) + 1e-5) ** 0.5 * g + b,
        (lambda relax, x, g, b: relax.op.nn.layer_norm(x, g, b, [-1]), layer_norm_tvm),
        lambda n: {"x": floats(3, n), "g": floats(n, first=50), "b": floats(n)},
        (1, 0, 0),
        (1, 3, 5, 8),
    ),
    Program(
        "concat along the cut axis",
        'def main(x: CUT("n", 4; S[0]), y: CUT("m", 4; S[0])):\n    return concat((x, y), axis=0)\n',
        lambda torch, x, y: torch.cat((x, y), 0),
        lambda jax, x, y: jax.numpy.concatenate((x, y), 0),
        (lambda relax, x, y: relax.op.concat((x, y), 0),),
        lambda n: {"x": floats(n, 4), "y": floats(n + 3, 4)},
        (0, 0),
    ),
    Program(
        "reshape, merged and split",
        'def main(x: CUT("n", 6; S[0])):\n    n = sym_var()\n'
        '    return reshape(reshape(x, shape(n * 6)), shape(n * 2, 3))\n',
        lambda torch, x: x.reshape(x.shape[0] * 6).reshape(x.shape[0] * 2, 3),
        lambda jax, x: x.reshape(x.shape[0] * 6).reshape(x.shape[0] * 2, 3),
        (reshape_tvm,),
        lambda n: {"x": floats(n, 6)},
        (0,),
    ),
    Program(
        "embedding, rows of the table cut",
        'def main(table: CUT("n", 4; S[0]), ids: Tensor(("k",), "i64")):\n    return take(table, ids, axis=0)\n',
        lambda torch, table, ids: torch.nn.functional.embedding(ids, table),
        lambda jax, table, ids: jax.numpy.take(table, ids, axis=0),
        (lambda relax, table, ids: relax.op.take(table, ids, 0),),
        lambda n: {"table": floats(n, 4), "ids": (np.arange(6) * 5 % n).astype("int64")},
        (0, None),
        (1, 3, 5, 8),
    ),
    Program(
        "attention, heads cut",
        'def main(q: CUT("h", 5, 2; S[0]), k: CUT("h", 5, 2; S[0]), v: CUT("h", 5, 2; S[0]), '
        'o: CUT("h", 2, 4; S[0])):\n'
        '    scores = softmax(matmul(q, permute_dims(k, axes=[0, 2, 1])), axis=-1)\n'
        '    return sum(matmul(matmul(scores, v), o), axis=[0])\n',
        attention_torch,
        attention_jax,
        (attention_tvm,),
        lambda n: {
            "q": floats(n, 5, 2),
            "k": floats(n, 5, 2, first=3),
            "v": floats(n, 5, 2, first=50),
            "o": floats(n, 2, 4),
        },
        (0, 0, 0, 0),
    ),
)


def expected(program: Program, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The result by NumPy on one device, in f64."""
    x = [a.astype("float64") if a.dtype == np.float32 else a for a in arrays.values()]
    match program.name:
        case "rows, not divisible":
            return np.maximum(x[0] + x[1], 0)
        case "rows, fewer than ranks":
            return x[0] - x[0].mean(1, keepdims=True)
        case "no rows, summed":
            return (x[0] @ x[1]).sum(0)
        case "product, contracted axis":
            return x[0] @ x[1]
        case "softmax over the cut axis":
            return softmax(x[0])
        case "layer norm over the cut axis":
            centred = x[0] - x[0].mean(-1, keepdims=True)
            return centred / np.sqrt(x[0].var(-1, keepdims=True) + 1e-5) * x[1] + x[2]
        case "concat along the cut axis":
            return np.concatenate(x, 0)
        case "reshape, merged and split":
            return x[0].reshape(-1, 3)
        case "embedding, rows of the table cut":
            return x[0][x[1]]
        case "attention, heads cut":
            return (softmax(x[0] @ x[1].transpose(0, 2, 1)) @ x[2] @ x[3]).sum(0)
    raise ValueError(program.name)


def verdict(found: np.ndarray, wanted: np.ndarray) -> str:
    """`right`, or `wrong` and why."""
    if found.shape != wanted.shape:
        return f"wrong: the shape {found.shape}, not {wanted.shape}"
    worst = float(np.abs(found - wanted).max()) if wanted.size else 0.0
    return "right" if worst <= 1e-4 * (1 + float(np.abs(wanted).max() if wanted.size else 0)) else f"wrong: off by {worst:.3g}"
