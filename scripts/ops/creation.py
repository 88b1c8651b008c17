"""Creation operators: expectations from NumPy."""

import numpy as np

from rxgen import ALL, DTYPES, FLOATS, INTS, OpFile, Shape, round_to, run, sample, tensor, trap

S2 = [("s", 'Shape(["n", "m"])')]
S1 = [("s", 'Shape(["n"])')]


def shaped(op, fill):
    """`ones` and `zeros`, and their `_like`."""
    f = OpFile(op, f"A tensor of {fill}s.")
    for dtype in ALL:
        make = lambda *shape: np.full(shape, fill, DTYPES[dtype])
        f.function(dtype, S2, f'{op}(shape(n, m), "{dtype}")',
                   [run(dtype, [Shape(n, m)], make(n, m)) for n, m in [(2, 3), (1, 1), (0, 2)]],
                   returns=tensor(["n", "m"], dtype))
    f.function("of_a_shape_value", [("s", "Shape(ndim=2)")], f'{op}(s, "f32")',
               [run("of_a_shape_value", [Shape(2, 1)], np.full((2, 1), fill, np.float32))])
    f.function("scalar", [], f'{op}((), "f64")', [run("scalar", [], np.full((), fill, np.float64))])
    f.function("expression", S2, f'{op}((n * m + 1,), "i8")',
               [run("expression", [Shape(2, 3)], np.full(7, fill, np.int8)),
                run("expression", [Shape(0, 3)], np.full(1, fill, np.int8))])
    f.function("never_negative", S1, f'{op}((n - 2,), "i8")',
               [run("never_negative", [Shape(3)], np.full(1, fill, np.int8)),
                trap(f"{op}/C1", "never_negative", [Shape(1)])])
    f.refused("below_zero", [], f'{op}((2, -1), "f32")', "RX0501")
    f.refused("no_dtype", [], f'{op}((2, 1), "float")', "RX0502")
    f.refused("dtype_is_missing", [], f"{op}((2, 1))", "RX0503")
    f.write()

    like = op + "_like"
    f = OpFile(like, f"A tensor of {fill}s with the shape of another.")
    for dtype in ALL:
        f.function(dtype, [("x", tensor(["n", "m"], dtype))], f"{like}(x)",
                   [run(dtype, [sample(dtype, shape)], np.full(shape, fill, DTYPES[dtype]))
                    for shape in [(2, 3), (1, 1), (0, 2)]], returns=tensor(["n", "m"], dtype))
    f.function("another_dtype", [("x", tensor(["n"], "f32"))], f'{like}(x, dtype="i64")',
               [run("another_dtype", [sample("f32", (3,))], np.full(3, fill, np.int64))])
    f.function("reads_nothing", [], ['x = empty((2,), "f32")', f"return {like}(x)"],
               [run("reads_nothing", [], np.full(2, fill, np.float32))])
    f.refused("no_tensor", S1, f"{like}(s)", "RX0502")
    f.write()


def full():
    f = OpFile("full", "A tensor of one element, over and over.")
    for dtype in ALL:
        v = sample(dtype, (2,), seed=3)[0:1].reshape(())
        f.function(dtype, S2 + [("v", tensor([], dtype))], "full(shape(n, m), v)",
                   [run(dtype, [Shape(n, m), v], np.full((n, m), v)) for n, m in [(2, 3), (1, 1), (3, 0)]],
                   returns=tensor(["n", "m"], dtype))
    for dtype in FLOATS:
        name = f"{dtype}_special"
        specials = round_to(dtype, np.array([np.nan, -0.0, -np.inf]))
        f.function(name, [("v", tensor([], dtype))], "full((2,), v)",
                   [run(name, [v.reshape(())], np.full((2,), v)) for v in specials])
    f.function("cast", [("v", tensor([], "f32"))], 'full((2,), v, dtype="i8")',
               [run("cast", [np.float32(-3.9)], np.full((2,), -3, np.int8))])
    f.function("number", [], 'full((2,), 1.5, dtype="f16")', [run("number", [], np.full(2, 1.5, np.float16))])
    f.function("symbolic_number", S1, 'full((2,), n, dtype="i32")',
               [run("symbolic_number", [Shape(7)], np.full(2, 7, np.int32))])
    f.function("constant", S1, 'full((n,), const(True, "bool"))',
               [run("constant", [Shape(2)], np.ones(2, np.bool_))])
    f.function("rank_unknown", [("v", 'Tensor(dtype="f32")')], "full((2,), v)",
               [run("rank_unknown", [np.float32(2)], np.full(2, 2, np.float32)),
                trap("full/C2", "rank_unknown", [np.ones(2, np.float32)])])
    f.function("never_negative", S1 + [("v", tensor([], "i32"))], "full((n - 2,), v)",
               [trap("full/C1", "never_negative", [Shape(1), np.int32(1)])])
    f.refused("below_zero", [("v", tensor([], "i32"))], "full((-2,), v)", "RX0501")
    f.refused("vector", [("v", tensor([1], "i32"))], "full((2,), v)", "RX0501")
    f.refused("number_without_dtype", [], "full((2,), 1.5)", "RX0501")
    f.refused("no_shape", [("v", tensor([], "i32"))], "full(v, v)", "RX0502")
    f.write()

    f = OpFile("full_like", "A tensor of one element, with the shape of another.")
    for dtype in ALL:
        v = sample(dtype, (2,), seed=3)[0:1].reshape(())
        f.function(dtype, [("x", tensor(["n"], dtype)), ("v", tensor([], dtype))], "full_like(x, v)",
                   [run(dtype, [sample(dtype, (n,)), v], np.full((n,), v)) for n in (3, 1, 0)],
                   returns=tensor(["n"], dtype))
    f.function("dtype_of_x", [("x", tensor(["n"], "u8")), ("v", tensor([], "f32"))], "full_like(x, v)",
               [run("dtype_of_x", [np.ones(2, np.uint8), np.float32(300)], np.full(2, 255, np.uint8))])
    f.function("another_dtype", [("x", tensor(["n"], "u8")), ("v", tensor([], "f32"))], 'full_like(x, v, dtype="bf16")',
               [run("another_dtype", [np.ones(2, np.uint8), np.float32(1.5)], round_to("bf16", np.full(2, 1.5)))])
    f.function("number", [("x", tensor(["n"], "f32"))], "full_like(x, -2)",
               [run("number", [np.ones(2, np.float32)], np.full(2, -2, np.float32))])
    f.refused("vector", [("x", tensor(["n"], "f32")), ("v", tensor([2], "f32"))], "full_like(x, v)", "RX0501")
    f.write()


def empty():
    f = OpFile("empty", "A tensor without defined elements.")
    f.function("nothing_to_read", S1, 'relu(empty((n, 2), "f32"))',
               [run("nothing_to_read", [Shape(0)], np.zeros((0, 2), np.float32)),
                trap("undefined/read", "nothing_to_read", [Shape(1)])])
    f.function("moved_as_undefined", [],
               ['x = empty((2, 2), "f32")', "y = flip(permute_dims(reshape(x, (4,))), 0)", "return negative(y)"],
               [trap("undefined/read", "moved_as_undefined", [])])
    f.function("only_its_shape", S1, 'shape_of(empty((n, 2), "i8"))', [run("only_its_shape", [Shape(3)], Shape(3, 2))])
    f.function("never_negative", S1, 'shape_of(empty((n - 2,), "i8"))', [trap("empty/C1", "never_negative", [Shape(1)])])
    f.refused("below_zero", [], 'empty((-1,), "f32")', "RX0501")
    f.refused("dtype_is_missing", [], "empty((1,))", "RX0503")
    f.write()


def eye():
    f = OpFile("eye", "Ones on a diagonal.")
    for dtype in ALL:
        f.function(dtype, S2, f'eye(n, m, dtype="{dtype}")',
                   [run(dtype, [Shape(n, m)], np.eye(n, m, dtype=DTYPES[dtype])) for n, m in [(2, 3), (3, 2), (1, 1), (0, 2)]],
                   returns=tensor(["n", "m"], dtype))
    for k in (-7, -1, 0, 2, 2**62, -(2**62)):
        name = f"k_{k}".replace("-", "minus_")
        f.function(name, S2, f"eye(n, m, {k})",
                   [run(name, [Shape(3, 5)], np.eye(3, 5, k if abs(k) < 100 else 99, dtype=np.float32))])
    f.function("n_by_n", S1, "eye(n)", [run("n_by_n", [Shape(3)], np.eye(3, dtype=np.float32))])
    f.function("symbolic_k", S2, "eye(4, 4, n - m)", [run("symbolic_k", [Shape(1, 3)], np.eye(4, 4, -2, dtype=np.float32))])
    f.function("never_negative", S1, "eye(n - 2)", [trap("eye/C1", "never_negative", [Shape(1)])])
    f.refused("below_zero", [], "eye(3, -1)", "RX0501")
    f.refused("float", [], "eye(3.0)", "RX0502")
    f.write()

    f = OpFile("eye_like", "Ones on a diagonal, with the shape of another tensor.")
    for dtype in ALL:
        f.function(dtype, [("x", tensor(["n", "m"], dtype))], "eye_like(x)",
                   [run(dtype, [sample(dtype, s)], np.eye(*s, dtype=DTYPES[dtype])) for s in [(2, 3), (1, 1), (2, 0)]],
                   returns=tensor(["n", "m"], dtype))
    f.function("diagonal_and_dtype", [("x", tensor(["n", "m"], "f32"))], 'eye_like(x, k=-1, dtype="i8")',
               [run("diagonal_and_dtype", [np.ones((3, 2), np.float32)], np.eye(3, 2, -1, dtype=np.int8))])
    f.function("rank_unknown", [("x", 'Tensor(dtype="f32")')], "eye_like(x)",
               [run("rank_unknown", [np.ones((2, 2), np.float32)], np.eye(2, dtype=np.float32)),
                trap("eye_like/C1", "rank_unknown", [np.ones(2, np.float32)])])
    f.refused("vector", [("x", tensor(["n"], "f32"))], "eye_like(x)", "RX0501")
    f.write()


def triangles():
    for op, numpy in (("tril", np.tril), ("triu", np.triu)):
        f = OpFile(op, "A triangle of each matrix.")
        for dtype in ALL:
            f.function(dtype, [("x", tensor(["n", "m"], dtype))], f"{op}(x)",
                       [run(dtype, [x], np.where(numpy(np.ones(s, bool)), x, np.zeros((), x.dtype)))
                        for s in [(3, 4), (1, 1), (0, 3)] for x in [sample(dtype, s)]],
                       returns=tensor(["n", "m"], dtype))
        x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
        for k in (-9, -1, 1, 2, 9):
            name = f"k_{k}".replace("-", "minus_")
            f.function(name, [("x", tensor(["b", "n", "m"], "i32"))], f"{op}(x, {k})", [run(name, [x], numpy(x, k))])
        f.function("symbolic_k", [("x", tensor(["b", "n", "m"], "i32"))], f"{op}(x, n - m)",
                   [run("symbolic_k", [x], numpy(x, -1))])
        f.function("what_is_dropped_is_defined", [],
                   ['x = empty((1, 2), "f32")', f"return {op}(x, {-1 if op == 'tril' else 2})"],
                   [run("what_is_dropped_is_defined", [], np.zeros((1, 2), np.float32))])
        f.function("rank_unknown", [("x", 'Tensor(dtype="i32")')], f"{op}(x)",
                   [trap(f"{op}/C1", "rank_unknown", [np.ones(2, np.int32)])])
        f.refused("vector", [("x", tensor(["n"], "f32"))], f"{op}(x)", "RX0501")
        f.refused("float_k", [("x", tensor(["n", "n"], "f32"))], f"{op}(x, 0.5)", "RX0502")
        f.write()


def arange():
    f = OpFile("arange", "Evenly spaced numbers.")
    for dtype in FLOATS + INTS:
        f.function(dtype, S2, f'arange(n, m, 3, dtype="{dtype}")',
                   [run(dtype, [Shape(n, m)], np.arange(n, m, 3).astype(DTYPES[dtype]))
                    for n, m in [(0, 7), (1, 7), (2, 3), (5, 5), (6, 1)]])
    f.function("to_n", S1, "arange(n)", [run("to_n", [Shape(n)], np.arange(n)) for n in (4, 1, 0)],
               returns=tensor(["n"], "i64"))
    f.function("from_n_to_m", S2, "arange(n, m)",
               [run("from_n_to_m", [Shape(n, m)], np.arange(n, m)) for n, m in [(2, 5), (5, 2)]],
               returns='Tensor(("max(0, m - n)",), "i64")')
    f.function("by_n", S1, "arange(0, 10, n)",
               [run("by_n", [Shape(3)], np.arange(0, 10, 3)), run("by_n", [Shape(20)], np.arange(0, 10, 20)),
                trap("arange/C1", "by_n", [Shape(0)])])
    for name, args in {"down": (5, 0, -2), "down_to_less": (-1, -7, -3), "nothing": (0, 5, -1), "from_below": (-3, 4, 2)}.items():
        f.function(name, [], f"arange({args[0]}, {args[1]}, {args[2]})", [run(name, [], np.arange(*args))])
    for name, args in {"quarters": (0.0, 1.0, 0.25), "tenths": (0, 1, 0.1), "float_down": (2.5, -1, -0.5), "float_end": (0, 3.5, 1),
                       "no_floats": (1.0, 0.0, 0.5)}.items():
        start, end, step = args
        count = max(0, int(np.ceil((end - start) / step)))
        values = start + np.arange(count) * step
        for dtype in FLOATS:
            f.function(f"{name}_{dtype}", [], f'arange({start}, {end}, {step}, dtype="{dtype}")',
                       [run(f"{name}_{dtype}", [], round_to(dtype, values))])
        f.function(name, [], f"arange({start}, {end}, {step})", [run(name, [], values.astype(np.float32))])
    f.function("one_float", [], "arange(2.5)", [run("one_float", [], np.arange(2.5).astype(np.float32))])
    f.function("wraps", [], 'arange(250, 260, 3, dtype="u8")', [run("wraps", [], np.arange(250, 260, 3).astype(np.uint8))])
    f.function("near_the_limit", [], "arange(9223372036854775800, 9223372036854775807, 3)",
               [run("near_the_limit", [], np.arange(9223372036854775800, 9223372036854775807, 3))])
    f.refused("step_0", [], "arange(0, 3, 0)", "RX0501")
    f.refused("step_0_of_floats", [], "arange(0.0, 3.0, 0.0)", "RX0501")
    f.refused("too_long", [], "arange(-9223372036854775807, 9223372036854775807)", "RX0501")
    f.refused("bools", [], 'arange(2, dtype="bool")', "RX0501")
    f.refused("text", [], 'arange("2")', "RX0502")
    f.refused("four", [], 'arange(0, 3, 1, "i64", 4)', "RX0503")
    f.write()


def main():
    shaped("ones", 1)
    shaped("zeros", 0)
    full()
    empty()
    eye()
    triangles()
    arange()


if __name__ == "__main__":
    main()
