//! What deduction knows of symbolic dims. Facts here are those of run time, which know nothing of
//! variables: what is deduced holds without any.

use crate::concrete::Concrete;
use crate::ops::{Infer, Known, Operand, Reject, bind, lookup};
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

/// The deduced annotation as text, and the obligations as `C1: left right`.
fn deduce(name: &str, args: Vec<Operand>) -> Result<(String, Vec<String>), Reject> {
    let row = lookup(name).expect("the row exists");
    let operands = bind(row, args, Vec::new(), &|literal| Operand::of_known(literal.known()))
        .expect("the arguments fit");
    let facts = &mut Concrete;
    let mut infer =
        Infer { row, operands: &operands, facts, obligations: Vec::new(), module: None };
    let annotation = (row.infer)(&mut infer)?;
    let shown = infer.obligations.iter().map(|obligation| {
        let claim = &obligation.claim;
        format!("{}: {} {}", obligation.constraint, claim.left, claim.right)
    });
    Ok((annotation.to_string(), shown.collect()))
}

fn deduced(name: &str, args: Vec<Operand>) -> String {
    deduce(name, args).expect("the call is right").0
}

fn known(annotation: Annotation) -> Operand {
    Operand { annotation, known: None }
}

fn tensor(dims: &[Dim]) -> Operand {
    known(Annotation::tensor(dims.to_vec(), DType::F32))
}

fn ranked(rank: usize) -> Operand {
    known(Annotation::Tensor(TensorType { extents: Extents::Rank(rank), dtype: None }))
}

fn list(dims: &[Dim]) -> Operand {
    Operand::of_known(Known::List(dims.iter().cloned().map(Known::Dim).collect()))
}

fn int(value: i64) -> Operand {
    Operand::of_known(Known::Dim(Dim::Int(value)))
}

fn tuple(items: Vec<Operand>) -> Operand {
    known(Annotation::Tuple(items.into_iter().map(|item| item.annotation).collect()))
}

fn n() -> Dim {
    Dim::var("n")
}

fn m() -> Dim {
    Dim::var("m")
}

#[test]
fn nothing_known_stays_nothing_guessed() {
    let object = || known(Annotation::Object);
    for name in ["flip", "expand_dims", "stack", "concat"] {
        assert_eq!(deduced(name, vec![object(), int(0)]), "Tensor()", "{name}");
    }
    assert_eq!(deduced("flatten", vec![object()]), "Tensor(ndim=1)");
    assert_eq!(deduced("permute_dims", vec![object()]), "Tensor()");
    assert_eq!(deduced("permute_dims", vec![ranked(3)]), "Tensor(ndim=3)");
    assert_eq!(deduced("squeeze", vec![tensor(&[n(), 1.into()])]), "Tensor(dtype=\"f32\")");
    assert_eq!(deduced("reshape", vec![object(), list(&[n(), 2.into()])]), "Tensor((n, 2))");
    assert_eq!(deduced("shape_of", vec![ranked(2)]), "Shape(ndim=2)");
    assert_eq!(deduced("concat", vec![tuple(vec![ranked(2), object()])]), "Tensor(ndim=2)");
}

#[test]
fn reshape_keeps_the_size() {
    let x = || tensor(&[n(), 4.into()]);
    let nm = Dim::op(DimOp::Mul, n(), Dim::Int(4));
    let (shape, open) = deduce("reshape", vec![x(), list(&[nm])]).expect("right");
    assert_eq!(shape, "Tensor((n * 4,), \"f32\")");
    assert_eq!(open, ["C1: 0 n * 4", "C2: n * 4 n * 4"], "what a prover of dims proves");
    let (shape, open) = deduce("reshape", vec![x(), list(&[n(), (-1).into()])]).expect("right");
    assert_eq!(shape, "Tensor((n, 4), \"f32\")");
    assert_eq!(open, ["C1: 0 n", "C3: n n * 4"], "n = 0 leaves -1 undetermined");
    let (shape, open) = deduce("reshape", vec![x(), list(&[m(), 2.into()])]).expect("right");
    assert_eq!(shape, "Tensor((m, 2), \"f32\")");
    assert_eq!(open, ["C1: 0 m", "C2: m * 2 n * 4"]);
}

#[test]
fn concat_adds_and_compares() {
    let two = tuple(vec![tensor(&[n(), m()]), tensor(&[2.into(), Dim::var("k")])]);
    let (shape, open) = deduce("concat", vec![two]).expect("right");
    assert_eq!(shape, "Tensor((n + 2, m), \"f32\")");
    assert_eq!(open, ["C5: m k"]);
}

#[test]
fn split_of_symbolic_dims() {
    let (shape, open) = deduce("split", vec![tensor(&[n()]), int(2)]).expect("right");
    assert_eq!(
        shape,
        "Tuple[Tensor((ceildiv(n, 2),), \"f32\"), Tensor((n - ceildiv(n, 2),), \"f32\")]"
    );
    assert_eq!(open, ["C3: ceildiv(n, 2) n"]);
    assert_eq!(deduced("split", vec![ranked(1), int(3)]).matches("Tensor").count(), 3);
}

#[test]
fn broadcast_leaves_a_question() {
    let args = vec![tensor(&[n(), 3.into()]), list(&[m(), 3.into()])];
    let (shape, open) = deduce("broadcast_to", args).expect("right");
    assert_eq!(shape, "Tensor((m, 3), \"f32\")");
    assert_eq!(open, ["C1: 0 m", "C3: (n - 1) * (n - m) 0"]);
}

#[test]
fn ranges_and_sums_of_products() {
    let dim = |dim: Dim| Operand::of_known(Known::Dim(dim));
    assert_eq!(deduced("arange", vec![dim(n())]), "Tensor((max(0, n),), \"i64\")");
    let floats = vec![dim(n()), Operand::of_known(Known::Float(2.5))];
    assert_eq!(deduced("arange", floats), "Tensor(ndim=1, dtype=\"f32\")");
    let text = |text: &str| Operand::of_known(Known::Str(text.into()));
    let operands = || tuple(vec![tensor(&[n(), m()]), tensor(&[m(), 5.into()])]);
    assert_eq!(deduced("einsum", vec![operands(), text("ij,jk->ki")]), "Tensor((5, n), \"f32\")");
    let unknown = tuple(vec![ranked(2), tensor(&[m(), 5.into()])]);
    assert_eq!(
        deduced("einsum", vec![unknown, text("ij,jk->ki")]),
        "Tensor(ndim=2, dtype=\"f32\")"
    );
}
