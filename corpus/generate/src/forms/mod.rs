//! Forms of operator calls, a file per chapter of the operator reference. Each form takes or makes the operands
//! that satisfy its operator's constraints, and infers the type of the result.

mod attention;
mod calls;
mod convolution;
mod creation;
mod distributed;
mod elementwise;
mod indexing;
mod joining;
mod movement;
mod neural;
mod normalization;
mod order;
mod products;
mod reduction;
mod shapes;

use super::body::Body;
use super::scope::Type;
use relax_syntax::dim::{Dim, DimOp};

/// A call, as text, and what it gives.
pub(super) struct Call {
    pub(super) text: String,
    pub(super) made: Made,
}

/// What a call gives.
pub(super) enum Made {
    /// A tensor.
    One(Type),
    /// A tensor whose dims deduction may write in another way.
    Roughly(Type),
    /// A tuple of tensors.
    Each(Vec<Type>),
    /// A tensor of which only the rank is known: casts tell the dims.
    Unknown(usize, &'static str),
    /// No tensor.
    Nothing,
}

/// Makes a call, or none where its result would have no form.
pub(super) type Form = fn(&mut Body) -> Option<Call>;

/// The forms by chapter; each chapter is as likely as the others.
pub(super) const CHAPTERS: &[&[Form]] = &[
    elementwise::FORMS,
    elementwise::BINARY,
    movement::FORMS,
    joining::FORMS,
    reduction::FORMS,
    products::FORMS,
    elementwise::TERNARY,
    creation::FORMS,
    creation::CASTS,
    indexing::FORMS,
    order::FORMS,
    neural::FORMS,
    normalization::FORMS,
    convolution::FORMS,
    attention::FORMS,
    shapes::FORMS,
    calls::FORMS,
    neural::QUANTIZATION,
    distributed::FORMS,
];

/// Those of programs over a mesh: no calls of functions, and no collectives of their own. Products and what moves axes come more
/// often.
pub(super) const PLACED: &[&[Form]] = &[
    elementwise::FORMS,
    elementwise::BINARY,
    elementwise::BINARY,
    elementwise::TERNARY,
    movement::FORMS,
    movement::FORMS,
    joining::FORMS,
    joining::FORMS,
    reduction::FORMS,
    reduction::FORMS,
    products::FORMS,
    products::FORMS,
    products::FORMS,
    creation::FORMS,
    creation::CASTS,
    indexing::FORMS,
    order::FORMS,
    neural::FORMS,
    normalization::FORMS,
    normalization::FORMS,
    convolution::FORMS,
    attention::FORMS,
    neural::QUANTIZATION,
];

fn one(text: String, ty: Type) -> Option<Call> {
    Some(Call { text, made: Made::One(ty) })
}

fn roughly(text: String, ty: Type) -> Option<Call> {
    Some(Call { text, made: Made::Roughly(ty) })
}

fn each(text: String, types: Vec<Type>) -> Option<Call> {
    Some(Call { text, made: Made::Each(types) })
}

fn unknown(text: String, rank: usize, dtype: &'static str) -> Option<Call> {
    Some(Call { text, made: Made::Unknown(rank, dtype) })
}

fn plus(a: &Dim, b: &Dim) -> Dim {
    Dim::op(DimOp::Add, a.clone(), b.clone())
}

fn times(a: &Dim, b: i64) -> Dim {
    Dim::op(DimOp::Mul, a.clone(), Dim::Int(b))
}

fn int(value: usize) -> Dim {
    Dim::Int(i64::try_from(value).unwrap_or(0))
}
