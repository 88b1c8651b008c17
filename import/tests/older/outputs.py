# Several results, a shape as a value, a tuple, constants, operators with attributes, as TVM 0.12 printed them.
#
# run: main([[3, -1], [2, 5]]) == ([[4.0, 0.0], [3.0, 6.0]], [3.0, 5.0], [[3.0, 2.0], [-1.0, 5.0]])
# run: main(zeros(1, 3)) == ([[1.0, 1.0, 1.0]], [0.0], [[0.0], [0.0], [0.0]])
# run: halves([1, 2, 3, 4]) == ([1.0, 2.0], [3.0, 4.0])
# run: places([0, 0, 7]) == [0, 1, 2]
# trap[max/C2]: main(zeros(2, 0))

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "m"), dtype="float32")) -> R.Tuple(R.Tensor(("n", "m"), dtype="float32"), R.Tensor(("n",), dtype="float32"), R.Tensor(("m", "n"), dtype="float32")):
        n = T.int64()
        m = T.int64()
        with R.dataflow():
            lv: R.Tensor((n, m), dtype="float32") = R.add(x, R.const(1, "float32"))
            lv1: R.Tensor((n,), dtype="float32") = R.max(x, axis=[1], keepdims=False)
            lv2: R.Tensor((m, n), dtype="float32") = R.permute_dims(x, axes=None)
            gv: R.Tuple(R.Tensor((n, m), dtype="float32"), R.Tensor((n,), dtype="float32"), R.Tensor((m, n), dtype="float32")) = lv, lv1, lv2
            R.output(gv)
        return gv

    @R.function
    def halves(x: R.Tensor((4,), dtype="float32")) -> R.Tuple(R.Tensor((2,), dtype="float32"), R.Tensor((2,), dtype="float32")):
        gv: R.Tuple(R.Tensor((2,), dtype="float32"), R.Tensor((2,), dtype="float32")) = R.split(x, indices_or_sections=2, axis=0)
        return gv

    @R.function
    def places(x: R.Tensor(("n",), dtype="int64")) -> R.Tensor(("n",), dtype="int64"):
        n = T.int64()
        gv: R.Tensor((n,), dtype="int64") = R.arange(R.prim_value(0), R.prim_value(n), R.prim_value(1), dtype="int64")
        return gv
