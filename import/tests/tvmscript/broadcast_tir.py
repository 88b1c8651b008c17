# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def broadcast_to(b: T.Buffer((T.int64(32),), "float32"), T_broadcast_to: T.Buffer((T.int64(8), T.int64(32)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for ax0, ax1 in T.grid(T.int64(8), T.int64(32)):
            with T.sblock("T_broadcast_to"):
                v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                T.reads(b[v_ax1])
                T.writes(T_broadcast_to[v_ax0, v_ax1])
                T_broadcast_to[v_ax0, v_ax1] = b[v_ax1]

    @R.function
    def main(b: R.Tensor((32,), dtype="float32")) -> R.Tensor((8, 32), dtype="float32"):
        cls = Module
        with R.dataflow():
            gv = R.call_tir(cls.broadcast_to, (b,), out_ty=R.Tensor((8, 32), dtype="float32"))
            R.output(gv)
        return gv
