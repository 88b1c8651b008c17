# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def expand_dims(x: T.Buffer((n, T.int64(64)), "float32"), expand_dims: T.Buffer((n, T.int64(1), T.int64(64)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i0, i1, i2 in T.grid(n, T.int64(1), T.int64(64)):
            with T.sblock("expand_dims"):
                v_i0, v_i1, v_i2 = T.axis.remap("SSS", [i0, i1, i2])
                T.reads(x[v_i0, v_i2])
                T.writes(expand_dims[v_i0, v_i1, v_i2])
                expand_dims[v_i0, v_i1, v_i2] = x[v_i0, v_i2]

    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32")) -> R.Tensor((n, 1, 64), dtype="float32"):
        cls = Module
        with R.dataflow():
            gv = R.call_tir(cls.expand_dims, (x,), out_ty=R.Tensor((n, 1, 64), dtype="float32"))
            R.output(gv)
        return gv
