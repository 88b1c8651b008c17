#!/usr/bin/env python3
"""Small models that an optimizer changes the values of: what onnxruntime computes of each, without optimization, before and after.

    bench/equiv/found.py [NAME ...]

They are listed, with what is right and why, in docs/FOUND-ELSEWHERE.md. The last one ends the process, without an optimizer. The exit code
is 1 if a model is no longer changed.
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy
from onnx import checker, parser, printer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import optimizers  # noqa: E402
import samples  # noqa: E402

HEAD = '<ir_version: 8, opset_import: ["" : {}]>\n'
#: Of each model: the optimizer, the text, and its inputs.
MODELS = {
    "expand_to_none": ("onnxruntime basic", """g (float[n,1] x) => (float[n,m] y) <int64[2] none = {1,0}> {
        negated = Neg (x)
        e = Expand (negated, none)
        y = Abs (e)
    }""", {"x": numpy.ones((2, 1))}),
    "clip_of_clip": ("onnxscript optimizer", """g (float[n] x) => (float[n] y) <float a = {-1}, float b = {0}, float c = {2}, float d = {6}> {
        first = Clip (x, a, b)
        y = Clip (first, c, d)
    }""", {"x": numpy.array([0, 3])}),
    "clip_without_dtype": ("onnxscript rewriter", """g (float[n] x) => (float[n] y) <float a = {0}, float b = {1}> {
        first = Clip (x, a)
        y = Clip (first, a, b)
    }""", {"x": numpy.array([0, 3])}),
    "flatten_nothing": ("onnxscript rewriter", """g (float[n,m] x) => (float[n,m] y) {
        y = Flatten <axis = 1> (x)
    }""", {"x": numpy.ones((0, 4))}),
    "input_is_output": ("onnxscript optimizer", """g (float[n] x) => (float[n] y, float[n] x) {
        y = Abs (x)
    }""", {"x": numpy.ones(2)}),
    "two_shapes": ("onnxscript rewriter", """g (float[n,1] x, int64[2] s) => (float[a,b] y) <int64[1] flat = {-1}> {
        r = Reshape (x, s)
        t = Reshape (r, flat)
        f = Flatten <axis = 1> (t)
        y = Abs (f)
    }""", {"x": numpy.ones((2, 1)), "s": numpy.array([1, 2])}),
    "reshape_of_set_13": ("onnxscript rewriter", """g (float[n,2] x, int64[2] s) => (float[2,b] y) {
        y = Reshape (x, s)
    }""", {"x": numpy.ones((2, 2)), "s": numpy.array([2, 2])}),
    "squeeze_of_squeeze": ("onnxoptimizer fuse_consecutive_squeezes", """g (float[1,n,m,1] x) => (float[n,m] y) <int64[1] a = {-4}, int64[1] b = {-1}> {
        s = Squeeze (x, a)
        y = Squeeze (s, b)
    }""", {"x": numpy.ones((1, 2, 3, 1))}),
    "reshape_of_reshape": ("onnxoptimizer eliminate_consecutive_idempotent_ops", """g (float[n,m] x) => (float[a,b] y) <int64[1] flat = {-1}, int64[2] kept = {0,-1}> {
        r = Reshape (x, flat)
        y = Reshape (r, kept)
    }""", {"x": numpy.ones((2, 3))}),
    "gather_of_shape": ("onnxoptimizer eliminate_shape_gather", """g (float[3,4] x) => (int64[1] y) {
        s = Shape (x)
        last = Constant <value = int64[1] {-1}> ()
        part = Gather (s, last)
        y = Abs (part)
    }""", {"x": numpy.ones((3, 4))}),
    "pad_of_pool": ("onnxoptimizer fuse_pad_into_pool", """g (float[1,1,n] x) => (float[1,1,m] y) <int64[6] before = {0,0,1,0,0,0}> {
        p = Pad (x, before)
        y = AveragePool <kernel_shape = [3], pads = [1,1]> (p)
    }""", {"x": numpy.array([[[3, 6, 9]]])}),
    "transposed_gemm": ("onnxoptimizer fuse_transpose_into_gemm", """g (float[n,1] x) => (float[n,3] y) <float[1,3] w = {1,2,3}> {
        t = Transpose (x)
        y = Gemm <transA = 1> (t, w)
    }""", {"x": numpy.ones((2, 1))}),
    "argmax_of_sqrt": ("onnxoptimizer eliminate_nop_monotone_argmax", """g (float[n] x) => (int64[1] y) {
        r = Sqrt (x)
        y = ArgMax <axis = 0> (r)
    }""", {"x": numpy.array([-1, 4])}),
    "log_softmax_of_one": ("onnxsim", """g (float[n,1] x) => (float[n,1] y) {
        y = LogSoftmax <axis = 1> (x)
    }""", {"x": numpy.array([[1], [-numpy.inf]])}),
    "product_of_none": ("onnxsim", """g (float[n,1,m,0] x) => (float[n,1,m,4] y) <float[0,4] w = {}, float[1] b = {1}> {
        p = MatMul (x, w)
        y = Add (p, b)
    }""", {"x": numpy.ones((2, 1, 3, 0))}),
    "rows_of_none": ("onnxslim", """g (float[2,0,3,4] x) => (float[2,0,3,1] y) <float[4,1] w = {1,2,3,4}, float[1] b = {1}> {
        p = MatMul (x, w)
        y = Add (p, b)
    }""", {"x": numpy.ones((2, 0, 3, 4))}),
    "normalized_nothing": ("none", """g (float[n,3,m] x) => (float[n,3,m] y) <float[3] s = {1,1,1}, float[3] b = {0,0,0}> {
        a = Abs (x)
        y = InstanceNormalization (a, s, b)
    }""", {"x": numpy.ones((2, 3, 0))}),
}


def shown(run, feed):
    """Results as text, or the error."""
    results, why = samples.outcome(run, feed)
    return why or "; ".join(f"{array.dtype}{list(array.shape)} {array.tolist()}" for array in results)


def tried(name):
    """Prints a model, the optimizer's result, and the values of both; whether they differ."""
    optimizer, text, feed = MODELS[name]
    model = parser.parse_model(HEAD.format(13 if name.endswith("_13") else 18) + text)
    checker.check_model(model, full_check=True)
    feed = {key: array.astype(numpy.int64 if array.dtype.kind == "i" and key == "s" else numpy.float32) for key, array in feed.items()}
    data = model.SerializeToString()
    print(f"## {name}: {optimizer}\n\n{printer.to_text(model.graph)}\n")
    before, by_definition = shown(samples.session(data), feed), shown(samples.reference(data), feed)
    print(f"onnxruntime, not optimized: {before}\nreference evaluator: {by_definition}")
    after, result = optimized(optimizer, model, feed)
    print(f"optimized: {after}\n\n{result}\n")
    return before != after


def optimized(optimizer, model, feed):
    """The results of an optimized model and its text, or the errors in their place."""
    if optimizer == "onnxruntime all":
        return loaded(model.SerializeToString(), feed, "ENABLE_ALL"), ""
    with tempfile.TemporaryDirectory() as folder:
        optimizers.FOLDER = folder
        try:
            result = optimizers.optimizers()[optimizer](model)
        except Exception as error:
            return samples.brief(error), ""
    return loaded(result.SerializeToString(), feed, "DISABLE_ALL"), printer.to_text(result.graph)


def loaded(data, feed, level):
    """The results of a model as text, or why it does not load."""
    try:
        return shown(samples.session(data, level), feed)
    except Exception as error:
        return samples.brief(error)


def main():
    if len(sys.argv) == 2:
        raise SystemExit(0 if tried(sys.argv[1]) else 1)
    # Some of them end the process.
    codes = {name: subprocess.run([sys.executable, __file__, name]).returncode for name in sys.argv[1:] or MODELS}
    unchanged = [name for name, code in codes.items() if code == 1]
    print("a crash: " + ", ".join(name for name, code in codes.items() if code < 0))
    print("no longer changed: " + (", ".join(unchanged) or "none"))
    raise SystemExit(1 if unchanged else 0)


if __name__ == "__main__":
    main()
