#!/usr/bin/env python3
"""Makes the 4-bit variant of the Llama-like decoder: python3 scripts/models/quantize.py

The weights of its products become integers of 4 bits with a scale for each group of eight rows of a column:
weight[k, n] is about (quantized[k, n] - 8) * scale[k // 8, n]. Written to corpus/models:

  onnx/llama_q4.onnx    the exported model with those weights as UINT4, read by blocked DequantizeLinear (operator set 21)
  onnx/llama_q4.npz     five shapes: what goes in, and what PyTorch computes with the dequantized weights
  llama_q4.safetensors  the same weights for llama_q4.rx: eight rows of a column in each u32, the first in the lowest bits
  llama_q4.npz          five calls each of `prefill` and `decode`; the cache of a `decode` is what a prompt left

Needs corpus/models/onnx/llama.onnx (make.py), and the packages of requirements.txt.
"""

import numpy
import onnx
import torch
from make import FOLDER, MODELS, trained_looking
from onnx import TensorProto, helper, numpy_helper, version_converter
from safetensors.numpy import save_file

GROUP, LEAST, MOST, ZERO = 8, 0, 15, 8
OPSET = 21
PROMPTS = [(1, 1), (2, 7), (3, 16), (1, 31), (4, 5)]


def quantized(weight):
    """Integers of 4 bits and scales of a matrix whose rows are summed over."""
    rows, columns = weight.shape
    groups = weight.reshape(rows // GROUP, GROUP, columns)
    scale = (numpy.abs(groups).max(axis=1) / 7).astype(numpy.float32)
    codes = numpy.clip(numpy.rint(groups / scale[:, None]) + ZERO, LEAST, MOST).astype(numpy.uint8)
    return codes.reshape(rows, columns), scale


def dequantized(codes, scale):
    """As DequantizeLinear: the difference as f32, times the scale."""
    return (codes.astype(numpy.float32) - ZERO) * scale.repeat(GROUP, axis=0)


def eight_to_a_word(codes):
    """(k, n) to (k / 8, n)."""
    rows, columns = codes.shape
    parts = codes.reshape(rows // 8, 8, columns).astype(numpy.uint32)
    shifts = (4 * numpy.arange(8, dtype=numpy.uint32))[None, :, None]
    return numpy.bitwise_or.reduce(parts << shifts, axis=1)


def linears(model):
    """The layers that are quantized, and their weights as the product reads them."""
    for name, layer in model.named_modules():
        if isinstance(layer, torch.nn.Linear):
            yield name, layer, layer.weight.detach().numpy().T.copy()


def exported(model):
    """The exported model with quantized weights; those are found by their elements, as the exporter renames them."""
    proto = version_converter.convert_version(onnx.load(FOLDER / "llama.onnx"), OPSET)
    graph = proto.graph
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    readers = []
    for name, _, weight in linears(model):
        [found] = [key for key, value in stored.items() if numpy.array_equal(value, weight)]
        codes, scale = quantized(weight)
        [old] = [tensor for tensor in graph.initializer if tensor.name == found]
        graph.initializer.remove(old)
        data = helper.make_tensor(f"{name}.weight", TensorProto.UINT4, codes.shape, pairs(codes), raw=True)
        # One zero point for each scale: blocked quantization wants them of one shape.
        zeros = numpy.full(scale.shape, ZERO, numpy.uint8)
        zero = helper.make_tensor(f"{name}.zero", TensorProto.UINT4, scale.shape, pairs(zeros), raw=True)
        graph.initializer.extend([data, numpy_helper.from_array(scale, f"{name}.scale"), zero])
        inputs = [f"{name}.weight", f"{name}.scale", f"{name}.zero"]
        readers.append(helper.make_node("DequantizeLinear", inputs, [found], name, axis=0, block_size=GROUP))
    for reader in reversed(readers):
        graph.node.insert(0, reader)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def pairs(codes):
    """Two elements to a byte, the first in the lower bits."""
    flat = numpy.append(codes.reshape(-1), numpy.zeros(codes.size % 2, numpy.uint8))
    return (flat[0::2] | flat[1::2] << 4).tobytes()


def tensors(model):
    """What llama_q4.rx reads."""
    held = {}
    for name, _, weight in linears(model):
        codes, scale = quantized(weight)
        held[f"{name}.data"], held[f"{name}.scale"] = eight_to_a_word(codes), scale
    for name, value in model.state_dict().items():
        if f"{name.removesuffix('.weight')}.data" not in held:
            held[name] = value.numpy()
    return held


def noted(arrays, case, given, results):
    """Inputs by name and outputs by place."""
    arrays.update({f"{case}/in/{name}": value.numpy() for name, value in given.items()})
    arrays.update({f"{case}/out/{place}": value.numpy() for place, value in enumerate(results)})


def steps(model, inputs):
    """Prompts, and one more token after each."""
    arrays = {}
    for index, (batch, length) in enumerate(PROMPTS):
        prompt = inputs(batch, 0, length)
        results = model(**prompt)
        noted(arrays, f"prefill/{index}", {"tokens": prompt["tokens"]}, results)
        token = inputs(batch, 0, 1)["tokens"]
        cache = dict(zip(("keys0", "values0", "keys1", "values1"), results[1:]))
        noted(arrays, f"decode/{index}", {"tokens": token, **cache}, model(token, **cache))
    return arrays


def main():
    kind, _, inputs, _, shapes = MODELS["llama"]
    torch.manual_seed(1)
    model = trained_looking(kind())
    onnx.save(exported(model), FOLDER / "llama_q4.onnx")
    save_file(tensors(model), FOLDER.parent / "llama_q4.safetensors")
    with torch.no_grad():
        for _, layer, weight in linears(model):
            layer.weight.copy_(torch.from_numpy(dequantized(*quantized(weight)).T.copy()))
        arrays = {}
        for index, shape in enumerate(shapes):
            given = inputs(*shape)
            noted(arrays, str(index), given, model(**given))
        numpy.savez_compressed(FOLDER / "llama_q4.npz", **arrays)
        numpy.savez_compressed(FOLDER.parent / "llama_q4.npz", **steps(model, inputs))


if __name__ == "__main__":
    main()
