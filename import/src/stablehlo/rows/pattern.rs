//! What the region of a reduction, a scatter or a sort computes, where it is one of the forms that JAX writes.

use super::super::syntax::{Op, Region};
use crate::reason::{Done, unsupported};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The operator of a region that applies one to its two parameters, `stablehlo.add` as `add`.
pub(super) fn binary(region: &Region) -> Done<String> {
    if let [op, end] = region.ops.as_slice()
        && end.name.ends_with(".return")
        && region.params.len() == 2
    {
        let names: Vec<&str> = op.operands.iter().map(|operand| operand.name.as_str()).collect();
        let params: Vec<&str> = region.params.iter().map(|param| param.name.as_str()).collect();
        let is_pair = names == params || names.iter().rev().eq(params.iter());
        let gives = end.operands.len() == 1 && op.result.as_ref() == Some(&end.operands[0].name);
        if is_pair && gives {
            return Ok(op.name.trim_start_matches("stablehlo.").to_owned());
        }
    }
    unsupported(format!("its region: {}", summary(region)))
}

/// Names of the operations of a region.
pub(super) fn summary(region: &Region) -> String {
    let names = region.ops.iter().map(|op| op.name.trim_start_matches("stablehlo."));
    names.filter(|name| *name != "return").collect::<Vec<_>>().join(", ")
}

/// A region as text with values by number: parameters first, results in their order.
pub(super) fn normal(region: &Region) -> String {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    for param in &region.params {
        let next = numbers.len();
        numbers.insert(&param.name, next);
    }
    let mut text = String::new();
    for op in &region.ops {
        let _ = write!(text, "{}", shown(op));
        for operand in &op.operands {
            match numbers.get(operand.name.as_str()) {
                Some(number) => _ = write!(text, " {number}"),
                None => text += " ?",
            }
        }
        text += "; ";
        if let Some(result) = &op.result {
            let next = numbers.len();
            numbers.insert(result, next);
        }
    }
    text
}

fn shown(op: &Op) -> String {
    let name = op.name.trim_start_matches("stablehlo.");
    match super::elementwise::direction(op) {
        Ok((direction, _)) if name == "compare" => format!("compare {direction}"),
        _ => name.to_owned(),
    }
}
