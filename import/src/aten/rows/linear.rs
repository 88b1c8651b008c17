//! Products of matrices.

use crate::aten::call::{Call, Row};
use crate::builder::V;
use crate::operators::arithmetic::pair;
use crate::operators::shape::permuted;
use crate::reason::{Done, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("mm", |call| product(call, "self", "mat2")),
    ("bmm", |call| product(call, "self", "mat2")),
    ("matmul", |call| product(call, "self", "other")),
    ("mv", |call| product(call, "self", "vec")),
    ("dot", |call| product(call, "self", "tensor")),
    ("addmm", |call| added(call, "mat1", "mat2")),
    ("baddbmm", |call| added(call, "batch1", "batch2")),
    ("linear", linear),
];

fn product(call: &mut Call, first: &str, second: &str) -> Done<Vec<V>> {
    let (x, y) = (call.tensor(first)?, call.tensor(second)?);
    if call.dtype(x) == DType::Bool {
        return unsupported("a product of bools");
    }
    Ok(vec![call.call("matmul", &[x.into(), y.into()])?])
}

fn is_one(number: Number) -> bool {
    matches!(number, Number::Int(1)) || number == Number::Float(1.0)
}

/// `beta * self + alpha * (a @ b)`; with beta 0 NaN in `self` does not count.
fn added(call: &mut Call, first: &str, second: &str) -> Done<Vec<V>> {
    let base = call.tensor("self")?;
    let mut sum = product(call, first, second)?[0];
    let dtype = call.dtype(sum);
    let (alpha, beta) = (call.number("alpha")?, call.number("beta")?);
    if !is_one(alpha) {
        let alpha = call.of_number(alpha, dtype);
        sum = pair(call, "multiply", sum, alpha)?;
    }
    if matches!(beta, Number::Int(0)) || beta == Number::Float(0.0) {
        return Ok(vec![sum]);
    }
    let mut base = base;
    if !is_one(beta) {
        let beta = call.of_number(beta, dtype);
        base = pair(call, "multiply", base, beta)?;
    }
    Ok(vec![pair(call, "add", sum, base)?])
}

fn linear(call: &mut Call) -> Done<Vec<V>> {
    let (x, weight) = (call.tensor("input")?, call.tensor("weight")?);
    let turned = if call.rank(weight) == 2 { permuted(call, weight, &[1, 0])? } else { weight };
    let product = call.call("matmul", &[x.into(), turned.into()])?;
    match call.optional_tensor("bias")? {
        Some(bias) => Ok(vec![pair(call, "add", product, bias)?]),
        None => Ok(vec![product]),
    }
}
