# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def subtract(x: T.Buffer((n, T.int64(64)), "float32"), y: T.Buffer((n, T.int64(64)), "float32"), T_subtract: T.Buffer((n, T.int64(64)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for ax0, ax1 in T.grid(n, T.int64(64)):
            with T.sblock("T_subtract"):
                v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                T.reads(x[v_ax0, v_ax1], y[v_ax0, v_ax1])
                T.writes(T_subtract[v_ax0, v_ax1])
                T_subtract[v_ax0, v_ax1] = x[v_ax0, v_ax1] - y[v_ax0, v_ax1]

    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32"), y: R.Tensor((n, 64), dtype="float32")) -> R.Tensor((n, 64), dtype="float32"):
        cls = Module
        with R.dataflow():
            gv = R.call_tir(cls.subtract, (x, y), out_ty=R.Tensor((n, 64), dtype="float32"))
            R.output(gv)
        return gv
