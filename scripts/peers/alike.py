"""Whether two systems have the same results, up to the rounding of sums in another order."""

# Halves have 11 bits, bfloat16 has 8.
TOLERANCES = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-9}
#: Beyond this the largest element no longer widens the bound for all others.
LARGEST = 1e6


def difference(expected, found):
    """None where two lists of arrays are alike, else the first difference."""
    import numpy

    if len(expected) != len(found):
        return f"{len(expected)} results and {len(found)}"
    for number, (one, other) in enumerate(zip(expected, found)):
        one, other = numpy.asarray(one), numpy.asarray(other)
        if one.shape != other.shape or one.dtype != other.dtype:
            return f"result {number}: {one.dtype}{list(one.shape)} and {other.dtype}{list(other.shape)}"
        alike = near(one, other) if one.dtype.kind == "f" else one == other
        if not numpy.all(alike):
            at = tuple(int(part) for part in numpy.argwhere(~alike)[0])
            return f"result {number}, element {list(at)}: {one[at]} and {other[at]}"
    return None


def near(one, other):
    """For each element. Sums may cancel: the rounding error that is left is of the size of the largest element."""
    import numpy

    tolerance = TOLERANCES[str(one.dtype)]
    largest = numpy.abs(one[numpy.isfinite(one)]).max(initial=1).astype(numpy.float64)
    with numpy.errstate(all="ignore"):
        return numpy.isclose(other, one, rtol=tolerance, atol=tolerance * min(largest, LARGEST), equal_nan=True)


def archived(file, prefix):
    """The arrays of an archive whose names begin so, in the order of their numbers."""
    import numpy

    held = numpy.load(file)
    names = sorted((name for name in held.files if name.startswith(prefix)), key=lambda name: (len(name), name))
    return [held[name] for name in names]
