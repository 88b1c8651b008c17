"""Trains scripts/train/resnet.rx beside PyTorch (beside.py says how): images of another size and number in nearly each step.

    python3 scripts/train/resnet.py
"""

import pathlib
import sys
import types

import beside
import numpy
from torch.nn import functional

PROGRAM = pathlib.Path(__file__).with_suffix(".rx")
CLASSES = 6
#: Inputs, outputs and stride of the residual blocks.
BLOCKS = ((8, 8, 1), (8, 16, 2), (16, 32, 2))


def shapes():
    """Of the weights, in the order of the parameters."""

    def with_norm(name, before, after, window):
        kernel, numbers = name.format("w"), (name.format("g"), name.format("s"))
        return [(kernel, (after, before, window, window)), *((one, (after,)) for one in numbers)]

    yield from with_norm("{}_stem", 3, 8, 3)
    for at, (before, after, stride) in enumerate(BLOCKS):
        yield from with_norm(f"{{}}1_{at}", before, after, 3)
        yield from with_norm(f"{{}}2_{at}", after, after, 3)
        if stride > 1:
            yield from with_norm(f"{{}}3_{at}", before, after, 1)
    yield "w_head", (BLOCKS[-1][1], CLASSES)
    yield "s_head", (CLASSES,)


def weights(random):
    """Kernels as He and others draw them, scales of 1, shifts of 0."""

    def drawn(name, shape):
        if name.startswith("w"):
            inputs = numpy.prod(shape[1:]) if len(shape) == 4 else shape[0]
            return random.normal(0, numpy.sqrt(2 / inputs), shape)
        return numpy.ones(shape) if name.startswith("g") else numpy.zeros(shape)

    return {name: drawn(name, shape) for name, shape in shapes()}


def loss(w, images, classes):
    def norm(x, name):
        return functional.batch_norm(x, None, None, w["g" + name], w["s" + name], training=True, eps=1e-5)

    x = functional.relu(norm(functional.conv2d(images, w["w_stem"], padding=1), "_stem"))
    x = functional.max_pool2d(x, 3, 2, 1)
    for at, (_, _, stride) in enumerate(BLOCKS):
        y = functional.relu(norm(functional.conv2d(x, w[f"w1_{at}"], stride=stride, padding=1), f"1_{at}"))
        y = norm(functional.conv2d(y, w[f"w2_{at}"], padding=1), f"2_{at}")
        short = norm(functional.conv2d(x, w[f"w3_{at}"], stride=stride), f"3_{at}") if stride > 1 else x
        x = functional.relu(y + short)
    return functional.cross_entropy(x.mean((2, 3)) @ w["w_head"] + w["s_head"], classes)


def batch(random, step, dtype):
    """Gratings in noise, of one of six directions, and the directions."""
    count, height, width = 2 + (step * 7) % 9, 12 + (step * 11) % 21, 12 + (step * 5) % 19
    classes = random.integers(0, CLASSES, count)
    angle = (classes * numpy.pi / CLASSES)[:, None, None]
    down, right = numpy.mgrid[0:height, 0:width]
    wave = random.uniform(0.8, 1.6, (count, 1, 1)) * (down * numpy.sin(angle) + right * numpy.cos(angle))
    gratings = numpy.sin(wave + random.uniform(0, 2 * numpy.pi, (count, 1, 1)))[:, None]
    colors = random.uniform(0.5, 1.5, (count, 3, 1, 1))
    images = colors * gratings + random.normal(0, 0.3, (count, 3, height, width))
    return images.astype(beside.NUMPY[dtype]), classes.astype("int64")


if __name__ == "__main__":
    sys.exit(beside.main(types.SimpleNamespace(program=PROGRAM, weights=weights, loss=loss, batch=batch)))
