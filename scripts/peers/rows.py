"""What others answer to the README's case: x and y are both declared (n, 4) and get 1 and 5 rows, both ways.

    pip install numpy onnx onnxruntime iree-base-compiler iree-base-runtime
    python3 scripts/peers/rows.py

Prints a line a peer and case; a peer that is not installed says so.
"""

import importlib.metadata

import numpy as np

CASES = [((1, 4), (5, 4)), ((5, 4), (1, 4))]


def inputs(shape, first):
    return (np.arange(np.prod(shape), dtype=np.float32) + first).reshape(shape)


def onnxruntime(cases):
    import onnx
    import onnxruntime as runtime
    from onnx import TensorProto, helper

    rows = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4])
    graph = helper.make_graph([helper.make_node("Add", ["x", "y"], ["z"])], "g", [rows("x"), rows("y")], [rows("z")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.checker.check_model(model)
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for a, b in cases:
        yield session.run(None, {"x": inputs(a, 1), "y": inputs(b, 100)})[0]


def iree(cases):
    from iree import compiler, runtime

    # Both arguments have the same dynamic dim in the program; nothing in the text says otherwise.
    text = """
    func.func @main(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32> {
      %z = arith.addf %x, %y : tensor<?x4xf32>
      return %z : tensor<?x4xf32>
    }
    """
    binary = compiler.compile_str(text, target_backends=["llvm-cpu"], extra_args=["--iree-llvmcpu-target-cpu=host"])
    module = runtime.load_vm_flatbuffer(binary, driver="local-task")
    for a, b in cases:
        yield module.main(inputs(a, 1), inputs(b, 100)).to_host()


def main():
    for name, package, run in [("onnxruntime", "onnxruntime", onnxruntime), ("IREE", "iree-base-compiler", iree)]:
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            print(f"{name}: not installed")
            continue
        results = run(CASES)
        for a, b in CASES:
            try:
                result = next(results)
                print(f"{name} {version}: {a} + {b} -> {result.shape}\n{result}")
            except Exception as error:  # what a peer raises is what is shown
                print(f"{name} {version}: {a} + {b} -> {type(error).__name__}: {str(error).splitlines()[0]}")


if __name__ == "__main__":
    main()
