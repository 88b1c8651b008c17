# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32"), w: R.Tensor((64, 32), dtype="float32"), b: R.Tensor((32,), dtype="float32")) -> R.Tensor((n, 32), dtype="float32"):
        with R.dataflow():
            lv: R.Tensor((n, 32), dtype="float32") = R.matmul(x, w, out_dtype=None)
            gv: R.Tensor((n, 32), dtype="float32") = R.add(lv, b)
            R.output(gv)
        return gv
