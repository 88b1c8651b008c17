"""The reference interpreter of StableHLO, which jaxlib has, in a process of its own: it ends the process where it lacks something.

    reference = Reference()
    reference.results(text, arrays)     # arrays, or a str that says why there are none

Run as a script it is that process.
"""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
from typing import Any

#: Seconds for one program.
LIMIT = 60


class Reference:
    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None

    def results(self, text: str, arrays: list[Any]) -> list[Any] | str:
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, os.path.abspath(__file__)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        process = self.process
        assert process.stdin is not None and process.stdout is not None
        try:
            pickle.dump((text, arrays), process.stdin)
            process.stdin.flush()
            if select.select([process.stdout], [], [], LIMIT)[0]:
                return pickle.load(process.stdout)
            why = f"the reference interpreter takes more than {LIMIT} s"
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            why = "the reference interpreter ends"
        except BaseException:
            # An alarm of the caller: what is still to come would be the answer to the next program.
            self.end()
            raise
        self.end()
        return why

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def evaluated(text: str, arrays: list[Any]) -> list[Any]:
    import jax.numpy as jnp
    import numpy as np
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir, passmanager
    from jaxlib.mlir.dialects import stablehlo

    stablehlo.register_stablehlo_passes()
    context = mlir.make_ir_context()
    said: list[str] = []
    with context, ir.Location.unknown(), context.attach_diagnostic_handler(lambda one: said.append(one.message) or True):
        module = ir.Module.parse(text)
        passes = "func.func(chlo-legalize-to-stablehlo,stablehlo-legalize-composite-to-call)"
        passmanager.PassManager.parse(f"builtin.module({passes})").run(module.operation)
        try:
            results = stablehlo.eval_module(module, [attribute(ir, np.asarray(array, order="C")) for array in arrays])
        except Exception as error:  # what it raises has no common class
            raise RuntimeError(said[0] if said else str(error)) from error
        return [array_of(np, jnp, ir, one) for one in results]


def attribute(ir: Any, array: Any) -> Any:
    """The elements; a bool is one bit there, of which eight are in a byte. The buffer protocol has no bf16."""
    if array.dtype.name == "bfloat16":
        kind = ir.RankedTensorType.get(array.shape, ir.BF16Type.get())
        return ir.Attribute.parse(f'dense<"0x{array.tobytes().hex()}"> : {kind}')
    if array.dtype.kind == "u":
        return ir.DenseElementsAttr.get(array, type=ir.IntegerType.get_unsigned(8 * array.dtype.itemsize))
    if array.dtype != bool:
        return ir.DenseElementsAttr.get(array)
    kind = ir.RankedTensorType.get(array.shape, ir.IntegerType.get_signless(1))
    if not array.size:
        return ir.Attribute.parse(f"dense<> : {kind}")
    return ir.DenseElementsAttr.get([ir.BoolAttr.get(bool(one)) for one in array.reshape(-1)], kind)


def array_of(np: Any, jnp: Any, ir: Any, attribute: Any) -> Any:
    kind = ir.RankedTensorType(attribute.type)
    element = str(kind.element_type)
    named = {"i1": "bool", "bf16": "bfloat16"}
    words = {"f": "float", "u": "uint", "i": "int", "b": "bfloat"}
    dtype = jnp.dtype(named.get(element, words[element[0]] + element.lstrip("bfui")))
    elements = [attribute[place] for place in range(len(attribute))]
    return np.array(elements, dtype=dtype).reshape(kind.shape)


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    # What the interpreter prints is no answer.
    os.dup2(2, 1)
    while True:
        try:
            text, arrays = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: Any = evaluated(text, arrays)
        except Exception as error:  # what it raises has no common class
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            answer = f"the reference interpreter: {lines[0][:160] if lines else type(error).__name__}"
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
