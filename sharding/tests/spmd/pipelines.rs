//! Programs with stages, each on meshes of one axis and of two, whose first one has the workers.

use super::programs::{Case, MESHES, Shapes, Text};

/// Programs with stages, and the number of workers that they need along the first axis.
const PIPELINES: &[(&str, Text, Shapes, bool, usize)] = &[
    ("two stages", two_stages, two_layers, true, 2),
    ("two stages, columns", two_stages, |n| two_layers_of([3, n, n]), true, 2),
    ("two stages of rows", stages_of_rows, two_layers, true, 2),
    (
        "three stages",
        three_stages,
        |n| vec![vec![n, 4], vec![4, 4], vec![4, 4], vec![4, 4]],
        true,
        3,
    ),
    ("microbatches", microbatches, four_batches, true, 2),
    ("fields", fields, |n| vec![vec![n, 4], vec![4, 6]], true, 2),
    ("loss", loss, |n| vec![vec![n, 4], vec![4, 3]], true, 2),
    ("stages in branches", stages_in_branches, |n| vec![vec![n, 4], vec![4, 4], vec![4]], true, 2),
];

fn two_layers(n: usize) -> Vec<Vec<usize>> {
    two_layers_of([n, 6, 5])
}

fn four_batches(n: usize) -> Vec<Vec<usize>> {
    let mut shapes = two_layers_of([n, 5, 3]);
    shapes[0] = vec![4, n, 4];
    shapes
}

/// Rows, and two weights of so many columns.
fn two_layers_of([n, first, second]: [usize; 3]) -> Vec<Vec<usize>> {
    vec![vec![n, 4], vec![4, first], vec![first, 4], vec![4, second], vec![second, 4]]
}

/// Every program with stages on each mesh that has their workers.
pub(crate) fn pipelines() -> Vec<Case> {
    MESHES.into_iter().flat_map(pipelines_on).collect()
}

/// The same on a mesh; of any number of workers there are as many as a program needs.
pub(crate) fn pipelines_on(mesh: &str) -> Vec<Case> {
    let workers = mesh.split(',').next().and_then(|first| first.trim().parse::<usize>().ok());
    let has_all = |least: usize| workers.is_none_or(|own| own >= least);
    let each = PIPELINES.iter().filter(|(.., least)| has_all(*least));
    let each = each.map(|&(name, text, shapes, is_exact, _)| {
        let text = format!("module_attr(\"mesh[0]\", \"{mesh}\")\n\n{}", text(mesh.contains(',')));
        Case { name, text, shapes, is_exact }
    });
    each.collect()
}

/// A stage with the placement of the second axis of the mesh, where there are two.
fn stage(two: bool, stage: usize, second: &str) -> String {
    if two { format!("O[{stage}], {second}") } else { format!("O[{stage}]") }
}

fn placed(dims: &str, layout: &str) -> String {
    format!(r#"DTensor(({dims}), "f32", "mesh[0]", "{layout}")"#)
}

/// Two blocks, each on a worker of the first axis, and cut over the second one as the block of Megatron.
fn two_stages(two: bool) -> String {
    let weights = |at: usize| {
        let up = placed(&format!(r#"4, "f{at}""#), &stage(two, at, "S[1]"));
        (up, placed(&format!(r#""f{at}", 4"#), &stage(two, at, "S[0]")))
    };
    let ((a, b), (c, d)) = (weights(0), weights(1));
    let last = stage(two, 1, "R");
    format!(
        r#"def main(x: Tensor(("n", 4), "f32"), a: {a}, b: {b}, c: {c}, d: {d}):
    h = matmul(relu(matmul(x, a)), b)
    g = redistribute(h, "mesh[0]", "{last}")
    return add(matmul(relu(matmul(g, c)), d), g)
"#
    )
}

/// The same with rows cut over the second axis; they stay with the last stage.
fn stages_of_rows(two: bool) -> String {
    let weights = |at: usize| {
        let whole = |dims: &str| placed(dims, &stage(two, at, "R"));
        (whole(&format!(r#"4, "f{at}""#)), whole(&format!(r#""f{at}", 4"#)))
    };
    let ((a, b), (c, d)) = (weights(0), weights(1));
    let (first, last) = (stage(two, 0, "S[0]"), stage(two, 1, "S[0]"));
    let (x, y) = (placed(r#""n", 4"#, &first), placed(r#""n", 4"#, &last));
    format!(
        r#"def main(x: {x}, a: {a}, b: {b}, c: {c}, d: {d}) -> {y}:
    h = matmul(relu(matmul(x, a)), b)
    g = redistribute(h, "mesh[0]", "{last}")
    y = matmul(relu(matmul(g, c)), d)
    return redistribute(y, "mesh[0]", "{last}")
"#
    )
}

/// Three stages; the input skips the second one.
fn three_stages(two: bool) -> String {
    let layout = |at: usize| stage(two, at, "R");
    let weight = |at: usize| placed("4, 4", &layout(at));
    let (a, b, c) = (weight(0), weight(1), weight(2));
    let (first, second, third) = (layout(0), layout(1), layout(2));
    let (x, y) = (placed(r#""n", 4"#, &first), placed(r#""n", 4"#, &third));
    format!(
        r#"def main(x: {x}, a: {a}, b: {b}, c: {c}) -> {y}:
    h = redistribute(matmul(x, a), "mesh[0]", "{second}")
    g = redistribute(relu(matmul(h, b)), "mesh[0]", "{third}")
    skipped = redistribute(x, "mesh[0]", "{third}")
    y = add(matmul(g, c), skipped)
    return redistribute(y, "mesh[0]", "{third}")
"#
    )
}

/// Two stages, and four parts of the rows that go through them one after the other.
fn microbatches(two: bool) -> String {
    let weights = |at: usize| {
        let up = placed(&format!(r#"4, "f{at}""#), &stage(two, at, "S[1]"));
        (up, placed(&format!(r#""f{at}", 4"#), &stage(two, at, "S[0]")))
    };
    let ((a, b), (c, d)) = (weights(0), weights(1));
    let last = stage(two, 1, "R");
    let each: String = (0..4)
        .map(|at| {
            format!(
                r#"    h{at} = redistribute(matmul(relu(matmul(xs[{at}], a)), b), "mesh[0]", "{last}")
    y{at} = matmul(relu(matmul(h{at}, c)), d)
"#
            )
        })
        .collect();
    format!(
        r#"def main(x: Tensor((4, "n", 4), "f32"), a: {a}, b: {b}, c: {c}, d: {d}):
    xs = split(x, 4)
{each}    return concat([y0, y1, y2, y3], axis=0)
"#
    )
}

/// A stage that gives several values, of which another one uses some.
fn fields(two: bool) -> String {
    let (first, last) = (stage(two, 0, "R"), stage(two, 1, "R"));
    let (x, w) = (placed(r#""n", 4"#, &first), placed("4, 6", &first));
    format!(
        r#"def main(x: {x}, w: {w}) -> Tuple[Tensor(("n", 2), "f32"), {}]:
    parts = split(matmul(x, w), 3, axis=-1)
    q = redistribute(parts[1], "mesh[0]", "{last}")
    v = redistribute(parts[2], "mesh[0]", "{last}")
    y = redistribute(multiply(q, v), "mesh[0]", "{last}")
    return (add(parts[0], parts[1]), y)
"#,
        placed(r#""n", 2"#, &last)
    )
}

/// The last stage gives a scalar.
fn loss(two: bool) -> String {
    let (first, last) = (stage(two, 0, "R"), stage(two, 1, "R"));
    let (x, w) = (placed(r#""n", 4"#, &first), placed("4, 3", &last));
    format!(
        r#"def main(x: {x}, w: {w}):
    h = redistribute(relu(x), "mesh[0]", "{last}")
    total = sum(matmul(h, w))
    half = multiply(redistribute(total, "mesh[0]", "{first}"), const(0.5, "f32"))
    return (total, half)
"#
    )
}

/// All workers take a branch alike, and each has stages of its own.
fn stages_in_branches(two: bool) -> String {
    let (first, last) = (stage(two, 0, "R"), stage(two, 1, "R"));
    let (x, w, b) = (placed(r#""n", 4"#, &first), placed("4, 4", &last), placed("4,", &first));
    format!(
        r#"def main(x: {x}, w: {w}, b: {b}) -> DTensor(("n", 4), "f32", "mesh[0]", "{last}"):
    n = sym_var()
    if less(full((), n, "i64"), const(7, "i64")):
        h = redistribute(add(x, b), "mesh[0]", "{last}")
        y = matmul(h, w)
    else:
        y = multiply(x, x)
    return redistribute(y, "mesh[0]", "{last}")
"#
    )
}
