//! Deduction with little known, and attributes that no one should write.

use crate::concrete::Concrete;
use crate::ops::{Infer, Known, Limits, Literal, Operand, apply, lookup};
use crate::stop::Stop;
use crate::tensor::{Number, Tensor};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

/// What is deduced of the operator over an operand of that annotation, and the obligations.
fn deduced(name: &str, x: Annotation, axis: Literal, keepdims: bool) -> (String, usize) {
    let row = lookup(name).expect("invariant: the row exists");
    let operands = [
        Operand { annotation: x, known: None },
        Operand::of_known(axis.known()),
        Operand::of_known(Known::Bool(keepdims)),
    ];
    let facts = &mut Concrete;
    let mut infer =
        Infer { row, operands: &operands, facts, obligations: Vec::new(), module: None };
    let result = (row.infer)(&mut infer).expect("invariant: the call is accepted");
    (result.to_string(), infer.obligations.len())
}

fn of_extents(extents: Extents) -> Annotation {
    Annotation::Tensor(TensorType { extents, dtype: Some(DType::F32) })
}

#[test]
fn coarse_operands_give_coarse_results() {
    let symbolic = || of_extents(Extents::Known(vec![Dim::var("n"), Dim::Int(3)]));
    let cases = [
        (symbolic(), Literal::Int(-1), false, "Tensor((n,), \"f32\")", 0),
        (symbolic(), Literal::Int(0), true, "Tensor((1, 3), \"f32\")", 1),
        (symbolic(), Literal::Ints(&[]), false, "Tensor((n, 3), \"f32\")", 0),
        (symbolic(), Literal::None, false, "Tensor((), \"f32\")", 1),
        (of_extents(Extents::Rank(2)), Literal::Int(0), false, "Tensor(ndim=1, dtype=\"f32\")", 0),
        (of_extents(Extents::Rank(2)), Literal::None, true, "Tensor((1, 1), \"f32\")", 0),
        (of_extents(Extents::Unknown), Literal::None, false, "Tensor((), \"f32\")", 0),
        (of_extents(Extents::Unknown), Literal::Int(7), false, "Tensor(dtype=\"f32\")", 0),
        (Annotation::Object, Literal::None, false, "Tensor(())", 0),
        (Annotation::Object, Literal::None, true, "Tensor()", 0),
    ];
    for (x, axis, keepdims, expected, obligations) in cases {
        let found = deduced("max", x, axis, keepdims);
        assert_eq!(found, (expected.to_owned(), obligations));
    }
}

#[test]
fn wild_axes_are_refused() {
    let x = || Value::Tensor(Tensor::full(DType::F32, &[2, 3], Number::Int(1)));
    for name in ["sum", "median", "argmax", "cumsum", "sort", "argsort", "unique"] {
        let row = lookup(name).expect("invariant: the row exists");
        for axis in [i64::MIN, i64::MAX, -3, 2] {
            let keywords = vec![("axis".into(), Value::int(axis))];
            let result = apply(row, vec![x()], keywords, &Limits::default(), None);
            let Err(Stop::Trap(trap)) = result else { panic!("{name} accepts axis {axis}") };
            assert_eq!(trap.id, format!("{name}/C1"));
        }
    }
}

#[test]
fn an_empty_tensor_with_huge_dims_is_reduced_at_once() {
    let row = lookup("sum").expect("invariant: the row exists");
    let x = Value::Tensor(Tensor::full(DType::F32, &[1 << 28, 0], Number::Int(1)));
    let keywords = vec![("axis".into(), Value::int(0))];
    let Ok(Value::Tensor(result)) = apply(row, vec![x], keywords, &Limits::default(), None) else {
        panic!("expected a tensor")
    };
    assert_eq!(result.shape(), [0]);
}

#[test]
fn sums_of_f64_keep_what_rounding_loses() {
    let row = lookup("sum").expect("invariant: the row exists");
    let values = crate::tensor::array(&[4], vec![1e16, 1.0, 1.0, -1e16]);
    let x = Value::Tensor(Tensor::from_floats(DType::F64, values));
    let Ok(Value::Tensor(result)) = apply(row, vec![x], Vec::new(), &Limits::default(), None)
    else {
        panic!("expected a tensor")
    };
    assert_eq!(result.number(0), Number::Float(2.0));
}
