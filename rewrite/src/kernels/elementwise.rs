//! Elementwise operators: one loop nest over the result, operands broadcast by their indices.
//!
//! Each is a single operation of scalars, rounded once, so the result is that of the operator bit
//! for bit.

use super::builder::{Builder, binary as pair, broadcast_index, call, cast as to_dtype};
use super::builder::{extremum, load, negate, select};
use super::{Request, TensorSpec};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::{Class, DType};
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BinOp, Intrinsic, TExpr};

/// Operators of one tensor.
pub(super) static UNARY: &[&str] = &[
    "abs", "ceil", "cos", "erf", "exp", "floor", "log", "negative", "round", "rsqrt", "sigmoid",
    "sin", "sqrt", "square", "tanh", "nn.relu",
];

/// Operators of two tensors.
pub(super) static BINARY: &[&str] = &[
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
];

/// An operator of [`UNARY`].
pub(super) fn unary(request: &Request) -> Option<TensorProgram> {
    let [x] = request.tensors::<1>()?;
    if x.dtype == DType::Bool {
        return None;
    }
    let (name, dtype) = (request.row.short_name(), x.dtype);
    let intrinsic = Intrinsic::parse(name).filter(|_| dtype.is_float());
    let is_known = match name {
        "negative" => dtype.is_float() || dtype.class() == Class::Signed,
        "square" | "relu" => true,
        _ => intrinsic.is_some(),
    };
    if !is_known {
        return None;
    }
    let zero = if dtype.is_float() { TExpr::Float(0.0) } else { TExpr::Int(0) };
    map(request, |mut values| {
        let value = values.remove(0);
        match (name, intrinsic) {
            ("negative", _) => negate(value),
            ("square", _) => pair(BinOp::Mul, value.clone(), value),
            // The first of equals: so -0.0 becomes 0.0.
            (_, None) => pair(BinOp::Max, zero, value),
            (_, Some(intrinsic)) => call(intrinsic, value),
        }
    })
}

/// An operator of [`BINARY`].
pub(super) fn binary(request: &Request) -> Option<TensorProgram> {
    let [a, b] = request.tensors::<2>()?;
    let dtype = a.dtype;
    if b.dtype != dtype || dtype == DType::Bool {
        return None;
    }
    let op = match request.row.name {
        "add" => BinOp::Add,
        "subtract" => BinOp::Sub,
        "multiply" => BinOp::Mul,
        // Integers are divided towards zero, and a zero traps with the operator's own code.
        "divide" if dtype.is_float() => BinOp::Div,
        "maximum" => BinOp::Max,
        "minimum" => BinOp::Min,
        "equal" => BinOp::Equal,
        "not_equal" => BinOp::NotEqual,
        "less" => BinOp::Less,
        "less_equal" => BinOp::LessEqual,
        "greater" => BinOp::Greater,
        "greater_equal" => BinOp::GreaterEqual,
        _ => return None,
    };
    map(request, |mut values| {
        let (b, a) = (values.remove(1), values.remove(0));
        match op {
            BinOp::Max | BinOp::Min => extremum(op, dtype, a, b),
            _ => pair(op, a, b),
        }
    })
}

/// `where(c, a, b)`
pub(super) fn choice(request: &Request) -> Option<TensorProgram> {
    let [condition, a, b] = request.tensors::<3>()?;
    if condition.dtype != DType::Bool || a.dtype != b.dtype {
        return None;
    }
    map(request, |mut values| {
        let (b, a) = (values.remove(2), values.remove(1));
        select(values.remove(0), a, b)
    })
}

/// `astype(x, dtype)`
pub(super) fn cast(request: &Request) -> Option<TensorProgram> {
    let [x] = request.tensors::<1>()?;
    let (from, to) = (x.dtype, request.out.dtype);
    map(request, |mut values| to_dtype(from, to, values.remove(0)))
}

/// One store for each element of the result, of a scalar expression of the operands' elements.
fn map(request: &Request, scalar: impl FnOnce(Vec<TExpr>) -> TExpr) -> Option<TensorProgram> {
    let out = &request.out;
    let fits = |operand: &TensorSpec| is_broadcast(&operand.dims, &out.dims);
    if !request.operands.iter().all(fits) {
        return None;
    }
    let mut builder = Builder::new(request);
    let inputs = builder.inputs.clone();
    builder.for_each(&out.dims, builder.output, None, |indices| {
        let values = inputs.iter().zip(&request.operands).map(|(buffer, operand)| {
            let own = broadcast_index(&operand.dims, &out.dims, indices);
            load(*buffer, own.expect("invariant: it broadcasts"))
        });
        (indices.to_vec(), scalar(values.collect()))
    });
    Some(builder.finish())
}

/// Whether a tensor of `from` dims broadcasts to `to` for all sizes.
fn is_broadcast(from: &[Dim], to: &[Dim]) -> bool {
    let indices = vec![TExpr::Int(0); to.len()];
    broadcast_index(from, to, &indices).is_some()
}
