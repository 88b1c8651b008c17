//! Collectives and layouts where one worker stands for all: parts of its own tensor, and as many copies of it as there are
//! workers. Sums and products over several workers are left out.

use super::{Meaning, meaning, shape_of_first};
use crate::denotation::denoter::{Denoter, extent, first, tensor};
use crate::denotation::term::{Known, Term, unknown};
use crate::rules::rule::{Arg, Axis, Call};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) static MEANINGS: &[Meaning] = &[
    meaning("allreduce", shape_of_first, same),
    meaning("annotate_sharding", shape_of_first, same),
    meaning("broadcast_from_worker0", shape_of_first, same),
    meaning("redistribute", shape_of_first, same),
    meaning("allgather", gathered_shape, gathered),
    meaning("all_to_all", exchanged_shape, exchanged),
    meaning("scatter_from_worker0", scattered_shape, same),
    meaning("reduce_scatter", scattered_shape, reduced),
];

fn same(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    denoter.element(first(call)?, at)
}

fn workers(call: &Call) -> Known<Dim> {
    match call.arg("num_workers") {
        Arg::Integer(dim) => Ok(dim.clone()),
        _ => unknown("a number of workers"),
    }
}

/// The extents of the operand, and the axis that a parameter names.
fn along(denoter: &mut Denoter, call: &Call, param: &str) -> Known<(Vec<Axis>, usize)> {
    let shape = denoter.shape(tensor(call, "x")?)?;
    let Arg::Integer(position) = call.arg(param) else { return unknown("expected an axis") };
    let axis = denoter.axis(&shape, position)?;
    Ok((shape, axis))
}

fn product(axis: &Axis, workers: Dim) -> Axis {
    Axis::Dim(Dim::op(DimOp::Mul, extent(axis), workers))
}

fn part(axis: &Axis, workers: Dim) -> Axis {
    Axis::Dim(Dim::op(DimOp::FloorDiv, extent(axis), workers))
}

fn gathered_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let mut shape = denoter.shape(tensor(call, "x")?)?;
    let Some(axis @ Axis::Dim(_)) = shape.first_mut() else { return unknown("no dim 0") };
    *axis = product(axis, workers(call)?);
    Ok(shape)
}

fn gathered(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let x = tensor(call, "x")?;
    let shape = denoter.shape(x)?;
    let (Some(own), Some(index)) = (shape.first(), at.first()) else { return unknown("no dim 0") };
    let mut at = at.to_vec();
    at[0] = Dim::op(DimOp::FloorMod, index.clone(), extent(own));
    denoter.element(x, &at)
}

/// The extents of the first part, and the axis along which it is repeated.
fn first_part(denoter: &mut Denoter, call: &Call) -> Known<(Vec<Axis>, usize)> {
    let (mut shape, split) = along(denoter, call, "split_axis")?;
    let (_, concat) = along(denoter, call, "concat_axis")?;
    shape[split] = part(&shape[split], workers(call)?);
    Ok((shape, concat))
}

fn exchanged_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let (mut shape, concat) = first_part(denoter, call)?;
    shape[concat] = product(&shape[concat], workers(call)?);
    Ok(shape)
}

fn exchanged(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let (shape, concat) = first_part(denoter, call)?;
    let mut index = at.to_vec();
    index[concat] = Dim::op(DimOp::FloorMod, at[concat].clone(), extent(&shape[concat]));
    denoter.element(tensor(call, "x")?, &index)
}

fn scattered_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let (mut shape, axis) = along(denoter, call, "axis")?;
    shape[axis] = part(&shape[axis], workers(call)?);
    Ok(shape)
}

/// The least, the greatest and the mean of equal numbers are that number; so are sums and products of equal truths.
fn reduced(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let Arg::Str(reduction) = call.arg("op_type") else { return unknown("a reduction") };
    let is_same = matches!(&**reduction, "min" | "max" | "avg")
        || denoter.dtype(first(call)?)? == DType::Bool;
    if is_same { same(denoter, call, at) } else { unknown("a sum or product over workers") }
}
