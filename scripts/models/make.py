#!/usr/bin/env python3
"""Makes the exported models of the corpus and their references: python3 scripts/models/make.py [NAME ...]

Random weights from a fixed seed, small configurations. Each model is exported once, with its sizes left open, to
corpus/models/onnx/NAME.onnx; NAME.npz holds for five shapes what went in (`0/in/tokens`) and what PyTorch
computed (`0/out/0`, in the order of the model's outputs). Needs torch, onnx and onnxscript; their versions are in requirements.txt.
"""

import sys
from pathlib import Path

import image_models
import numpy
import onnx
import text_models
import torch
from layers import RMSNorm
from torch.export import Dim

FOLDER = Path(__file__).resolve().parents[2] / "corpus" / "models" / "onnx"
OPSET = 20


def tokens(*shape):
    return torch.randint(0, text_models.WORDS, shape)


def mask(batch, length):
    """Padding at the end, a different amount for each sentence."""
    kept = torch.arange(batch)[:, None] % 3
    return (torch.arange(length)[None, :] < length - kept).to(torch.int64).clamp(min=0)


def bert(batch, length):
    types = (torch.arange(length)[None, :].expand(batch, length) >= length // 2).to(torch.int64)
    return {"tokens": tokens(batch, length), "types": types.contiguous(), "mask": mask(batch, length)}


def llama(batch, past, length):
    cache = {f"{kind}{layer}": torch.randn(batch, 2, past, 4) for layer in range(2) for kind in ("keys", "values")}
    return {"tokens": tokens(batch, length), **cache}


def image(batch, high, wide):
    return {"images": torch.randn(batch, 3, high, wide)}


BATCH, LENGTH, PAST, TARGET = Dim("batch"), Dim("length"), Dim("past"), Dim("target")
IMAGE = {"images": {0: BATCH, 2: Dim("high"), 3: Dim("wide")}}
SHORT = {0: BATCH, 1: LENGTH}

# Model, sizes that are open, inputs at sizes, the size it is exported at, and the five of the references.
MODELS = {
    "bert": (text_models.Bert, {"tokens": SHORT, "types": SHORT, "mask": SHORT}, bert, (2, 6),
             [(1, 1), (2, 6), (3, 7), (1, 17), (4, 4)]),
    "gpt2": (text_models.Gpt2, {"tokens": SHORT}, lambda b, n: {"tokens": tokens(b, n)}, (2, 6),
             [(1, 1), (2, 6), (3, 7), (1, 17), (4, 4)]),
    "t5": (text_models.T5, {"source": SHORT, "target": {0: BATCH, 1: TARGET}},
           lambda b, n, m: {"source": tokens(b, n), "target": tokens(b, m)}, (2, 6, 5),
           [(1, 1, 1), (2, 6, 5), (3, 7, 7), (1, 17, 3), (2, 3, 17)]),
    "llama": (text_models.Llama,
              {"tokens": SHORT, **{f"{kind}{layer}": {0: BATCH, 2: PAST} for layer in range(2) for kind in ("keys", "values")}},
              llama, (2, 5, 3), [(1, 0, 1), (2, 0, 7), (2, 5, 3), (3, 16, 1), (1, 7, 7)]),
    "experts": (text_models.Experts, {"x": SHORT}, lambda b, n: {"x": torch.randn(b, n, text_models.WIDTH)}, (2, 6),
                [(1, 1), (2, 6), (3, 7), (1, 17), (4, 4)]),
    "resnet": (image_models.ResNet, IMAGE, image, (2, 32, 40),
               [(1, 16, 16), (2, 32, 40), (3, 17, 31), (1, 33, 16), (2, 24, 24)]),
    "vit": (image_models.VisionTransformer, IMAGE, image, (2, 16, 24),
            [(1, 4, 4), (2, 16, 24), (3, 17, 31), (1, 32, 8), (2, 12, 12)]),
    "whisper": (image_models.Whisper, {"mel": {0: BATCH, 2: LENGTH}}, lambda b, n: {"mel": torch.randn(b, 8, n)},
                (2, 12), [(1, 1), (2, 12), (3, 7), (1, 31), (8, 8)]),
}


def trained_looking(model):
    """Norms whose statistics and weights are not 0 and 1."""
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0.0, 0.5)
            module.running_var.uniform_(0.5, 2.0)
        if isinstance(module, (torch.nn.BatchNorm2d, torch.nn.LayerNorm, RMSNorm)):
            module.weight.data.uniform_(0.5, 1.5)
        if isinstance(module, (torch.nn.BatchNorm2d, torch.nn.LayerNorm)):
            module.bias.data.uniform_(-0.5, 0.5)
    return model.eval()


def make(name):
    kind, open_sizes, inputs, exported_at, shapes = MODELS[name]
    torch.manual_seed(1)
    model = trained_looking(kind())
    program = torch.onnx.export(model, kwargs=inputs(*exported_at), dynamic_shapes=open_sizes, dynamo=True,
                                opset_version=OPSET, verbose=False)
    program.save(FOLDER / f"{name}.onnx")
    # Weights lie in the file itself, and no path of the machine that exported it.
    proto = onnx.load(FOLDER / f"{name}.onnx")
    for node in proto.graph.node:
        del node.metadata_props[:]
    del proto.graph.value_info[:]
    for function in proto.functions:
        for node in function.node:
            del node.metadata_props[:]
    onnx.checker.check_model(proto)
    onnx.save(proto, FOLDER / f"{name}.onnx")
    arrays = {}
    for index, shape in enumerate(shapes):
        given = inputs(*shape)
        with torch.no_grad():
            results = model(**given)
        for key, value in given.items():
            arrays[f"{index}/in/{key}"] = value.numpy()
        for place, value in enumerate(results if isinstance(results, tuple) else (results,)):
            arrays[f"{index}/out/{place}"] = value.numpy()
    numpy.savez_compressed(FOLDER / f"{name}.npz", **arrays)
    print(f"{name}: {len(proto.graph.node)} nodes, {(FOLDER / f'{name}.onnx').stat().st_size} bytes")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or MODELS:
        make(name)
