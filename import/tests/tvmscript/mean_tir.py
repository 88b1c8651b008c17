# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def mean(x: T.Buffer((n, T.int64(64)), "float32"), T_divide: T.Buffer((T.int64(64),), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        x_red = T.sblock_alloc_buffer((T.int64(64),))
        for ax0, k0 in T.grid(T.int64(64), n):
            with T.sblock("x_red"):
                v_ax0, v_k0 = T.axis.remap("SR", [ax0, k0])
                T.reads(x[v_k0, v_ax0])
                T.writes(x_red[v_ax0])
                with T.init():
                    x_red[v_ax0] = T.float32(0.0)
                x_red[v_ax0] = x_red[v_ax0] + x[v_k0, v_ax0]
        for ax0 in range(T.int64(64)):
            with T.sblock("T_divide"):
                v_ax0 = T.axis.spatial(T.int64(64), ax0)
                T.reads(x_red[v_ax0])
                T.writes(T_divide[v_ax0])
                T_divide[v_ax0] = x_red[v_ax0] / T.Cast("float32", n)

    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32")) -> R.Tensor((64,), dtype="float32"):
        cls = Module
        with R.dataflow():
            gv = R.call_tir(cls.mean, (x,), out_ty=R.Tensor((64,), dtype="float32"))
            R.output(gv)
        return gv
