"""The words that workloads are written in, of NumPy (and JAX, which has its functions), of PyTorch and of ONNX.

Shapes are (rows, columns), or (heads, rows, columns) between `heads` and `rows`.
"""

import math

from workloads import HEAD

EPSILON = 1e-5


class Indexed:
    """What all that index as Python does have alike."""

    def columns(self, x, start, end):
        return x[..., start:end]

    def layer(self, x, index):
        return x[index]

    def last_row(self, x):
        return x[-1:]


class Numeric(Indexed):
    """NumPy, or what has its functions, with an error function."""

    def __init__(self, np, erf):
        self.np, self.erf = np, erf
        self.exp, self.tanh, self.stack, self.join = np.exp, np.tanh, np.stack, np.concatenate

    def relu(self, x):
        return self.np.maximum(x, 0)

    def softmax(self, x):
        e = self.np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def layer_norm(self, x, g, b):
        centered = x - x.mean(-1, keepdims=True)
        return self.rms_norm(centered, g) + b

    def rms_norm(self, x, g):
        return x / self.np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * g

    def gelu(self, x):
        return x * 0.5 * (1 + self.erf(x * math.sqrt(0.5)))

    def silu(self, x):
        return x / (1 + self.np.exp(-x))

    def linear(self, x, w, b=None):
        return x @ w if b is None else x @ w + b

    def conv(self, x, w, b):
        n, _, height, width = x.shape
        side = w.shape[2] // 2
        padded = self.np.pad(x, ((0, 0), (0, 0), (side, side), (side, side)))
        y = b[:, None]
        for i in range(w.shape[2]):
            for j in range(w.shape[3]):
                y = y + w[:, :, i, j] @ padded[:, :, i:i + height, j:j + width].reshape(n, -1, height * width)
        return y.reshape(n, -1, height, width)

    def heads(self, x, count):
        return x.reshape(-1, count, HEAD).transpose(1, 0, 2)

    def rows(self, x):
        return x.transpose(1, 0, 2).reshape(-1, x.shape[0] * HEAD)

    def attend(self, q, k, t, causal):
        scores = q @ k.swapaxes(1, 2) * HEAD**-0.5
        if causal:
            scores = self.np.where(self.np.tri(scores.shape[1], dtype=bool), scores, -1e9)
        return self.softmax(scores) @ t


class Jax(Numeric):
    """JAX, with its own convolution."""

    def __init__(self, jax):
        super().__init__(jax.numpy, jax.scipy.special.erf)
        self.lax = jax.lax

    def conv(self, x, w, b):
        return self.lax.conv_general_dilated(x, w, (1, 1), "SAME") + b[:, None, None]


class Torch(Indexed):
    """PyTorch; weights of `linear` lie as those of its layers do, transposed."""

    def __init__(self, torch):
        self.torch, self.of = torch, torch.nn.functional
        self.exp, self.tanh, self.relu, self.stack = torch.exp, torch.tanh, torch.relu, torch.stack
        self.join, self.silu, self.gelu, self.linear = torch.cat, self.of.silu, self.of.gelu, self.of.linear

    def softmax(self, x):
        return self.torch.softmax(x, -1)

    def layer_norm(self, x, g, b):
        return self.of.layer_norm(x, x.shape[-1:], g, b, EPSILON)

    def rms_norm(self, x, g):
        return self.of.rms_norm(x, x.shape[-1:], g, EPSILON)

    def conv(self, x, w, b):
        return self.of.conv2d(x, w, b, padding=w.shape[2] // 2)

    def heads(self, x, count):
        return x.reshape(-1, count, HEAD).transpose(0, 1)

    def rows(self, x):
        return x.transpose(0, 1).reshape(-1, x.shape[0] * HEAD)

    def attend(self, q, k, t, causal):
        return self.of.scaled_dot_product_attention(q[None], k[None], t[None], is_causal=causal)[0]


class Edge:
    """A value of a graph of ONNX."""

    def __init__(self, graph, name):
        self.graph, self.name = graph, name

    def with_other(self, kind, other):
        return self.graph.node(kind, self, other if isinstance(other, Edge) else self.graph.constant(other))

    def __add__(self, other):
        return self.with_other("Add", other)

    def __sub__(self, other):
        return self.with_other("Sub", other)

    def __mul__(self, other):
        return self.with_other("Mul", other)

    def __matmul__(self, other):
        return self.with_other("MatMul", other)


class Graph:
    """A graph as an exporter writes it, operator set 20."""

    def __init__(self, onnx, np):
        self.onnx, self.np, self.nodes, self.constants = onnx, np, [], {}

    def constant(self, value, name=None):
        array = self.np.asarray(value, None if name else self.np.float32 if isinstance(value, float) else self.np.int64)
        name = name or f"c{array.dtype}_{value}".replace(" ", "")
        self.constants[name] = self.onnx.numpy_helper.from_array(array, name)
        return Edge(self, name)

    def node(self, kind, *inputs, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, [edge.name for edge in inputs], [name], **attributes))
        return Edge(self, name)

    def exp(self, x):
        return self.node("Exp", x)

    def tanh(self, x):
        return self.node("Tanh", x)

    def relu(self, x):
        return self.node("Relu", x)

    def gelu(self, x):
        return self.node("Gelu", x)

    def silu(self, x):
        return x * self.node("Sigmoid", x)

    def softmax(self, x):
        return self.node("Softmax", x, axis=-1)

    def layer_norm(self, x, g, b):
        return self.node("LayerNormalization", x, g, b, axis=-1, epsilon=EPSILON)

    def rms_norm(self, x, g):
        square = self.node("ReduceMean", x * x, self.constant([-1]), keepdims=1)
        return self.node("Div", x, self.node("Sqrt", square + EPSILON)) * g

    def linear(self, x, w, b=None):
        return x @ w if b is None else x @ w + b

    def conv(self, x, w, b):
        size = self.constants[w.name].dims[2]
        return self.node("Conv", x, w, b, kernel_shape=[size, size], pads=[size // 2] * 4)

    def heads(self, x, count):
        return self.node("Transpose", self.node("Reshape", x, self.constant([-1, count, HEAD])), perm=[1, 0, 2])

    def rows(self, x):
        # Zero keeps the extent, and the rest is one extent.
        return self.node("Reshape", self.node("Transpose", x, perm=[1, 0, 2]), self.constant([0, -1]))

    def columns(self, x, start, end):
        return self.node("Slice", x, self.constant([start]), self.constant([end]), self.constant([-1]))

    def join(self, values, axis):
        return self.node("Concat", *values, axis=axis)

    def layer(self, x, index):
        return self.node("Gather", x, self.constant(index), axis=0)

    def stack(self, values):
        return self.join([self.node("Unsqueeze", x, self.constant([0])) for x in values], 0)

    def last_row(self, x):
        return self.node("Slice", x, self.constant([-1]), self.constant([2**31 - 1]), self.constant([0]))

    def attend(self, q, k, t, causal):
        scores = q @ self.node("Transpose", k, perm=[0, 2, 1]) * HEAD**-0.5
        if causal:
            rows = self.node("Squeeze", self.node("Shape", q, start=1, end=2))
            each = self.node("Range", self.constant(0), rows, self.constant(1))
            across, down = (self.node("Unsqueeze", each, self.constant([axis])) for axis in (0, 1))
            scores = self.node("Where", self.node("LessOrEqual", across, down), scores, self.constant(-1e9))
        return self.softmax(scores) @ t

    def write(self, inputs, results, path):
        helper, f32 = self.onnx.helper, self.onnx.TensorProto.FLOAT
        names = [f"y{i}" for i in range(len(results))]
        for edge, name in zip(results, names):
            self.nodes.append(helper.make_node("Identity", [edge.name], [name]))
        graph = helper.make_graph(
            self.nodes, "main", [helper.make_tensor_value_info(name, f32, shape) for name, shape in inputs.items()],
            [helper.make_tensor_value_info(name, f32, None) for name in names], list(self.constants.values()),
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        self.onnx.save(self.onnx.shape_inference.infer_shapes(model), path)


def write_onnx(onnx, np, workload, path):
    """The workload as a file of ONNX."""
    graph = Graph(onnx, np)
    weights = {name: graph.constant(value, name) for name, value in workload.values_of_weights(np).items()}
    results = workload.build(graph, {name: Edge(graph, name) for name in workload.inputs}, weights)
    graph.write(workload.inputs, results, path)
