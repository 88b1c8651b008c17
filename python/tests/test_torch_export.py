"""Exported programs beyond what `scripts/torch_programs.py` records. Skipped where there is no PyTorch."""

import os
import traceback
import types

import pytest
import relaxc

torch = pytest.importorskip("torch")

import relaxc.torch  # noqa: E402
import sympy  # noqa: E402
from relaxc.torch._describe import _Walk  # noqa: E402


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


def counted_down(x):
    n = x.shape[0]
    return torch.arange(n, -n, -1.0), torch.arange(0, 2 * n, 3.0)


@pytest.mark.parametrize("rows", [0, 1, 2, 5])
def test_a_size_that_is_a_rounded_float(rows):
    module = relaxc.compile(exported(counted_down, torch.ones(4, 2), rows=(0,)), backend="interpreter")
    made = [torch.from_dlpack(one) for one in module(torch.ones(rows, 2))]
    assert all(map(torch.equal, made, counted_down(torch.ones(rows, 2))))


def test_a_bound_that_is_a_computed_float_is_refused():
    program = exported(lambda x: torch.arange(0, 0.5 * x.shape[0], 0.5), torch.ones(4, 2), rows=(0,))
    with pytest.raises(relaxc.UnsupportedError, match="arange|`end` is a float"):
        relaxc.compile(program, backend="interpreter")


def split(x, ends):
    return torch.tensor_split(x, ends)


def test_where_a_view_begins_in_memory_is_no_value():
    ends = torch.tensor([1, 3])
    module = relaxc.compile(exported(split, torch.ones(5, 2), ends, rows=(0,)), backend="interpreter")
    x = torch.arange(14.0).reshape(7, 2)
    for places in ([1, 3], [0, 7], [2, 3], [4, 4]):
        made = [torch.from_dlpack(part) for part in module(x, torch.tensor(places))]
        assert len(made) == 3 and all(map(torch.equal, made, torch.tensor_split(x, places)))


def test_a_constraint_of_an_operator_that_is_asked_twice_is_one():
    n = sympy.Symbol("n", integer=True, positive=True)
    root = os.path.dirname(torch.__file__)

    def guard(path, name):
        frame = traceback.FrameSummary(os.path.join(root, *path), 1, name, line="")
        return types.SimpleNamespace(expr=sympy.Ne(n - 1, 1), sloc=types.SimpleNamespace(framework_loc=frame, maybe_user_loc=None))

    def guards(*given):
        walk = _Walk(torch, [])
        environment = types.SimpleNamespace(guards=given, replace=lambda expression: expression)
        walk.fake_mode = types.SimpleNamespace(shape_env=environment)
        return [made["origin"] for made in walk.guards()]

    # In C++, what asks is not known: the last frame of Python is that of a module's call.
    of_operator, in_call = guard(("_prims_common", "__init__.py"), "check"), guard(("nn", "modules", "module.py"), "_call_impl")
    assert guards(of_operator, in_call) == ["operator"]
    assert guards(in_call) == ["dispatcher"]
    in_function = guard(("nn", "functional.py"), "batch_norm")
    assert guards(in_function) == ["program"]


class Stages(torch.nn.Module):
    """The norm over the last axis makes PyTorch ask whether the second stage has one pixel, and take 16 for the smallest image."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = torch.nn.Conv2d(1, 4, 4, 4), torch.nn.LayerNorm(4), torch.nn.Conv2d(4, 2, 2, 2)

    def forward(self, x):
        normed = self.norm(self.first(x).permute(0, 2, 3, 1))
        return self.second(normed.permute(0, 3, 1, 2))


def test_a_bound_that_a_check_of_pytorch_made_is_not_required():
    model = Stages().eval()
    dynamic = ({0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC},)
    with torch.no_grad():
        module = relaxc.compile(torch.export.export(model, (torch.ones(2, 1, 32, 48),), dynamic_shapes=dynamic), backend="interpreter")
        for shape in ((1, 1, 8, 9), (2, 1, 15, 16), (0, 1, 8, 8)):
            x = torch.randn(shape)
            torch.testing.assert_close(torch.from_dlpack(module(x)), model(x))
    with pytest.raises(relaxc.Trap, match="conv2d"):
        module(torch.ones(1, 1, 7, 8))


def test_a_bound_that_the_caller_declares_is_required():
    rows = torch.export.Dim("rows", min=4)
    program = torch.export.export(Doubled(), (torch.ones(6, 3),), dynamic_shapes=({0: rows},))
    module = relaxc.compile(program, backend="interpreter")
    assert module(torch.ones(4, 3)).shape == (4, 3)
    with pytest.raises(relaxc.Trap, match="4"):
        module(torch.ones(3, 3))


class Doubled(torch.nn.Module):
    def forward(self, x):
        return x + x


def branching(x):
    return x * 2 if x.shape[0] != 2 else x - 1


def test_a_branch_of_the_model_is_required():
    program = exported(branching, torch.ones(4, 3), rows=(0,))
    with pytest.raises(relaxc.Trap, match="x.shape.0. != 2"):
        relaxc.compile(program, backend="interpreter")(torch.ones(2, 3))


def test_a_model_that_writes_to_a_buffer_is_refused():
    program = torch.export.export(torch.nn.BatchNorm1d(2), (torch.ones(3, 2),))
    with pytest.raises(relaxc.UnsupportedError, match="buffer_mutation.*keeps nothing between calls"):
        relaxc.compile(program)


def test_a_weight_without_elements_is_refused():
    with torch.device("meta"):
        model = torch.nn.Linear(2, 3)
    exported = torch.export.export(model, (torch.ones(4, 2, device="meta"),))
    with pytest.raises(relaxc.UnsupportedError, match="the weight `.*weight` has no elements: it is on the device meta"):
        relaxc.compile(exported)
