//! The operators of ONNX, by family: how each is composed of those of the language.

pub(crate) mod activation;
pub(crate) mod arithmetic;
mod attention;
pub(crate) mod convolution;
mod creation;
pub(crate) mod elementwise;
mod gather;
mod grid;
mod linear;
mod loss;
mod norm;
mod order;
pub(crate) mod pooling;
mod quantize;
mod recurrent;
pub(crate) mod reduce;
mod resize;
mod resize_open;
mod scatter;
mod sequence;
pub(crate) mod shape;
mod signal;
pub(crate) mod slice;

use crate::control;
use crate::node::Importer;
use crate::proto;
use crate::reason::Reason;
use crate::rows::{Table, find, names};

pub(crate) use recurrent::MOST_STEPS;

const FAMILIES: &[Table<Importer>] = &[
    arithmetic::OPERATORS,
    attention::OPERATORS,
    activation::OPERATORS,
    convolution::OPERATORS,
    creation::OPERATORS,
    elementwise::OPERATORS,
    gather::OPERATORS,
    grid::OPERATORS,
    linear::OPERATORS,
    loss::OPERATORS,
    norm::OPERATORS,
    order::OPERATORS,
    pooling::OPERATORS,
    quantize::OPERATORS,
    recurrent::OPERATORS,
    reduce::OPERATORS,
    resize::OPERATORS,
    scatter::OPERATORS,
    sequence::OPERATORS,
    shape::OPERATORS,
    signal::OPERATORS,
    slice::OPERATORS,
];

/// The importer of a node's operator.
pub(crate) fn importer(node: &proto::Node) -> Option<Importer> {
    if !matches!(node.domain.as_deref(), None | Some("" | "ai.onnx")) {
        return None;
    }
    let wanted = node.op_type.as_deref()?;
    find(FAMILIES, wanted)
}

/// The least and the greatest rank of inputs, for operators that look at single dims of them.
const RANKS: &[(&str, &[usize], usize, usize)] = &[
    ("Attention", &[0, 1, 2], 3, 4),
    ("Attention", &[4, 5], 4, 4),
    ("RotaryEmbedding", &[0], 3, 4),
    ("RNN", &[0, 1, 2], 3, 3),
    ("GRU", &[0, 1, 2], 3, 3),
    ("LSTM", &[0, 1, 2], 3, 3),
    ("AffineGrid", &[0], 3, 3),
];

/// Refuses inputs of the wrong rank.
pub(crate) fn check_ranks(
    node: &proto::Node,
    rank: &dyn Fn(usize) -> Option<usize>,
) -> Result<(), Reason> {
    for (name, inputs, least, most) in RANKS {
        if node.op_type.as_deref() != Some(*name) {
            continue;
        }
        for &index in *inputs {
            if let Some(rank) = rank(index).filter(|rank| !(*least..=*most).contains(rank)) {
                return Err(Reason::Invalid(format!("input {index} has rank {rank}")));
            }
        }
    }
    Ok(())
}

/// Whether a node is imported, here or as control flow.
pub(crate) fn is_known(node: &proto::Node) -> bool {
    control::importer(node).is_some() || importer(node).is_some()
}

/// The names of all operators that are imported, in order.
#[must_use]
pub fn supported() -> Vec<&'static str> {
    let mut names = names(FAMILIES);
    names.extend(control::NAMES);
    names.sort_unstable();
    names
}
