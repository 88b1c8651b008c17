//! Adjoints: for each operator, how the cotangent of its result becomes cotangents of its operands. One row
//! an operator: a formula in text, a builder where the ranks or attributes of the call decide, or the reason
//! why there is none. The pass `gradient` walks a function backwards by them.

mod attention;
mod convolution;
mod elementwise;
mod indexing;
mod movement;
mod normalization;
mod pooling;
mod product;
mod reduction;
mod selection;

pub mod remaining;
pub(crate) mod site;
pub(crate) mod tape;

use relax_semantics::ops::Operator;
use site::Site;
use tape::Made;

/// What a row says.
#[derive(Clone, Copy)]
pub(crate) enum Adjoint {
    /// Formulas in text.
    Formulas(&'static str),
    /// Code, where the call decides.
    Build(fn(&mut Site) -> Made<()>),
    /// The result does not change with the floats of its operands, but where it jumps: the derivative is 0,
    /// as in PyTorch.
    Zero,
}

type Rows = &'static [(&'static [&'static str], Adjoint)];

static FAMILIES: &[Rows] = &[
    elementwise::ROWS,
    movement::ROWS,
    selection::ROWS,
    indexing::ROWS,
    product::ROWS,
    reduction::ROWS,
    normalization::ROWS,
    convolution::ROWS,
    pooling::ROWS,
    attention::ROWS,
];

/// The adjoint of an operator; why it has none is in [`remaining`].
pub(crate) fn adjoint(row: &Operator) -> Option<Adjoint> {
    let rows = FAMILIES.iter().copied().flatten();
    let mut own = rows.filter(|(names, _)| names.contains(&row.name));
    own.next().map(|(_, adjoint)| *adjoint)
}
