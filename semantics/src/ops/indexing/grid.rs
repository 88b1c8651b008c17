//! `meshgrid`.

use crate::ops::{Effect, Eval, Evaluate, Family, Infer, Kind, Literal, Operator, Reject, Traps};
use crate::ops::{Programs, programs};
use crate::ops::{constraint, optional, required};
use crate::stop::Stop;
use crate::tensor::strided_positions;
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

pub(super) const MESHGRID: Operator = Operator {
    name: "meshgrid",
    aliases: &[],
    family: Family::Indexing,
    doc: "For vectors (a scalar counts as a vector of one element) a tuple of as many grids with a \
          dim for each: grid i holds vector i along dim i and repeats it along the others. With \
          indexing \"xy\" the first two dims are exchanged in all grids, as in NumPy (TVM deduces \
          them unexchanged).",
    params: &[
        required("tensors", Kind::Tensors),
        optional("indexing", Kind::OptionalStr, Literal::Str("ij")),
    ],
    constraints: &[
        constraint("C1", "there is at least one tensor, and each has rank 0 or 1"),
        constraint("C2", "all tensors have the same dtype"),
        constraint("C3", "indexing is \"ij\" or \"xy\""),
    ],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer,
    program: Programs::Of(programs::join::meshgrid),
    eval: Evaluate::Values(eval),
};

fn exchanges(infer: &Infer) -> Result<bool, Reject> {
    if infer.is_none("indexing") {
        return Ok(false);
    }
    match &*infer.str("indexing")? {
        "ij" => Ok(false),
        "xy" => Ok(true),
        other => {
            let message = format!("`indexing` must be \"ij\" or \"xy\", found {other:?}");
            Err(infer.reject("C3", message))
        }
    }
}

/// The axis along which grid `index` varies.
fn own_axis(index: usize, count: usize, exchanged: bool) -> usize {
    if exchanged && count > 1 && index < 2 { 1 - index } else { index }
}

fn infer(infer: &mut Infer) -> Result<Annotation, Reject> {
    let exchanged = exchanges(infer)?;
    let Some(tensors) = infer.tensors("tensors")? else { return Ok(Annotation::Object) };
    if tensors.is_empty() {
        return Err(infer.reject("C1", "there must be at least one tensor"));
    }
    let dtype = common_dtype(infer, &tensors)?;
    let count = tensors.len();
    let mut dims: Vec<Option<Dim>> = vec![None; count];
    for (index, tensor) in tensors.iter().enumerate() {
        if let Some(rank) = tensor.extents.rank().filter(|&rank| rank > 1) {
            let message = format!("tensor {index} must have rank 0 or 1, found rank {rank}");
            return Err(infer.reject("C1", message));
        }
        dims[own_axis(index, count, exchanged)] =
            tensor.extents.dims().map(|dims| dims.first().cloned().unwrap_or(Dim::Int(1)));
    }
    let known: Option<Vec<Dim>> = dims.into_iter().collect();
    let extents = known.map_or(Extents::Rank(count), Extents::Known);
    Ok(Annotation::Tuple(vec![Annotation::Tensor(TensorType { extents, dtype }); count]))
}

fn common_dtype(infer: &Infer, tensors: &[TensorType]) -> Result<Option<DType>, Reject> {
    let mut dtypes = tensors.iter().filter_map(|tensor| tensor.dtype);
    let first = dtypes.next();
    match dtypes.find(|&dtype| Some(dtype) != first) {
        Some(other) => {
            let first = first.expect("invariant: there is another one after it");
            let message =
                format!("all tensors must have the same dtype, found {first} and {other}");
            Err(infer.reject("C2", message))
        }
        None => Ok(first),
    }
}

fn eval(eval: &Eval) -> Result<Value, Stop> {
    let tensors = eval.tensors("tensors")?;
    let exchanged = matches!(eval.value("indexing"), Value::Str(name) if &**name == "xy");
    let (_, shape) = eval.out_field(0)?;
    let grids = tensors.iter().enumerate().map(|(index, tensor)| {
        let mut steps = vec![0; shape.len()];
        steps[own_axis(index, tensors.len(), exchanged)] = 1;
        let positions =
            if shape.contains(&0) { Vec::new() } else { strided_positions(&shape, &steps) };
        Value::Tensor(tensor.select(&shape, &positions))
    });
    Ok(Value::Tuple(grids.collect()))
}
