"""Rules out of files, gradients, texts, and what notebooks show: as the command does (cli/tests/command/rewritten.rs)."""

import warnings

import numpy as np
import pytest
import relaxc


def rule(kind, name, left, right):
    head = f'@rewrite_rule("{kind}", reason="r")\ndef {name}(x: Tensor(("n",), "f32")):\n'
    return f"{head}    left = {left}\n    right = {right}\n"


PROVED = rule("exact", "relu_thrice", "relu(relu(relu(x)))", "relu(x)")
UNPROVED = rule("exact", "sort_of_sort", "sort(sort(x, 0, True))", "sort(x)")
WRONG = rule("exact", "wrong", "relu(relu(x))", "x")
OF_REALS = rule("approximate", "abs_by_square", "abs(x)", "sqrt(multiply(x, x))")
THRICE = 'def main(x: Tensor(("n",), "f32")):\n    return relu(relu(relu(x)))\n'
SORTED = 'def main(x: Tensor(("n",), "f32")):\n    return sort(sort(x, 0, True))\n'


@pytest.fixture
def file(tmp_path):
    def write(text, name="mine.rx"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_a_proved_rule_of_a_file(file):
    made = relaxc.rewrite(THRICE, rules=[file(PROVED)])
    assert made.text.count("relu(") == 1
    assert [step.rule for step in made.regions[0].steps] == ["relu_thrice"]
    assert relaxc.versions(THRICE, rules=str(file(PROVED))).functions == {"main": ()}
    # Files and families together; families alone do it in two steps.
    assert relaxc.rewrite(THRICE, rules=["cast", file(PROVED)]).text == made.text
    assert relaxc.rewrite(THRICE, rules="cast").text.count("relu(") == 3


def test_a_rule_without_a_proof(file):
    path = file(UNPROVED)
    for call in (relaxc.rewrite, relaxc.versions):
        with pytest.raises(relaxc.ProgramError, match="`sort_of_sort` is not used: no proof.*`unproved=True` uses it all the same"):
            call(SORTED, rules=[path])
        with pytest.warns(relaxc.UnprovedRuleWarning, match="`sort_of_sort`"):
            call(SORTED, rules=[path], unproved=True)
    # It is not said where the rule did nothing.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        relaxc.rewrite(THRICE, rules=[path], unproved=True)


@pytest.mark.parametrize(
    "text, kind, part",
    [
        (WRONG, relaxc.ProgramError, "the rule `wrong` is not used"),
        (PROVED.replace("relu_thrice", "relu_of_relu"), relaxc.ProgramError, "relax has a rule `relu_of_relu` of its own"),
        ("nothing\n", relaxc.ProgramError, "mine.rx"),
        (None, relaxc.FileError, "cannot read .*mine.rx"),
    ],
)
def test_files_of_rules_that_are_refused(tmp_path, file, text, kind, part):
    path = tmp_path / "mine.rx" if text is None else file(text)
    for call in (relaxc.rewrite, relaxc.versions):
        with pytest.raises(kind, match=part):
            call(THRICE, rules=[path], unproved=True)


def test_two_files_with_one_name(file):
    with pytest.raises(relaxc.ArgumentError, match="two rules have the name `relu_thrice`"):
        relaxc.rewrite(THRICE, rules=[file(PROVED), file(PROVED, "other.rx")])


def test_machine_code_by_rules(file):
    module = relaxc.compile(THRICE, backend="cpu", rules=[file(PROVED)])
    x = np.array([-1, 2], "f4")
    assert np.asarray(module(x)).tolist() == [0, 2]
    with pytest.warns(relaxc.UnprovedRuleWarning, match="`sort_of_sort`"):
        relaxc.compile(SORTED, backend="cpu", rules=[file(UNPROVED)], unproved=True)
    with pytest.raises(relaxc.ArgumentError, match="`abs_by_square` holds over the reals"):
        relaxc.compile(THRICE, backend="cpu", rules=[file(OF_REALS)], exact=True)
    with pytest.raises(relaxc.ArgumentError, match="records phase P2.1"):
        relaxc.compile(relaxc.opt(THRICE, to="P2.1"), backend="cpu", rules="all")
    with pytest.raises(relaxc.ArgumentError, match="they optimize machine code"):
        relaxc.compile(THRICE, backend="interpreter", rules="all")


LOSS = """
def main(x: Tensor(("n",), "f32"), w: Tensor(("n",), "f32")):
    return sum(multiply(square(x), w))
"""


def test_gradients():
    text = relaxc.grad(LOSS)
    module = relaxc.compile(text, backend="interpreter")
    (adjoint,) = (name for name in module.functions if name != "main")
    x, w = np.array([1, -2, 3], "f4"), np.array([2, 5, 0.5], "f4")
    loss, of_x, of_w = _flat(module[adjoint](x, w))
    assert float(loss) == 26.5 and of_x.tolist() == (2 * x * w).tolist() and of_w.tolist() == (x * x).tolist()
    loss, of_w = _flat(relaxc.run(relaxc.grad(LOSS, wrt="w"), x, w, entry=adjoint))
    assert of_w.tolist() == (x * x).tolist()
    for arguments, part in (({"function": "other"}, "other"), ({"wrt": ["y"]}, "y")):
        with pytest.raises(relaxc.ProgramError, match=part):
            relaxc.grad(LOSS, **arguments)


def _flat(value):
    return [leaf for one in value for leaf in (_flat(one) if isinstance(one, tuple) else [np.asarray(one)])]


def test_texts_of_programs_and_models(file):
    assert relaxc.text(LOSS) == LOSS and relaxc.text(file(LOSS)) == LOSS
    with pytest.raises(relaxc.ProgramError, match="frobnicate"):
        relaxc.text('def main(x: Tensor((3,), "f32")):\n    return frobnicate(x)\n')


def test_notebooks_show_results(file):
    shown = relaxc.rewrite(THRICE, rules=[file(PROVED)])._repr_html_()
    assert "<pre>" in shown and "<code>relu_thrice</code>" in shown
    assert "&quot;f32&quot;" in shown and '("n",), "f32"' not in shown
    chain = 'def main(a: Tensor(("m", "k"), "f32"), b: Tensor(("k", "n"), "f32"), x: Tensor(("n", 1), "f32")):\n    return matmul(matmul(a, b), x)\n'
    shown = relaxc.versions(chain, approximate=True)._repr_html_()
    assert "<th>guard</th>" in shown and "<td><code>main</code></td>" in shown
    assert relaxc.check(LOSS)._repr_html_().startswith("<p>well-formed</p>")
    assert "frobnicate" in relaxc.check('def main(x: Tensor((3,), "f32")):\n    return frobnicate(x)\n')._repr_html_()
    left = 'def main(x: Tensor(("n",), "f32"), y: Tensor(("m",), "f32")):\n    return add(x, y)\n'
    assert "left to run time" in relaxc.check(left)._repr_html_()
    assert relaxc.prove("n // 4 * 4 <= n")._repr_html_().startswith("<p>proved")
    assert "n = " in relaxc.prove("n < 5")._repr_html_()
    made = relaxc.diff(LOSS, LOSS.replace("square(x)", "x"), cases=30)
    shown = made._repr_html_()
    assert "different: main" in shown and "<code>expected</code>" in shown and "<th>count</th>" in shown
    assert relaxc.diff(LOSS, LOSS, cases=3)._repr_html_().startswith("<p>the same</p>")
