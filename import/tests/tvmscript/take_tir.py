# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

m = TypeVar("m")
n = TypeVar("n")
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def take(x: T.Buffer((n, T.int64(64)), "float32"), i: T.Buffer((m,), "int64"), T_take: T.Buffer((m, T.int64(64)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for ax0, ax1 in T.grid(m, T.int64(64)):
            with T.sblock("T_take"):
                v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                T.reads(x[i[v_ax0], v_ax1], i[v_ax0])
                T.writes(T_take[v_ax0, v_ax1])
                T_take[v_ax0, v_ax1] = x[i[v_ax0], v_ax1]

    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32"), i: R.Tensor((m,), dtype="int64")) -> R.Tensor((m, 64), dtype="float32"):
        cls = Module
        with R.dataflow():
            gv = R.call_tir(cls.take, (x, i), out_ty=R.Tensor((m, 64), dtype="float32"))
            R.output(gv)
        return gv
