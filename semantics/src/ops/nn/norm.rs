//! Normalization over given axes: layer norm and RMS norm.

use super::statistics::{Groups, positions_along, scale_and_shift};
use super::{DATA, dims_at};
use crate::ops::{Effect, Eval, Evaluate, Family, Infer, Literal, Operator, Reject, Traps};
use crate::ops::{Kind, constraint, normalize_axis, optional, required};
use crate::ops::{Programs, programs};
use crate::stop::Stop;
use crate::tensor::{Tensor, array};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dtype::DType;

const AXES_IN_RANGE: crate::ops::Constraint = constraint("C2", "axes are axes of data, none twice");

pub(super) const LAYER_NORM: Operator = Operator {
    name: "nn.layer_norm",
    aliases: &[],
    family: Family::Nn,
    doc: "`(x - mean) / sqrt(variance + epsilon) * gamma + beta`, mean and variance (of the \
          population) taken over `axes`. Without `scale` gamma is not used, without `center` beta \
          is not. Dim `i` of gamma and beta is the data's at `axes[i]`.",
    params: &[
        DATA,
        required("gamma", Kind::Tensor),
        required("beta", Kind::Tensor),
        required("axes", Kind::Dims),
        optional("epsilon", Kind::Float, Literal::Float(1e-5)),
        optional("center", Kind::Bool, Literal::Bool(true)),
        optional("scale", Kind::Bool, Literal::Bool(true)),
    ],
    constraints: &[
        constraint("C1", "data, gamma and beta have the same dtype, a float one"),
        AXES_IN_RANGE,
        constraint("C3", "gamma and beta have the shape of data at axes"),
    ],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer: infer_layer_norm,
    program: Programs::Of(programs::normalization::over_axes),
    eval: Evaluate::Values(layer_norm),
};

pub(super) const RMS_NORM: Operator = Operator {
    name: "nn.rms_norm",
    aliases: &[],
    family: Family::Nn,
    doc: "`x / sqrt(mean(x * x) + epsilon) * weight`, the mean taken over `axes`. Without a weight \
          (in TVM it must be there) nothing is multiplied. Dim `i` of weight is the data's at \
          `axes[i]`.",
    params: &[
        DATA,
        optional("weight", Kind::OptionalTensor, Literal::None),
        optional("axes", Kind::Dims, Literal::Int(-1)),
        optional("epsilon", Kind::Float, Literal::Float(1e-5)),
    ],
    constraints: &[
        constraint("C1", "data and weight have the same dtype, a float one"),
        AXES_IN_RANGE,
        constraint("C3", "weight has the shape of data at axes"),
    ],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer: infer_rms_norm,
    program: Programs::Of(programs::normalization::over_axes),
    eval: Evaluate::Values(rms_norm),
};

fn infer_layer_norm(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.bool("center")?;
    infer.bool("scale")?;
    infer_with(infer, &["gamma", "beta"])
}

fn infer_rms_norm(infer: &mut Infer) -> Result<Annotation, Reject> {
    let weight: &[_] = if infer.is_none("weight") { &[] } else { &["weight"] };
    infer_with(infer, weight)
}

/// The type of data, when `parameters` fit it along `axes`.
fn infer_with(infer: &mut Infer, parameters: &[&'static str]) -> Result<Annotation, Reject> {
    let dtype = infer.same_dtype("C1", &[&["data"], parameters].concat())?;
    infer.require_dtype("C1", "data", DType::is_float)?;
    for parameter in parameters {
        infer.require_dtype("C1", parameter, DType::is_float)?;
    }
    infer.float("epsilon")?;
    let (axes, data) = (infer.ints("axes")?, infer.tensor("data")?.extents);
    let mut expected = Extents::Rank(axes.len());
    if let Some(rank) = data.rank() {
        infer.axes("C2", &axes, rank)?;
        if let Some(dims) = dims_at(&data, &positions(&axes, rank)) {
            expected = Extents::Known(dims);
        }
    }
    for parameter in parameters {
        let found = infer.tensor(parameter)?.extents;
        let what = format!("`{parameter}` and `data` along `axes`");
        infer.require_same_shape("C3", &found, &expected, &what)?;
    }
    Ok(Annotation::Tensor(TensorType { extents: data, dtype }))
}

/// Axes as positions, in the order given.
fn positions(axes: &[i64], rank: usize) -> Vec<usize> {
    axes.iter().filter_map(|&axis| normalize_axis(axis, rank)).collect()
}

/// Data as f64, its axes to normalize over, and the groups that they make.
struct Input<'a> {
    data: &'a Tensor,
    values: Vec<f64>,
    axes: Vec<usize>,
    groups: Groups,
}

fn prepare<'a>(eval: &'a Eval) -> Result<Input<'a>, Stop> {
    let data = eval.tensor("data")?;
    let axes = positions(&eval.ints("axes"), data.rank());
    let groups = Groups::along(data.shape(), |axis| axes.contains(&axis));
    Ok(Input { data, values: data.to_floats().into_raw_vec_and_offset().0, axes, groups })
}

fn layer_norm(eval: &Eval) -> Result<Value, Stop> {
    if eval.tensor_as_it_is("data").is_empty() {
        return Ok(eval.value("data").clone());
    }
    let Input { data, mut values, axes, groups } = prepare(eval)?;
    let moments = groups.moments(&values);
    groups.normalize(&mut values, &moments, eval.float("epsilon"));
    scale_and_shift(eval, &mut values, data.shape(), &axes)?;
    eval.floats(data.dtype(), array(data.shape(), values))
}

fn rms_norm(eval: &Eval) -> Result<Value, Stop> {
    if eval.tensor_as_it_is("data").is_empty() {
        return Ok(eval.value("data").clone());
    }
    let Input { data, mut values, axes, groups } = prepare(eval)?;
    let epsilon = eval.float("epsilon");
    let squares = groups.means(&values, |x, _| x * x);
    groups.map(&mut values, |x, group| x / (squares[group] + epsilon).sqrt());
    if let Some(weight) = eval.optional_tensor("weight")? {
        let weight = weight.to_floats().into_raw_vec_and_offset().0;
        let positions = positions_along(data.shape(), &axes);
        values.iter_mut().zip(positions).for_each(|(x, at)| *x *= weight[at]);
    }
    eval.floats(data.dtype(), array(data.shape(), values))
}
