"""Programs that several tests call."""

import pytest
import relaxc

DOUBLE = """
def main(x: Tensor(("n", "m"), "f32")):
    return add(x, x)
"""


@pytest.fixture(scope="session")
def double():
    return relaxc.compile(DOUBLE)


def identity(dims, dtype, backend="interpreter"):
    """A function that copies elements; in the interpreter, as dtypes need no machine code."""
    return relaxc.compile(f'def main(x: Tensor({dims}, "{dtype}")):\n    return concat((x,), axis=0)\n', backend=backend)
