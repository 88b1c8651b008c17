//! Losses.

use crate::argument::key;
use crate::builder::V;
use crate::node::{Importer, Node};
use crate::reason::Done;

pub(super) const OPERATORS: &[(&str, Importer)] = &[
    ("NegativeLogLikelihoodLoss", negative_log_likelihood),
    ("SoftmaxCrossEntropyLoss", cross_entropy),
];

fn likelihood(node: &mut Node, logs: V) -> Done<V> {
    let targets = node.input(1)?;
    let mut args = vec![logs.into(), targets.into()];
    if let Some(weights) = node.optional(2) {
        args.push(weights.into());
    }
    let reduction = node.string("reduction", "mean")?;
    args.push(key("reduction", reduction.as_str()));
    if let Some(ignored) = node.optional_int("ignore_index") {
        args.push(key("ignore_index", ignored));
    }
    node.call("nll_loss", &args)
}

fn negative_log_likelihood(node: &mut Node) -> Done<Vec<V>> {
    let logs = node.input(0)?;
    Ok(vec![likelihood(node, logs)?])
}

fn cross_entropy(node: &mut Node) -> Done<Vec<V>> {
    let scores = node.input(0)?;
    let logs = node.call("log_softmax", &[scores.into(), key("axis", 1_i64)])?;
    Ok(vec![likelihood(node, logs)?, logs])
}
