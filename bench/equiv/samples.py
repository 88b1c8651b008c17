"""The values of two models at drawn dims and inputs, by onnxruntime without optimization and by ONNX's reference evaluator.

    samples.py               answers jobs of scripts/peers/worker.py: {"model": FILE, "others": [FILE, ...], "given": FILE.npz or none}

Its answers are [file, "compared" | "refused", [counts of cases, first difference], reason]. Cases where the model itself has no value are counted
and not compared. A difference of ordinary inputs is kept apart from one that needs NaN, infinities or extremes.
"""

import pathlib
import random
import sys

import generator
import numpy
import onnx
from onnx import TensorProto

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/peers"))
from alike import difference  # noqa: E402
from worker import brief, serve  # noqa: E402

#: Extents of the symbols of a case; None is drawn for each symbol.
EXTENTS = [generator.BASE, None, None, None, dict.fromkeys(generator.BASE, 1), {**generator.BASE, "n": 0}]
SPECIAL = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e30, -1e30, 1e-30]
#: The optimizations of onnxruntime itself, applied as it loads the model.
LIVE = "onnxruntime all"


def session(data, level="DISABLE_ALL"):
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_{level}")
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    made = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return lambda feed: made.run(None, feed)


def reference(data):
    """ONNX's own evaluator, which defines what a model means."""
    from onnx.reference import ReferenceEvaluator

    made = ReferenceEvaluator(onnx.ModelProto.FromString(data))
    return lambda feed: made.run(None, feed)


def cases(model, given):
    """Of each case: whether its inputs are special, and the inputs."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    if given:
        held = numpy.load(given)
        yield False, {value.name: held[f"input_{value.name}"] for value in inputs}
    for number, extents in enumerate(EXTENTS):
        drawn = random.Random(number)
        symbols = dict(extents or {})
        shapes = {value.name: [extent(d, symbols, drawn) for d in value.type.tensor_type.shape.dim] for value in inputs}
        for special in (False, True) if number < 3 else (False,):
            yield special, {v.name: elements(shapes[v.name], v.type.tensor_type.elem_type, special, number) for v in inputs}


def extent(dim, symbols, drawn):
    if not dim.dim_param:
        return dim.dim_value
    return symbols.setdefault(dim.dim_param, drawn.choice([1, 2, 3, 4, 5, 7]))


def elements(shape, kind, special, seed):
    drawn = numpy.random.default_rng(seed)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
    if kind == TensorProto.BOOL:
        return drawn.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        low, high = (-4, 4) if dtype.kind == "i" else (0, 4)
        array = drawn.integers(low, high, shape).astype(dtype)
        if special and array.size:
            array.flat[drawn.integers(array.size)] = numpy.iinfo(dtype).min
        return array
    if kind == TensorProto.STRING:
        return numpy.full(shape, "a", object)
    array = (drawn.integers(-8, 9, shape) / 4).astype(dtype)
    if special:
        for _ in range(max(1, array.size // 4) if array.size else 0):
            array.flat[drawn.integers(array.size)] = numpy.array(drawn.choice(SPECIAL)).astype(dtype)
    return array


def outcome(run, feed):
    """Results, or the error in their place."""
    try:
        return run(feed), ""
    except Exception as error:
        return None, brief(error)


class Before:
    """A model as it was: its results at each case, by onnxruntime, and on demand by the reference evaluator."""

    def __init__(self, data, given):
        self.data, self.load = data, session
        try:
            self.run = session(data)
        except Exception:
            self.load, self.run = reference, reference(data)
        self.cases = [(special, feed, *outcome(self.run, feed)) for special, feed in cases(onnx.ModelProto.FromString(data), given)]

    def judged(self, feed, results):
        """Whether the reference evaluator has the results that the model had before: yes, no, or none."""
        try:
            held = reference(self.data)(feed)
        except Exception:
            return "none"
        return "yes" if difference(held, results) is None else "no"


def compared(before, run):
    """Counts of cases, and of each kind of difference the first one."""
    counts = {"by": "onnxruntime" if before.load is session else "reference", "cases": 0, "stop": 0}
    for special, feed, results, _ in before.cases:
        if results is None:
            counts["stop"] += 1
            continue
        counts["cases"] += 1
        own, why = outcome(run, feed)
        told = why or difference(results, own)
        if not told:
            continue
        kind = "stops" if own is None else "special" if special else "differs"
        if kind not in counts:
            shapes = {name: list(array.shape) for name, array in feed.items()}
            counts[kind] = {"what": told, "shapes": shapes, "reference": before.judged(feed, results)}
    return counts


def answers(job):
    """How results of each other file compare with those of the model."""
    data = pathlib.Path(job["model"]).read_bytes()
    if "" in job["tried"]:
        return
    yield "", "begun", [], ""
    before = Before(data, job.get("given"))
    live = job.get("live", False) and before.load is session
    for name in [LIVE] * live + job["others"]:
        if name in job["tried"]:
            continue
        yield name, "begun", [], ""
        try:
            run = session(data, "ENABLE_ALL") if name == LIVE else before.load(pathlib.Path(name).read_bytes())
        except Exception as error:
            yield name, "refused", [], brief(error)
            continue
        yield name, "compared", [compared(before, run)], ""


if __name__ == "__main__":
    serve(answers)
