# An operand that is overwritten (DataflowUseInplaceCalls), a pattern beside the program's own (AnnotateTIROpPattern), and a loop variable with the
# name of another function's symbolic variable.
#
# run: main([[1, 2]], [3, 4]) == [[8.0, 12.0]]
# run: main(zeros(0, 2), [3, 4]) == zeros(0, 2)
# run: main([[0, 0], [1, 0]], [-1, 1]) == [[-2.0, 2.0], [0.0, 2.0]]
# run: rows(ones(3, 2)) == [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]

k = TypeVar("k")
n = TypeVar("n")
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def add_inplace(A: T.Buffer((n, T.int64(2)), "float32"), B: T.Buffer((T.int64(2),), "float32")):
        T.func_attr({"compute_pattern": "Injective", "op_pattern": 0, "tirx.noalias": True})
        # with T.sblock("root"):
        for i, k in T.grid(n, T.int64(2)):
            with T.sblock("add"):
                v_i, v_k = T.axis.remap("SS", [i, k])
                T.reads(A[v_i, v_k], B[v_k])
                T.writes(A[v_i, v_k])
                A[v_i, v_k] = A[v_i, v_k] + B[v_k]

    @R.function
    def main(x: R.Tensor((n, 2), dtype="float32"), b: R.Tensor((2,), dtype="float32")) -> R.Tensor((n, 2), dtype="float32"):
        cls = Module
        with R.dataflow():
            lv: R.Tensor((n, 2), dtype="float32") = R.add(x, x)
            lv1: R.Tensor((2,), dtype="float32") = R.add(b, b)
            gv: R.Tensor((n, 2), dtype="float32") = R.call_tir_inplace(cls.add_inplace, (lv, lv1), out_ty=R.Tensor((n, 2), dtype="float32"), inplace_indices=[0])
            R.output(gv)
        return gv

    @R.function
    def rows(y: R.Tensor((k, 2), dtype="float32")) -> R.Tensor((k, 2), dtype="float32"):
        gv: R.Tensor((k, 2), dtype="float32") = R.abs(y)
        return gv
