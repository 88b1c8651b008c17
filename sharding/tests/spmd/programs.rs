//! The programs: each on a mesh of one axis, or of two.

/// A program on a mesh, with the shapes of its arguments for a size.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) text: String,
    pub(crate) shapes: Shapes,
    /// Whether no sum is formed in another order, or all sums are of small integers.
    pub(crate) is_exact: bool,
}

/// The meshes of the tests.
pub(crate) const MESHES: [&str; 5] = ["1", "2", "3", "4", "2, 2"];

pub(crate) type Text = fn(bool) -> String;
/// The shapes of the arguments for a size.
pub(crate) type Shapes = fn(usize) -> Vec<Vec<usize>>;

const PROGRAMS: &[(&str, Text, Shapes, bool)] = &[
    ("paper", paper, |n| vec![vec![n, 5], vec![5, 4]], true),
    ("paper, contracted", paper, |n| vec![vec![3, n], vec![n, 4]], true),
    ("megatron, rows", megatron, |n| vec![vec![n, 4], vec![4, 6], vec![6, 4]], true),
    ("megatron, columns", megatron, |n| vec![vec![3, 4], vec![4, n], vec![n, 4]], true),
    ("layers of cut weights", layers, |n| vec![vec![n, 4], vec![4, 6], vec![6, 4]], true),
    (
        "attention by heads",
        attention,
        |n| vec![vec![3, 4], vec![n, 4, 2], vec![n, 4, 2], vec![n, 4, 2], vec![n, 2, 4]],
        false,
    ),
    (
        "attention, rows",
        attention,
        |n| vec![vec![n, 4], vec![3, 4, 2], vec![3, 4, 2], vec![3, 4, 2], vec![3, 2, 4]],
        false,
    ),
    ("heads", heads, |n| vec![vec![3, 4], vec![n, 4, 2], vec![n, 4, 2], vec![n, 4, 2]], true),
    (
        "heads of matrices",
        twelve_heads,
        |n| vec![vec![n, 8], vec![8, 24], vec![8, 24], vec![8, 24], vec![24, 8]],
        false,
    ),
    (
        "heads that no mesh divides",
        five_heads,
        |n| vec![vec![n, 8], vec![8, 10], vec![8, 10], vec![8, 10], vec![10, 8]],
        false,
    ),
    (
        "decoder",
        decoder,
        |n| {
            let (rows, columns) = (vec![8, 24], vec![24, 8]);
            let cache = vec![12, 3, 2];
            let inputs = [vec![n, 8], cache.clone(), cache, vec![n, 2], vec![n, 2], vec![n, 3 + n]];
            let attention = [vec![8], rows.clone(), rows.clone(), rows.clone(), columns.clone()];
            inputs
                .into_iter()
                .chain(attention)
                .chain([vec![8], rows.clone(), rows, columns])
                .collect()
        },
        false,
    ),
    ("data parallel", data_parallel, |n| vec![vec![n, 4], vec![4, 3]], true),
    ("norm", norm, |n| vec![vec![n, 8], vec![8]], true),
    ("exchange", exchange, |n| vec![vec![n, 5], vec![5]], true),
    ("exchange, columns", exchange, |n| vec![vec![5, n], vec![n]], true),
    ("experts, groups", experts, |n| layer_of_experts([n, 3, 2, 5, 5]), false),
    ("experts, tokens", experts, |n| layer_of_experts([3, n, 2, 3, 5]), false),
    // Of one expert two cannot be chosen.
    ("experts, experts", experts, |n| layer_of_experts([3, 4, 2, n.max(2), 3]), false),
    ("switch", switch, |n| layer_of_experts([n, 5, 3, 5, 3]), false),
    ("switch, experts", switch, |n| layer_of_experts([3, 3, 3, n.max(1), 2]), false),
    ("switch, wide", switch, |n| layer_of_experts([3, 3, 2, 3, n]), false),
];

/// Tokens, the weights of the router, and those of the experts, of so many groups, tokens, model dims, experts and dims within an expert.
fn layer_of_experts([g, s, d, e, h]: [usize; 5]) -> Vec<Vec<usize>> {
    vec![vec![g, s, d], vec![d, e], vec![e, d, h], vec![e, h, d]]
}

pub(crate) fn cases() -> Vec<Case> {
    MESHES.into_iter().flat_map(cases_on).collect()
}

/// Every program on a mesh.
pub(crate) fn cases_on(mesh: &str) -> Vec<Case> {
    let each = PROGRAMS.iter().map(|&(name, text, shapes, is_exact)| {
        let text = format!("module_attr(\"mesh[0]\", \"{mesh}\")\n\n{}", text(mesh.contains(',')));
        Case { name, text, shapes, is_exact }
    });
    each.collect()
}

pub(crate) fn case(name: &str, mesh: &str) -> Case {
    let mut found = cases()
        .into_iter()
        .filter(|case| case.name == name && case.text.contains(&format!("\"{mesh}\"")));
    found.next().expect("a case")
}

/// The figure of the paper with its product as an operator.
fn paper(two: bool) -> String {
    let text = if two {
        r#"def main(x: DTensor(("n", "k"), "f32", "mesh[0]", "S[0], S[1]"), w: DTensor(("k", 4), "f32", "mesh[0]", "S[1], S[0]")) -> DTensor(("n", 4), "f32", "mesh[0]", "S[0], R"):
    y = redistribute(w, "mesh[0]", "R, S[0]")
    z = matmul(x, y)
    return redistribute(z, "mesh[0]", "S[0], R")
"#
    } else {
        r#"def main(x: DTensor(("n", "k"), "f32", "mesh[0]", "S[1]"), w: DTensor(("k", 4), "f32", "mesh[0]", "S[0]")):
    return matmul(x, w)
"#
    };
    text.to_owned()
}

/// A column-parallel product, then a row-parallel one; rows over the first axis of two.
fn megatron(two: bool) -> String {
    let text = if two {
        r#"def main(x: DTensor(("n", 4), "f32", "mesh[0]", "S[0], R"), a: DTensor((4, "f"), "f32", "mesh[0]", "R, S[1]"), b: DTensor(("f", 4), "f32", "mesh[0]", "R, S[0]")) -> DTensor(("n", 4), "f32", "mesh[0]", "S[0], R"):
    h = relu(matmul(x, a))
    y = matmul(h, b)
    return redistribute(y, "mesh[0]", "S[0], R")
"#
    } else {
        r#"def main(x: Tensor(("n", 4), "f32"), a: DTensor((4, "f"), "f32", "mesh[0]", "S[1]"), b: DTensor(("f", 4), "f32", "mesh[0]", "S[0]")):
    h = relu(matmul(x, a))
    return matmul(h, b)
"#
    };
    text.to_owned()
}

/// Weights are cut and gathered for each product, as in ZeRO; those of the second while the first is computed.
fn layers(two: bool) -> String {
    let (rows, cut) = if two { ("S[0], R", "S[0], S[1]") } else { ("S[0]", "S[0]") };
    let whole = if two { "R, R" } else { "R" };
    format!(
        r#"def main(x: DTensor(("n", 4), "f32", "mesh[0]", "{rows}"), w: DTensor((4, 6), "f32", "mesh[0]", "{cut}"), v: DTensor((6, 4), "f32", "mesh[0]", "{cut}")):
    h = relu(matmul(x, redistribute(w, "mesh[0]", "{whole}")))
    return matmul(h, redistribute(v, "mesh[0]", "{whole}"))
"#
    )
}

/// Attention with its projections; heads over the last axis of the mesh.
fn attention(two: bool) -> String {
    let text = if two {
        r#"def main(x: Tensor(("n", 4), "f32"), q: DTensor(("h", 4, 2), "f32", "mesh[0]", "R, S[0]"), k: DTensor(("h", 4, 2), "f32", "mesh[0]", "R, S[0]"), v: DTensor(("h", 4, 2), "f32", "mesh[0]", "R, S[0]"), o: DTensor(("h", 2, 4), "f32", "mesh[0]", "R, S[0]")):
    scores = matmul(matmul(x, q), permute_dims(matmul(x, k), axes=[0, 2, 1]))
    each = matmul(matmul(softmax(scores, axis=-1), matmul(x, v)), o)
    return sum(each, axis=[0])
"#
    } else {
        r#"def main(x: Tensor(("n", 4), "f32"), q: DTensor(("h", 4, 2), "f32", "mesh[0]", "S[0]"), k: DTensor(("h", 4, 2), "f32", "mesh[0]", "S[0]"), v: DTensor(("h", 4, 2), "f32", "mesh[0]", "S[0]"), o: DTensor(("h", 2, 4), "f32", "mesh[0]", "S[0]")):
    scores = matmul(matmul(x, q), permute_dims(matmul(x, k), axes=[0, 2, 1]))
    each = matmul(matmul(softmax(scores, axis=-1), matmul(x, v)), o)
    return sum(each, axis=[0])
"#
    };
    text.to_owned()
}

/// Attention whose projections are matrices: heads are split off their columns, and merged before the last product.
fn heads_of_matrices(two: bool, heads: usize) -> String {
    let columns = 2 * heads;
    let (x, by_columns, by_rows) = if two {
        (r#"DTensor(("n", 8), "f32", "mesh[0]", "S[0], R")"#, "R, S[1]", "R, S[0]")
    } else {
        (r#"Tensor(("n", 8), "f32")"#, "S[1]", "S[0]")
    };
    let cut = |dims: &str, layout| format!(r#"DTensor(({dims}), "f32", "mesh[0]", "{layout}")"#);
    let (w, o) =
        (cut(&format!("8, {columns}"), by_columns), cut(&format!("{columns}, 8"), by_rows));
    format!(
        r#"def main(x: {x}, q: {w}, k: {w}, v: {w}, o: {o}):
    n = sym_var()
    qs = permute_dims(reshape(matmul(x, q), shape(n, {heads}, 2)), axes=[1, 0, 2])
    ks = permute_dims(reshape(matmul(x, k), shape(n, {heads}, 2)), axes=[1, 2, 0])
    vs = permute_dims(reshape(matmul(x, v), shape(n, {heads}, 2)), axes=[1, 0, 2])
    heads = matmul(softmax(matmul(qs, ks), axis=-1), vs)
    return matmul(reshape(permute_dims(heads, axes=[1, 0, 2]), shape(n, {columns})), o)
"#
    )
}

/// By two, three and four ranks.
fn twelve_heads(two: bool) -> String {
    heads_of_matrices(two, 12)
}

/// No number of ranks divides them.
fn five_heads(two: bool) -> String {
    heads_of_matrices(two, 5)
}

/// A layer of a decoder in the manner of Llama: twelve heads, their cache and the wide part of the feed-forward over one axis of the mesh.
fn decoder(two: bool) -> String {
    let layout = |placement: &str| match two {
        true => format!("R, {placement}"),
        false => placement.to_owned(),
    };
    let cut = |dims: &str, placement: &str| {
        format!(r#"DTensor(({dims}), "f32", "mesh[0]", "{}")"#, layout(placement))
    };
    let (rows, columns) = (cut("8, 24", "S[1]"), cut("24, 8", "S[0]"));
    let (cache, grown) = (cut(r#"12, "m", 2"#, "S[0]"), cut(r#"12, "m + n", 2"#, "S[0]"));
    let heads = layout("S[0]");
    format!(
        r#"def main(h: Tensor(("n", 8), "f32"), keys: {cache}, values: {cache}, cos: Tensor(("n", 2), "f32"), sin: Tensor(("n", 2), "f32"), mask: Tensor(("n", "m + n"), "f32"), norm1: Tensor((8,), "f32"), wq: {rows}, wk: {rows}, wv: {rows}, wo: {columns}, norm2: Tensor((8,), "f32"), gate: {rows}, up: {rows}, down: {columns}) -> Tuple[Tensor(("n", 8), "f32"), {grown}, {grown}]:
    n = sym_var()
    x = multiply(rms_norm(h, norm1, axes=[-1]), const(0.03125, "f32"))
    q0 = permute_dims(reshape(matmul(x, wq), shape(n, 12, 2)), axes=[1, 0, 2])
    k0 = permute_dims(reshape(matmul(x, wk), shape(n, 12, 2)), axes=[1, 0, 2])
    v0 = permute_dims(reshape(matmul(x, wv), shape(n, 12, 2)), axes=[1, 0, 2])
    qs = split(q0, 2, axis=-1)
    q = add(multiply(q0, cos), multiply(concat([negative(qs[1]), qs[0]], axis=-1), sin))
    ks = split(k0, 2, axis=-1)
    k1 = add(multiply(k0, cos), multiply(concat([negative(ks[1]), ks[0]], axis=-1), sin))
    k = concat([keys, k1], axis=1)
    v = concat([values, v0], axis=1)
    scores = multiply(matmul(q, permute_dims(k, axes=[0, 2, 1])), const(0.5, "f32"))
    heads = permute_dims(matmul(softmax(add(scores, mask), axis=-1), v), axes=[1, 0, 2])
    middle = add(h, matmul(reshape(heads, shape(n, 24)), wo))
    y = multiply(rms_norm(middle, norm2, axes=[-1]), const(0.03125, "f32"))
    wide = multiply(silu(matmul(y, gate)), matmul(y, up))
    result = add(middle, matmul(wide, down))
    return (result, redistribute(k, "mesh[0]", "{heads}"), redistribute(v, "mesh[0]", "{heads}"))
"#
    )
}

/// Attention without a sum over heads: bit for bit.
fn heads(two: bool) -> String {
    let text = if two {
        r#"def main(x: Tensor(("n", 4), "f32"), q: DTensor(("h", 4, 2), "f32", "mesh[0]", "S[0], R"), k: DTensor(("h", 4, 2), "f32", "mesh[0]", "S[0], R"), v: DTensor(("h", 4, 2), "f32", "mesh[0]", "S[0], R")) -> DTensor(("h", "n", 2), "f32", "mesh[0]", "S[0], S[1]"):
    scores = matmul(matmul(x, q), permute_dims(matmul(x, k), axes=[0, 2, 1]))
    each = matmul(softmax(scores, axis=-1), matmul(x, v))
    return redistribute(each, "mesh[0]", "S[0], S[1]")
"#
    } else {
        r#"def main(x: Tensor(("n", 4), "f32"), q: DTensor(("h", 4, 2), "f32", "mesh[0]", "S[0]"), k: DTensor(("h", 4, 2), "f32", "mesh[0]", "S[0]"), v: DTensor(("h", 4, 2), "f32", "mesh[0]", "S[0]")):
    scores = matmul(matmul(x, q), permute_dims(matmul(x, k), axes=[0, 2, 1]))
    return matmul(softmax(scores, axis=-1), matmul(x, v))
"#
    };
    text.to_owned()
}

/// Gradient of a weight: a sum over rows that ranks share.
fn data_parallel(two: bool) -> String {
    let text = if two {
        r#"def main(x: DTensor(("n", 4), "f32", "mesh[0]", "S[0], R"), w: Tensor((4, 3), "f32")) -> DTensor((3,), "f32", "mesh[0]", "R, S[0]"):
    total = sum(matmul(x, w), axis=[0])
    return redistribute(total, "mesh[0]", "R, S[0]")
"#
    } else {
        r#"def main(x: DTensor(("n", 4), "f32", "mesh[0]", "S[0]"), w: Tensor((4, 3), "f32")):
    y = matmul(x, w)
    return sum(add(y, y), axis=[0])
"#
    };
    text.to_owned()
}

/// Normalization with its rows cut.
fn norm(two: bool) -> String {
    let text = if two {
        r#"def main(x: DTensor(("n", 8), "f32", "mesh[0]", "R, S[0]"), w: Tensor((8,), "f32")) -> DTensor(("n", 8), "f32", "mesh[0]", "R, S[0]"):
    y = rms_norm(x, w, axes=[-1])
    return redistribute(y, "mesh[0]", "R, S[0]")
"#
    } else {
        r#"def main(x: DTensor(("n", 8), "f32", "mesh[0]", "S[0]"), w: Tensor((8,), "f32")):
    return add(rms_norm(x, w, axes=[-1]), x)
"#
    };
    text.to_owned()
}

/// Columns cut where whole rows are wanted, and the other way round.
fn exchange(two: bool) -> String {
    let text = if two {
        r#"def main(x: DTensor(("n", "m"), "f32", "mesh[0]", "S[1], S[0]"), b: Tensor(("m",), "f32")) -> DTensor(("n", "m"), "f32", "mesh[0]", "S[0], S[1]"):
    y = add(x, b)
    z = redistribute(y, "mesh[0]", "S[0], S[1]")
    return z
"#
    } else {
        r#"def main(x: DTensor(("n", "m"), "f32", "mesh[0]", "S[1]"), b: Tensor(("m",), "f32")) -> DTensor(("n", "m"), "f32", "mesh[0]", "S[0]"):
    y = add(x, b)
    z = redistribute(y, "mesh[0]", "S[0]")
    return z
"#
    };
    text.to_owned()
}

/// A mixture of experts in the manner of GShard: groups of tokens and the experts are cut over the first axis of the mesh, and what is wide
/// in an expert over the second one. `routing` makes `dispatch` and `combine` of `gates`; it needs so many experts at least.
pub(crate) fn mixture(two: bool, least: usize, routing: &str) -> String {
    let cut = |dims: &str, placement: &str, second: &str| {
        let second = if two { format!(", {second}") } else { String::new() };
        format!(r#"DTensor(({dims}), "f32", "mesh[0]", "{placement}{second}")"#)
    };
    let (x, first) = (cut(r#""g", "s", "d""#, "S[0]", "R"), if two { "S[0], R" } else { "S[0]" });
    let (up, down) =
        (cut(r#""e", "d", "h""#, "S[0]", "S[2]"), cut(r#""e", "h", "d""#, "S[0]", "S[1]"));
    format!(
        r#"def main(x: {x}, router: Tensor(("d", "e"), "f32"), up: {up}, down: {down}) -> {x}:
    g, s, e = sym_var(), sym_var(), sym_var(lower_bound={least})
    gates = softmax(matmul(x, router), axis=-1)
{routing}
    sent = redistribute(einsum((dispatch, x), "gsec,gsd->egcd"), "mesh[0]", "{first}")
    wide = relu(einsum((sent, up), "egcd,edh->egch"))
    y = einsum((combine, einsum((wide, down), "egch,ehd->egcd")), "gsec,egcd->gsd")
    return redistribute(y, "mesh[0]", "{first}")
"#
    )
}

/// Two experts a token. First choices of all tokens of a group come before second ones; an expert takes twice its share of them.
fn experts(two: bool) -> String {
    let routing = r#"    top = topk(gates, 2, dtype="i64")
    weights = divide(top[0], sum(top[0], axis=[2], keepdims=True))
    chosen = one_hot(permute_dims(top[1], axes=[0, 2, 1]), const(1, "i64"), const(0, "i64"), e)
    before = cumsum(reshape(chosen, shape(g, 2 * s, e)), axis=1, exclusive=True)
    place = where(equal(chosen, const(1, "i64")), reshape(before, shape(g, 2, s, e)), const(-1, "i64"))
    slots = one_hot(place, const(1.0, "f32"), const(0.0, "f32"), ceildiv(2 * s, e))
    dispatch = sum(slots, axis=[1])
    combine = einsum((weights, slots), "gsk,gksec->gsec")"#;
    mixture(two, 2, routing)
}

/// One expert a token, which takes its share of them and no more.
fn switch(two: bool) -> String {
    let routing = r#"    chosen = one_hot(argmax(gates, axis=2), const(1, "i64"), const(0, "i64"), e)
    before = cumsum(chosen, axis=1, exclusive=True)
    place = where(equal(chosen, const(1, "i64")), before, const(-1, "i64"))
    dispatch = one_hot(place, const(1.0, "f32"), const(0.0, "f32"), ceildiv(s, e))
    combine = multiply(dispatch, expand_dims(max(gates, axis=[2], keepdims=True), axis=[3]))"#;
    mixture(two, 1, routing)
}
