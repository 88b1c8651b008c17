# A length that only the run knows, and an argument of call_tir that is none of its tensors (`tir_vars`).
#
# run: main([3, 1, 3, 2]) == [10, 10, 10]
# run: main(zeros(5)) == [10]
# run: chosen([1, 2], const(True, "bool")) == [2.0, 4.0]
# run: chosen([1, 2], const(False, "bool")) == [1.0, 2.0]

@I.ir_module
class Module:
    @T.prim_func(private=True)
    def fill(out: T.handle, value: T.int64):
        m = T.int64()
        O = T.match_buffer(out, (m,), "int64")
        for i in T.serial(m):
            with T.block("fill"):
                vi = T.axis.spatial(m, i)
                O[vi] = value * T.int64(2)

    @R.function
    def main(x: R.Tensor(("n",), dtype="int64")) -> R.Tensor(ndim=1, dtype="int64"):
        m = T.int64()
        lv = R.unique(x, sorted=True, return_index=False, return_inverse=False, return_counts=False, axis=None)
        lv1 = R.match_cast(lv, R.Tensor((m,), dtype="int64"))
        gv = R.call_tir(Module.fill, R.tuple(), out_sinfo=R.Tensor((m,), dtype="int64"), tir_vars=R.shape([5]))
        return gv

    @R.function
    def chosen(x: R.Tensor(("n",), dtype="float32"), c: R.Tensor((), dtype="bool")) -> R.Tensor(("n",), dtype="float32"):
        n = T.int64()
        if c:
            y: R.Tensor((n,), dtype="float32") = R.multiply(x, R.const(2.0, "float32"))
        else:
            y: R.Tensor((n,), dtype="float32") = x
        return y
