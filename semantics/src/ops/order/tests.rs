//! Deduction of results whose dims depend on elements.

use crate::concrete::Concrete;
use crate::ops::{Infer, Known, Literal, Operand, lookup};
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

fn deduced(name: &str, given: &[(&str, Known)]) -> String {
    let row = lookup(name).expect("invariant: the row exists");
    let operands: Vec<Operand> = row
        .params
        .iter()
        .map(|param| match given.iter().find(|(name, _)| *name == param.name) {
            Some((_, known)) => Operand::of_known(known.clone()),
            None => param.default.map_or_else(
                || Operand {
                    annotation: Annotation::tensor(vec![Dim::var("n"), Dim::Int(3)], DType::F32),
                    known: None,
                },
                |literal| Operand::of_known(literal.known()),
            ),
        })
        .collect();
    let facts = &mut Concrete;
    let mut infer =
        Infer { row, operands: &operands, facts, obligations: Vec::new(), module: None };
    (row.infer)(&mut infer).expect("invariant: the call is accepted").to_string()
}

#[test]
fn only_the_rank_of_a_set_is_known() {
    assert_eq!(deduced("nonzero", &[]), "Tensor(ndim=2, dtype=\"i64\")");
    assert_eq!(deduced("unique", &[]), "Tensor(ndim=1, dtype=\"f32\")");
    let axis = ("axis", Literal::Int(0).known());
    let inverse = ("return_inverse", Known::Bool(true));
    assert_eq!(
        deduced("unique", &[axis, inverse]),
        "Tuple[Tensor(ndim=2, dtype=\"f32\"), Tensor((n,), \"i64\")]"
    );
}

#[test]
fn a_symbolic_count_of_unknown_sign_leaves_dims_unknown() {
    let k = |dim: Dim| [("k", Known::Dim(dim)), ("ret_type", Known::Str("values".into()))];
    assert_eq!(deduced("topk", &k(Dim::Int(2))), "Tensor((n, 2), \"f32\")");
    assert_eq!(deduced("topk", &k(Dim::Int(i64::MIN))), "Tensor((n, 3), \"f32\")");
    assert_eq!(deduced("topk", &k(Dim::var("k"))), "Tensor(ndim=2, dtype=\"f32\")");
}
