"""Compiling, files, errors, threads and memory."""

import os
import pathlib
import pickle
import resource
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
import relaxc

from conftest import DOUBLE

CORPUS = pathlib.Path(os.environ["RELAXC_CORPUS"])
CAST = """
def main(x: Tensor(("n",), "f32"), y: Tensor(("m",), "f32")):
    z = match_cast(y, Tensor((n,), "f32"))
    return add(x, z)
"""


@pytest.fixture(scope="module", params=["cpu", "interpreter"])
def cast(request):
    return relaxc.compile(CAST, backend=request.param)


def test_traps_say_what_happened(cast):
    ones = np.ones(3, "float32")
    assert cast(ones, ones).tolist() == [2.0] * 3
    with pytest.raises(relaxc.Trap) as raised:
        cast(ones, ones[:2])
    trap = raised.value
    assert trap.code.startswith("match_cast/")
    assert trap.place is not None and trap.place.line == 3 and trap.place.file == "<text>"
    assert trap.dims["n"] == 3 and "x" in trap.origins["n"]
    assert "3" in trap.message and "2" in trap.message
    again = pickle.loads(pickle.dumps(trap))
    assert type(again) is relaxc.Trap and str(again) == str(trap) and again.dims == trap.dims


def test_interpreted_calls_are_warned_of():
    text = "def main(x: Tensor(dtype=\"f32\")):\n    return exp(x)\n"
    with pytest.warns(relaxc.FallbackWarning, match="<text>:2:12: `exp` in `main` is interpreted"):
        module = relaxc.compile(text, backend="cpu")
    assert module(np.zeros(2, "float32")).tolist() == [1.0, 1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error", relaxc.FallbackWarning)
        relaxc.compile(CAST, backend="cpu")
        with pytest.raises(relaxc.FallbackWarning):
            relaxc.compile(text, backend="cpu")


def test_wrong_programs_have_all_diagnostics():
    with pytest.raises(relaxc.ProgramError) as raised:
        relaxc.compile("def main(x: Tensor((3,), \"f32\")):\n    a = add(x, nothing)\n    return b\n")
    error = raised.value
    assert error.code.startswith("RX") and error.place.line >= 2 and len(error.diagnostics) >= 2
    for found in error.diagnostics:
        assert found.severity in ("error", "warning") and found.place.file == "<text>" and found.message
    assert pickle.loads(pickle.dumps(error)).diagnostics == error.diagnostics


def test_texts_that_do_not_parse():
    for text in ("def main(:\n", "\n", "\0\n", "def main(x: Object):\n  return x\n \xff"):
        assert not relaxc.check(text) or text == "\n"


def test_a_text_that_is_no_unicode():
    with pytest.raises(relaxc.ArgumentError, match=r"line 2 of the text has a character that is none: '\\udcff'"):
        relaxc.compile('def main(x: Tensor((2,), "f32")):\n    return \udcff\n')


def test_check():
    found = relaxc.check('def main(x: Tensor(("n",), "f32"), y: Tensor(("m",), "f32")):\n    return add(x, y)\n')
    assert found and found.diagnostics == ()
    assert [left.line for left in found.left_to_run_time] == [2]
    assert "n" in found.left_to_run_time[0].check
    found = relaxc.check('def main(x: Tensor((3,), "f32"), y: Tensor((4,), "f32")):\n    return add(x, y)\n')
    assert not found and found.diagnostics[0].place.line == 2
    assert relaxc.check(CORPUS / "models/minilm.rx")


def test_files_that_are_none(tmp_path):
    with pytest.raises(relaxc.FileError, match="cannot read"):
        relaxc.compile(tmp_path / "none.rx")
    with pytest.raises(relaxc.FileError):
        relaxc.load(tmp_path / "none.rxm")
    (tmp_path / "wrong.rxm").write_bytes(b"\x89RXM\r\n\x1a\n" + b"\0" * 100)
    with pytest.raises(relaxc.FileError):
        relaxc.load(tmp_path / "wrong.rxm")
    np.save(tmp_path / "array.npy", np.ones(3))
    with pytest.raises(relaxc.FileError, match="NumPy array"):
        relaxc.compile(tmp_path / "array.npy")
    with pytest.raises(relaxc.ArgumentError):
        relaxc.compile(3)
    with pytest.raises(relaxc.ArgumentError, match="backend"):
        relaxc.compile(DOUBLE, backend="tpu")
    with pytest.raises(relaxc.ArgumentError, match="threads"):
        relaxc.compile(DOUBLE, threads=0)


def test_modules_are_saved_and_loaded(tmp_path, double):
    path = tmp_path / "double.rxm"
    double.save(path)
    loaded = relaxc.load(path)
    ones = np.ones((2, 2), "float32")
    assert loaded(ones).tolist() == double(ones).tolist()
    loaded.save(tmp_path / "again.rxm")
    assert (tmp_path / "again.rxm").read_bytes() == path.read_bytes()
    # The source in a module file is compiled again.
    assert relaxc.compile(path, backend="interpreter")(ones).tolist() == loaded(ones).tolist()
    with pytest.raises(relaxc.FileError, match="cannot write"):
        double.save(tmp_path / "none" / "x.rxm")
    with pytest.raises(relaxc.UnsupportedError, match="interpreted"):
        relaxc.compile(DOUBLE, backend="interpreter").save(path)


def test_an_onnx_model_of_any_length():
    module = relaxc.compile(CORPUS / "models/onnx/gpt2.onnx", exact=True)
    for tokens in ([[3, 1, 4]], [[1], [2]]):
        given = np.array(tokens, "int64")
        compiled = module(given)
        interpreted = relaxc.run(CORPUS / "models/onnx/gpt2.onnx", given)
        compiled, interpreted = (np.asarray(r[0] if isinstance(r, tuple) else r) for r in (compiled, interpreted))
        assert compiled.shape[:2] == given.shape
        assert np.abs(compiled - interpreted).max() <= 1e-5
    with pytest.raises(relaxc.Trap, match="index"):
        module(np.array([[400]], "int64"))


def test_constants_are_given_by_name():
    text = 'def main(x: Tensor(("n",), "f32")):\n    w = param("w", Tensor((1,), "f32"))\n    return multiply(x, w)\n'
    module = relaxc.compile(text, params={"w": np.array([3], "float32")})
    assert module(np.ones(2, "float32")).tolist() == [3.0, 3.0]
    with pytest.raises(relaxc.ArgumentError, match="`w`"):
        relaxc.compile(text)
    with pytest.raises(relaxc.ArgumentError, match="`w`"):
        relaxc.compile(text, params={"w": np.ones(2, "float32")})


def test_functions_by_name():
    module = relaxc.compile(
        'def main(x: Tensor(("n",), "f32")):\n    return x\n\ndef twice(x: Tensor(("n",), "f32")):\n    return add(x, x)\n'
    )
    assert sorted(module.functions) == ["main", "twice"]
    assert module["twice"](np.ones(1, "float32")).tolist() == [2.0]
    assert module["twice"].parameters == [("x", 'Tensor((n,), "f32")')] and module["twice"].__name__ == "twice"
    with pytest.raises(KeyError):
        module["thrice"]
    assert "add(x, x)" in module.text and "twice" in module._repr_html_() and "twice(x: Tensor" in repr(module)


def test_the_page_of_a_module_is_escaped():
    text = 'def main(x: Tensor((2,), "f32")):\n    assert_op(const(True, "bool"), format="a < b & c > d")\n    return add(x, x)\n'
    page = relaxc.compile(text, backend="interpreter")._repr_html_()
    assert "a &lt; b &amp; c &gt; d" in page and "a < b" not in page
    # The shapes that were deduced.
    assert "lv0" in page or 'Tensor((2,), "f32")' in page


def test_prove():
    assert relaxc.prove("n // 4 * 4 <= n")
    refuted = relaxc.prove("n // 4 * 4 == n")
    assert refuted.answer == "refuted" and refuted.counterexample["n"] % 4 != 0
    assert relaxc.prove("n % 4 == 0", assume=["n % 8 == 0"])
    with pytest.raises(relaxc.ArgumentError):
        relaxc.prove("n +")


def test_limits():
    small = relaxc.compile(DOUBLE, max_memory=1 << 16)
    with pytest.raises(relaxc.LimitError, match="memory"):
        small(np.ones((1 << 8, 1 << 10), "float32"))
    assert small(np.ones((2, 2), "float32")).shape == (2, 2)


def test_without_a_compiler(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(relaxc._compilers.importlib.util, "find_spec", lambda name: None)
    with pytest.warns(relaxc.NoCompilerWarning):
        module = relaxc.compile(DOUBLE)
    assert module.backend == "interpreter" and module(np.ones((1, 1), "float32")).tolist() == [[2.0]]
    with pytest.raises(relaxc.CompilerError):
        relaxc.compile(DOUBLE, backend="cpu")
    # A compiler that the user names is not replaced.
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(relaxc.CompilerError):
        relaxc.compile(DOUBLE)


def test_threads_call_one_module(double):
    failed = []

    def work(seed):
        random = np.random.default_rng(seed)
        for _ in range(200):
            given = random.standard_normal(random.integers(0, 40, 2)).astype("float32")
            if not np.array_equal(np.asarray(double(given)), given + given):
                failed.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_the_gil_is_released(double):
    """Another thread runs while a call does. It waits for the GIL, which nothing else gives up meanwhile."""
    go, ran = threading.Lock(), []

    def work():
        with go:
            ran.append(True)

    go.acquire()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    thread = threading.Thread(target=work)
    try:
        thread.start()
        given = np.ones((1000, 1000), "float32")
        go.release()
        for _ in range(200):
            double(given)
            if ran:
                break
        assert ran
    finally:
        sys.setswitchinterval(interval)
        thread.join()


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def test_calls_leak_nothing(double, cast):
    given = np.ones((64, 64), "float32")

    def calls(count):
        for at in range(count):
            np.asarray(double(given if at % 2 else given.T))
            np.from_dlpack(double(given))
            result = double(given).__dlpack__(max_version=(1, 0))
            del result
            if at % 10 == 0:
                with pytest.raises(relaxc.Trap):
                    cast(given[0], given[0, :3])
            with pytest.raises(relaxc.ArgumentError):
                double(None, None)

    calls(500)
    references, before = sys.getrefcount(given), resident()
    calls(10_000 // 3)
    # One leaked tensor a call would be 16 KiB times 10,000.
    assert resident() - before < 4 << 20
    assert sys.getrefcount(given) == references


def test_the_demo():
    ran = subprocess.run([sys.executable, "-m", "relaxc.demo"], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "lengths that differ stop the call" in ran.stdout


def test_warnings_are_not_usual(double):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert relaxc.compile(DOUBLE).backend == "cpu"
    assert relaxc.info().compiler and relaxc.info().version
