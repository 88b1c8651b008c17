"""Shapes as values: expectations by hand and from NumPy."""

import numpy as np

from rxgen import ALL, DTYPES, INTS, OpFile, Shape, run, tensor, trap


def main():
    f = OpFile("shape_of", "The shape of a tensor.")
    for dtype in ALL:
        f.function(dtype, [("x", tensor(["n", 3], dtype))], "shape_of(x)",
                   [run(dtype, [np.zeros((n, 3), DTYPES[dtype])], Shape(n, 3)) for n in (2, 1, 0)],
                   returns='Shape(["n", 3])')
    f.function("scalar", [("x", tensor([], "f32"))], "shape_of(x)", [run("scalar", [np.float32(1)], Shape())])
    f.function("unknown_rank", [("x", "Tensor()")], "shape_of(x)", [run("unknown_rank", [np.ones((2, 5), np.int8)], Shape(2, 5))])
    f.refused("no_tensor", [("s", 'Shape(["n"])')], "shape_of(s)", "RX0502")
    f.write()

    f = OpFile("size", "The number of elements.")
    for dtype in ALL:
        f.function(dtype, [("x", tensor(["n", 3], dtype))], "size(x)",
                   [run(dtype, [np.zeros((n, 3), DTYPES[dtype])], np.int64(n * 3)) for n in (5, 1, 0)],
                   returns=tensor([], "i64"))
    f.function("scalar", [("x", tensor([], "f32"))], "size(x)", [run("scalar", [np.float32(1)], np.int64(1))])
    f.function("reads_nothing", [], 'size(empty((2, 2), "f32"))', [run("reads_nothing", [], np.int64(4))])
    f.refused("no_tensor", [("s", 'Shape(["n"])')], "size(s)", "RX0502")
    f.write()

    f = OpFile("shape_to_tensor", "The dims of a shape as a tensor.")
    f.function("known", [("s", 'Shape(["n", "m"])')], "shape_to_tensor(s)",
               [run("known", [Shape(n, m)], np.array([n, m])) for n, m in [(2, 3), (0, 2**40)]],
               returns=tensor([2], "i64"))
    f.function("rank", [("s", "Shape(ndim=3)")], "shape_to_tensor(s)", [run("rank", [Shape(1, 2, 3)], np.array([1, 2, 3]))],
               returns=tensor([3], "i64"))
    f.function("unknown", [("s", "Shape()")], "shape_to_tensor(s)",
               [run("unknown", [Shape(7)], np.array([7])), run("unknown", [Shape()], np.zeros(0, np.int64))])
    f.function("expression", [("s", 'Shape(["n"])')], "shape_to_tensor(shape(n * 2, n + 1))",
               [run("expression", [Shape(5)], np.array([10, 6]))])
    f.refused("no_shape", [("x", tensor(["n"], "i64"))], "shape_to_tensor(x)", "RX0502")
    f.write()

    f = OpFile("tensor_to_shape", "The elements of a vector as a shape.")
    for dtype in INTS:
        f.function(dtype, [("x", tensor([2], dtype))], "tensor_to_shape(x)",
                   [run(dtype, [np.array([3, 0], DTYPES[dtype])], Shape(3, 0))], returns="Shape(ndim=2)")
    f.function("below_zero", [("x", tensor(["n"], "i8"))], "tensor_to_shape(x)",
               [trap("tensor_to_shape/C3", "below_zero", [np.array([3, -1], np.int8)]),
                run("below_zero", [np.zeros(0, np.int8)], Shape())])
    f.function("beyond_i64", [("x", tensor(["n"], "u64"))], "tensor_to_shape(x)",
               [trap("tensor_to_shape/C3", "beyond_i64", [np.array([2**63], np.uint64)]),
                run("beyond_i64", [np.array([2**63 - 1], np.uint64)], Shape(2**63 - 1))])
    f.function("there_and_back", [("s", 'Shape(["n", "m"])')], "tensor_to_shape(shape_to_tensor(s))",
               [run("there_and_back", [Shape(4, 2)], Shape(4, 2))])
    f.function("rank_unknown", [("x", 'Tensor(dtype="i64")')], "tensor_to_shape(x)",
               [trap("tensor_to_shape/C1", "rank_unknown", [np.ones((1, 1), np.int64)])])
    f.refused("matrix", [("x", tensor([2, 2], "i64"))], "tensor_to_shape(x)", "RX0501")
    f.refused("floats", [("x", tensor([2], "f32"))], "tensor_to_shape(x)", "RX0501")
    f.refused("bools", [("x", tensor([2], "bool"))], "tensor_to_shape(x)", "RX0501")
    f.refused("too_many", [("x", tensor([65537], "i64"))], "tensor_to_shape(x)", "RX0501")
    f.write()


if __name__ == "__main__":
    main()
