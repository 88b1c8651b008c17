# What LegalizeOps of TVM 0.13 made of a softmax: buffers of the program's own, axes written one by one, a root block.
#
# run: main([[0, 0]]) == [[0.5, 0.5]]
# run: main([[1, 2], [30, 30]]) ~= [[0.26894143, 0.73105860], [0.5, 0.5]]
# run: main(zeros(0, 2)) == zeros(0, 2)
# trap[boundary/dtype]: main(const([[1, 2]], "i64"))

@I.ir_module
class Module:
    @T.prim_func
    def softmax(var_x: T.handle, var_y: T.handle):
        T.func_attr({"op_pattern": 4, "tir.noalias": T.bool(True)})
        n = T.int64()
        x = T.match_buffer(var_x, (n, T.int64(2)), "float32")
        y = T.match_buffer(var_y, (n, T.int64(2)), "float32")
        with T.block("root"):
            T.reads()
            T.writes()
            most = T.alloc_buffer((n,))
            shifted = T.alloc_buffer((n, T.int64(2)), "float32")
            total = T.alloc_buffer((n,))
            for i0 in range(n):
                for k in range(T.int64(2)):
                    with T.block("most"):
                        v_i0 = T.axis.spatial(n, i0)
                        v_k = T.axis.reduce(T.int64(2), k)
                        T.reads(x[v_i0, v_k])
                        T.writes(most[v_i0])
                        with T.init():
                            most[v_i0] = T.float32(-3.4028234663852886e+38)
                        most[v_i0] = T.max(most[v_i0], x[v_i0, v_k])
            for i0, i1 in T.grid(n, T.int64(2)):
                with T.block("shifted"):
                    v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                    shifted[v_i0, v_i1] = T.exp(x[v_i0, v_i1] - most[v_i0])
            for i0, k in T.grid(n, T.int64(2)):
                with T.block("total"):
                    v_i0, v_k = T.axis.remap("SR", [i0, k])
                    with T.init():
                        total[v_i0] = T.float32(0)
                    total[v_i0] = total[v_i0] + shifted[v_i0, v_k]
            for i0, i1 in T.grid(n, T.int64(2)):
                with T.block("norm"):
                    v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                    T.block_attr({"axis": 1})
                    y[v_i0, v_i1] = shifted[v_i0, v_i1] / total[v_i0]

    @R.function
    def main(x: R.Tensor(("n", 2), dtype="float32")) -> R.Tensor(("n", 2), dtype="float32"):
        n = T.int64()
        with R.dataflow():
            gv = R.call_tir(Module.softmax, (x,), out_sinfo=R.Tensor((n, 2), dtype="float32"))
            R.output(gv)
        return gv
