//! Programs with branches and checks that all ranks take alike.

/// The program over a mesh of one axis, or of two, of which the first one cuts rows.
pub(crate) fn on(mesh: &str, main: &str) -> String {
    let rest = if mesh.contains(',') { ", R" } else { "" };
    let main = main.replace("S[0]", &format!("S[0]{rest}")).replace("S[1]", &format!("S[1]{rest}"));
    format!("module_attr(\"mesh[0]\", \"{mesh}\")\n\n{main}")
}

/// A layer that is left out, by a scalar that every rank has; one way keeps rows cut, and so does the other.
pub(crate) const SKIPPED: &str = r#"def main(x: DTensor(("n", 4), "f32", "mesh[0]", "S[0]"), w: Tensor((4, 4), "f32"), deep: Tensor((), "f32")) -> DTensor(("n", 4), "f32", "mesh[0]", "S[0]"):
    if greater(deep, const(0.0, "f32")):
        h = matmul(x, w)
        y = relu(h)
    else:
        y = add(x, x)
    return redistribute(add(y, x), "mesh[0]", "S[0]")
"#;

/// By a comparison of a dim; within the branches, another one, and sums over what is cut. Two values come of it.
pub(crate) const BY_SIZE: &str = r#"def main(x: DTensor(("n", 4), "f32", "mesh[0]", "S[0]"), w: Tensor((4, 4), "f32")) -> Tuple[Tensor((4,), "f32"), Tensor((4,), "f32")]:
    n = sym_var()
    if less(full((), n, "i64"), const(5, "i64")):
        total = sum(matmul(x, w), axis=[0])
        most = sum(x, axis=[0])
    else:
        if less(full((), n, "i64"), const(9, "i64")):
            total = sum(x, axis=[0])
        else:
            total = sum(add(x, x), axis=[0])
        most = sum(multiply(x, x), axis=[0])
    return (total, most)
"#;

/// By what the rows that all ranks have together sum up to.
pub(crate) const BY_SUM: &str = r#"def main(x: DTensor(("n", 4), "f32", "mesh[0]", "S[0]")) -> DTensor(("n", 4), "f32", "mesh[0]", "S[0]"):
    if greater(sum(x), const(0.0, "f32")):
        y = softmax(x, axis=0)
    else:
        y = negative(x)
    return redistribute(y, "mesh[0]", "S[0]")
"#;

/// A check of a value that is cut, of which each rank needs the whole; and one that binds a dim, whose rows are cut again.
pub(crate) const CHECKED: &str = r#"def main(x: DTensor(("n", 4), "f32", "mesh[0]", "S[0]"), s: Shape(["k"])) -> DTensor(("n", 4), "f32", "mesh[0]", "S[0]"):
    n, k, m = sym_var(), sym_var(), sym_var()
    t = match_cast(s, Shape([n]))
    z = match_cast(matmul(x, permute_dims(x)), Tensor((m, n), "f32"))
    return redistribute(matmul(z, x), "mesh[0]", "S[0]")
"#;
