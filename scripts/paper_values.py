"""The expected values of `corpus/paper` and `corpus/models`, computed with NumPy, independent of Relax.

Every `# run:` directive of those folders is read, its arguments are built as the corpus harness builds them, the
reference below is evaluated in float64, and the result is compared with the value in the file. An `==` value must be
exact in the result's dtype: small integers and powers of two are chosen so that every order of summation agrees.

    python scripts/paper_values.py            # check; exit status 1 when a value differs
    python scripts/paper_values.py --write    # rewrite the values in place

The corpus files are valid Python syntax, which is what the parser of this script relies on. Needs numpy.
"""

import argparse
import ast
import math
import re
from pathlib import Path

import numpy as np

CORPUS = Path(__file__).resolve().parent.parent / "corpus"
DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "u32": np.uint32, "bool": np.bool_}
DIRECTIVE = re.compile(r"^# (run|trap\[[a-z_]+/[a-z_]+\]): (.*)$")

erf = np.vectorize(math.erf, otypes=[np.float64])
F32_MIN = float(np.finfo(np.float32).min)


# ---- references: float64 in, float64 (or integers) out -------------------------------------------------------------


def relu(x):
    return np.maximum(x, 0.0)


def silu(x):
    return x / (1.0 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1.0 + erf(x / math.sqrt(2.0)))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True, initial=-np.inf))
    return e / e.sum(axis=-1, keepdims=True)


def rms_norm(x):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)


def layer_norm(x, gamma, beta):
    centered = x - x.mean(axis=-1, keepdims=True)
    return centered / np.sqrt((centered * centered).mean(axis=-1, keepdims=True) + 1e-5) * gamma + beta


def causal_attention(x, wq, wk, wv):
    scores = (x @ wq) @ (x @ wk).T / math.sqrt(x.shape[1])
    rows = np.arange(x.shape[0])
    return softmax(np.where(rows[:, None] >= rows[None, :], scores, F32_MIN)) @ (x @ wv)


def library_attention(qkv):
    """(n, 3, heads, d) to (n, heads, d): every row sees every row."""
    q, k, v = (qkv[:, i].transpose(1, 0, 2) for i in range(3))
    return (softmax(q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])) @ v).transpose(1, 0, 2)


def recurrent(xs, wx, wh, start):
    h = start
    for row in xs:
        h = relu(row[None] @ wx + h @ wh)
    return h


def decode_q4(data, scale, group):
    """A weight is (nibble - 7) * scale; eight nibbles a word, lowest first; one scale for `group` neighbours."""
    columns = np.arange(data.shape[1] * 8)
    nibbles = (data.astype(np.int64)[:, columns // 8] >> (columns % 8 * 4)) & 15
    return (nibbles - 7) * scale[:, columns // group]


def q4_mlp(x, data1, scale1, data2, scale2):
    return relu(x @ decode_q4(data1, scale1, 8)) @ decode_q4(data2, scale2, 8)


def exp_unique(x):
    return np.exp(np.unique(x))


def small_feed_forward(x, w0, w1):
    up = x @ w0
    return rms_norm((up + silu(up)) @ w1)


def ints(*values):
    return np.array(values, dtype=np.int64)


def deduced_shapes(x, y):
    n = len(x)
    return np.ones(n * 4), np.ones(12), np.ones((n + 1) * 4), np.ones(int(y.prod()))


def split_halves(x):
    return np.split(x.reshape(-1), 2)[0]


def q4_columns(x, data, scale):
    return (x @ decode_q4(data, scale, 32))[:, :9]


def small_attention(x, w):
    return library_attention((x @ w).reshape(-1, 3, 2, 2))


def small_attention_relu(x, w):
    return library_attention(relu(x @ w).reshape(-1, 3, 2, 2))


def mm_relu(x, w):
    return relu(x @ w)


def exp_relu(x):
    return relu(np.exp(x))


def repeated_gelu(x):
    return np.repeat(gelu(x)[:, None], 256, axis=1)


def gelu_residual(a, b):
    return a + gelu(a @ b)


def gelu_residual_of_rows(x):
    return np.repeat((x + gelu(x))[:, None], 64, axis=1)


def columns_of(function, count):
    return lambda *arguments: function(*arguments)[:, :count]


def family(pattern, **entries):
    """The references of one or several files: entry function to reference."""
    return pattern, entries


REFERENCES = [
    family("models/mlp", main=lambda x, w1, b1, w2, b2: relu(x @ w1 + b1) @ w2 + b2),
    family("models/attention", main=causal_attention),
    family("models/layer_norm_f16", main=layer_norm, spelled_out=layer_norm),
    family("models/rnn", main=recurrent),
    family("models/decode_q4_mlp", main=q4_mlp, decoded=lambda data, scale: decode_q4(data, scale, 8)),
    family("paper/symbolic_shape", symbolic_shape_fn=exp_unique),
    family("paper/any_shape", any_shape_fn=exp_unique),
    family(
        "paper/cross_level",
        main=lambda x, w: rms_norm(mm_relu(x, w)),
        first_columns=columns_of(lambda x, w: rms_norm(mm_relu(x, w)), 4),
        product_columns=columns_of(np.matmul, 4),
    ),
    family("paper/graph_mlp", small=small_feed_forward),
    family("paper/memory_plan_.*", main=exp_relu),
    family("paper/fuse_relu.*", main=mm_relu, first_columns=columns_of(mm_relu, 4)),
    family("paper/decode_q4.*", main=lambda x, data, scale: x @ decode_q4(data, scale, 32), first_columns=q4_columns),
    family("paper/attention", main=lambda x, w: library_attention((x @ w).reshape(-1, 3, 8, 64)), small=small_attention),
    family("paper/attention_static", small=small_attention_relu),
    family(
        "paper/annotations",
        shapes=lambda s, t: (s, t, s[:1]),
        tensors=lambda x, y: (x + x, y + y),
        first=lambda t: t[0],
        main=np.ravel,
    ),
    family("paper/cross_function", main=lambda x: split_halves(exp_relu(x)), subfunc=lambda x: relu(x.reshape(-1))),
    family("paper/foreign_call", main=lambda x: split_halves(relu(rms_norm(np.exp(x))))),
    family("paper/shape_deduce", subgraph_func_shape_deduce_example=deduced_shapes, subfn=lambda s: np.ones(int(s.prod()))),
    family("paper/shape_deduce_fallback", shapes_of=lambda x: (ints(len(x) * 4), ints(12), ints((len(x) + 1) * 4))),
    family("paper/extra_shape_grouped", main=lambda x: relu(2.0 * x.reshape(-1)), fused_add_relu=lambda x, s: relu(x + x)),
    family("paper/extra_shape_.*", main=lambda x: relu(2.0 * x.reshape(-1)), fused_add_relu=lambda x, y, s: relu(x + y)),
    family("paper/partial_lowering_.*", main=lambda x, w: rms_norm(x @ w), first_columns=columns_of(lambda x, w: rms_norm(x @ w), 4)),
    family("paper/loop_optimization", main=np.matmul, first_columns=columns_of(np.matmul, 4)),
    family("paper/workspace_.*", small=np.matmul),
    family("paper/tvmscript_module", relax_func=lambda x, w: np.exp(x @ w).reshape(-1)),
    family("paper/cuda_graph_gelu_before", main=repeated_gelu, first_columns=columns_of(repeated_gelu, 2)),
    family("paper/cuda_graph_gelu_after", main=lambda a, b: gelu(a @ b), first_columns=columns_of(lambda a, b: gelu(a @ b), 2)),
    family("paper/cuda_graph_(before|captured)", main=gelu_residual_of_rows, first_columns=columns_of(gelu_residual_of_rows, 2)),
    family("paper/cuda_graph_after", main=gelu_residual, first_columns=columns_of(gelu_residual, 2)),
    family("paper/relu_loop", main=relu),
    family("paper/mm_64", corner=lambda a, b: (a @ b)[:2, :4]),
    family("paper/distributed", small=np.matmul),
]


# ---- directives ----------------------------------------------------------------------------------------------------


def dtype_of(annotation):
    """The dtype an annotation gives to a literal; a list of them for a tuple; None where it gives none."""
    if isinstance(annotation, ast.Subscript):
        return [dtype_of(part) for part in annotation.slice.elts]
    if isinstance(annotation, ast.Call) and annotation.func.id in ("Tensor", "DTensor", "Prim"):
        written = [a.value for a in [*annotation.args, *(k.value for k in annotation.keywords)] if isinstance(a, ast.Constant)]
        return next((name for name in written if name in DTYPES), None)
    return None


def widened(array):
    """Floats as float64, everything else as it is."""
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def literal(value, dtype):
    """A nested list as an array, rounded to its dtype first."""
    rounded = np.array(value, dtype=DTYPES[dtype or "f32"])
    return widened(rounded)


def build(spec, dtype):
    """The value of one SPEC of a directive."""
    if isinstance(spec, ast.Tuple):
        return tuple(build(part, part_dtype) for part, part_dtype in zip(spec.elts, dtype, strict=True))
    if not isinstance(spec, ast.Call):
        return literal(ast.literal_eval(spec), dtype)
    arguments = [ast.literal_eval(argument) for argument in spec.args]
    makers = {
        "shape": lambda *dims: np.array(dims, dtype=np.int64),
        "zeros": lambda *dims: literal(np.zeros(dims), dtype),
        "ones": lambda *dims: literal(np.ones(dims), dtype),
        "full": lambda dims, value: literal(np.full(dims, value), dtype),
        "arange": lambda *dims: literal(np.arange(math.prod(dims)).reshape(dims), dtype),
        "const": lambda value, own: literal(value, own),
    }
    return makers[spec.func.id](*arguments)


def shown(value, dtype):
    """A result as a literal of the corpus, and whether that is exact."""
    if isinstance(value, tuple):
        parts = [shown(part, dtype) for part in value]
        return "(" + ", ".join(text for text, _ in parts) + ")", all(exact for _, exact in parts)
    if value.size == 0:
        return "zeros(" + ", ".join(str(d) for d in value.shape) + ")", True
    if value.dtype.kind != "f":
        return str(value.tolist()), True
    rounded = value.astype(DTYPES[dtype])
    return nested(rounded), bool((rounded.astype(np.float64) == value).all())


def nested(array):
    """Nested lists, each float in the fewest digits that give it back."""
    if array.ndim == 0:
        number = array[()] + 0
        plain = number == 0 or 1e-5 <= abs(float(number)) < 1e9
        return np.format_float_positional(number, trim="0") if plain else repr(float(str(number)))
    return "[" + ", ".join(nested(row) for row in array) + "]"


def reference(path, entry):
    name = f"{path.parent.name}/{path.stem}"
    for pattern, entries in REFERENCES:
        if re.fullmatch(pattern, name):
            return entries.get(entry)
    return None


def result_dtype(path):
    """f16 in the files of the half-precision programs, else f32."""
    return "f16" if "q4" in path.stem or "f16" in path.stem else "f32"


def call_of(text, functions):
    """The entry and the annotations of its parameters with the SPECs given for them."""
    call = ast.parse(text, mode="eval").body
    parameters = functions[call.func.id].args.args
    if len(parameters) != len(call.args):
        raise SystemExit(f"{text}: {call.func.id} has {len(parameters)} parameters")
    return call.func.id, [build(spec, dtype_of(p.annotation)) for spec, p in zip(call.args, parameters)]


def evaluated(path, text, functions):
    """A `# run:` directive with its value computed afresh."""
    call, operator = re.fullmatch(r"(.*?) (==|~=) .*", text).groups()
    entry, arguments = call_of(call, functions)
    function = reference(path, entry)
    if function is None:
        raise SystemExit(f"{path.name}: no reference for {entry}")
    value, exact = shown(function(*arguments), result_dtype(path))
    if operator == "==" and not exact:
        raise SystemExit(f"{path.name}: {text}: the value is not exact, write ~=")
    return f"# run: {call} {operator} {value}"


def refreshed(path):
    """The text of a file with every value computed afresh."""
    text = path.read_text()
    functions = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    lines = []
    for line in text.split("\n"):
        found = DIRECTIVE.match(line)
        if found and found[1] == "run":
            line = evaluated(path, found[2], functions)
        elif found:
            call_of(found[2], functions)
        lines.append(line)
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="rewrite the values in place")
    arguments = parser.parse_args()
    stale = []
    for path in sorted([*(CORPUS / "models").glob("*.rx"), *(CORPUS / "paper").glob("*.rx")]):
        new = refreshed(path)
        if new != path.read_text():
            stale.append(path.name)
            if arguments.write:
                path.write_text(new)
    if stale and not arguments.write:
        raise SystemExit("values differ in: " + ", ".join(stale))


if __name__ == "__main__":
    main()
