"""Operators of generated models: each function adds nodes to a model, or returns None where the operand does not fit."""

import numpy
from generator import BOOL, FLOAT, INT32, INT64, NUMPY
from onnx import TensorProto
from shapes import SHAPE_KINDS

SAME = "Relu Abs Neg Exp Ceil Floor Sqrt Sigmoid Tanh Identity Round Reciprocal Log Erf Softplus HardSwish HardSigmoid LeakyRelu Elu Sign".split()
KEPT = ["Abs", "Neg", "Identity", "Sign"]


def unary(model, x):
    if x.dtype == BOOL:
        return model.node("Not", [x], BOOL, x.dims)
    kind = model.pick(SAME if x.dtype == FLOAT else KEPT)
    if kind == "HardSwish" and model.opset < 14:
        return None
    return model.node(kind, [x], x.dtype, x.dims)


def idempotent(model, x):
    if x.dtype != FLOAT:
        return None
    kind = model.pick(["Relu", "Abs", "Ceil", "Floor", "Round"])
    return model.node(kind, [model.node(kind, [x], FLOAT, x.dims)], FLOAT, x.dims)


def known(x):
    """Extents that every run has; 1 in the place of others."""
    return [text if isinstance(text, int) else 1 for text, _ in x.dims]


def binary(model, x):
    """With a constant of a shape that broadcasts, often a neutral element, or with another value of the same dims."""
    if x.dtype == BOOL:
        return None
    kind = model.pick("Add Sub Mul Div Max Min Pow".split())
    if kind == "Pow" and x.dtype != FLOAT:
        return None
    alike = [v for v in model.values if v.dims == x.dims and v.dtype == x.dtype and None not in [t for t, _ in v.dims]]
    if model.chance(0.25) and alike and kind != "Pow":
        return model.node(kind, [x, model.pick(alike)], x.dtype, x.dims)
    shape, dims = constant_shape(model, x)
    held = model.pick([0, 1, 0, 1, -1, 2, 0.5, 3]) if x.dtype == FLOAT else model.pick([0, 1, -1, 2, 3])
    held = abs(held) if x.dtype == TensorProto.UINT8 else held
    if kind == "Div" and x.dtype != FLOAT and held == 0:
        held = 2
    array = numpy.full(shape, held, NUMPY[x.dtype])
    if array.size > 1 and model.chance(0.4):
        array.flat[0] = 2
    operands = [x, model.constant(array)]
    if model.chance(0.3) and (kind != "Div" or x.dtype == FLOAT):
        operands.reverse()
    return model.node(kind, operands, x.dtype, dims)


def constant_shape(model, x):
    """A shape that broadcasts with that of `x`, and the dims of the result: maybe of a higher rank, or wider where `x` has 1."""
    shape = [extent if model.chance(0.5) else 1 for extent in known(x)]
    shape = shape[model.random.randint(0, len(shape)):] if model.chance(0.5) else shape
    dims = list(x.dims)
    if model.chance(0.2):
        at = [i for i, pair in enumerate(dims[::-1]) if pair[0] == 1 and i < len(shape)]
        if at:
            shape[len(shape) - 1 - at[0]] = 3
            dims[len(dims) - 1 - at[0]] = (3, 3)
    if model.chance(0.1):
        shape = [1] * (x.rank + 1 - len(shape)) + shape
        dims = [(1, 1)] + dims
    return shape, dims


def integer_parts(model, x):
    """Division and remainder of integers, of negative ones too."""
    if x.dtype not in (INT64, INT32):
        return None
    divisor = model.constant(numpy.array(model.pick([2, -2, 3, -3]), NUMPY[x.dtype]))
    if model.chance(0.5):
        return model.node("Mod", [x, divisor], x.dtype, x.dims, fmod=model.pick([0, 1]))
    return model.node(model.pick(["Div", "Mul"]), [model.node("Div", [x, divisor], x.dtype, x.dims), divisor], x.dtype, x.dims)


def clip(model, x):
    if x.dtype != FLOAT:
        return None
    low = model.constant(numpy.float32(model.pick([-1, 0, 0.5, 1, 2]))) if model.chance(0.8) else ""
    high = model.constant(numpy.float32(model.pick([-0.5, 0, 1, 6]))) if model.chance(0.7) else ""
    return model.node("Clip", [x, low, high] if high else [x, low] if low else [x], FLOAT, x.dims)


def extremes(model, x):
    """Max of Min and the like, by scalars and by vectors."""
    if x.dtype != FLOAT:
        return None
    shape = model.pick([(), (1,), (1, 1)]) if x.rank >= 2 else ()
    bound = [model.constant(numpy.full(shape, model.pick([-1, 0, 1, 0.5]), numpy.float32)) for _ in range(2)]
    first = model.node(model.pick(["Min", "Max"]), [x, bound[0]], FLOAT, x.dims)
    return model.node(model.pick(["Min", "Max"]), [first, bound[1]], FLOAT, x.dims)


CASTS = [FLOAT, INT64, INT32, BOOL, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT8, TensorProto.UINT8]


def cast(model, x):
    """Two casts, the second mostly back to the dtype."""
    through = model.pick(CASTS)
    back = x.dtype if model.chance(0.7) or x.dtype not in (FLOAT, INT64) else model.pick([FLOAT, INT64])
    return model.node("Cast", [model.node("Cast", [x], through, x.dims, to=through)], back, x.dims, to=back)


def softmax(model, x):
    if x.dtype != FLOAT or not x.rank:
        return None
    _, axis = model.axis(x)
    kind = model.pick(["Softmax", "LogSoftmax", "Softmax", "Hardmax"])
    result = model.node(kind, [x], FLOAT, x.dims, axis=axis)
    return model.node("Log", [result], FLOAT, x.dims) if kind == "Softmax" and model.chance(0.5) else result


def order(model, x):
    """ArgMax and ArgMin, maybe of a monotone function."""
    if x.dtype != FLOAT or not x.rank:
        return None
    if model.chance(0.6):
        x = model.node(model.pick(["Exp", "Log", "Sqrt", "Softmax", "LogSoftmax"]), [x], FLOAT, x.dims)
    at, axis = model.axis(x)
    dims = [pair for i, pair in enumerate(x.dims) if i != at]
    attributes = {"axis": axis, "keepdims": 0, "select_last_index": model.pick([0, 1])}
    return model.node(model.pick(["ArgMax", "ArgMin"]), [x], INT64, dims, **attributes)


def reduced(model, x):
    """A reduction, maybe with its axes put back."""
    if x.dtype != FLOAT or not x.rank:
        return None
    kind = model.pick("ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp".split())
    axes = sorted(model.random.sample(range(x.rank), model.random.randint(0, min(2, x.rank))))
    keep, noop = model.pick([0, 1]), model.pick([0, 0, 1]) if kind == "ReduceSum" or model.opset >= 18 else 0
    written = [axis - x.rank if model.chance(0.4) else axis for axis in axes]
    over = axes if axes else [] if noop else list(range(x.rank))
    dims = [(1, 1) if i in over else pair for i, pair in enumerate(x.dims) if keep or i not in over]
    attributes = {"keepdims": keep, **({"noop_with_empty_axes": noop} if noop else {})}
    if kind == "ReduceSum" or model.opset >= 18:
        inputs = [x] if not axes and model.chance(0.5) else [x, model.integers(written)]
    else:
        inputs = [x]
        attributes.update({"axes": written} if axes else {})
    result = model.node(kind, inputs, FLOAT, dims, **attributes)
    if not keep and over and model.chance(0.5):
        whole = [(1, 1) if i in over else pair for i, pair in enumerate(x.dims)]
        result = model.node("Unsqueeze", [result, model.integers(over)], FLOAT, whole)
    return result


def matmul(model, x):
    if x.dtype != FLOAT or x.rank < 2 or not isinstance(x.dims[-1][0], int):
        return None
    inner, outer = x.dims[-1][0], model.pick([1, 3, 4])
    if model.chance(0.15):
        return model.node("MatMul", [x, model.weights(inner)], FLOAT, x.dims[:-1])
    result = model.node("MatMul", [x, model.weights(inner, outer)], FLOAT, x.dims[:-1] + [(outer, outer)])
    if model.chance(0.6) and result.rank >= 2:
        shape = model.pick([(outer,), (1,), (1, outer), (), (2, outer)])
        if shape != (2, outer) or result.dims[-2][0] in (1, 2):
            dims = result.dims[:-2] + [(2, 2), result.dims[-1]] if shape == (2, outer) else result.dims
            operands = [result, model.weights(*shape)]
            result = model.node("Add", operands[::model.pick([1, -1])], FLOAT, dims)
    return result


def gemm(model, x):
    if x.dtype != FLOAT or x.rank != 2:
        return None
    transposed = model.pick([0, 1])
    inner, outer = x.dims[1 - transposed][0], x.dims[transposed]
    if not isinstance(inner, int):
        return None
    other, width = model.pick([0, 1]), model.pick([1, 3, 4])
    operands = [x, model.weights(*((width, inner) if other else (inner, width)))]
    if model.chance(0.7):
        operands.append(model.weights(*model.pick([(width,), (1,), (), (1, width), (1, 1)])))
    attributes = {"alpha": model.pick([1.0, 0.5]), "beta": model.pick([1.0, 2.0, 0.0])}
    return model.node("Gemm", operands, FLOAT, [outer, (width, width)], transA=transposed, transB=other, **attributes)


def convolution(model, x):
    """Conv with what is fused into it: pads before, batch normalization, sums and products after."""
    if x.dtype != FLOAT or x.rank not in (3, 4) or not isinstance(x.dims[1][0], int) or x.dims[1][0] == 0:
        return None
    if min(x.extents[2:]) < 3:
        return None
    channels, spatial = x.dims[1][0], x.rank - 2
    out = model.pick([1, 2, 3])
    pads = [model.pick([0, 0, 1]) for _ in range(2 * spatial)]
    attributes = {"pads": pads} if model.chance(0.7) else {"auto_pad": model.pick(["VALID", "SAME_UPPER", "SAME_LOWER", "NOTSET"])}
    if model.chance(0.2):
        attributes["strides"] = [2] * spatial
    inputs = [x, model.weights(out, channels, *[2] * spatial)]
    inputs += [model.weights(out)] if model.chance(0.5) else []
    dims = [x.dims[0], (out, out)] + [(None, 4)] * spatial
    result = model.node("Conv", inputs, FLOAT, dims, **attributes)
    after = model.pick(["none", "bn", "scale", "scale"])
    if after == "bn":
        return normalized(model, result)
    if after == "scale":
        shape = model.pick([(1, out) + (1,) * spatial, (out,) + (1,) * spatial, (1,), (), (1,) * (spatial + 2), (1, 1) + (1,) * spatial])
        operands = [result, model.weights(*shape)]
        kind = model.pick(["Add", "Mul", "Add", "Sub", "Div"])
        return model.node(kind, operands[::model.pick([1, 1, -1])], FLOAT, dims)
    return result


def normalized(model, x):
    """Batch or instance normalization by constants."""
    if x.dtype != FLOAT or x.rank < 2 or not isinstance(x.dims[1][0], int) or x.dims[1][0] == 0:
        return None
    channels = x.dims[1][0]
    scale, bias, mean = (model.weights(channels) for _ in range(3))
    if x.rank >= 3 and model.chance(0.15):
        return model.node("InstanceNormalization", [x, scale, bias], FLOAT, x.dims, epsilon=0.25)
    variance = model.constant(numpy.full(channels, model.pick([0.75, 3.75, 0]), numpy.float32))
    return model.node("BatchNormalization", [x, scale, bias, mean, variance], FLOAT, x.dims, epsilon=0.25)


def layer_norm(model, x):
    if x.dtype != FLOAT or not x.rank or model.opset < 17 or not isinstance(x.dims[-1][0], int) or not x.dims[-1][0]:
        return None
    scale = model.weights(x.dims[-1][0])
    return model.node("LayerNormalization", [x, scale], FLOAT, x.dims, axis=-1, epsilon=0.25)


def pooled(model, x):
    if x.dtype != FLOAT or x.rank not in (3, 4) or min(x.extents[2:]) < 3:
        return None
    spatial = x.rank - 2
    dims = x.dims[:2] + [(None, 3)] * spatial
    kind = model.pick(["MaxPool", "AveragePool", "AveragePool"])
    attributes = {"count_include_pad": model.pick([0, 1])} if kind == "AveragePool" else {}
    pads = [model.pick([0, 1]) for _ in range(2 * spatial)]
    return model.node(kind, [x], FLOAT, dims, kernel_shape=[2] * spatial, pads=pads, ceil_mode=model.pick([0, 1]), **attributes)


def selected(model, x):
    """Where by a comparison, maybe negated, with a constant or the value itself."""
    if x.dtype != FLOAT:
        return None
    held = model.constant(numpy.float32(model.pick([0, 1, -0.5])))
    condition = model.node(model.pick(["Greater", "Less", "Equal"]), [x, held], BOOL, x.dims)
    if model.chance(0.5):
        condition = model.node("Not", [condition], BOOL, x.dims)
    other = model.constant(numpy.full(model.pick([(), (1,)]) if x.rank else (), model.pick([0, -2]), numpy.float32))
    branches = [x, other] if model.chance(0.5) else [other, x]
    return model.node("Where", [condition] + branches, FLOAT, x.dims)


def dropout(model, x):
    if x.dtype != FLOAT:
        return None
    inputs = [x, model.constant(numpy.float32(0.5))]
    inputs += [model.constant(False)] if model.chance(0.5) else []
    return model.node("Dropout", inputs, FLOAT, x.dims)


def largest(model, x):
    if x.dtype != FLOAT or not x.rank:
        return None
    at, axis = model.axis(x)
    if x.extents[at] < 1:
        return None
    dims = [(1, 1) if i == at else pair for i, pair in enumerate(x.dims)]
    values = model.node("TopK", [x, model.integers([1])], FLOAT, dims, outputs=2, axis=axis, largest=model.pick([0, 1]))
    model.values.remove(values[1])
    return values[0]


KINDS = {"unary": unary, "idempotent": idempotent, "binary": binary, "integer_parts": integer_parts, "clip": clip, "extremes": extremes,
         "cast": cast, "softmax": softmax, "order": order, "reduced": reduced, "matmul": matmul, "gemm": gemm, "convolution": convolution,
         "normalized": normalized, "layer_norm": layer_norm, "pooled": pooled, "selected": selected, "dropout": dropout, "largest": largest,
         **SHAPE_KINDS}
#: What optimizers rewrite after an operator.
NEXT = {"padded": ["convolution", "pooled", "padded"], "convolution": ["normalized", "binary", "unary"], "clip": ["clip", "unary", "extremes"],
        "extremes": ["clip", "extremes"], "transposed": ["matmul", "gemm", "transposed", "reduced", "order"], "reduced": ["unsqueezed", "squeezed"],
        "unary": ["clip", "order", "unary"], "unsqueezed": ["squeezed", "unsqueezed"], "squeezed": ["unsqueezed", "reshaped"],
        "sliced": ["sliced", "matmul", "joined"], "split": ["joined", "sliced"], "expanded": ["binary", "expanded"], "joined": ["joined", "sliced"],
        "softmax": ["order", "softmax"], "reshaped": ["reshaped", "transposed"], "gathered": ["gathered", "reshaped"]}


def next_kind(model, last):
    """Another operator: often the same again, or one that is fused with the last one."""
    if last is not None and model.chance(0.25):
        return last
    if last in NEXT and model.chance(0.4):
        return model.pick(NEXT[last])
    return model.pick(sorted(KINDS))

