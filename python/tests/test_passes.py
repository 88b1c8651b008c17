"""`opt`, `rewrite` and `versions`: as the command prints it (cli/tests/cmd/rewrite.trycmd)."""

import numpy as np
import pytest
import relaxc

CHAIN = """
def main(a: Tensor(("m", "k"), "f32"), b: Tensor(("k", "n"), "f32"), x: Tensor(("n", "p"), "f32")):
    y = matmul(a, b)
    return matmul(y, x)
"""
TURNED = """
def main(a: Tensor(("n", "m"), "f32"), b: Tensor(("m", "k"), "f32")):
    y = matmul(permute_dims(b), permute_dims(a))
    return relu(relu(permute_dims(y)))
"""


def test_phases_print_programs_that_run():
    given = [np.arange(6, dtype="f4").reshape(2, 3), np.ones((3, 1), "f4"), np.full((1, 4), 2, "f4")]
    expected = given[0] @ given[1] @ given[2]
    for phase in ("P0", "P1", "P2.1", "P2.2", "P2.3"):
        text = relaxc.opt(CHAIN, to=phase)
        assert f'module_attr("phase", "{phase}")' in text
        assert (np.asarray(relaxc.run(text, *given)) == expected).all()


def test_passes_by_their_names():
    text = relaxc.opt(TURNED, passes=["normalize", "convert_to_dataflow"])
    assert "with dataflow():" in text and text.count("relu(") == 2 and "phase" not in text
    assert relaxc.opt(TURNED, passes="normalize,convert_to_dataflow") == text


def test_the_target_decides_the_schedule():
    cuda = relaxc.opt(CHAIN, to="P2.2", backend="cuda")
    assert "blockIdx" in cuda and "blockIdx" not in relaxc.opt(CHAIN, to="P2.2")
    assert relaxc.opt(CHAIN, to="P2.3", exact=True) != relaxc.opt(CHAIN, to="P2.3")


@pytest.mark.parametrize(
    "arguments, part",
    [
        ({"to": "P7"}, "there is no phase `P7`; there are P0, P1, P2.1, P2.2, P2.3"),
        ({"to": "P1", "backend": "tpu"}, "there is no backend `tpu`; there are interp, cpu, wgpu, cuda"),
        ({"passes": ["fuse"]}, "fuse"),
        ({"to": "P1", "passes": ["normalize"]}, "expected either `to`"),
        ({}, "expected either `to`"),
    ],
)
def test_arguments_of_opt_that_are_none(arguments, part):
    with pytest.raises(relaxc.ArgumentError, match=part):
        relaxc.opt(CHAIN, **arguments)


def test_memory_report():
    report = relaxc.memory_report(CHAIN, dims={"m": 2, "k": 3, "n": 4, "p": 5})
    (main,) = report.functions
    assert main["function"] == "main" and main["planned"] in report.text and str(report) == report.text
    (at,) = main["figures"]
    assert at["dims"] == {"k": 3, "m": 2, "n": 4, "p": 5}
    # The first product is larger than what is left of it, in bytes of f32.
    assert at["bytes"]["all"] >= 4 * (2 * 4 + 2 * 5) and at["bytes"]["planned"] >= at["bytes"]["in_use"] > 0
    assert report._repr_html_().startswith("<svg") and "m = 2" in report.svg
    several = relaxc.memory_report(CHAIN, dims={"k": 3}).functions[0]["figures"]
    assert len(several) > 1 and all(one["dims"]["k"] == 3 for one in several)
    assert relaxc.memory_report(CHAIN, to="P1").functions == []


@pytest.mark.parametrize("dims, part", [({"q": 1}, "has the dim `q`"), ({"m": -1}, "at least 0, found -1")])
def test_dims_of_a_memory_report_that_are_none(dims, part):
    with pytest.raises(relaxc.ArgumentError, match=part):
        relaxc.memory_report(CHAIN, dims=dims)


def test_programs_that_are_refused():
    for call in (lambda text: relaxc.opt(text, to="P1"), relaxc.rewrite, relaxc.versions):
        with pytest.raises(relaxc.ProgramError, match="frobnicate"):
            call('def main(x: Tensor((3,), "f32")):\n    return frobnicate(x)\n')
    with pytest.raises(relaxc.ProgramError, match="phase"):
        relaxc.opt(relaxc.opt(CHAIN, to="P2.1"), to="P0")


def test_rewrite():
    made = relaxc.rewrite(TURNED)
    assert made.text.count("permute_dims") == 0 and made.text.count("relu(") == 1
    (region,) = made.regions
    assert region.function == "main" and len(region.outputs) == 1
    assert [step.rule for step in region.steps] == [
        "relu_of_relu",
        "transpose_of_matmul (backwards)",
        "transpose_of_transpose",
    ]
    assert region.steps[2].after == "matmul(a, b)"
    kept = relaxc.rewrite(TURNED, rules=["cast"])
    assert kept.text.count("permute_dims") == 3 and kept.regions == ()
    with pytest.raises(relaxc.ArgumentError, match="there is no family `casts`"):
        relaxc.rewrite(TURNED, rules=["casts"])
    with pytest.raises(relaxc.ArgumentError, match="limits: node=1"):
        relaxc.rewrite(TURNED, limits={"node": 1})


def test_versions():
    assert relaxc.versions(CHAIN).functions == {"main": ()}
    made = relaxc.versions(CHAIN, approximate=True)
    first, second = made.functions["main"]
    assert first.guard == ("m <= k", "n <= p") and second.guard == ()
    assert first.operations == "k * m * n + m * n * p" and second.operations == "k * m * p + k * n * p"
    assert first.taken is not None and first.taken["m"] <= first.taken["k"] and first.launches == "2"
    a, b, x = np.ones((2, 3), "f4"), np.ones((3, 1), "f4"), np.ones((1, 4), "f4")
    assert (np.asarray(relaxc.run(made.text, a, b, x)) == 3).all()


NORM = """
def main(x: Tensor(("n", 4), "f32")):
    return subtract(x, mean(x, axis=[1], keepdims=True))

def first(x: Tensor(("n",), "i64")):
    return add(x, x)
"""


def test_diff_of_a_program_and_its_machine_code():
    made = relaxc.diff(NORM, cases=20)
    assert made and made.verdict == "the same" and made.difference is None
    # Both functions.
    assert made.counts["compared"] == 40 and made.counts["rejected"] == 0
    assert relaxc.diff(NORM, entry="first", cases=5).counts["compared"] == 5
    assert relaxc.diff(NORM, backend="interpreter", cases=5).counts["compared"] == 10


def test_diff_of_two_programs():
    shifted = NORM.replace("add(x, x)", "multiply(x, const(2, \"i64\"))")
    assert relaxc.diff(NORM, shifted, cases=20)
    wrong = NORM.replace("add(x, x)", "multiply(x, x)")
    made = relaxc.diff(NORM, wrong, cases=50)
    assert not made and made.verdict == "different"
    found = made.difference
    # Made smaller; 0 and 2 are the same in both.
    assert found.function == "first" and found.dims == {"n": 1} and list(found.arguments) == ["x"]
    assert found.expected != found.found and found.why
    # As the command takes values.
    assert found.arguments["x"].startswith("const([") and found.expected.endswith('"i64")')


def test_diff_where_nothing_is_compared():
    text = 'def main(x: Tensor((3,), "f32")):\n    assert_op(less(sum(x), const(-1000.0, "f32")), format="no")\n    return x\n'
    made = relaxc.diff(text, cases=3)
    assert not made and made.verdict == "nothing compared" and made.counts["trapped_alike"] == 3


@pytest.mark.parametrize(
    "arguments, part",
    [
        ({"entry": "second"}, "there is no common function `second`; there are main, first"),
        ({"cases": 0}, "at least one case"),
        ({"backend": "tpu"}, "expected 'cpu' or 'interpreter'"),
        ({"against": NORM, "backend": "cpu"}, "another program is interpreted"),
    ],
)
def test_arguments_of_diff_that_are_none(arguments, part):
    with pytest.raises(relaxc.ArgumentError, match=part):
        relaxc.diff(NORM, **arguments)


SUM = """
def main(x: Tensor(("n", "m"), "f32"), y: Tensor(("n", "m"), "f32")):
    return {body}
"""


def test_equal_programs_are_proved_to_be_so():
    same = relaxc.equiv(SUM.format(body="add(x, y)"), SUM.format(body="add(y, x)"), cases=10)
    assert same and [one.verdict for one in same.functions] == ["equal"] and same.functions[0].how == "proved"
    assert "proved" in same._repr_html_()


def test_programs_that_differ_have_a_case():
    found = relaxc.equiv(SUM.format(body="add(x, y)"), SUM.format(body="subtract(x, y)"))
    assert not found and found.difference is not None and found.difference.function == "main"
    assert found.difference.dims["n"] >= 1 and "different" in found._repr_html_()
    # Equal up to rounding is not equal.
    assert not relaxc.equiv(SUM.format(body="add(add(x, y), x)"), SUM.format(body="add(add(x, x), y)"))


def test_a_function_that_one_program_has_alone():
    more = SUM.format(body="add(x, y)")
    found = relaxc.equiv(more, more + more.replace("main", "second"))
    assert not found and found.alone == "only the second program has `second`"
    with pytest.raises(relaxc.ArgumentError, match="at least one case"):
        relaxc.equiv(more, more, cases=0)
