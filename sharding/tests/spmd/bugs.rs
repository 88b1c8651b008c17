//! Bugs in local programs, each a text and another in its place.

/// A program, its mesh, and an edit of its local program.
pub(crate) type Bug = (&'static str, &'static str, &'static str, &'static str, &'static str);

pub(crate) const BUGS: &[Bug] = &[
    // A reduction is missing, is another one, or is formed twice.
    (
        "megatron, columns",
        "2",
        "missing reduce",
        "    lv1_1 = spmd.all_reduce(lv1, \"mesh[0]\", 0, 2, rank_0, \"sum\")\n    return lv1_1",
        "    return lv1",
    ),
    ("megatron, columns", "3", "maximum for a sum", "\"sum\"", "\"max\""),
    ("megatron, columns", "2", "minimum for a sum", "\"sum\"", "\"min\""),
    (
        "megatron, columns",
        "2",
        "reduced twice",
        "    return lv1_1",
        "    lv1_2 = spmd.all_reduce(lv1_1, \"mesh[0]\", 0, 2, rank_0, \"sum\")\n    return lv1_2",
    ),
    (
        "megatron, columns",
        "2",
        "reduced before the product",
        "    lv1 = matmul(h, b)\n    lv1_1 = spmd.all_reduce(lv1, \"mesh[0]\", 0, 2, rank_0, \"sum\")",
        "    h_1 = spmd.all_reduce(h, \"mesh[0]\", 0, 2, rank_0, \"sum\")\n    lv1_1 = matmul(h_1, b)",
    ),
    (
        "megatron, columns",
        "2",
        "reduced before relu",
        "    h = relu(lv0)",
        "    h = spmd.all_reduce(relu(lv0), \"mesh[0]\", 0, 2, rank_0, \"sum\")",
    ),
    (
        "data parallel",
        "4",
        "missing reduce",
        "    lv1_1 = spmd.all_reduce(lv1, \"mesh[0]\", 0, 4, rank_0, \"sum\")\n    return lv1_1",
        "    return lv1",
    ),
    (
        "data parallel",
        "2",
        "scattered, not reduced",
        "spmd.all_reduce(lv1, \"mesh[0]\", 0, 2, rank_0, \"sum\")",
        "spmd.reduce_scatter(lv1, \"mesh[0]\", 0, 2, rank_0, 0, \"sum\")",
    ),
    // The wrong group.
    (
        "megatron, columns",
        "2, 2",
        "the other axis",
        "\"mesh[0]\", 1, 2, rank_1",
        "\"mesh[0]\", 0, 2, rank_0",
    ),
    (
        "megatron, columns",
        "2, 2",
        "the rank of the other axis",
        "1, 2, rank_1, \"sum\"",
        "1, 2, rank_0, \"sum\"",
    ),
    (
        "megatron, columns",
        "2, 2",
        "another mesh",
        "\"mesh[0]\", 1, 2, rank_1",
        "\"mesh[1]\", 1, 2, rank_1",
    ),
    (
        "paper, contracted",
        "2, 2",
        "gathered along the other axis",
        "spmd.all_gather(w, \"mesh[0]\", 0, 2, rank_0, 1, 4)",
        "spmd.all_gather(w, \"mesh[0]\", 1, 2, rank_1, 1, 4)",
    ),
    (
        "attention by heads",
        "2, 2",
        "the other axis",
        "\"mesh[0]\", 1, 2, rank_1",
        "\"mesh[0]\", 0, 2, rank_0",
    ),
    (
        "data parallel",
        "2, 2",
        "the own shard of the other axis",
        "spmd.own_shard(w, 2, rank_1, 1)",
        "spmd.own_shard(w, 2, rank_0, 1)",
    ),
    ("megatron, columns", "3", "a group of two", "0, 3, rank_0, \"sum\"", "0, 2, rank_0, \"sum\""),
    // The wrong axis of a tensor.
    ("paper, contracted", "2, 2", "gathered along rows", "rank_0, 1, 4)", "rank_0, 0, k)"),
    ("exchange", "2", "axes exchanged", "rank_0, 0, 1, m)", "rank_0, 1, 0, n)"),
    ("exchange", "2", "the whole for a shard", "spmd.own_shard(b, 2, rank_0, 0)", "b"),
    (
        "exchange",
        "2, 2",
        "the own shard along columns",
        "spmd.own_shard(y_2, 2, rank_0, 0)",
        "spmd.own_shard(y_2, 2, rank_0, 1)",
    ),
    (
        "heads",
        "2, 2",
        "the shard of the other rank",
        "spmd.own_shard(x, 2, rank_1, 0)",
        "spmd.own_shard(x, 2, 1 - rank_1, 0)",
    ),
    // Ragged and empty shards.
    (
        "exchange",
        "4",
        "a shard in equal parts",
        "spmd.own_shard(b, 4, rank_0, 0)",
        "strided_slice(b, axes=[0], begin=[rank_0 * (m // 4)], end=[rank_0 * (m // 4) + m // 4])",
    ),
    ("exchange", "4", "an extent of whole blocks", "0, 1, m)", "0, 1, ceildiv(m, 4) * 4)"),
    ("paper, contracted", "2, 2", "a padded extent", "rank_0, 1, 4)", "rank_0, 1, 5)"),
    (
        "norm",
        "3",
        "the extent of another rank",
        "max(n - rank_0 * ceildiv(n, 3), 0)",
        "max(n - (2 - rank_0) * ceildiv(n, 3), 0)",
    ),
    // Ranks that part ways.
    (
        "megatron, columns",
        "2",
        "one rank leaves",
        "    lv1_1 = spmd.all_reduce(lv1, \"mesh[0]\", 0, 2, rank_0, \"sum\")",
        "    if equal(full((), rank_0, \"i64\"), const(0, \"i64\")):\n        lv1_1 = lv1\n    else:\n        lv1_1 = spmd.all_reduce(lv1, \"mesh[0]\", 0, 2, rank_0, \"sum\")",
    ),
    (
        "megatron, columns",
        "2",
        "ranks reduce differently",
        "    lv1_1 = spmd.all_reduce(lv1, \"mesh[0]\", 0, 2, rank_0, \"sum\")",
        "    if equal(full((), rank_0, \"i64\"), const(0, \"i64\")):\n        lv1_1 = spmd.all_reduce(lv1, \"mesh[0]\", 0, 2, rank_0, \"max\")\n    else:\n        lv1_1 = spmd.all_reduce(lv1, \"mesh[0]\", 0, 2, rank_0, \"sum\")",
    ),
    (
        "data parallel",
        "2",
        "a term of one rank only",
        "    lv0 = add(y, y)",
        "    lv0 = multiply(y, full((), rank_0, \"f32\"))",
    ),
    // Another call.
    ("decoder", "2", "another weight", "matmul(x, wk)", "matmul(x, wq)"),
    (
        "norm",
        "3",
        "another argument",
        "rms_norm(x, w, axes=[-1])",
        "rms_norm(x, w, axes=[-1], epsilon=0.5)",
    ),
    (
        "attention by heads",
        "2",
        "another axis of a softmax",
        "softmax(scores, axis=-1)",
        "softmax(scores, axis=1)",
    ),
];
