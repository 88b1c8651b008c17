"""What `relaxc.jax` says without JAX, which these tests do not have; scripts/jax_programs.py --check tests it with JAX."""

import sys
import types

import numpy
import pytest
import relaxc
import relaxc.jax

MODULE = """
module @jit_f {
  func.func public @main(%arg0: tensor<?x4xf32> loc("x")) -> (tensor<?x4xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.add %arg0, %arg0 : tensor<?x4xf32>
    return %0 : tensor<?x4xf32>
  }
}
"""


def exported(**attributes):
    """As `jax.export.Exported`, as far as the package looks at it."""
    kind = type("Exported", (), {"__module__": "jax._src.export._export"})
    program = kind()
    program.nr_devices, program.ordered_effects, program.unordered_effects = 1, (), ()
    program.mlir_module = lambda: MODULE
    vars(program).update(attributes)
    return program


@pytest.fixture
def jax(monkeypatch):
    module = types.ModuleType("jax")
    module.__version__ = "0.10.2"
    monkeypatch.setitem(sys.modules, "jax", module)
    return module


def test_without_jax_there_is_an_exception(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(relaxc.UnsupportedError, match="JAX cannot be imported"):
        relaxc.compile(exported())


def test_an_old_jax_is_refused(jax):
    jax.__version__ = "0.4.38"
    with pytest.raises(relaxc.UnsupportedError, match="JAX 0.4.38 is too old: 0.10 or later"):
        relaxc.jax.text(exported())


def test_an_exported_program_is_compiled(jax):
    module = relaxc.compile(exported(), backend="interpreter")
    assert numpy.asarray(module(x=numpy.ones((3, 4), "float32"))).tolist() == [[2.0] * 4] * 3


def test_what_one_device_cannot_run_is_refused(jax):
    with pytest.raises(relaxc.UnsupportedError, match="4 devices"):
        relaxc.compile(exported(nr_devices=4))
    with pytest.raises(relaxc.UnsupportedError, match="effects: print"):
        relaxc.compile(exported(ordered_effects=("print",)))
    with pytest.raises(relaxc.ArgumentError, match="found `object`"):
        relaxc.jax.save(object(), "nowhere")


def test_bytecode_is_refused_with_what_to_do(tmp_path):
    path = tmp_path / "model.mlir"
    path.write_bytes(b"ML\xefR\x0dStableHLO")
    with pytest.raises(relaxc.ProgramError, match="MLIR bytecode, and text is read"):
        relaxc.compile(path)
