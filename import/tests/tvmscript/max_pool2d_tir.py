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
    def max_pool2d(c: T.Buffer((T.int64(1), T.int64(3), n, m), "float32"), pool_max: T.Buffer((T.int64(1), T.int64(3), "n - T.int64(1)", "m - T.int64(1)"), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for ax0, ax1, ax2, ax3, rv0, rv1 in T.grid(T.int64(1), T.int64(3), n - T.int64(1), m - T.int64(1), T.int64(2), T.int64(2)):
            with T.sblock("pool_max"):
                v_ax0, v_ax1, v_ax2, v_ax3, v_rv0, v_rv1 = T.axis.remap("SSSSRR", [ax0, ax1, ax2, ax3, rv0, rv1])
                T.reads(c[v_ax0, v_ax1, v_ax2 + v_rv0, v_ax3 + v_rv1])
                T.writes(pool_max[v_ax0, v_ax1, v_ax2, v_ax3])
                T.sblock_attr({"schedule_rule": "meta_schedule.pool_max"})
                with T.init():
                    pool_max[v_ax0, v_ax1, v_ax2, v_ax3] = T.float32(-340282346638528859811704183484516925440.0)
                pool_max[v_ax0, v_ax1, v_ax2, v_ax3] = T.max(pool_max[v_ax0, v_ax1, v_ax2, v_ax3], c[v_ax0, v_ax1, v_ax2 + v_rv0, v_ax3 + v_rv1])

    @R.function
    def main(c: R.Tensor((1, 3, n, m), dtype="float32")) -> R.Tensor((1, 3, "n - 1", "m - 1"), dtype="float32"):
        cls = Module
        with R.dataflow():
            gv = R.call_tir(cls.max_pool2d, (c,), out_ty=R.Tensor((1, 3, n - 1, m - 1), dtype="float32"))
            R.output(gv)
        return gv
