# Weights of 4 bits as compilers of language models wrote them for TVM 0.14: T.Buffer in the signature, shifts and
# masks as calls, casts of literals.
#
# run: main(ones(1, 8), full((1, 2), 1985229328), [[0.5, 2]]) == [[-14.0, -56.0]]
# run: main(zeros(0, 16), zeros(2, 3), ones(2, 3)) == zeros(0, 3)
# run: wrapped(zeros(2)) == [-2147483648, -2147483648]
# trap[boundary/dim]: main(ones(1, 7), zeros(1, 2), ones(1, 2))

@I.ir_module
class Module:
    @T.prim_func
    def decode(data: T.handle, scale: T.handle, out: T.handle):
        k, m = T.int64(), T.int64()
        D = T.match_buffer(data, (k, m), "uint32")
        S = T.match_buffer(scale, (k, m), "float32")
        W = T.match_buffer(out, (k * T.int64(8), m), "float32")
        for i, j in T.grid(k * T.int64(8), m):
            with T.block("decode"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                W[v_i, v_j] = (T.Cast("float32", T.bitwise_and(T.shift_right(D[v_i // T.int64(8), v_j], T.Cast("uint32", v_i % T.int64(8) * T.int64(4))), T.uint32(15))) - T.float32(7)) * S[v_i // T.int64(8), v_j]

    @T.prim_func
    def mm(x: T.handle, w: T.handle, y: T.handle):
        n, k, m = T.int64(), T.int64(), T.int64()
        X = T.match_buffer(x, (n, k), "float32")
        W = T.match_buffer(w, (k, m), "float32")
        Y = T.match_buffer(y, (n, m), "float32")
        for i, j, r in T.grid(n, m, k):
            with T.block("mm"):
                v_i, v_j, v_r = T.axis.remap("SSR", [i, j, r])
                with T.init():
                    Y[v_i, v_j] = T.float32(0)
                Y[v_i, v_j] = Y[v_i, v_j] + X[v_i, v_r] * W[v_r, v_j]

    @T.prim_func
    def wrap(x: T.Buffer((T.int64(2),), "int32"), y: T.Buffer((T.int64(2),), "int64")):
        for i in range(T.int64(2)):
            with T.block("wrap"):
                v_i = T.axis.spatial(T.int64(2), i)
                y[v_i] = T.Cast("int64", T.int32(2147483647) + T.int32(1)) + T.Cast("int64", x[v_i])

    @R.function
    def main(x: R.Tensor(("n", "k * 8"), dtype="float32"), data: R.Tensor(("k", "m"), dtype="uint32"), scale: R.Tensor(("k", "m"), dtype="float32")) -> R.Tensor(("n", "m"), dtype="float32"):
        n = T.int64()
        k = T.int64()
        m = T.int64()
        R.func_attr({"relax.force_pure": True})
        with R.dataflow():
            w = R.call_tir(Module.decode, (data, scale), out_sinfo=R.Tensor((k * 8, m), dtype="float32"))
            gv = R.call_tir(Module.mm, (x, w), out_sinfo=R.Tensor((n, m), dtype="float32"))
            R.output(gv)
        return gv

    @R.function
    def wrapped(x: R.Tensor((2,), dtype="int32")) -> R.Tensor((2,), dtype="int64"):
        y = R.call_tir(Module.wrap, (x,), out_sinfo=R.Tensor((2,), dtype="int64"))
        return y
