# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import relax as R

m = TypeVar("m")
n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(c: R.Tensor((1, 3, n, m), dtype="float32"), k: R.Tensor((8, 3, 3, 3), dtype="float32")) -> R.Tensor((1, 8, n, m), dtype="float32"):
        with R.dataflow():
            gv: R.Tensor((1, 8, n, m), dtype="float32") = R.nn.conv2d(c, k, strides=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], groups=1, data_layout="NCHW", kernel_layout="OIHW", out_layout="NCHW", out_dtype=None)
            R.output(gv)
        return gv
