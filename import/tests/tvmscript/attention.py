# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(q: R.Tensor((1, n, 4, 16), dtype="float32")) -> R.Tensor((1, n, 4, 16), dtype="float32"):
        with R.dataflow():
            gv: R.Tensor((1, n, 4, 16), dtype="float32") = R.nn.attention(q, q, q, scale=None, causal_mask=None, window_size=None)
            R.output(gv)
        return gv
