"""Writes tiny.onnx, the example of docs/ONNX.md, into this folder: embeddings of tokens and positions, a matrix product,
softmax. It is kept in corpus/models/. Needs the package onnx."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

random = np.random.default_rng(0)
nodes = [
    helper.make_node("Gather", ["emb", "ids"], ["tokens"], name="/embed"),
    helper.make_node("Shape", ["ids"], ["ids_shape"]),
    helper.make_node("Gather", ["ids_shape", "one"], ["length"]),
    helper.make_node("Range", ["zero", "length", "one"], ["positions"]),
    helper.make_node("Gather", ["pos", "positions"], ["places"]),
    helper.make_node("Add", ["tokens", "places"], ["x"]),
    helper.make_node("MatMul", ["x", "w"], ["scores"]),
    helper.make_node("Softmax", ["scores"], ["probabilities"], axis=-1),
]
initializers = [
    numpy_helper.from_array(random.standard_normal((10, 4)).astype("f"), "emb"),
    numpy_helper.from_array(random.standard_normal((32, 4)).astype("f"), "pos"),
    numpy_helper.from_array(np.round(random.standard_normal((4, 4)), 1).astype("f"), "w"),
    numpy_helper.from_array(np.array(1, dtype="i8"), "one"),
    numpy_helper.from_array(np.array(0, dtype="i8"), "zero"),
]
graph = helper.make_graph(
    nodes,
    "tiny",
    [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "seq"])],
    [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", "seq", 4])],
    initializers,
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
model.ir_version = 8
save(model, "tiny.onnx")
