#!/usr/bin/env python3
"""Makes the reference of GGUF files: python3 scripts/models/gguf_reference.py

Blocks are random; scales are finite and cover negative, zero and subnormal f16. Written:

  corpus/models/blocks.gguf           three rows of every block format, the plain formats, metadata of every type
  corpus/models/blocks.npz            the f32 elements of quantized tensors as the package `gguf` dequantizes them; those of plain
                                      tensors in their dtype, but for bf16, which is f32
  corpus/suite/quantized/FORMAT.rx    the first expectation: one block with short scales

Needs gguf and numpy of requirements.txt.
"""

import re
from pathlib import Path

import gguf
import numpy
from gguf import GGMLQuantizationType, GGUFValueType
from gguf.quants import dequantize

CORPUS = Path(__file__).parents[2] / "corpus"
ROWS = 3
# In bytes, as a block has them: name, dtype, offset, elements.
FIELDS = {
    "Q4_0": [("d", "f16", 0, 1), ("qs", "u32", 2, 4)],
    "Q4_1": [("d", "f16", 0, 1), ("m", "f16", 2, 1), ("qs", "u32", 4, 4)],
    "Q5_0": [("d", "f16", 0, 1), ("qh", "u32", 2, 1), ("qs", "u32", 6, 4)],
    "Q5_1": [("d", "f16", 0, 1), ("m", "f16", 2, 1), ("qh", "u32", 4, 1), ("qs", "u32", 8, 4)],
    "Q8_0": [("d", "f16", 0, 1), ("qs", "i8", 2, 32)],
    "Q4_K": [("d", "f16", 0, 1), ("dmin", "f16", 2, 1), ("scales", "u32", 4, 3), ("qs", "u32", 16, 32)],
    "Q5_K": [
        ("d", "f16", 0, 1),
        ("dmin", "f16", 2, 1),
        ("scales", "u32", 4, 3),
        ("qh", "u32", 16, 8),
        ("qs", "u32", 48, 32),
    ],
    "Q6_K": [("ql", "u32", 0, 32), ("qh", "u32", 128, 16), ("scales", "i8", 192, 16), ("d", "f16", 208, 1)],
}
DTYPES = {"f16": numpy.float16, "u32": numpy.uint32, "i8": numpy.int8}
# Zeros, subnormals, the least and the greatest normal number.
SCALES = numpy.array([0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x7BFF, 0xFBFF], numpy.uint16)


def finite(random, count):
    """Bits of f16: the special ones in turn, random ones between them."""
    bits = random.integers(0, 1 << 16, count, numpy.uint16)
    bits = numpy.where(bits & 0x7C00 == 0x7C00, bits & 0xBFFF, bits)
    bits[::2] = numpy.resize(SCALES, bits[::2].size)
    return random.permutation(bits)


def blocks(random, name, rows):
    """Bytes of rows of random blocks."""
    block, size = gguf.GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    count = 4 if block == 32 else 2
    data = random.integers(0, 256, (rows * count, size), numpy.uint8)
    for field, dtype, offset, _ in FIELDS[name]:
        if dtype == "f16":
            data[:, offset : offset + 2] = finite(random, rows * count).view(numpy.uint8).reshape(-1, 2)
    return data.reshape(rows, count * size)


def metadata(writer):
    """A key of each type, and arrays of each element type."""
    types = GGUFValueType
    values = {
        types.UINT8: [0, 255],
        types.INT8: [-128, 127],
        types.UINT16: [0, 65535],
        types.INT16: [-32768, 32767],
        types.UINT32: [0, 4294967295],
        types.INT32: [-2147483648, 2147483647],
        types.FLOAT32: [0.1, -0.0],
        types.BOOL: [False, True],
        types.STRING: ["", "Grüße"],
        types.UINT64: [0, 18446744073709551615],
        types.INT64: [-9223372036854775808, 9223372036854775807],
        types.FLOAT64: [0.1, -1e300],
    }
    for kind, both in values.items():
        writer.add_key_value(f"test.{kind.name.lower()}", both[1], kind)
        writer.add_key_value(f"test.array.{kind.name.lower()}", both, types.ARRAY, sub_type=kind)


def plain(random):
    """A tensor of each format without blocks."""
    halves = numpy.arange(0, 1 << 16, 1777, numpy.uint16)[:36].view(numpy.float16).reshape(3, 12)
    yield "plain.f32", random.standard_normal((2, 3), numpy.float32), GGMLQuantizationType.F32
    yield "plain.f64", random.standard_normal((2, 3)), GGMLQuantizationType.F64
    yield "plain.f16", halves, GGMLQuantizationType.F16
    yield "plain.bf16", random.integers(0, 256, (3, 24), numpy.uint8), GGMLQuantizationType.BF16
    for bits in (8, 16, 32, 64):
        info = numpy.iinfo(f"int{bits}")
        values = random.integers(info.min, info.max, (5,), info.dtype, endpoint=True)
        yield f"plain.i{bits}", values, GGMLQuantizationType[f"I{bits}"]


def write_file():
    random = numpy.random.default_rng(1)
    writer = gguf.GGUFWriter(CORPUS / "models" / "blocks.gguf", "test")
    writer.add_custom_alignment(64)
    metadata(writer)
    expected = {}
    for name, values, kind in plain(random):
        writer.add_tensor(name, values, raw_dtype=kind)
        expected[name] = dequantize(values, kind) if kind == GGMLQuantizationType.BF16 else values
    for name in FIELDS:
        data, kind = blocks(random, name, ROWS), GGMLQuantizationType[name]
        writer.add_tensor(f"blocks.{name.lower()}", data, raw_dtype=kind)
        expected[f"blocks.{name.lower()}"] = dequantize(data, kind)
    stack = blocks(random, "Q8_0", 2 * ROWS).reshape(2, ROWS, -1)
    writer.add_tensor("blocks.stack", stack, raw_dtype=GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    numpy.savez_compressed(CORPUS / "models" / "blocks.npz", **expected)


def expectation(random, name):
    """A call with one block, and what it gives."""
    _, size = gguf.GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    block = random.integers(0, 256, (1, size), numpy.uint8)
    arguments = []
    for field, dtype, offset, count in FIELDS[name]:
        kind = numpy.dtype(DTYPES[dtype])
        part = slice(offset, offset + count * kind.itemsize)
        if dtype == "f16":
            scale = {"d": 0.5, "m": -3.0, "dmin": 0.25}[field]
            block[0, part] = numpy.array([scale], kind).view(numpy.uint8)
        values = block[0, part].copy().view(kind).tolist()
        arguments.append(f'const([{values}], "{dtype}")')
    values = dequantize(block, GGMLQuantizationType[name]).tolist()
    return f"# run: dequantized({', '.join(arguments)}) == {values}"


def write_expectations():
    for index, name in enumerate(FIELDS):
        path = CORPUS / "suite" / "quantized" / f"{name.lower()}.rx"
        line = expectation(numpy.random.default_rng(index), name)
        text = re.sub("^# run: .*$", lambda _: line, path.read_text(), count=1, flags=re.MULTILINE)
        path.write_text(text)


if __name__ == "__main__":
    write_file()
    write_expectations()
