//! Workspaces: parameters of a tensor program that were buffers of its own before they were lifted: nothing reads them after the
//! program, so what it leaves in them is nobody's business.

use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::BufferId;
use relax_syntax::ir::{AttrValue, TensorProgram, attr};

/// The attribute that names them.
const WORKSPACES: &str = "workspaces";

/// Says which parameters are workspaces: their names, with commas between them.
pub fn declare_workspaces(program: &mut TensorProgram, buffers: &[BufferId]) {
    let names = buffers.iter().map(|&id| program.buffer(id).name.as_str());
    let names = Name::new(names.collect::<Vec<_>>().join(","));
    program.attrs.push((Name::new(WORKSPACES), AttrValue::Str(names)));
}

/// Whether a buffer is declared to be a workspace.
#[must_use]
pub fn is_workspace(program: &TensorProgram, buffer: BufferId) -> bool {
    let name = &program.buffer(buffer).name;
    matches!(attr(&program.attrs, WORKSPACES), Some(AttrValue::Str(list)) if list.split(',').any(|one| one == *name))
}

/// Whether a program is given tensors of f64, or gives some: reassociation keeps their precision, and that of what they are
/// computed from.
#[must_use]
pub fn has_f64_tensors(program: &TensorProgram) -> bool {
    let is_f64 = |buffer: BufferId| program.buffer(buffer).dtype == DType::F64;
    program.buffer_params().any(|buffer| is_f64(buffer) && !is_workspace(program, buffer))
}

/// Whether nothing sees the elements of a buffer after the program.
#[must_use]
pub fn is_forgotten(program: &TensorProgram, buffer: BufferId) -> bool {
    !program.is_param(buffer) || is_workspace(program, buffer)
}

/// Whether the extents of a buffer always have a value, as those of parameters do.
#[must_use]
pub fn has_plain_extents(program: &TensorProgram, buffer: BufferId) -> bool {
    let of_param = |dim: &Dim| {
        let mut params = program.buffer_params();
        params.any(|param| program.buffer(param).shape.contains(dim))
    };
    let has_value = |dim: &Dim| matches!(dim, Dim::Var(_) | Dim::Int(0..)) || of_param(dim);
    program.buffer(buffer).shape.iter().all(has_value)
}
