//! `index_tensor` and `index_put`: one index tensor a leading dim, broadcast against each other.

use super::addresses::{Negative, resolve, with_inner};
use super::update::{Reduction, update};
use crate::ops::broadcast::{broadcast_to, positions};
use crate::ops::{Effect, Eval, Evaluate, Family, Infer, Kind, Literal, Operator, Reject, Traps};
use crate::ops::{Programs, programs};
use crate::ops::{constraint, optional, required};
use crate::stop::Stop;
use crate::tensor::{Tensor, strides};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dtype::DType;

pub(super) const INDEX_TENSOR: Operator = Operator {
    name: "index_tensor",
    aliases: &[],
    family: Family::Indexing,
    doc: "`data[i0, i1, …]` of NumPy: the index tensors broadcast against each other, and the \
          result has their dims, then the dims of data that are not indexed. A negative index \
          counts from the end, as in NumPy (TVM's kernel reads whatever is there).",
    params: &[required("data", Kind::Tensor), required("indices", Kind::Tensors)],
    constraints: &[
        constraint("C1", "every index tensor has an integer dtype"),
        constraint("C2", "there are index tensors, and no more than data has dims"),
        constraint("C3", "the index tensors broadcast"),
        constraint("C4", "every index is in range"),
    ],
    effect: Effect::Pure,
    traps: Traps::OnElements,
    infer: infer_tensor,
    program: Programs::Of(programs::indexing::index_tensor),
    eval: Evaluate::Values(eval_tensor),
};

pub(super) const INDEX_PUT: Operator = Operator {
    name: "index_put",
    aliases: &[],
    family: Family::Indexing,
    doc: "`data` after `data[i0, i1, …] = values` of NumPy: the index tensors broadcast against \
          each other, and values to what they index. Written in row-major order, so that of equal \
          indices the last one stays; with `accumulate` all are added, floats in f64 and rounded \
          once. A negative index counts from the end.",
    params: &[
        required("data", Kind::Tensor),
        required("indices", Kind::Tensors),
        required("values", Kind::Tensor),
        optional("accumulate", Kind::Bool, Literal::Bool(false)),
    ],
    constraints: &[
        constraint("C1", "every index tensor has an integer dtype"),
        constraint("C2", "there are index tensors, and no more than data has dims"),
        constraint("C3", "the index tensors broadcast"),
        constraint("C4", "every index is in range"),
        constraint("C5", "values has the dtype of data; bools can't be accumulated"),
        constraint("C6", "values broadcasts to what the indices index"),
    ],
    effect: Effect::Pure,
    traps: Traps::OnElements,
    infer: infer_put,
    program: Programs::Of(programs::scatter::index_put),
    eval: Evaluate::Values(eval_put),
};

/// The shape of `data[indices]`; constraints `C1` to `C3`.
fn indexed(infer: &mut Infer, data: &Extents) -> Result<Extents, Reject> {
    let Some(indices) = infer.tensors("indices")? else { return Ok(Extents::Unknown) };
    let count = indices.len();
    if count == 0 || data.rank().is_some_and(|rank| count > rank) {
        let rank = data.rank().map_or_else(String::new, |rank| format!(" up to {rank}"));
        let message = format!("there must be index tensors, 1{rank}, found {count}");
        return Err(infer.reject("C2", message));
    }
    let mut common = Extents::Known(Vec::new());
    for (at, index) in indices.iter().enumerate() {
        if let Some(dtype) = index.dtype.filter(|dtype| !dtype.is_integer()) {
            let message = format!("index tensor {at} must have an integer dtype, found {dtype}");
            return Err(infer.reject("C1", message));
        }
        common = infer.broadcast("C3", &common, &index.extents)?;
    }
    Ok(match (&common, data) {
        (Extents::Known(lead), Extents::Known(dims)) => {
            Extents::Known([lead, &dims[count..]].concat())
        }
        _ => match (common.rank(), data.rank()) {
            (Some(lead), Some(rank)) => Extents::Rank(lead + rank - count),
            _ => Extents::Unknown,
        },
    })
}

fn infer_tensor(infer: &mut Infer) -> Result<Annotation, Reject> {
    let data = infer.tensor("data")?;
    let extents = indexed(infer, &data.extents)?;
    Ok(Annotation::Tensor(TensorType { extents, dtype: data.dtype }))
}

fn infer_put(infer: &mut Infer) -> Result<Annotation, Reject> {
    let (mut data, values) = (infer.tensor("data")?, infer.tensor("values")?);
    let place = indexed(infer, &data.extents)?;
    data.dtype = infer.same_dtype("C5", &["data", "values"])?;
    if infer.bool("accumulate")? && data.dtype == Some(DType::Bool) {
        return Err(infer.reject("C5", "bools can't be accumulated"));
    }
    let common = infer.broadcast("C6", &place, &values.extents)?;
    // Broadcasting may not enlarge the place itself.
    infer.require_same_shape("C6", &place, &common, "what is indexed and what is written")?;
    Ok(Annotation::Tensor(data))
}

/// The shape the index tensors broadcast to; `infer` has checked that they do.
fn common_shape(indices: &[&Tensor]) -> Vec<usize> {
    let rank = indices.iter().map(|index| index.rank()).max().unwrap_or(0);
    let mut shape = vec![1; rank];
    for index in indices {
        for (dim, &extent) in shape[rank - index.rank()..].iter_mut().zip(index.shape()) {
            if extent != 1 {
                *dim = extent;
            }
        }
    }
    shape
}

/// The positions in `data` that the indices mean, row-major.
fn indexed_positions(eval: &Eval, data: &Tensor) -> Result<(Vec<usize>, Vec<usize>), Stop> {
    let indices = eval.tensors("indices")?;
    let mut shape = common_shape(&indices);
    let left = &data.shape()[indices.len()..];
    let limited: Vec<i64> =
        shape.iter().chain(left).map(|&dim| i64::try_from(dim).unwrap_or(i64::MAX)).collect();
    eval.checked_shape(&limited, data.dtype())?;
    let steps = strides(data.shape());
    let empty = shape.contains(&0);
    let mut bases = vec![0; if empty { 0 } else { shape.iter().product() }];
    for (axis, index) in indices.iter().enumerate().filter(|_| !empty) {
        let elements = index.to_ints();
        let elements = elements.as_slice().expect("invariant: tensors are in row-major order");
        for (base, at) in bases.iter_mut().zip(positions(index.shape(), &shape)) {
            let n = data.shape()[axis];
            *base += steps[axis] * resolve(eval, "C4", elements[at], n, Negative::FromEnd)?;
        }
    }
    let inner = left.iter().product();
    shape.extend(left);
    Ok((shape, with_inner(&bases, inner)))
}

fn eval_tensor(eval: &Eval) -> Result<Value, Stop> {
    let data = eval.tensor_as_it_is("data");
    let (shape, positions) = indexed_positions(eval, data)?;
    Ok(Value::Tensor(data.select(&shape, &positions)))
}

fn eval_put(eval: &Eval) -> Result<Value, Stop> {
    let data = eval.tensor_as_it_is("data");
    let reduction = if eval.bool("accumulate") { Reduction::Add } else { Reduction::Update };
    if reduction == Reduction::Add {
        eval.tensor("data")?;
    }
    let values = eval.tensor("values")?;
    let (shape, positions) = indexed_positions(eval, data)?;
    if positions.is_empty() {
        return Ok(Value::Tensor(data.clone()));
    }
    Ok(Value::Tensor(update(data, &positions, &broadcast_to(values, &shape), reduction)))
}
