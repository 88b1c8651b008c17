"""Movement of elements: expectations from NumPy."""

import numpy as np

from rxgen import ALL, DTYPES, FLOATS, INTS, OpFile, Shape, run, sample, tensor, trap

NM = lambda dtype="f32": [("x", tensor(["n", "m"], dtype))]
D = lambda dtype="f32": [("data", tensor(["n", "m"], dtype))]
ANY = [("x", 'Tensor(dtype="f32")')]
X23 = np.arange(6, dtype=np.float32).reshape(2, 3)
X234 = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
P234 = [("x", tensor(["a", "b", "c"], "i32"))]
SIZES = [(2, 3), (1, 1), (0, 3), (5, 1)]


def each_dtype(f, params, body, numpy, sizes=SIZES, returns=None):
    """One function a dtype, with NumPy's result at every size."""
    for dtype in ALL:
        f.function(dtype, params(dtype), body,
                   [run(dtype, [x], numpy(x)) for s in sizes for x in [sample(dtype, s)]],
                   returns=returns and tensor(returns, dtype))


def undefined(f, params, body):
    """Moving what nothing has written is no read; reading it afterwards is one."""
    f.function("undefined_moves", params, body + ["return shape_of(y)"],
               [run("undefined_moves", [Shape(2, 3)], Shape(*UNDEFINED[f.op]))])
    f.function("undefined_is_not_read_later", params, body + ["return negative(y)"],
               [trap("undefined/read", "undefined_is_not_read_later", [Shape(2, 3)])])


UNDEFINED = {
    "broadcast_to": (4, 2, 3), "concat": (4, 3), "expand_dims": (2, 1, 3), "flatten": (6,), "flip": (2, 3),
    "permute_dims": (3, 2), "repeat": (4, 3), "reshape": (3, 2), "reverse_sequence": (2, 3), "split": (1, 3),
    "squeeze": (2, 3), "stack": (2, 2, 3), "tile": (2, 6),
}


def moves_undefined(f, expression):
    undefined(f, [("s", 'Shape(["n", "m"])')], ['e = empty((n, m), "f32")', f"y = {expression}"])


def views():
    f = OpFile("flatten", "The elements as a vector.")
    each_dtype(f, NM, "flatten(x)", np.ravel, returns=["n * m"])
    f.function("scalar", [("x", tensor([], "f32"))], "flatten(x)", [run("scalar", [np.float32(3)], np.array([3], np.float32))])
    f.function("three", P234, "flatten(x)", [run("three", [X234], X234.ravel())], returns=tensor(["a * b * c"], "i32"))
    f.function("unknown_rank", ANY, "flatten(x)", [run("unknown_rank", [X23], X23.ravel())], returns='Tensor(ndim=1, dtype="f32")')
    moves_undefined(f, "flatten(e)")
    f.refused("no_tensor", [("s", 'Shape(["n"])')], "flatten(s)", "RX0502")
    f.refused("too_many_elements", [("x", tensor([2**40, 2**40], "i8"))], "flatten(x)", "RX0501")
    f.write()

    f = OpFile("expand_dims", "New dims of 1.")
    each_dtype(f, NM, "expand_dims(x, 1)", lambda x: np.expand_dims(x, 1), returns=["n", 1, "m"])
    for name, axis in {"several": (0, -1), "unsorted": (3, 0), "last": -1, "first": -3, "none": ()}.items():
        f.function(name, NM(), f"expand_dims(x, axis={list(axis) if isinstance(axis, tuple) else axis})",
                   [run(name, [X23], np.expand_dims(X23, axis))])
    f.function("rank_unknown", ANY, "expand_dims(x, -3)",
               [run("rank_unknown", [X23], X23[None]), trap("expand_dims/C1", "rank_unknown", [X23[0]])])
    moves_undefined(f, "expand_dims(e, 1)")
    f.refused("out_of_range", NM(), "expand_dims(x, 3)", "RX0501")
    f.refused("twice", NM(), "expand_dims(x, [1, -3])", "RX0501")
    f.refused("far_out_of_range", NM(), "expand_dims(x, -9223372036854775807)", "RX0501")
    f.write()

    f = OpFile("squeeze", "Dims of 1 left out.")
    each_dtype(f, lambda d: [("x", tensor(["n", 1, "m"], d))], "squeeze(x, 1)", lambda x: x[:, 0],
               sizes=[(2, 1, 3), (1, 1, 1), (0, 1, 2)], returns=["n", "m"])
    one = X23.reshape(1, 2, 1, 3)
    for name, axis in {"several": [0, 2], "from_the_end": [-2], "none": []}.items():
        f.function(name, [("x", tensor([1, "n", 1, "m"], "f32"))], f"squeeze(x, axis={axis})",
                   [run(name, [one], np.squeeze(one, tuple(axis)))])
    f.function("every_one", [("x", tensor([1, 2, 1, 3], "f32"))], "squeeze(x)", [run("every_one", [one], X23)], returns=tensor([2, 3], "f32"))
    f.function("all_symbolic", NM(), "squeeze(x)",
               [run("all_symbolic", [x], np.squeeze(x)) for x in (X23, X23[:1], X23[:1, :1], X23[:0])], returns='Tensor(dtype="f32")')
    f.function("symbolic_dim", NM(), "squeeze(x, 0)",
               [run("symbolic_dim", [X23[:1]], X23[0]), trap("squeeze/C2", "symbolic_dim", [X23]), trap("squeeze/C2", "symbolic_dim", [X23[:0]])],
               returns=tensor(["m"], "f32"))
    moves_undefined(f, "squeeze(expand_dims(e, 0), 0)")
    f.refused("not_1", [("x", tensor([1, 2], "f32"))], "squeeze(x, 1)", "RX0501")
    f.refused("out_of_range", NM(), "squeeze(x, 2)", "RX0501")
    f.refused("twice", [("x", tensor([1, 1], "f32"))], "squeeze(x, [0, -2])", "RX0501")
    f.write()
    reshape()


def reshape():
    f = OpFile("reshape", "The same elements in another shape.")
    each_dtype(f, NM, "reshape(x, (m, n))", lambda x: x.reshape(x.shape[::-1]), returns=["m", "n"])
    f.function("flat", NM(), "reshape(x, (n * m,))", [run("flat", [X23], X23.ravel())], returns=tensor(["n * m"], "f32"))
    f.function("minus_one", [("x", tensor(["n", 4], "i32"))], "reshape(x, (-1, 2))",
               [run("minus_one", [x], x.reshape(-1, 2)) for x in [np.arange(12, dtype=np.int32).reshape(3, 4), np.zeros((0, 4), np.int32)]],
               returns=tensor(["n * 2", 2], "i32"))
    f.function("heads", [("x", tensor(["b", "s", 12], "i32"))], "reshape(x, (b, s, 3, -1))",
               [run("heads", [x], x.reshape(2, 1, 3, 4)) for x in [np.arange(24, dtype=np.int32).reshape(2, 1, 12)]],
               returns=tensor(["b", "s", 3, 4], "i32"))
    f.function("only_minus_one", NM(), "reshape(x, (-1,))", [run("only_minus_one", [x], x.ravel()) for x in (X23, X23[:0])],
               returns=tensor(["n * m"], "f32"))
    f.function("undetermined", NM(), "reshape(x, (n, -1))",
               [run("undetermined", [X23], X23), trap("reshape/C3", "undetermined", [X23[:0]])], returns=tensor(["n", "m"], "f32"))
    f.function("divides", NM(), "reshape(x, (-1, 4))",
               [run("divides", [x], x.reshape(-1, 4)) for x in [np.arange(12, dtype=np.float32).reshape(2, 6)]]
               + [trap("reshape/C3", "divides", [X23])])
    f.function("to_a_shape_value", NM() + [("s", "Shape(ndim=2)")], "reshape(x, s)",
               [run("to_a_shape_value", [X23, Shape(3, 2)], X23.reshape(3, 2)), trap("reshape/C2", "to_a_shape_value", [X23, Shape(2, 2)])],
               returns='Tensor(ndim=2, dtype="f32")')
    f.function("to_scalar", NM(), "reshape(x, ())", [run("to_scalar", [X23[:1, 2:]], np.float32(2)), trap("reshape/C2", "to_scalar", [X23])])
    f.function("from_scalar", [("x", tensor([], "f32"))], "reshape(x, (1, 1))", [run("from_scalar", [np.float32(2)], np.full((1, 1), 2, np.float32))])
    f.function("zero_is_zero", [("x", tensor([0, 4], "f32"))], "reshape(x, (4, 0))",
               [run("zero_is_zero", [np.zeros((0, 4), np.float32)], np.zeros((4, 0), np.float32))])
    f.function("undecided", NM() + [("s", 'Shape(["k"])')], "reshape(x, (k, 2))",
               [run("undecided", [X23, Shape(3)], X23.reshape(3, 2)), trap("reshape/C2", "undecided", [X23, Shape(2)])],
               returns=tensor(["k", 2], "f32"))
    f.function("never_negative", [("x", tensor([0], "f32"))] + [("s", 'Shape(["k"])')], "reshape(x, (0, k - 3))",
               [trap("reshape/C1", "never_negative", [np.zeros(0, np.float32), Shape(1)])])
    # A computed -1 is no literal -1: it is refused, not inferred.
    f.function("computed_minus_one", [("x", tensor([6], "f32"))] + [("s", 'Shape(["k"])')], "reshape(x, (2, k - 3))",
               [trap("reshape/C1", "computed_minus_one", [np.zeros(6, np.float32), Shape(2)]),
                run("computed_minus_one", [np.zeros(6, np.float32), Shape(6)], np.zeros((2, 3), np.float32))])
    moves_undefined(f, "reshape(e, (m, n))")
    f.refused("another_size", [("x", tensor([2, 3], "f32"))], "reshape(x, (4, 2))", "RX0501")
    f.refused("another_size_symbolic", NM(), "reshape(x, (n * m + 1,))", "RX0501")
    f.refused("two_minus_ones", NM(), "reshape(x, (-1, -1))", "RX0501")
    f.refused("below_zero", NM(), "reshape(x, (-2, n))", "RX0501")
    f.refused("indivisible", [("x", tensor([2, 3], "f32"))], "reshape(x, (-1, 4))", "RX0501")
    f.refused("no_shape", NM(), "reshape(x, x)", "RX0502")
    f.refused("no_dims", NM(), "reshape(x, (2.0, 3))", "RX0502")
    f.write()


def orders():
    f = OpFile("permute_dims", "Dims in another order.")
    each_dtype(f, NM, "permute_dims(x)", np.transpose, returns=["m", "n"])
    names = "abc"
    for axes in [(0, 1, 2), (0, 2, 1), (2, 0, 1), (1, 2, 0), (-1, 0, -2)]:
        name = "axes_" + "_".join(str(a).replace("-", "m") for a in axes)
        f.function(name, P234, f"permute_dims(x, {list(axes)})", [run(name, [X234], np.transpose(X234, axes))],
                   returns=tensor([names[a] for a in axes], "i32"))
    f.function("paper_name", NM(), "transpose(x, axes=(1, 0))", [run("paper_name", [X23], X23.T)])
    f.function("scalar", [("x", tensor([], "f32"))], "permute_dims(x)", [run("scalar", [np.float32(1)], np.float32(1))])
    f.function("rank_unknown", ANY, "permute_dims(x, [1, 0])",
               [run("rank_unknown", [X23], X23.T), trap("permute_dims/C1", "rank_unknown", [X23[0]])], returns='Tensor(ndim=2, dtype="f32")')
    moves_undefined(f, "permute_dims(e)")
    f.refused("too_few", NM(), "permute_dims(x, [0])", "RX0501")
    f.refused("twice", NM(), "permute_dims(x, [0, 0])", "RX0501")
    f.refused("out_of_range", NM(), "permute_dims(x, [0, 2])", "RX0501")
    f.write()

    f = OpFile("flip", "Elements along an axis in reverse.")
    each_dtype(f, D, "flip(data, 0)", lambda x: np.flip(x, 0), returns=["n", "m"])
    for axis in (1, -1, -2):
        name = f"axis_{axis}".replace("-", "minus_")
        f.function(name, D(), f"flip(data, axis={axis})", [run(name, [X23], np.flip(X23, axis))])
    f.function("middle", P234, "flip(x, 1)", [run("middle", [X234], np.flip(X234, 1))])
    moves_undefined(f, "flip(e, 0)")
    f.refused("out_of_range", D(), "flip(data, 2)", "RX0501")
    f.refused("scalar", [("x", tensor([], "f32"))], "flip(x, 0)", "RX0501")
    f.refused("axis_is_missing", D(), "flip(data)", "RX0503")
    f.write()

    f = OpFile("reverse_sequence", "The first elements of each sequence in reverse.")
    params = lambda d, t="i32": [("data", tensor(["b", "s"], d)), ("k", tensor(["b"], t))]

    def reversed_rows(x, lengths):
        return np.stack([np.concatenate([row[:k][::-1], row[k:]]) for row, k in zip(x, lengths)])

    for dtype in ALL:
        x = sample(dtype, (3, 5))
        k = np.array([4, 0, 5], np.int32)
        f.function(dtype, params(dtype), "reverse_sequence(data, k)",
                   [run(dtype, [x, k], reversed_rows(x, k)), run(dtype, [x[:0], k[:0]], x[:0]), run(dtype, [x[:, :0], k], x[:, :0])])
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    for dtype in INTS:
        k = np.array([3, 1, 2], DTYPES[dtype])
        name = f"lengths_{dtype}"
        f.function(name, params("f32", dtype), "reverse_sequence(data, k)", [run(name, [x, k], reversed_rows(x, k))])
    k = np.array([-3, 9, 1])
    f.function("clamped", params("f32", "i64"), "reverse_sequence(data, k)", [run("clamped", [x, k], reversed_rows(x, [0, 5, 1]))])
    y = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    want = np.moveaxis(np.stack([reversed_rows(y[:, 0, :].T, [2, 4, 3]), reversed_rows(y[:, 1, :].T, [2, 4, 3])]), (0, 1, 2), (1, 2, 0))
    f.function("other_axes", [("data", tensor(["s", "c", "b"], "f32")), ("k", tensor(["b"], "i64"))],
               "reverse_sequence(data, k, seq_axis=0, batch_axis=-1)", [run("other_axes", [y, np.array([2, 4, 3])], want)])
    f.function("lengths_may_differ", [("data", tensor(["b", "s"], "f32")), ("k", tensor(["n"], "i64"))], "reverse_sequence(data, k)",
               [trap("reverse_sequence/C3", "lengths_may_differ", [x, np.array([1, 2])])])
    moves_undefined(f, 'reverse_sequence(e, full((n,), const(2, "i64")))')
    f.refused("same_axes", params("f32"), "reverse_sequence(data, k, 0, 0)", "RX0501")
    f.refused("out_of_range", params("f32"), "reverse_sequence(data, k, seq_axis=2)", "RX0501")
    f.refused("float_lengths", params("f32", "f32"), "reverse_sequence(data, k)", "RX0501")
    f.refused("matrix_of_lengths", [("data", tensor([2, 3], "f32")), ("k", tensor([2, 1], "i32"))], "reverse_sequence(data, k)", "RX0501")
    f.refused("lengths_differ", [("data", tensor([2, 3], "f32")), ("k", tensor([3], "i32"))], "reverse_sequence(data, k)", "RX0501")
    f.write()


def joins():
    two = lambda d: [("a", tensor(["n", 3], d)), ("b", tensor(["m", 3], d))]
    f = OpFile("concat", "Tensors one after the other.")
    for dtype in ALL:
        cases = [(sample(dtype, (n, 3)), sample(dtype, (m, 3), seed=1)) for n, m in [(2, 1), (1, 0), (0, 0)]]
        f.function(dtype, two(dtype), "concat((a, b))", [run(dtype, ab, np.concatenate(ab)) for ab in cases],
                   returns=tensor(["n + m", 3], dtype))
    params = [("a", tensor(["p", "n", "q"], "f32")), ("b", tensor(["p", "m", "q"], "f32"))]
    a, b = np.arange(24, dtype=np.float32).reshape(2, 3, 4), -np.arange(16, dtype=np.float32).reshape(2, 2, 4)
    for axis in (1, -2):
        name = f"axis_{axis}".replace("-", "minus_")
        f.function(name, params, f"concat([a, b, a], axis={axis})", [run(name, [a, b], np.concatenate([a, b, a], axis))],
                   returns=tensor(["p", "2 * n + m", "q"], "f32"))
    f.function("one", NM(), "concat((x,), axis=1)", [run("one", [X23], X23)], returns=tensor(["n", "m"], "f32"))
    f.function("vectors_without_axis", [("a", tensor(["n"], "f32"))], "concat([a, a], axis=None)",
               [run("vectors_without_axis", [X23[0]], np.concatenate([X23[0]] * 2))], returns=tensor(["n * 2"], "f32"))
    f.function("others_may_differ", [("a", tensor(["n", "k"], "f32")), ("b", tensor(["m", "l"], "f32"))], "concat((a, b))",
               [run("others_may_differ", [X23, X23], np.concatenate([X23, X23])), trap("concat/C5", "others_may_differ", [X23, X23[:, :2]])])
    f.function("ranks_unknown", [("a", 'Tensor(dtype="f32")'), ("b", "Tensor()")], "concat((a, b), -1)",
               [run("ranks_unknown", [X23, X23], np.concatenate([X23, X23], -1)), trap("concat/C3", "ranks_unknown", [X23, X23[0]]),
                trap("concat/C2", "ranks_unknown", [X23, X23.astype(np.float64)]), trap("concat/C4", "ranks_unknown", [np.float32(1)] * 2)])
    f.function("of_a_tuple_value", [("t", f'Tuple[{tensor(["n"], "f32")}, {tensor(["m"], "f32")}]')], "concat(t)",
               [run("of_a_tuple_value", [(X23[0], X23[1, :1])], np.array([0, 1, 2, 3], np.float32))], returns=tensor(["n + m"], "f32"))
    moves_undefined(f, "concat((e, e))")
    f.refused("nothing", [], "concat(())", "RX0501")
    f.refused("dtypes_differ", [("a", tensor(["n"], "f32")), ("b", tensor(["n"], "f16"))], "concat((a, b))", "RX0501")
    f.refused("ranks_differ", [("a", tensor(["n"], "f32")), ("b", tensor(["n", "n"], "f32"))], "concat((a, b))", "RX0501")
    f.refused("matrices_without_axis", NM(), "concat((x, x), axis=None)", "RX0501")
    f.refused("out_of_range", NM(), "concat((x, x), axis=2)", "RX0501")
    f.refused("others_differ", [("a", tensor(["n", 2], "f32")), ("b", tensor(["n", 3], "f32"))], "concat((a, b))", "RX0501")
    f.refused("too_long", [("a", tensor([2**62], "i8"))], "concat((a, a))", "RX0501")
    f.refused("no_tuple", NM(), "concat(x)", "RX0502")
    f.write()

    f = OpFile("stack", "Tensors along a new dim.")
    for dtype in ALL:
        cases = [(sample(dtype, s), sample(dtype, s, seed=1)) for s in [(2, 3), (1, 1), (0, 2)]]
        f.function(dtype, [("a", tensor(["n", "m"], dtype)), ("b", tensor(["n", "m"], dtype))], "stack((a, b))",
                   [run(dtype, ab, np.stack(ab)) for ab in cases], returns=tensor([2, "n", "m"], dtype))
    for axis in (1, 2, -1, -3):
        name = f"axis_{axis}".replace("-", "minus_")
        f.function(name, NM(), f"stack([x, x, x], axis={axis})", [run(name, [X23], np.stack([X23] * 3, axis))])
    f.function("scalars", [("a", tensor([], "f32"))], "stack((a, a))", [run("scalars", [np.float32(2)], np.full(2, 2, np.float32))])
    f.function("shapes_may_differ", [("a", tensor(["n"], "f32")), ("b", tensor(["m"], "f32"))], "stack((a, b))",
               [run("shapes_may_differ", list(X23), X23), trap("stack/C3", "shapes_may_differ", [X23[0], X23[0, :1]])])
    moves_undefined(f, "stack((e, e))")
    f.refused("nothing", [], "stack(())", "RX0501")
    f.refused("dtypes_differ", [("a", tensor(["n"], "f32")), ("b", tensor(["n"], "i32"))], "stack((a, b))", "RX0501")
    f.refused("shapes_differ", [("a", tensor([2], "f32")), ("b", tensor([3], "f32"))], "stack((a, b))", "RX0501")
    f.refused("ranks_differ", [("a", tensor([2], "f32")), ("b", tensor([2, 1], "f32"))], "stack((a, b))", "RX0501")
    f.refused("out_of_range", NM(), "stack((x, x), 3)", "RX0501")
    f.write()

    f = OpFile("split", "A tensor cut along an axis.")
    for dtype in ALL:
        f.function(dtype, [("x", tensor([4, "m"], dtype))], "split(x, 2)",
                   [run(dtype, [x], (x[:2], x[2:])) for s in [(4, 3), (4, 1), (4, 0)] for x in [sample(dtype, s)]],
                   returns=f'Tuple[{tensor([2, "m"], dtype)}, {tensor([2, "m"], dtype)}]')
    x = np.arange(14, dtype=np.float32).reshape(7, 2)
    f.function("uneven", [("x", tensor(["n", 2], "f32"))], "split(x, sections=3)",
               [run("uneven", [x], (x[:3], x[3:6], x[6:])), run("uneven", [x[:6]], (x[:2], x[2:4], x[4:6])),
                run("uneven", [x[:2]], (x[:1], x[1:2], x[2:2])), run("uneven", [x[:0]], (x[:0],) * 3),
                trap("split/C3", "uneven", [x[:1]])])
    f.function("one_section", [("x", tensor(["n", 2], "f32"))], "split(x, 1)", [run("one_section", [x], (x,))],
               returns=f'Tuple[{tensor(["n", 2], "f32")}]')
    f.function("divides", [("x", tensor(["n * 3", 2], "f32")), ("s", 'Shape(["n"])')], "split(x, 3)", [run("divides", [x[:6], Shape(2)], (x[:2], x[2:4], x[4:6]))],
               returns="Tuple[" + ", ".join([tensor(["n", 2], "f32")] * 3) + "]")
    y = np.arange(24, dtype=np.float32).reshape(2, 6, 2)
    f.function("last_axis", [("x", tensor(["n", 6, 2], "f32"))], "split(x, 3, axis=-2)", [run("last_axis", [y], tuple(np.split(y, 3, 1)))])
    f.function("indices", [("x", tensor(["n", 2], "f32"))], "split(x, [2, 5])",
               [run("indices", [x[:n]], tuple(np.split(x[:n], [2, 5]))) for n in (7, 3, 2, 0)])
    f.function("odd_indices", [("x", tensor([7, 2], "f32"))], "split(x, [-3, 4, 2, 9])",
               [run("odd_indices", [x], (x[:0], x[:4], x[4:4], x[2:7], x[7:]))])
    f.function("no_indices", [("x", tensor(["n", 2], "f32"))], "split(x, [])", [run("no_indices", [x], (x,))])
    f.function("symbolic_index", [("x", tensor(["n", "m"], "f32"))], "split(x, [m], axis=0)",
               [run("symbolic_index", [x], (x[:2], x[2:])), run("symbolic_index", [x[:1]], (x[:1], x[1:1]))])
    moves_undefined(f, "split(e, 2)[1]")
    f.refused("no_sections", NM(), "split(x, 0)", "RX0501")
    f.refused("out_of_range", NM(), "split(x, 2, axis=2)", "RX0501")
    f.refused("too_many_sections", [("x", tensor([5], "f32"))], "split(x, 4)", "RX0501")
    f.refused("float_sections", NM(), "split(x, 2.0)", "RX0502")
    f.write()


def stretches():
    f = OpFile("broadcast_to", "A tensor stretched to a shape.")
    each_dtype(f, lambda d: [("x", tensor(["n", 1], d))], "broadcast_to(x, (2, n, 3))",
               lambda x: np.broadcast_to(x, (2, len(x), 3)), sizes=[(2, 1), (1, 1), (0, 1)], returns=[2, "n", 3])
    f.function("same", NM(), "broadcast_to(x, (n, m))", [run("same", [x], x) for x in (X23, X23[:0])])
    f.function("scalar", [("x", tensor([], "f32"))] + [("s", 'Shape(["n", "m"])')], "broadcast_to(x, s)",
               [run("scalar", [np.float32(3), Shape(2, 2)], np.full((2, 2), 3, np.float32)),
                run("scalar", [np.float32(3), Shape(0, 2)], np.zeros((0, 2), np.float32))])
    f.function("to_nothing", [("x", tensor(["n", 1], "f32"))], "broadcast_to(x, (n, 0))",
               [run("to_nothing", [X23[:, :1]], np.zeros((2, 0), np.float32))])
    f.function("undecided", NM() + [("s", 'Shape(["k"])')], "broadcast_to(x, (k, m))",
               [run("undecided", [X23[:1], Shape(4)], np.broadcast_to(X23[:1], (4, 3))), run("undecided", [X23, Shape(2)], X23),
                run("undecided", [X23[:1], Shape(0)], X23[:0]), trap("broadcast_to/C3", "undecided", [X23, Shape(4)]),
                trap("broadcast_to/C3", "undecided", [X23[:0], Shape(4)])])
    f.function("rank_unknown", ANY, "broadcast_to(x, (2, 3))",
               [run("rank_unknown", [X23[1]], np.stack([X23[1]] * 2)), trap("broadcast_to/C2", "rank_unknown", [X23[None]])])
    f.function("never_negative", [("x", tensor([], "f32")), ("s", 'Shape(["k"])')], "broadcast_to(x, (k - 2,))",
               [trap("broadcast_to/C1", "never_negative", [np.float32(1), Shape(1)])])
    moves_undefined(f, "broadcast_to(e, (4, n, m))")
    f.refused("below_zero", NM(), "broadcast_to(x, (n, -1))", "RX0501")
    f.refused("lower_rank", NM(), "broadcast_to(x, (m,))", "RX0501")
    f.refused("another_dim", [("x", tensor([2], "f32"))], "broadcast_to(x, (3,))", "RX0501")
    f.write()

    f = OpFile("repeat", "Elements several times in a row.")
    each_dtype(f, D, "repeat(data, 2, 0)", lambda x: np.repeat(x, 2, 0), returns=["n * 2", "m"])
    for axis in (1, -1, -2):
        name = f"axis_{axis}".replace("-", "minus_")
        f.function(name, D(), f"repeat(data, repeats=3, axis={axis})", [run(name, [X23], np.repeat(X23, 3, axis))])
    f.function("flat", D(), "repeat(data, 2)", [run("flat", [X23], np.repeat(X23, 2))], returns=tensor(["n * m * 2"], "f32"))
    f.function("never", D(), "repeat(data, 0, 1)", [run("never", [X23], X23[:, :0])], returns=tensor(["n", 0], "f32"))
    f.function("once", D(), "repeat(data, 1, 0)", [run("once", [X23], X23)], returns=tensor(["n", "m"], "f32"))
    f.function("symbolic", D(), "repeat(data, n, 1)", [run("symbolic", [X23], np.repeat(X23, 2, 1)), run("symbolic", [X23[:0]], X23[:0, :0])])
    f.function("never_negative", D(), "repeat(data, n - 2, 1)", [trap("repeat/C2", "never_negative", [X23[:1]])])
    moves_undefined(f, "repeat(e, 2, 0)")
    f.refused("below_zero", D(), "repeat(data, -1, 0)", "RX0501")
    f.refused("out_of_range", D(), "repeat(data, 2, 2)", "RX0501")
    f.refused("too_long", [("data", tensor([2], "f32"))], "repeat(data, 9223372036854775807)", "RX0501")
    f.refused("float", D(), "repeat(data, 2.0)", "RX0502")
    f.write()

    f = OpFile("tile", "A tensor as a whole, several times.")
    each_dtype(f, D, "tile(data, (2, 1))", lambda x: np.tile(x, (2, 1)), returns=["n * 2", "m"])
    for name, repeats in {"fewer": (2,), "more": (2, 1, 3), "zero": (0, 2), "all_ones": (1, 1), "nothing": ()}.items():
        f.function(name, D(), f"tile(data, repeats={list(repeats)})", [run(name, [X23], np.tile(X23, repeats))])
    f.function("number", D(), "tile(data, 3)", [run("number", [X23], np.tile(X23, 3))], returns=tensor(["n", "m * 3"], "f32"))
    f.function("scalar", [("data", tensor([], "f32"))], "tile(data, (2, 2))", [run("scalar", [np.float32(5)], np.full((2, 2), 5, np.float32))])
    f.function("symbolic", D(), "tile(data, (m, n))", [run("symbolic", [X23], np.tile(X23, (3, 2))), run("symbolic", [X23[:0]], np.zeros((0, 0), np.float32))])
    f.function("never_negative", D(), "tile(data, n - 2)", [trap("tile/C1", "never_negative", [X23[:1]])])
    moves_undefined(f, "tile(e, 2)")
    f.refused("below_zero", D(), "tile(data, (1, -1))", "RX0501")
    f.refused("too_long", [("data", tensor([2], "f32"))], "tile(data, 9223372036854775807)", "RX0501")
    f.write()
    collapses()


def collapses():
    rng = np.random.default_rng(9)
    for op, params, call in (("collapse_sum_to", [], "collapse_sum_to(data, (n, 1))"),
                             ("collapse_sum_like", None, "collapse_sum_like(data, t)")):
        f = OpFile(op, "The sum that undoes a broadcast.")
        for dtype in FLOATS + INTS:
            data = [("data", tensor(["b", "n", "m"], dtype))]
            target = [] if params is not None else [("t", tensor(["n", 1], dtype))]
            shapes = [(2, 3, 4), (1, 1, 1), (0, 2, 3), (2, 3, 0), (2, 0, 3)]
            cases = []
            for s in shapes:
                # Small integers: exact in whatever order they are summed.
                x = rng.integers(0, 7, s).astype(DTYPES[dtype])
                want = x.astype(np.float64 if dtype in FLOATS else np.int64).sum((0, 2)).reshape(-1, 1).astype(DTYPES[dtype])
                cases.append(run(dtype, [x] + ([np.zeros_like(want)] if target else []), want))
            f.function(dtype, data + target, call, cases, returns=tensor(["n", 1], dtype))
        if params is not None:
            x = np.arange(6, dtype=np.float32).reshape(2, 3)
            f.function("to_scalar", D(), "collapse_sum_to(data, ())", [run("to_scalar", [x], x.sum())], returns=tensor([], "f32"))
            f.function("same", D(), "collapse_sum_to(data, (n, m))", [run("same", [-x], -x)])
            f.function("cancels", [("data", tensor(["n"], "f64"))], "collapse_sum_to(data, (1,))",
                       [run("cancels", [np.array([1e100, 1.0, -1e100])], np.array([1.0]))])
            f.function("rounds_once", [("data", tensor(["n"], "f16"))], "collapse_sum_to(data, (1,))",
                       [run("rounds_once", [np.full(3000, 1, np.float16)], np.array([3000], np.float16))])
            f.function("special", [("data", tensor(["n"], "f32"))], "collapse_sum_to(data, ())",
                       [run("special", [np.array(v, np.float32)], np.float32(w)) for v, w in
                        [([np.inf, 1], np.inf), ([np.inf, -np.inf], np.nan), ([1, np.nan], np.nan), ([-np.inf, 3], -np.inf)]])
            f.function("wraps", [("data", tensor(["n"], "i8"))], "collapse_sum_to(data, ())",
                       [run("wraps", [np.array([127, 1], np.int8)], np.int8(-128))])
            f.function("undecided", D() + [("s", 'Shape(["k"])')], "collapse_sum_to(data, (k, m))",
                       [run("undecided", [x, Shape(1)], x.sum(0, keepdims=True)), run("undecided", [x, Shape(2)], x),
                        trap("collapse_sum_to/C3", "undecided", [x, Shape(3)])])
            f.function("never_negative", [("data", tensor([], "f32"))] + [("s", 'Shape(["k"])')], "collapse_sum_to(broadcast_to(data, (k,)), (k - 2,))",
                       [trap("collapse_sum_to/C1", "never_negative", [np.float32(1), Shape(1)])])
            f.function("reads_all", [], 'collapse_sum_to(empty((2,), "f32"), (1,))', [trap("undefined/read", "reads_all", [])])
            f.refused("below_zero", D(), "collapse_sum_to(data, (-1,))", "RX0501")
            f.refused("higher_rank", D(), "collapse_sum_to(data, (1, n, m))", "RX0501")
            f.refused("another_dim", [("data", tensor([4], "f32"))], "collapse_sum_to(data, (2,))", "RX0501")
            f.refused("bools", D("bool"), "collapse_sum_to(data, (1, 1))", "RX0501")
        else:
            f.function("target_is_not_read", D(), ['t = empty((m,), "i8")', "return collapse_sum_like(data, t)"],
                       [run("target_is_not_read", [X23], X23.sum(0))], returns=tensor(["m"], "f32"))
            f.refused("higher_rank", [("data", tensor(["n"], "f32")), ("t", tensor([1, "n"], "f32"))], "collapse_sum_like(data, t)", "RX0501")
            f.refused("another_dim", [("data", tensor([4], "f32")), ("t", tensor([2], "f32"))], "collapse_sum_like(data, t)", "RX0501")
            f.refused("bools", [("data", tensor(["n"], "bool")), ("t", tensor([1], "bool"))], "collapse_sum_like(data, t)", "RX0501")
        f.write()


def main():
    views()
    orders()
    joins()
    stretches()


if __name__ == "__main__":
    main()
