"""quantize and dequantize: the formulas of their documentation in NumPy."""

import numpy as np

from rxgen import DTYPES, FLOATS, OpFile, round_to, run, tensor, trap

STEPS = [0.0, -0.0, 0.25, 0.5, 0.75, -0.25, -0.75, 1.25, 3.1, -7.9, 100.0, -100.0, 1e4, np.inf, -np.inf, np.nan]


def quantized(x, scale, zero_point, out):
    """`x` and `scale` of one dtype, whose quotient is rounded to it."""
    info = np.iinfo(DTYPES[out])
    if x.dtype in (np.float32, np.float64):
        quotient = (x / scale).astype(np.float64)
    else:
        name = "f16" if x.dtype == np.float16 else "bf16"
        quotient = round_to(name, x.astype(np.float64) / scale.astype(np.float64)).astype(np.float64)
    level = np.clip(np.round(quotient) + np.asarray(zero_point, np.float64), info.min, info.max)
    return np.where(np.isnan(level), 0, level).astype(DTYPES[out])


def dequantized(q, scale, zero_point, out):
    exact = (q.astype(np.float64) - np.asarray(zero_point, np.float64)) * scale.astype(np.float64)
    if out in ("f16", "bf16"):
        largest = {"f16": 65504.0, "bf16": 2.0**128 - 2.0**120}[out]
        exact = np.clip(exact, -largest, largest)
    return round_to(out, exact)


def operands(data, scale, zero):
    return [("x", tensor(*data)), ("s", tensor(*scale)), ("z", tensor(*zero))]


def common_refusals(f, op, good, small):
    """`good`: a dtype of data; `small`: one of zero points."""
    def case(name, code, call, data=([2, 3], good), scale=([], "f32"), zero=([], small)):
        f.refused(name, operands(data, scale, zero), call, code)
    case("scale_of_integers", "RX0501", f"{op}(x, s, z)", scale=([], "i32"))
    case("zero_point_of_f32", "RX0501", f"{op}(x, s, z)", zero=([], "f32"))
    case("zero_point_of_i64", "RX0501", f"{op}(x, s, z)", zero=([], "i64"))
    case("axis_too_large", "RX0501", f"{op}(x, s, z, axis=2)")
    case("axis_too_small", "RX0501", f"{op}(x, s, z, -3)")
    case("scales_of_another_axis", "RX0501", f"{op}(x, s, z, axis=0)", scale=([3], "f32"))
    case("zero_points_too_many", "RX0501", f"{op}(x, s, z)", zero=([4], small))
    case("scale_is_a_matrix", "RX0501", f"{op}(x, s, z)", scale=([2, 3], "f32"))
    case("vector_for_a_scalar", "RX0501", f"{op}(x, s, z)", data=([], good), scale=([2], "f32"))
    case("scale_is_a_number", "RX0502", f"{op}(x, 0.5, z)")
    case("axis_is_a_string", "RX0502", f'{op}(x, s, z, axis="last")')
    case("no_such_dtype", "RX0502", f'{op}(x, s, z, out_dtype="i9")')
    case("zero_point_missing", "RX0503", f"{op}(x, s)")


def quantize():
    f = OpFile("quantize", "Floats to small integers.")
    for dtype in FLOATS:
        x = round_to(dtype, np.array(STEPS))
        scale = round_to(dtype, np.array(0.5))
        for out in ("i8", "u8", "i16", "u16"):
            zero, name = np.array(3, DTYPES["i8"]), f"{dtype}_to_{out}"
            f.function(name, operands((["n"], dtype), ([], dtype), ([], "i8")),
                       f'quantize(x, s, z, out_dtype="{out}")', [
                           run(name, [x, scale, zero], quantized(x, scale, zero, out)),
                           run(name, [x[:0], scale, zero], np.zeros((0,), DTYPES[out])),
                       ], tensor(["n"], out))
    x = np.float32([[0.35, -1.0, 2.0], [1e3, 0.15, -0.45]])
    scale, zero = np.float32([0.1, 0.3, 2.0]), np.int32([0, -5, 7])
    f.function("channels", operands((["n", "k"], "f32"), (["k"], "f32"), (["k"], "i32")), "quantize(x, s, z)", [
        run("channels", [x, scale, zero], quantized(x, scale, zero, "i8")),
        run("channels", [x[:, :1], scale[:1], zero[:1]], quantized(x[:, :1], scale[:1], zero[:1], "i8")),
        run("channels", [x[:, :0], scale[:0], zero[:0]], np.zeros((2, 0), np.int8)),
    ], tensor(["n", "k"], "i8"))
    rows = [("quantize(x, s, z, axis=0)", "front"), ("quantize(x, s, z, axis=-2)", "from_the_end")]
    for call, name in rows:
        want = quantized(x, scale[:2, None], np.int8(1), "i8")
        f.function(name, operands((["n", "k"], "f32"), (["n"], "f32"), ([1], "i8")), call,
                   [run(name, [x, scale[:2], np.int8([1])], want)])
    f.function("number_of_scales", operands((["n", "k"], "f32"), (["c"], "f32"), ([], "u8")), "quantize(x, s, z)", [
        run("number_of_scales", [x, scale, np.uint8(9)], quantized(x, scale, 9, "i8")),
        run("number_of_scales", [x, scale[:1], np.uint8(9)], quantized(x, scale[:1], 9, "i8")),
        trap("quantize/C6", "number_of_scales", [x, scale[:2], np.uint8(9)]),
        trap("quantize/C6", "number_of_scales", [x, scale[:0], np.uint8(9)]),
    ])
    f.function("ones_of_any_rank", operands((["n", "k"], "f32"), ([1, 1, 1], "f32"), ([1, 1], "f16")), "quantize(x, s, z)",
               [run("ones_of_any_rank", [x, scale[:1].reshape(1, 1, 1), np.float16([[4]])], quantized(x, scale[:1], 4, "i8"))])
    f.function("scalar", operands(([], "f32"), ([], "f32"), ([], "i8")), "quantize(x, s, z)",
               [run("scalar", [np.float32(2.5), np.float32(1), np.int8(0)], np.int8(2))])
    f.function("scale_of_zero", operands((["n"], "f32"), ([], "f32"), ([], "i8")), "quantize(x, s, z)",
               [run("scale_of_zero", [np.float32([1, -1, 0]), np.float32(0), np.int8(5)], np.int8([127, -128, 0]))])
    # 0.15 / 0.1 is below 1.5 in exact arithmetic on these f32, but rounds to it.
    tie, tenth = np.float32([0.15, 0.25, 0.35, 0.45]), np.float32(0.1)
    f.function("quotient_is_rounded", operands((["n"], "f32"), ([], "f32"), ([], "i8")), "quantize(x, s, z)",
               [run("quotient_is_rounded", [tie, tenth, np.int8(0)], quantized(tie, tenth, 0, "i8"))])
    half = np.float16(0.1)
    f.function("scale_of_f16", operands((["n"], "f32"), ([], "f16"), ([], "i8")), "quantize(x, s, z)",
               [run("scale_of_f16", [tie, half, np.int8(0)], quantized(tie, np.float32(half), 0, "i8"))])
    common_refusals(f, "quantize", "f32", "i8")
    f.refused("data_of_integers", operands(([2], "i32"), ([], "f32"), ([], "i8")), "quantize(x, s, z)", "RX0501")
    f.refused("to_i32", operands(([2], "f32"), ([], "f32"), ([], "i8")), 'quantize(x, s, z, out_dtype="int32")', "RX0501")
    f.write()


def dequantize():
    f = OpFile("dequantize", "Small integers to floats.")
    for dtype in ("i8", "u8", "i16", "u16", "i32", "u32"):
        info = np.iinfo(DTYPES[dtype])
        q = np.array([info.min, info.max, 0, 1, 2, 100], DTYPES[dtype])
        scale, zero = np.float32(0.37), DTYPES[dtype](5)
        for out in FLOATS:
            name = f"{dtype}_to_{out}"
            f.function(name, operands((["n"], dtype), ([], "f32"), ([], dtype)),
                       f'dequantize(x, s, z, out_dtype="{out}")', [
                           run(name, [q, scale, zero], dequantized(q, scale, zero, out)),
                           run(name, [q[:0], scale, zero], np.zeros((0,), DTYPES[out])),
                       ], tensor(["n"], out))
    q = np.int8([[1, -2, 3], [-128, 127, 0]])
    scale, zero = np.float32([0.1, 0.3, 2.0]), np.int8([0, -5, 7])
    f.function("channels", operands((["n", "k"], "i8"), (["k"], "f32"), (["k"], "i8")), "dequantize(x, s, z)", [
        run("channels", [q, scale, zero], dequantized(q, scale, zero, "f32")),
        run("channels", [q[:0], scale, zero], np.zeros((0, 3), np.float32)),
    ], tensor(["n", "k"], "f32"))
    f.function("front", operands((["n", "k"], "i8"), (["n"], "f32"), (["n"], "i8")), "dequantize(x, s, z, 0)", [
        run("front", [q, scale[:2], zero[:2]], dequantized(q, scale[:2, None], zero[:2, None], "f32")),
    ])
    x = np.float32([1.5, np.inf, np.nan, -2.25])
    f.function("data_of_floats", operands((["n"], "f32"), ([], "f32"), ([], "f16")), "dequantize(x, s, z)",
               [run("data_of_floats", [x, np.float32(3), np.float16(0.5)], dequantized(x, np.float32(3), 0.5, "f32"))])
    large = np.int16([32767, -32768, 1])
    f.function("limited", operands((["n"], "i16"), ([], "f32"), ([], "i8")), 'dequantize(x, s, z, out_dtype="float16")',
               [run("limited", [large, np.float32(3), np.int8(0)], np.float16([65504, -65504, 3]))])
    common_refusals(f, "dequantize", "i8", "i8")
    f.refused("data_of_i64", operands(([2], "i64"), ([], "f32"), ([], "i8")), "dequantize(x, s, z)", "RX0501")
    f.refused("to_i32", operands(([2], "i8"), ([], "f32"), ([], "i8")), 'dequantize(x, s, z, out_dtype="int32")', "RX0501")
    f.write()


def main():
    with np.errstate(all="ignore"):
        quantize()
        dequantize()


if __name__ == "__main__":
    main()
