"""einsum and outer: expectations from NumPy (f64, rounded once)."""

import numpy as np

from rxgen import DTYPES, FLOATS, INTS, OpFile, approx, round_to, run, sample, tensor, trap


def wide(a):
    return a.astype(np.float64)


def outer():
    f = OpFile("outer", "Products of all pairs.")
    params = lambda dtype: [("a", tensor(["n"], dtype)), ("b", tensor(["m"], dtype))]
    for dtype in FLOATS + INTS:
        cases = []
        for n, m in [(3, 4), (1, 1), (0, 2), (2, 0)]:
            a, b = sample(dtype, (n,)), sample(dtype, (m,), seed=1)
            with np.errstate(all="ignore"):
                want = round_to(dtype, np.outer(wide(a), wide(b))) if dtype in FLOATS else np.outer(a, b)
            cases.append(run(dtype, [a, b], want))
        f.function(dtype, params(dtype), "outer(a, b)", cases, returns=tensor(["n", "m"], dtype))
    f.function("rank_unknown", [("a", 'Tensor(dtype="f32")'), ("b", tensor(["m"], "f32"))], "outer(a, b)",
               [run("rank_unknown", [np.ones(2, np.float32)] * 2, np.ones((2, 2), np.float32)),
                trap("outer/C2", "rank_unknown", [np.float32(1), np.ones(2, np.float32)])])
    f.refused("dtypes_differ", [("a", tensor(["n"], "f32")), ("b", tensor(["m"], "f64"))], "outer(a, b)", "RX0501")
    f.refused("bools", params("bool"), "outer(a, b)", "RX0501")
    f.refused("matrix", [("a", tensor(["n", 1], "f32")), ("b", tensor(["m"], "f32"))], "outer(a, b)", "RX0501")
    f.write()


def einsum():
    rng = np.random.default_rng(5)
    f = OpFile("einsum", "Sums of products, by labels.")
    for dtype in FLOATS:
        a, b = (round_to(dtype, rng.standard_normal(s)) for s in [(3, 4), (4, 2)])
        want = round_to(dtype, np.einsum("ij,jk->ik", wide(a), wide(b)))
        f.function(dtype, [("a", tensor(["n", "k"], dtype)), ("b", tensor(["k", "m"], dtype))],
                   'einsum((a, b), subscripts="ij,jk->ik")',
                   [approx(dtype, [a, b], want),
                    run(dtype, [a[:, :0], b[:0]], np.zeros((3, 2), DTYPES[dtype])),
                    run(dtype, [a[:0], b], np.zeros((0, 2), DTYPES[dtype]))],
                   returns=tensor(["n", "m"], dtype))
    for dtype in INTS:
        a, b = (rng.integers(0, 120, s).astype(DTYPES[dtype]) for s in [(2, 3), (3, 2)])
        f.function(dtype, [("a", tensor(["n", "k"], dtype)), ("b", tensor(["k", "m"], dtype))],
                   'einsum([a, b], "ij,jk->ik")', [run(dtype, [a, b], a @ b)])
    # Small integers: exact in whatever order they are summed.
    cases = {
        "transposed": ("ij->ji", [(2, 3)]), "implicit_transpose": ("ba", [(2, 3)]), "trace": ("ii", [(3, 3)]),
        "diagonal": ("ii->i", [(3, 3)]), "sum_all": ("ij->", [(2, 3)]), "rows": ("ij->i", [(2, 3)]),
        "implicit_matmul": ("ij, jk", [(2, 3), (3, 2)]), "batches": ("bij,bjk->bik", [(2, 2, 3), (2, 3, 1)]),
        "all_pairs": ("i,j->ij", [(2,), (3,)]), "elementwise": ("ij,ij->ij", [(2, 3), (2, 3)]), "dot": ("i,i", [(5,), (5,)]),
        "three": ("ij,jk,kl->il", [(2, 3), (3, 2), (2, 3)]), "bilinear": ("i,ij,j->", [(2,), (2, 3), (3,)]),
        "heads": ("bqhd,bkhd->bhqk", [(1, 2, 2, 3), (1, 3, 2, 3)]), "upper_case": ("Ab,bA->A", [(2, 3), (3, 2)]),
        "dots": ("...ij,...jk->...ik", [(2, 1, 2, 3), (3, 3, 2)]), "dots_implicit": ("...i,i", [(2, 3), (3,)]),
        "dots_last": ("i...->...i", [(2, 3, 4)]), "dots_of_nothing": ("...i->i...", [(3,)]),
        "far_apart": ("a,b,c,d->", [(9,), (8,), (7,), (6,)]), "scalars": (",->", [(), ()]),
        "cube_diagonal": ("iji->ij", [(2, 3, 2)]),
    }
    for name, (text, shapes) in cases.items():
        arrays = [rng.integers(-4, 5, s).astype(np.float32) for s in shapes]
        terms = text.split("->")[0].replace(" ", "").split(",")
        dims = [list(s) if "..." in term else [f"d{label}" for label in term] for s, term in zip(shapes, terms)]
        params = [(f"x{i}", tensor(d, "f32")) for i, d in enumerate(dims)]
        names = ", ".join(p for p, _ in params)
        f.function(name, params, f'einsum([{names}], subscripts="{text}")',
                   [run(name, arrays, np.asarray(np.einsum(text, *arrays), np.float32))])
    f.function("labels_may_differ", [("a", tensor([2, "n"], "f32")), ("b", tensor(["m", 2], "f32"))], 'einsum((a, b), "ij,jk->ik")',
               [trap("einsum/C4", "labels_may_differ", [np.ones((2, 3), np.float32), np.ones((1, 2), np.float32)])])
    f.function("dots_may_differ", [("a", tensor(["n", 2], "f32")), ("b", tensor(["m", 2], "f32"))], 'einsum((a, b), "...j,...j->...")',
               [run("dots_may_differ", [np.ones((1, 2), np.float32), np.ones((3, 2), np.float32)], np.full(3, 2, np.float32)),
                trap("einsum/C5", "dots_may_differ", [np.ones((2, 2), np.float32), np.ones((3, 2), np.float32)])])
    f.function("rank_unknown", [("a", 'Tensor(dtype="f32")')], 'einsum((a,), "ij->ji")',
               [run("rank_unknown", [np.ones((1, 2), np.float32)], np.ones((2, 1), np.float32)),
                trap("einsum/C3", "rank_unknown", [np.ones(2, np.float32)])])
    nan = np.array([np.nan, 1, np.inf, 2], np.float32)
    f.function("special", [("a", tensor(["n"], "f32")), ("b", tensor(["n"], "f32"))], 'einsum((a, b), "i,i->i")',
               [run("special", [nan, nan[::-1].copy()], nan * nan[::-1])])
    f.function("infinite_sum", [("a", tensor(["n"], "f32"))], 'einsum((a,), "i->")',
               [run("infinite_sum", [nan[1:]], np.float32(np.inf)), run("infinite_sum", [nan], np.float32(np.nan))])
    m = [("a", tensor([2, 3], "f32")), ("b", tensor([3, 2], "f32"))]
    f.refused("nothing", [], 'einsum((), "->")', "RX0501")
    f.refused("dtypes_differ", [("a", tensor([2], "f32")), ("b", tensor([2], "f16"))], 'einsum((a, b), "i,i->")', "RX0501")
    f.refused("bools", [("a", tensor([2], "bool"))], 'einsum((a,), "i->")', "RX0501")
    f.refused("strange_label", m, 'einsum((a, b), "i1,1j->ij")', "RX0501")
    f.refused("label_from_nowhere", m, 'einsum((a, b), "ij,jk->il")', "RX0501")
    f.refused("label_twice", m, 'einsum((a, b), "ij,jk->ii")', "RX0501")
    f.refused("too_few_terms", m, 'einsum((a, b), "ij->i")', "RX0501")
    f.refused("too_few_labels", m, 'einsum((a, b), "i,jk->ik")', "RX0501")
    f.refused("labels_differ", m, 'einsum((a, b), "ij,ik->jk")', "RX0501")
    f.refused("dots_differ", [("a", tensor([2, 3], "f32")), ("b", tensor([3, 3], "f32"))], 'einsum((a, b), "...i,...i->...")', "RX0501")
    f.refused("no_text", m, "einsum((a, b), 3)", "RX0502")
    f.write()


def main():
    outer()
    einsum()


if __name__ == "__main__":
    main()
