"""`torch.compile(backend="relaxc")` of graphs with operators that are not imported. Skipped where there is no PyTorch."""

import warnings

import pytest
import relaxc

torch = pytest.importorskip("torch")

import relaxc.torch  # noqa: E402

SIZES = (5, 0, 1, 7)


@pytest.fixture(autouse=True)
def forgotten():
    """Compilations of other tests are forgotten, and sizes out of tensors stay in the graph."""
    torch._dynamo.reset()
    config = torch._dynamo.config
    with config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True), torch.no_grad():
        yield


@torch.library.custom_op("relaxc_test::shift", mutates_args={"x"})
def shift(x: torch.Tensor, by: float) -> torch.Tensor:
    x.add_(by)
    return x.sum(0)


@shift.register_fake
def _(x, by):
    return x.new_empty(x.shape[1:])


@torch.library.custom_op("relaxc_test::some_columns", mutates_args=())
def some_columns(x: torch.Tensor) -> torch.Tensor:
    return x[:, : x.shape[0] % 3].clone()


@some_columns.register_fake
def _(x):
    return x.new_empty(x.shape[0], torch.library.get_ctx().new_dynamic_size())


def values(n):
    return torch.arange(n * 4, dtype=torch.float32).reshape(n, 4) * 0.37 - 1


def same(function, kinds, sizes=SIZES, dims={"x": 0}, made=1):
    """Values equal to those of eager PyTorch at all sizes, and which subgraphs relaxc compiles. The warnings, as one text."""
    before = len(relaxc.torch.compilations())
    compiled = relaxc.torch.dynamic(torch.compile(function, backend=relaxc.torch.backend), dims)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in sizes:
            mine, theirs = values(n), values(n)
            torch.manual_seed(n)
            found = compiled(mine)
            torch.manual_seed(n)
            torch.testing.assert_close(found, function(theirs), rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(mine, theirs)
    compilations = relaxc.torch.compilations()[before:]
    assert len(compilations) == made, compilations
    shown = ["".join("p" if part.fallback else "c" for part in one.subgraphs) for one in compilations]
    assert shown == [kinds] * made, compilations
    return "\n".join(str(one.message) for one in caught if one.category is relaxc.FallbackWarning)


def test_an_operator_in_the_middle_leaves_two_compiled_subgraphs():
    def function(x):
        y = torch.relu(x @ x.t() + 1)
        return (torch.special.bessel_j0(y + 2) * 2).sum(0), y.shape[0] * 3

    said = same(function, "cpc")
    assert "PyTorch runs 1 of 9 operators of a graph, in 1 of 3 subgraphs; relaxc compiles the others:" in said
    assert "1 × aten.special_bessel_j0.default: this operator is not imported (test_torch_subgraphs.py:" in said
    assert "return (torch.special.bessel_j0(y + 2) * 2).sum(0)" in said
    assert relaxc.torch.compilations()[-1].fallback == said


def test_an_operator_at_the_beginning():
    same(lambda x: torch.relu(torch.special.bessel_j0(x) - 1).sum(1), "pc")


def test_an_operator_at_the_end():
    same(lambda x: torch.special.bessel_j0(torch.relu(x - 1).sum(1) + 1), "cp")


def test_branches_that_do_not_depend_on_it_are_in_the_first_subgraph():
    def function(x):
        a = torch.special.bessel_j0(x + 9)
        b = torch.special.bessel_j0(x.abs() + 3)
        return a + b, (x * 2).sum(0), torch.special.bessel_j0(a + b)

    said = same(function, "cpcp")
    assert "3 × aten.special_bessel_j0.default" in said and "in 2 of 4 subgraphs" in said


def test_an_operator_that_writes_to_its_argument():
    def function(x):
        y = x * 2
        total = torch.ops.relaxc_test.shift(y, 0.5)
        return y + 1, total * 3

    assert "auto_functionalized_v2(relaxc_test.shift.default)" in same(function, "cpc")


def test_an_operator_that_writes_to_an_argument_of_the_model():
    def function(x):
        total = torch.ops.relaxc_test.shift(x, 0.5)
        return x + total

    same(function, "pc")


def test_sizes_that_only_an_operator_of_pytorch_knows():
    def function(x):
        found = torch.unique((x * 2).to(torch.int64))
        return found * 2 + found.shape[0], torch.ones(found.shape[0], 2).sum(1)

    same(function, "cpc")


def test_a_number_that_an_operator_of_pytorch_makes():
    def function(x):
        count = torch.special.bessel_j0(x.abs() + 1).ceil().to(torch.int64).sum().item()
        torch._check(count >= 0)
        return torch.ones(count) * 2, x * count

    same(function, "cpc", sizes=(5, 1, 0, 7))


def test_sizes_that_no_tensor_of_a_subgraph_has():
    def function(x):
        y = torch.special.bessel_j0(x.sum(0) + 9)
        return torch.ones(x.shape[0] // 2 + 1) * y.sum()

    same(function, "cpc")


def test_sizes_of_a_later_axis_that_no_tensor_of_a_subgraph_has():
    def function(x):
        columns = torch.ops.relaxc_test.some_columns(x)
        y = torch.special.bessel_j0(columns.abs().sum() + 9)
        return y.expand(columns.shape[1]) * 2

    same(function, "pcpc")


def test_random_numbers_come_in_their_order():
    def function(x):
        first = torch.rand_like(torch.special.bessel_j0(x + 9) * 2)
        second = torch.rand_like(x)
        return first * 2 - second, second + 1

    same(function, "cpcpc")


def test_of_a_graph_without_an_imported_operator_nothing_is_compiled():
    said = same(lambda x: torch.special.bessel_j0(x), "p")
    assert "PyTorch runs a graph of 2 operators, of which relaxc compiles nothing:" in said
    assert "aten._assert_scalar.default: the subgraph has no result" in said


def test_a_use_that_is_not_imported_is_found_behind_another_one():
    def function(x):
        y = torch.special.bessel_j0(x + 9) + 1
        return torch.polygamma(30, y.abs() + 1) * 2

    said = same(function, "cpcpc")
    assert "aten.polygamma.default" in said


def test_tensors_in_the_model_are_in_the_subgraphs_that_read_them():
    factors, bits = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.arange(24.0)

    def function(x):
        c = torch.tensor([1.0, -2.0, 3.0, 4.0])
        y = torch.special.bessel_j0(x + c.abs() + factors + 1)
        return y * c + bits[4:8]

    same(function, "cpc")


def test_control_flow_is_left_to_pytorch():
    def function(x):
        y = torch.relu(x - 0.5)
        return (torch.cond(y.sum() > 1, lambda a: a * 2, lambda a: a - 1, (y,)) + 1).sum(1)

    assert "1 × cond: this operator is not imported" in same(function, "cpc")


def test_complex_numbers_are_left_to_pytorch():
    said = same(lambda x: (torch.fft.fft(x * 2).abs() + 1).sum(0), "cpc")
    assert "1 × aten._fft_r2c.default: has the dtype torch.complex64, which relax does not have" in said
    assert "1 × aten.abs.default: its argument `_fft_r2c` has the dtype torch.complex64" in said


def test_floats_of_sizes_are_left_to_pytorch():
    said = same(lambda x: (torch.relu(x), x.shape[0] ** 0.5), "cp")
    assert "1 × aten.scalar_tensor.default: a description cannot say the float" in said


def test_a_graph_that_cannot_be_split_is_left_as_a_whole():
    """Its only argument has the size 2 * n, and it makes a tensor of size n."""
    from torch.fx.experimental.proxy_tensor import make_fx

    traced = make_fx(lambda x: (x.repeat(2).relu(), x.new_ones(x.shape[0])), tracing_mode="symbolic")(torch.ones(3))
    nodes = {node.name: node for node in traced.graph.nodes}
    (argument,) = (node for node in traced.graph.nodes if node.op == "placeholder")
    repeated = nodes["repeat"]
    size = argument.meta["val"].shape[0]
    argument.meta["val"] = repeated.meta["val"]
    repeated.replace_all_uses_with(argument)
    traced.graph.erase_node(repeated)
    traced.recompile()
    assert not isinstance(size, int)
    with pytest.warns(relaxc.FallbackWarning, match="which relaxc cannot split: nothing gives the size s"):
        relaxc.torch._backend._graph(traced, [])
    made = relaxc.torch.compilations()[-1]
    assert [part.fallback is None for part in made.subgraphs] == [False]


def test_tensors_without_elements_are_left_to_pytorch():
    compiled = torch.compile(lambda x: x * 2 + 1, backend="relaxc")
    with pytest.warns(relaxc.FallbackWarning, match="it is on the device meta"):
        assert compiled(torch.ones(3, device="meta")).device.type == "meta"


def test_options_are_those_of_compile():
    compiled = torch.compile(lambda x: x.exp() + 1, backend="relaxc", options={"threads": 1, "exact": True})
    torch.testing.assert_close(compiled(torch.ones(3)), torch.ones(3).exp() + 1)
    unknown = torch.compile(lambda x: x + 2, backend="relaxc", options={"thread": 1})
    with pytest.raises(Exception, match="options: there is no option 'thread': there are 'threads' and 'exact'"):
        unknown(torch.ones(3))
