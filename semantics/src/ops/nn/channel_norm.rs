//! Normalization with one scale and shift a channel: group, instance and batch norm.

use super::statistics::{Groups, scale_and_shift};
use super::{DATA, dims_at};
use crate::ops::{Effect, Eval, Evaluate, Family, Infer, Literal, Operator, Param, Reject, Traps};
use crate::ops::{Kind, constraint, normalize_axis, optional, required};
use crate::ops::{Programs, programs};
use crate::stop::Stop;
use crate::tensor::{Tensor, array};
use crate::value::Value;
use ndarray::ArrayD;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};

const GAMMA: Param = required("gamma", Kind::Tensor);
const BETA: Param = required("beta", Kind::Tensor);
const EPSILON: Param = optional("epsilon", Kind::Float, Literal::Float(1e-5));
const CENTER: Param = optional("center", Kind::Bool, Literal::Bool(true));
const SCALE: Param = optional("scale", Kind::Bool, Literal::Bool(true));
const SAME_FLOAT: crate::ops::Constraint =
    constraint("C1", "data and the parameters have the same dtype, a float one");
const ONE_A_CHANNEL: crate::ops::Constraint =
    constraint("C3", "the parameters have rank 1 and as many elements as data has channels");
const AXES_IN_RANGE: crate::ops::Constraint =
    constraint("C2", "channel_axis and axes are axes of data, none twice");

pub(super) const GROUP_NORM: Operator = Operator {
    name: "nn.group_norm",
    aliases: &[],
    family: Family::Nn,
    doc: "The channels are cut into `num_groups` runs of equal length; within each run and over \
          `axes`, `(x - mean) / sqrt(variance + epsilon) * gamma + beta`, with gamma and beta by \
          channel. Without `scale` gamma is not used, without `center` beta is not.",
    params: &[
        DATA,
        GAMMA,
        BETA,
        required("num_groups", Kind::Dim),
        required("channel_axis", Kind::Dim),
        required("axes", Kind::Dims),
        EPSILON,
        CENTER,
        SCALE,
    ],
    constraints: &[
        SAME_FLOAT,
        AXES_IN_RANGE,
        ONE_A_CHANNEL,
        constraint("C4", "num_groups is at least 1 and divides the number of channels"),
    ],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer: infer_group_norm,
    program: Programs::Of(programs::normalization::by_channel),
    eval: Evaluate::Values(group_norm),
};

pub(super) const INSTANCE_NORM: Operator = Operator {
    name: "nn.instance_norm",
    aliases: &[],
    family: Family::Nn,
    doc: "`(x - mean) / sqrt(variance + epsilon) * gamma + beta`, mean and variance (of the \
          population) taken over `axes`, gamma and beta by channel. Without `scale` gamma is not \
          used, without `center` beta is not.",
    params: &[
        DATA,
        GAMMA,
        BETA,
        required("channel_axis", Kind::Dim),
        required("axes", Kind::Dims),
        EPSILON,
        CENTER,
        SCALE,
    ],
    constraints: &[SAME_FLOAT, AXES_IN_RANGE, ONE_A_CHANNEL],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer: infer_instance_norm,
    program: Programs::Of(programs::normalization::by_channel),
    eval: Evaluate::Values(instance_norm),
};

pub(super) const BATCH_NORM: Operator = Operator {
    name: "nn.batch_norm",
    aliases: &[],
    family: Family::Nn,
    doc: "`(x - mean) / sqrt(variance + epsilon) * gamma + beta` by channel, and the two running \
          statistics. In training, which is TVM's default, mean and variance (of the population) \
          are those of data over all other axes, and a running statistic becomes \
          `(1 - momentum) * running + momentum * new`; else they are the running ones, returned as \
          they are.",
    params: &[
        DATA,
        GAMMA,
        BETA,
        required("moving_mean", Kind::Tensor),
        required("moving_var", Kind::Tensor),
        required("axis", Kind::Dim),
        EPSILON,
        CENTER,
        SCALE,
        optional("momentum", Kind::Float, Literal::Float(0.1)),
        optional("training", Kind::Bool, Literal::Bool(true)),
    ],
    constraints: &[
        SAME_FLOAT,
        constraint("C2", "axis is an axis of data"),
        ONE_A_CHANNEL,
        constraint("C4", "momentum is between 0 and 1"),
    ],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer: infer_batch_norm,
    program: Programs::Of(programs::normalization::batch_norm),
    eval: Evaluate::Values(batch_norm),
};

/// The type of data and the number of its channels, where known, when the parameters fit it.
fn infer_channels(
    infer: &mut Infer,
    axis: &str,
    parameters: &[&'static str],
) -> Result<(TensorType, Option<Dim>), Reject> {
    let dtype = infer.same_dtype("C1", &[&["data"], parameters].concat())?;
    infer.require_dtype("C1", "data", DType::is_float)?;
    for parameter in parameters {
        infer.require_dtype("C1", parameter, DType::is_float)?;
    }
    infer.float("epsilon")?;
    infer.bool("center")?;
    infer.bool("scale")?;
    let (axis, data) = (infer.int(axis)?, infer.tensor("data")?.extents);
    let mut channels = Extents::Rank(1);
    if let Some(rank) = data.rank() {
        let axis = infer.axis("C2", axis, rank)?;
        channels = dims_at(&data, &[axis]).map_or(channels, Extents::Known);
    }
    for parameter in parameters {
        let found = infer.tensor(parameter)?.extents;
        let what = format!("`{parameter}` and the channels of `data`");
        channels = infer.require_same_shape("C3", &channels, &found, &what)?;
    }
    let count = channels.dims().map(|dims| dims[0].clone());
    Ok((TensorType { extents: data, dtype }, count))
}

/// As above, for the rows with `channel_axis` and `axes`.
fn infer_with_axes(infer: &mut Infer) -> Result<(TensorType, Option<Dim>), Reject> {
    let (data, channels) = infer_channels(infer, "channel_axis", &["gamma", "beta"])?;
    let mut axes = infer.ints("axes")?;
    axes.push(infer.int("channel_axis")?);
    if let Some(rank) = data.extents.rank() {
        infer.axes("C2", &axes, rank)?;
    }
    Ok((data, channels))
}

fn infer_group_norm(infer: &mut Infer) -> Result<Annotation, Reject> {
    let (data, channels) = infer_with_axes(infer)?;
    let groups = infer.int("num_groups")?;
    if groups < 1 {
        return Err(infer.reject("C4", format!("`num_groups` must be at least 1, found {groups}")));
    }
    if let Some(channels) = channels {
        let claim = Claim::new(groups, Relation::Divides, channels.clone());
        infer.require("C4", claim, || format!("{channels} channels can't be cut into {groups}"))?;
    }
    Ok(Annotation::Tensor(data))
}

fn infer_instance_norm(infer: &mut Infer) -> Result<Annotation, Reject> {
    Ok(Annotation::Tensor(infer_with_axes(infer)?.0))
}

fn infer_batch_norm(infer: &mut Infer) -> Result<Annotation, Reject> {
    let parameters = ["gamma", "beta", "moving_mean", "moving_var"];
    let (data, channels) = infer_channels(infer, "axis", &parameters)?;
    infer.bool("training")?;
    let momentum = infer.float("momentum")?;
    if !(0.0..=1.0).contains(&momentum) {
        let message = format!("`momentum` must be between 0 and 1, found {momentum:?}");
        return Err(infer.reject("C4", message));
    }
    let extents = channels.map_or(Extents::Rank(1), |count| Extents::Known(vec![count]));
    let running = Annotation::Tensor(TensorType { extents, dtype: data.dtype });
    Ok(Annotation::Tuple(vec![Annotation::Tensor(data), running.clone(), running]))
}

fn axis_of(data: &Tensor, axis: i64) -> usize {
    normalize_axis(axis, data.rank()).expect("invariant: infer checked that it is an axis")
}

fn floats(tensor: &Tensor) -> Vec<f64> {
    tensor.to_floats().into_raw_vec_and_offset().0
}

fn group_norm(eval: &Eval) -> Result<Value, Stop> {
    let data = eval.tensor("data")?;
    let channel = axis_of(data, eval.int("channel_axis"));
    let count = usize::try_from(eval.int("num_groups")).expect("invariant: infer checked C4");
    // The channels as two axes: the runs, and what is in a run.
    let mut split = data.shape().to_vec();
    split[channel] /= count;
    split.insert(channel, count);
    let moved = |axis: usize| if axis > channel { axis + 1 } else { axis };
    let mut reduced: Vec<usize> =
        eval.ints("axes").iter().map(|&axis| moved(axis_of(data, axis))).collect();
    reduced.push(channel + 1);
    normalized(eval, data, channel, &Groups::along(&split, |axis| reduced.contains(&axis)))
}

fn instance_norm(eval: &Eval) -> Result<Value, Stop> {
    let data = eval.tensor("data")?;
    let channel = axis_of(data, eval.int("channel_axis"));
    let reduced: Vec<usize> = eval.ints("axes").iter().map(|&axis| axis_of(data, axis)).collect();
    normalized(eval, data, channel, &Groups::along(data.shape(), |axis| reduced.contains(&axis)))
}

fn normalized(eval: &Eval, data: &Tensor, channel: usize, groups: &Groups) -> Result<Value, Stop> {
    let mut values = floats(data);
    if values.is_empty() {
        return Ok(Value::Tensor(data.clone()));
    }
    let moments = groups.moments(&values);
    groups.normalize(&mut values, &moments, eval.float("epsilon"));
    scale_and_shift(eval, &mut values, data.shape(), &[channel])?;
    eval.floats(data.dtype(), array(data.shape(), values))
}

fn batch_norm(eval: &Eval) -> Result<Value, Stop> {
    let data = eval.tensor("data")?;
    let (mean, variance) = (eval.tensor("moving_mean")?, eval.tensor("moving_var")?);
    let channel = axis_of(data, eval.int("axis"));
    let groups = Groups::along(data.shape(), |axis| axis != channel);
    let mut values = floats(data);
    let training = eval.bool("training");
    let moments = if training { groups.moments(&values) } else { (floats(mean), floats(variance)) };
    groups.normalize(&mut values, &moments, eval.float("epsilon"));
    scale_and_shift(eval, &mut values, data.shape(), &[channel])?;
    let result = Tensor::from_floats(data.dtype(), array(data.shape(), values));
    let running = if training {
        let momentum = eval.float("momentum");
        [updated(mean, moments.0, momentum), updated(variance, moments.1, momentum)]
    } else {
        [mean.clone(), variance.clone()]
    };
    Ok(Value::Tuple([result].into_iter().chain(running).map(Value::Tensor).collect()))
}

/// The running statistic moved towards the new one.
fn updated(running: &Tensor, new: Vec<f64>, momentum: f64) -> Tensor {
    let mixed = floats(running).into_iter().zip(new);
    let mixed = mixed.map(|(old, new)| (1.0 - momentum) * old + momentum * new);
    Tensor::from_floats(
        running.dtype(),
        ArrayD::from_shape_vec(running.shape(), mixed.collect())
            .expect("invariant: infer checked C3"),
    )
}
