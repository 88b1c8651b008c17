"""The products of such a model by onnxruntime's 4-bit operator, and nothing else of it: a bound on how fast it could run the model.

usage: python products.py ROWS THREADS

Needs onnx, onnxruntime and numpy from PyPI. `MatMulNBits` with blocks of 32 and activations of 8 bits (`accuracy_level` 4), random weights, the sizes of
make_model.py in the order in which the model has them. Prints tokens a second, the median of 12 runs, of 3 for many rows.
"""

import sys
import time
from statistics import median

import numpy as np
import onnx
import onnxruntime
from make_model import HEAD, INNER, KEY_HEADS, VOCABULARY, WIDTH
from onnx import TensorProto, helper

LAYERS = 22
BLOCK = 32


class Graph:
    def __init__(self):
        self.nodes, self.weights, self.dice = [], [], np.random.default_rng(1)

    def product(self, x, columns, terms):
        """The name of what it gives."""
        name = f"y{len(self.nodes)}"
        quantized = self.dice.integers(0, 256, (columns, terms // BLOCK, BLOCK // 2), dtype=np.uint8)
        scales = np.full(columns * terms // BLOCK, 0.2 / np.sqrt(terms), np.float32)
        self.weights += [onnx.numpy_helper.from_array(quantized, f"{name}.b"), onnx.numpy_helper.from_array(scales, f"{name}.s")]
        sizes = {"K": terms, "N": columns, "bits": 4, "block_size": BLOCK, "accuracy_level": 4}
        self.nodes.append(helper.make_node("MatMulNBits", [x, f"{name}.b", f"{name}.s"], [name], domain="com.microsoft", **sizes))
        return name


def model():
    graph, x = Graph(), "x"
    outputs = []
    for _ in range(LAYERS):
        outputs += [graph.product(x, KEY_HEADS * HEAD, WIDTH) for _ in range(2)]
        x = graph.product(graph.product(x, WIDTH, WIDTH), WIDTH, WIDTH)
        outputs.append(graph.product(x, INNER, WIDTH))
        x = graph.product(graph.product(x, INNER, WIDTH), WIDTH, INNER)
    # Of the last row, as language models need it.
    graph.nodes.append(helper.make_node("Slice", [x, "from", "to", "axis"], ["last"]))
    graph.weights += [onnx.numpy_helper.from_array(np.array([value]), name) for name, value in [("from", -1), ("to", 2**31), ("axis", 0)]]
    outputs.append(graph.product("last", VOCABULARY, WIDTH))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTH])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph(graph.nodes, "products", [given], values, graph.weights), opset_imports=opsets, ir_version=8)


def main():
    rows, threads = map(int, sys.argv[1:])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model().SerializeToString(), options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(2).standard_normal((rows, WIDTH), dtype=np.float32)
    times = []
    for _ in range(14 if rows <= 128 else 5):
        start = time.perf_counter()
        session.run(None, {"x": x})
        times.append(time.perf_counter() - start)
    print(rows / median(times[2:]))


if __name__ == "__main__":
    main()
