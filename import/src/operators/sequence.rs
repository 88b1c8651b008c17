//! Lists of tensors whose length is known, and optionals of which it is known whether they hold anything:
//! they leave no trace in the program but their tensors.

use super::shape::concatenated;
use crate::argument::{Arg, key};
use crate::builder::{Content, V};
use crate::node::{Importer, Node};
use crate::reason::{Done, Reason, invalid, unsupported};
use relax_semantics::tensor::{Number, Tensor};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

pub(super) const OPERATORS: &[(&str, Importer)] = &[
    ("SequenceConstruct", construct),
    ("SequenceEmpty", empty),
    ("SequenceAt", at),
    ("SequenceInsert", insert),
    ("SequenceErase", erase),
    ("SequenceLength", length),
    ("SplitToSequence", split),
    ("ConcatFromSequence", concat),
    ("Optional", optional),
    ("OptionalHasElement", has_element),
    ("OptionalGetElement", element),
];

fn sequence(node: &mut Node, items: Vec<V>) -> V {
    node.builder.add(Vec::new(), DType::F32, Content::Sequence(items))
}

fn items(node: &Node, index: usize) -> Done<Vec<V>> {
    match &node.info(node.input(index)?).content {
        Content::Sequence(items) => Ok(items.clone()),
        _ => unsupported("a sequence of unknown length"),
    }
}

fn construct(node: &mut Node) -> Done<Vec<V>> {
    let items = node.all_inputs()?;
    Ok(vec![sequence(node, items)])
}

fn empty(node: &mut Node) -> Done<Vec<V>> {
    Ok(vec![sequence(node, Vec::new())])
}

/// A position, negative ones from the end, of at most `limit`.
fn position(node: &Node, index: usize, length: usize, limit: usize) -> Done<usize> {
    let position = node.known_ints(node.input(index)?, "position")?;
    let Some(&position) = position.first() else { return invalid("the position is empty") };
    let position = if position < 0 { position + length as i64 } else { position };
    let position = usize::try_from(position).ok().filter(|&position| position <= limit);
    position.ok_or_else(|| Reason::Invalid("a position is out of range".to_owned()))
}

fn at(node: &mut Node) -> Done<Vec<V>> {
    let items = items(node, 0)?;
    let Some(limit) = items.len().checked_sub(1) else { return invalid("an empty sequence") };
    Ok(vec![items[position(node, 1, items.len(), limit)?]])
}

fn insert(node: &mut Node) -> Done<Vec<V>> {
    let mut items = items(node, 0)?;
    let place = match node.optional(2) {
        Some(_) => position(node, 2, items.len(), items.len())?,
        None => items.len(),
    };
    items.insert(place, node.input(1)?);
    Ok(vec![sequence(node, items)])
}

fn erase(node: &mut Node) -> Done<Vec<V>> {
    let mut items = items(node, 0)?;
    let Some(limit) = items.len().checked_sub(1) else { return invalid("an empty sequence") };
    let place = match node.optional(1) {
        Some(_) => position(node, 1, items.len(), limit)?,
        None => limit,
    };
    items.remove(place);
    Ok(vec![sequence(node, items)])
}

fn length(node: &mut Node) -> Done<Vec<V>> {
    let length = items(node, 0)?.len() as i64;
    Ok(vec![node.integers(vec![Dim::Int(length)], 0, DType::I64)])
}

fn split(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let axis = node.axis(node.int("axis", 0), node.rank(x))?;
    let extent = node.dims(x)[axis].as_int().filter(|&extent| extent <= 65536);
    let extent = extent.ok_or_else(|| Reason::Unsupported("parts of a symbolic dim".to_owned()))?;
    let lengths = match node.optional(1) {
        None => vec![1; usize::try_from(extent).unwrap_or(0)],
        Some(given) => {
            let lengths = node.known_ints(given, "split")?;
            match lengths.as_slice() {
                // A scalar: parts of this length, the last one what is left.
                [part] if node.rank(given) == 0 && *part > 0 => {
                    (0..extent).step_by(*part as usize).map(|at| (*part).min(extent - at)).collect()
                }
                _ => lengths,
            }
        }
    };
    let mut cuts = Vec::new();
    let mut cut = 0;
    for length in &lengths[..lengths.len().saturating_sub(1)] {
        cut = length.saturating_add(cut);
        cuts.push(cut);
    }
    let mut parts = if cuts.is_empty() {
        vec![x]
    } else {
        node.call_many("split", &[x.into(), Arg::from(cuts), key("axis", axis)])?
    };
    if node.optional(1).is_none() && node.int("keepdims", 1) == 0 {
        for part in &mut parts {
            *part = node.call("squeeze", &[(*part).into(), key("axis", vec![axis as i64])])?;
        }
    }
    Ok(vec![sequence(node, parts)])
}

fn concat(node: &mut Node) -> Done<Vec<V>> {
    let items = items(node, 0)?;
    let axis = node.int("axis", 0);
    if node.int("new_axis", 0) != 0 {
        return Ok(vec![node.call("stack", &[items.into(), key("axis", axis)])?]);
    }
    Ok(vec![concatenated(node, items, axis)?])
}

/// What an optional holds stands for it.
fn optional(node: &mut Node) -> Done<Vec<V>> {
    Ok(vec![match node.optional(0) {
        Some(value) => value,
        None => node.builder.add(Vec::new(), DType::F32, Content::Nothing),
    }])
}

fn has_element(node: &mut Node) -> Done<Vec<V>> {
    let input = node.optional(0);
    let has = input.is_some_and(|v| !matches!(node.info(v).content, Content::Nothing));
    Ok(vec![node.constant(Tensor::scalar(DType::Bool, Number::Int(has.into())))])
}

fn element(node: &mut Node) -> Done<Vec<V>> {
    let input = node.input(0)?;
    match node.info(input).content {
        Content::Nothing => invalid("an element of an optional that holds nothing"),
        _ => Ok(vec![input]),
    }
}
