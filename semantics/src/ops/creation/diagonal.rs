//! What depends on the distance of an element from the main diagonal.

use crate::ops::dims::tensor;
use crate::ops::{Eval, Infer, Reject};
use crate::stop::Stop;
use crate::tensor::{Elements, Tensor, array};
use crate::value::Value;
use relax_syntax::annotation::Annotation;

pub(super) fn infer_eye(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.dim("k")?;
    let rows = infer.dim("n")?;
    let columns = if infer.is_none("m") { rows.clone() } else { infer.dim("m")? };
    let dtype = infer.dtype("dtype")?;
    let dims = [rows, columns];
    infer.require_nonnegative("C1", &dims)?;
    Ok(tensor(infer.settled("C1", &dims)?, Some(dtype)))
}

pub(super) fn infer_eye_like(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.dim("k")?;
    let x = infer.tensor("x")?;
    if let Some(rank) = x.extents.rank().filter(|&rank| rank != 2) {
        return Err(infer.reject("C1", format!("`x` must have rank 2, found rank {rank}")));
    }
    let dtype = infer.optional_dtype("dtype")?.or(x.dtype);
    Ok(tensor(x.extents, dtype))
}

pub(super) fn eval_eye(eval: &Eval) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    let k = i128::from(eval.int("k"));
    let values = distances(&shape).map(|distance| i128::from(distance == k)).collect();
    Ok(Value::Tensor(Tensor::from_ints(dtype, array(&shape, values))))
}

pub(super) fn infer_triangle(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.dim("k")?;
    let x = infer.tensor("x")?;
    if let Some(rank) = x.extents.rank().filter(|&rank| rank < 2) {
        let message = format!("`x` must have rank at least 2, found rank {rank}");
        return Err(infer.reject("C1", message));
    }
    Ok(Annotation::Tensor(x))
}

/// Elements outside the triangle become 0, which is defined even where they were not.
pub(super) fn eval_triangle(eval: &Eval, keeps: fn(i128, i128) -> bool) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    let x = eval.tensor_as_it_is("x");
    let k = i128::from(eval.int("k"));
    let kept: Vec<bool> = distances(&shape).map(|distance| keeps(distance, k)).collect();
    let elements = match x.elements() {
        Elements::Float(mut values) => {
            values.iter_mut().zip(&kept).filter(|(_, kept)| !**kept).for_each(|(v, _)| *v = 0.0);
            Elements::Float(values)
        }
        Elements::Int(mut values) => {
            values.iter_mut().zip(&kept).filter(|(_, kept)| !**kept).for_each(|(v, _)| *v = 0);
            Elements::Int(values)
        }
    };
    let undefined = x.undefined_elements().unwrap_or_default();
    let still = undefined.iter().zip(&kept).map(|(&undefined, &kept)| undefined && kept);
    Ok(Value::Tensor(Tensor::from_elements(dtype, elements).with_undefined(still.collect())))
}

/// Column minus row of every element of the matrices of the last two dims, in row-major order.
fn distances(shape: &[usize]) -> impl Iterator<Item = i128> {
    let (rows, columns) = (shape[shape.len() - 2] as i128, shape[shape.len() - 1] as i128);
    let matrices: usize = shape[..shape.len() - 2].iter().product();
    let total = if rows * columns == 0 { 0 } else { matrices };
    (0..total).flat_map(move |_| {
        (0..rows).flat_map(move |row| (0..columns).map(move |column| column - row))
    })
}
