//! Results whose extents only elements decide. A first program writes those extents to a vector, the machine reads them
//! as dims, and a second program has a result of them.

use super::Call;
use super::results::Results;
use crate::fallback::Fallback;
use crate::kernels::TensorSpec;
use relax_semantics::ops::Operator;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Atom, Callee, Expr, Module};

/// What becomes of calls whose results have as many elements as they find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// A program counts, and gives the dims names.
    Compiled,
    /// They stay as they are.
    Left,
}

/// What the pass makes of a module.
pub(super) struct Legalized {
    pub(super) module: Module,
    /// Calls that became calls of programs, those of them that count, and all.
    pub(super) done: usize,
    pub(super) counted: usize,
    pub(super) found: usize,
    pub(super) fallbacks: Vec<Fallback>,
}

/// How many extents of the result elements decide.
pub(super) fn number(row: &Operator, call: &Call) -> Option<usize> {
    let rank = call.inputs.first()?.spec.dims.len();
    match row.name {
        "nonzero" => Some(1),
        "dynamic_strided_slice" if rank > 0 => Some(rank),
        _ => None,
    }
}

/// The result with its extents.
pub(super) fn results(row: &Operator, call: &Call, extents: &[Dim]) -> Option<Results> {
    let data = &call.inputs.first()?.spec;
    Some(match row.name {
        "nonzero" => {
            let rank = i64::try_from(data.dims.len().max(1)).ok()?;
            let dims = vec![Dim::Int(rank), extents.first()?.clone()];
            Results::one(TensorSpec { dims, dtype: DType::I64 })
        }
        _ => Results::one(TensorSpec { dims: extents.to_vec(), dtype: data.dtype }),
    })
}

/// The elements of a vector as a shape.
pub(super) fn read_shape(vector: Atom) -> Expr {
    let callee = Callee::Operator("builtin.read_shape".into());
    Expr::Call { callee, args: vec![vector], attrs: Vec::new() }
}
