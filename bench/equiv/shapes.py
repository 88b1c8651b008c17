"""Operators of generated models that move elements: transposes, reshapes, slices, pads, joins and the like."""

import numpy
from generator import BOOL, FLOAT, INT64, NUMPY

FAR = 2**63 - 1


def transposed(model, x):
    if x.rank < 2:
        return None
    order = list(range(x.rank))
    model.random.shuffle(order)
    if model.chance(0.15):
        return model.node("Transpose", [x], x.dtype, x.dims[::-1])
    return model.node("Transpose", [x], x.dtype, [x.dims[i] for i in order], perm=order)


def reshaped(model, x):
    """By a constant with 0 and -1, by `allowzero`, or by a shape that the run computes."""
    way = model.pick(["flatten", "keep", "merge", "same", "computed", "twice"])
    if way == "flatten" and x.rank:
        axis = model.random.randint(0, x.rank)
        sides = [int(numpy.prod(part)) for part in (x.extents[:axis], x.extents[axis:])]
        return model.node("Flatten", [x], x.dtype, [(None, sides[0]), (None, sides[1])], axis=axis - x.rank if axis < x.rank and model.chance(0.4) else axis)
    if way == "keep" and x.rank >= 2:
        at = model.random.randrange(x.rank)
        shape = [-1 if i == at else 0 for i in range(x.rank)]
        return model.node("Reshape", [x, model.integers(shape)], x.dtype, x.dims)
    if way == "merge" and x.rank >= 2 and 0 not in x.extents:
        shape = [0] * (x.rank - 2) + [-1]
        return model.node("Reshape", [x, model.integers(shape)], x.dtype, x.dims[:-2] + [(None, x.extents[-1] * x.extents[-2])])
    if way == "same" and all(isinstance(text, int) for text, _ in x.dims):
        zero = {"allowzero": 1} if model.opset >= 14 and model.chance(0.5) else {}
        return model.node("Reshape", [x, model.integers(x.extents)], x.dtype, x.dims, **zero)
    if way == "computed":
        return by_its_shape(model, x)
    if way == "twice" and x.rank and 0 not in x.extents:
        flat = model.node("Reshape", [x, model.integers([-1])], x.dtype, [(None, int(numpy.prod(x.extents)))])
        shape = model.pick([[1, -1], [-1, 1], [-1], [0, 1]])
        extent = flat.dims[0]
        return model.node("Reshape", [flat, model.integers(shape)], x.dtype, [(1, 1) if text == 1 else extent for text in shape])
    return None


def by_its_shape(model, x):
    """A reshape to parts of the operand's own shape."""
    if x.rank < 2:
        return None
    shape = model.node("Shape", [x], INT64, [(x.rank, x.rank)])
    model.values.remove(shape)
    at = model.random.randrange(x.rank)
    index = at - x.rank if model.chance(0.5) else at
    if model.chance(0.5):
        part = model.node("Gather", [shape, model.integers([index])], INT64, [(1, 1)])
    else:
        ends = at + 1 if model.chance(0.5) or at + 1 == x.rank else at + 1 - x.rank
        part = model.node("Slice", [shape, model.integers([at]), model.integers([ends])], INT64, [(1, 1)])
    model.values.remove(part)
    joined = model.node("Concat", [part, model.integers([-1])], INT64, [(2, 2)], axis=0)
    model.values.remove(joined)
    rest = int(numpy.prod([extent for i, extent in enumerate(x.extents) if i != at]))
    return model.node("Reshape", [x, joined], x.dtype, [x.dims[at], (None, rest)]) if x.extents[at] else None


def sliced(model, x):
    """Along one or two axes, forwards and backwards, with ends out of range."""
    if not x.rank:
        return None
    axes = model.random.sample(range(x.rank), model.random.randint(1, min(2, x.rank)))
    starts, ends, steps, dims = [], [], [], list(x.dims)
    for axis in axes:
        text, extent = x.dims[axis]
        start, end, step = model.pick([(0, FAR, 1), (1, FAR, 1), (0, -1, 1), (-1, -FAR - 1, -1), (0, 2, 1), (-3, FAR, 2), (FAR, -FAR, -2), (1, 1, 1), (0, 100, 1), (-2, FAR, 1)])
        starts, ends, steps = starts + [start], ends + [end], steps + [step]
        kept = len(range(extent)[slice(start, end if end > -FAR else None, step)])
        whole = (start, step) in ((0, 1), (-1, -1)) and abs(end) >= 100
        dims[axis] = (text, extent) if whole else (kept if isinstance(text, int) else None, kept)
    written = [axis - x.rank if model.chance(0.4) else axis for axis in axes]
    inputs = [x, model.integers(starts), model.integers(ends), model.integers(written)]
    inputs += [model.integers(steps)] if steps != [1] * len(steps) or model.chance(0.3) else []
    return model.node("Slice", inputs, x.dtype, dims)


def joined(model, x):
    """With itself, or with another value of the same dims elsewhere; maybe a chain of two, along other axes."""
    if not x.rank:
        return None
    alike = [v for v in model.values if v.rank == x.rank and v.dtype == x.dtype]
    at, axis = model.axis(x)
    fit = [v for v in alike if all(i == at or a == b and a[0] is not None for i, (a, b) in enumerate(zip(v.dims, x.dims)))]
    parts = [x] + [model.pick(fit or [x]) for _ in range(model.pick([0, 1, 1, 2]))]
    extent = sum(part.extents[at] for part in parts)
    known = all(isinstance(part.dims[at][0], int) for part in parts)
    dims = [pair if i != at else pair if len(parts) == 1 else (extent if known else None, extent) for i, pair in enumerate(x.dims)]
    return model.node("Concat", parts, x.dtype, dims, axis=axis)


def padded(model, x):
    """Pads of 0, 1 and -1, in all modes."""
    if not x.rank or x.dtype == BOOL or 0 in x.extents:
        return None
    pads = [model.pick([0, 0, 0, 1, 2, -1]) for _ in range(2 * x.rank)]
    if x.rank > 2 and model.chance(0.7):
        pads[:2] = pads[x.rank:x.rank + 2] = [0, 0]
    mode = model.pick(["constant", "constant", "constant", "reflect", "edge"])
    grown = [low + high for low, high in zip(pads[:x.rank], pads[x.rank:])]
    if any(extent + more < 0 for extent, more in zip(x.extents, grown)) or mode == "reflect" and max(pads) >= min(x.extents):
        return None
    inputs = [x, model.integers(pads)]
    if mode == "constant" and model.chance(0.5):
        inputs.append(model.constant(numpy.array(model.pick([0, 0, 1]), NUMPY[x.dtype])))
    dims = [pair if not more else (pair[0] + more if isinstance(pair[0], int) else None, pair[1] + more) for pair, more in zip(x.dims, grown)]
    return model.node("Pad", inputs, x.dtype, dims, mode=mode)


def gathered(model, x):
    """By constant indices, of which some are negative, and of rank 0, 1 or 2."""
    if not x.rank or x.dtype == BOOL:
        return None
    at, axis = model.axis(x)
    if not x.extents[at]:
        return None
    indices = model.pick([0, -1, [0], [-1], [0, -1], [[0, -1]], []])
    shape = numpy.shape(indices)
    dims = x.dims[:at] + [(extent, extent) for extent in shape] + x.dims[at + 1:]
    return model.node("Gather", [x, model.integers(indices)], x.dtype, dims, axis=axis)


def expanded(model, x):
    """To a constant shape, with 1 where the operand keeps its extent, maybe of a higher rank."""
    shape = [1 if pair[0] != 1 or model.chance(0.5) else model.pick([1, 2, 0]) for pair in x.dims]
    dims = [(extent, extent) if pair[0] == 1 else pair for pair, extent in zip(x.dims, shape)]
    if model.chance(0.3):
        extent = model.pick([1, 2])
        shape, dims = [extent] + shape, [(extent, extent)] + dims
    return model.node("Expand", [x, model.integers(shape)], x.dtype, dims)


def tiled(model, x):
    if not x.rank or x.dtype == BOOL:
        return None
    repeats = [model.pick([1, 1, 1, 2, 0]) for _ in x.dims]
    dims = [pair if times == 1 else (pair[0] * times if isinstance(pair[0], int) else None, pair[1] * times) for pair, times in zip(x.dims, repeats)]
    return model.node("Tile", [x, model.integers(repeats)], x.dtype, dims)


def squeezed(model, x):
    """Named axes, or all of extent 1 where every extent is known."""
    ones = [axis for axis, pair in enumerate(x.dims) if pair[0] == 1]
    if not ones:
        return None
    if all(isinstance(text, int) for text, _ in x.dims) and model.chance(0.4):
        return model.node("Squeeze", [x], x.dtype, [pair for pair in x.dims if pair[0] != 1])
    axes = model.random.sample(ones, model.random.randint(1, len(ones)))
    written = [axis - x.rank if model.chance(0.4) else axis for axis in axes]
    return model.node("Squeeze", [x, model.integers(written)], x.dtype, [pair for i, pair in enumerate(x.dims) if i not in axes])


def unsqueezed(model, x):
    """At one or two axes, in any order."""
    if x.rank > 4:
        return None
    count = model.pick([1, 1, 2])
    rank = x.rank + count
    axes = model.random.sample(range(rank), count)
    written = [axis - rank if model.chance(0.4) else axis for axis in axes]
    rest = iter(x.dims)
    dims = [(1, 1) if i in axes else next(rest) for i in range(rank)]
    return model.node("Unsqueeze", [x, model.integers(written)], x.dtype, dims)


def split(model, x):
    """In two or three parts along a known extent; the first part, or all joined again in some order."""
    fit = [axis for axis, pair in enumerate(x.dims) if isinstance(pair[0], int) and pair[0] >= 1]
    if not fit or x.dtype == BOOL:
        return None
    at = model.pick(fit)
    extent = x.dims[at][0]
    first = model.random.randint(0, extent)
    sizes = [first, extent - first]
    made = model.node("Split", [x, model.integers(sizes)], x.dtype, x.dims, outputs=2, axis=at - x.rank if model.chance(0.4) else at)
    for part, size in zip(made, sizes):
        part.dims = [pair if i != at else (size, size) for i, pair in enumerate(x.dims)]
    if model.chance(0.4):
        return model.node("Concat", made[::model.pick([1, -1])], x.dtype, x.dims, axis=at)
    return model.pick(made)


def cumulated(model, x):
    if x.dtype != FLOAT or not x.rank:
        return None
    _, axis = model.axis(x)
    flags = {"exclusive": model.pick([0, 1]), "reverse": model.pick([0, 1])}
    return model.node("CumSum", [x, model.constant(numpy.array(axis, numpy.int64))], FLOAT, x.dims, **flags)


SHAPE_KINDS = {"transposed": transposed, "reshaped": reshaped, "sliced": sliced, "joined": joined, "padded": padded, "gathered": gathered,
               "expanded": expanded, "tiled": tiled, "squeezed": squeezed, "unsqueezed": unsqueezed, "split": split, "cumulated": cumulated}
