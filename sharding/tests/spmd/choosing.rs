//! Programs whose cheapest layouts depend on dims, with layouts over the first axis of a mesh.

/// A program, and the shapes of its arguments for a size.
pub(crate) type Program = (&'static str, &'static str, fn(usize) -> Vec<Vec<usize>>);

pub(crate) const PROGRAMS: [Program; 5] = [
    ("rows or weights", ROWS_OR_WEIGHTS, |n| vec![vec![n, 6], vec![6, 8], vec![8, 6]]),
    ("two results", TWO_RESULTS, |n| vec![vec![n, 6], vec![6, 8], vec![8, 6]]),
    ("two layers", TWO_LAYERS, |n| {
        vec![vec![n, 6], vec![6, 2], vec![2, 6], vec![6, 20], vec![20, 6]]
    }),
    ("three layers", THREE_LAYERS, |n| {
        let weights = [2, 8, 40].map(|h| [vec![6, h], vec![h, 6]]);
        [&[vec![n, 6]], &weights.concat()[..]].concat()
    }),
    ("experts", EXPERTS, |n| vec![vec![3, n, 4], vec![4, 5], vec![5, 4, 6], vec![5, 6, 4]]),
];

/// Rows go to the weights, or weights to the rows.
const ROWS_OR_WEIGHTS: &str = r#"def main(x: DTensor(("n", 6), "f32", "mesh[0]", "S[0]"), up: DTensor((6, 8), "f32", "mesh[0]", "S[1]"), down: DTensor((8, 6), "f32", "mesh[0]", "S[0]")) -> DTensor(("n", 6), "f32", "mesh[0]", "S[0]"):
    return redistribute(matmul(relu(matmul(x, up)), down), "mesh[0]", "S[0]")
"#;

const TWO_RESULTS: &str = r#"def main(x: DTensor(("n", 6), "f32", "mesh[0]", "S[0]"), up: DTensor((6, 8), "f32", "mesh[0]", "S[1]"), down: DTensor((8, 6), "f32", "mesh[0]", "S[0]")) -> Tuple[DTensor(("n", 8), "f32", "mesh[0]", "S[0]"), DTensor(("n", 6), "f32", "mesh[0]", "S[0]")]:
    h = redistribute(relu(matmul(x, up)), "mesh[0]", "S[0]")
    y = redistribute(matmul(h, down), "mesh[0]", "S[0]")
    return (h, y)
"#;

/// Weights of two sizes.
const TWO_LAYERS: &str = r#"def main(x: DTensor(("n", 6), "f32", "mesh[0]", "S[0]"), a: DTensor((6, 2), "f32", "mesh[0]", "S[1]"), b: DTensor((2, 6), "f32", "mesh[0]", "S[0]"), c: DTensor((6, 20), "f32", "mesh[0]", "S[1]"), d: DTensor((20, 6), "f32", "mesh[0]", "S[0]")) -> DTensor(("n", 6), "f32", "mesh[0]", "S[0]"):
    y = redistribute(matmul(relu(matmul(x, a)), b), "mesh[0]", "S[0]")
    return redistribute(matmul(relu(matmul(y, c)), d), "mesh[0]", "S[0]")
"#;

/// Weights of three sizes.
const THREE_LAYERS: &str = r#"def main(x: DTensor(("n", 6), "f32", "mesh[0]", "S[0]"), a: DTensor((6, 2), "f32", "mesh[0]", "S[1]"), b: DTensor((2, 6), "f32", "mesh[0]", "S[0]"), c: DTensor((6, 8), "f32", "mesh[0]", "S[1]"), d: DTensor((8, 6), "f32", "mesh[0]", "S[0]"), e: DTensor((6, 40), "f32", "mesh[0]", "S[1]"), f: DTensor((40, 6), "f32", "mesh[0]", "S[0]")) -> DTensor(("n", 6), "f32", "mesh[0]", "S[0]"):
    y = redistribute(matmul(relu(matmul(x, a)), b), "mesh[0]", "S[0]")
    z = redistribute(matmul(relu(matmul(y, c)), d), "mesh[0]", "S[0]")
    return redistribute(matmul(relu(matmul(z, e)), f), "mesh[0]", "S[0]")
"#;

/// Tokens go to their experts, or experts to the tokens.
const EXPERTS: &str = r#"def main(x: DTensor(("g", "s", "d"), "f32", "mesh[0]", "S[0]"), router: Tensor(("d", "e"), "f32"), up: DTensor(("e", "d", "h"), "f32", "mesh[0]", "S[0]"), down: DTensor(("e", "h", "d"), "f32", "mesh[0]", "S[0]")) -> DTensor(("g", "s", "d"), "f32", "mesh[0]", "S[0]"):
    s, e = sym_var(), sym_var(lower_bound=1)
    gates = softmax(matmul(x, router), axis=-1)
    chosen = one_hot(argmax(gates, axis=2), const(1, "i64"), const(0, "i64"), e)
    before = cumsum(chosen, axis=1, exclusive=True)
    place = where(equal(chosen, const(1, "i64")), before, const(-1, "i64"))
    dispatch = one_hot(place, const(1.0, "f32"), const(0.0, "f32"), ceildiv(s, e))
    combine = multiply(dispatch, expand_dims(max(gates, axis=[2], keepdims=True), axis=[3]))
    sent = einsum((dispatch, x), "gsec,gsd->egcd")
    wide = relu(einsum((sent, up), "egcd,edh->egch"))
    y = einsum((combine, einsum((wide, down), "egch,ehd->egcd")), "gsec,egcd->gsd")
    return redistribute(y, "mesh[0]", "S[0]")
"#;
