"""Writes import/tests/conformance/varied.txt into the file that is given: ONNX's own tests of single nodes with one attribute
changed or left out, and what ONNX's reference evaluator gives for them. Needs the package onnx, and the folder of its tests."""

import signal
import sys
from collections import defaultdict
from pathlib import Path

import numpy
import onnx
from onnx import AttributeProto, defs, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

# Random, or of strings.
LEFT_OUT = ("bernoulli", "training_dropout", "dropout_random", "string", "regex", "tfidf", "random", "label_encoder")
# Tests of one operator in which the same attribute is changed.
TESTS = 5
SECONDS = 5

HEAD = """# Tests of ONNX with one attribute changed ("-": left out), and what its reference evaluator gives: of each output dtype, shape and the
# sum of its elements, of which each counts from 1 to 7 times. `python scripts/varied_onnx.py .cache/onnx/node FILE` wrote it.
"""


def attributes(node, version):
    """Of each attribute the value that the node has, or the default one."""
    schema = defs.get_schema(node.op_type, version, node.domain)
    given = {attribute.name: attribute for attribute in node.attribute}
    for name, about in sorted(schema.attributes.items()):
        own = given.get(name)
        held = own if own is not None else about.default_value
        if held.type in (AttributeProto.GRAPH, AttributeProto.TENSOR, AttributeProto.UNDEFINED, 0):
            if own is None and about.type.name in ("INT", "INTS"):
                yield name, about.type.name, None, False
            continue
        yield name, about.type.name, helper.get_attribute_value(held), own is not None


def others(kind, value, words):
    """Values beside the one that there is."""
    if kind == "INT":
        value = 0 if value is None else value
        return [v for v in dict.fromkeys([value - 1, value + 1, 1 - value, -2]) if v != value]
    if kind == "INTS":
        value = [] if value is None else list(value)
        if not value:
            return [[0], [1], [-1]]
        first, last = [value[0] + 1, *value[1:]], [*value[:-1], value[-1] - 1]
        return [first, last, value[:-1], [*value, 1]]
    if kind == "FLOAT":
        return [2 * value + 0.5, -value] if value else [0.5]
    if kind == "STRING":
        return sorted(word for word in words if word != value.decode()) + ["no_such_word"]
    return []


def shown(value):
    if isinstance(value, list):
        return "[" + ",".join(map(str, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def summed(output):
    """Dtype, shape and weighted sum; None of what is no tensor of numbers."""
    if not isinstance(output, numpy.ndarray | numpy.generic):
        return None
    output = numpy.asarray(output)
    if output.dtype.kind not in "fiub" or "float8" in str(output.dtype):
        return None
    flat = output.astype(numpy.float64).ravel()
    flat = numpy.nan_to_num(flat, nan=0.25, posinf=1e6, neginf=-1e6).clip(-1e6, 1e6)
    total = float((flat * (1 + numpy.arange(flat.size) % 7)).sum())
    return f"{output.dtype} {'x'.join(map(str, output.shape)) or '-'} {total:.7g}"


def inputs(folder, model):
    given = {}
    for at, value in enumerate(model.graph.input):
        path = folder / "test_data_set_0" / f"input_{at}.pb"
        tensor = onnx.TensorProto()
        tensor.ParseFromString(path.read_bytes())
        given[value.name] = numpy_helper.to_array(tensor)
    return given


def late(*_):
    raise TimeoutError


def evaluated(model, given):
    signal.alarm(SECONDS)
    try:
        results = ReferenceEvaluator(model).run(None, given)
    except Exception:
        return "refused"
    finally:
        signal.alarm(0)
    sums = [summed(result) for result in results]
    return None if None in sums else "; ".join(sums)


def single(folder):
    model = onnx.load(folder / "model.onnx")
    node = model.graph.node[0]
    of_tensors = all(value.type.HasField("tensor_type") for value in [*model.graph.input, *model.graph.output])
    version = next((own.version for own in model.opset_import if own.domain == ""), 0)
    fits = len(model.graph.node) == 1 and node.domain == "" and of_tensors and version
    return (model, version) if fits else None


def main(tests, target):
    signal.signal(signal.SIGALRM, late)
    numpy.seterr(all="ignore")
    folders = [folder for folder in sorted(Path(tests).iterdir()) if not any(word in folder.name for word in LEFT_OUT)]
    models = {folder: found for folder in folders if (found := single(folder))}
    words, seen, lines = defaultdict(set), defaultdict(int), []
    for model, _ in models.values():
        node = model.graph.node[0]
        for own in node.attribute:
            if own.type == AttributeProto.STRING:
                words[node.op_type, own.name].add(own.s.decode())
    for folder, (model, version) in models.items():
        node = model.graph.node[0]
        try:
            given = inputs(folder, model)
        except Exception:
            continue
        for name, kind, value, is_given in attributes(node, version):
            key = (node.op_type, name, is_given)
            seen[key] += 1
            if seen[key] > TESTS:
                continue
            edits = others(kind, value, words[node.op_type, name]) + (["-"] if is_given else [])
            for edit in edits:
                changed = onnx.ModelProto()
                changed.CopyFrom(model)
                own = changed.graph.node[0]
                kept = [held for held in own.attribute if held.name != name]
                del own.attribute[:]
                own.attribute.extend(kept)
                if edit != "-":
                    own.attribute.append(helper.make_attribute(name, edit, attr_type=AttributeProto.AttributeType.Value(kind)))
                for output in changed.graph.output:
                    output.type.tensor_type.ClearField("shape")
                result = evaluated(changed, given)
                if result is not None:
                    lines.append(f"{folder.name} {name} {'-' if edit == '-' else shown(edit)} => {result}\n")
    Path(target).write_text(HEAD + "".join(lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
