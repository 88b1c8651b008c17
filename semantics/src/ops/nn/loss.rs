//! Losses.

use crate::ops::{Effect, Eval, Evaluate, Family, Infer, Literal, Operator, Reject, Traps};
use crate::ops::{Kind, constraint, optional, product, required};
use crate::ops::{Programs, programs};
use crate::stop::Stop;
use crate::tensor::array;
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

pub(super) const CROSS_ENTROPY: Operator = Operator {
    name: "nn.cross_entropy_with_logits",
    aliases: &[],
    family: Family::Nn,
    doc: "`-sum(predictions * labels)`, divided by the first dim where there are two or more. As in \
          TVM, and unlike what the name says, nothing is normalized: the predictions are \
          logarithms of probabilities.",
    params: &[required("predictions", Kind::Tensor), required("labels", Kind::Tensor)],
    constraints: &[
        constraint("C1", "predictions and labels have the same dtype, a float one"),
        constraint("C2", "predictions and labels have the same shape"),
    ],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer: infer_cross_entropy,
    program: Programs::Of(programs::reduction::cross_entropy),
    eval: Evaluate::Values(cross_entropy),
};

pub(super) const NLL_LOSS: Operator = Operator {
    name: "nn.nll_loss",
    aliases: &[],
    family: Family::Nn,
    doc: "Negative log likelihood: `-predictions[n, t, …] * weights[t]` with `t = targets[n, …]`, \
          or 0 where t is `ignore_index`. `reduction` is `none`, `sum`, or `mean`: the sum over the \
          sum of the weights used (NaN if that is 0). Without weights they are 1.",
    params: &[
        required("predictions", Kind::Tensor),
        required("targets", Kind::Tensor),
        optional("weights", Kind::OptionalTensor, Literal::None),
        optional("reduction", Kind::Str, Literal::Str("mean")),
        optional("ignore_index", Kind::Dim, Literal::Int(-100)),
    ],
    constraints: &[
        constraint("C1", "predictions and weights have the same dtype, a float one"),
        constraint("C2", "targets has an integer dtype"),
        constraint("C3", "predictions has the shape (N, C, …) or (C,), and targets (N, …) or ()"),
        constraint("C4", "weights has the shape (C,)"),
        constraint("C5", "reduction is none, sum or mean"),
        constraint("C6", "a target is ignore_index, or at least 0 and less than C"),
    ],
    effect: Effect::Pure,
    traps: Traps::OnElements,
    infer: infer_nll_loss,
    program: Programs::Of(programs::indexing::nll_loss),
    eval: Evaluate::Values(nll_loss),
};

fn infer_cross_entropy(infer: &mut Infer) -> Result<Annotation, Reject> {
    let dtype = infer.same_dtype("C1", &["predictions", "labels"])?;
    infer.require_dtype("C1", "predictions", DType::is_float)?;
    infer.require_dtype("C1", "labels", DType::is_float)?;
    let (a, b) = (infer.tensor("predictions")?.extents, infer.tensor("labels")?.extents);
    infer.require_same_shape("C2", &a, &b, "`predictions` and `labels`")?;
    Ok(Annotation::Tensor(TensorType { extents: Extents::Known(Vec::new()), dtype }))
}

fn cross_entropy(eval: &Eval) -> Result<Value, Stop> {
    let (predictions, labels) = (eval.tensor("predictions")?, eval.tensor("labels")?);
    let products = predictions.to_floats() * labels.to_floats();
    let batch = if predictions.rank() > 1 { predictions.shape()[0] } else { 1 };
    let loss = -product::sum(products) / batch as f64;
    eval.floats(predictions.dtype(), array(&[], vec![loss]))
}

fn infer_nll_loss(infer: &mut Infer) -> Result<Annotation, Reject> {
    let weighted = !infer.is_none("weights");
    let floats: &[_] = if weighted { &["predictions", "weights"] } else { &["predictions"] };
    let dtype = infer.same_dtype("C1", floats)?;
    for param in floats {
        infer.require_dtype("C1", param, DType::is_float)?;
    }
    infer.require_dtype("C2", "targets", DType::is_integer)?;
    infer.int("ignore_index")?;
    let each = require_nll_shapes(infer, weighted)?;
    let reduction = infer.str("reduction")?;
    let extents = match &*reduction {
        "none" => each,
        "sum" | "mean" => Extents::Known(Vec::new()),
        other => {
            let message = format!("`reduction` is none, sum or mean, not {other}");
            return Err(infer.reject("C5", message));
        }
    };
    Ok(Annotation::Tensor(TensorType { extents, dtype }))
}

/// The shape of the targets, as far as all operands tell.
fn require_nll_shapes(infer: &mut Infer, weighted: bool) -> Result<Extents, Reject> {
    let predictions = infer.tensor("predictions")?.extents;
    let targets = infer.tensor("targets")?.extents;
    if predictions.rank() == Some(0) {
        return Err(infer.reject("C3", "`predictions` must have an axis of classes"));
    }
    let without_classes = match predictions.dims() {
        Some(dims) => {
            let mut dims = dims.to_vec();
            dims.remove(class_axis(dims.len()));
            Extents::Known(dims)
        }
        None => predictions.rank().map_or(Extents::Unknown, |rank| Extents::Rank(rank - 1)),
    };
    let what = "`predictions` without its classes and `targets`";
    let each = infer.require_same_shape("C3", &without_classes, &targets, what)?;
    if weighted {
        let classes = predictions.dims().map(|dims| dims[class_axis(dims.len())].clone());
        let expected = classes.map_or(Extents::Rank(1), |count: Dim| Extents::Known(vec![count]));
        let weights = infer.tensor("weights")?.extents;
        let what = "`weights` and the classes of `predictions`";
        infer.require_same_shape("C4", &weights, &expected, what)?;
    }
    Ok(each)
}

/// (C,) or (N, C, …).
fn class_axis(rank: usize) -> usize {
    usize::from(rank > 1)
}

fn nll_loss(eval: &Eval) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    let predictions = eval.tensor("predictions")?;
    let classes = predictions.shape()[class_axis(predictions.rank())];
    let weights = eval.optional_tensor("weights")?.map(|tensor| tensor.to_floats());
    let ignored = i128::from(eval.int("ignore_index"));
    let values = predictions.to_floats();
    let targets = eval.tensor("targets")?.to_ints();
    // Pixels of one sample lie next to each other; classes are a plane apart.
    let plane: usize = predictions.shape().iter().skip(2).product();
    let (mut losses, mut used) = (Vec::with_capacity(targets.len()), Vec::new());
    for (at, &target) in targets.iter().enumerate() {
        if target == ignored {
            losses.push(0.0);
            continue;
        }
        let class = usize::try_from(target).ok().filter(|&class| class < classes);
        let Some(class) = class else {
            let message = format!("target {at} is {target}, and there are {classes} classes");
            return Err(eval.trap("C6", message));
        };
        let weight = weights.as_ref().map_or(1.0, |weights| weights[class]);
        let position = (at / plane * classes + class) * plane + at % plane;
        losses.push(-values.as_slice().expect(ROW_MAJOR)[position] * weight);
        used.push(weight);
    }
    match &*eval.str("reduction") {
        "none" => eval.floats(dtype, array(&shape, losses)),
        "sum" => eval.floats(dtype, array(&[], vec![product::sum(losses)])),
        _ => eval.floats(dtype, array(&[], vec![product::sum(losses) / product::sum(used)])),
    }
}

const ROW_MAJOR: &str = "invariant: tensors are in row-major order";
