//! Constants, places along an axis, and broadcasts.

use super::super::call::{Call, Row};
use super::super::syntax::{Attribute, Elements};
use super::super::walk::Walk;
use crate::argument::{Arg, key};
use crate::builder::{Content, V};
use crate::elements::width;
use crate::operators::shape::{permuted, reshape};
use crate::reason::{Done, invalid};
use relax_semantics::tensor::Tensor;
use relax_syntax::dim::Dim;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("constant", constant),
    ("iota", |call| {
        let dims = fixed(call)?;
        let axis = iota_axis(call, dims.len())?;
        Ok(vec![iota(call, dims, axis)?])
    }),
    ("dynamic_iota", |call| {
        let dims = call.extents_of(0, "output_shape")?;
        let axis = iota_axis(call, dims.len())?;
        Ok(vec![iota(call, dims, axis)?])
    }),
    ("broadcast_in_dim", |call| {
        let dims = fixed(call)?;
        broadcast_in_dim(call, dims)
    }),
    ("dynamic_broadcast_in_dim", |call| {
        let dims = call.extents_of(1, "output_dimensions")?;
        broadcast_in_dim(call, dims)
    }),
];

/// Constants of one element that stands for all are scalars with a broadcast where they are larger.
const SPLAT: i64 = 64;

fn constant(call: &mut Call) -> Done<Vec<V>> {
    let (dims, dtype) = call.result(0)?;
    let Some(value) = call.attribute("value") else { return invalid("there is no value") };
    let count = dims.iter().try_fold(1_i64, |n, dim| n.checked_mul((*dim)?)).unwrap_or(i64::MAX);
    if let Attribute::Dense(Elements::Listed(range), _) = value {
        let text = call.walk.text[range.clone()].trim();
        // Of hexadecimal digits those of one element: quotes, `0x`, and two a byte.
        let is_one = !text.starts_with('"') || text.len() == 4 + 2 * width(dtype);
        let is_splat = !text.is_empty() && !text.starts_with('[') && is_one;
        if is_splat && (count > SPLAT || dtype.is_float() && count > 1) {
            let dims = dims.iter().map(|dim| Dim::Int(dim.unwrap_or(0))).collect();
            let one = super::super::dense::constant(text, dtype, &[]);
            let one = one.map_err(crate::reason::Reason::Invalid)?.tensor();
            let one = call.constant(one);
            return Ok(vec![spread(call, one, dims)?]);
        }
    }
    let weight = call.walk.weight(value)?;
    Ok(vec![call.weight(weight)])
}

/// The dims of a result that are all numbers.
pub(super) fn fixed(call: &Call) -> Done<Vec<Dim>> {
    let (dims, _) = call.result(0)?;
    let dims = dims.into_iter().map(|dim| dim.map(Dim::Int)).collect::<Option<Vec<Dim>>>();
    match dims {
        Some(dims) => Ok(dims),
        None => invalid("the type of its result has a `?`, and nothing says what it is"),
    }
}

fn iota_axis(call: &Call, rank: usize) -> Done<usize> {
    call.axis(&["dim", "iota_dimension"], rank)
}

fn iota(call: &mut Call, dims: Vec<Dim>, axis: usize) -> Done<V> {
    let (_, dtype) = call.result(0)?;
    let count = call.call("arange", &[dims[axis].clone().into(), key("dtype", dtype)])?;
    let mut own = vec![Dim::Int(1); dims.len() - axis];
    own[0] = dims[axis].clone();
    let count = reshape(call, count, own)?;
    let value = spread(call, count, dims)?;
    call.walk.counts.insert(value, axis);
    Ok(value)
}

fn broadcast_in_dim(call: &mut Call, dims: Vec<Dim>) -> Done<Vec<V>> {
    let mut x = call.arg(0)?;
    let mut axes = call.axes(&["dims", "broadcast_dimensions"], dims.len())?;
    if axes.len() != call.rank(x) {
        return invalid("it has not one dim of the result for each of the operand");
    }
    if let (Some([element]), true, None) =
        (call.elements(x).as_deref(), dims.len() <= 1, call.tensor(x))
        && dims.iter().all(|dim| *dim == Dim::Int(1))
    {
        let dtype = call.dtype(x);
        return Ok(vec![call.integers(vec![element.clone()], dims.len(), dtype)]);
    }
    if !axes.is_sorted() {
        let mut order: Vec<usize> = (0..axes.len()).collect();
        order.sort_by_key(|&at| axes[at]);
        let permutation: Vec<i64> = order.iter().map(|&at| at as i64).collect();
        x = permuted(call, x, &permutation)?;
        axes.sort_unstable();
    }
    let own = call.dims(x);
    let first = axes.first().copied().unwrap_or(dims.len());
    let mut wide = vec![Dim::Int(1); dims.len() - first];
    for (axis, dim) in axes.iter().zip(own) {
        wide[axis - first] = dim;
    }
    // A source of the operand is one of the result as well.
    let inner = call.walk.sources.get(&x).copied().filter(|&source| call.rank(source) == 0);
    let x = match inner {
        Some(source) => source,
        None => reshape(call, x, wide)?,
    };
    Ok(vec![spread(call, x, dims)?])
}

/// A broadcast by the rules of NumPy, which operators on elements make by themselves.
pub(super) fn spread(call: &mut Call, x: V, dims: Vec<Dim>) -> Done<V> {
    let own = call.dims(x);
    let is_same = own.len() == dims.len() && own.iter().zip(&dims).all(|(a, b)| call.same(a, b));
    if is_same {
        return Ok(x);
    }
    let count = dims.iter().try_fold(1_i64, |n, dim| n.checked_mul(dim.as_int()?));
    let is_small = count.is_some_and(|count| count <= SPLAT);
    let args = [x.into(), Arg::Shape(dims.clone())];
    let value = match is_small {
        true => call.call("broadcast_to", &args)?,
        false => call.call_kept("broadcast_to", &args)?,
    };
    if call.rank(value) == dims.len() {
        call.values[value.0].dims = dims;
    }
    call.walk.sources.insert(value, x);
    Ok(value)
}

/// Elements of constants and of integers over dims, of any rank.
pub(super) fn grid(walk: &Walk, v: V) -> Option<Vec<Dim>> {
    match &walk.builder.info(v).content {
        Content::Dims(dims) => Some(dims.clone()),
        Content::Constant(tensor) if !tensor.dtype().is_float() && tensor.len() <= 64 => {
            numbers(tensor)
        }
        _ => None,
    }
}

fn numbers(tensor: &Tensor) -> Option<Vec<Dim>> {
    tensor.to_ints().iter().map(|&value| i64::try_from(value).ok().map(Dim::Int)).collect()
}
