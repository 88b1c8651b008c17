"""Generated ONNX models: a seed gives a chain of nodes with symbolic dims, biased to the neighbours that optimizers fuse.

Every dim is a pair of a text (a symbol, a number, or None where only the run knows it) and its extent at the dims in `BASE`, by which
operators are chosen so that a model is valid there.
"""

import random

import numpy
from onnx import TensorProto, helper, numpy_helper

BASE = {"n": 2, "m": 4, "k": 3, "h": 5, "w": 6}
FLOAT, INT64, INT32, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL
NUMPY = {FLOAT: numpy.float32, INT64: numpy.int64, INT32: numpy.int32, BOOL: numpy.bool_,
         TensorProto.DOUBLE: numpy.float64, TensorProto.FLOAT16: numpy.float16,
         TensorProto.INT8: numpy.int8, TensorProto.UINT8: numpy.uint8}
SHAPES = [["n", 4], ["n", "m"], [2, "n", "m"], ["n", 3, "m"], ["n", 3, 4], ["n", 2, 5, "m"], ["n", 2, 6, 6], ["n", 1, 4], [1, "n"],
          ["n"], [3, 4], [0, "n"], ["n", 1, "m", 1]]
#: Seeds from this one on are of images, and begin with what is fused into a convolution or a pool.
IMAGES = 2000
IMAGE_SHAPES = [["n", 2, "h", "w"], ["n", 1, 6, 5], ["n", 3, "h"], [1, 2, 6, "w"]]


def dim(text):
    return (text, BASE.get(text, text))


class Value:
    """A value of the graph: its name, dtype and dims."""

    def __init__(self, name, dtype, dims):
        self.name, self.dtype, self.dims = name, dtype, list(dims)

    @property
    def rank(self):
        return len(self.dims)

    @property
    def extents(self):
        return [extent for _, extent in self.dims]


class Model:
    """A model in the making, and the choices of its seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.opset = self.random.choice([13, 14, 16, 17, 18, 19, 20, 21])
        self.nodes, self.initializers, self.inputs = [], [], []
        self.values, self.counter, self.last = [], 0, None
        self.constant_nodes = self.random.random() < 0.3

    def name(self, stem="v"):
        self.counter += 1
        return f"{stem}{self.counter}"

    def input(self, dtype, shape):
        value = Value(self.name("x"), dtype, [dim(text) for text in shape])
        self.inputs.append(helper.make_tensor_value_info(value.name, dtype, shape))
        self.values.append(value)
        return value

    def constant(self, array, dtype=None):
        """The name of an initializer or of a Constant node."""
        array = numpy.asarray(array, dtype)
        name = self.name("c")
        tensor = numpy_helper.from_array(array, name)
        if self.constant_nodes:
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.initializers.append(tensor)
        return name

    def integers(self, values):
        return self.constant(numpy.array(values, numpy.int64))

    def weights(self, *shape):
        """Multiples of a quarter, so that few sums round."""
        count = int(numpy.prod(shape))
        drawn = [self.random.choice([-1.5, -1, -0.5, -0.25, 0.25, 0.5, 1, 2]) for _ in range(count)]
        return self.constant(numpy.array(drawn, numpy.float32).reshape(shape))

    def node(self, kind, inputs, dtype, dims, domain="", outputs=1, **attributes):
        """Adds a node; its only result, or the first of several of the same dims."""
        names = [value.name if isinstance(value, Value) else value for value in inputs]
        made = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, names, made, domain=domain, **attributes))
        results = [Value(name, dtype, dims) for name in made]
        self.values += results
        return results[0] if outputs == 1 else results

    def axis(self, value, extra=0):
        """An axis, as a number and as it is written, maybe negative."""
        rank = value.rank + extra
        axis = self.random.randrange(rank)
        return axis, axis - rank if self.random.random() < 0.4 else axis

    def chance(self, share):
        return self.random.random() < share

    def pick(self, items):
        return self.random.choice(list(items))

    def proto(self):
        """The model, with the last value and now and then another one as outputs."""
        results = [self.last]
        inner = [value for value in self.values if value.name != self.last.name]
        if inner and self.chance(0.25):
            results.append(self.pick(inner))
        outputs = [helper.make_tensor_value_info(v.name, v.dtype, [self.named(d) for d in v.dims]) for v in results]
        graph = helper.make_graph(self.nodes, "generated", self.inputs, outputs, self.initializers)
        ir_version = {13: 7, 14: 7, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10}[self.opset]
        imports = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, ir_version=ir_version, opset_imports=imports, producer_name="relax")

    def named(self, pair):
        return self.name("unknown_") if pair[0] is None else pair[0]


def generated(seed):
    """The model of a seed; None where the chain found no operator."""
    import operators

    model = Model(seed)
    dtype = FLOAT if seed >= IMAGES or model.chance(0.85) else model.pick([INT64, INT32])
    model.last = model.input(dtype, model.pick(IMAGE_SHAPES if seed >= IMAGES else SHAPES))
    kind = model.pick(["padded", "convolution", "transposed", "sliced"]) if seed >= IMAGES else None
    for _ in range(model.random.randint(2, 7)):
        for _ in range(20):
            kind_tried = operators.next_kind(model, kind)
            operand = model.last if model.chance(0.9) else model.pick(model.values)
            result = operators.KINDS[kind_tried](model, operand)
            if result is not None:
                model.last, kind = result, kind_tried
                break
        else:
            break
    return model.proto() if model.nodes and model.last.name.startswith("v") else None
