//! Elementwise operators: the denotation of the formula of the row.

use super::{Op, Tensor};
use crate::denotation::program::{Called, element as written_element, rebuilt, run};
use crate::denotation::term::{Known, Term};
use relax_semantics::ops::Layout;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use std::collections::BTreeMap;

pub(super) fn element(op: &mut Op, at: &[Dim]) -> Option<Known<Term>> {
    let own = op.row.elementwise()?;
    let (dims, out) = op.results.first()?.clone();
    let dtypes: Vec<DType> = op.tensors.iter().map(|(_, tensor)| tensor.dtype).collect();
    let program = own.program(&dtypes, out, &op.attrs, &[])?;
    let mut operands = BTreeMap::new();
    for (number, (_, tensor)) in op.tensors.clone().iter().enumerate() {
        let name = Name::from(format!("operand {number}"));
        let is_vector = own.layout == Layout::Channels && number > 0;
        let element =
            if is_vector { channel(op, tensor, at)? } else { op.stretched(tensor, &dims, at)? };
        operands.insert(name, element);
    }
    let buffers = operands.keys().cloned().map(Some).chain([None]).collect();
    let shapes = vec![Vec::new(); dtypes.len() + 1];
    let called = Called { program: &program, buffers, shapes, scalars: Vec::new() };
    let element = run(&called, &mut *op.facts, &mut *op.fresh).and_then(|written| {
        written_element(&written, dtypes.len(), &[], &mut *op.facts, &mut *op.fresh)
    });
    Some(element.and_then(|term| {
        rebuilt(&term, &mut |term| match term {
            Term::Read(name, _) => Ok(operands.get(name).cloned()),
            _ => Ok(None),
        })
    }))
}

/// The element of a vector along the axis of the call, or the only element.
fn channel(op: &mut Op, own: &Tensor, at: &[Dim]) -> Option<Term> {
    let x = op.first()?;
    let axis = op.axes("axis", x.dims.len()).and_then(|axes| axes.first().copied());
    match (own.dims.len(), axis) {
        (1, Some(axis)) => op.stretched(own, &x.dims[axis..=axis], &at[axis..=axis]),
        (rank, _) => Some(own.at(&vec![Dim::Int(0); rank])),
    }
}
