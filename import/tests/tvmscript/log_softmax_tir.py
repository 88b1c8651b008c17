# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def log_softmax(x: T.Buffer((n, T.int64(64)), "float32"), compute: T.Buffer((n, T.int64(64)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        T_softmax_maxelem = T.sblock_alloc_buffer((n,))
        compute_1 = T.sblock_alloc_buffer((n,))
        for i0, k in T.grid(n, T.int64(64)):
            with T.sblock("T_softmax_maxelem"):
                v_i0, v_k = T.axis.remap("SR", [i0, k])
                T.reads(x[v_i0, v_k])
                T.writes(T_softmax_maxelem[v_i0])
                with T.init():
                    T_softmax_maxelem[v_i0] = T.float32(-340282346638528859811704183484516925440.0)
                T_softmax_maxelem[v_i0] = T.max(T_softmax_maxelem[v_i0], x[v_i0, v_k])
        for i0, k in T.grid(n, T.int64(64)):
            with T.sblock("compute"):
                v_i0, v_k = T.axis.remap("SR", [i0, k])
                T.reads(x[v_i0, v_k], T_softmax_maxelem[v_i0])
                T.writes(compute_1[v_i0])
                with T.init():
                    compute_1[v_i0] = T.float32(0.0)
                compute_1[v_i0] = compute_1[v_i0] + T.exp(x[v_i0, v_k] - T_softmax_maxelem[v_i0])
        for i0, i1 in T.grid(n, T.int64(64)):
            with T.sblock("compute_1"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(x[v_i0, v_i1], T_softmax_maxelem[v_i0], compute_1[v_i0])
                T.writes(compute[v_i0, v_i1])
                T.sblock_attr({"axis": 1})
                compute[v_i0, v_i1] = x[v_i0, v_i1] - T_softmax_maxelem[v_i0] - T.log(compute_1[v_i0])

    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32")) -> R.Tensor((n, 64), dtype="float32"):
        cls = Module
        with R.dataflow():
            gv = R.call_tir(cls.log_softmax, (x,), out_ty=R.Tensor((n, 64), dtype="float32"))
            R.output(gv)
        return gv
