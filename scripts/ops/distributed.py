"""Distributed operators in a single process: expectations by their definition, with NumPy."""

import numpy as np

from rxgen import ALL, DTYPES, FLOATS, INTS, OpFile, Shape, round_to, run, sample, tensor, trap

V = [("x", tensor(["n", "m"], "f32"))]
X = np.arange(24, dtype=np.float32).reshape(4, 6)


def declare(f, *meshes):
    f.parts.append("\n".join(f'module_attr("mesh[{at}]", "{extents}")' for at, extents in enumerate(meshes)))


def identity(op, call, about, meshes=()):
    f = OpFile(op, about)
    if meshes:
        declare(f, *meshes)
    for dtype in ALL:
        f.function(dtype, [("x", tensor(["n", "m"], dtype))], call,
                   [run(dtype, [x], x) for s in [(2, 3), (1, 1), (0, 2)] for x in [sample(dtype, s)]])
    return f


def main():
    f = identity("broadcast_from_worker0", "broadcast_from_worker0(x)", "What worker 0 has; here: itself.")
    f.refused("no_tensor", [("s", 'Shape(["n"])')], "broadcast_from_worker0(s)", "RX0502")
    f.write()

    f = identity("allreduce", "allreduce(x)", "A reduction over all workers; here: over one.")
    for kind in ("sum", "prod", "min", "max", "avg"):
        f.function(f"by_{kind}", V, f'allreduce(x, op_type="{kind}", in_group=False)', [run(f"by_{kind}", [X], X)], returns=tensor(["n", "m"], "f32"))
    f.refused("unknown_reduction", V, 'allreduce(x, op_type="xor")', "RX0501")
    f.refused("no_bool", V, "allreduce(x, in_group=1)", "RX0502")
    f.write()

    f = identity("annotate_sharding", 'annotate_sharding(x, "mesh[0]", "S[1], R")', "A wish; the tensor stays.", ["2, 2", "2"])
    f.function("partial", V, 'annotate_sharding(x, "mesh[1]", "P(max)")', [run("partial", [X], X)])
    f.function("stays_plain", V, 'annotate_sharding(x, device_mesh="mesh[1]", placement="S[0]")', [run("stays_plain", [X], X)],
               returns=tensor(["n", "m"], "f32"))
    f.refused("no_such_dim", V, 'annotate_sharding(x, "mesh[1]", "S[2]")', "RX0501")
    f.refused("no_placement", V, 'annotate_sharding(x, "mesh[0]", "S[0], T")', "RX0501")
    f.refused("no_mesh", V, 'annotate_sharding(x, "", "R")', "RX0501")
    f.write()

    f = identity("redistribute", 'redistribute(x, "mesh[0]", "R")', "Another layout of the same tensor.", ["2", "2, 2"])
    f.function("distributed", [("x", 'DTensor(("n", 6), "f32", "mesh[0]", "S[0]")')], 'redistribute(x, "mesh[1]", "R, S[1]")',
               [run("distributed", [X], X)], returns='DTensor(("n", 6), "f32", "mesh[1]", "R, S[1]")')
    f.refused("no_such_dim", V, 'redistribute(x, "mesh[0]", "S[2]")', "RX0501")
    f.refused("no_mesh", V, 'redistribute(x, "", "R")', "RX0501")
    f.write()

    f = OpFile("allgather", "The tensors of all workers.")
    for dtype in ALL:
        f.function(dtype, [("x", tensor(["n", "m"], dtype))], "allgather(x, 2)",
                   [run(dtype, [x], np.concatenate([x, x])) for s in [(2, 3), (1, 1), (0, 2)] for x in [sample(dtype, s)]],
                   returns=tensor(["n * 2", "m"], dtype))
    f.function("one", V, "allgather(x, num_workers=1, in_group=False)", [run("one", [X], X)])
    f.function("rank_unknown", [("x", 'Tensor(dtype="f32")')], "allgather(x, 2)",
               [trap("allgather/C2", "rank_unknown", [np.float32(1)])])
    f.refused("no_workers", V, "allgather(x, 0)", "RX0501")
    f.refused("scalar", [("x", tensor([], "f32"))], "allgather(x, 2)", "RX0501")
    f.refused("too_long", [("x", tensor([2**40], "i8"))], f"allgather(x, {2**40})", "RX0501")
    f.write()

    f = OpFile("scatter_from_worker0", "Parts of what worker 0 has.")
    for dtype in ALL:
        f.function(dtype, [("x", tensor(["n", 3], dtype))], "scatter_from_worker0(x, 2)",
                   [run(dtype, [x], x[: len(x) // 2]) for s in [(4, 3), (2, 3), (0, 3)] for x in [sample(dtype, s)]])
    f.function("last_axis", V, "scatter_from_worker0(x, 3, axis=-1)", [run("last_axis", [X], X[:, :2]),
               trap("scatter_from_worker0/C3", "last_axis", [X[:, :4]])])
    f.function("divides", [("x", tensor(["n * 4", "m"], "f32")), ("s", 'Shape(["n"])')], "scatter_from_worker0(x, 4)", [run("divides", [X, Shape(1)], X[:1])],
               returns=tensor(["n", "m"], "f32"))
    f.refused("no_workers", V, "scatter_from_worker0(x, -1)", "RX0501")
    f.refused("no_such_axis", V, "scatter_from_worker0(x, 2, axis=2)", "RX0501")
    f.refused("unequal", [("x", tensor([5], "f32"))], "scatter_from_worker0(x, 2)", "RX0501")
    f.write()

    f = OpFile("reduce_scatter", "Parts of a reduction over all workers.")
    for dtype in FLOATS + INTS:
        x = sample(dtype, (4, 3))
        with np.errstate(all="ignore"):
            half = x[:2].astype(np.float64) if dtype in FLOATS else x[:2]
            total = round_to(dtype, half + half)
        f.function(dtype, [("x", tensor(["n", 3], dtype))], "reduce_scatter(x, 2)",
                   [run(dtype, [x], total), run(dtype, [x[:0]], x[:0])])
    for kind, want in {"sum": X * 3, "prod": X**3, "min": X, "max": X, "avg": X}.items():
        f.function(f"by_{kind}", V, f'reduce_scatter(x, 3, op_type="{kind}", axis=1)', [run(f"by_{kind}", [X], want[:, :2].astype(np.float32))])
    wraps = np.array([[3, -7], [1, 1]], np.int8)
    f.function("product_wraps", [("x", tensor(["n", 2], "i8"))], 'reduce_scatter(x, 1, "prod")', [run("product_wraps", [wraps], wraps)])
    f.function("unequal", V, "reduce_scatter(x, 4, axis=1)", [trap("reduce_scatter/C3", "unequal", [X])])
    f.refused("no_workers", V, "reduce_scatter(x, 0)", "RX0501")
    f.refused("no_such_axis", V, "reduce_scatter(x, 2, axis=-3)", "RX0501")
    f.refused("never_equal", [("x", tensor([5], "f32"))], "reduce_scatter(x, 2)", "RX0501")
    f.refused("unknown_reduction", V, 'reduce_scatter(x, 2, op_type="or")', "RX0501")
    f.write()

    f = OpFile("all_to_all", "Everyone sends a part to everyone.")
    for dtype in ALL:
        f.function(dtype, [("x", tensor(["n", 3], dtype))], "all_to_all(x, 2, split_axis=0, concat_axis=1)",
                   [run(dtype, [x], np.concatenate([x[: len(x) // 2]] * 2, axis=1)) for s in [(4, 3), (0, 3)] for x in [sample(dtype, s)]])
    f.function("same_axis", V, "all_to_all(x, 2)", [run("same_axis", [X], np.concatenate([X[:2], X[:2]]))])
    f.function("unequal", V, "all_to_all(x, 4, split_axis=-1)", [trap("all_to_all/C3", "unequal", [X])])
    f.refused("no_workers", V, "all_to_all(x, 0)", "RX0501")
    f.refused("no_such_axis", V, "all_to_all(x, 2, concat_axis=2)", "RX0501")
    f.refused("never_equal", [("x", tensor([5], "f32"))], "all_to_all(x, 2)", "RX0501")
    f.refused("too_long", [("x", tensor([2**40, 2**40], "i8"))], f"all_to_all(x, {2**40}, concat_axis=1)", "RX0501")
    f.write()

    f = OpFile("call_tir_local_view", "A tensor program on the part of each worker.")
    program = "\n".join([
        "@tensorir_function",
        'def twice(X: Buffer(("n",), "f32"), Y: Buffer(("n",), "f32")):',
        "    n = sym_var()",
        "    for i in grid(n):",
        '        with block("twice"):',
        "            Y[i] = X[i] + X[i]",
    ])
    declare(f, "2")
    f.parts.append(program)
    v = np.array([1, -2, 0.5], np.float32)
    f.function("local", [("x", 'DTensor(("n",), "f32", "mesh[0]", "S[0]")')],
               'call_tir_local_view(twice, (x,), DTensor((n,), "f32", "mesh[0]", "S[0]"))',
               [run("local", [v], v + v), run("local", [v[:0]], v[:0])], returns='DTensor(("n",), "f32", "mesh[0]", "S[0]")')
    f.refused("dims_unknown", [("x", tensor(["n"], "f32"))], 'call_tir_local_view(twice, (x,), Tensor(ndim=1, dtype="f32"))', "RX0501")
    f.refused("no_argument", [("x", tensor(["n"], "f32"))], 'call_tir_local_view(twice, (x, 1.5), Tensor((n,), "f32"))', "RX0501")
    f.refused("no_program", [("x", tensor(["n"], "f32"))], 'call_tir_local_view(x, (x,), Tensor((n,), "f32"))', "RX0502")
    f.write()

    ranks()


RANKS = [("s", 'Shape(["r"])')]


def shard(x, workers, rank, axis):
    """Blocks of ceildiv(n, workers) rows: the last ones may be short or empty."""
    block = -(-x.shape[axis] // workers)
    index = [slice(None)] * x.ndim
    index[axis] = slice(min(rank * block, x.shape[axis]), min((rank + 1) * block, x.shape[axis]))
    return x[tuple(index)]


def ranks():
    """Operators of one rank: several ranks are the tests of the crate relax-sharding."""
    f = OpFile("spmd.own_shard", "The rows of one rank.")
    for dtype in ALL:
        f.function(dtype, RANKS + [("x", tensor(["n", 3], dtype))], "spmd.own_shard(x, 3, r)",
                   [run(dtype, [Shape(r), x], shard(x, 3, r, 0)) for n in (7, 4, 1, 0) for r in (0, 2) for x in [sample(dtype, (n, 3))]])
    f.function("last_axis", RANKS + V, "spmd.own_shard(x, 4, r, axis=-1)",
               [run("last_axis", [Shape(r), X], shard(X, 4, r, 1)) for r in range(4)] + [trap("spmd.own_shard/C1", "last_axis", [Shape(4), X])])
    f.function("even", RANKS + [("x", tensor([6], "f32"))], "spmd.own_shard(x, 2, r)", [run("even", [Shape(1), X[0]], X[0, 3:])],
               returns=tensor([3], "f32"))
    f.refused("no_workers", V, "spmd.own_shard(x, 0, 0)", "RX0501")
    f.refused("no_such_rank", V, "spmd.own_shard(x, 2, 2)", "RX0501")
    f.refused("no_such_axis", V, "spmd.own_shard(x, 2, 0, 2)", "RX0501")
    f.write()

    f = OpFile("spmd.only", "What one rank keeps.")
    for dtype in ALL:
        f.function(dtype, RANKS + [("x", tensor(["n", 3], dtype))], "spmd.only(x, 3, r, 2)",
                   [run(dtype, [Shape(r), x], x if r == 2 else x[:0]) for n in (4, 1, 0) for r in (0, 2) for x in [sample(dtype, (n, 3))]])
    f.function("first", RANKS + [("x", tensor([6], "f32"))], "spmd.only(x, 2, r, 0)",
               [run("first", [Shape(0), X[0]], X[0]), run("first", [Shape(1), X[0]], X[0, :0]), trap("spmd.only/C1", "first", [Shape(2), X[0]])])
    f.function("scalar", RANKS + [("x", tensor([], "f32"))], "spmd.only(x, 2, r, 0)", [run("scalar", [Shape(1), X[0, 0]], X[0, 0])])
    f.refused("no_workers", V, "spmd.only(x, 0, 0, 0)", "RX0501")
    f.refused("no_such_rank", V, "spmd.only(x, 2, 2, 0)", "RX0501")
    f.refused("no_such_target", V, "spmd.only(x, 2, 0, 2)", "RX0501")
    f.refused("below_zero", V, "spmd.only(x, 2, 0, -1)", "RX0501")
    f.write()

    one, two = '"mesh[0]", 0, 1, 0', '"mesh[0]", 0, 2, 0'
    calls = {
        "all_gather": ("0, n", "0, n"),
        "all_reduce": ('"max"', '"prod"'),
        "all_to_all": ("0, 1, m", "1, 1, m"),
        "reduce_scatter": ("0", "2"),
    }
    for name, (fine, wrong) in calls.items():
        f = OpFile(f"spmd.{name}", "A collective of ranks; here: of a group of one.")
        for dtype in FLOATS + INTS:
            f.function(dtype, [("x", tensor(["n", "m"], dtype))], f"spmd.{name}(x, {one}, {fine})",
                       [run(dtype, [x], x) for s in [(2, 3), (1, 1), (0, 2)] for x in [sample(dtype, s)]])
        if name in ("all_reduce", "reduce_scatter"):
            f.function("alone", V, f"spmd.{name}(x, {two}, {fine})", [trap("ranks/alone", "alone", [X])])
            f.refused("truths", [("x", tensor(["n", "m"], "bool"))], f"spmd.{name}(x, {one}, {fine})", "RX0501")
        else:
            f.function("alone", [("x", tensor([2, 3], "f32"))], f"spmd.{name}(x, {two}, {fine.replace('n', '4').replace('m', '6')})",
                       [trap("ranks/alone", "alone", [X[:2, :3]])])
            f.refused("no_shard", [("x", tensor([2, 3], "f32"))], f"spmd.{name}(x, {two}, {fine.replace('n', '7').replace('m', '9')})", "RX0501")
        if name != "all_gather":
            f.refused("wrong", V, f"spmd.{name}(x, {one}, {wrong})", "RX0501")
        f.refused("no_such_rank", V, f'spmd.{name}(x, "mesh[0]", 0, 2, 2, {fine})', "RX0501")
        f.refused("no_mesh", V, f'spmd.{name}(x, "", 0, 1, 0, {fine})', "RX0501")
        f.write()

    for name, stages, wrong in [("send", "0, 0", "0, 1"), ("broadcast", "0", "1")]:
        f = OpFile(f"spmd.{name}", "What one rank has; here: of a group of one.")
        for dtype in ALL:
            f.function(dtype, [("x", tensor(["n", "m"], dtype))], f"spmd.{name}(x, {one}, {stages}, n)",
                       [run(dtype, [x], x) for s in [(2, 3), (1, 1), (0, 2)] for x in [sample(dtype, s)]])
        f.function("scalar", [("x", tensor([], "f32"))], f"spmd.{name}(x, {one}, {stages}, 1)", [run("scalar", [X[0, 0]], X[0, 0])])
        f.function("alone", [("x", tensor([2, 3], "f32"))], f"spmd.{name}(x, {two}, {wrong}, 2)" if name == "send" else f"spmd.{name}(x, {two}, 0, 2)",
                   [trap("ranks/alone", "alone", [X[:2, :3]])])
        f.refused("other_rows", [("x", tensor([2, 3], "f32"))], f"spmd.{name}(x, {two}, {stages}, 3)", "RX0501")
        f.refused("below_zero", [("x", tensor([0, 3], "f32"))], f"spmd.{name}(x, {two}, {stages}, -1)", "RX0501")
        f.refused("wrong", V, f"spmd.{name}(x, {one}, {wrong}, n)", "RX0501")
        f.refused("no_such_rank", V, f'spmd.{name}(x, "mesh[0]", 0, 2, 2, {stages}, n)', "RX0501")
        f.refused("no_mesh", V, f'spmd.{name}(x, "", 0, 1, 0, {stages}, n)', "RX0501")
        f.write()


if __name__ == "__main__":
    main()
