//! Products of matrices.

use super::activation::scaled;
use super::arithmetic::pair;
use super::elementwise::convert;
use super::shape::reshape;
use crate::argument::key;
use crate::builder::V;
use crate::node::{Importer, Node};
use crate::reason::{Done, invalid};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

pub(super) const OPERATORS: &[(&str, Importer)] = &[
    ("MatMul", matmul),
    ("Gemm", gemm),
    ("Einsum", einsum),
    ("MatMulInteger", matmul_integer),
    ("QLinearMatMul", quantized),
];

fn matmul(node: &mut Node) -> Done<Vec<V>> {
    let (x, y) = (node.input(0)?, node.input(1)?);
    Ok(vec![node.call("matmul", &[x.into(), y.into()])?])
}

/// `alpha * A' @ B' + beta * C`
fn gemm(node: &mut Node) -> Done<Vec<V>> {
    let (mut a, mut b) = (node.input(0)?, node.input(1)?);
    if node.rank(a) != 2 || node.rank(b) != 2 {
        return invalid("A and B must be matrices");
    }
    if node.int("transA", 0) != 0 {
        a = node.call("permute_dims", &[a.into()])?;
    }
    if node.int("transB", 0) != 0 {
        b = node.call("permute_dims", &[b.into()])?;
    }
    let product = node.call("matmul", &[a.into(), b.into()])?;
    let alpha = node.float("alpha", 1.0);
    let product = scaled(node, product, alpha)?;
    let Some(c) = node.optional(2) else { return Ok(vec![product]) };
    let beta = node.float("beta", 1.0);
    let c = scaled(node, c, beta)?;
    Ok(vec![pair(node, "add", product, c)?])
}

fn einsum(node: &mut Node) -> Done<Vec<V>> {
    let inputs = node.all_inputs()?;
    let equation: String = node.string("equation", "")?.split_whitespace().collect();
    Ok(vec![node.call("einsum", &[inputs.into(), key("subscripts", equation.as_str())])?])
}

/// Integers less their zero point, as i32. A vector of zero points has one for each row, or column.
pub(super) fn centered(node: &mut Node, x: V, zero: Option<V>, rows: Rows) -> Done<V> {
    let wide = convert(node, x, DType::I32)?;
    let Some(zero) = zero else { return Ok(wide) };
    let mut zero = convert(node, zero, DType::I32)?;
    if node.rank(zero) == 1 && rows == Rows::Down && node.dims(zero)[0] != Dim::Int(1) {
        let dims = vec![node.dims(zero)[0].clone(), Dim::Int(1)];
        zero = reshape(node, zero, dims)?;
    }
    pair(node, "subtract", wide, zero)
}

/// Whether a vector goes down the rows or along a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    Down,
    Along,
}

fn matmul_integer(node: &mut Node) -> Done<Vec<V>> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    let a = centered(node, a, node.optional(2), Rows::Down)?;
    let b = centered(node, b, node.optional(3), Rows::Along)?;
    Ok(vec![node.call("matmul", &[a.into(), b.into()])?])
}

fn quantized(node: &mut Node) -> Done<Vec<V>> {
    let (a, b) = (node.input(0)?, node.input(3)?);
    let a = centered(node, a, node.optional(2), Rows::Down)?;
    let b = centered(node, b, node.optional(5), Rows::Along)?;
    let sum = node.call("matmul", &[a.into(), b.into()])?;
    let scales = [node.input(1)?, node.input(4)?, node.input(6)?];
    let zero = node.input(7)?;
    Ok(vec![requantized(node, sum, scales, zero)?])
}

/// Sums of products of integers in the quantization of the result.
pub(super) fn requantized(node: &mut Node, sum: V, scales: [V; 3], zero: V) -> Done<V> {
    let dtype = node.dtype(zero);
    let mut wide = Vec::new();
    for scale in scales {
        wide.push(convert(node, scale, DType::F64)?);
    }
    let scale = pair(node, "multiply", wide[0], wide[1])?;
    let scale = pair(node, "divide", scale, wide[2])?;
    let sum = convert(node, sum, DType::F64)?;
    let scaled = pair(node, "multiply", sum, scale)?;
    let rounded = node.call("round", &[scaled.into()])?;
    let zero = convert(node, zero, DType::F64)?;
    let shifted = pair(node, "add", rounded, zero)?;
    saturated(node, shifted, dtype)
}

/// A float limited to the range of an integer dtype, which `astype` does.
pub(super) fn saturated(node: &mut Node, x: V, dtype: DType) -> Done<V> {
    node.call("astype", &[x.into(), dtype.into()])
}
