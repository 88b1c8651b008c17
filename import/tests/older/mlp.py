# A module in the spelling of TVM 0.15: dims by T.int64(), handles with T.match_buffer, T.block, out_sinfo.
#
# run: main([[1, 2, 3, 4]], ones(4, 2)) == [[10.0, 10.0]]
# run: main([[1, -2, 0, 0], [0, 0, -3, 1]], [[1, 2], [3, 4], [5, 6], [7, 8]]) == [[0.0, 0.0], [0.0, 0.0]]
# run: main(zeros(0, 4), ones(4, 2)) == zeros(0, 2)
# trap[boundary/dim]: main(ones(2, 3), ones(4, 2))
# from tvm.script import ir as I
# from tvm.script import tir as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @T.prim_func
    def mm(x: T.handle, w: T.handle, y: T.handle):
        T.func_attr({"tir.noalias": T.bool(True)})
        n = T.int64()
        X = T.match_buffer(x, (n, T.int64(4)))
        m = T.int64()
        W = T.match_buffer(w, (T.int64(4), m))
        Y = T.match_buffer(y, (n, m))
        # with T.block("root"):
        for i, j, k in T.grid(n, m, T.int64(4)):
            with T.block("mm"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                T.reads(X[v_i, v_k], W[v_k, v_j])
                T.writes(Y[v_i, v_j])
                with T.init():
                    Y[v_i, v_j] = T.float32(0)
                Y[v_i, v_j] = Y[v_i, v_j] + X[v_i, v_k] * W[v_k, v_j]

    @R.function
    def main(x: R.Tensor(("n", 4), dtype="float32"), w: R.Tensor((4, "m"), dtype="float32")) -> R.Tensor(("n", "m"), dtype="float32"):
        n = T.int64()
        m = T.int64()
        cls = Module
        with R.dataflow():
            lv = R.call_tir(cls.mm, (x, w), out_sinfo=R.Tensor((n, m), dtype="float32"))
            gv: R.Tensor((n, m), dtype="float32") = R.nn.relu(lv)
            R.output(gv)
        return gv
