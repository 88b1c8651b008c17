//! Tensors into which elements are written.

use super::gather::wrapped_tuples;
use crate::argument::key;
use crate::builder::V;
use crate::node::{Importer, Node};
use crate::reason::{Done, invalid};

pub(super) const OPERATORS: &[(&str, Importer)] = &[
    ("Scatter", scatter_elements),
    ("ScatterElements", scatter_elements),
    ("ScatterND", scatter_nd),
];

fn reduction(node: &Node) -> Done<&'static str> {
    Ok(match node.string("reduction", "none")?.as_str() {
        "none" => "update",
        "add" => "add",
        "mul" => "mul",
        "max" => "max",
        "min" => "min",
        other => return invalid(format!("reduction {other:?}")),
    })
}

fn scatter_elements(node: &mut Node) -> Done<Vec<V>> {
    let (x, indices, updates) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let axis = node.axis(node.int("axis", 0), node.rank(x))?;
    let mut args = vec![x.into(), indices.into(), updates.into(), key("axis", axis)];
    if reduction(node)? != "update" {
        args.push(key("reduction", reduction(node)?));
    }
    Ok(vec![node.call("scatter_elements", &args)?])
}

fn scatter_nd(node: &mut Node) -> Done<Vec<V>> {
    let (x, indices, updates) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let indices = wrapped_tuples(node, x, indices, 0)?;
    let mut args = vec![x.into(), indices.into(), updates.into()];
    if reduction(node)? != "update" {
        args.push(key("reduction", reduction(node)?));
    }
    Ok(vec![node.call("scatter_nd", &args)?])
}
