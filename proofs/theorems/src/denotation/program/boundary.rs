//! The boundary of a tensor program: what a call binds, and what it must satisfy.

use crate::denotation::term::{Known, unknown};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{Param, StmtKind};
use std::collections::BTreeMap;

/// What a call must satisfy for its buffers to have shapes: those of the program, and none of a negative extent. Else it stops.
pub(crate) fn boundary(
    program: &TensorProgram,
    shapes: &[Vec<Dim>],
    scalars: &[Dim],
) -> Vec<Claim> {
    let Ok(dims) = bound_dims(program, shapes, scalars) else { return Vec::new() };
    let formal = program.buffer_params().map(|id| &program.buffer(id).shape);
    let pairs = formal.zip(shapes).flat_map(|(formal, actual)| formal.iter().zip(actual));
    let pairs = pairs.map(|(formal, actual)| (formal.substitute(&dims), actual.clone()));
    let differ = pairs.filter(|(formal, actual)| formal != actual);
    let fits = differ.map(|(formal, actual)| Claim::new(formal, Relation::Equal, actual));
    // What it allocates outside of loops and branches has extents.
    let extents = program.body.iter().flatten().filter_map(|stmt| match stmt.kind {
        StmtKind::Alloc(id) => Some(&program.buffer(id).shape),
        _ => None,
    });
    let extents = extents.flatten().map(|dim| dim.substitute(&dims));
    fits.chain(extents.map(|dim| Claim::new(0, Relation::AtMost, dim))).collect()
}

/// What the symbolic variables of a program stand for in a call.
pub(super) fn bound_dims(
    program: &TensorProgram,
    shapes: &[Vec<Dim>],
    scalars: &[Dim],
) -> Known<BTreeMap<Name, Dim>> {
    let (mut dims, mut buffers) = (BTreeMap::new(), shapes.iter());
    let mut scalars = scalars.iter();
    for param in &program.params {
        match param {
            Param::Buffer(id) => {
                let Some(actual) = buffers.next() else { return unknown("too few buffers") };
                let formal = &program.buffer(*id).shape;
                if formal.len() != actual.len() {
                    return unknown("a buffer of another rank");
                }
                for (formal, actual) in formal.iter().zip(actual) {
                    if let Dim::Var(name) = formal {
                        dims.entry(name.clone()).or_insert_with(|| actual.clone());
                    }
                }
            }
            Param::Dim(name) => {
                let Some(value) = scalars.next() else { return unknown("too few scalars") };
                dims.insert(name.clone(), value.clone());
            }
            Param::Scalar(_) => {
                scalars.next();
            }
        }
    }
    Ok(dims)
}
