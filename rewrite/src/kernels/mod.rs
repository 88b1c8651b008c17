//! The tensor program of an operator's call: one builder a family, found by the operator's name.
//!
//! A builder sees the call with its dims renamed (see [`renaming`]), so that calls which differ only
//! in the names of their dims get the same program. It gives none where it does not know the case:
//! the call then stays as it is.

mod builder;
mod elementwise;
mod movement;
mod product;
mod reduction;
pub(crate) mod renaming;

pub(crate) use builder::extent;

use relax_semantics::ops::{Known, Operator, normalize_axis};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use std::collections::BTreeMap;

/// A tensor of known dims and dtype.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorSpec {
    pub(crate) dims: Vec<Dim>,
    pub(crate) dtype: DType,
}

impl TensorSpec {
    fn rank(&self) -> usize {
        self.dims.len()
    }
}

/// A call for which a program is wanted. Every constraint of the operator is proved.
pub(crate) struct Request {
    /// The operator.
    pub(crate) row: &'static Operator,
    /// Its tensors, in the order of the parameters.
    pub(crate) operands: Vec<TensorSpec>,
    /// What it gives.
    pub(crate) out: TensorSpec,
    /// Its other parameters, defaults included.
    pub(crate) attrs: BTreeMap<&'static str, Known>,
}

impl Request {
    /// The operator and its tensors, if it takes as many as that.
    fn tensors<const N: usize>(&self) -> Option<&[TensorSpec; N]> {
        self.operands.as_slice().try_into().ok()
    }

    /// Literal axes of a tensor of `rank` dims, counted from 0; all of them in the absence of a list.
    fn axes(&self, name: &str, rank: usize) -> Option<Option<Vec<usize>>> {
        let known = self.attrs.get(name)?;
        if *known == Known::None {
            return Some(None);
        }
        let position = |dim: &Dim| normalize_axis(dim.as_int()?, rank);
        known.dims()?.iter().map(position).collect::<Option<Vec<_>>>().map(Some)
    }
}

/// Makes the program of a call, if it knows the case.
type Build = fn(&Request) -> Option<TensorProgram>;

/// Every family: the names of its operators, and the builder for all of them.
static FAMILIES: &[(&[&str], Build)] = &[
    (elementwise::UNARY, elementwise::unary),
    (elementwise::BINARY, elementwise::binary),
    (&["where"], elementwise::choice),
    (&["astype"], elementwise::cast),
    (&["broadcast_to"], movement::broadcast),
    (&["permute_dims"], movement::permute),
    (&["reshape", "flatten", "expand_dims", "squeeze"], movement::view),
    (&["matmul"], product::matmul),
    (&["sum", "mean"], reduction::sum),
    (&["max", "min"], reduction::extremum),
];

/// The operators that have a program for some calls.
pub(crate) fn has_kernels(row: &Operator) -> bool {
    FAMILIES.iter().any(|(names, _)| names.contains(&row.name))
}

/// The program of a call: its name is that of the operator, after `legal_`.
pub(crate) fn kernel(request: &Request) -> Option<TensorProgram> {
    let (_, build) = FAMILIES.iter().find(|(names, _)| names.contains(&request.row.name))?;
    build(request)
}
