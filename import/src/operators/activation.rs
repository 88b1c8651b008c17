//! Activations, composed where the language's own differs or there is none.

use super::arithmetic::{broadcast_call, pair};
use crate::argument::{Arg, key};
use crate::builder::{Builder, V};
use crate::node::{Importer, Node};
use crate::reason::{Done, unsupported};
use relax_semantics::tensor::Number;

pub(super) const OPERATORS: &[(&str, Importer)] = &[
    ("LeakyRelu", leaky_relu),
    ("PRelu", prelu),
    ("Elu", elu),
    ("Selu", selu),
    ("Celu", celu),
    ("ThresholdedRelu", thresholded),
    ("HardSigmoid", hard_sigmoid),
    ("HardSwish", hard_swish),
    ("Mish", mish),
    ("Softsign", softsign),
    ("Softplus", softplus_node),
    ("Gelu", gelu),
    ("Shrink", shrink),
    ("Swish", swish),
];

/// A scalar of the dtype of `x`.
pub(crate) fn like(node: &Builder, x: V, value: f64) -> Arg {
    Arg::Scalar(node.dtype(x), Number::Float(value))
}

/// `a` where `x > limit`, else `b`.
pub(crate) fn above(node: &mut Builder, x: V, limit: f64, a: V, b: V) -> Done<V> {
    let condition = with_number(node, "greater", x, limit)?;
    select(node, condition, a, b)
}

pub(crate) fn binary(node: &mut Builder, operator: &str, x: V, y: V) -> Done<V> {
    node.call(operator, &[x.into(), y.into()])
}

/// A binary operator on a tensor and a number of its dtype.
pub(crate) fn with_number(node: &mut Builder, operator: &str, x: V, number: f64) -> Done<V> {
    let number = like(node, x, number);
    node.call(operator, &[x.into(), number])
}

pub(crate) fn select(
    node: &mut Builder,
    condition: V,
    yes: impl Into<Arg>,
    no: impl Into<Arg>,
) -> Done<V> {
    node.call("where", &[condition.into(), yes.into(), no.into()])
}

pub(crate) fn scaled(node: &mut Builder, x: V, by: f64) -> Done<V> {
    if by == 1.0 { Ok(x) } else { with_number(node, "multiply", x, by) }
}

pub(crate) fn plus(node: &mut Builder, x: V, by: f64) -> Done<V> {
    with_number(node, "add", x, by)
}

fn leaky_relu(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let alpha = node.float("alpha", 0.01);
    Ok(vec![node.call("leakyrelu", &[x.into(), key("alpha", alpha)])?])
}

fn prelu(node: &mut Node) -> Done<Vec<V>> {
    let (x, slope) = (node.input(0)?, node.input(1)?);
    let scaled = broadcast_call(node, "multiply", &[slope, x])?;
    let zero = like(node, x, 0.0);
    let negative = node.call("less", &[x.into(), zero])?;
    Ok(vec![node.call("where", &[negative.into(), scaled.into(), x.into()])?])
}

/// `exp(x * by) - 1`
pub(crate) fn grown(node: &mut Builder, x: V, by: f64) -> Done<V> {
    let x = scaled(node, x, by)?;
    let grown = node.call("exp", &[x.into()])?;
    plus(node, grown, -1.0)
}

fn elu(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let grown = grown(node, x, 1.0)?;
    let alpha = node.float("alpha", 1.0);
    let low = scaled(node, grown, alpha)?;
    Ok(vec![above(node, x, 0.0, x, low)?])
}

fn selu(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let (alpha, gamma) = (node.float("alpha", 1.673_263_2), node.float("gamma", 1.050_701));
    let grown = grown(node, x, 1.0)?;
    let low = scaled(node, grown, alpha)?;
    let joined = above(node, x, 0.0, x, low)?;
    Ok(vec![scaled(node, joined, gamma)?])
}

fn celu(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let alpha = node.float("alpha", 1.0);
    let grown = grown(node, x, 1.0 / alpha)?;
    let low = scaled(node, grown, alpha)?;
    Ok(vec![above(node, x, 0.0, x, low)?])
}

fn thresholded(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let zero = node.call("zeros_like", &[x.into()])?;
    let alpha = node.float("alpha", 1.0);
    Ok(vec![above(node, x, alpha, x, zero)?])
}

/// `max(0, min(1, alpha * x + beta))`
pub(crate) fn hard(node: &mut Builder, x: V, alpha: f64, beta: f64) -> Done<V> {
    let line = scaled(node, x, alpha)?;
    let line = plus(node, line, beta)?;
    let (zero, one) = (like(node, x, 0.0), like(node, x, 1.0));
    let low = node.call("minimum", &[line.into(), one])?;
    node.call("maximum", &[low.into(), zero])
}

fn hard_sigmoid(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let (alpha, beta) = (node.float("alpha", 0.2), node.float("beta", 0.5));
    Ok(vec![hard(node, x, alpha, beta)?])
}

fn hard_swish(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let gate = hard(node, x, 1.0 / 6.0, 0.5)?;
    Ok(vec![pair(node, "multiply", x, gate)?])
}

/// `log(1 + exp(x))` for every x, without a threshold.
pub(crate) fn softplus(node: &mut Builder, x: V) -> Done<V> {
    let zero = like(node, x, 0.0);
    node.call("log_add_exp", &[x.into(), zero])
}

fn softplus_node(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    Ok(vec![softplus(node, x)?])
}

fn mish(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let soft = softplus(node, x)?;
    let gate = node.call("tanh", &[soft.into()])?;
    Ok(vec![pair(node, "multiply", x, gate)?])
}

fn softsign(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let size = node.call("abs", &[x.into()])?;
    let below = plus(node, size, 1.0)?;
    Ok(vec![pair(node, "divide", x, below)?])
}

fn gelu(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let operator = match node.string("approximate", "none")?.as_str() {
        "none" => "gelu",
        "tanh" => "gelu_tanh",
        other => return unsupported(format!("approximate = {other:?}")),
    };
    Ok(vec![node.call(operator, &[x.into()])?])
}

fn shrink(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let (bias, lambda) = (node.float("bias", 0.0), node.float("lambd", 0.5));
    let zero = node.call("zeros_like", &[x.into()])?;
    let high = plus(node, x, -bias)?;
    let low = plus(node, x, bias)?;
    let limit = like(node, x, -lambda);
    let below = node.call("less", &[x.into(), limit])?;
    let rest = node.call("where", &[below.into(), low.into(), zero.into()])?;
    Ok(vec![above(node, x, lambda, high, rest)?])
}

fn swish(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let alpha = node.float("alpha", 1.0);
    let steep = scaled(node, x, alpha)?;
    let gate = node.call("sigmoid", &[steep.into()])?;
    Ok(vec![pair(node, "multiply", x, gate)?])
}

/// `2 * sinh(x / 2) * exp(x / 2)`, which loses nothing near 0. Below -100 the result is -1 in every dtype.
pub(crate) fn exp_minus_one(node: &mut Builder, x: V) -> Done<V> {
    let low = like(node, x, -100.0);
    let bounded = node.call("maximum", &[x.into(), low])?;
    let half = scaled(node, bounded, 0.5)?;
    let odd = node.call("sinh", &[half.into()])?;
    let even = node.call("exp", &[half.into()])?;
    let product = pair(node, "multiply", odd, even)?;
    scaled(node, product, 2.0)
}

/// `2 * atanh(x / (x + 2))` where x is small, which loses nothing there, and `log(x + 1)` elsewhere.
pub(crate) fn log_plus_one(node: &mut Builder, x: V) -> Done<V> {
    let two = plus(node, x, 2.0)?;
    let quotient = pair(node, "divide", x, two)?;
    let near = node.call("atanh", &[quotient.into()])?;
    let near = scaled(node, near, 2.0)?;
    let one = plus(node, x, 1.0)?;
    let far = node.call("log", &[one.into()])?;
    let size = node.call("abs", &[x.into()])?;
    let half = like(node, x, 0.5);
    let is_small = node.call("less", &[size.into(), half])?;
    node.call("where", &[is_small.into(), near.into(), far.into()])
}
