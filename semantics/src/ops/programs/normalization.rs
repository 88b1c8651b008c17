//! Normalizations: statistics over groups of elements in nests of their own, then one nest over the
//! result. All in f64, rounded once.

use super::Request;
use super::builder::{Buffer, Builder};
use super::movement::moved;
use super::reduction::{Axes, summed};
use super::total::{Total, count};
use crate::formula::Scalar;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::Intrinsic;

/// `softmax` and `log_softmax`
pub(in crate::ops) fn softmax(request: &Request) -> Option<Builder> {
    let is_log = request.row.name == "nn.log_softmax";
    let rank = request.data()?.rank();
    let axis = request.axis("axis", rank)?;
    let axes = Axes::over(rank, &[axis], false);
    let mut builder = Builder::new(request);
    let (data, output) = (builder.input("data")?, builder.output());
    let lanes = Lanes::of(&mut builder, &axes, &data.dims, data.dtype);
    lanes.write(&mut builder, |at| data.wide(at));
    builder.fill(&output, |at| {
        let lane = axes.outer(at);
        let shifted = data.wide(at) - lanes.most.at(&lane);
        let total = lanes.total.value(&lane);
        let value =
            if is_log { shifted - total.call(Intrinsic::Log) } else { shifted.exp() / total };
        value.cast(DType::F64, output.dtype)
    });
    Some(builder)
}

/// What softmax needs of each lane: its maximum, and the sum of the exponentials of what is left.
pub(super) struct Lanes<'a> {
    axes: &'a Axes,
    dims: Vec<Dim>,
    pub(super) most: Buffer,
    pub(super) total: Total,
}

impl<'a> Lanes<'a> {
    /// Of a tensor of these dims; sums are those of `dtype`.
    pub(super) fn of(builder: &mut Builder, axes: &'a Axes, dims: &[Dim], dtype: DType) -> Self {
        let outer = axes.outer(dims);
        let most = builder.allocate("M", &outer, DType::F64);
        let total = Total::new(builder, "T", &outer, dtype);
        Self { axes, dims: dims.to_vec(), most, total }
    }

    /// A NaN makes the maximum NaN, and with it the whole lane, as it does in operators by the sum.
    pub(super) fn write(&self, builder: &mut Builder, value: impl Fn(&[Scalar]) -> Scalar) {
        let inner = self.axes.inner(&self.dims);
        builder.nest(&self.most.dims, |builder, lane| {
            builder.store(&self.most, lane, f64::NEG_INFINITY);
            builder.nest(&inner, |builder, along| {
                let next = value(&self.axes.source(lane, along));
                builder.store(&self.most, lane, self.most.at(lane).max(next));
            });
        });
        builder.nest(&self.most.dims, |builder, lane| {
            summed(builder, &self.total, lane, &inner, |along| {
                (value(&self.axes.source(lane, along)) - self.most.at(lane)).exp()
            });
        });
    }
}

/// The mean of a value over each group.
fn means(
    builder: &mut Builder,
    name: &str,
    (outer, inner): (&[Dim], &[Dim]),
    dtype: DType,
    value: impl FnOnce(&[Scalar], &[Scalar]) -> Scalar,
) -> Buffer {
    let total = Total::new(builder, &format!("{name}_sum"), outer, dtype);
    let mean = builder.allocate(name, outer, DType::F64);
    builder.nest(outer, |builder, group| {
        summed(builder, &total, group, inner, |along| value(group, along));
        builder.store(&mean, group, total.value(group) / count(inner));
    });
    mean
}

/// Mean and variance of each group, whose elements `element` gives.
fn moments(
    builder: &mut Builder,
    dims: (&[Dim], &[Dim]),
    dtype: DType,
    element: impl Fn(&[Scalar], &[Scalar]) -> Scalar,
) -> [Buffer; 2] {
    let mean = means(builder, "M", dims, dtype, &element);
    let variance = means(builder, "V", dims, dtype, |group, along| {
        let distance = element(group, along) - mean.at(group);
        distance.clone() * distance
    });
    [mean, variance]
}

/// Multiplied by `gamma` and moved by `beta`, where the call asks for it.
fn scaled(
    request: &Request,
    builder: &Builder,
    at: &[Scalar],
    mut value: Scalar,
) -> Option<Scalar> {
    if request.bool("scale")? {
        value = value * builder.input("gamma")?.wide(at);
    }
    if request.bool("center")? {
        value = value + builder.input("beta")?.wide(at);
    }
    Some(value)
}

/// `layer_norm` and `rms_norm`
pub(in crate::ops) fn over_axes(request: &Request) -> Option<Builder> {
    let rank = request.data()?.rank();
    let positions = request.axes("axes", rank)??;
    let epsilon = request.float("epsilon")?;
    let axes = Axes::over(rank, &positions, false);
    let mut builder = Builder::new(request);
    let (data, output) = (builder.input("data")?, builder.output());
    let (outer, inner) = (axes.outer(&data.dims), axes.inner(&data.dims));
    let element = |group: &[Scalar], along: &[Scalar]| data.wide(&axes.source(group, along));
    let statistics = if request.row.name == "nn.rms_norm" {
        let square = |group: &[Scalar], along: &[Scalar]| {
            let x = element(group, along);
            x.clone() * x
        };
        [None, Some(means(&mut builder, "V", (&outer, &inner), data.dtype, square))]
    } else {
        moments(&mut builder, (&outer, &inner), data.dtype, element).map(Some)
    };
    let [mean, variance] = statistics;
    write(&mut builder, &output, |builder, at| {
        let group = axes.outer(at);
        let own: Vec<Scalar> = positions.iter().map(|&axis| at[axis].clone()).collect();
        let x = data.wide(at);
        let x = mean.as_ref().map_or(x.clone(), |mean| x - mean.at(&group));
        let x = x / (variance.as_ref()?.at(&group) + epsilon).sqrt();
        if mean.is_some() {
            return scaled(request, builder, &own, x);
        }
        Some(match builder.input("weight") {
            Some(weight) => x * weight.wide(&own),
            None => x,
        })
    })?;
    Some(builder)
}

/// One store for each element of the result, of a value in f64 that may not be known.
fn write(
    builder: &mut Builder,
    output: &Buffer,
    value: impl FnOnce(&Builder, &[Scalar]) -> Option<Scalar>,
) -> Option<()> {
    let mut is_known = false;
    builder.nest(&output.dims, |builder, at| {
        if let Some(value) = value(builder, at) {
            is_known = true;
            builder.store(output, at, value.cast(DType::F64, output.dtype));
        }
    });
    is_known.then_some(())
}

/// `group_norm` and `instance_norm`: groups are runs of channels, or single ones.
pub(in crate::ops) fn by_channel(request: &Request) -> Option<Builder> {
    let rank = request.data()?.rank();
    let channel = request.axis("channel_axis", rank)?;
    let reduced = request.axes("axes", rank)??;
    let epsilon = request.float("epsilon")?;
    let axes = Axes::over(rank, &reduced, false);
    let mut builder = Builder::new(request);
    let (data, output) = (builder.input("data")?, builder.output());
    let (mut outer, mut inner) = (axes.outer(&data.dims), axes.inner(&data.dims));
    // Where the channel stands among what is not reduced.
    let place = (0..channel).filter(|axis| !reduced.contains(axis)).count();
    let mut run = Scalar::from(1);
    if request.row.name == "nn.group_norm" {
        let groups = request.int("num_groups")?;
        let length = Dim::op(DimOp::FloorDiv, data.dims[channel].clone(), Dim::Int(groups));
        run = (&length).into();
        outer[place] = Dim::Int(groups);
        inner.push(length);
    }
    let is_run = inner.len() > reduced.len();
    let element = |group: &[Scalar], along: &[Scalar]| {
        let (mut kept, mut along) = (group.to_vec(), along.to_vec());
        if is_run {
            let within = along.pop().unwrap_or(0.into());
            kept[place] = kept[place].clone() * &run + within;
        }
        data.wide(&axes.source(&kept, &along))
    };
    let [mean, variance] = moments(&mut builder, (&outer, &inner), data.dtype, element);
    write(&mut builder, &output, |builder, at| {
        let mut group = axes.outer(at);
        group[place] = group[place].clone().floor_div(&run);
        let x = data.wide(at) - mean.at(&group);
        let x = x / (variance.at(&group) + epsilon).sqrt();
        scaled(request, builder, &at[channel..=channel], x)
    })?;
    Some(builder)
}

/// `batch_norm`: by the statistics of the data in training, else by the running ones.
pub(in crate::ops) fn batch_norm(request: &Request) -> Option<Builder> {
    let rank = request.data()?.rank();
    let channel = request.axis("axis", rank)?;
    let (epsilon, momentum) = (request.float("epsilon")?, request.float("momentum")?);
    let training = request.bool("training")?;
    let reduced: Vec<usize> = (0..rank).filter(|&axis| axis != channel).collect();
    let axes = Axes::over(rank, &reduced, false);
    let mut builder = Builder::new(request);
    let data = builder.input("data")?;
    let running = [builder.input("moving_mean")?, builder.input("moving_var")?];
    let outputs = builder.outputs.clone();
    let statistics = if training {
        let dims = (axes.outer(&data.dims), axes.inner(&data.dims));
        moments(&mut builder, (&dims.0, &dims.1), data.dtype, |group, along| {
            data.wide(&axes.source(group, along))
        })
    } else {
        running.clone()
    };
    write(&mut builder, &outputs[0], |builder, at| {
        let own = &at[channel..=channel];
        let x = data.wide(at) - statistics[0].wide(own);
        let x = x / (statistics[1].wide(own) + epsilon).sqrt();
        scaled(request, builder, own, x)
    })?;
    for ((output, running), new) in outputs[1..].iter().zip(&running).zip(&statistics) {
        if training {
            builder.fill(output, |at| {
                let old = Scalar::from(1.0 - momentum) * running.wide(at);
                (old + Scalar::from(momentum) * new.at(at)).cast(DType::F64, output.dtype)
            });
        } else {
            moved(&mut builder, running, output);
        }
    }
    Some(builder)
}
