//! Elements in other places: shapes, orders of axes, parts put together, and padding.

use super::super::call::{Call, Row};
use super::creation::{fixed, grid};
use crate::argument::{Arg, key};
use crate::builder::{Content, V};
use crate::operators::shape::{concatenated, permuted};
use crate::operators::slice::pad_open;
use crate::reason::{Done, invalid};
use relax_syntax::dim::{Dim, DimOp};

pub(super) const ROWS: &[(&str, Row)] = &[
    ("reshape", |call| {
        let dims = fixed_or_kept(call)?;
        Ok(vec![reshaped(call, dims)?])
    }),
    ("dynamic_reshape", |call| {
        let dims = call.extents_of(1, "output_shape")?;
        Ok(vec![reshaped(call, dims)?])
    }),
    ("transpose", transpose),
    ("reverse", reverse),
    ("concatenate", concatenate),
    ("pad", |call| {
        let lists = [
            call.ints_named(&["low", "edge_padding_low"])?,
            call.ints_named(&["high", "edge_padding_high"])?,
            call.ints_named(&["interior", "interior_padding"])?,
        ];
        let [low, high, interior] =
            lists.map(|list| list.into_iter().map(Dim::Int).collect::<Vec<Dim>>());
        pad(call, &low, &high, &interior)
    }),
    ("dynamic_pad", |call| {
        let low = call.extents_of(2, "edge_padding_low")?;
        let high = call.extents_of(3, "edge_padding_high")?;
        let interior = call.extents_of(4, "interior_padding")?;
        pad(call, &low, &high, &interior)
    }),
];

/// The dims of the result, where the one that is `?` follows from the number of elements.
fn fixed_or_kept(call: &mut Call) -> Done<Vec<Dim>> {
    let (dims, _) = call.result(0)?;
    if dims.iter().filter(|dim| dim.is_none()).count() != 1 {
        return fixed(call);
    }
    let x = call.arg(0)?;
    let all = Dim::product(&call.dims(x));
    let known = dims.iter().flatten().try_fold(1_i64, |n, &dim| n.checked_mul(dim));
    let Some(known) = known.filter(|&known| known > 0) else { return fixed(call) };
    let left = call.dim(DimOp::FloorDiv, &all, &Dim::Int(known));
    Ok(dims.into_iter().map(|dim| dim.map_or_else(|| left.clone(), Dim::Int)).collect())
}

fn reshaped(call: &mut Call, dims: Vec<Dim>) -> Done<V> {
    let x = call.arg(0)?;
    if let Some(elements) = grid(call.walk, x).filter(|_| call.tensor(x).is_none()) {
        let dtype = call.dtype(x);
        return Ok(call.add(dims, dtype, Content::Dims(elements)));
    }
    // A broadcast of one element is one in each shape.
    if let Some(&source) = call.walk.sources.get(&x)
        && call.rank(source) == 0
    {
        return super::creation::spread(call, source, dims);
    }
    crate::operators::shape::reshape(call, x, dims)
}

fn transpose(call: &mut Call) -> Done<Vec<V>> {
    let x = call.arg(0)?;
    let rank = call.rank(x);
    let axes = call.axes(&["dims", "permutation"], rank)?;
    if axes.len() != rank {
        return invalid("its permutation does not have all axes");
    }
    let axes: Vec<i64> = axes.into_iter().map(|axis| axis as i64).collect();
    Ok(vec![permuted(call, x, &axes)?])
}

fn reverse(call: &mut Call) -> Done<Vec<V>> {
    let mut x = call.arg(0)?;
    for axis in call.axes(&["dims", "dimensions"], call.rank(x))? {
        x = call.call("flip", &[x.into(), key("axis", axis)])?;
    }
    Ok(vec![x])
}

fn concatenate(call: &mut Call) -> Done<Vec<V>> {
    let first = call.arg(0)?;
    let axis = call.axis(&["dim", "dimension"], call.rank(first))?;
    let inputs = call.args.clone();
    if call.rank(first) == 2 && axis == 0 {
        let grids: Option<Vec<Vec<Dim>>> = inputs.iter().map(|&v| grid(call.walk, v)).collect();
        let columns = call.dims(first)[1].clone();
        if let (Some(grids), Some(width)) = (grids, columns.as_int().filter(|&width| width > 0)) {
            let elements = grids.concat();
            let rows = elements.len() as i64 / width;
            let dtype = call.dtype(first);
            let is_open = elements.iter().any(|dim| dim.as_int().is_none());
            if is_open {
                let dims = vec![Dim::Int(rows), columns];
                return Ok(vec![call.add(dims, dtype, Content::Dims(elements))]);
            }
        }
    }
    Ok(vec![concatenated(call, inputs, axis as i64)?])
}

fn pad(call: &mut Call, low: &[Dim], high: &[Dim], interior: &[Dim]) -> Done<Vec<V>> {
    let (x, value) = call.two()?;
    let rank = call.rank(x);
    if [low.len(), high.len(), interior.len()].iter().any(|&length| length != rank) {
        return invalid("its padding has not one entry an axis");
    }
    Ok(vec![padded(call, x, value, [low, high, interior])?])
}

/// Padding between elements first, then around them; a negative width takes away.
pub(super) fn padded(
    call: &mut Call,
    mut x: V,
    value: V,
    [low, high, interior]: [&[Dim]; 3],
) -> Done<V> {
    for (axis, between) in interior.iter().enumerate() {
        if *between != Dim::Int(0) {
            x = spaced(call, x, value, axis, between)?;
        }
    }
    let (mut axes, mut starts, mut ends, mut widths) = (vec![], vec![], vec![], vec![]);
    for axis in 0..call.rank(x) {
        let extent = call.dims(x)[axis].clone();
        let is_negative = |dim: &Dim| dim.as_int().is_some_and(|width| width < 0);
        let (mut start, mut end) = (Dim::Int(0), extent.clone());
        for (width, side) in [(&low[axis], 0), (&high[axis], 1)] {
            if !is_negative(width) {
                widths.push(width.clone());
                continue;
            }
            widths.push(Dim::Int(0));
            match side {
                0 => start = call.dim(DimOp::Sub, &Dim::Int(0), width),
                _ => end = call.dim(DimOp::Add, &extent, width),
            }
        }
        if start != Dim::Int(0) || end != extent {
            axes.push(axis as i64);
            starts.push(start);
            ends.push(call.dim(DimOp::Max, &end, &Dim::Int(0)));
        }
    }
    if !axes.is_empty() {
        let args = [x.into(), Arg::from(axes), Arg::Dims(starts), Arg::Dims(ends)];
        x = call.call("strided_slice", &args)?;
    }
    if widths.iter().all(|width| *width == Dim::Int(0)) {
        return Ok(x);
    }
    let is_number = widths.iter().all(|width| width.as_int().is_some());
    let known = call.tensor(value).filter(|value| value.len() == 1);
    match known {
        Some(known) if is_number && !matches!(known.number(0).as_f64(), v if v.is_nan()) => {
            let value = known.number(0).as_f64();
            call.call("pad", &[x.into(), Arg::Dims(widths), key("pad_value", value)])
        }
        _ => pad_open(call, x, &widths, "constant", value),
    }
}

/// `count` times the value between each two elements along an axis.
fn spaced(call: &mut Call, x: V, value: V, axis: usize, count: &Dim) -> Done<V> {
    let own = call.dims(x);
    let step = call.dim(DimOp::Add, count, &Dim::Int(1));
    let mut apart = own.clone();
    apart.insert(axis + 1, Dim::Int(1));
    let x = crate::operators::shape::reshape(call, x, apart)?;
    let mut widths = vec![Dim::Int(0); 2 * (own.len() + 1)];
    widths[2 * (axis + 1) + 1] = count.clone();
    let x = pad_open(call, x, &widths, "constant", value)?;
    let mut dims = own.clone();
    dims[axis] = call.dim(DimOp::Mul, &own[axis], &step);
    let x = crate::operators::shape::reshape(call, x, dims.clone())?;
    let end = call.dim(DimOp::Sub, &dims[axis], count);
    let end = call.dim(DimOp::Max, &end, &Dim::Int(0));
    let axes = Arg::from(vec![axis as i64]);
    call.call(
        "strided_slice",
        &[x.into(), axes, Arg::Dims(vec![Dim::Int(0)]), Arg::Dims(vec![end])],
    )
}
