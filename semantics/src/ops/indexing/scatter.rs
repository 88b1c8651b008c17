//! `scatter_elements` and `scatter_nd`.

use super::addresses::{Negative, require_indices, with_inner};
use super::gather::{element_positions, require_elementwise, tuple_bases};
use super::update::{Reduction, update};
use crate::ops::{Effect, Eval, Evaluate, Family, Infer, Kind, Literal, Operator, Reject, Traps};
use crate::ops::{Programs, programs};
use crate::ops::{constraint, optional, required};
use crate::stop::Stop;
use crate::tensor::Tensor;
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

pub(super) const SCATTER_ELEMENTS: Operator = Operator {
    name: "scatter_elements",
    aliases: &[],
    family: Family::Indexing,
    doc: "`data` with each element of `updates` written at the same place, but with the element of \
          `indices` along `axis`; a negative index counts from the end. Written in row-major order \
          by `reduction`: update (the last stays), add, mul, mean (half of the sum of what is \
          there and what is written, as in TVM), max, min (NaN if one is). Floats are combined in \
          f64 and rounded once.",
    params: &[
        required("data", Kind::Tensor),
        required("indices", Kind::Tensor),
        required("updates", Kind::Tensor),
        optional("axis", Kind::Dim, Literal::Int(0)),
        optional("reduction", Kind::Str, Literal::Str("update")),
    ],
    constraints: &[
        constraint("C1", "indices has an integer dtype, updates that of data"),
        constraint("C2", "data and indices have the same rank, and axis is in range for it"),
        constraint("C3", "off the axis, no dim of indices is greater than that of data"),
        constraint("C4", "every index is in range"),
        constraint("C5", "indices and updates have the same shape"),
        constraint(
            "C6",
            "reduction is update, add, mul, mean, max or min, and fits the dtype: \
                          mean is for floats, and bools can only be updated",
        ),
    ],
    effect: Effect::Pure,
    traps: Traps::OnElements,
    infer: infer_elements,
    program: Programs::Of(programs::scatter::scatter_elements),
    eval: Evaluate::Values(eval_elements),
};

pub(super) const SCATTER_ND: Operator = Operator {
    name: "scatter_nd",
    aliases: &[],
    family: Family::Indexing,
    doc: "`data` with updates written where the index tuples in the last dim of `indices` say, in \
          row-major order by `reduction`: update (the last stays), add, mul, max, min (NaN if one \
          is). `updates` has the other dims of indices, then the dims of data that are not \
          indexed. A negative index is out of range, as in TVM. Floats are combined in f64 and \
          rounded once.",
    params: &[
        required("data", Kind::Tensor),
        required("indices", Kind::Tensor),
        required("updates", Kind::Tensor),
        optional("reduction", Kind::Str, Literal::Str("update")),
    ],
    constraints: &[
        constraint("C1", "indices has an integer dtype, updates that of data"),
        constraint("C2", "indices has rank at least 1, and its last dim is at most data's rank"),
        constraint("C3", "updates has the dims of indices but the last, then data's that are left"),
        constraint("C4", "every index is in range"),
        constraint(
            "C5",
            "reduction is update, add, mul, max or min, and bools can only be updated",
        ),
    ],
    effect: Effect::Pure,
    traps: Traps::OnElements,
    infer: infer_nd,
    program: Programs::Of(programs::scatter::scatter_nd),
    eval: Evaluate::Values(eval_nd),
};

/// Demands a reduction that the row has and that the dtype can do.
fn require_reduction(
    infer: &Infer,
    constraint: &'static str,
    names: &[&str],
    dtype: Option<DType>,
) -> Result<(), Reject> {
    let name = infer.str("reduction")?;
    let message = match Reduction::parse(&name).filter(|_| names.contains(&&*name)) {
        None => format!("`reduction` must be one of {}, found {name:?}", names.join(" ")),
        Some(Reduction::Update) => return Ok(()),
        Some(_) if dtype == Some(DType::Bool) => {
            format!("bools can only be updated, found the reduction {name:?}")
        }
        Some(Reduction::Mean) if dtype.is_some_and(DType::is_integer) => {
            "the reduction \"mean\" is for float dtypes only".to_owned()
        }
        Some(_) => return Ok(()),
    };
    Err(infer.reject(constraint, message))
}

fn infer_elements(infer: &mut Infer) -> Result<Annotation, Reject> {
    let (mut data, indices) = (infer.tensor("data")?, infer.tensor("indices")?);
    let updates = infer.tensor("updates")?;
    require_indices(infer, "indices")?;
    data.dtype = infer.same_dtype("C1", &["data", "updates"])?;
    require_reduction(infer, "C6", &["update", "add", "mul", "mean", "max", "min"], data.dtype)?;
    let what = "`indices` and `updates`";
    let written = infer.require_same_shape("C5", &indices.extents, &updates.extents, what)?;
    require_elementwise(infer, &data.extents, &written)?;
    if let (Extents::Unknown, Some(rank)) = (&data.extents, written.rank()) {
        data.extents = Extents::Rank(rank);
    }
    Ok(Annotation::Tensor(data))
}

fn eval_elements(eval: &Eval) -> Result<Value, Stop> {
    let data = eval.tensor_as_it_is("data");
    let positions = element_positions(eval, data, Negative::FromEnd)?;
    written(eval, data, &positions)
}

fn infer_nd(infer: &mut Infer) -> Result<Annotation, Reject> {
    let (mut data, indices) = (infer.tensor("data")?, infer.tensor("indices")?);
    let updates = infer.tensor("updates")?;
    require_indices(infer, "indices")?;
    data.dtype = infer.same_dtype("C1", &["data", "updates"])?;
    require_reduction(infer, "C5", &["update", "add", "mul", "max", "min"], data.dtype)?;
    if indices.extents.rank() == Some(0) {
        return Err(infer.reject("C2", "`indices` must have rank at least 1, found a scalar"));
    }
    let Some((last, lead)) = indices.extents.dims().and_then(<[Dim]>::split_last) else {
        return Ok(Annotation::Tensor(data));
    };
    let count = last.as_int().and_then(|count| usize::try_from(count).ok());
    let (Some(count), Some(rank)) = (count, data.extents.rank()) else {
        return Ok(Annotation::Tensor(data));
    };
    if count > rank {
        let message =
            format!("the last dim {count} of `indices` exceeds the rank {rank} of `data`");
        return Err(infer.reject("C2", message));
    }
    let expected = data.extents.dims().map_or_else(
        || Extents::Rank(lead.len() + rank - count),
        |dims| Extents::Known([lead, &dims[count..]].concat()),
    );
    let what = "the indexed part of `data` and `updates`";
    infer.require_same_shape("C3", &expected, &updates.extents, what)?;
    Ok(Annotation::Tensor(data))
}

fn eval_nd(eval: &Eval) -> Result<Value, Stop> {
    let data = eval.tensor_as_it_is("data");
    let (bases, inner) = tuple_bases(eval, "C4", data, 0)?;
    written(eval, data, &with_inner(&bases, inner))
}

/// The updates written at `positions`; what a reduction reads must be defined.
fn written(eval: &Eval, data: &Tensor, positions: &[usize]) -> Result<Value, Stop> {
    let reduction = Reduction::parse(&eval.str("reduction"))
        .expect("invariant: infer has checked the reduction");
    if reduction != Reduction::Update {
        eval.tensor("data")?;
        eval.tensor("updates")?;
    }
    let updates = eval.tensor_as_it_is("updates");
    Ok(Value::Tensor(update(data, positions, updates, reduction)))
}
