#!/usr/bin/env python3
"""Makes the reference of quantized matrices: python3 scripts/models/quantize_reference.py

Writes corpus/models/quantized.npz: `x` in f32, with blocks of zeros of both signs, of equal magnitudes, of subnormal and of large
elements and of ties, and what the package `gguf` quantizes it to: bytes of `q4_0` and `q8_0`, words of 16 bits of `bf16`.

Needs gguf and numpy of requirements.txt.
"""

from pathlib import Path

import numpy
from gguf import GGMLQuantizationType
from gguf.quants import quantize

random = numpy.random.default_rng(29)
x = random.normal(size=(12, 192)).astype(numpy.float32)
x[0, :32] = 0.0
x[0, 32:64] = -0.0
x[1, :32] = numpy.where(numpy.arange(32) % 2 == 0, 1.5, -1.5)
x[1, 32:64] = numpy.where(numpy.arange(32) % 2 == 0, -1.5, 1.5)
x[2] *= numpy.float32(1e-6)
x[3] *= numpy.float32(1e4)
x[4, :32] = numpy.arange(-16, 16) / 2
x[5, :64] = numpy.arange(-32, 32) * 127 / 64
x[6] = numpy.round(x[6] * 4) / 4
x[7, :32] = numpy.float32(1e-36)
x[8] = random.integers(0, 2**31, 192).astype(numpy.uint32).view(numpy.float32) % numpy.float32(8)
arrays = {name: quantize(x, GGMLQuantizationType[name.upper()]) for name in ("q4_0", "q8_0", "bf16")}
arrays["bf16"] = arrays["bf16"].view(numpy.uint16)
numpy.savez(Path(__file__).parents[2] / "corpus/models/quantized.npz", x=x, **arrays)
