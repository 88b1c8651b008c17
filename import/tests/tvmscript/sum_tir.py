# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def sum(x: T.Buffer((n, T.int64(64)), "float32"), x_red: T.Buffer((n, T.int64(1)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for ax0, ax1, k1 in T.grid(n, T.int64(1), T.int64(64)):
            with T.sblock("x_red"):
                v_ax0, v_ax1, v_k1 = T.axis.remap("SSR", [ax0, ax1, k1])
                T.reads(x[v_ax0, v_k1])
                T.writes(x_red[v_ax0, v_ax1])
                with T.init():
                    x_red[v_ax0, v_ax1] = T.float32(0.0)
                x_red[v_ax0, v_ax1] = x_red[v_ax0, v_ax1] + x[v_ax0, v_k1]

    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32")) -> R.Tensor((n, 1), dtype="float32"):
        cls = Module
        with R.dataflow():
            gv = R.call_tir(cls.sum, (x,), out_ty=R.Tensor((n, 1), dtype="float32"))
            R.output(gv)
        return gv
