# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import relax as R

m = TypeVar("m")
n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32"), i: R.Tensor((m,), dtype="int64")) -> R.Tensor((m, 64), dtype="float32"):
        with R.dataflow():
            gv: R.Tensor((m, 64), dtype="float32") = R.take(x, i, axis=0, mode="fast")
            R.output(gv)
        return gv
