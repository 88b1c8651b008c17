# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import relax as R

m = TypeVar("m")
n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(c: R.Tensor((1, 3, n, m), dtype="float32")) -> R.Tensor((1, 3, "n - 1", "m - 1"), dtype="float32"):
        with R.dataflow():
            gv: R.Tensor((1, 3, n - 1, m - 1), dtype="float32") = R.nn.max_pool2d(c, pool_size=[2, 2], strides=[1, 1], dilation=[1, 1], padding=[0, 0, 0, 0], ceil_mode=False, count_include_pad=False, layout="NCHW", out_layout="NCHW")
            R.output(gv)
        return gv
