"""astype: every dtype to every other. Integers are Python's, wrapped or limited here by hand."""

import numpy as np

from rxgen import DTYPES, FLOATS, INTS, OpFile, round_to, run, tensor, trap

from unary import samples

FRACTIONS = [1.9, -1.9, 300.7, -300.7, 70000.5, 3e9, -3e9, 1e19, -1e19]


def wrapped(dtype, values):
    bits = np.iinfo(DTYPES[dtype]).bits
    unsigned = np.array([v % 2**bits for v in values], DTYPES[f"u{bits}"])
    return unsigned.view(DTYPES[dtype])


def limited(dtype, values):
    info = np.iinfo(DTYPES[dtype])
    whole = [0 if np.isnan(v) else v if np.isinf(v) else int(v) for v in values]
    return np.array([int(min(max(v, int(info.min)), int(info.max))) for v in whole], DTYPES[dtype])


def converted(x, source, target):
    if target == "bool":
        return np.array([v != 0 for v in x.tolist()])
    if target in INTS:
        if source in FLOATS:
            return limited(target, x.astype(np.float64).tolist())
        return wrapped(target, [int(v) for v in x.tolist()])
    if source in FLOATS:
        return round_to(target, x.astype(np.float64))
    if target == "f32":
        return x.astype(np.float32)
    return round_to(target, x.astype(np.float64))


def main():
    f = OpFile("astype", "Elements in another dtype.")
    dtypes = list(DTYPES)
    with np.errstate(all="ignore"):
        for source in dtypes:
            x = samples(source)
            if source in FLOATS:
                x = np.concatenate([x, round_to(source, np.array(FRACTIONS))])
            for target in dtypes:
                name = f"{source}_to_{target}"
                want = x if source == target else converted(x, source, target)
                f.function(name, [("x", tensor(["n"], source))], f'astype(x, "{target}")',
                           [run(name, [x], want)], tensor(["n"], target))
        edges(f)
    f.write()


def edges(f):
    matrix = np.float32([[1.5, -2.5, 3.5]])
    f.function("long_names", [("x", tensor(["n", 3], "f32"))], 'astype(x=x, dtype="int32")', [
        run("long_names", [matrix], np.int32([[1, -2, 3]])),
        run("long_names", [matrix[:0]], np.zeros((0, 3), np.int32)),
    ], tensor(["n", 3], "i32"))
    f.function("scalar", [("x", tensor([], "i64"))], 'astype(x, "f64")',
               [run("scalar", [np.int64(-7)], np.float64(-7))])
    # A tie of bf16 but for the last bit, which f64 can't hold.
    ties = np.array([2**62 + 2**54, 2**62 + 2**54 + 1, 2**62 + 2**54 - 1], np.int64)
    f.function("rounded_once", [("x", tensor(["n"], "i64"))], 'astype(x, "bf16")',
               [run("rounded_once", [ties], round_to("bf16", np.array([2.0**62, 2.0**62 + 2.0**55, 2.0**62])))])
    f.function("undefined_elements_stay", [], ['x = empty((2,), "f32")', 'y = astype(x, "f16")', "return add(y, y)"],
               [trap("undefined/read", "undefined_elements_stay", [])])
    f.function("of_object", [("x", "Object")], 'astype(x, "u8")', [
        run("of_object", [np.int16([-1, 256])], np.uint8([255, 0])),
        trap("astype/kind", "of_object", ["shape(2)"]),
    ])
    x = [("x", tensor(["n"], "f32"))]
    f.refused("no_such_dtype", x, 'astype(x, "f31")', "RX0502")
    f.refused("dtype_is_a_number", x, "astype(x, 32)", "RX0502")
    f.refused("of_a_shape", [], 'astype(shape(2), "f32")', "RX0502")
    f.refused("dtype_missing", x, "astype(x)", "RX0503")


if __name__ == "__main__":
    main()
