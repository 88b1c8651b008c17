//! Elements and slices by index. ONNX counts negative indices from the end, the language takes them for
//! out of range: they are wrapped before.

use super::arithmetic::pair;
use crate::argument::{Arg, key};
use crate::builder::{Builder, Line, V};
use crate::node::{Importer, Node};
use crate::reason::{Done, Reason, invalid, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

pub(super) const OPERATORS: &[(&str, Importer)] = &[
    ("Gather", gather),
    ("GatherElements", gather_elements),
    ("GatherND", gather_nd),
    ("OneHot", one_hot),
    ("Compress", compress),
    ("NonZero", non_zero),
    ("ReverseSequence", reverse_sequence),
];

/// Indices of which negative ones count from the end.
pub(crate) fn wrapped(node: &mut Builder, indices: V, extent: &Dim) -> Done<V> {
    if let Some(tensor) = node.tensor(indices)
        && (0..tensor.len()).all(|p| tensor.number(p).as_f64() >= 0.0)
    {
        return Ok(indices);
    }
    if counts_up(node, indices) {
        return Ok(indices);
    }
    let dtype = node.dtype(indices);
    let extent = node.integers(vec![extent.clone()], 0, dtype);
    let zero = Arg::Scalar(dtype, Number::Int(0));
    let negative = node.call("less", &[indices.into(), zero])?;
    let from_end = node.call("add", &[indices.into(), extent.into()])?;
    node.call("where", &[negative.into(), from_end.into(), indices.into()])
}

/// Whether a line makes these indices so that none is negative.
fn counts_up(node: &Builder, indices: V) -> bool {
    let made = node.lines.iter().rev().find_map(|line| match line {
        Line::Call { targets, operator, args } if targets == &[indices] => Some((operator, args)),
        _ => None,
    });
    made.is_some_and(|(operator, args)| match operator.as_str() {
        "argmax" | "argmin" => true,
        // With one bound it starts at 0.
        "arange" => args.iter().filter(|arg| !matches!(arg, Arg::Key(..))).count() == 1,
        _ => false,
    })
}

fn gather(node: &mut Node) -> Done<Vec<V>> {
    let (x, indices) = (node.input(0)?, node.input(1)?);
    let axis = node.axis(node.int("axis", 0), node.rank(x))?;
    if let (Some(elements), Some(places), None) =
        (node.elements(x), node.tensor(indices), node.tensor(x))
        && places.rank() <= 1
    {
        let length = elements.len() as i64;
        let pick = |place: usize| {
            let at = places.number(place).as_f64() as i64;
            let at = if at < 0 { at + length } else { at };
            usize::try_from(at).ok().and_then(|at| elements.get(at).cloned())
        };
        let picked: Option<Vec<Dim>> = (0..places.len()).map(pick).collect();
        let picked =
            picked.ok_or_else(|| Reason::Invalid("an index is out of range".to_owned()))?;
        let (rank, dtype) = (places.rank(), node.dtype(x));
        return Ok(vec![node.integers(picked, rank, dtype)]);
    }
    let extent = node.dims(x)[axis].clone();
    let indices = wrapped(node, indices, &extent)?;
    Ok(vec![node.call("take", &[x.into(), indices.into(), key("axis", axis)])?])
}

fn gather_elements(node: &mut Node) -> Done<Vec<V>> {
    let (x, indices) = (node.input(0)?, node.input(1)?);
    let axis = node.axis(node.int("axis", 0), node.rank(x))?;
    let extent = node.dims(x)[axis].clone();
    let indices = wrapped(node, indices, &extent)?;
    Ok(vec![node.call("gather_elements", &[x.into(), indices.into(), key("axis", axis)])?])
}

/// Index tuples in the last dim, wrapped by the extents that they index.
pub(super) fn wrapped_tuples(node: &mut Builder, x: V, indices: V, batch: usize) -> Done<V> {
    let width = node.dims(indices).last().and_then(Dim::as_int);
    let width =
        width.ok_or_else(|| Reason::Unsupported("index tuples of unknown length".to_owned()))?;
    let dims = node.dims(x);
    let Some(extents) = dims.get(batch..batch.saturating_add(width as usize)) else {
        return invalid("index tuples are longer than the rank of the data");
    };
    if let Some(tensor) = node.tensor(indices)
        && (0..tensor.len()).all(|p| tensor.number(p).as_f64() >= 0.0)
    {
        return Ok(indices);
    }
    let extents = node.integers(extents.to_vec(), 1, DType::I64);
    let zero = Arg::Scalar(DType::I64, Number::Int(0));
    let negative = node.call("less", &[indices.into(), zero])?;
    let from_end = pair(node, "add", indices, extents)?;
    node.call("where", &[negative.into(), from_end.into(), indices.into()])
}

fn gather_nd(node: &mut Node) -> Done<Vec<V>> {
    let (x, indices) = (node.input(0)?, node.input(1)?);
    let batch = node.int("batch_dims", 0);
    let indices = wrapped_tuples(node, x, indices, usize::try_from(batch).unwrap_or(0))?;
    Ok(vec![node.call("gather_nd", &[x.into(), indices.into(), key("batch_dims", batch)])?])
}

fn one_hot(node: &mut Node) -> Done<Vec<V>> {
    let (indices, depth, values) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let depth = match node.tensor(depth).filter(|tensor| tensor.len() == 1) {
        Some(depth) => Dim::Int(depth.number(0).as_f64() as i64),
        None => {
            let depth = super::elementwise::convert(node, depth, DType::I64)?;
            let depth = node.extents(depth, "depth")?;
            depth.first().cloned().ok_or_else(|| Reason::Invalid("`depth` is empty".to_owned()))?
        }
    };
    let indices = super::elementwise::convert(node, indices, DType::I64)?;
    let indices = wrapped(node, indices, &depth)?;
    let axis = node.int("axis", -1);
    let value = |node: &mut Node, index: i64| {
        let place = node.vector(&[index]);
        let one = node.call("take", &[values.into(), place.into(), key("axis", 0_i64)])?;
        node.call("reshape", &[one.into(), Arg::Shape(Vec::new())])
    };
    let (off, on) = (value(node, 0)?, value(node, 1)?);
    let args = [indices.into(), on.into(), off.into(), depth.into(), key("axis", axis)];
    Ok(vec![node.call("one_hot", &args)?])
}

fn non_zero(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let rank = node.rank(x).max(1) as i64;
    let result = node.call("nonzero", &[x.into()])?;
    node.builder.values[result.0].dims[0] = Dim::Int(rank);
    Ok(vec![result])
}

fn compress(node: &mut Node) -> Done<Vec<V>> {
    let (x, condition) = (node.input(0)?, node.input(1)?);
    let (x, axis) = match node.optional_int("axis") {
        Some(axis) => (x, node.axis(axis, node.rank(x))?),
        None => (node.call("flatten", &[x.into()])?, 0),
    };
    let places = node.call("nonzero", &[condition.into()])?;
    node.builder.values[places.0].dims[0] = Dim::Int(1);
    let places = node.call("squeeze", &[places.into(), key("axis", vec![0_i64])])?;
    Ok(vec![node.call("take", &[x.into(), places.into(), key("axis", axis)])?])
}

fn reverse_sequence(node: &mut Node) -> Done<Vec<V>> {
    let (x, lengths) = (node.input(0)?, node.input(1)?);
    let (time, batch) = (node.int("time_axis", 0), node.int("batch_axis", 1));
    if node.rank(x) < 2 {
        return unsupported("a vector");
    }
    let args = [x.into(), lengths.into(), key("seq_axis", time), key("batch_axis", batch)];
    Ok(vec![node.call("reverse_sequence", &args)?])
}
