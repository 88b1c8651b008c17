"""The ONNX models that optimizers are asked about: generated ones, models of the corpus, and ONNX's tests of nodes with symbolic dims."""

import os
import pathlib

import generator
import numpy
import onnx
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: Operands that decide a shape or a bound: they become constants, as models have them.
CONSTANTS = {"Reshape": [1], "Expand": [1], "Tile": [1], "Slice": [1, 2, 3, 4], "Pad": [1, 2, 3], "Squeeze": [1], "Unsqueeze": [1], "Split": [1],
             "TopK": [1], "OneHot": [1], "Resize": [1, 2, 3], "ConstantOfShape": [0], "CumSum": [1], "Clip": [1, 2], "Trilu": [1],
             "CenterCropPad": [1], "Gather": [1], "Dropout": [1, 2], "BatchNormalization": [1, 2, 3, 4], "Conv": [1, 2], "Gemm": [1, 2]}
SECOND = [f"Reduce{kind}" for kind in "Sum Mean Max Min Prod L1 L2 LogSum LogSumExp SumSquare".split()]


def tensor(path):
    held = onnx.TensorProto()
    held.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(held)


def given_inputs(model, folder):
    """The arrays of a test for the inputs of a model."""
    return {value.name: tensor(folder / f"input_{i}.pb") for i, value in enumerate(model.graph.input)}


def with_constants(model, arrays):
    """Operands that decide shapes as initializers, and the arrays of the inputs that are left."""
    fixed = set()
    for node in model.graph.node:
        places = [1] if node.op_type in SECOND else CONSTANTS.get(node.op_type, [])
        fixed |= {node.input[i] for i in places if i < len(node.input)}
    fixed &= set(arrays)
    kept = [value for value in model.graph.input if value.name not in fixed]
    if not kept:
        return arrays
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(arrays[name], name) for name in sorted(fixed))
    return {value.name: arrays[value.name] for value in kept}


def with_symbols(model, chosen):
    """A copy in which each extent that `chosen` accepts is a symbol, one for all equal ones; outputs lose theirs."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    for value in copy.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.HasField("dim_value") and chosen(axis, dim.dim_value):
                dim.dim_param = f"d{dim.dim_value}"
    for number, value in enumerate(copy.graph.output):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"o{number}_{axis}"
    return copy


def is_valid(model, arrays):
    """Whether shapes can be inferred and the model still has a value at the inputs of the test."""
    import samples

    try:
        onnx.checker.check_model(model, full_check=True)
        samples.session(model.SerializeToString())(arrays)
    except Exception:
        return False
    return True


def symbolic(model, arrays):
    """The model with as many symbolic dims as keep it valid."""
    for chosen in (lambda axis, extent: extent > 1, lambda axis, extent: axis == 0 and extent > 1):
        made = with_symbols(model, chosen)
        if is_valid(made, arrays):
            return made
    return model


def node_test(folder):
    """The model of a test with its inputs; None where an input is no tensor of numbers."""
    model = onnx.load(folder / "model.onnx")
    types = [value.type for value in [*model.graph.input, *model.graph.output]]
    if any(not kind.HasField("tensor_type") or kind.tensor_type.elem_type == onnx.TensorProto.STRING for kind in types):
        return None
    arrays = with_constants(model, given_inputs(model, folder / "test_data_set_0"))
    return symbolic(model, arrays), arrays


def programs(generated, nodes, scratch):
    """Name, model, and a file with inputs or None."""
    for path in sorted((ROOT / "corpus/models").rglob("*.onnx")):
        yield f"corpus/{path.name}", path.read_bytes(), None
    for seed in range(generated):
        model = generator.generated(seed)
        if model is not None:
            yield f"generated/{seed}", model.SerializeToString(), None
    folder = pathlib.Path(os.environ.get("RELAX_ONNX_TESTS", ROOT / ".cache/onnx")) / "node"
    for place in sorted(folder.iterdir())[:nodes] if folder.exists() else []:
        try:
            made = node_test(place)
        except Exception:
            made = None
        if made is not None:
            file = scratch / "given.npz"
            numpy.savez(file, **{f"input_{name}": array for name, array in made[1].items()})
            yield f"node/{place.name.removeprefix('test_')}", made[0].SerializeToString(), str(file)
