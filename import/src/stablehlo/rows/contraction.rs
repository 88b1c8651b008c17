//! `dot_general` as a matrix product: batch dims first, contracted ones last on the left and second on the right.

use super::super::call::{Call, Row};
use super::super::syntax::Attribute;
use crate::argument::key;
use crate::builder::V;
use crate::operators::elementwise::convert;
use crate::operators::shape::{permuted, reshape};
use crate::reason::{Done, invalid};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[("dot_general", dot_general), ("dot", dot)];

/// Axes of both sides.
struct Axes {
    batch: [Vec<usize>; 2],
    contracted: [Vec<usize>; 2],
}

fn axes(call: &Call, attribute: Option<&Attribute>) -> Done<[Vec<usize>; 2]> {
    let Some(attribute) = attribute else { return Ok([Vec::new(), Vec::new()]) };
    let Attribute::Pair(left, right) = attribute else {
        return invalid("its dims must be two lists");
    };
    let list = |attribute: &Attribute, side: usize| -> Done<Vec<usize>> {
        let rank = call.rank(call.args[side]);
        let ints = super::super::call::ints(call.walk.text, attribute).unwrap_or_default();
        let inside = |axis: &i64| usize::try_from(*axis).ok().filter(|&axis| axis < rank);
        match ints.iter().map(inside).collect::<Option<Vec<usize>>>() {
            Some(axes) => Ok(axes),
            None => invalid("a dim beyond the rank of an operand"),
        }
    };
    Ok([list(left, 0)?, list(right, 1)?])
}

fn dot_general(call: &mut Call) -> Done<Vec<V>> {
    call.two()?;
    let numbers = match call.attribute("dot_dimension_numbers") {
        Some(Attribute::Word(_, fields)) => match &**fields {
            Attribute::Dictionary(fields) => Some(fields),
            _ => return invalid("its dimension numbers"),
        },
        _ => None,
    };
    let of = |call: &Call, pretty: &str, names: [&str; 2]| match numbers {
        Some(fields) => {
            let list = |name: &str| fields.get(name).cloned().unwrap_or(Attribute::List(vec![]));
            let pair = Attribute::Pair(Box::new(list(names[0])), Box::new(list(names[1])));
            axes(call, Some(&pair))
        }
        None => axes(call, call.attribute(pretty)),
    };
    let batch = of(call, "batching_dims", ["lhs_batching_dimensions", "rhs_batching_dimensions"])?;
    let contracted =
        of(call, "contracting_dims", ["lhs_contracting_dimensions", "rhs_contracting_dimensions"])?;
    product(call, &Axes { batch, contracted })
}

/// Of vectors and matrices, the last dim with the first one.
fn dot(call: &mut Call) -> Done<Vec<V>> {
    let (x, _) = call.two()?;
    let last = call.rank(x).saturating_sub(1);
    product(call, &Axes { batch: [vec![], vec![]], contracted: [vec![last], vec![0]] })
}

fn product(call: &mut Call, axes: &Axes) -> Done<Vec<V>> {
    let (x, y) = call.two()?;
    let (_, dtype) = call.result(0)?;
    let paired = axes.batch[0].len() == axes.batch[1].len()
        && axes.contracted[0].len() == axes.contracted[1].len();
    if !paired {
        return invalid("its dims do not come in pairs");
    }
    let free: [Vec<usize>; 2] = [0, 1].map(|side| {
        let rank = call.rank(call.args[side]);
        let taken =
            |axis: &usize| axes.batch[side].contains(axis) || axes.contracted[side].contains(axis);
        (0..rank).filter(|axis| !taken(axis)).collect()
    });
    let dims = [call.dims(x), call.dims(y)];
    let of = |side: usize, axes: &[usize]| -> Vec<Dim> {
        axes.iter().map(|&axis| dims[side][axis].clone()).collect()
    };
    let batch = of(0, &axes.batch[0]);
    let mut result = batch.clone();
    result.extend(of(0, &free[0]));
    result.extend(of(1, &free[1]));
    // Without a batch the rows of the left side may have more dims than one.
    let keeps_rows = batch.is_empty() && axes.contracted[0].len() == 1 && !free[0].is_empty();
    let left = order([&axes.batch[0], &free[0], &axes.contracted[0]]);
    let right = order([&axes.batch[1], &axes.contracted[1], &free[1]]);
    let (mut x, mut y) = (permuted(call, x, &left)?, permuted(call, y, &right)?);
    let (inner, columns) = (of(0, &axes.contracted[0]), of(1, &free[1]));
    let (inner, columns) = (Dim::product(&inner), Dim::product(&columns));
    if !keeps_rows {
        let rows = Dim::product(&of(0, &free[0]));
        x = reshape(call, x, [batch.clone(), vec![rows, inner.clone()]].concat())?;
    }
    y = reshape(call, y, [batch, vec![inner, columns]].concat())?;
    let args = [x.into(), y.into()];
    let product = match call.dtype(x) == dtype {
        true => matmul(call, x, y)?,
        false if call.dtype(x).is_float() && dtype.is_float() => {
            call.call("matmul", &[&args[..], &[key("out_dtype", dtype)]].concat())?
        }
        false => {
            let (x, y) = (convert(call, x, dtype)?, convert(call, y, dtype)?);
            matmul(call, x, y)?
        }
    };
    Ok(vec![reshape(call, product, result)?])
}

/// Of bools whether a pair is true at both places.
fn matmul(call: &mut Call, x: V, y: V) -> Done<V> {
    if call.dtype(x) != DType::Bool {
        return call.call("matmul", &[x.into(), y.into()]);
    }
    let (x, y) = (convert(call, x, DType::I32)?, convert(call, y, DType::I32)?);
    let count = call.call("matmul", &[x.into(), y.into()])?;
    convert(call, count, DType::Bool)
}

fn order(lists: [&Vec<usize>; 3]) -> Vec<i64> {
    lists.into_iter().flatten().map(|&axis| axis as i64).collect()
}
