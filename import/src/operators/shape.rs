//! Shapes, and tensors in other shapes: `Shape`, `Reshape`, `Expand`, `Concat`, `Split` and their like.

use super::arithmetic::{broadcast_call, pair};
use crate::argument::{Arg, key};
use crate::builder::{Builder, V};
use crate::node::{Importer, Node};
use crate::reason::{Done, invalid, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) const OPERATORS: &[(&str, Importer)] = &[
    ("Shape", shape_of),
    ("Size", size),
    ("Reshape", reshape_node),
    ("Expand", expand),
    ("Flatten", flatten),
    ("Squeeze", squeeze),
    ("Unsqueeze", unsqueeze),
    ("Transpose", transpose),
    ("Concat", concat),
    ("Split", split),
    ("Tile", tile),
    ("DepthToSpace", depth_to_space),
    ("SpaceToDepth", space_to_depth),
];

fn shape_of(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let dims = node.dims(x);
    let rank = dims.len() as i64;
    let clamp = |axis: i64| (if axis < 0 { axis + rank } else { axis }).clamp(0, rank) as usize;
    let (start, end) = (clamp(node.int("start", 0)), clamp(node.int("end", rank)));
    let dims = dims.get(start..end.max(start)).unwrap_or_default().to_vec();
    Ok(vec![node.integers(dims, 1, DType::I64)])
}

fn size(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let size = Dim::product(&node.dims(x));
    Ok(vec![node.integers(vec![size], 0, DType::I64)])
}

/// `reshape`, of integers that are dims too.
pub(crate) fn reshape(node: &mut Builder, x: V, dims: Vec<Dim>) -> Done<V> {
    if node.dims(x) == dims {
        return Ok(x);
    }
    if let (Some(elements), None) = (node.elements(x), node.tensor(x))
        && dims.len() <= 1
    {
        let dtype = node.dtype(x);
        return Ok(node.integers(elements, dims.len(), dtype));
    }
    node.call("reshape", &[x.into(), Arg::Shape(dims)])
}

fn reshape_node(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let shape = node.input(1)?;
    let keeps_zero = node.int("allowzero", 0) == 1;
    let Some(mut dims) = node.elements(shape) else {
        let dims = computed_shape(node, x, shape, keeps_zero)?;
        return Ok(vec![reshape(node, x, dims)?]);
    };
    let own = node.dims(x);
    for (axis, dim) in dims.iter_mut().enumerate() {
        if *dim == Dim::Int(0) && !keeps_zero {
            let Some(copied) = own.get(axis) else { return invalid("a 0 beyond the rank of x") };
            *dim = copied.clone();
        }
    }
    if let Some(left) = left_over(node, &own, &dims) {
        dims = left;
    }
    Ok(vec![reshape(node, x, dims)?])
}

/// The shape in which a single -1 is replaced by the quotient of the number of elements of x and the product of the other
/// dims. A shape value holds no -1, so the quotient is written also where nobody proves that it has no remainder: the
/// reshape checks the number of elements. Factors of both sides cancel first, so that an extent of 0 among them divides
/// nothing.
pub(crate) fn left_over(node: &mut Builder, own: &[Dim], dims: &[Dim]) -> Option<Vec<Dim>> {
    let open = |dim: &Dim| *dim == Dim::Int(-1);
    let at = dims.iter().position(open)?;
    let others: Vec<Dim> = dims.iter().filter(|dim| !open(dim)).cloned().collect();
    if others.len() + 1 < dims.len() {
        return None;
    }
    let (mut rest, mut divisors) = (Vec::new(), Vec::new());
    own.iter().for_each(|dim| factors(dim, &mut rest));
    others.iter().for_each(|dim| factors(dim, &mut divisors));
    cancel(&mut rest, &mut divisors, |own, dim| own == dim);
    cancel(&mut rest, &mut divisors, |own, dim| node.same(own, dim));
    let mut divisor = node.simplified(&Dim::product(&divisors));
    if !node.at_least(&divisor, 1) {
        divisor = node.dim(DimOp::Max, &divisor, &Dim::Int(1));
    }
    let mut dims = dims.to_vec();
    dims[at] = node.dim(DimOp::FloorDiv, &Dim::product(&rest), &divisor);
    Some(dims)
}

/// The factors of a product, those of its factors included.
pub(super) fn factors(dim: &Dim, found: &mut Vec<Dim>) {
    match dim {
        Dim::Op(DimOp::Mul, operands) => {
            factors(&operands.0, found);
            factors(&operands.1, found);
        }
        other => found.push(other.clone()),
    }
}

/// Takes out of both lists what they share.
pub(super) fn cancel(
    rest: &mut Vec<Dim>,
    divisors: &mut Vec<Dim>,
    mut is_same: impl FnMut(&Dim, &Dim) -> bool,
) {
    divisors.retain(|dim| match rest.iter().position(|own| is_same(own, dim)) {
        Some(at) => {
            rest.remove(at);
            false
        }
        None => true,
    });
}

/// The dims that a shape means which only the run knows: 0 copies, -1 is what is left.
fn computed_shape(node: &mut Node, x: V, shape: V, keeps_zero: bool) -> Done<Vec<Dim>> {
    let length = node.dims(shape).first().and_then(Dim::as_int).unwrap_or(0) as usize;
    let own = node.dims(x);
    let int = |value: i128| Arg::Scalar(DType::I64, Number::Int(value));
    let mut wanted = shape;
    if !keeps_zero {
        let copied = (0..length).map(|axis| own.get(axis).cloned().unwrap_or(Dim::Int(1)));
        let copied = node.integers(copied.collect(), 1, DType::I64);
        let zero = node.call("equal", &[shape.into(), int(0)])?;
        wanted = node.call("where", &[zero.into(), copied.into(), shape.into()])?;
    }
    let open = node.call("equal", &[wanted.into(), int(-1)])?;
    let ones = node.call("where", &[open.into(), int(1), wanted.into()])?;
    let product = node.call("prod", &[ones.into()])?;
    let product = node.call("maximum", &[product.into(), int(1)])?;
    let total = node.integers(vec![Dim::product(&own)], 0, DType::I64);
    let left = pair(node, "divide", total, product)?;
    let full = broadcast_call(node, "where", &[open, left, wanted])?;
    node.extents(full, "shape")
}

fn expand(node: &mut Node) -> Done<Vec<V>> {
    let (x, shape) = (node.input(0)?, node.input(1)?);
    let own = node.dims(x);
    let wanted = match node.elements(shape) {
        Some(wanted) => wanted,
        None => {
            let length = node.dims(shape).first().and_then(Dim::as_int).unwrap_or(0) as usize;
            let skipped = own.len().saturating_sub(length);
            let mut aligned = vec![Dim::Int(1); length.saturating_sub(own.len())];
            aligned.extend_from_slice(&own[skipped..]);
            let own = node.integers(aligned, 1, DType::I64);
            let one = Arg::Scalar(DType::I64, Number::Int(1));
            let stretched = node.call("equal", &[shape.into(), one])?;
            let full = node.call("where", &[stretched.into(), own.into(), shape.into()])?;
            node.extents(full, "shape")?
        }
    };
    let dims = joined_dims(&own, &wanted);
    if dims == own {
        return Ok(vec![x]);
    }
    Ok(vec![node.call("broadcast_to", &[x.into(), Arg::Shape(dims)])?])
}

/// The dims of a broadcast, where those of `wanted` decide unless they are 1.
fn joined_dims(own: &[Dim], wanted: &[Dim]) -> Vec<Dim> {
    let rank = own.len().max(wanted.len());
    let at = |dims: &[Dim], axis: usize| {
        (axis + dims.len()).checked_sub(rank).map_or(Dim::Int(1), |at| dims[at].clone())
    };
    (0..rank)
        .map(|axis| match (at(own, axis), at(wanted, axis)) {
            (own, Dim::Int(1)) => own,
            (_, wanted) => wanted,
        })
        .collect()
}

fn flatten(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let dims = node.dims(x);
    let axis = node.int("axis", 1);
    let rank = dims.len() as i64;
    let axis = if axis < 0 { axis + rank } else { axis };
    if !(0..=rank).contains(&axis) {
        return invalid(format!("axis {axis} of a tensor of rank {rank}"));
    }
    let (before, after) = dims.split_at(axis as usize);
    let dims = vec![Dim::product(before), Dim::product(after)];
    Ok(vec![reshape(node, x, dims)?])
}

fn squeeze(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let dims = node.dims(x);
    let axes = match node.ints_of("axes", 1)? {
        Some(axes) => node.axes(&axes, dims.len())?,
        None => (0..dims.len()).filter(|&axis| dims[axis] == Dim::Int(1)).collect(),
    };
    if let Some(elements) = node.elements(x).filter(|elements| elements.len() == 1) {
        let dtype = node.dtype(x);
        let rank = dims.len() - axes.len();
        return Ok(vec![node.integers(elements, rank, dtype)]);
    }
    if axes.is_empty() {
        return Ok(vec![x]);
    }
    let axes: Vec<i64> = axes.into_iter().map(|axis| axis as i64).collect();
    Ok(vec![node.call("squeeze", &[x.into(), key("axis", axes)])?])
}

fn unsqueeze(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let Some(axes) = node.ints_of("axes", 1)? else { return invalid("`axes` is missing") };
    if node.rank(x) == 0
        && axes.len() == 1
        && let Some(elements) = node.elements(x)
    {
        let dtype = node.dtype(x);
        return Ok(vec![node.integers(elements, 1, dtype)]);
    }
    Ok(vec![node.call("expand_dims", &[x.into(), key("axis", axes)])?])
}

fn transpose(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let rank = node.rank(x) as i64;
    let axes = node.ints("perm").unwrap_or_else(|| (0..rank).rev().collect());
    Ok(vec![permuted(node, x, &axes)?])
}

/// The order of axes that undoes another one.
pub(crate) fn inverse(order: &[i64]) -> Vec<i64> {
    let mut inverse = vec![0; order.len()];
    for (place, &axis) in order.iter().enumerate() {
        inverse[axis as usize] = place as i64;
    }
    inverse
}

pub(crate) fn permuted(node: &mut Builder, x: V, axes: &[i64]) -> Done<V> {
    if axes.iter().enumerate().all(|(place, &axis)| place as i64 == axis) {
        return Ok(x);
    }
    node.call("permute_dims", &[x.into(), key("axes", axes)])
}

fn concat(node: &mut Node) -> Done<Vec<V>> {
    let inputs = node.all_inputs()?;
    let axis = node.int("axis", 0);
    Ok(vec![concatenated(node, inputs, axis)?])
}

pub(crate) fn concatenated(node: &mut Builder, inputs: Vec<V>, axis: i64) -> Done<V> {
    let Some(&first) = inputs.first() else { return invalid("there is no input") };
    let elements: Option<Vec<Vec<Dim>>> = inputs.iter().map(|&v| node.elements(v)).collect();
    let is_vector = inputs.iter().all(|&v| node.rank(v) == 1);
    if let Some(elements) = elements.filter(|_| is_vector) {
        let dtype = node.dtype(first);
        return Ok(node.integers(elements.concat(), 1, dtype));
    }
    if inputs.len() == 1 {
        return Ok(first);
    }
    node.call("concat", &[inputs.into(), key("axis", axis)])
}

fn split(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let axis = node.int("axis", 0);
    let at = node.axis(axis, node.rank(x))?;
    let lengths = match (node.ints("split"), node.optional(1)) {
        (Some(ints), _) => ints.into_iter().map(Dim::Int).collect(),
        (None, Some(lengths)) => node.extents(lengths, "split")?,
        (None, None) => {
            let count = node.message.output.len() as i64;
            return even_parts(node, x, at, node.int("num_outputs", count));
        }
    };
    let mut cuts = Vec::new();
    let mut cut = Dim::Int(0);
    for length in &lengths[..lengths.len().saturating_sub(1)] {
        cut = node.dim(DimOp::Add, &cut, length);
        cuts.push(cut.clone());
    }
    parts(node, x, at, cuts)
}

/// Parts of ceildiv(dim, count), the last one what is left: what the language's `split` does too.
fn even_parts(node: &mut Node, x: V, axis: usize, count: i64) -> Done<Vec<V>> {
    if !(1..=65536).contains(&count) {
        return unsupported(format!("{count} parts"));
    }
    if count == 1 {
        return Ok(vec![x]);
    }
    let extent = node.dims(x)[axis].clone();
    let part = node.dim(DimOp::CeilDiv, &extent, &Dim::Int(count));
    if extent.as_int().is_none() {
        return node.call_many("split", &[x.into(), Arg::from(count), key("axis", axis)]);
    }
    let mut cuts = Vec::new();
    for index in 1..count {
        cuts.push(node.dim(DimOp::Mul, &part, &Dim::Int(index)));
    }
    parts(node, x, axis, cuts)
}

pub(crate) fn parts(node: &mut Builder, x: V, axis: usize, cuts: Vec<Dim>) -> Done<Vec<V>> {
    if cuts.is_empty() {
        return Ok(vec![x]);
    }
    node.call_many("split", &[x.into(), Arg::Dims(cuts), key("axis", axis)])
}

fn tile(node: &mut Node) -> Done<Vec<V>> {
    let (x, repeats) = (node.input(0)?, node.input(1)?);
    let repeats = node.extents(repeats, "repeats")?;
    Ok(vec![node.call("tile", &[x.into(), Arg::Dims(repeats)])?])
}

/// `(n, c, h, w)`, and a block size that is at least 1.
fn image(node: &Node, x: V) -> Done<(Vec<Dim>, i64)> {
    let block = node.int("blocksize", 0);
    if !(1..=1 << 16).contains(&block) || node.rank(x) != 4 {
        return invalid("blocksize must be at least 1, and x of rank 4");
    }
    Ok((node.dims(x), block))
}

fn depth_to_space(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let (dims, block) = image(node, x)?;
    let b = Dim::Int(block);
    let channels = node.dim(DimOp::FloorDiv, &dims[1], &Dim::Int(block * block));
    let (n, h, w) = (dims[0].clone(), dims[2].clone(), dims[3].clone());
    let (split, axes): (Vec<Dim>, &[i64]) = match node.string("mode", "DCR")?.as_str() {
        "DCR" => (
            vec![n.clone(), b.clone(), b.clone(), channels.clone(), h.clone(), w.clone()],
            &[0, 3, 4, 1, 5, 2],
        ),
        "CRD" => (
            vec![n.clone(), channels.clone(), b.clone(), b.clone(), h.clone(), w.clone()],
            &[0, 1, 4, 2, 5, 3],
        ),
        other => return invalid(format!("mode {other:?}")),
    };
    let x = reshape(node, x, split)?;
    let x = permuted(node, x, axes)?;
    let h = node.dim(DimOp::Mul, &h, &b);
    let w = node.dim(DimOp::Mul, &w, &b);
    Ok(vec![reshape(node, x, vec![n, channels, h, w])?])
}

fn space_to_depth(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let (dims, block) = image(node, x)?;
    let b = Dim::Int(block);
    let h = node.dim(DimOp::FloorDiv, &dims[2], &b);
    let w = node.dim(DimOp::FloorDiv, &dims[3], &b);
    let (n, c) = (dims[0].clone(), dims[1].clone());
    let split = vec![n.clone(), c.clone(), h.clone(), b.clone(), w.clone(), b];
    let x = reshape(node, x, split)?;
    let x = permuted(node, x, &[0, 3, 5, 1, 2, 4])?;
    let c = node.dim(DimOp::Mul, &c, &Dim::Int(block * block));
    Ok(vec![reshape(node, x, vec![n, c, h, w])?])
}
