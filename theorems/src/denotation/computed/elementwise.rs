//! Elementwise operators: the denotation of the formula of the row.

use super::Op;
use crate::denotation::program::{Called, element as written_element, rebuilt, run};
use crate::denotation::term::{Known, Term};
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
        operands.insert(name, op.stretched(tensor, &dims, at)?);
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
