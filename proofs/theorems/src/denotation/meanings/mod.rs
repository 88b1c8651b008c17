//! What each operator means, said once: extents, element type, and the term of an element.
//!
//! This is the trusted part of a proof. Tests hold its extents and dtypes against deduction, and both
//! sides of every proved rule against each other in the interpreter.

mod convolution;
mod creation;
mod distributed;
mod einsum;
mod elementwise;
mod indexing;
mod movement;
mod nn;
mod ordering;
mod pieces;
mod pooling;
mod product;
mod reduction;

use super::denoter::{Denoter, first};
use super::term::{Known, Term, unknown};
use crate::rules::rule::{Arg, Axis, Call, Node};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

use elementwise::broadcast;

pub(super) type ShapeOf = fn(&mut Denoter, &Call) -> Known<Vec<Axis>>;
pub(super) type ElementOf = fn(&mut Denoter, &Call, &[Dim]) -> Known<Term>;

/// The meaning of an operator.
pub(super) struct Meaning {
    pub(super) name: &'static str,
    pub(super) dtype: fn(&Denoter, &Call) -> Known<DType>,
    pub(super) shape: ShapeOf,
    pub(super) element: ElementOf,
    /// Notes where what elements are stops the program.
    pub(super) stops: fn(&mut Denoter, &Call) -> Known<()>,
}

/// One of the dtype of its first operand that never stops the program.
pub(super) const fn meaning(name: &'static str, shape: ShapeOf, element: ElementOf) -> Meaning {
    Meaning { name, dtype: like_first, shape, element, stops: |_, _| Ok(()) }
}

static TABLES: &[&[Meaning]] = &[
    elementwise::MEANINGS,
    movement::MEANINGS,
    pieces::MEANINGS,
    creation::MEANINGS,
    distributed::MEANINGS,
    reduction::MEANINGS,
    product::MEANINGS,
    einsum::MEANINGS,
    convolution::MEANINGS,
    pooling::MEANINGS,
    indexing::MEANINGS,
    nn::MEANINGS,
    ordering::MEANINGS,
];

/// The meaning of the operator with that full name.
pub(super) fn meaning_of(name: &str) -> Option<&'static Meaning> {
    let listed = TABLES.iter().flat_map(|table| table.iter()).find(|row| row.name == name);
    listed.or_else(|| elementwise::by_formula(name))
}

fn add(a: Dim, b: Dim) -> Dim {
    Dim::op(DimOp::Add, a, b)
}

fn sub(a: Dim, b: Dim) -> Dim {
    Dim::op(DimOp::Sub, a, b)
}

fn mul(a: Dim, b: Dim) -> Dim {
    Dim::op(DimOp::Mul, a, b)
}

pub(super) fn like_first(denoter: &Denoter, call: &Call) -> Known<DType> {
    denoter.dtype(first(call)?)
}

pub(super) fn shape_of_first(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    denoter.shape(first(call)?)
}

/// The dtype that an argument names.
pub(super) fn type_argument(denoter: &Denoter, call: &Call, param: &str) -> Known<DType> {
    match call.arg(param) {
        Arg::Type(kind) => Ok(crate::rules::instance::dtype_of(kind, denoter.types)),
        Arg::Str(text) => DType::parse(text).map_or_else(|| unknown("no dtype"), Ok),
        _ => like_first(denoter, call),
    }
}

pub(super) fn is_true(call: &Call, param: &str) -> bool {
    *call.arg(param) == Arg::Bool(true)
}

/// The call of `topk` that gives a tuple.
fn top_of(whole: &Node) -> Option<&Call> {
    match whole {
        Node::Call(call) if call.row.name == "topk" => Some(call),
        _ => None,
    }
}

/// The extents of a part of a tuple.
pub(super) fn part_shape(denoter: &mut Denoter, whole: &Node, at: usize) -> Known<Vec<Axis>> {
    match top_of(whole) {
        Some(call) => ordering::top_shape(denoter, call),
        None => pieces::part_shape(denoter, whole, at),
    }
}

/// The dtype of a part of a tuple.
pub(super) fn part_dtype(denoter: &Denoter, whole: &Node, at: usize) -> Known<DType> {
    match top_of(whole) {
        Some(call) => ordering::top_dtype(denoter, call, at),
        None => denoter.dtype(whole),
    }
}

/// An element of a part of a tuple.
pub(super) fn part_element(
    denoter: &mut Denoter,
    whole: &Node,
    part: usize,
    at: &[Dim],
) -> Known<Term> {
    match top_of(whole) {
        Some(call) => ordering::top(denoter, call, part, at),
        None => pieces::part_element(denoter, whole, part, at),
    }
}
