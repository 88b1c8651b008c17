//! `gather_elements` and `gather_nd`.

use super::addresses::{Negative, require_indices, resolve, with_inner};
use crate::ops::{Effect, Eval, Evaluate, Family, Infer, Kind, Literal, Operator, Reject, Traps};
use crate::ops::{Programs, programs};
use crate::ops::{constraint, normalize_axis, optional, required};
use crate::stop::Stop;
use crate::tensor::{Tensor, strided_positions, strides};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Relation};

pub(super) const GATHER_ELEMENTS: Operator = Operator {
    name: "gather_elements",
    aliases: &[],
    family: Family::Indexing,
    doc: "For each element of `indices` the element of `data` at the same place, but with that \
          index along `axis`. A negative index is out of range, as in TVM (ONNX counts it from the \
          end).",
    params: &[
        required("data", Kind::Tensor),
        required("indices", Kind::Tensor),
        optional("axis", Kind::Dim, Literal::Int(0)),
    ],
    constraints: &[
        constraint("C1", "indices has an integer dtype"),
        constraint("C2", "data and indices have the same rank, and axis is in range for it"),
        constraint("C3", "off the axis, no dim of indices is greater than that of data"),
        constraint("C4", "every index is in range"),
    ],
    effect: Effect::Pure,
    traps: Traps::OnElements,
    infer: infer_elements,
    program: Programs::Of(programs::indexing::gather_elements),
    eval: Evaluate::Values(eval_elements),
};

pub(super) const GATHER_ND: Operator = Operator {
    name: "gather_nd",
    aliases: &[],
    family: Family::Indexing,
    doc: "The last dim of `indices` holds an index for each of the leading dims of `data` after \
          the first `batch_dims`, which both share: the result has the other dims of indices, then \
          the dims of data that are left. A negative index is out of range, as in TVM (ONNX counts \
          it from the end). Where the last dim of indices is not a literal, the rank is not known.",
    params: &[
        required("data", Kind::Tensor),
        required("indices", Kind::Tensor),
        optional("batch_dims", Kind::Dim, Literal::Int(0)),
    ],
    constraints: &[
        constraint("C1", "indices has an integer dtype"),
        constraint("C2", "batch_dims is at least 0 and less than the rank of indices"),
        constraint("C3", "batch_dims and the last dim of indices together are at most data's rank"),
        constraint("C4", "the first batch_dims dims of data and indices are equal"),
        constraint("C5", "every index is in range"),
    ],
    effect: Effect::Pure,
    traps: Traps::OnElements,
    infer: infer_nd,
    program: Programs::Of(programs::indexing::gather_nd),
    eval: Evaluate::Values(eval_nd),
};

/// Demands one rank, the axis in it, and off the axis indices that are inside `data` (`C2`, `C3`).
pub(super) fn require_elementwise(
    infer: &mut Infer,
    data: &Extents,
    indices: &Extents,
) -> Result<(), Reject> {
    let axis = infer.int("axis")?;
    if let (Some(a), Some(b)) = (data.rank(), indices.rank())
        && a != b
    {
        let message = format!("`data` and `indices` must have the same rank, found {a} and {b}");
        return Err(infer.reject("C2", message));
    }
    let Some(rank) = data.rank().or(indices.rank()) else { return Ok(()) };
    let axis = infer.axis("C2", axis, rank)?;
    let (Some(data), Some(indices)) = (data.dims(), indices.dims()) else { return Ok(()) };
    for (other, (from, to)) in indices.iter().zip(data).enumerate() {
        if other != axis {
            let claim = Claim::new(from.clone(), Relation::AtMost, to.clone());
            infer.require("C3", claim, || {
                format!("dim {other} of `indices`, {from}, must be at most that of `data`, {to}")
            })?;
        }
    }
    Ok(())
}

fn infer_elements(infer: &mut Infer) -> Result<Annotation, Reject> {
    let (data, indices) = (infer.tensor("data")?, infer.tensor("indices")?);
    require_indices(infer, "indices")?;
    require_elementwise(infer, &data.extents, &indices.extents)?;
    let extents = match (&indices.extents, data.extents.rank()) {
        (Extents::Unknown, Some(rank)) => Extents::Rank(rank),
        _ => indices.extents,
    };
    Ok(Annotation::Tensor(TensorType { extents, dtype: data.dtype }))
}

/// For each element of `indices`, the position in `data` that it means.
pub(super) fn element_positions(
    eval: &Eval,
    data: &Tensor,
    negative: Negative,
) -> Result<Vec<usize>, Stop> {
    let indices = eval.tensor("indices")?;
    if indices.is_empty() {
        return Ok(Vec::new());
    }
    let axis = normalize_axis(eval.int("axis"), data.rank())
        .expect("invariant: infer has checked the axis");
    let mut steps = strides(data.shape());
    let step = std::mem::take(&mut steps[axis]);
    let bases = strided_positions(indices.shape(), &steps);
    let elements = indices.to_ints();
    let resolved = bases.into_iter().zip(&elements).map(|(base, &index)| {
        Ok(base + step * resolve(eval, "C4", index, data.shape()[axis], negative)?)
    });
    resolved.collect()
}

fn eval_elements(eval: &Eval) -> Result<Value, Stop> {
    let (_, shape) = eval.out_tensor()?;
    let data = eval.tensor_as_it_is("data");
    let positions = element_positions(eval, data, Negative::Refused)?;
    Ok(Value::Tensor(data.select(&shape, &positions)))
}

fn infer_nd(infer: &mut Infer) -> Result<Annotation, Reject> {
    let (data, indices) = (infer.tensor("data")?, infer.tensor("indices")?);
    require_indices(infer, "indices")?;
    let batch = infer.int("batch_dims")?;
    let rank = indices.extents.rank();
    let batch = usize::try_from(batch).ok().filter(|&b| rank.is_none_or(|rank| b < rank));
    let Some(batch) = batch else {
        let message = "`batch_dims` must be at least 0 and less than the rank of `indices`";
        return Err(infer.reject("C2", message));
    };
    let extents = match indices.extents.dims() {
        Some(dims) => gathered(infer, &data.extents, dims, batch)?,
        None => Extents::Unknown,
    };
    Ok(Annotation::Tensor(TensorType { extents, dtype: data.dtype }))
}

/// The dims of `indices` but the last, then those of `data` that are not indexed.
fn gathered(
    infer: &mut Infer,
    data: &Extents,
    indices: &[Dim],
    batch: usize,
) -> Result<Extents, Reject> {
    let (last, lead) = indices.split_last().expect("invariant: batch_dims is less than the rank");
    let Some(count) = last.as_int().and_then(|count| usize::try_from(count).ok()) else {
        return Ok(Extents::Unknown);
    };
    let Some(rank) = data.rank() else { return Ok(Extents::Unknown) };
    let indexed = batch.saturating_add(count);
    if indexed > rank {
        let message = format!(
            "`batch_dims` {batch} and the last dim {count} of `indices` exceed the rank {rank} of \
             `data`"
        );
        return Err(infer.reject("C3", message));
    }
    let Some(dims) = data.dims() else { return Ok(Extents::Rank(lead.len() + rank - indexed)) };
    for (axis, (a, b)) in dims[..batch].iter().zip(lead).enumerate() {
        infer.require_equal("C4", a, b, || {
            format!("batch dim {axis} must be equal in `data` and `indices`, found {a} and {b}")
        })?;
    }
    Ok(Extents::Known([lead, &dims[indexed..]].concat()))
}

/// For each index tuple in the last dim of `indices`, the position of the first element of `data`
/// that it means, and how many elements from there on.
pub(super) fn tuple_bases(
    eval: &Eval,
    constraint: &'static str,
    data: &Tensor,
    batch: usize,
) -> Result<(Vec<usize>, usize), Stop> {
    let indices = eval.tensor("indices")?;
    let (&count, lead) =
        indices.shape().split_last().expect("invariant: infer has checked the rank");
    let inner = data.shape()[batch + count..].iter().product();
    if lead.contains(&0) {
        return Ok((Vec::new(), inner));
    }
    let steps = strides(data.shape());
    let lead_steps: Vec<usize> =
        (0..lead.len()).map(|axis| if axis < batch { steps[axis] } else { 0 }).collect();
    let mut bases = strided_positions(lead, &lead_steps);
    let elements = indices.to_ints();
    let elements = elements.as_slice().expect("invariant: tensors are in row-major order");
    for (row, base) in bases.iter_mut().enumerate() {
        for (at, &index) in elements[row * count..(row + 1) * count].iter().enumerate() {
            let axis = batch + at;
            let n = data.shape()[axis];
            *base += steps[axis] * resolve(eval, constraint, index, n, Negative::Refused)?;
        }
    }
    Ok((bases, inner))
}

fn eval_nd(eval: &Eval) -> Result<Value, Stop> {
    let (_, shape) = eval.out_tensor()?;
    let data = eval.tensor_as_it_is("data");
    let batch = usize::try_from(eval.int("batch_dims")).expect("invariant: infer has checked it");
    let (bases, inner) = tuple_bases(eval, "C5", data, batch)?;
    Ok(Value::Tensor(data.select(&shape, &with_inner(&bases, inner))))
}
