# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def tir_rsqrt(x: T.Buffer((n, T.int64(64)), "float32"), compute: T.Buffer((n, T.int64(64)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i0, i1 in T.grid(n, T.int64(64)):
            with T.sblock("compute"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(x[v_i0, v_i1])
                T.writes(compute[v_i0, v_i1])
                compute[v_i0, v_i1] = T.rsqrt(x[v_i0, v_i1])

    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32")) -> R.Tensor((n, 64), dtype="float32"):
        cls = Module
        with R.dataflow():
            gv = R.call_tir(cls.tir_rsqrt, (x,), out_ty=R.Tensor((n, 64), dtype="float32"))
            R.output(gv)
        return gv
