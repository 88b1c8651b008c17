//! Results whose extents only elements decide. A first program writes those extents to a vector, the machine reads them
//! as dims, and a second program has a result of them.

use super::Call;
use super::results::Results;
use crate::fallback::Fallback;
use relax_semantics::ops::programs::TensorSpec;
use relax_semantics::ops::{Known, Operator, normalize_axis};
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
        "nonzero" | "unique" => Some(1),
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
        "unique" => unique(call, data, extents.first()?)?,
        _ => Results::one(TensorSpec { dims: extents.to_vec(), dtype: data.dtype }),
    })
}

/// The different items along an axis or of the flattened tensor, and the vectors that are asked for.
fn unique(call: &Call, data: &TensorSpec, extent: &Dim) -> Option<Results> {
    let (values, items) = match call.attrs.get("axis")? {
        Known::None => (vec![extent.clone()], Dim::product(&data.dims)),
        axis => {
            let axis = normalize_axis(axis.dims()?.first()?.as_int()?, data.dims.len())?;
            let mut dims = data.dims.clone();
            let items = std::mem::replace(&mut dims[axis], extent.clone());
            (dims, items)
        }
    };
    let mut specs = vec![TensorSpec { dims: values, dtype: data.dtype }];
    let vectors = [("return_index", extent), ("return_inverse", &items), ("return_counts", extent)];
    for (name, dim) in vectors {
        match call.attrs.get(name)? {
            Known::Bool(true) => {
                specs.push(TensorSpec { dims: vec![dim.clone()], dtype: DType::I64 });
            }
            Known::Bool(false) => {}
            _ => return None,
        }
    }
    let is_tuple = specs.len() > 1;
    Some(Results { specs, is_tuple })
}

/// The elements of a vector as a shape.
pub(super) fn read_shape(vector: Atom) -> Expr {
    let callee = Callee::Operator("builtin.read_shape".into());
    Expr::Call { callee, args: vec![vector], attrs: Vec::new() }
}
