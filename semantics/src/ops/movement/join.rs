//! Several tensors to one, and one to several.

use super::order::position;
use crate::ops::dims::{pick, tensor};
use crate::ops::{Eval, Infer, Known, Reject};
use crate::stop::Stop;
use crate::tensor::Tensor;
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};

/// The most parts that `split` makes: the result's annotation lists every one.
const MAX_SECTIONS: i64 = 65536;

/// The tensors to join: at least one, of one dtype and rank; `None` when nothing is known of them.
struct Parts {
    types: Vec<TensorType>,
    dtype: Option<DType>,
    rank: Option<usize>,
}

fn parts(infer: &Infer) -> Result<Option<Parts>, Reject> {
    let Some(types) = infer.tensors("tensors")? else { return Ok(None) };
    if types.is_empty() {
        return Err(infer.reject("C1", "there is no tensor to join"));
    }
    let known = |index: usize| types[index].dtype.map(|dtype| (index, dtype));
    let dtype = common(infer, "C2", "dtypes", (0..types.len()).filter_map(known))?;
    let ranked = |index: usize| types[index].extents.rank().map(|rank| (index, rank));
    let rank = common(infer, "C3", "ranks", (0..types.len()).filter_map(ranked))?;
    Ok(Some(Parts { types, dtype, rank }))
}

/// What all are, if known of any.
fn common<T: PartialEq + std::fmt::Display>(
    infer: &Infer,
    constraint: &'static str,
    what: &str,
    mut items: impl Iterator<Item = (usize, T)>,
) -> Result<Option<T>, Reject> {
    let Some((first, expected)) = items.next() else { return Ok(None) };
    for (index, found) in items {
        if found != expected {
            let message = format!(
                "tensors {first} and {index} have different {what}: {expected} and {found}"
            );
            return Err(infer.reject(constraint, message));
        }
    }
    Ok(Some(expected))
}

pub(super) fn infer_concat(infer: &mut Infer) -> Result<Annotation, Reject> {
    let axis = if infer.is_none("axis") { None } else { Some(infer.int("axis")?) };
    let unknown_rank = |axis: Option<i64>| match axis {
        None => Extents::Rank(1),
        Some(_) => Extents::Unknown,
    };
    let Some(parts) = parts(infer)? else { return Ok(tensor(unknown_rank(axis), None)) };
    let Some(rank) = parts.rank else { return Ok(tensor(unknown_rank(axis), parts.dtype)) };
    if axis.is_none() && rank != 1 {
        let message = format!("without an axis the tensors must be vectors, found rank {rank}");
        return Err(infer.reject("C3", message));
    }
    let axis = infer.axis("C4", axis.unwrap_or(0), rank)?;
    let extents = require_agreement(infer, "C5", &parts.types, Some(axis))?;
    let lengths: Option<Vec<Dim>> =
        parts.types.iter().map(|part| Some(part.extents.dims()?[axis].clone())).collect();
    let extents = match (extents, lengths) {
        (Some(mut dims), Some(lengths)) => {
            let sum = |total, length| Dim::op(DimOp::Add, total, length);
            dims[axis] = lengths.into_iter().reduce(sum).unwrap_or(Dim::Int(0));
            infer.settled("C6", &dims)?
        }
        _ => Extents::Rank(rank),
    };
    Ok(tensor(extents, parts.dtype))
}

/// Demands that the dims of all parts, where known, agree but for those at `except`; gives those of
/// the first.
fn require_agreement(
    infer: &mut Infer,
    constraint: &'static str,
    parts: &[TensorType],
    except: Option<usize>,
) -> Result<Option<Vec<Dim>>, Reject> {
    let mut known =
        parts.iter().enumerate().filter_map(|(at, part)| Some((at, part.extents.dims()?)));
    let Some((first, expected)) = known.next() else { return Ok(None) };
    for (index, dims) in known {
        for (axis, (a, b)) in expected.iter().zip(dims).enumerate() {
            if Some(axis) != except {
                infer.require_equal(constraint, a, b, || {
                    format!(
                        "tensors {first} and {index} must agree in dim {axis}, found {a} and {b}"
                    )
                })?;
            }
        }
    }
    Ok(Some(expected.to_vec()))
}

pub(super) fn infer_stack(infer: &mut Infer) -> Result<Annotation, Reject> {
    let axis = infer.int("axis")?;
    let Some(parts) = parts(infer)? else { return Ok(tensor(Extents::Unknown, None)) };
    let Some(rank) = parts.rank else { return Ok(tensor(Extents::Unknown, parts.dtype)) };
    let axis = infer.axis("C4", axis, rank + 1)?;
    let count = Dim::Int(i64::try_from(parts.types.len()).unwrap_or(i64::MAX));
    let extents = match require_agreement(infer, "C3", &parts.types, None)? {
        Some(mut dims) => {
            dims.insert(axis, count);
            Extents::Known(dims)
        }
        None => Extents::Rank(rank + 1),
    };
    Ok(tensor(extents, parts.dtype))
}

/// The tensors of a tuple as they are; an operand of which nothing was known may turn out to hold
/// something else.
fn tensors<'a>(eval: &'a Eval) -> Result<Vec<&'a Tensor>, Stop> {
    let wrong = |found: &Value| {
        let message = format!("`tensors` must be a tuple of tensors, found {}", found.kind());
        Stop::trap(format!("{}/kind", eval.row.short_name()), message)
    };
    let Value::Tuple(items) = eval.value("tensors") else {
        return Err(wrong(eval.value("tensors")));
    };
    let as_tensor = |item: &'a Value| match item {
        Value::Tensor(tensor) => Ok(tensor),
        other => Err(wrong(other)),
    };
    items.iter().map(as_tensor).collect()
}

pub(super) fn eval_concat(eval: &Eval) -> Result<Value, Stop> {
    let parts = tensors(eval)?;
    let (_, shape) = eval.out_tensor()?;
    let axis = if eval.is_none("axis") { 0 } else { position(eval, "axis", shape.len()) };
    let extents: Vec<usize> = parts.iter().map(|part| part.shape()[axis]).collect();
    Ok(Value::Tensor(interleaved(&parts, &extents, axis, &shape)))
}

pub(super) fn eval_stack(eval: &Eval) -> Result<Value, Stop> {
    let parts = tensors(eval)?;
    let (_, shape) = eval.out_tensor()?;
    let axis = position(eval, "axis", shape.len());
    Ok(Value::Tensor(interleaved(&parts, &vec![1; parts.len()], axis, &shape)))
}

/// The tensors, each `extents[i]` long at `axis`, one after the other there.
fn interleaved(parts: &[&Tensor], extents: &[usize], axis: usize, shape: &[usize]) -> Tensor {
    let all = Tensor::joined(parts);
    if all.is_empty() {
        return all.reshaped(shape);
    }
    let outer: usize = shape[..axis].iter().product();
    let inner: usize = shape[axis + 1..].iter().product();
    let mut starts = Vec::with_capacity(parts.len());
    let mut next = 0;
    for part in parts {
        starts.push(next);
        next += part.len();
    }
    let mut positions = Vec::with_capacity(all.len());
    for row in 0..outer {
        for (start, extent) in starts.iter().zip(extents) {
            let from = start + row * extent * inner;
            positions.extend(from..from + extent * inner);
        }
    }
    all.select(shape, &positions)
}

/// Where `split` cuts.
enum Cuts {
    Sections(i64),
    Indices(Vec<Dim>),
}

fn cuts(infer: &Infer) -> Result<Cuts, Reject> {
    let dims = infer.dims("indices_or_sections")?;
    if !matches!(infer.operand("indices_or_sections").known, Some(Known::Dim(_))) {
        return Ok(Cuts::Indices(dims));
    }
    let sections = infer.int("indices_or_sections")?;
    if (1..=MAX_SECTIONS).contains(&sections) {
        return Ok(Cuts::Sections(sections));
    }
    let message = format!("the number of sections must be in 1..={MAX_SECTIONS}, found {sections}");
    Err(infer.reject("C2", message))
}

pub(super) fn infer_split(infer: &mut Infer) -> Result<Annotation, Reject> {
    let x = infer.tensor("x")?;
    let (cuts, axis) = (cuts(infer)?, infer.int("axis")?);
    let axis = x.extents.rank().map(|rank| infer.axis("C1", axis, rank)).transpose()?;
    let (Some(axis), Extents::Known(dims)) = (axis, &x.extents) else {
        let count = match cuts {
            Cuts::Sections(count) => usize::try_from(count).unwrap_or(1),
            Cuts::Indices(indices) => indices.len() + 1,
        };
        return Ok(Annotation::Tuple(vec![Annotation::Tensor(x); count]));
    };
    let lengths = match cuts {
        Cuts::Sections(count) => section_lengths(infer, &dims[axis], count)?,
        Cuts::Indices(indices) => index_lengths(infer, &dims[axis], &indices),
    };
    let mut parts = Vec::with_capacity(lengths.len());
    for length in lengths {
        let mut dims = dims.clone();
        dims[axis] = length;
        parts.push(tensor(infer.settled("C3", &dims)?, x.dtype));
    }
    Ok(Annotation::Tuple(parts))
}

fn section_lengths(infer: &mut Infer, dim: &Dim, count: i64) -> Result<Vec<Dim>, Reject> {
    let times = usize::try_from(count).unwrap_or(1);
    if infer.proves(&Claim::new(count, Relation::Divides, dim.clone())) {
        return Ok(vec![Dim::op(DimOp::FloorDiv, dim.clone(), Dim::Int(count)); times]);
    }
    let each = Dim::op(DimOp::CeilDiv, dim.clone(), Dim::Int(count));
    let before = Dim::op(DimOp::Mul, each.clone(), Dim::Int(count - 1));
    let claim = Claim::new(before.clone(), Relation::AtMost, dim.clone());
    infer.require("C3", claim, || {
        format!("{count} sections of {each} leave nothing, but less, of {dim} for the last one")
    })?;
    let mut lengths = vec![each; times - 1];
    lengths.push(Dim::op(DimOp::Sub, dim.clone(), before));
    Ok(lengths)
}

fn index_lengths(infer: &mut Infer, dim: &Dim, indices: &[Dim]) -> Vec<Dim> {
    let inner: Vec<Dim> = indices.iter().map(|index| clamped(infer, index, dim)).collect();
    let mut lengths = Vec::with_capacity(inner.len() + 1);
    let mut left = Dim::Int(0);
    for right in inner.into_iter().chain([dim.clone()]) {
        let ordered = infer.proves(&Claim::new(left.clone(), Relation::AtMost, right.clone()));
        let length = Dim::op(DimOp::Sub, right.clone(), left);
        let max = |length| Dim::op(DimOp::Max, Dim::Int(0), length);
        lengths.push(if ordered { length } else { max(length) });
        left = right;
    }
    lengths
}

/// `index` moved into `0..=dim`; what is proved to lie there stays as it is.
fn clamped(infer: &mut Infer, index: &Dim, dim: &Dim) -> Dim {
    let mut result = index.clone();
    if !infer.proves(&Claim::new(0, Relation::AtMost, index.clone())) {
        result = Dim::op(DimOp::Max, Dim::Int(0), result);
    }
    if !infer.proves(&Claim::new(index.clone(), Relation::AtMost, dim.clone())) {
        result = Dim::op(DimOp::Min, result, dim.clone());
    }
    result
}

pub(super) fn eval_split(eval: &Eval) -> Result<Value, Stop> {
    let x = eval.tensor_as_it_is("x");
    let axis = position(eval, "axis", x.rank());
    let extent = x.shape()[axis];
    let starts = match eval.value("indices_or_sections") {
        Value::Prim(_, number) => {
            let sections = number.as_f64() as usize;
            (0..sections).map(|index| index * extent.div_ceil(sections)).collect()
        }
        _ => {
            let indices = eval.ints("indices_or_sections");
            let clamp =
                |index: i64| usize::try_from(index.max(0)).map_or(extent, |i| i.min(extent));
            [0].into_iter().chain(indices.into_iter().map(clamp)).collect::<Vec<_>>()
        }
    };
    let part = |(index, &start): (usize, &usize)| {
        let (_, shape) = eval.out_field(index)?;
        let along: Vec<usize> = (start..start + shape[axis]).collect();
        Ok(Value::Tensor(pick(x, axis, &along)))
    };
    Ok(Value::Tuple(starts.iter().enumerate().map(part).collect::<Result<_, Stop>>()?))
}
