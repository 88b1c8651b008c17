"""Optimizers of ONNX models, each a function from model to model, and the process in which they run.

    optimizers.py            answers jobs of scripts/peers/worker.py: {"model": FILE, "folder": FOLDER, "exactly": NAME or none}

Its answers are [optimizer, "same" | "changed" | "refused", [file of the result], reason].
"""

import hashlib
import pathlib
import sys

import onnx
from onnx import helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/peers"))
from worker import brief, serve  # noqa: E402

#: Passes of onnxoptimizer that change the interface of a model, split it in two, or rewrite no nodes.
NOT_ASKED = {"lift_lexical_references", "nop", "rename_input_output", "rewrite_input_dtype", "set_unique_name_for_nodes", "split_init", "split_predict"}


def by_onnxruntime(level):
    def optimized(model):
        import onnxruntime

        onnxruntime.set_default_logger_severity(4)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level.upper()}")
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        place = pathlib.Path(FOLDER) / f"onnxruntime-{level}.onnx"
        options.optimized_model_filepath = str(place)
        onnxruntime.InferenceSession(model.SerializeToString(), options)
        return onnx.load(place)

    return optimized


def by_onnxscript(part):
    def optimized(model):
        import onnxscript.optimizer
        import onnxscript.rewriter

        given = onnx.ModelProto.FromString(model.SerializeToString())
        return onnxscript.optimizer.optimize(given) if part == "optimizer" else onnxscript.rewriter.rewrite(given)

    return optimized


def by_onnxsim(model):
    import onnxsim

    return onnxsim.simplify(model)[0]


def by_onnxslim(model):
    import onnxslim

    return onnxslim.slim(onnx.ModelProto.FromString(model.SerializeToString()))


def by_onnxoptimizer(passes):
    def optimized(model):
        import onnxoptimizer

        return onnxoptimizer.optimize(model, passes)

    return optimized


def optimizers():
    """All of them, by name."""
    import onnxoptimizer

    found = {f"onnxruntime {level}": by_onnxruntime(level) for level in ("basic", "extended")}
    found |= {f"onnxscript {part}": by_onnxscript(part) for part in ("optimizer", "rewriter")}
    found |= {"onnxsim": by_onnxsim, "onnxslim": by_onnxslim}
    each = [name for name in sorted(onnxoptimizer.get_available_passes()) if name not in NOT_ASKED]
    found |= {f"onnxoptimizer {name}": by_onnxoptimizer([name]) for name in each}
    return found | {"onnxoptimizer all fusions": by_onnxoptimizer(onnxoptimizer.get_fuse_and_elimination_passes())}


def signature(model):
    """What a model computes, as text: names of values by number, and constant nodes as constants."""
    return graph_signature(model.graph, {})


def graph_signature(graph, outer):
    names = dict(outer)
    lines = []

    def number(name):
        return names.setdefault(name, f"v{len(names)}") if name else ""

    for value in graph.input:
        number(value.name)
    for tensor in graph.initializer:
        names[tensor.name] = digest(tensor)
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            names[node.output[0]] = digest(node.attribute[0].t)
            continue
        inputs = [number(name) for name in node.input]
        attributes = [attribute_text(attribute, names) for attribute in sorted(node.attribute, key=lambda a: a.name)]
        lines.append(f"{node.domain}.{node.op_type} {inputs} {attributes} {[number(name) for name in node.output]}")
    return "\n".join(lines + [str([number(value.name) for value in graph.output])])


def attribute_text(attribute, names):
    if attribute.HasField("g"):
        return f"{attribute.name} {graph_signature(attribute.g, names)}"
    return f"{attribute.name} {helper.get_attribute_value(attribute)}"


def digest(tensor):
    """A text of the elements of a constant."""
    try:
        array = numpy_helper.to_array(tensor)
    except Exception:
        return hashlib.sha256(tensor.SerializeToString()).hexdigest()[:16]
    held = hashlib.sha256(array.tobytes() if array.dtype != object else repr(array.tolist()).encode())
    return f"{array.dtype}{array.shape}{held.hexdigest()[:16]}"


def answers(job):
    """How each optimizer fares with a model."""
    global FOLDER
    FOLDER = job["folder"]
    model = onnx.load(job["model"])
    before = signature(model)
    for name, optimized in optimizers().items():
        if name in job["tried"] or name != job.get("exactly", name):
            continue
        yield name, "begun", [], ""
        try:
            result = optimized(model)
        except Exception as error:
            yield name, "refused", [], brief(error)
            continue
        after = signature(result)
        if after == before:
            yield name, "same", [], ""
            continue
        data = result.SerializeToString()
        place = pathlib.Path(FOLDER) / f"{hashlib.sha256(after.encode()).hexdigest()[:12]}.onnx"
        place.write_bytes(data)
        yield name, "changed", [str(place)], ""


if __name__ == "__main__":
    serve(answers)
