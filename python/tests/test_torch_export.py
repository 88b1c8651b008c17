"""Exported programs beyond what `scripts/torch_programs.py` records. Skipped where there is no PyTorch."""

import pytest
import relaxc

torch = pytest.importorskip("torch")

import relaxc.torch  # noqa: E402


class Call(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def exported(function, *args, rows=()):
    dynamic = tuple({0: torch.export.Dim.DYNAMIC} if place in rows else None for place in range(len(args)))
    return torch.export.export(Call(function), args, dynamic_shapes=(dynamic,) if rows else None)


def adding(x, y):
    x += y
    return x * 2


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_what_a_model_writes_to_an_input_is_a_further_result(rows):
    program = exported(adding, torch.ones(3, 2), torch.ones(3, 2), rows=(0, 1))
    module = relaxc.compile(program, backend="interpreter")
    x, y = torch.arange(2.0 * rows).reshape(rows, 2), torch.full((rows, 2), 0.5)
    before = x.clone()
    twice, new = map(torch.from_dlpack, module(x, y))
    assert torch.equal(x, before), "the array of the caller is not written"
    assert torch.equal(new, x + y) and torch.equal(twice, 2 * (x + y))
    assert module["main"].outputs[1] == "new_args_0"
    assert "the model writes to `args_0`" in relaxc.torch.describe(program)[0]["notes"][0]


def test_a_model_that_writes_to_a_buffer_is_refused():
    program = torch.export.export(torch.nn.BatchNorm1d(2), (torch.ones(3, 2),))
    with pytest.raises(relaxc.UnsupportedError, match="buffer_mutation.*keeps nothing between calls"):
        relaxc.compile(program)
