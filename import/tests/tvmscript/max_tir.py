# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def max(x: T.Buffer((n, T.int64(64)), "float32"), x_red: T.Buffer((n,), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for ax0, k1 in T.grid(n, T.int64(64)):
            with T.sblock("x_red"):
                v_ax0, v_k1 = T.axis.remap("SR", [ax0, k1])
                T.reads(x[v_ax0, v_k1])
                T.writes(x_red[v_ax0])
                with T.init():
                    x_red[v_ax0] = T.float32(-340282346638528859811704183484516925440.0)
                x_red[v_ax0] = T.max(x_red[v_ax0], x[v_ax0, v_k1])

    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        cls = Module
        with R.dataflow():
            gv = R.call_tir(cls.max, (x,), out_ty=R.Tensor((n,), dtype="float32"))
            R.output(gv)
        return gv
