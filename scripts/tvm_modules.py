"""Writes modules as TVM prints them into import/tests/tvmscript (or the folder that is given): each as TVM's frontend
makes it, and lowered to tensor programs. Needs the package apache-tvm 0.27."""

import sys
from pathlib import Path

from tvm import relax, tirx

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "import/tests/tvmscript"
OP = relax.op


def tensor(name, shape, dtype="float32"):
    return relax.Var(name, relax.TensorType(shape, dtype))


def module(params, body):
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            result = builder.emit_output(body(builder, *params))
        builder.emit_func_output(result)
    return builder.get()


n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
x, y = tensor("x", (n, 64)), tensor("y", (n, 64))
w, b = tensor("w", (64, 32)), tensor("b", (32,))
i = tensor("i", (m,), "int64")
q = tensor("q", (1, n, 4, 16))
c = tensor("c", (1, 3, n, m))
k = tensor("k", (8, 3, 3, 3))

UNARY = "exp log sqrt rsqrt tanh sin cos abs negative floor ceil sigmoid erf".split()
BINARY = "add subtract multiply divide maximum minimum greater less equal".split()
MODULES = {
    "linear": ([x, w, b], lambda bb, x, w, b: OP.add(bb.emit(OP.matmul(x, w)), b)),
    "softmax": ([x], lambda bb, x: OP.nn.softmax(x, axis=-1)),
    "log_softmax": ([x], lambda bb, x: OP.nn.log_softmax(x, axis=-1)),
    "relu": ([x], lambda bb, x: OP.nn.relu(x)),
    "gelu": ([x], lambda bb, x: OP.nn.gelu(x)),
    "silu": ([x], lambda bb, x: OP.nn.silu(x)),
    "sum": ([x], lambda bb, x: OP.sum(x, axis=[1], keepdims=True)),
    "mean": ([x], lambda bb, x: OP.mean(x, axis=[0])),
    "max": ([x], lambda bb, x: OP.max(x, axis=[1])),
    "transpose": ([x], lambda bb, x: OP.permute_dims(x, axes=[1, 0])),
    "reshape": ([x], lambda bb, x: OP.reshape(x, (n * 8, 8))),
    "flatten": ([x], lambda bb, x: OP.reshape(x, (n * 64,))),
    "concat": ([x, y], lambda bb, x, y: OP.concat([x, y], axis=0)),
    "take": ([x, i], lambda bb, x, i: OP.take(x, i, axis=0)),
    "expand": ([x], lambda bb, x: OP.expand_dims(x, axis=[1])),
    "broadcast": ([b], lambda bb, b: OP.broadcast_to(b, (8, 32))),
    "astype": ([x], lambda bb, x: OP.astype(x, "float16")),
    "where": ([x, y], lambda bb, x, y: OP.where(bb.emit(OP.greater(x, y)), x, y)),
    "tril": ([x], lambda bb, x: OP.tril(x)),
    "zeros": ([x], lambda bb, x: OP.add(x, bb.emit(OP.zeros((n, 64), "float32")))),
    "conv2d": ([c, k], lambda bb, c, k: OP.nn.conv2d(c, k, padding=(1, 1))),
    "max_pool2d": ([c], lambda bb, c: OP.nn.max_pool2d(c, pool_size=(2, 2))),
    "attention": ([q], lambda bb, q: OP.nn.attention(q, q, q)),
    "mlp": (
        [x, w, b],
        lambda bb, x, w, b: OP.nn.softmax(bb.emit(OP.nn.relu(bb.emit(OP.add(bb.emit(OP.matmul(x, w)), b))))),
    ),
}
for name in UNARY:
    MODULES[name] = ([x], lambda bb, x, name=name: getattr(OP, name)(x))
for name in BINARY:
    MODULES[name] = ([x, y], lambda bb, x, y, name=name: getattr(OP, name)(x, y))

FOLDER.mkdir(parents=True, exist_ok=True)
for name, (params, body) in MODULES.items():
    made = module(params, body)
    (FOLDER / f"{name}.py").write_text(made.script() + "\n")
    lowered = relax.transform.LegalizeOps()(made)
    (FOLDER / f"{name}_tir.py").write_text(lowered.script() + "\n")
