//! The boundary of a tensor program: symbolic variables are bound from the shapes that came, left
//! to right, then everything declared is compared with what came.

use crate::stop::Stop;
use crate::tensor::Tensor;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::ir::tensor::{BufferInfo, Param};
use relax_syntax::ir::{DimVar, TensorProgram};
use std::collections::BTreeMap;

/// The values that a call gives.
pub(super) struct Bound {
    pub(super) dims: BTreeMap<Name, i64>,
    /// One a scalar parameter, in order.
    pub(super) scalars: Vec<i64>,
}

/// Binds and checks.
pub(super) fn bind(
    program: &TensorProgram,
    buffers: &[Tensor],
    scalars: &[i64],
) -> Result<Bound, Stop> {
    arity(program, buffers, scalars)?;
    let mut bound = Bound { dims: BTreeMap::new(), scalars: Vec::new() };
    let (mut tensors, mut values) = (buffers.iter(), scalars.iter());
    let mut expressions = Vec::new();
    for param in &program.params {
        match param {
            Param::Buffer(id) => {
                let info = program.buffer(*id);
                let tensor = tensors.next().expect("invariant: the arity was checked");
                types(info, tensor)?;
                for (axis, dim) in info.shape.iter().enumerate() {
                    let actual = i64::try_from(tensor.shape()[axis]).unwrap_or(i64::MAX);
                    if let Dim::Var(name) = dim
                        && !bound.dims.contains_key(name)
                    {
                        bound.dims.insert(name.clone(), actual);
                    } else {
                        expressions.push((info, axis, dim, actual));
                    }
                }
            }
            Param::Scalar(_) => {
                bound.scalars.push(*values.next().expect("invariant: the arity was checked"));
            }
            Param::Dim(name) => {
                let value = *values.next().expect("invariant: the arity was checked");
                let known = *bound.dims.entry(name.clone()).or_insert(value);
                if known != value {
                    let message = format!(
                        "`{name}` is passed as {value}, but the buffers before it have {known}"
                    );
                    return Err(trap(program, &bound.dims, "boundary/dim", message));
                }
            }
        }
    }
    for (info, axis, dim, actual) in expressions {
        agrees(program, info, axis, dim, actual, &bound.dims)?;
    }
    program.dims.iter().try_for_each(|dim| facts(program, dim, &bound.dims))?;
    Ok(bound)
}

fn arity(program: &TensorProgram, buffers: &[Tensor], scalars: &[i64]) -> Result<(), Stop> {
    let is_buffer = |param: &&Param| matches!(param, Param::Buffer(_));
    let wanted = program.params.iter().filter(is_buffer).count();
    let others = program.params.len() - wanted;
    if buffers.len() == wanted && scalars.len() == others {
        return Ok(());
    }
    let message = format!(
        "`{}` takes {wanted} buffer(s) and {others} scalar(s), found {} and {}",
        program.name,
        buffers.len(),
        scalars.len()
    );
    Err(Stop::trap("boundary/arity", message))
}

fn types(info: &BufferInfo, tensor: &Tensor) -> Result<(), Stop> {
    let (name, shape) = (&info.name, tensor.shape());
    if tensor.dtype() != info.dtype {
        let message = format!("`{name}` has dtype {}, found {}", info.dtype, tensor.dtype());
        return Err(Stop::trap("boundary/dtype", message));
    }
    if shape.len() != info.shape.len() {
        let message =
            format!("`{name}` has {} dims, found a tensor of shape {shape:?}", info.shape.len());
        return Err(Stop::trap("boundary/rank", message));
    }
    Ok(())
}

fn agrees(
    program: &TensorProgram,
    info: &BufferInfo,
    axis: usize,
    dim: &Dim,
    actual: i64,
    dims: &BTreeMap<Name, i64>,
) -> Result<(), Stop> {
    let value = dim.eval(&|name| dims.get(name).copied());
    let message = match value {
        Ok(value) if value == actual => return Ok(()),
        Ok(value) if dim.as_int().is_some() => {
            format!("dim {axis} of `{}` is {value}, found {actual}", info.name)
        }
        Ok(value) => format!("dim {axis} of `{}` is {dim} = {value}, found {actual}", info.name),
        Err(error) => format!("dim {axis} of `{}` is {dim}: {error}", info.name),
    };
    Err(trap(program, dims, "boundary/dim", message))
}

/// What a `sym_var` line declares; without one, at least 0.
fn facts(program: &TensorProgram, dim: &DimVar, dims: &BTreeMap<Name, i64>) -> Result<(), Stop> {
    let Some(&value) = dims.get(&dim.name) else { return Ok(()) };
    let name = &dim.name;
    let lower = dim.lower.unwrap_or(0).max(0);
    if value < lower {
        let message = format!("`{name}` is at least {lower}, found {value}");
        return Err(trap(program, dims, "bound/lower", message));
    }
    if let Some(upper) = dim.upper.filter(|&upper| value > upper) {
        let message = format!("`{name}` is at most {upper}, found {value}");
        return Err(trap(program, dims, "bound/upper", message));
    }
    if let Some(divisor) = dim.multiple_of
        && relax_syntax::dim::floor_mod(value, divisor) != Some(0)
    {
        let message = format!("`{name}` is a multiple of {divisor}, found {value}");
        return Err(trap(program, dims, "bound/multiple_of", message));
    }
    Ok(())
}

fn trap(
    program: &TensorProgram,
    dims: &BTreeMap<Name, i64>,
    id: &'static str,
    message: String,
) -> Stop {
    let mut stop = Stop::trap(id, message);
    if let Stop::Trap(trap) = &mut stop {
        trap.span = program.span;
        trap.notes = dims.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    }
    stop
}
