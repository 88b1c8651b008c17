# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(b: R.Tensor((32,), dtype="float32")) -> R.Tensor((8, 32), dtype="float32"):
        with R.dataflow():
            gv: R.Tensor((8, 32), dtype="float32") = R.broadcast_to(b, R.shape([8, 32]))
            R.output(gv)
        return gv
