//! Quantization.

use super::activation::like;
use super::arithmetic::pair;
use super::elementwise::convert;
use super::linear::saturated;
use super::shape::reshape;
use crate::argument::{Arg, key};
use crate::builder::V;
use crate::node::{Importer, Node};
use crate::reason::{Done, invalid};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

pub(super) const OPERATORS: &[(&str, Importer)] = &[
    ("QuantizeLinear", quantize),
    ("DequantizeLinear", dequantize),
    ("DynamicQuantizeLinear", dynamic),
];

/// A scale or zero point in the place of the broadcast: one for all, one for each index of the axis, or
/// one for each block of it.
fn placed(node: &mut Node, v: V, x: V) -> Done<V> {
    let rank = node.rank(x);
    if node.dims(v).iter().all(|dim| *dim == Dim::Int(1)) && node.rank(v) <= 1 {
        return reshape(node, v, Vec::new());
    }
    let axis = node.axis(node.int("axis", 1), rank)?;
    let block = node.int("block_size", 0);
    if block < 0 {
        return invalid(format!("blocks of {block}"));
    }
    if node.rank(v) == 1 && block == 0 {
        let mut dims = vec![Dim::Int(1); rank];
        dims[axis] = node.dims(v)[0].clone();
        return reshape(node, v, dims);
    }
    let block = Arg::from(block.max(1));
    let repeated = node.call_kept("repeat", &[v.into(), block, key("axis", axis)])?;
    let extent = node.dims(x)[axis].clone();
    if node.dims(repeated)[axis] == extent {
        return Ok(repeated);
    }
    let args = [
        repeated.into(),
        Arg::from(vec![axis as i64]),
        Arg::from(vec![0_i64]),
        Arg::Dims(vec![extent]),
    ];
    node.call("strided_slice", &args)
}

fn quantize(node: &mut Node) -> Done<Vec<V>> {
    let (x, scale) = (node.input(0)?, node.input(1)?);
    let zero = node.optional(2);
    let narrow = match zero {
        Some(zero) => node.narrow.get(&zero).copied(),
        None => node.narrow_attribute("output_dtype"),
    };
    let dtype = match (zero, narrow) {
        (_, Some(narrow)) => narrow.dtype(),
        (Some(zero), None) => node.dtype(zero),
        (None, None) => node.dtype_attribute("output_dtype")?.unwrap_or(DType::U8),
    };
    let scale = placed(node, scale, x)?;
    let common = node.dtype(scale);
    let x = convert(node, x, common)?;
    let quotient = pair(node, "divide", x, scale)?;
    let mut rounded = node.call("round", &[quotient.into()])?;
    if let Some(zero) = zero {
        rounded = convert(node, rounded, DType::F64)?;
        let zero = placed(node, zero, x)?;
        let zero = convert(node, zero, DType::F64)?;
        rounded = pair(node, "add", rounded, zero)?;
    }
    let Some(narrow) = narrow else { return Ok(vec![saturated(node, rounded, dtype)?]) };
    let limited = node.limited(rounded, narrow)?;
    let quantized = saturated(node, limited, dtype)?;
    node.narrow.insert(quantized, narrow);
    Ok(vec![quantized])
}

fn dequantize(node: &mut Node) -> Done<Vec<V>> {
    let (x, scale) = (node.input(0)?, node.input(1)?);
    let scale = placed(node, scale, x)?;
    let dtype = node.dtype(scale);
    let mut wide = convert(node, x, if dtype == DType::F64 { DType::F64 } else { DType::F32 })?;
    if let Some(zero) = node.optional(2) {
        let zero = placed(node, zero, x)?;
        let dtype = node.dtype(wide);
        let zero = convert(node, zero, dtype)?;
        wide = pair(node, "subtract", wide, zero)?;
    }
    let dtype = node.dtype(wide);
    let scale = convert(node, scale, dtype)?;
    let product = pair(node, "multiply", wide, scale)?;
    Ok(vec![convert(node, product, dtype)?])
}

/// To u8, with scale and zero point from the range of x, which is made to hold 0.
fn dynamic(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let zero = like(node, x, 0.0);
    let most = node.call("max", &[x.into()])?;
    let most = node.call("maximum", &[most.into(), zero.clone()])?;
    let least = node.call("min", &[x.into()])?;
    let least = node.call("minimum", &[least.into(), zero.clone()])?;
    let span = pair(node, "subtract", most, least)?;
    let steps = like(node, x, 255.0);
    let scale = node.call("divide", &[span.into(), steps.clone()])?;
    let start = pair(node, "divide", least, scale)?;
    let start = node.call("subtract", &[zero.clone(), start.into()])?;
    let start = node.call("maximum", &[start.into(), zero])?;
    let start = node.call("minimum", &[start.into(), steps])?;
    let start = node.call("round", &[start.into()])?;
    let quotient = pair(node, "divide", x, scale)?;
    let rounded = node.call("round", &[quotient.into()])?;
    let shifted = pair(node, "add", rounded, start)?;
    let y = saturated(node, shifted, DType::U8)?;
    let start = saturated(node, start, DType::U8)?;
    Ok(vec![y, scale, start])
}
