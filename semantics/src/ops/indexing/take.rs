//! `take`.

use super::addresses::{Negative, require_indices, resolve};
use crate::ops::{Effect, Eval, Evaluate, Family, Infer, Kind, Literal, Operator, Reject, Traps};
use crate::ops::{Programs, programs};
use crate::ops::{constraint, normalize_axis, optional, required};
use crate::stop::Stop;
use crate::tensor::{Tensor, array};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dtype::DType;

pub(super) const TAKE: Operator = Operator {
    name: "take",
    aliases: &[],
    family: Family::Indexing,
    doc: "The slices of `x` along `axis` at `indices`, whose dims stand in the place of that axis; \
          x must be of rank 1 when there is no axis. An index out of range is a trap in the mode \
          \"fast\" (TVM reads whatever is there), and so is a negative one: unlike in NumPy it does \
          not count from the end. \"clip\" takes the nearest index, \"wrap\" the index modulo the \
          extent, \"nan\" gives NaN, negative indices included, as in TVM.",
    params: &[
        required("x", Kind::Tensor),
        required("indices", Kind::Tensor),
        optional("axis", Kind::OptionalDim, Literal::None),
        optional("mode", Kind::Str, Literal::Str("fast")),
    ],
    constraints: &[
        constraint("C1", "indices has an integer dtype"),
        constraint("C2", "axis is in range for x, which has rank 1 when axis is None"),
        constraint(
            "C3",
            "mode is \"fast\", \"clip\", \"wrap\" or \"nan\", the last for floats only",
        ),
        constraint(
            "C4",
            "every index is in range; clip and wrap need only an axis that is not empty",
        ),
    ],
    effect: Effect::Pure,
    traps: Traps::OnElements,
    infer,
    program: Programs::Of(programs::indexing::take),
    eval: Evaluate::Values(eval),
};

fn infer(infer: &mut Infer) -> Result<Annotation, Reject> {
    let (x, indices) = (infer.tensor("x")?, infer.tensor("indices")?);
    require_indices(infer, "indices")?;
    check_mode(infer, x.dtype)?;
    let extents = if infer.is_none("axis") {
        if let Some(rank) = x.extents.rank().filter(|&rank| rank != 1) {
            let message = format!("`axis` may be left out for rank 1 only, found rank {rank}");
            return Err(infer.reject("C2", message));
        }
        indices.extents
    } else {
        let axis = infer.int("axis")?;
        let rank = x.extents.rank();
        let axis = rank.map(|rank| infer.axis("C2", axis, rank)).transpose()?;
        axis.map_or(Extents::Unknown, |axis| replaced(&x.extents, axis, &indices.extents))
    };
    Ok(Annotation::Tensor(TensorType { extents, dtype: x.dtype }))
}

fn check_mode(infer: &Infer, dtype: Option<DType>) -> Result<(), Reject> {
    match &*infer.str("mode")? {
        "fast" | "clip" | "wrap" => Ok(()),
        "nan" if dtype.is_none_or(DType::is_float) => Ok(()),
        "nan" => Err(infer.reject("C3", "the mode \"nan\" is for float dtypes only")),
        other => {
            let message =
                format!("`mode` must be \"fast\", \"clip\", \"wrap\" or \"nan\", found {other:?}");
            Err(infer.reject("C3", message))
        }
    }
}

/// `extents` with the dim `axis` replaced by all dims of `inserted`.
fn replaced(extents: &Extents, axis: usize, inserted: &Extents) -> Extents {
    match (extents, inserted) {
        (Extents::Known(dims), Extents::Known(new)) => {
            Extents::Known([&dims[..axis], new, &dims[axis + 1..]].concat())
        }
        _ => match (extents.rank(), inserted.rank()) {
            (Some(rank), Some(new)) => Extents::Rank(rank - 1 + new),
            _ => Extents::Unknown,
        },
    }
}

fn eval(eval: &Eval) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    let x = eval.tensor_as_it_is("x");
    let axis = if eval.is_none("axis") { 0 } else { eval.int("axis") };
    let axis = normalize_axis(axis, x.rank()).expect("invariant: infer has checked the axis");
    let n = x.shape()[axis];
    let indices = eval.tensor("indices")?.to_ints();
    let mode = eval.str("mode");
    let picks = indices.iter().map(|&index| pick(eval, &mode, index, n));
    let picks = picks.collect::<Result<Vec<Option<usize>>, Stop>>()?;
    if shape.contains(&0) {
        return Ok(Value::Tensor(x.select(&shape, &[])));
    }
    let outer: usize = x.shape()[..axis].iter().product();
    let inner: usize = x.shape()[axis + 1..].iter().product();
    let at = |outer: usize, pick: Option<usize>, i: usize| {
        pick.map(|pick| (outer * n + pick) * inner + i)
    };
    let picks = &picks;
    let positions = (0..outer)
        .flat_map(|o| picks.iter().flat_map(move |&pick| (0..inner).map(move |i| at(o, pick, i))));
    let inside: Option<Vec<usize>> = positions.clone().collect();
    if let Some(inside) = inside {
        return Ok(Value::Tensor(x.select(&shape, &inside)));
    }
    let floats = eval.tensor("x")?.to_floats();
    let floats = floats.as_slice().expect("invariant: tensors are in row-major order");
    let values = positions.map(|position| position.map_or(f64::NAN, |at| floats[at])).collect();
    Ok(Value::Tensor(Tensor::from_floats(dtype, array(&shape, values))))
}

/// The index that is taken; `None` stands for NaN.
fn pick(eval: &Eval, mode: &str, index: i128, n: usize) -> Result<Option<usize>, Stop> {
    let extent = n as i128;
    let index = match mode {
        "clip" => index.clamp(0, (extent - 1).max(0)),
        "wrap" if n > 0 => index.rem_euclid(extent),
        "nan" if !(0..extent).contains(&index) => return Ok(None),
        _ => index,
    };
    resolve(eval, "C4", index, n, Negative::Refused).map(Some)
}
