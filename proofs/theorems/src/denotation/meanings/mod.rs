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
mod indices;
mod movement;
mod nn;
mod ordering;
mod pieces;
mod pooling;
mod product;
mod reduction;
mod scatter;

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
    /// Of an operator that gives a tuple: what each part of it is.
    parts: Option<Parts>,
}

/// The meaning of each part of a tuple, by its number.
struct Parts {
    dtype: fn(&Denoter, &Call, usize) -> Known<DType>,
    shape: fn(&mut Denoter, &Call, usize) -> Known<Vec<Axis>>,
    element: fn(&mut Denoter, &Call, usize, &[Dim]) -> Known<Term>,
}

/// One of the dtype of its first operand that gives no tuple and never stops the program.
pub(super) const fn meaning(name: &'static str, shape: ShapeOf, element: ElementOf) -> Meaning {
    Meaning { name, dtype: like_first, shape, element, stops: |_, _| Ok(()), parts: None }
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
    scatter::MEANINGS,
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

/// A call that gives a tuple, and what its parts are.
fn parts_of(whole: &Node) -> Known<(&Call, &'static Parts)> {
    let parts = match whole {
        Node::Call(call) => {
            meaning_of(call.row.name).and_then(|own| Some((call, own.parts.as_ref()?)))
        }
        _ => None,
    };
    parts.map_or_else(|| unknown("only parts of `split` and `topk` have a denotation"), Ok)
}

/// The extents of a part of a tuple.
pub(super) fn part_shape(denoter: &mut Denoter, whole: &Node, at: usize) -> Known<Vec<Axis>> {
    let (call, parts) = parts_of(whole)?;
    (parts.shape)(denoter, call, at)
}

/// The dtype of a part of a tuple.
pub(super) fn part_dtype(denoter: &Denoter, whole: &Node, at: usize) -> Known<DType> {
    let (call, parts) = parts_of(whole)?;
    (parts.dtype)(denoter, call, at)
}

/// An element of a part of a tuple.
pub(super) fn part_element(
    denoter: &mut Denoter,
    whole: &Node,
    part: usize,
    at: &[Dim],
) -> Known<Term> {
    let (call, parts) = parts_of(whole)?;
    (parts.element)(denoter, call, part, at)
}
